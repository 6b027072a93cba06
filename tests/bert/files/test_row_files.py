"""Rows of TSV, CSV, JSON Lines and Parquet, and errors for bad ones."""

import bz2
import csv
import doctest
import gzip
import lzma
import shlex
import subprocess
import sys

import pyarrow
import pytest
from pyarrow import parquet

from bert.files import row_files


def _read(tmp_path, content, file_format, **options):
    path = tmp_path / f"rows.{file_format}"
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(data)
    options = {"has_header": False} | options
    return list(row_files.read_rows(str(path), **options))


def _shown(rows):
    return [(int(row.place.split()[-1]), row.cells) for row in rows]


def test_tsv_keeps_quotes_spaces_empty_cells_and_other_line_ends(tmp_path):
    rows = _read(tmp_path, '"a\tb"\t c \n\t\n', "tsv")
    assert _shown(rows) == [(1, ['"a', 'b"', " c "]), (2, ["", ""])]
    rows = _read(tmp_path, "a\u2028b\x0b\x85\tc\r\nd\re\tf", "tsv")
    assert _shown(rows) == [(1, ["a\u2028b\x0b\x85", "c"]), (2, ["de", "f"])]


def test_the_ending_of_a_name_may_be_in_capitals(tmp_path):
    for ending, text in (("TSV", "a\tb"), ("Csv", "a,b"), ("JSONL", '["a"]')):
        (row,) = _read(tmp_path, f"{text}\n", ending)
        assert row.cell(0) == "a"


def test_csv_fields_may_hold_commas_quotes_and_line_ends(tmp_path):
    text = 'x,y\n"1, ""one""\nand",2\n3,4\n'
    rows = _read(tmp_path, text, "csv", has_header=True)
    assert rows[0].header == ["x", "y"]
    assert _shown(rows) == [(2, ['1, "one"\nand', "2"]), (4, ["3", "4"])]
    # And be longer than the csv module allows.
    rows = _read(tmp_path, "a" * 200_000 + ",b\n", "csv")
    assert [len(cell) for cell in _shown(rows)[0][1]] == [200_000, 1]


def test_json_lines_are_objects_or_arrays_and_have_no_header(tmp_path):
    text = '{"t": "a\\tb", "n": 1}\n["x", null]\n'
    rows = _read(tmp_path, text, "jsonl", has_header=True)
    assert rows[0].header is None
    assert _shown(rows) == [(1, {"t": "a\tb", "n": 1}), (2, ["x", None])]


@pytest.mark.parametrize(
    ("file_format", "text", "cell"),
    [("tsv", "a\tb\n", "a"), ("csv", '"a",b\n', "a"), ("jsonl", '["a"]', "a")],
)
def test_byte_order_mark_is_no_part_of_the_first_cell(
    tmp_path, file_format, text, cell
):
    data = b"\xef\xbb\xbf" + text.encode()
    rows = _read(tmp_path, data, file_format)
    assert _shown(rows)[0][1][0] == cell


def test_columns_are_found_by_name_and_by_number(tmp_path):
    rows = _read(tmp_path, "a\tb\tc\n1\t2\t3\n", "tsv", has_header=True)
    (row,) = rows
    assert [row.cell(column) for column in ("b", 0, -1)] == [*"213"]


@pytest.mark.parametrize(
    ("file_format", "header", "message"),
    [
        (
            "tsv",
            "a\tb",
            "line 1: 0 columns named 'x'; the columns are 'a', 'b'",
        ),
        ("tsv", "a\tb", "is the line of names missing"),
        ("tsv", "x\tb\tx", "line 1: 2 columns named 'x'"),
        ("csv", "a;x", "Commas separate the columns of a .csv file"),
        # No command, which would join columns that are separated by commas.
        ("csv", "a,b", r"is the line of names missing\?$"),
    ],
)
def test_header_without_the_name_is_an_error(
    tmp_path, file_format, header, message
):
    text = f"{header}\n1\n"
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, text, file_format, has_header=True, columns=["x"])


@pytest.mark.parametrize(
    ("file_format", "text", "column", "message"),
    [
        ("tsv", "a\tb\nc\n", 1, "line 2, column 1: missing; .* 1 column"),
        ("tsv", "a\tb\n\nc\td\n", 1, "line 2, column 1: .* 1 column"),
        ("tsv", "a\tb\nc\td\n", -3, "line 1, column -3: missing"),
        ("jsonl", '{"t": 1}', "u", "line 1, column 'u': missing; .* keys 't'"),
        ("jsonl", '["t"]', "u", "line 1, column 'u': .* 1 column"),
    ],
)
def test_row_without_the_column_is_an_error(
    tmp_path, file_format, text, column, message
):
    rows = _read(tmp_path, text, file_format)
    with pytest.raises(ValueError, match=rf"rows\.{file_format}, {message}"):
        for row in rows:
            row.cell(column)


@pytest.mark.parametrize(
    ("file_format", "data", "message"),
    [
        ("tsv", b"a\tb\nc\0\td\n", "line 2: contains a NUL byte"),
        ("csv", b"a,b\nc,d\n\0,f\n", "line 3: contains a NUL byte"),
        ("jsonl", b'["\0"]', "line 1: contains a NUL byte"),
        ("tsv", b"a\n\xff\n", "line 2: not UTF-8"),
        ("csv", b'a,b\n"c,d\ne,f\n', "line 2: not CSV"),
        ("csv", b'"a"b,c\n', "line 1: not CSV"),
        ("jsonl", b'["a"]\n["a"\n', "line 2: must be JSON"),
        ("jsonl", b'[\n{"a": "b"}\n]\n', "line 1: .*Each line is one object"),
        ("jsonl", b"3\n", "line 1: each line must be a JSON object or array"),
    ],
)
def test_unreadable_row_is_named(tmp_path, file_format, data, message):
    with pytest.raises(ValueError, match=rf"rows\.{file_format}, {message}"):
        _read(tmp_path, data, file_format)


def test_rows_of_another_width_are_errors_where_asked(tmp_path):
    text = "a\tb\nc\td\te\n"
    assert len(_read(tmp_path, text, "tsv")) == 2
    for wrong, width in ((text, 3), ("a\tb\nc\n", 1)):
        message = f"line 2: the row has {width} .* has 2"
        with pytest.raises(ValueError, match=message):
            _read(tmp_path, wrong, "tsv", same_width=True)
    # A blank line between rows of one column is an empty cell of TSV.
    rows = _read(tmp_path, "a\n\nb\n\n", "tsv", same_width=True)
    assert [row.cells for row in rows] == [["a"], [""], ["b"]]


@pytest.mark.parametrize(
    ("file_format", "text"),
    [
        ("csv", 'a,b\n\n"c\n\nd",e\n\n\nf,g\n\n'),
        ("jsonl", '["a", "b"]\n\n["c\\n\\nd", "e"]\n \n\n["f", "g"]\n'),
    ],
)
def test_blank_lines_of_csv_and_json_lines_are_skipped_and_counted(
    tmp_path, caplog, file_format, text
):
    rows = _read(tmp_path, text, file_format, same_width=True)
    assert [row.cells for row in rows] == [
        ["a", "b"],
        ["c\n\nd", "e"],
        ["f", "g"],
    ]
    assert f"rows.{file_format}: skipped 3 blank line(s)" in caplog.text


@pytest.mark.parametrize(
    ("file_format", "row"),
    [("tsv", "a\tb"), ("csv", "a,b"), ("csv", "a"), ("jsonl", '["a", "b"]')],
)
@pytest.mark.parametrize("end", ["\n\n", "\n\n \n", "\n\r\n\r\n"])
def test_blank_lines_at_the_end_are_no_rows(tmp_path, file_format, row, end):
    rows = _read(tmp_path, f"{row}\n{row}{end}", file_format, same_width=True)
    assert [line for line, _ in _shown(rows)] == [1, 2]


@pytest.mark.parametrize("text", ["", "\n", "\ufeff\n\n"])
@pytest.mark.parametrize("file_format", ["tsv", "csv", "jsonl"])
def test_empty_file_has_no_rows(tmp_path, file_format, text):
    assert _read(tmp_path, text, file_format, has_header=True) == []


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"rows\.txt: must end in \.tsv"):
        _read(tmp_path, "a\n", "txt")


@pytest.mark.parametrize(
    ("file_format", "text", "cell"),
    [
        # As released.
        ("tsv", "one\rtwo\tb\r\n", "onetwo"),
        ("csv", '"one\rtwo",b\r\n', "one\rtwo"),
        ("csv", '"one\r\ntwo",b\r\n', "one\ntwo"),
        # Python writes these on Windows if `newline` is not given.
        ("csv", "one,b\r\r\n", "one"),
        ("jsonl", '["one\\rtwo"]\r\n', "one\rtwo"),
    ],
)
def test_carriage_return_joins_words_in_tsv_alone(
    tmp_path, file_format, text, cell
):
    (row,) = _read(tmp_path, text, file_format)
    assert row.cell(0) == cell


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".gz", gzip.compress),
        (".xz", lzma.compress),
        (".bz2", bz2.compress),
    ],
)
@pytest.mark.parametrize(
    ("file_format", "text"),
    [("tsv", "x\ty\na\tb\n"), ("csv", "x,y\na,b\n"), ("jsonl", '{"x": "a"}')],
)
def test_compressed_rows_are_those_of_the_text(
    tmp_path, file_format, text, suffix, compress
):
    path = tmp_path / f"rows.{file_format.upper()}{suffix}"
    path.write_bytes(compress(text.encode()))
    (row,) = row_files.read_rows(str(path), ["x"], has_header=True)
    assert row.cell("x") == "a"


def test_rows_of_parquet_have_values_of_their_types(tmp_path):
    path = str(tmp_path / "rows.parquet")
    table = {
        "text": pyarrow.array(["a", None]).dictionary_encode(),
        "labels": [["x", "y"], []],
        "score": [0.5, float("nan")],
    }
    parquet.write_table(pyarrow.table(table), path)
    first, second = row_files.read_rows(
        path, ["text", "labels"], has_header=False, optional=("title",)
    )
    assert first.cells == {"text": "a", "labels": ["x", "y"]}
    assert second.cells == {"text": None, "labels": []}
    message = r"rows\.parquet, row 1, column 0: missing; .* 'text', 'labels'"
    with pytest.raises(ValueError, match=message):
        first.cell(0)
    with pytest.raises(ValueError, match=r"0 columns named 'body'; .*'text'"):
        list(row_files.read_rows(path, ["body"], has_header=True))
    (tmp_path / "rows.parquet").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"rows\.parquet: not Parquet"):
        list(row_files.read_rows(path, has_header=True))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252"])
@pytest.mark.parametrize(
    ("file_format", "text"),
    [
        ("csv", 'x;y\n"a;b";é\n'),
        ("csv", "x\ty\na;b\té\n"),
        ("tsv", '"x"\t"y"\n"a;b"\t"é"\n'),
    ],
)
def test_command_of_a_header_error_converts_the_table(
    tmp_path, file_format, text, encoding
):
    text = text.encode(encoding)
    with pytest.raises(ValueError, match="is converted by: ") as error:
        _read(tmp_path, text, file_format, has_header=True, columns=["x"])
    command = str(error.value).partition("is converted by: python ")[2]
    subprocess.run([sys.executable, *shlex.split(command)], check=True)
    assert (tmp_path / f"rows.{file_format}.old").exists()
    with open(tmp_path / "rows.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["x", "y"], ["a;b", "é"]]


def test_examples_of_the_docstrings():
    assert doctest.testmod(row_files) == (0, 2)

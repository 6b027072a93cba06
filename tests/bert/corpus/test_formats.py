"""The input formats."""

import bz2
import collections
import csv
import gzip
import json

import pyarrow
import pytest
from pyarrow import parquet

from bert.corpus import cleaning, formats, preparation
from bert.files import lines
from tests.support import toy_files


@pytest.fixture(name="read")
def fixtureread(tmp_path):
    """Reads documents, and gives their paragraphs without the title."""

    def read(name, text, counts=None, **rules):
        counts = collections.Counter() if counts is None else counts
        path = tmp_path / "in.txt"
        path.write_bytes(text.encode())
        rules = formats.Rules(input_format=name, **rules)
        paragraphs = formats.FORMATS[name].paragraphs
        return [
            list(
                paragraphs(
                    cleaning.without_title(each.lines, each.title, counts),
                    counts,
                )
            )
            for each in formats.read_documents([str(path)], rules)
        ]

    return read


_ARTICLES = """\
<doc id="12" url="http://x/?curid=12" title="Anarchism">
Anarchism

Anarchism is a philosophy.
History.
It began early.
</doc>
<doc id="13" url="http://x/?curid=13" title="S&amp;M "live"">
S&amp;M "live"

An album.
</doc>
<doc id="14" url="http://x/?curid=14" title="Empty">
Empty

</doc>
"""


def test_wikiextractor_gives_articles_without_titles(read):
    assert read("wikiextractor", _ARTICLES) == [
        ["Anarchism is a philosophy.", "History.", "It began early."],
        ["An album."],
        [],
    ]
    # A first paragraph that is no title stays.
    text = '<doc id="1" title="Moss">\nMoss is green.\nIt grows.\n</doc>\n'
    assert read("wikiextractor", text) == [["Moss is green.", "It grows."]]


def test_space_before_the_end_of_a_tag_hides_no_title(read):
    text = '<doc id="1" title="Moss" >\nMoss\nMoss is green.\n</doc>\n'
    assert read("wikiextractor", text) == [["Moss is green."]]


@pytest.mark.parametrize("following", ["", '<doc id="2" title="B">\nB\n</doc>'])
def test_article_without_end_names_the_line_where_it_began(read, following):
    text = '\n<doc id="1" title="A">\nA\n\nText.\n' + following
    with pytest.raises(ValueError, match=r"in\.txt, line 2: <doc> without"):
        read("wikiextractor", text)


def test_text_outside_articles_and_damaged_json_name_the_line(read):
    with pytest.raises(ValueError, match=r"line 1: expected <doc \.\.\.>"):
        read("wikiextractor", "Just some text.\n")
    with pytest.raises(ValueError, match=r"in\.txt, line 3: must be JSON"):
        read("wikiextractor", '\n{"text": "a"}\n{"text')


def test_json_of_wikiextractor_is_cleaned_as_its_other_layout(read):
    lines = [
        json.dumps({"id": "1", "title": "Moss", "text": "It is <i>green.\n|x"}),
        "",
        json.dumps({"id": "2", "title": "AT&T", "text": "AT&amp;T\n\nA firm."}),
    ]
    counts = collections.Counter()
    read = read("wikiextractor", "\n" + "\n".join(lines), counts=counts)
    assert read == [["It is  green."], ["A firm."]]
    assert set(counts.values()) == {1}
    assert len(counts) == 3


def test_json_lines_give_one_document_each(read):
    lines = [
        json.dumps({"title": "Moss", "text": "Moss\n\nIt is green.\n"}),
        "",
        json.dumps({"text": "One.\nTwo."}),
        json.dumps({"text": ""}),
        "",
    ]
    assert read("jsonl", "\n".join(lines)) == [
        ["It is green."],
        ["One.", "Two."],
        [],
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Moss is green.",
        "Moss is green.\n\nIt grows.",
        "A summary.\n \nAnd the rest.",
        "# A heading\n! an exclamation\n<a tag\n| a | table |\n[[x]]\n{}",
        "if a <b and c> d, then &lt;e&gt;",
        'One.\u2028"Two."\r\nThree.',
    ],
)
def test_text_of_json_lines_with_a_title_is_kept(read, text):
    counts = collections.Counter()
    line = json.dumps({"title": "Moss", "text": text})
    assert read("jsonl", line, counts=counts) == [
        [line for line in text.splitlines() if line.strip()]
    ]
    assert not any(counts.values())


@pytest.mark.parametrize("title", [5, None, ["5"], {"a": "5"}])
def test_a_title_that_is_no_text_is_none(read, title):
    line = json.dumps({"title": title, "text": "5\nMoss is green."})
    assert read("jsonl", line) == [["5", "Moss is green."]]


def test_title_is_dropped_where_it_is_the_first_line_and_counted(read):
    counts = collections.Counter()
    line = json.dumps({"title": "Moss", "text": " Moss \nMoss\nMoss is green."})
    assert read("jsonl", line, counts=counts) == [["Moss", "Moss is green."]]
    assert counts["titles"] == 1


def test_invalid_utf8_is_counted_and_a_json_field_chosen_by_name(read):
    counts = collections.Counter()
    line = '{"text": "One \\ud83d two.\\nThree \\ud83d\\ude00 four."}'
    (document,) = read("jsonl", line, counts=counts)
    assert document == ["One \ufffd two.", "Three \U0001f600 four."]
    assert counts["lone surrogates (replaced by U+FFFD)"] == 1
    assert read("jsonl", '{"body": "One."}', text_field="body") == [["One."]]
    # The text is then no title of itself.
    assert read("jsonl", '{"title": "One."}', text_field="title") == [["One."]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', r"line 2: must be JSON .* column"),
        ('["a"]', "line 2, column 'text': missing; the row has 1 column"),
        (
            '{"id": 1, "body": "a"}',
            r"line 2, column 'text': missing; the row has the keys 'id', "
            r"'body'\. Choose it with --text_field",
        ),
        ('{"text": 3}', "column 'text': a text must be a string; got 3"),
    ],
)
def test_malformed_json_names_file_and_line(read, line, message):
    with pytest.raises(ValueError, match=message):
        read("jsonl", '{"text": "a"}\n' + line + "\n")


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("", []),
        ("\n \n\n", []),
        ("a\nb\n\nc", [["a", "b"], ["c"]]),
        ("\n\na\n\n\n\nb\n\n", [["a"], ["b"]]),
        # As create_pretraining_data.py and the release read it.
        ("a\rb\r\n\r\nc", [["ab"], ["c"]]),
    ],
)
def test_text_splits_documents_at_empty_lines(read, text, documents):
    assert read("text", text) == documents


def test_documents_of_several_files_do_not_run_together(read, tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    paths[0].write_text("a")
    paths[1].write_text("b")
    documents = formats.read_documents(
        [str(path) for path in paths], formats.Rules(input_format="text")
    )
    assert [document.lines for document in documents] == [["a"], ["b"]]
    # Each book is one document.
    assert read("book", "\ufeffIt was\r\nlate.\r\n\r\nHe left.") == [
        ["It was late.", "He left."]
    ]


def _documents(name, path, **rules):
    read = formats.read_documents(
        [path], formats.Rules(input_format=name, **rules)
    )
    return [(document.title, document.lines) for document in read]


def _parquet(tmp_path, columns, name="rows.parquet", **options):
    path = str(tmp_path / name)
    parquet.write_table(pyarrow.table(columns), path, **options)
    return path


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_rows_of_parquet_are_documents_of_their_lines(tmp_path, compression):
    rows = [f"Moss {number}.\n\nIt is green." for number in range(150)]
    path = _parquet(
        tmp_path,
        {"id": range(150), "text": rows, "title": [None, *"a" * 149]},
        compression=compression,
        row_group_size=70,
    )
    found = _documents("parquet", path)
    assert found[0] == (None, ["Moss 0.", "It is green."])
    assert found[149] == ("a", ["Moss 149.", "It is green."])
    assert len(found) == 150
    assert _documents("parquet", f"file://{path}") == found


def test_column_of_parquet_is_chosen_by_name(tmp_path):
    path = _parquet(tmp_path, {"text": [1], "body": ["One."], "b": ["Two."]})
    assert _documents("parquet", path, text_field="b") == [(None, ["Two."])]
    message = r"row 1, column 'text': a text must be a string; got 1\. Choose"
    with pytest.raises(ValueError, match=message):
        _documents("parquet", path)


def test_rows_of_csv_are_documents_of_their_lines(tmp_path):
    long = "A long line. " * 20_000  # The csv module stops at 131,072.
    rows = [["id", "abstract", "title"], [1, 'One, "two".\n\nIt ran.\r\n', "a"]]
    rows += [[2, long, ""], [], [3, "", "c"]]
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        file.write(lines.BYTE_ORDER_MARK)
        csv.writer(file).writerows(rows)
    path = str(tmp_path / "rows.csv")
    documents = [("a", ['One, "two".', "It ran."]), ("", [long]), ("c", [])]
    assert _documents("csv", path, text_field="abstract") == documents
    packed = gzip.compress((tmp_path / "rows.csv").read_bytes())
    path = toy_files.write(tmp_path / "rows.csv.gz", packed)
    assert _documents("csv", path, text_field="abstract") == documents
    assert _documents("csv", toy_files.write(tmp_path / "empty.csv", b"")) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id;body\n1;One.\n", r"line 1: 0 columns named 'text'; .* 'id;body'"),
        (
            b"text,text\na,b\n",
            r"line 1: 2 columns named 'text'; .* Choose it with --text_field",
        ),
        (
            b"id,text\n1,One, two.\n",
            r"line 2: the row has 3 .* first row has 2",
        ),
        (b'id,text\n1,"A\nB"\n2\n', r"line 4: the row has 1 .* has 2"),
        (b'id,text\n1,"A\nB\n', r"line 2: not CSV \("),
        (b'id,text\n1,"A" B\n', r"line 2: not CSV \("),
    ],
)
def test_what_is_no_csv_is_named_with_its_line(tmp_path, content, message):
    path = toy_files.write(tmp_path / "rows.csv", content)
    with pytest.raises(ValueError, match=rf"rows\.csv, {message}"):
        _documents("csv", path)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_null_is_a_document_without_text_and_counted(read, tmp_path, kind):
    if kind == "jsonl":
        rows = [{"text": "One."}, {"text": None, "title": None}, {"text": ""}]
        path = toy_files.write(
            tmp_path / "rows", "\n".join(map(json.dumps, rows)).encode()
        )
    else:
        path = _parquet(tmp_path, {"text": ["One.", None, ""]})
    assert _documents(kind, path) == [(None, ["One."]), (None, []), (None, [])]
    rules = formats.Rules(input_format=kind)
    batch = preparation.prepare_batch(
        rules, formats.read_documents([path], rules)
    )
    assert batch.dropped == {"documents without text": 2}


@pytest.mark.parametrize(
    "text",
    [
        pyarrow.array(["One.", "Two.", "One.", None]).dictionary_encode(),
        pyarrow.array(["One.", "Two.", "One.", None], pyarrow.large_string()),
        pyarrow.array(
            ["One.", "Two.", "One.", None], pyarrow.large_string()
        ).dictionary_encode(),
    ],
    ids=["dictionary", "large", "large dictionary"],
)
def test_every_column_of_strings_is_a_text_column(tmp_path, text):
    path = _parquet(tmp_path, {"text": text, "title": text})
    assert _documents("parquet", path) == [
        ("One.", ["One."]),
        ("Two.", ["Two."]),
        ("One.", ["One."]),
        (None, []),
    ]


@pytest.mark.parametrize(
    "text",
    [
        pyarrow.array([["One."]]),
        pyarrow.array([1]).dictionary_encode(),
        pyarrow.array([b"One."]).dictionary_encode(),
    ],
    ids=["list", "numbers", "bytes"],
)
def test_column_of_something_else_is_not_a_text_column(tmp_path, text):
    path = _parquet(tmp_path, {"text": text})
    with pytest.raises(ValueError, match=r"row 1, column 'text': a text must"):
        _documents("parquet", path)


def test_lines_of_paragraphs_are_split_into_sentences(read):
    text = "One here. Two here.\n\nThree.\nFour. Five."
    rules = formats.Rules(input_format="paragraphs")
    assert read("paragraphs", text) == [
        ["One here. Two here."],
        ["Three.", "Four. Five."],
    ]
    assert preparation.prepare_batch(
        rules, [formats.Document(lines=["One here. Two here."])]
    ).texts == ["One here.\nTwo here.\n"]


def test_carriage_return_within_a_paragraph_is_a_space(tmp_path):
    path = toy_files.write(
        tmp_path / "text", b"One here.\rTwo here.\r\n\r\nThree.\n"
    )
    rules = formats.Rules(input_format="paragraphs")
    documents = formats.read_documents([path], rules)
    assert preparation.prepare_batch(rules, documents).texts == [
        "One here.\nTwo here.\n",
        "Three.\n",
    ]


def test_files_that_are_no_whole_parquet_are_named(tmp_path):
    whole = _parquet(tmp_path, {"text": ["One.", "Two."] * 999})
    with open(whole, "rb") as file:
        content = file.read()
    damaged = content[:4] + b"\xff" * 99 + content[103:]
    for broken in (content[:-9], damaged, b"", b"text"):
        path = toy_files.write(tmp_path / "cut.parquet", broken)
        with pytest.raises(ValueError, match=r"cut\.parquet: not Parquet, or"):
            _documents("parquet", path)
    with pytest.raises(ValueError, match="Pass --input_format=parquet"):
        _documents("jsonl", whole)


_DUMP = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="de">
<siteinfo><namespaces><namespace key="0" /><namespace key="6">Datei</namespace>
<namespace key="14">Kategorie</namespace></namespaces></siteinfo>
<page><title>Moos</title><ns>0</ns><id>1</id>
<revision><id>8</id><text>Alt.</text></revision>
<revision><id>9</id><model>wikitext</model>
<text>'''Moos''' ist [[Farbe|gr\xfcn]].

[[Kategorie:Pflanze]][[Datei:x.jpg|mini|Ein [[Moos]]]]
[[ datei : y.jpg|Bild]]</text></revision></page>
<page><title>Farn</title><ns>0</ns><redirect title="Moos" />
<revision><text>#REDIRECT [[Moos]]</text></revision></page>
<page><title>Hilfe:A</title><ns>12</ns><revision><text>B</text></revision></page>
<page><title>C</title><ns>0</ns>
<revision><model>json</model><text>{}</text></revision></page>
<page><title>Gras</title><ns>0</ns>
<revision><text>Gras.</text></revision></page>
<page><title>Leer</title><ns>0</ns></page>
</mediawiki>
"""


def test_articles_of_a_mediawiki_dump_are_documents(tmp_path):
    path = toy_files.write(tmp_path / "x.xml.bz2", bz2.compress(_DUMP.encode()))
    rules = formats.Rules(input_format="mediawiki")
    (moss, data, grass, empty) = formats.read_documents([path], rules)
    assert (moss.title, data.title, data.lines) == ("Moos", "C", [])
    assert (grass.lines, empty.title, empty.lines) == (["Gras."], "Leer", [])
    paragraphs = formats.FORMATS["mediawiki"].paragraphs
    assert list(paragraphs(moss.lines, collections.Counter())) == [
        "Moos ist gr\xfcn."
    ]


def test_incomplete_dumps_are_refused(read, tmp_path):
    with pytest.raises(ValueError, match=r"in\.txt: expected <mediawiki>, got"):
        read("mediawiki", "<html></html>")
    with pytest.raises(ValueError, match=r"got <x{57}\.\.\.>\. Is this"):
        read("mediawiki", f"<{'x' * 5000}></{'x' * 5000}>")
    with pytest.raises(
        ValueError, match=r"in\.txt, line 17: not XML .* truncated"
    ):
        read("mediawiki", _DUMP[:-60])
    with pytest.raises(ValueError, match=r"in\.txt, line 1: not XML"):
        read("mediawiki", "")
    cut = bz2.compress(_DUMP.encode())[:-20]
    path = toy_files.write(tmp_path / "cut.xml.bz2", cut)
    with pytest.raises(
        ValueError, match=r"cut\.xml\.bz2: damaged or truncated"
    ):
        _documents("mediawiki", path)

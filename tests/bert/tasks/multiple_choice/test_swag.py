"""SWAG files as distributed, other layouts, sequences and predictions."""

import numpy as np
import pytest

from bert.tasks import sentence_pairs
from bert.tasks.multiple_choice import swag
from tests.support import toy_files, toy_swag

_HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
    "ending0,ending1,ending2,ending3"
)
# As pandas writes them: only fields with a comma, a quote or a line end are
# quoted, quotes are doubled, an empty field is empty.
_TRAIN = (
    _HEADER + ",label\n"
    "0,anetv_dm5WXFiQZUQ,18419,He rides the motorcycle down the hall. He,"
    "He rides the motorcycle down the hall.,He,gold1-orig,"
    'looks at her.,"says, ""Stop"", and stops.",,"two\nlines.",1\n'
    "1,lsmdc3001_21_JUMP-371,3,A woman steps out. Someone,"
    '"A woman, alone, steps out.",,gen-orig,waits.,runs.,"","a ""b""",3\n'
)
_SPECIAL = {"[CLS]": 1, "[SEP]": 2}


class _Tokenizer:
    """A word is a token; its id is 10 and its length."""

    def tokenize(self, text):
        return text.split()

    def convert_tokens_to_ids(self, tokens):
        return [_SPECIAL.get(token, 10 + len(token)) for token in tokens]


def _write(tmp_path, text, name="train.csv"):
    return toy_files.write(tmp_path / name, text)


def _read(path, *, with_labels=True, **columns):
    columns = swag.Columns(**columns)
    return list(swag.read_examples(path, columns, with_labels=with_labels))


def _convert(example, max_seq_length, counts):
    truncation = sentence_pairs.Truncation(max_seq_length=max_seq_length)
    return swag.example_record(example, truncation, _Tokenizer(), counts)


@pytest.mark.parametrize(
    ("labels", "has_labels", "warning"),
    [
        ("03", True, ""),
        # Missing in all rows, or in some.
        (("", ""), False, ""),
        (("0", ""), False, "line 3, column 'label'"),
        ("x0", False, "line 2, column 'label'"),
    ],
)
def test_a_file_to_predict_has_the_labels_of_all_rows_or_none(
    tmp_path, caplog, labels, has_labels, warning
):
    header = "sent1,sent2,ending0,ending1,ending2,ending3,label\n"
    rows = "".join(f"a,b,c,d,e,f,{label}\n" for label in labels)
    path = _write(tmp_path, header + rows)
    assert swag.has_labels(path, swag.Columns()) == has_labels
    assert warning in caplog.text and bool(warning) == bool(caplog.text)


def test_rows_are_read_as_they_are_distributed(tmp_path):
    assert _read(_write(tmp_path, _TRAIN)) == [
        swag.Example(
            first="He rides the motorcycle down the hall.",
            second="He",
            endings=(
                "looks at her.",
                'says, "Stop", and stops.',
                "",
                "two\nlines.",
            ),
            label_id=1,
        ),
        swag.Example(
            first="A woman, alone, steps out.",
            second="",
            endings=("waits.", "runs.", "", 'a "b"'),
            label_id=3,
        ),
    ]


def test_test_file_has_no_labels(tmp_path):
    rows = [("one", "two", ["a", "b", "c", "d"], 2)]
    path = toy_swag.write(tmp_path / "test.csv", rows, with_labels=False)
    (example,) = _read(path, with_labels=False)
    assert example.endings == ("a", "b", "c", "d")
    assert example.label_id == 0
    with pytest.raises(ValueError, match="0 columns named 'label'"):
        _read(path)


def test_other_columns_and_number_of_choices(tmp_path):
    text = "label,sent1,sent2,A,B,C\n1,why?,,x,y,z\n2,how?,,u,v,w\n"
    examples = _read(_write(tmp_path, text), ending_columns=("A", "B", "C"))
    assert [e.label_id for e in examples] == [1, 2]
    assert examples[0].first == "why?" and examples[0].second == ""
    assert examples[0].endings == ("x", "y", "z")


def test_tsv_and_json_lines_are_known_by_their_names(tmp_path):
    columns = {"ending_columns": ("e0", "e1")}
    expected = [swag.Example(first='a"', second="d", endings=("b", "c"))]
    tsv = _write(
        tmp_path,
        'sent1\tsent2\te0\te1\tlabel\na"\td\tb\tc\t0\n',
        "train.tsv",
    )
    jsonl = _write(
        tmp_path,
        '{"label": 0, "sent1": "a\\"", "sent2": "d", "e0": "b", "e1": "c"}\n',
        "train.jsonl",
    )
    assert _read(tsv, **columns) == expected
    assert _read(jsonl, **columns) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _TRAIN.replace("ending3", "ending9", 1),
            r"train\.csv, line 1: 0 columns named 'ending3'",
        ),
        (
            _TRAIN.replace(",3\n", ",4\n"),
            r"train\.csv, line 4, column .*'label'.*"
            r"unknown label '4'; allowed: '0', '1', '2', '3'\.$",
        ),
        (_TRAIN.replace(",3\n", ",\n"), "line 4.*the label is empty"),
        (_TRAIN.replace(",3\n", ",3,x\n"), "line 4: the row has "),
        (
            _TRAIN.splitlines()[0] + "\n",
            r"train\.csv: the file has no example",
        ),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        _read(_write(tmp_path, text))


def test_each_ending_is_a_sequence_of_two_segments():
    example = swag.Example(
        first="a bb", second="ccc", endings=("dddd", "", "e ff"), label_id=2
    )
    counts = sentence_pairs.TruncationCounts()
    record = _convert(example, 9, counts)
    np.testing.assert_array_equal(
        record["input_ids"],
        [
            [1, 11, 12, 2, 13, 14, 2, 0, 0],
            [1, 11, 12, 2, 13, 2, 0, 0, 0],
            [1, 11, 12, 2, 13, 11, 12, 2, 0],
        ],
    )
    np.testing.assert_array_equal(record["input_mask"].sum(1), [7, 6, 8])
    np.testing.assert_array_equal(
        record["segment_ids"],
        [
            [0, 0, 0, 0, 1, 1, 1, 0, 0],
            [0, 0, 0, 0, 1, 1, 0, 0, 0],
            [0, 0, 0, 0, 1, 1, 1, 1, 0],
        ],
    )
    assert record["label_ids"] == [2]
    assert (counts.num_pieces, counts.num_dropped) == (12, 0)
    # Longer text is cut, and nothing at all is one segment.
    example = swag.Example(first="a a a a", second="", endings=("b b", ""))
    record = _convert(example, 7, counts)
    assert (counts.num_examples, counts.num_cut) == (2, 1)
    assert counts.num_dropped == 2
    np.testing.assert_array_equal(
        record["segment_ids"], [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(record["input_mask"].sum(1), [7, 6])


def test_records_hold_all_rows_and_count_what_was_cut(caplog):
    examples = [
        swag.Example(first="a", second="b", endings=("c", "d " * n), label_id=1)
        for n in (1, 9)
    ]
    truncation = sentence_pairs.Truncation(max_seq_length=6)
    with caplog.at_level("WARNING"):
        rows = [
            row
            for (row,) in swag.records(
                examples, truncation, _Tokenizer(), "train.csv"
            )
        ]
    assert [row["label_ids"] for row in rows] == [[1], [1]]
    assert rows[1]["input_ids"].shape == (2, 6)
    # Of 6 and 14 pieces, "a" and "b" before both endings, 8 are dropped.
    assert (
        "train.csv: 1 of 2 examples are longer than 6 word pieces and are cut: "
        "8 of 20 pieces (40.0%)"
    ) in caplog.text
    assert "--max_seq_length" in caplog.text


def test_predictions_name_a_choice_for_each_row():
    outputs = np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], np.float32)
    places = swag.Columns(ending_columns=("x", "y", "z")).label_set()
    assert list(swag.prediction_lines(places, outputs)) == [
        *(",pred\n", "0,2\n", "1,0\n"),
    ]

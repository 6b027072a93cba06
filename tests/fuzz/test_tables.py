"""Damaged TSV, CSV and JSON Lines, and the tasks that read them."""

import csv
import io
import json

import hypothesis
import pytest
from hypothesis import strategies

from bert.files import row_files
from bert.tasks import task
from bert.tasks.classification import class_labels, datasets
from bert.tasks.multiple_choice import swag
from tests.fuzz import harness, mutations

_ROWS = (
    {"text": "A fine day.", "other": "Is it?", "label": "yes", "score": 2.5},
    {"text": 'He said "no",\tthen', "other": "x", "label": "no", "score": 1},
    {"text": "東京", "other": "it's 1, 2", "label": "yes", "score": -3},
)
_COLUMNS = ("text", "other", "label", "score")
_SINGLE = class_labels.LabelSet(names=("yes", "no"))
_SCORE = class_labels.LabelSet(problem_type=task.REGRESSION)


def _csv_text() -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, _COLUMNS)
    writer.writeheader()
    writer.writerows(_ROWS)
    return file.getvalue().encode()


_GOODS = {
    "tsv": "\n".join(
        ["\t".join(_COLUMNS)]
        + [
            "\t".join(str(c).replace("\t", " ") for c in row.values())
            for row in _ROWS
        ]
    ).encode(),
    "csv": _csv_text(),
    "jsonl": "".join(f"{json.dumps(row)}\n" for row in _ROWS).encode(),
}


def _cases(kind: str):
    return mutations.endless(2, [_GOODS[kind]], mutations.TEXT_WORDS)


def _meant(content: bytes, kind: str) -> list:
    """Reads rows by the standard library alone."""
    text = content.decode("utf-8").removeprefix("\ufeff")
    text = text.replace("\r", "") if kind == "tsv" else text
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip(" "):
        lines.pop()
    if kind == "csv":
        text = "\n".join(lines)
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        return [row for row in rows if row]
    if kind == "tsv":
        return [line.split("\t") for line in lines]
    return [json.loads(line) for line in lines if line.strip()]


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_rows_are_the_standard_library_s_or_an_error(check, kind):
    def read(path):
        return [
            row.cells for row in row_files.read_rows(path, has_header=False)
        ]

    check(
        read,
        f"rows.{kind}",
        _cases(kind),
        # As text, so that NaN equals itself.
        lambda rows, content: repr(rows) == repr(_meant(content, kind)),
    )


@pytest.mark.parametrize("label_set", [_SINGLE, _SCORE], ids=["class", "score"])
@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_examples_have_texts_and_labels_or_an_error(check, kind, label_set):
    label = "label" if label_set is _SINGLE else "score"
    layout = datasets.Layout(
        text_a="text",
        text_b="other",
        label=label,
        same_width=True,
    )

    def read(path):
        return datasets.read_examples(path, layout, label_set)

    def is_right(found, content):
        rows = _meant(content, kind)
        if kind != "jsonl":
            header, *rows = rows
            rows = [dict(zip(header, row, strict=True)) for row in rows]
        return [(e.text_a, e.text_b, e.label) for e in found] == [
            (row["text"], row["other"], label_set.parse(row[label]))
            for row in rows
            if not label_set.is_missing(row[label])
        ]

    check(read, f"train.{kind}", _cases(kind), is_right)


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_labels_found_are_those_of_the_rows_or_an_error(check, kind):
    layout = datasets.Layout(text_a="text", label="label")

    def is_right(found, content):
        rows = _meant(content, kind)
        if kind == "jsonl":
            cells = [row["label"] for row in rows]
        else:
            at = rows[0].index("label")
            cells = [row[at] for row in rows[1:]]
        return {found.parse(cell) for cell in cells} == set(found.names)

    check(
        lambda path: datasets.discover_labels(path, layout, task.SINGLE_LABEL),
        f"train.{kind}",
        _cases(kind),
        is_right,
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_choices_are_texts_or_an_error(check, kind):
    layout = swag.Columns(ending_columns=("sent1", "sent2"))
    good = _GOODS[kind].replace(b"no", b"0").replace(b"yes", b"1")
    good = good.replace(b"text", b"sent1").replace(b"other", b"sent2")

    def is_right(found, content):
        return all(
            isinstance(text, str) and example.label_id in (0, 1)
            for example in found
            for text in (example.first, example.second, *example.endings)
        )

    check(
        lambda path: list(swag.read_examples(path, layout, with_labels=True)),
        f"train.{kind}",
        mutations.endless(2, [good], mutations.TEXT_WORDS),
        is_right,
    )


@pytest.mark.slow
@pytest.mark.parametrize("num_cases", [harness.NUM_SLOW])
def test_json_lines_come_back_whatever_they_hold(tmp_path, num_cases):
    path = tmp_path / "rows.jsonl"
    value = strategies.recursive(
        strategies.none()
        | strategies.booleans()
        | strategies.integers()
        | strategies.floats(allow_nan=False)
        | strategies.text(),
        lambda inside: (
            strategies.lists(inside)
            | strategies.dictionaries(strategies.text(), inside)
        ),
        max_leaves=8,
    )

    @harness.examples(num_cases)
    @hypothesis.given(strategies.lists(strategies.lists(value)))
    def claim(rows):
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        read = row_files.read_rows(str(path), has_header=False)
        assert [row.cells for row in read] == rows

    claim()


def test_csv_comes_back_whatever_it_holds(tmp_path, num_cases):
    path = tmp_path / "rows.csv"
    cell = strategies.text(
        strategies.characters(codec="utf-8", exclude_characters="\0\r\ufeff")
    )
    row = strategies.lists(cell, min_size=2, max_size=5)

    @harness.examples(num_cases)
    @hypothesis.given(strategies.lists(row))
    def claim(rows):
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(rows)
        path.write_bytes(file.getvalue().encode())
        read = row_files.read_rows(str(path), has_header=False)
        assert [row.cells for row in read] == rows

    claim()

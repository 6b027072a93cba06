"""Splits of a table: shares of labels, formats, and errors."""

import collections
import csv
import gzip
import itertools
import json

import pyarrow
import pytest
from pyarrow import parquet

from tests.support import programs
from tools import split_table

_ROWS = [
    (f'text "{n}",\nand', "abc"[(n % 10 > 5) + (n % 10 > 8)])
    for n in range(200)
]


def _split(folder, name="all.csv", **options):
    options = {"label_column": "label", **options}
    split_table.run(
        programs.parse(
            split_table.Options,
            input_file=folder / name,
            output_dir=folder / "split",
            **options,
        )
    )
    return folder / "split"


def _write(folder, rows=_ROWS, header=("text", "label")):
    with open(folder / "all.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def _read(folder, name):
    with open(folder / name, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, [tuple(row) for row in rows]


def _parts(folder, **options):
    out = _split(folder, **options)
    return {
        path.stem: _read(out, path.name)[1] for path in sorted(out.iterdir())
    }


def test_labels_have_the_same_share_in_each_file(tmp_path):
    _write(tmp_path)
    parts = _parts(tmp_path)
    assert _read(tmp_path / "split", "dev.csv")[0] == ["text", "label"]
    assert sorted(itertools.chain(*parts.values())) == sorted(_ROWS)
    assert {
        name: collections.Counter(label for _, label in rows)
        for name, rows in parts.items()
    } == {
        "train": {"a": 96, "b": 48, "c": 16},
        "dev": {"a": 12, "b": 6, "c": 2},
        "test": {"a": 12, "b": 6, "c": 2},
    }
    # Rows stay in their order.
    assert parts["train"] == [x for x in _ROWS if x in set(parts["train"])]
    assert _parts(tmp_path) == parts
    assert _parts(tmp_path, seed=1)["test"] != parts["test"]


def test_a_fraction_of_0_writes_no_file(tmp_path):
    _write(tmp_path)
    parts = _parts(tmp_path, dev_fraction=0, test_fraction=0.25)
    assert {name: len(rows) for name, rows in parts.items()} == {
        "train": 150,
        "test": 50,
    }


@pytest.mark.parametrize("seed", range(5))
def test_each_label_is_in_the_training_file(tmp_path, seed):
    _write(tmp_path, [*_ROWS[:42], ("x", "rare"), ("y", "two"), ("z", "two")])
    parts = _parts(tmp_path, seed=seed, test_fraction=0.4, dev_fraction=0.4)
    known = [label for _, label in parts["train"]]
    # No more rows than needed are taken out of the other files.
    assert known.count("rare") == known.count("two") == 1
    several = [("x", "p,q"), ("y", "p"), ("z", "q, r"), ("w", "")] * 5
    _write(tmp_path, [*several, ("v", "q,s")])
    parts = _parts(
        tmp_path, seed=seed, test_fraction=0.4, problem_type="multi_label"
    )
    assert "q,s" in {label for _, label in parts["train"]}


def test_scores_have_the_same_spread_in_each_file(tmp_path):
    _write(tmp_path, [(f"t{n}", str(n / 10)) for n in range(100)])
    parts = _parts(tmp_path, problem_type="regression")
    means = {
        name: sum(float(score) for _, score in rows) / len(rows)
        for name, rows in parts.items()
    }
    assert means == pytest.approx({"train": 5, "dev": 5, "test": 5}, abs=0.5)
    with pytest.raises(ValueError, match="--problem_type=regression"):
        _split(tmp_path)


def test_formats_are_those_of_the_table(tmp_path):
    rows = [{"text": f"t{n}", "label": n % 2, "n": None} for n in range(40)]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "all.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    out = _split(tmp_path, "all.jsonl.gz")
    lines = [
        line
        for name in ("train", "dev", "test")
        for line in (out / f"{name}.jsonl").read_text().splitlines()
    ]
    assert sorted(map(json.loads, lines), key=str) == sorted(rows, key=str)
    parquet.write_table(
        pyarrow.Table.from_pylist(rows), tmp_path / "all.parquet"
    )
    out = _split(tmp_path, "all.parquet")
    read = [
        row
        for name in ("train", "dev", "test")
        for row in parquet.read_table(out / f"{name}.parquet").to_pylist()
    ]
    assert sorted(read, key=str) == sorted(rows, key=str)
    (tmp_path / "all.tsv").write_text('"a"\tx\nb\ty\n' * 20)
    out = _split(tmp_path, "all.tsv", label_column="-1")
    lines = (out / "train.tsv").read_text().splitlines()
    assert collections.Counter(lines) == {'"a"\tx': 16, "b\ty": 16}


def test_wrong_tables_and_fractions_are_errors(tmp_path):
    _write(tmp_path, header=("text", "stars"))
    with pytest.raises(ValueError, match="0 columns named 'label'; the col"):
        _split(tmp_path)
    with pytest.raises(ValueError, match=r"leave rows to train on; got 0\.5"):
        _split(tmp_path, dev_fraction=0.5, test_fraction=0.5)
    (tmp_path / "all.csv").write_text("")
    with pytest.raises(ValueError, match=r"all\.csv: the file has no rows"):
        _split(tmp_path)
    _write(tmp_path, _ROWS[:3])
    with pytest.raises(ValueError, match="--test_fraction must leave rows"):
        _split(tmp_path)
    (tmp_path / "all.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"all\.xlsx: must end in \.tsv"):
        _split(tmp_path, "all.xlsx")

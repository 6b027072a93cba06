"""The share of minimal pairs whose acceptable sentence scores higher."""

import json
import lzma

import pytest

from paper import blimp
from tests.support import golden_models, locations, programs, toy_files
from tools import score_text

_BLIMP = locations.DATA / "blimp/blimp.jsonl.xz"


def _write(folder, paradigm, field, *pairs):
    folder.mkdir(exist_ok=True)
    rows = [
        {
            "sentence_good": good,
            "sentence_bad": bad,
            "field": field,
            "linguistics_term": "agreement",
            "UID": paradigm,
        }
        for good, bad in pairs
    ]
    toy_files.write_json_lines(folder / f"{paradigm}.jsonl", rows)


def test_shares_and_standard_errors_worked_by_hand():
    pairs = [
        blimp.Pair(good="a", bad="b", paradigm=paradigm, field=field)
        for paradigm, field in (("x", "f"), ("x", "f"), ("y", "f"), ("z", "g"))
    ]
    table = blimp.shares(pairs, [True, False, True, True])
    assert [(s.level, s.name, s.num_pairs, s.num_right) for s in table] == [
        ("all", "all", 4, 3),
        *(("field", "f", 3, 2), ("field", "g", 1, 1)),
        *(("paradigm", "x", 2, 1), ("paradigm", "y", 1, 1)),
        ("paradigm", "z", 1, 1),
    ]
    assert table[0].value == 0.75
    # sqrt(0.75 * 0.25 / 4)
    assert table[0].standard_error == pytest.approx(0.21650635)


def _run(folder):
    """Scores the pairs in `data`; returns the model and the results."""
    model = golden_models.bert(folder / "bert", task="pretraining")
    blimp.run(
        blimp.Options(
            model=str(model),
            data_dir=str(folder / "data"),
            output_dir=str(folder / "out"),
        )
    )
    return model, programs.eval_results(folder / "out")


def test_pairs_are_right_where_score_text_says_so(tmp_path, capsys):
    pairs = {
        "one": [("it rained", "rained it"), ("the rain fell", "fell rain the")],
        # Equal scores are not right.
        "two": [("no rain fell", "no rain fall"), ("it is dry", "it is dry")],
    }
    _write(tmp_path / "data", "one", "syntax", *pairs["one"])
    _write(tmp_path / "data", "two", "morphology", *pairs["two"])
    model, results = _run(tmp_path)
    expected = {}
    for name, field in (("one", "syntax"), ("two", "morphology")):
        texts = [text for pair in pairs[name] for text in pair]
        options = score_text.Options(model=str(model), format="json")
        score_text.main(options, texts)
        scores = [
            json.loads(line)["score"]
            for line in capsys.readouterr().out.splitlines()
        ]
        right = [a > b for a, b in zip(scores[::2], scores[1::2], strict=True)]
        expected[f"eval_blimp_{field}"] = sum(right) / 2
    expected["eval_blimp"] = sum(expected.values()) / 2
    assert results.pop("eval_blimp_error") == pytest.approx(
        (expected["eval_blimp"] * (1 - expected["eval_blimp"]) / 4) ** 0.5
    )
    assert results == pytest.approx(expected)
    rows = (tmp_path / "out" / blimp.TABLE).read_text().splitlines()
    assert [row.split("\t")[:3] for row in rows] == [
        ["level", "name", "pairs"],
        ["all", "all", "4"],
        *(["field", "morphology", "2"], ["field", "syntax", "2"]),
        *(["paradigm", "one", "2"], ["paradigm", "two", "2"]),
    ]


def test_a_line_that_is_no_pair_is_named(tmp_path):
    _write(tmp_path, "one", "syntax", ("a", "b"))
    with (tmp_path / "one.jsonl").open("a") as file:
        file.write('{"sentence_good": "a", "sentence_bad": "b"}\n')
    with pytest.raises(ValueError, match=r"one\.jsonl, line 2\.field is miss"):
        blimp.read(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no \*\.jsonl file"):
        blimp.read(str(tmp_path / "nothing"))


def test_two_spellings_of_a_field_are_one(tmp_path):
    _write(tmp_path, "one", "syntax/semantics", ("a", "b"))
    _write(tmp_path, "two", "syntax_semantics", ("a", "b"))
    fields = {pair.field for pair in blimp.read(str(tmp_path))}
    assert fields == {"syntax_semantics"}


@pytest.mark.shared
@pytest.mark.skipif(not _BLIMP.exists(), reason=f"needs {_BLIMP}")
def test_random_weights_are_right_about_half_of_the_pairs(tmp_path):
    with lzma.open(_BLIMP, "rt") as file:
        rows = [json.loads(line) for line in file][::67]
    _write(
        tmp_path / "data",
        "all",
        "syntax",
        *((row["good"], row["bad"]) for row in rows),
    )
    _, results = _run(tmp_path)
    assert abs(results["eval_blimp"] - 0.5) < 4 * results["eval_blimp_error"]

"""Predictions of tools.predict and of exported models are the scripts'."""

import pathlib
import shutil

import numpy as np
import pytest

from bert.tasks.tagging import tag_schemes
from tests.support import (
    serving_client,
    tool_runs,
    toy_files,
    toy_sentences,
    toy_squad,
    toy_swag,
    toy_tagging,
)
from vocab import tokenization

pytestmark = pytest.mark.integration
# float32 in another order of operations: of `predict`, of exported graphs.
_PREDICT, _EXPORT = 2e-5, 1e-5
_ask = tool_runs.answers


def _export(model):
    return tool_runs.exported(model, model / "served")


def _model_json(version):
    return toy_files.read_json(pathlib.Path(version, "model.json"))


def _copied(out, predictions):
    """Copies the trial that predicted elsewhere, and removes the others."""
    trial = next(out.glob(f"trial-*/{predictions}")).parent
    copy = shutil.copytree(trial, out.parent / "copied")
    shutil.rmtree(out)
    return copy


def _run_classifier(folder, labels=None, **changes):
    """Trains on toy data; returns run, texts of the test and predictions."""
    data = toy_sentences.write_data(folder / "data")
    for path in (data / "train.tsv", data / "dev.tsv") if labels else ():
        text = path.read_text()
        for old, new in labels.items():
            text = text.replace(f"\t{old}\n", f"\t{new}\n")
        path.write_text(text)
    out = toy_sentences.run(folder, do_train=True, do_predict=True, **changes)
    if "num_trials" in changes:
        out = _copied(out, "predictions.jsonl")
    texts = toy_files.read_lines(data / "test.tsv")[1:]
    return out, texts, toy_files.read_json_lines(out / "predictions.jsonl")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"long_text": "head_tail", "max_seq_length": 6},
        {"long_text": "windows", "max_seq_length": 6},
        {"strip_accents": False},
    ],
    ids=["head", "head_tail", "windows", "accents"],
)
def test_classes(tmp_path, changes):
    out, texts, expected = _run_classifier(
        tmp_path, num_train_epochs=1, **changes
    )
    labels = [row["label"] for row in expected]
    probabilities = [list(row["probabilities"].values()) for row in expected]
    rows = _ask(out, *texts)
    assert [row["label"] for row in rows] == labels
    np.testing.assert_allclose(
        [list(row["probabilities"].values()) for row in rows],
        probabilities,
        atol=_PREDICT,
    )
    if changes.get("long_text") == "windows":
        return  # Not exported.
    version = _export(out)
    if not changes:
        _check_requests(out, version)
    (got,) = serving_client.ask(version, {"text_a": texts})
    assert got["label"] == labels
    np.testing.assert_allclose(
        got["probabilities"], probabilities, atol=_EXPORT
    )
    described = _model_json(version)
    assert described["task"] == "classification"
    assert described["labels"] == ["no", "yes"]
    assert described["max_seq_length"] == changes.get("max_seq_length", 24)
    assert described["do_lower_case"] is True
    assert described["strip_accents"] is changes.get("strip_accents", True)


def test_scores(tmp_path):
    out, texts, expected = _run_classifier(
        tmp_path, {"no": "0.5", "yes": "4.5"}, problem_type="regression"
    )
    scores = [row["score"] for row in expected]
    rows = _ask(out, *texts)
    np.testing.assert_allclose(
        [row["score"] for row in rows], scores, atol=1e-4
    )
    (got,) = serving_client.ask(_export(out), {"text_a": texts})
    np.testing.assert_allclose(got["score"], scores, atol=_EXPORT)


def test_several_labels(tmp_path):
    out, texts, expected = _run_classifier(
        tmp_path,
        {"no": "sad,any", "yes": "any"},
        do_eval=True,
        problem_type="multi_label",
        num_train_epochs=1,
        num_trials=2,
    )
    version = _export(out)
    (got,) = serving_client.ask(version, {"text_a": texts})
    model = _model_json(version)
    names = model["labels"]
    rows = zip(
        expected,
        _ask(out, *texts),
        got["probabilities"],
        got["is_chosen"],
        strict=True,
    )
    for line, row, probabilities, is_chosen in rows:
        assert row["labels"] == line["labels"]
        assert row["probabilities"] == pytest.approx(
            line["probabilities"], abs=_PREDICT
        )
        assert dict(zip(names, probabilities, strict=True)) == pytest.approx(
            line["probabilities"], abs=_EXPORT
        )
        chosen = zip(names, is_chosen, strict=True)
        assert [name for name, kept in chosen if kept] == line["labels"]


def _check_requests(out, version):
    """Checks pairs without a second text, wrong bytes, no text, and ids."""
    texts = ["good match", "", b"b\xffad \xf0town", "good " * 99]
    (alone,) = serving_client.ask(version, {"text_a": texts})
    asked = {"text_a": texts, "text_b": ["", " ", "\u200b", ""]}
    (pairs,) = serving_client.ask(version, asked, signature="pairs")
    assert pairs == alone
    decoded = ["good match", "", "bad town", "good " * 22]
    same, empty = serving_client.ask(
        version, {"text_a": decoded}, {"text_a": []}
    )
    np.testing.assert_allclose(
        same["probabilities"], alone["probabilities"], atol=_EXPORT
    )
    assert empty == {"label": [], "probabilities": []}
    tokenizer = tokenization.FullTokenizer(str(out / "vocab.txt"))
    ids = tokenizer.convert_tokens_to_ids(["[CLS]", "good", "match", "[SEP]"])
    rows = {"input_ids": [[*ids, 0]], "input_mask": [[1, 1, 1, 1, 0]]}
    (by_ids,) = serving_client.ask(
        version, rows | {"segment_ids": [[0] * 5]}, signature="ids"
    )
    np.testing.assert_allclose(
        by_ids["probabilities"], alone["probabilities"][:1], atol=_EXPORT
    )


@pytest.mark.parametrize("version_2", [False, True])
def test_answers(tmp_path, version_2):
    out = toy_squad.run(
        tmp_path,
        do_train=True,
        do_predict=True,
        do_eval=version_2,
        version_2_with_negative=version_2,
        num_trials=1 + version_2,
    )
    if version_2:
        out = _copied(out, "predictions.json")
    paragraphs = toy_files.read_json(tmp_path / "dev.json")["data"][0]
    ids, questions, contexts = zip(
        *(
            (q["id"], q["question"], p["context"])
            for p in paragraphs["paragraphs"]
            for q in p["qas"]
        ),
        strict=True,
    )
    predictions = toy_files.read_json(out / "predictions.json")
    expected = [predictions[name] for name in ids]
    nbest = toy_files.read_json(out / "nbest_predictions.json")
    path = toy_files.write_lines(
        tmp_path / "asked.txt",
        map(" ||| ".join, zip(questions, contexts, strict=True)),
    )
    rows = _ask(out, input_file=path)
    assert [row["answer"] for row in rows] == expected
    for row, name in zip(rows, ids, strict=True):
        answers = {each["text"]: each["probability"] for each in nbest[name]}
        assert row["probability"] == pytest.approx(
            answers.get(row["answer"], 0.0), abs=_PREDICT
        )
    version = _export(out)
    asked = {"question": list(questions), "context": list(contexts)}
    (got,) = serving_client.ask(version, asked)
    assert got["answer"] == expected
    places = zip(contexts, expected, got["start"], got["end"], strict=True)
    for context, text, start, end in places:
        assert context[max(start, 0) : max(end, 0)] == text
    if version_2:
        odds = list(toy_files.read_json(out / "null_odds.json").values())
        np.testing.assert_allclose(got["null_odds"], odds, atol=_EXPORT)


def _tagged(folder, context, **changes):
    """Trains a tagger; returns run, sentences of the test and their tags."""
    toy_tagging.write_all(folder, num_sentences=60, num_layers=4)
    out = toy_tagging.run(
        folder,
        do_train=True,
        do_predict=True,
        num_train_epochs=2,
        context=context,
        **changes,
    )
    if "num_trials" in changes:
        out = _copied(out, "test_predictions.txt")
    blocks = (out / "test_predictions.txt").read_text().split("\n\n")
    rows = [
        [line.split(" ") for line in block.splitlines()]
        for block in blocks
        if block.strip()
    ]
    texts = [" ".join(row[0] for row in sentence) for sentence in rows]
    return out, texts, [[row[-1] for row in s] for s in rows]


def test_tags(tmp_path):
    out, texts, expected = _tagged(
        tmp_path, "sentence", do_eval=True, num_trials=2
    )
    tags = [row["tags"] for row in _ask(out, *texts)]
    # Files have well-formed tags.
    assert [list(tag_schemes.to_iob2(row)) for row in tags] == expected
    (exported,) = serving_client.ask(_export(out), {"text": texts})
    assert [list(filter(None, row)) for row in exported["tags"]] == tags


def test_a_tagger_on_features_is_not_served(tmp_path):
    out, *_ = _tagged(tmp_path, "sentence", features="last")
    with pytest.raises(ValueError, match=r"a BiLSTM .* is not served"):
        _export(out)


def test_choices(tmp_path):
    train, test = toy_swag.copying(200, seed=1), toy_swag.copying(12, seed=2)
    toy_swag.write(tmp_path / "train.csv", train)
    toy_swag.write(tmp_path / "test.csv", test, with_labels=False)
    out = toy_swag.run(tmp_path, do_train=True, do_predict=True)
    expected = np.loadtxt(out / "test_results.tsv")
    texts = [
        " ||| ".join([first, second, *endings])
        for first, second, endings, _ in test
    ]
    version = _export(out)
    columns = list(zip(*test, strict=True))
    (served,) = serving_client.ask(
        version,
        {
            "first": list(columns[0]),
            "second": list(columns[1]),
            "endings": [list(endings) for endings in columns[2]],
        },
    )
    got = _ask(out, *texts)
    for probabilities in (
        [row["probabilities"] for row in got],
        served["probabilities"],
    ):
        np.testing.assert_allclose(probabilities, expected, atol=_PREDICT)
    best = list(expected.argmax(axis=1))
    assert [row["choice"] for row in got] == served["choice"] == best
    assert [row["ending"] for row in got] == served["ending"]
    two = "wa ||| then ||| wa ||| wb"
    assert len(_ask(out, texts[0], two)[1]["probabilities"]) == 2

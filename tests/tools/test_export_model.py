"""Exported models against the scripts that they come from."""

import json
import pathlib

import numpy as np
import pytest

from tests import (
    programs,
    serving_client,
    toy_sentences,
    toy_squad,
    toy_tagging,
)
from tools import export_model
from vocab import tokenization

# float32 in graphs that are put together in different ways.
_TOLERANCE = 1e-5


def _export(model_dir, name="served", **options):
    return export_model.run(
        export_model.Options(
            model_dir=str(model_dir),
            export_dir=str(model_dir / name),
            **options,
        )
    )


def _texts(folder):
    lines = (folder / "data/test.tsv").read_text().splitlines()
    return lines[1:]


def _json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def _read(path):
    return json.loads(pathlib.Path(path).read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"long_text": "head_tail", "max_seq_length": 6},
        {"long_text": "windows", "max_seq_length": 6, "window_stride": 1},
    ],
    ids=["head", "head_tail", "windows"],
)
def test_classifier_answers_as_the_script(tmp_path, changes):
    out = toy_sentences.run(
        tmp_path, do_train=True, do_predict=True, num_train_epochs=1, **changes
    )
    version = _export(out)
    (got,) = serving_client.ask(version, {"text_a": _texts(tmp_path)})
    expected = _json_lines(out / "predictions.jsonl")
    assert got["label"] == [row["label"] for row in expected]
    np.testing.assert_allclose(
        got["probabilities"],
        [list(row["probabilities"].values()) for row in expected],
        atol=_TOLERANCE,
    )
    described = _read(f"{version}/model.json")
    assert described["task"] == "classify"
    assert described["labels"] == ["no", "yes"]
    assert described["max_seq_length"] == changes.get("max_seq_length", 24)
    assert described["do_lower_case"] is True


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"labels.json": ["1", "0"]}, "the labels are in another order"),
        ({"labels.json": ["a", "b"]}, "this run needs"),
        ({"tokenizer.json": False}, "do_lower_case was False and is True"),
        ({"state.json": "tags, fine-tuned: 0 1"}, "BertForTokenClass"),
    ],
)
def test_a_checkpoint_is_compared_with_the_run_it_is_exported_as(
    tmp_path, beside, message
):
    run = serving_client.golden_classifier(tmp_path / "run")
    other = serving_client.golden_classifier(tmp_path / "other")
    for name in ("vocab.txt", "bert_config.json"):
        (other / name).unlink()
    labels = _read(run / "labels.json")
    labels["labels"] = beside.get("labels.json", ["0", "1"])
    (other / "labels.json").write_text(json.dumps(labels))
    lower = {"do_lower_case": beside.get("tokenizer.json", True)}
    (other / "tokenizer.json").write_text(json.dumps(lower))
    if "state.json" in beside:
        identity = {"identity": {"objective": beside["state.json"]}}
        state = other / "mrpc.ckpt-24.state.json"
        state.write_text(json.dumps(identity))
    with pytest.raises(ValueError, match=message):
        _export(run, task="classify", init_checkpoint=str(other))
    assert not (run / "served").exists()


@pytest.mark.slow
def test_answers_are_those_of_the_script(tmp_path):
    out = toy_squad.run(tmp_path, do_train=True, do_predict=True)
    _compare_answers(tmp_path, out)


def _compare_answers(folder, out):
    # A run does not record it: it belongs to prediction.
    version = _export(out, max_answer_length=4)
    paragraphs = toy_squad.read_json(folder / "dev.json")["data"][0]
    questions = [
        (q["id"], q["question"], p["context"])
        for p in paragraphs["paragraphs"]
        for q in p["qas"]
    ]
    ids, texts, contexts = map(list, zip(*questions, strict=True))
    asked = {"question": texts, "context": contexts}
    (got,) = serving_client.ask(version, asked)
    expected = toy_squad.read_json(out / "predictions.json")
    assert got["answer"] == [expected[i] for i in ids]
    for row, text in enumerate(got["answer"]):
        start, end = got["start"][row], got["end"][row]
        assert contexts[row][max(start, 0) : max(end, 0)] == text
    (listed,) = serving_client.ask(version, asked, signature="nbest")
    expected = toy_squad.read_json(out / "nbest_predictions.json")
    for row, name in enumerate(ids):
        count = listed["num_answers"][row]
        answers = listed["answers"][row][:count]
        probs = dict(
            zip(answers, listed["probabilities"][row][:count], strict=True)
        )
        wanted = {e["text"]: e["probability"] for e in expected[name]}
        # Which answers of no weight are listed at all hangs on rounding.
        for text in wanted.keys() | probs.keys():
            assert probs.get(text, 0) == pytest.approx(
                wanted.get(text, 0), abs=_TOLERANCE
            )
        assert answers[0] == expected[name][0]["text"]
    return got


@pytest.mark.slow
def test_null_odds_are_those_of_the_script(tmp_path):
    out = toy_squad.run(
        tmp_path, do_train=True, do_predict=True, version_2_with_negative=True
    )
    got = _compare_answers(tmp_path, out)
    odds = toy_squad.read_json(out / "null_odds.json")
    np.testing.assert_allclose(
        got["null_odds"], list(odds.values()), atol=_TOLERANCE
    )


@pytest.mark.slow
@pytest.mark.parametrize("context", ["sentence", "document"])
def test_tags_are_those_of_the_script(tmp_path, context):
    toy_tagging.write_all(tmp_path, num_sentences=60)
    toy_tagging.run(
        tmp_path,
        do_train=True,
        do_predict=True,
        num_train_epochs=2,
        context=context,
        max_seq_length=12,
    )
    version = _export(tmp_path / "out")
    blocks = (tmp_path / "out/test_predictions.txt").read_text().split("\n\n")
    rows = [
        [line.split(" ") for line in block.splitlines()]
        for block in blocks
        if block.strip()
    ]
    expected = [[row[-1] for row in sentence] for sentence in rows]
    texts = [" ".join(row[0] for row in sentence) for sentence in rows]
    if context == "sentence":
        (got,) = serving_client.ask(version, {"text": texts})
        tags = got["tags"]
    else:
        # Three sentences make a document.
        parts = [{"text": texts[i : i + 3]} for i in range(0, len(texts), 3)]
        got = serving_client.ask(version, *parts, signature="document")
        tags = [row for part in got for row in part["tags"]]
    assert [list(filter(None, row)) for row in tags] == expected


def _rescored(folder, values):
    """Writes the toy data with other labels than "no" and "yes"."""
    folder.mkdir(parents=True)
    toy_sentences.write_data(folder)
    for path in (folder / "train.tsv", folder / "dev.tsv"):
        header, *lines = path.read_text().splitlines()
        rows = [line.split("\t") for line in lines]
        changed = [f"{text}\t{values[label]}" for text, label in rows]
        path.write_text("\n".join([header, *changed]) + "\n")


@pytest.mark.slow
def test_scores_are_those_of_the_script(tmp_path):
    _rescored(tmp_path / "data", {"no": "0.5", "yes": "4.5"})
    out = toy_sentences.run(
        tmp_path, do_train=True, do_predict=True, problem_type="regression"
    )
    (got,) = serving_client.ask(_export(out), {"text_a": _texts(tmp_path)})
    expected = [row["score"] for row in _json_lines(out / "predictions.jsonl")]
    np.testing.assert_allclose(got["score"], expected, atol=_TOLERANCE)
    with pytest.raises(ValueError, match=r"task=classify .* made for score"):
        _export(out, "other", task="classify")


@pytest.mark.slow
def test_several_labels_are_those_of_the_script(tmp_path):
    _rescored(tmp_path / "data", {"no": "sad,any", "yes": "any"})
    out = toy_sentences.run(
        tmp_path,
        **programs.STAGES,
        problem_type="multi_label",
        num_train_epochs=1,
        tune_thresholds=True,
    )
    version = _export(out)
    (got,) = serving_client.ask(version, {"text_a": _texts(tmp_path)})
    model = _read(f"{version}/model.json")
    names = model["labels"]
    # Undertrained, it needs other thresholds than 0.5.
    assert model["thresholds"] == _read(out / "labels.json")["thresholds"]
    assert set(model["thresholds"]) != {0.5}
    for row, line in enumerate(_json_lines(out / "predictions.jsonl")):
        np.testing.assert_allclose(
            got["probabilities"][row],
            [line["probabilities"][name] for name in names],
            atol=_TOLERANCE,
        )
        chosen = zip(names, got["is_chosen"][row], strict=True)
        assert [name for name, kept in chosen if kept] == line["labels"]


@pytest.mark.slow
def test_pair_without_a_second_text_and_ids_answer_as_the_text(tmp_path):
    out = toy_sentences.run(tmp_path, do_train=True, num_train_epochs=1)
    version = _export(out)
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
        same["probabilities"], alone["probabilities"], atol=_TOLERANCE
    )
    assert empty == {"label": [], "probabilities": []}
    tokenizer = tokenization.FullTokenizer(str(out / "vocab.txt"))
    ids = tokenizer.convert_tokens_to_ids(["[CLS]", "good", "match", "[SEP]"])
    rows = {"input_ids": [[*ids, 0]], "input_mask": [[1, 1, 1, 1, 0]]}
    (by_ids,) = serving_client.ask(
        version, rows | {"segment_ids": [[0] * 5]}, signature="ids"
    )
    np.testing.assert_allclose(
        by_ids["probabilities"], alone["probabilities"][:1], atol=_TOLERANCE
    )

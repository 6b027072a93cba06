"""Predictions from raw text, against the modules of the scripts."""

import numpy as np
import pytest
import tensorflow as tf

from bert.serving import loading, predicting
from bert.tasks import asking
from modeling import checkpoints
from tests.support import asked_models, golden_models, toy_files

_SEGMENTS = "bert/embeddings/token_type_embeddings"


def _predictor(folder, packing, **entries):
    entries = {"n_best_size": 5, "packing": packing, **entries}
    made = golden_models.answerer(folder, **entries)
    return predicting.Predictor(loading.read(str(made)), batch_size=2)


def _predict(predictor, *examples):
    return predictor.predict([predictor.encode(each) for each in examples])


@pytest.mark.parametrize("packing", [True, False])
def test_padding_never_competes_for_answers(tmp_path, packing):
    short, long = (
        {"question": "who ?", "context": "it rained all day long ." * times}
        for times in (1, 3)
    )
    answers = []
    for length in (12, 32):
        predictor = _predictor(
            tmp_path / str(length), packing, max_seq_length=length
        )
        answers += [*_predict(predictor, short)]
        answers += [_predict(predictor, short, long)[0]]
    for answer in answers:
        assert answer["answer"] == answers[0]["answer"] != "empty"
        assert answer["probability"] == pytest.approx(
            answers[0]["probability"], abs=2e-5
        )


def test_a_pair_is_refused_by_a_model_of_one_type_of_segment(tmp_path):
    folder = golden_models.bert(tmp_path / "run", task="pretraining")
    weights, name = str(folder / "tiny.ckpt"), _SEGMENTS
    stored = checkpoints.read(weights)
    checkpoints.save(weights, {**stored, name: stored[name][:1]})
    sizes = toy_files.read_json(folder / "bert_config.json")
    toy_files.write_json(
        folder / "bert_config.json", {**sizes, "type_vocab_size": 1}
    )
    predictor = predicting.Predictor(loading.read(str(folder)), batch_size=2)
    predictor.encode({"text": "it [MASK]"})
    with pytest.raises(ValueError, match="needs a model of 2 types of segment"):
        predictor.encode({"text": "it [MASK] ||| it rained"})


def test_the_tokens_of_a_row_of_choices_are_those_of_the_longest():
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]])
    rows = [asking.Row(ids={"input_mask": m}, source=None) for m in mask]
    assert [row.num_tokens for row in rows] == [2, 3, 1]
    row = asking.Row(ids={"input_mask": mask}, source=None)
    assert row.num_tokens == 3


@pytest.mark.parametrize("version_2", [False, True])
def test_a_question_on_an_empty_context_has_no_answer(tmp_path, version_2):
    predictor = _predictor(
        tmp_path / "run", packing=False, version_2_with_negative=version_2
    )
    odds = {"null_odds": 1e6} if version_2 else {}
    for context in ("", " \n"):
        (got,) = _predict(predictor, {"question": "who ?", "context": context})
        assert got == {"answer": "", "probability": 1.0, **odds}


_TAGS = ("O", "B-LOC", "I-LOC")


def _tagged(text, numbers, **entries):
    """Asks a tagger whose labels of the positions of all rows are given."""
    model = asked_models.asked(
        "tagging", **{"labels": _TAGS, "max_seq_length": 32, **entries}
    )
    rows = model.encode({"text": text}, None)
    outputs = [{"probabilities": np.eye(3)[list(numbers)]} for _ in rows]
    return model.decode({"text": text}, rows, outputs), rows


def test_the_words_of_a_text_are_those_of_exported_models():
    text = " a\xa0b\tc\u2003d\x0be\x0cf\r\u200b\x1cg  h\x85i "
    answer, _ = _tagged(text, [0] * 32)
    split = tf.strings.split([text]).values.numpy().tolist()
    assert [word.encode() for word in answer["words"]] == split
    assert answer["words"][:2] == ["a\xa0b", "c\u2003d"]


def test_the_sentences_of_a_document_are_read_together_on_request():
    text = "it rained\n\nday all\n"
    for context, lengths in (("document", (7, 7)), ("sentence", (5, 4))):
        answer, rows = _tagged(text, [0, 1, 2, 0, 2, 2, 0], context=context)
        assert tuple(len(row.source.input_ids) for row in rows) == lengths
        assert answer["words"] == ["it", "rained", "day", "all"]
        # An entity ends with its sentence.
        assert answer["entities"][0]["end"] == 2
        assert [e["start"] for e in answer["entities"]] == [0, 2]


def test_the_threshold_of_the_model_decides(tmp_path):
    example = {"question": "who ?", "context": "it rained all day long ."}
    found = [
        _predict(
            _predictor(
                tmp_path / str(threshold),
                packing=True,
                version_2_with_negative=True,
                null_score_diff_threshold=threshold,
            ),
            example,
        )[0]
        for threshold in (-1e5, 1e5)
    ]
    assert found[0]["null_odds"] == pytest.approx(found[1]["null_odds"])
    assert found[0]["answer"] == ""
    assert found[1]["answer"] in example["context"]
    assert found[1]["answer"] != ""

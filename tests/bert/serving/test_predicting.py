"""Predictions from raw text, against the modules of the scripts."""

import contextlib
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert.serving import loading, predicting
from bert.tasks import asking
from tests.support import asked_models, serving_client

_LENGTH = 32


def _predictor(folder, packing, **description):
    made = serving_client.golden_model(folder)
    values = {
        "task": "question_answering",
        "max_seq_length": _LENGTH,
        "max_query_length": 8,
        "n_best_size": 5,
        "version_2_with_negative": False,
        "packing": packing,
        **description,
    }
    serving_client.describe(made, **values)
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
    for length in (12, _LENGTH):
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


def test_a_word_that_the_vocabulary_lacks_is_named_by_its_id():
    model = asked_models.asked("pretraining")
    rows = model.encode({"text": "[MASK]"}, None)
    output = {
        "ids": np.array([[0, 1200]]),
        "probabilities": np.array([[0.5, 0.25]], np.float32),
    }
    assert model.decode({}, rows, [output]) == {
        "masks": [
            [
                {"token": "[unused0]", "probability": 0.5},
                {"token": "[id 1200]", "probability": 0.25},
            ]
        ]
    }


@pytest.mark.parametrize(
    ("text", "tokens", "segments", "positions"),
    [
        ("it [MASK]", "[CLS] it [MASK] [SEP]", [0, 0, 0, 0], [2]),
        (
            "[MASK][MASK] ||| it [MASK]",
            "[CLS] [MASK] [MASK] [SEP] it [MASK] [SEP]",
            [0, 0, 0, 0, 1, 1, 1],
            [1, 2, 5],
        ),
    ],
)
def test_masks_have_the_ids_segments_and_positions_of_pre_training(
    text, tokens, segments, positions
):
    model = asked_models.asked("pretraining")
    (row,) = model.encode({"text": text}, None)
    ids = model.model.tokenizer.convert_tokens_to_ids(tokens.split())
    assert {name: value.tolist() for name, value in row.ids.items()} == {
        "input_ids": ids,
        "input_mask": [1] * len(ids),
        "segment_ids": segments,
        "masked_lm_positions": positions,
    }


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


def test_an_entity_has_its_words_and_their_places():
    answer, (row,) = _tagged("it rained day", [2, 0, 1, 2, 2, 2])
    assert row.source.positions == (1, 2, 4)  # The second has two.
    assert answer["tags"] == ["O", "B-LOC", "I-LOC"]
    assert answer["entities"] == [
        {"type": "LOC", "text": "rained day", "start": 1, "end": 3}
    ]


def test_the_sentences_of_a_document_are_read_together_on_request():
    text = "it rained\n\nday all\n"
    for context, lengths in (("document", (7, 7)), ("sentence", (5, 4))):
        answer, rows = _tagged(text, [0, 1, 2, 0, 2, 2, 0], context=context)
        assert tuple(len(row.source.input_ids) for row in rows) == lengths
        assert answer["words"] == ["it", "rained", "day", "all"]
        # An entity ends with its sentence.
        assert answer["entities"][0]["end"] == 2
        assert [e["start"] for e in answer["entities"]] == [0, 2]


@pytest.mark.parametrize("is_broken", [False, True])
def test_functions_are_compiled_again_after_a_prediction(tmp_path, is_broken):
    predictor = _predictor(tmp_path / "run", packing=False)
    example = {"question": "who ?", "context": "it rained ."}
    encoded = predictor.encode(example)
    if is_broken:
        encoded = dataclasses.replace(encoded, rows=[None])
    expected = contextlib.nullcontext()
    if is_broken:
        expected = pytest.raises(AttributeError)
    with expected:
        predictor.predict([encoded])
    assert not tf.config.functions_run_eagerly()


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

"""Predictions from raw text, against the modules of the scripts."""

import contextlib
import types

import numpy as np
import pytest
import tensorflow as tf

from bert.serving import models, predicting
from bert.tasks.squad import answer_ranking, question_files, window_features
from bert.tasks.tagging import ner
from tests.support import serving_client

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
    return predicting.Predictor(models.read(str(made)), batch_size=2)


def _predict(predictor, *examples):
    return predictor.predict([predictor.encode(each) for each in examples])


def _by_the_script(predictor, example, length):
    """Answers a question with the modules of the script.

    Args:
        predictor: its model and model.
        example: the question and its context.
        length: to which the only window is cut.
    """
    model = predictor._model
    question = question_files.SquadExample(
        qas_id="",
        question_text=example["question"],
        doc_tokens=question_files.find_words(example["context"]),
    )
    ((window,),) = window_features.convert_examples_to_features(
        [question], model.tokenizer, model.windows
    )
    record = window.record()
    outputs = predictor._compute(
        *(
            tf.constant([record[name][:length]])
            for name in ("input_ids", "input_mask", "segment_ids")
        )
    )
    (found,) = answer_ranking.rank_answers(
        [question],
        [[window]],
        {
            window.unique_id: np.concatenate(
                [outputs["start_logits"], outputs["end_logits"]]
            )
        },
        model.answers,
        model.tokenizer.basic_tokenizer,
    )
    return found.nbest[0]


@pytest.mark.parametrize(("packing", "length"), [(False, _LENGTH), (True, 11)])
def test_padding_competes_for_answers_as_in_the_script(
    tmp_path, packing, length
):
    predictor = _predictor(tmp_path / "run", packing)
    example = {"question": "who ?", "context": "it rained all day long ."}
    (got,) = _predict(predictor, example)
    expected = _by_the_script(predictor, example, length)
    assert got["answer"] == expected.text
    assert got["probability"] == pytest.approx(expected.probability, abs=2e-5)


def test_an_answer_does_not_depend_on_longer_texts_beside_it(tmp_path):
    predictor = _predictor(tmp_path / "run", packing=True)
    short, long = (
        {"question": "who ?", "context": "it rained all day long ." * times}
        for times in (1, 3)
    )
    (alone,) = _predict(predictor, short)
    together, _ = _predict(predictor, short, long)
    assert together["answer"] == alone["answer"]
    assert together["probability"] == pytest.approx(
        alone["probability"], abs=2e-5
    )


def test_the_tokens_of_a_row_of_choices_are_those_of_the_longest():
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]])
    assert predicting.Row(ids={"input_mask": mask}).num_tokens == 3
    assert predicting.Row(ids={"input_mask": mask[0]}).num_tokens == 2


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
    encoded = predicting.Encoded(
        example={},
        rows=[predicting.Row(ids={"masked_lm_positions": np.array([1])})],
    )
    output = {
        "ids": np.array([[1, 7]]),
        "probabilities": np.array([[0.5, 0.25]], np.float32),
    }
    model = types.SimpleNamespace(
        tokenizer=types.SimpleNamespace(inv_vocab={1: "rain"})
    )
    answer = predicting._decode_words(encoded, [output], model)
    assert answer == {
        "masks": [
            [
                {"token": "rain", "probability": 0.5},
                {"token": "[id 7]", "probability": 0.25},
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
    tmp_path, text, tokens, segments, positions
):
    folder = serving_client.golden_model(tmp_path / "run")
    serving_client.describe(folder, task="pretraining")
    model = models.read(str(folder))
    (row,) = predicting._encode_masks({"text": text}, model, None)
    ids = model.tokenizer.convert_tokens_to_ids(tokens.split())
    assert {name: value.tolist() for name, value in row.ids.items()} == {
        "input_ids": ids,
        "input_mask": [1] * len(ids),
        "segment_ids": segments,
        "masked_lm_positions": positions,
    }


def test_the_words_of_a_text_are_those_of_exported_models():
    text = " a\xa0b\tc\u2003d\x0be\x0cf\r\n\u200b\x1cg  h\x85i "
    words = predicting._words({"text": text})
    split = tf.strings.split([text]).values.numpy().tolist()
    assert [word.encode() for word in words] == split
    assert words[:2] == ("a\xa0b", "c\u2003d")


def test_an_entity_has_its_words_and_their_places():
    window = ner.Window(
        input_ids=(2, 5, 6, 7, 8, 3),
        label_ids=(0, 0, 0),
        positions=(1, 2, 4),  # The second word has two pieces.
    )
    encoded = predicting.Encoded(
        example={"text": "in New York"},
        rows=[predicting.Row(ids={}, source=window)],
    )
    names = ("O", "B-LOC", "I-LOC")
    model = types.SimpleNamespace(
        label_set=types.SimpleNamespace(names=names), checkpoint="run/x"
    )
    output = {"probabilities": np.eye(3)[[2, 0, 1, 2, 2, 2]]}
    answer = predicting._decode_tags(encoded, [output], model)
    assert answer["tags"] == ["O", "B-LOC", "I-LOC"]
    assert answer["entities"] == [
        {"type": "LOC", "text": "New York", "start": 1, "end": 3}
    ]


@pytest.mark.parametrize("is_broken", [False, True])
def test_functions_are_compiled_again_after_a_prediction(tmp_path, is_broken):
    predictor = _predictor(tmp_path / "run", packing=False)
    example = {"question": "who ?", "context": "it rained ."}
    encoded = predictor.encode(example)
    if is_broken:
        predictor._compute = None
    with pytest.raises(TypeError) if is_broken else contextlib.nullcontext():
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

"""Predictions from raw text, against the modules of the scripts."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from serving import predicting, run_folder
from tasks.squad import squad_answers, squad_examples, squad_features

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_LENGTH = 32


def _predictor(removes_padding):
    values = {
        "bert_config_file": str(_GOLDEN / "inputs/bert_config.json"),
        "vocab_file": str(_GOLDEN / "inputs/vocab.txt"),
        "max_seq_length": _LENGTH,
        "max_query_length": 8,
        "n_best_size": 5,
        "removes_padding": removes_padding,
    }
    model = run_folder.find(None, str(_GOLDEN / "model/tiny.ckpt"))
    settings = run_folder.settings_of(run_folder.ANSWER, model, values)
    return predicting.Predictor(run_folder.ANSWER, settings, batch_size=2)


def _by_the_script(predictor, example, length):
    """Answers a question with the modules of the script.

    Args:
        predictor: its model and settings.
        example: the question and its context.
        length: to which the only window is cut.
    """
    settings = predictor._settings
    question = squad_examples.SquadExample(
        qas_id="",
        question_text=example["question"],
        doc_tokens=squad_examples.find_words(example["context"]),
    )
    (window,) = squad_features.convert_examples_to_features(
        [question], settings.tokenizer, settings.answering.windows
    )
    record = window.record()
    outputs = predictor._compute(
        *(
            tf.constant([record[name][:length]])
            for name in ("input_ids", "input_mask", "segment_ids")
        )
    )
    (found,) = squad_answers.rank_answers(
        [question],
        [window],
        {
            window.unique_id: np.concatenate(
                [outputs["start_logits"], outputs["end_logits"]]
            )
        },
        settings.answering.answers,
        settings.tokenizer.basic_tokenizer,
    )
    return found.nbest[0]


@pytest.mark.parametrize(
    ("removes_padding", "length"), [(False, _LENGTH), (True, 11)]
)
def test_padding_competes_for_answers_as_in_the_script(removes_padding, length):
    predictor = _predictor(removes_padding)
    example = {"question": "who ?", "context": "it rained all day long ."}
    (got,) = predictor.predict([example])
    expected = _by_the_script(predictor, example, length)
    assert got["answer"] == expected.text
    assert got["probability"] == pytest.approx(expected.probability, abs=2e-5)


def test_an_answer_does_not_depend_on_longer_texts_beside_it():
    predictor = _predictor(removes_padding=True)
    short, long = (
        {"question": "who ?", "context": "it rained all day long ." * times}
        for times in (1, 3)
    )
    (alone,) = predictor.predict([short])
    together, _ = predictor.predict([short, long])
    assert together["answer"] == alone["answer"]
    assert together["probability"] == pytest.approx(
        alone["probability"], abs=2e-5
    )

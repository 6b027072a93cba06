"""Answers from raw text, against the script's and the release's."""

import gzip
import json
import pathlib
import random
import types

import numpy as np
import pytest
import tensorflow as tf

from modeling import config as config_lib
from serving import answerer, graph_tokenizer, run_folder
from tasks.squad import squad_answers, squad_examples, squad_features

_ROOT = pathlib.Path(__file__).parents[2]
_GOLDEN = _ROOT / "tests/golden"
_DATA = _ROOT.parent / "shared/data"
_CONFIG = config_lib.BertConfig.from_json_file(
    str(_GOLDEN / "inputs/bert_config.json")
)


def _released_cases():
    with gzip.open(_GOLDEN / "squad/write_predictions.json.gz") as file:
        return [case for case in json.load(file) if not case["error"]]


class GivenLogits:
    """Stands in for a model: its logits are known, or drawn by length.

    Args:
        logits: `[R, 2, T]` for the rows that it is called with; None to draw
            them from the ids, few values so that many are equal.
    """

    variables = ()

    def __init__(self, logits=None, vocab_size=_CONFIG.vocab_size):
        self._logits = logits
        self.config = types.SimpleNamespace(
            vocab_size=vocab_size, max_position_embeddings=512
        )

    def __call__(self, input_ids, input_mask, segment_ids):
        logits = self._logits
        if logits is None:
            logits = drawn_logits(input_ids)
        logits = tf.constant(logits) if self._logits is not None else logits
        return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}


def drawn_logits(input_ids):
    """Makes logits `[R, 2, T]` of ids `[R, T]`, whole numbers in [0, 7)."""
    ids = tf.cast(input_ids, tf.int32)
    place = tf.range(tf.shape(ids)[1])
    sides = [(ids * 31 + place * 17) % 7, (ids * 13 + place * 5) % 7]
    return tf.cast(tf.stack(sides, axis=1), tf.float32)


@pytest.fixture(scope="module")
def tokenizer():
    return graph_tokenizer.GraphTokenizer(str(_GOLDEN / "inputs/vocab.txt"))


def _questions(name):
    return _read_questions(_GOLDEN / "inputs" / "squad" / f"{name}.json")


def _read_questions(path):
    return [
        types.SimpleNamespace(text=qa["question"], context=part["context"])
        for entry in json.loads(path.read_text())["data"]
        for part in entry["paragraphs"]
        for qa in part["qas"]
    ]


def _ask(servable, questions, signature="serving_default"):
    texts = ([q.text for q in questions], [q.context for q in questions])
    outputs = servable.signatures[signature](
        *(tf.constant(text, tf.string, [len(questions)]) for text in texts)
    )
    return {name: value.numpy() for name, value in outputs.items()}


@pytest.mark.slow
@pytest.mark.parametrize("case", _released_cases(), ids=lambda c: c["name"])
def test_answers_are_those_of_the_release(case, tokenizer):
    length, stride, query = (
        int("".join(filter(str.isdigit, part)))
        for part in case["features"].split("/")[1].split("_")
    )
    with np.load(_GOLDEN / "squad/write_predictions_logits.npz") as file:
        logits = file[f"{case['name']}/logits"]
    options = run_folder.Reading(
        windows=squad_features.WindowOptions(
            max_seq_length=length, doc_stride=stride, max_query_length=query
        ),
        answers=squad_answers.AnswerOptions(
            n_best_size=case["n_best_size"],
            max_answer_length=case["max_answer_length"],
            version_2_with_negative=case["version_2_with_negative"],
        ),
        threshold=case["null_score_diff_threshold"]
        if case["version_2_with_negative"]
        else None,
    )
    servable = answerer.servable(
        GivenLogits(logits.astype(np.float32)), tokenizer, options
    )
    questions = _questions(case["data"])
    released = json.loads(case["predictions"])
    got = _ask(servable, questions)
    answers = [text.decode() for text in got["answer"]]
    assert answers == [released[q.qas_id] for q in questions]
    nbest = _ask(servable, questions, "nbest")
    released = json.loads(case["nbest_predictions"])
    for row, question in enumerate(questions):
        expected = released[question.qas_id]
        count = nbest["num_answers"][row]
        texts = [text.decode() for text in nbest["answers"][row, :count]]
        assert texts == [entry["text"] for entry in expected]
        np.testing.assert_allclose(
            nbest["probabilities"][row, :count],
            [entry["probability"] for entry in expected],
            atol=1e-6,  # float32 of the same float64.
        )
    if case["version_2_with_negative"]:
        odds = json.loads(case["null_odds"])
        np.testing.assert_allclose(
            got["null_odds"],
            [odds[q.qas_id] for q in questions],
            rtol=1e-6,
            atol=1e-5,
        )


# What the rules tell apart: spaces of SQuAD and others, marks, ideographs,
# characters that vanish or change their number, words that repeat.
_TELLING = (
    *("a", "b", "A", "the", "The", "Paris", "no", "-", "(", "'s", "."),
    *(" ", " ", " ", " ", "  ", "\t", "\n", "\u202f", "\xa0", "\u2028"),
    *("caf\xe9", "e\u0301", "\u0130I", "\u03a3", "\u4e2d", "\uac00", "\xad"),
    *("\u200b", "\ufffd", "\U0001f642", "x" * 210, "[MASK]", "##s"),
)


def _by_the_script(tokenizer, options, texts):
    """Answers (question, context) pairs with the modules of the script."""
    examples = [
        squad_examples.SquadExample(
            qas_id=str(number),
            question_text=question,
            doc_tokens=squad_examples.find_words(context),
        )
        for number, (question, context) in enumerate(texts)
    ]
    features = list(
        squad_features.convert_examples_to_features(
            examples, tokenizer.definition, options.windows, num_workers=1
        )
    )
    results = {
        f.unique_id: drawn_logits(f.input_ids[np.newaxis])[0] for f in features
    }
    return squad_answers.rank_answers(
        examples,
        features,
        results,
        options.answers,
        tokenizer.definition.basic_tokenizer,
    )


@pytest.mark.parametrize(
    "removes_padding", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_padding_competes_unless_the_run_removed_it(tokenizer, removes_padding):
    options = run_folder.Reading(
        windows=squad_features.WindowOptions(
            max_seq_length=24, max_query_length=8
        ),
        answers=squad_answers.AnswerOptions(n_best_size=2),
        removes_padding=removes_padding,
    )
    values = np.zeros((1, 2, 24), np.float32)
    values[:, :, 2], values[:, :, 20:] = 1.0, 2.0  # A piece; padding.
    servable = answerer.servable(GivenLogits(values), tokenizer, options)
    question = types.SimpleNamespace(text="", context="rain")
    (answer,) = _ask(servable, [question])["answer"]
    assert answer.decode() == ("rain" if removes_padding else "empty")


def _compare(tokenizer, options, texts):
    """Answers (question, context) pairs in both ways."""
    asked = [
        types.SimpleNamespace(text=question, context=context)
        for question, context in texts
    ]
    vocab_size = tokenizer.definition.vocab_size
    servable = answerer.servable(
        GivenLogits(vocab_size=vocab_size), tokenizer, options
    )
    best, nbest = _ask(servable, asked), _ask(servable, asked, "nbest")
    threshold = options.threshold or 0.0
    for row, expected in enumerate(_by_the_script(tokenizer, options, texts)):
        answer = best["answer"][row].decode()
        assert answer == expected.prediction(threshold), texts[row]
        count = nbest["num_answers"][row]
        got = [answer.decode() for answer in nbest["answers"][row, :count]]
        assert got == [entry.text for entry in expected.nbest], texts[row]
        scores = nbest["start_logits"] + nbest["end_logits"]
        np.testing.assert_allclose(
            scores[row, :count],
            [entry.start_logit + entry.end_logit for entry in expected.nbest],
        )
        places = zip(
            got, nbest["starts"][row], nbest["ends"][row], strict=False
        )
        for answer, start, end in places:
            if start >= 0:
                words = squad_examples.find_words(texts[row][1][start:end])
                assert answer == " ".join(words)
            else:
                assert (answer, end) in (("", -1), ("empty", -1))
        if expected.null_odds is not None:
            assert best["null_odds"][row] == pytest.approx(expected.null_odds)


@pytest.mark.slow
@pytest.mark.parametrize("version_2", [False, True])
@pytest.mark.parametrize("do_lower_case", [False, True])
def test_answers_in_any_text_are_those_of_the_script(do_lower_case, version_2):
    tokenizer = graph_tokenizer.GraphTokenizer(
        str(_GOLDEN / "inputs/vocab.txt"), do_lower_case
    )
    options = run_folder.Reading(
        windows=squad_features.WindowOptions(
            max_seq_length=24, doc_stride=5, max_query_length=6
        ),
        answers=squad_answers.AnswerOptions(
            n_best_size=7,
            max_answer_length=9,
            version_2_with_negative=version_2,
        ),
        threshold=-0.5 if version_2 else None,
    )
    rng = random.Random(6)

    def text(longest):
        return "".join(rng.choices(_TELLING, k=rng.randint(0, longest)))

    _compare(tokenizer, options, [(text(9), text(40)) for _ in range(400)])


@pytest.mark.shared
@pytest.mark.skipif(not _DATA.exists(), reason="needs the shared data sets")
@pytest.mark.parametrize("name", ["dev-v1.1", "dev-v2.0"])
@pytest.mark.parametrize("casing", ["uncased", "cased"])
def test_answers_in_squad_are_those_of_the_script(name, casing):
    tokenizer = graph_tokenizer.GraphTokenizer(
        str(_DATA / f"vocab/{casing}.txt"), casing == "uncased"
    )
    questions = _read_questions(_DATA / f"squad/{name}.json")
    options = run_folder.Reading(
        windows=squad_features.WindowOptions(max_seq_length=192),
        answers=squad_answers.AnswerOptions(
            version_2_with_negative=name == "dev-v2.0"
        ),
        threshold=0.0 if name == "dev-v2.0" else None,
    )
    chosen = random.Random(7).sample(questions, 300)
    _compare(tokenizer, options, [(q.text, q.context) for q in chosen])


@pytest.mark.slow
def test_unusual_requests_are_answered(tokenizer):
    options = run_folder.Reading(
        windows=squad_features.WindowOptions(
            max_seq_length=24, doc_stride=5, max_query_length=6
        ),
        answers=squad_answers.AnswerOptions(n_best_size=3),
    )
    servable = answerer.servable(GivenLogits(), tokenizer, options)
    assert _ask(servable, [])["answer"].shape == (0,)
    odd = types.SimpleNamespace(
        text=b"wh\xffo?", context=b"the \xf0\x9f ca\xfft"
    )
    even = types.SimpleNamespace(text="who?", context="the  cat")
    empty = types.SimpleNamespace(text="", context="")
    got = _ask(servable, [odd, even, empty])
    for values in got.values():
        assert values[0] == values[1]
    # As released: the answer of version 1 where none is left.
    assert got["answer"][2] == b"empty"
    assert (got["start"][2], got["end"][2]) == (-1, -1)
    assert got["probability"][2] == 1

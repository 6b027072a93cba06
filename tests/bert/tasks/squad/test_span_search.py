"""Answers in graphs, against the script's and the release's."""

import itertools
import json
import random

import numpy as np
import pytest
import tensorflow as tf

from bert.serving import exporting
from bert.tasks import registry
from bert.tasks.squad import (
    answer_ranking,
    question_files,
    span_search,
    window_features,
)
from tests.support import asked_models, locations, offsets, toy_files


def _model(vocab_file=locations.VOCAB_FILE, do_lower_case=True, **entries):
    return registry.ASKING["question_answering"](
        asked_models.served(
            vocab_file,
            do_lower_case,
            sizes={"max_position_embeddings": 512},
            **{"max_seq_length": 384, **entries},
        )
    )


class GivenLogits:
    """Stands in for a network: its logits are known, or drawn from the ids.

    Args:
        logits: `[R, 2, T]` for the rows that it is called with, which may be
            shorter; None to draw them, many different ones.
    """

    def __init__(self, logits=None):
        self._logits = logits

    def __call__(self, input_ids, input_mask, segment_ids):
        if self._logits is None:
            logits = _drawn(input_ids)
        else:
            logits = tf.constant(self._logits)[:, :, : tf.shape(input_ids)[1]]
        return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}


def _drawn(input_ids):
    """Makes logits `[R, 2, T]` of ids `[R, T]`, whose sums seldom tie."""
    ids = tf.cast(input_ids, tf.int64)
    place = tf.range(tf.shape(ids, tf.int64)[1])
    sides = [(ids * 7919 + place * 104729) % 10007]
    sides.append((ids * 6037 + place * 15485863) % 9973)
    return tf.cast(tf.stack(sides, axis=1), tf.float32)


def _ask(model, network, questions):
    """Answers (question, context) pairs in a graph."""
    made = exporting.make_signatures(model, network)["serving_default"]
    columns = zip(*questions, strict=True) if questions else ((), ())
    outputs = made(
        *(tf.constant(text, tf.string, [len(questions)]) for text in columns)
    )
    return {name: value.numpy() for name, value in outputs.items()}


def _read_questions(path):
    """Lists the ids, questions and contexts of a file."""
    return [
        (qa["id"], qa["question"], part["context"])
        for entry in toy_files.read_json(path)["data"]
        for part in entry["paragraphs"]
        for qa in part["qas"]
    ]


def _released_cases():
    path = locations.GOLDEN / "squad/write_predictions.json.gz"
    return [case for case in toy_files.read_json(path) if not case["error"]]


@pytest.mark.integration
@pytest.mark.parametrize("case", _released_cases(), ids=lambda c: c["name"])
def test_no_answer_of_the_release_has_a_better_score(case):
    length, stride, query = (
        int("".join(filter(str.isdigit, part)))
        for part in case["features"].split("/")[1].split("_")
    )
    with np.load(
        locations.GOLDEN / "squad/write_predictions_logits.npz"
    ) as file:
        logits = file[f"{case['name']}/logits"]
    version_2 = case["version_2_with_negative"]
    model = _model(
        max_seq_length=length,
        doc_stride=stride,
        max_query_length=query,
        max_answer_length=case["max_answer_length"],
        version_2_with_negative=version_2,
        null_score_diff_threshold=case["null_score_diff_threshold"],
    )
    questions = _read_questions(
        locations.INPUTS / "squad" / f"{case['data']}.json"
    )
    got = _ask(
        model,
        GivenLogits(logits.astype(np.float32)),
        [(q[1], q[2]) for q in questions],
    )
    released = json.loads(case["nbest_predictions"])
    for row, question in enumerate(questions):
        for entry in released[question[0]]:
            if entry["text"] not in ("", "empty"):
                score = entry["start_logit"] + entry["end_logit"]
                assert got["score"][row] >= score - 1e-4


# What the rules tell apart: spaces of SQuAD and others, marks, ideographs,
# characters that vanish or change their number, words that repeat.
_TELLING = (
    *("a", "b", "A", "the", "The", "Paris", "no", "-", "(", "'s", "."),
    *(" ", " ", " ", " ", "  ", "\t", "\n", "\u202f", "\xa0", "\u2028"),
    *("caf\xe9", "e\u0301", "\u0130I", "\u03a3", "\u4e2d", "\uac00", "\xad"),
    *("\u200b", "\ufffd", "\U0001f642", "x" * 210, "[MASK]", "##s"),
)


def _by_definition(model, question, context):
    """Returns the score, the characters and the null odds of the best span."""
    tokenizer = model.model.tokenizer
    spans = offsets.spans_of(tokenizer, context)
    query = tokenizer.tokenize(question)[: model.windows.max_query_length]
    room = model.model.max_seq_length - len(query) - 3
    parts = window_features.document_spans(
        len(spans), room, model.windows.doc_stride
    )
    most = window_features.max_context_spans(parts, len(spans))
    best, null = (-np.inf, None), np.inf
    for number, (first, length) in enumerate(parts):
        pieces = [span.piece for span in spans[first : first + length]]
        tokens = ["[CLS]", *query, "[SEP]", *pieces, "[SEP]"]
        ids = tokenizer.convert_tokens_to_ids(tokens)
        start, end = _drawn(tf.constant([ids])).numpy()[0].astype(float)
        null = min(null, start[0] + end[0])
        offset = len(query) + 2
        for i in range(length):
            for j in range(i, min(i + model.answers.max_answer_length, length)):
                score = start[offset + i] + end[offset + j]
                if most[first + i] == number and score > best[0]:
                    place = spans[first + i].start, spans[first + j].end
                    best = score, place
    return *best, null - best[0]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("do_lower_case", "num_questions"),
    [
        (True, 400),
        (False, 400),
    ],
)
def test_the_best_span_of_any_text_is_found(do_lower_case, num_questions):
    model = _model(
        do_lower_case=do_lower_case,
        max_seq_length=24,
        doc_stride=5,
        max_query_length=6,
        max_answer_length=9,
        version_2_with_negative=True,
        null_score_diff_threshold=-9000,
    )
    rng = random.Random(num_questions)

    def text(longest):
        return "".join(rng.choices(_TELLING, k=rng.randint(0, longest)))

    asked = [(text(9), text(40)) for _ in range(num_questions)]
    got = _ask(model, GivenLogits(), asked)
    num_answers = 0
    for row, (question, context) in enumerate(asked):
        score, place, odds = _by_definition(model, question, context)
        expected = "", (-1, -1)
        if place is not None:
            assert got["score"][row] == score
            assert got["null_odds"][row] == odds
            if odds <= -9000:
                words = question_files.find_words(context[slice(*place)])
                expected = " ".join(words), place
                num_answers += 1
        assert got["answer"][row].decode().strip() == expected[0]
        assert (got["start"][row], got["end"][row]) == expected[1]
    assert 0 < num_answers < num_questions


@pytest.mark.shared
@pytest.mark.skipif(
    not locations.DATA.exists(), reason="needs the shared data sets"
)
@pytest.mark.parametrize("casing", ["uncased", "cased"])
def test_answers_in_squad_are_those_of_the_script(casing):
    vocab_file = str(locations.DATA / f"vocab/{casing}.txt")
    model = _model(
        vocab_file, casing == "uncased", max_seq_length=192, n_best_size=192
    )
    questions = _read_questions(locations.DATA / "squad/dev-v1.1.json")
    questions = random.Random(7).sample(questions, 200)
    got = _ask(model, GivenLogits(), [(q[1], q[2]) for q in questions])
    examples = [
        question_files.SquadExample(
            qas_id=name,
            question_text=question,
            doc_tokens=question_files.find_words(context),
        )
        for name, question, context in questions
    ]
    windows = list(
        window_features.convert_examples_to_features(
            examples, model.model.tokenizer, model.windows
        )
    )
    logits = {
        each.unique_id: _drawn(each.input_ids[np.newaxis]).numpy()[0]
        for each in itertools.chain.from_iterable(windows)
    }
    ranked = answer_ranking.rank_answers(
        examples,
        windows,
        logits,
        model.answers,
        model.model.tokenizer.basic_tokenizer,
        without_padding=True,
    )
    expected = [each.prediction() for each in ranked]
    same = [
        answer.decode() == text
        for answer, text in zip(got["answer"], expected, strict=True)
    ]
    # The release's heuristic gives whole words where it cannot align a text.
    assert np.mean(same) > 0.97


def _windows_of(*lengths):
    """Cuts paragraphs into windows of up to 5 pieces, 2 apart, no question."""
    return span_search.cut_windows(
        tf.zeros([len(lengths)], tf.int64),
        tf.constant(lengths, tf.int64),
        window_features.WindowOptions(
            max_seq_length=8, doc_stride=2, max_query_length=1
        ),
    )


def _best_spans(start_logits, end_logits, *lengths, longest=3):
    logits = {"start_logits": start_logits, "end_logits": end_logits}
    return span_search.best_spans(
        {
            name: tf.constant(value, tf.float32)
            for name, value in logits.items()
        },
        _windows_of(*lengths),
        tf.constant(lengths, tf.int64),
        longest,
    )


def _plain_best_span(start, end, num_pieces, longest):
    """Tries every span of a paragraph in every window of it."""
    spans = window_features.document_spans(num_pieces, 5, 2)
    most = window_features.max_context_spans(spans, num_pieces)
    best, place = -np.inf, (None, None)
    for window, (first, length) in enumerate(spans):
        for i in range(length):
            for j in range(i, min(i + longest, length)):
                score = start[window][2 + i] + end[window][2 + j]
                if most[first + i] == window and score > best:
                    best, place = score, (first + i, first + j)
    nulls = [start[window][0] + end[window][0] for window in range(len(spans))]
    return best, place, min(nulls, default=np.inf) - best


@pytest.mark.parametrize("longest", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_span_is_that_of_trying_every_span(seed, longest):
    rng = np.random.default_rng(seed)
    lengths = [5, 0, 1, 4, 9, 0, 12, 2]
    counts = [len(window_features.document_spans(n, 5, 2)) for n in lengths]
    # Few values, so that many scores are equal.
    logits = rng.integers(-3, 3, [2, sum(counts), 8])
    spans = _best_spans(*logits, *lengths, longest=longest)
    row = 0
    for number, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        start, end = logits[:, row : row + count].tolist()
        row += count
        score, place, odds = _plain_best_span(start, end, length, longest)
        assert spans.is_found[number] == (count > 0)
        if count:
            assert spans.score[number] == score
            assert (spans.first[number], spans.last[number]) == place
            assert spans.null_odds[number] == odds


def test_a_much_longer_window_shows_more_than_a_piece_more_beside_it():
    """A hundredth of a window's length counts as a piece of context."""
    num_pieces, options = (
        240,
        window_features.WindowOptions(
            max_seq_length=203, doc_stride=150, max_query_length=1
        ),
    )
    parts = window_features.document_spans(num_pieces, 200, 150)
    assert parts == [(0, 200), (150, 90)]
    most = window_features.max_context_spans(parts, num_pieces)
    # Piece 175 has 24 pieces at its right in the first window, and 25 at its
    # left in the second, which is shorter by 110.
    assert [most[i] for i in (174, 175, 176)] == [0, 0, 1]
    for place in range(170, 180):
        logits = np.zeros([2, 2, 203], np.float32)
        logits[:, 0, 2 + place] = 1  # In the first window.
        logits[:, 1, 2 + place - 150] = 2  # In the second.
        spans = span_search.best_spans(
            {
                "start_logits": tf.constant(logits[0]),
                "end_logits": tf.constant(logits[1]),
            },
            span_search.cut_windows(
                tf.zeros([1], tf.int64),
                tf.constant([num_pieces], tf.int64),
                options,
            ),
            tf.constant([num_pieces], tf.int64),
            1,
        )
        assert spans.score[0] == (2, 4)[most[place]]


def _texts(contexts, places, spans):
    """Returns answers: the first and last piece of each context, or None."""
    starts, ends = (
        tf.RaggedTensor.from_row_lengths(
            tf.constant([p[side] for row in places for p in row], tf.int32),
            tf.constant([len(row) for row in places], tf.int64),
        )
        for side in (0, 1)
    )
    is_answered = tf.constant([span is not None for span in spans])
    first, last = zip(*[span or (0, 0) for span in spans], strict=True)
    numbers = tf.zeros([len(spans)], tf.float64)
    got = span_search.texts(
        tf.constant(contexts),
        {"starts": starts, "ends": ends},
        span_search.Spans(
            is_found=is_answered,
            first=tf.constant(first, tf.int64),
            last=tf.constant(last, tf.int64),
            score=numbers,
            null_odds=numbers,
        ),
        is_answered,
    )
    return [
        (text.decode(), start, end)
        for text, start, end in zip(
            *(got[k].numpy().tolist() for k in ("answer", "start", "end")),
            strict=True,
        )
    ]


def test_the_words_of_an_answer_are_separated_by_one_space():
    context = "\u4e2d the \t\u202f cat\xa0 sat"
    places = [(0, 1), (2, 5), (9, 12), (14, 17)]
    assert _texts(
        ["it", context, "", context],
        [[(0, 2)], places, [], places],
        [None, (1, 3), None, (0, 0)],
    ) == [
        ("", -1, -1),
        ("the cat\xa0 sat", 2, 17),
        ("", -1, -1),
        ("\u4e2d", 0, 1),
    ]


def test_contexts_without_pieces_alone_have_no_answers():
    assert _texts(["", " "], [[], []], [None, None]) == [("", -1, -1)] * 2


def test_tokens_outside_of_the_paragraph_are_no_answer():
    # [CLS] [SEP] a b [SEP] and padding, whose logits are the highest.
    spans = _best_spans([[9, 9, 1, 2, 9, 9]], [[9, 9, 2, 1, 9, 9]], 2)
    assert (spans.first[0], spans.last[0], spans.score[0]) == (0, 0, 3)
    assert spans.null_odds[0] == 15


def test_null_odds_are_those_of_the_window_with_the_lowest_null_score():
    # "No answer" scores 3 in one window and 8 in the other.
    start = [[1, *[0] * 7], [4, *[0] * 7]]
    end = [[2, *[0] * 7], [4, *[0] * 7]]
    for order in (1, -1):
        spans = _best_spans(start[::order], end[::order], 7)
        assert spans.null_odds[0] == 3


@pytest.fixture(scope="module")
def answered():
    """Answers with null odds at and above the threshold; empty contexts."""
    model = _model(
        max_seq_length=24,
        max_query_length=6,
        version_2_with_negative=True,
        null_score_diff_threshold=2,
    )
    logits = np.zeros([3, 2, 24], np.float32)
    logits[:2, :, 3] = 1  # The first piece of the paragraph scores 2.
    logits[2, :, 8] = 1  # It is behind a question of 6 pieces.
    logits[:, :, 0] = [[2, 2], [2, 2.25], [0, 0]]  # "No answer" scores more.
    questions = [
        *(("who", context) for context in ("the cat", "", "the cat", " \n")),
        (" ".join(["who"] * 9), "the cat"),
    ]
    return _ask(model, GivenLogits(logits), questions)


def test_an_answer_whose_null_odds_are_the_threshold_is_given(answered):
    assert answered["null_odds"].tolist()[:4:2] == [2, 2.25]
    assert answered["answer"].tolist()[:4:2] == [b"the", b""]
    assert answered["score"].tolist()[:4:2] == [2, 2]


def test_a_long_question_is_cut_as_in_the_script(answered):
    assert answered["answer"][4] == b"the"
    assert answered["score"][4] == 2


def test_a_question_on_an_empty_context_has_finite_numbers(answered):
    assert answered["answer"].tolist()[1::2] == [b"", b""]
    assert answered["start"].tolist()[1::2] == [-1, -1]
    assert answered["score"].tolist()[1::2] == [-1e9, -1e9]
    assert answered["null_odds"].tolist()[1::2] == [1e6, 1e6]


@pytest.mark.integration
def test_unusual_requests_are_answered():
    model = _model(max_seq_length=24, doc_stride=5, max_query_length=6)
    assert _ask(model, GivenLogits(), [])["answer"].shape == (0,)
    odd = b"wh\xffo?", b"the \xf0\x9f ca\xfft"
    got = _ask(model, GivenLogits(), [odd, (b"who?", b"the  cat"), (b"", b"")])
    for values in got.values():
        assert values[0] == values[1]
    assert got["answer"][2] == b""
    assert (got["start"][2], got["end"][2]) == (-1, -1)
    only = _ask(model, GivenLogits(), [(b"who?", b" ")])
    assert only["answer"].tolist() == [b""]


@pytest.mark.parametrize("doc_stride", [1, 4, 50])
@pytest.mark.parametrize("num_query", [0, 3, 5])
def test_windows_are_those_of_the_script(num_query, doc_stride):
    options = window_features.WindowOptions(
        max_seq_length=14, doc_stride=doc_stride, max_query_length=5
    )
    num_pieces = [0, 1, 5, 6, 7, 8, 11, 12, 40]
    got = span_search.cut_windows(
        tf.fill([len(num_pieces)], tf.constant(num_query, tf.int64)),
        tf.constant(num_pieces, tf.int64),
        options,
    )
    for number, pieces in enumerate(num_pieces):
        room = 14 - num_query - window_features.NUM_SPECIAL_TOKENS
        spans = window_features.document_spans(pieces, room, doc_stride)
        here = got.question.numpy() == number
        starts, lengths = got.starts[here], got.lengths[here]
        pairs = zip(
            starts.numpy().tolist(), lengths.numpy().tolist(), strict=True
        )
        assert list(pairs) == spans

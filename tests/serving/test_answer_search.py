"""Windows and ranked spans against `tasks`, one question at a time."""

import numpy as np
import pytest
import tensorflow as tf

from serving import answer_search
from tasks.squad import squad_answers, squad_features


@pytest.mark.parametrize("doc_stride", [1, 4, 50])
@pytest.mark.parametrize("num_query", [0, 3, 5])
def test_windows_are_those_of_the_script(num_query, doc_stride):
    options = squad_features.WindowOptions(
        max_seq_length=14, doc_stride=doc_stride, max_query_length=5
    )
    num_pieces = [0, 1, 5, 6, 7, 8, 11, 12, 40]
    got = answer_search.cut_windows(
        tf.fill([len(num_pieces)], tf.constant(num_query, tf.int64)),
        tf.constant(num_pieces, tf.int64),
        options,
    )
    for number, pieces in enumerate(num_pieces):
        room = 14 - num_query - squad_features.NUM_SPECIAL_TOKENS
        spans = squad_features.document_spans(pieces, room, doc_stride)
        here = slice(got.row_splits[number], got.row_splits[number + 1])
        starts, lengths = got.starts[here], got.lengths[here]
        pairs = zip(
            starts.numpy().tolist(), lengths.numpy().tolist(), strict=True
        )
        assert list(pairs) == spans
        assert set(got.question[here].numpy()) <= {number}
        best = squad_features.max_context_spans(spans, pieces)
        np.testing.assert_array_equal(
            answer_search.has_most_context(starts, lengths),
            best == np.arange(len(spans))[:, np.newaxis],
        )


def _features(spans, num_query, length, best):
    """Makes the windows of a question as the search wants them."""
    offset = num_query + 2
    for number, (start, size) in enumerate(spans):
        word_of_token = np.full(offset + size + 1, -1)
        word_of_token[offset : offset + size] = range(start, start + size)
        is_best = np.zeros(offset + size + 1, bool)
        is_best[offset : offset + size] = best[start : start + size] == number
        yield squad_features.SquadFeatures(
            unique_id=number,
            example_index=0,
            doc_span_index=number,
            tokens=("x",) * (offset + size + 1),
            num_query_tokens=num_query,
            input_ids=np.zeros(length, np.int32),
            token_to_orig_map=word_of_token,
            token_is_max_context=is_best,
            start_position=None,
            end_position=None,
            is_impossible=False,
        )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("version_2", [False, True])
def test_spans_are_ranked_as_in_the_script(seed, version_2):
    rng = np.random.default_rng(seed)
    length, num_query = 15, int(rng.integers(0, 4))
    num_pieces = int(rng.integers(1, 40))
    options = squad_answers.AnswerOptions(
        n_best_size=int(rng.integers(1, 20)),
        max_answer_length=int(rng.integers(1, 8)),
        version_2_with_negative=version_2,
    )
    spans = squad_features.document_spans(
        num_pieces, length - num_query - 3, int(rng.integers(1, 12))
    )
    best = squad_features.max_context_spans(spans, num_pieces)
    # Few values, so that many are equal.
    logits = rng.integers(0, 5, (len(spans), 2, length)).astype(np.float64)
    features = list(_features(spans, num_query, length, best))
    expected = list(squad_answers.ranked_spans(features, logits, options))
    got = answer_search.ranked_spans(
        tf.constant(logits),
        tuple(tf.constant(part, tf.int64) for part in zip(*spans, strict=True)),
        tf.constant(num_query + 2, tf.int64),
        options,
    )
    pieces = [
        (-1, -1)
        if start == 0
        else tuple(
            int(features[window].token_to_orig_map[token])
            for token in (start, end)
        )
        for window, start, end in expected
    ]
    assert list(map(tuple, got.pieces.numpy().tolist())) == pieces
    np.testing.assert_array_equal(
        got.logits.numpy().reshape(-1, 2),
        np.reshape(
            [(logits[w, 0, s], logits[w, 1, e]) for w, s, e in expected],
            (-1, 2),
        ),
    )


def test_an_empty_paragraph_has_no_answer():
    none = tf.zeros([0], tf.int64)
    logits = tf.zeros([0, 2, 9], tf.float64)
    options = squad_answers.AnswerOptions(version_2_with_negative=True)
    two = tf.constant(2, tf.int64)
    got = answer_search.ranked_spans(logits, (none, none), two, options)
    assert got.pieces.numpy().tolist() == [[-1, -1]]
    assert got.logits.numpy().tolist() == [[0, 0]]

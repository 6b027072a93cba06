import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.squad import squad_features, squad_search


def _feature(unique_id, token_to_orig_map, is_max_context, *, length=None):
    num_tokens = len(token_to_orig_map)
    return squad_features.SquadFeatures(
        unique_id=unique_id,
        example_index=0,
        doc_span_index=0,
        tokens=("x",) * num_tokens,
        num_query_tokens=0,
        input_ids=np.zeros(length or num_tokens, np.int32),
        token_to_orig_map=np.array(token_to_orig_map),
        token_is_max_context=np.array(is_max_context, bool),
        start_position=None,
        end_position=None,
        is_impossible=False,
    )


def _best_indexes(logits, count):
    order = sorted(range(len(logits)), key=lambda i: logits[i], reverse=True)
    return order[:count]


def _plain_spans(features, logits, options):
    """Tries every pair one by one."""
    spans = []
    for window, feature in enumerate(features):
        start_logits, end_logits = logits[window].tolist()
        for start in _best_indexes(start_logits, options.n_best_size):
            for end in _best_indexes(end_logits, options.n_best_size):
                if max(start, end) >= len(feature.tokens):
                    continue
                if min(feature.token_to_orig_map[[start, end]]) < 0:
                    continue
                if not feature.token_is_max_context[start]:
                    continue
                if 0 <= end - start < options.max_answer_length:
                    spans.append((window, start, end))
    if options.version_2_with_negative:
        null_scores = [start[0] + end[0] for start, end in logits.tolist()]
        spans.append((null_scores.index(min(null_scores)), 0, 0))

    def score(span):
        window, start, end = span
        return logits[window, 0, start] + logits[window, 1, end]

    return sorted(spans, key=score, reverse=True)


@given(st.data())
def test_search_finds_what_trying_every_pair_finds(data):
    num_windows = data.draw(st.integers(1, 3))
    length = data.draw(st.integers(3, 9))
    bits = st.lists(st.booleans(), min_size=length, max_size=length)
    features = []
    for window in range(num_windows):
        num_tokens = data.draw(st.integers(2, length))
        words = [-1, *range(num_tokens - 2), -1]
        is_max_context = np.array(data.draw(bits)[:num_tokens])
        is_max_context &= np.array(words) >= 0
        features.append(_feature(window, words, is_max_context, length=length))
    # Few values, so that many scores are equal.
    values = data.draw(
        st.lists(
            st.sampled_from([-1.5, 0.0, 0.25, 2.0]),
            min_size=num_windows * 2 * length,
            max_size=num_windows * 2 * length,
        )
    )
    logits = np.array(values).reshape(num_windows, 2, length)
    options = squad_search.AnswerOptions(
        n_best_size=data.draw(st.integers(1, 10)),
        max_answer_length=data.draw(st.integers(1, 5)),
        version_2_with_negative=data.draw(st.booleans()),
    )
    spans = [
        (span.window, span.start, span.end)
        for span in squad_search.ranked_spans(features, logits, options)
    ]
    assert spans == _plain_spans(features, logits, options)


def test_null_span_is_the_lowest_and_of_equals_the_first():
    logits = np.zeros((4, 2, 3))
    logits[:, 0, 0] = [3, 1, 0, 1]
    logits[:, 1, 0] = [0, 1, 2, 0.5]
    assert squad_search.null_span(logits).window == 3
    logits[3, 1, 0] = 1
    span = squad_search.null_span(logits)
    assert (span.window, span.start, span.end, span.score) == (1, 0, 0, 2)


def _logits(unique_id, start, end):
    return {
        unique_id: squad_search.WindowLogits(
            unique_id=unique_id,
            start_logits=np.array(start, np.float32),
            end_logits=np.array(end, np.float32),
        )
    }


@pytest.mark.parametrize(
    ("logits_of", "message"),
    [
        (_logits(8, [0, 0, 0], [0, 0, 0]), "window 7 has none"),
        (_logits(7, [0, 0], [0, 0]), r"shape \(2, 3\); got \(2, 2\)"),
        (_logits(7, [0, np.nan, 0], [0, 0, 0]), "finite; those of window 7"),
        (_logits(7, [0, 0, 0], [0, np.inf, 0]), "finite; those of window 7"),
    ],
)
def test_wrong_logits_are_named(logits_of, message):
    feature = _feature(7, [-1, 0, -1], [0, 1, 0])
    with pytest.raises(ValueError, match=message):
        squad_search.checked_logits(feature, logits_of)


def test_sizes_must_be_positive():
    with pytest.raises(ValueError, match="at least 1; got 0 and 30"):
        squad_search.AnswerOptions(n_best_size=0)

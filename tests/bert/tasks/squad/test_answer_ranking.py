import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert.tasks.squad import (
    answer_files,
    answer_ranking,
    question_files,
    window_features,
)
from tests.support import locations, toy_files, toy_squad
from vocab import tokenization

_FILES = {
    "predictions": "predictions.json",
    "nbest_predictions": "nbest_predictions.json",
    "null_odds": "null_odds.json",
}


def _released_cases():
    path = locations.GOLDEN / "squad/write_predictions.json.gz"
    return toy_files.read_json(path)


@pytest.fixture(scope="module")
def logits():
    with np.load(
        locations.GOLDEN / "squad" / "write_predictions_logits.npz"
    ) as file:
        return dict(file)


def _rank_case(case, tokenizer, logits):
    version_2 = case["version_2_with_negative"]
    examples = toy_squad.read_examples(
        str(locations.INPUTS / "squad" / f"{case['data']}.json"),
        is_training=False,
        version_2_with_negative=version_2,
    )
    length, stride, query = (
        int("".join(filter(str.isdigit, part)))
        for part in case["features"].split("/")[1].split("_")
    )
    features = window_features.convert_examples_to_features(
        examples,
        tokenizer,
        window_features.WindowOptions(
            max_seq_length=length, doc_stride=stride, max_query_length=query
        ),
    )
    unique_ids = logits[f"{case['name']}/unique_ids"].tolist()
    results = dict(
        zip(unique_ids, logits[f"{case['name']}/logits"], strict=True)
    )
    options = answer_ranking.AnswerOptions(
        n_best_size=case["n_best_size"],
        max_answer_length=case["max_answer_length"],
        version_2_with_negative=version_2,
    )
    return answer_ranking.rank_answers(
        examples,
        features,
        results,
        options,
        tokenizer.basic_tokenizer,
    )


def _without_numbers(value):
    """Replaces floats, so that keys, order and texts can be compared."""
    return json.dumps(json.loads(value, parse_float=lambda _: 0.5), indent=4)


def _numbers(value):
    numbers = []
    json.loads(value, parse_float=lambda text: numbers.append(float(text)))
    return numbers


@pytest.mark.parametrize(
    "case",
    [case for case in _released_cases() if not case["error"]],
    ids=lambda case: case["name"],
)
def test_files_are_those_of_the_release(case, tokenizer, logits, tmp_path):
    answers = _rank_case(case, tokenizer, logits)
    threshold = case["null_score_diff_threshold"]
    decisions = answer_files.decide(answers, threshold)
    answer_files.write(str(tmp_path), answers, decisions)
    released = {
        name: case[key] for key, name in _FILES.items() if case[key] is not None
    }
    assert {path.name for path in tmp_path.iterdir()} == set(released)
    for name, text in released.items():
        ours = (tmp_path / name).read_text(encoding="ascii")
        assert _without_numbers(ours) == _without_numbers(text)
        # float64 sums and exponentials; 1e-9 allows for another libm.
        np.testing.assert_allclose(_numbers(ours), _numbers(text), atol=1e-9)
        assert ours.endswith("}\n")


@pytest.mark.parametrize(
    "case",
    [case for case in _released_cases() if case["error"]],
    ids=lambda case: case["name"],
)
def test_no_answer_wins_where_the_release_crashes(
    case, tokenizer, logits, tmp_path
):
    answers = _rank_case(case, tokenizer, logits)
    crashing = [a for a in answers if not any(c.text for c in a.nbest)]
    assert crashing
    for answer in crashing:
        (only,) = answer.nbest
        assert (only.text, only.probability) == ("", 1.0)
        assert answer.null_odds == 1e6
        assert answer.prediction(100.0) == ""
    decisions = answer_files.decide(answers)
    answer_files.write(str(tmp_path), answers, decisions)
    for name in _FILES.values():
        content = toy_files.read_json(tmp_path / name)
        assert list(content) == [answer.qas_id for answer in answers]


def _example(words=("The", "mill's", "weir.")):
    return question_files.SquadExample(
        qas_id="q", question_text="wind", doc_tokens=tuple(words)
    )


def _rank(example, tokenizer, make_logits=None, **options):
    features = list(
        window_features.convert_examples_to_features(
            [example],
            tokenizer,
            window_features.WindowOptions(
                max_seq_length=16, doc_stride=4, max_query_length=3
            ),
        )
    )
    results = {
        feature.unique_id: np.array(
            [make_logits(feature.tokens, side) for side in (0, 1)]
        )
        for feature in itertools.chain.from_iterable(features)
    }
    (answer,) = answer_ranking.rank_answers(
        [example],
        features,
        results,
        answer_ranking.AnswerOptions(**options),
        tokenizer.basic_tokenizer,
    )
    return answer


def test_empty_paragraph_is_answered(tokenizer):
    answer = _rank(_example(()), tokenizer)
    assert answer.prediction() == "empty"
    assert answer.null_odds is None
    answer = _rank(_example(()), tokenizer, version_2_with_negative=True)
    assert answer.prediction() == ""
    assert [candidate.text for candidate in answer.nbest] == [""]
    assert answer.null_odds == 1e6


def _one_word_logits(word, score):
    """Gives a word `score` as start and end, token 0 the score 1, others 0."""

    def logits(tokens, _):
        values = np.zeros(16, np.float32)
        values[0] = 1
        values[tokens.index(word)] = score
        return values

    return logits


def test_threshold_decides_between_null_and_the_best_text(tokenizer):
    given = (_example(("water", "sun", "night")), tokenizer)
    given = (*given, _one_word_logits("sun", 2))
    answer = _rank(*given, version_2_with_negative=True)
    assert answer.null_odds == 2 - 4
    assert answer.best_text() == "sun"
    assert answer.prediction() == "sun"
    # The odds must be above the threshold, not at it.
    assert answer.prediction(-2.0) == "sun"
    assert answer.prediction(-2.5) == ""
    assert answer_files.decide([answer], -2.5).texts == {"q": ""}
    # Null is added to the best where it is not among them.
    answer = _rank(*given, version_2_with_negative=True, n_best_size=1)
    assert [entry.text for entry in answer.nbest] == ["sun", ""]
    # exp(4) and exp(2), normalized.
    assert answer.nbest[0].probability == pytest.approx(0.880797078)
    assert answer.nbest[1].probability == pytest.approx(0.119202922)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("predictions", '["x"]', "a JSON object; got list"),
        ("predictions", '{"q": 1}', "q must be a string"),
        ("null_odds", '{"q": "1"}', "q must be a number"),
        ("null_odds", "{", "must be JSON .*line 1 column 2"),
    ],
)
def test_wrong_file_is_named(tmp_path, name, content, message):
    (tmp_path / "predictions.json").write_text("{}")
    (tmp_path / f"{name}.json").write_text(content)
    with pytest.raises(ValueError, match=rf"{name}\.json.*{message}"):
        answer_files.read(
            str(tmp_path / "predictions.json"), version_2_with_negative=True
        )


def _feature(unique_id, token_to_orig_map, is_max_context, *, length=None):
    num_tokens = len(token_to_orig_map)
    return window_features.SquadFeatures(
        unique_id=unique_id,
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
    options = answer_ranking.AnswerOptions(
        n_best_size=data.draw(st.integers(1, 10)),
        max_answer_length=data.draw(st.integers(1, 5)),
        version_2_with_negative=data.draw(st.booleans()),
    )
    spans = list(answer_ranking.ranked_spans(features, logits, options))
    assert spans == _plain_spans(features, logits, options)


def test_null_is_in_the_lowest_and_of_equals_the_first_window():
    logits = np.zeros((4, 2, 3))
    logits[:, 0, 0] = [3, 1, 0, 1]
    logits[:, 1, 0] = [0, 1, 2, 0.5]
    assert answer_ranking.null_window(logits) == 3
    logits[3, 1, 0] = 1
    assert answer_ranking.null_window(logits) == 1


def test_removed_padding_scores_below_any_token():
    windows = [_feature(7, [-1, 0, -1], [0, 1, 0], length=5)]
    logits = {7: np.array([[1, -2, 5, 6], [3, 4, 5, 6]], np.float32)}
    low = -1e9
    values = answer_ranking.window_logits(windows, logits)
    assert values.tolist() == [[[1, -2, 5, 6, low], [3, 4, 5, 6, low]]]
    values = answer_ranking.window_logits(windows, logits, without_padding=True)
    assert values.tolist() == [[[1, -2, 5, low, low], [3, 4, 5, low, low]]]
    for wrong in (np.nan, np.inf):
        logits[7][1, 2] = wrong
        with pytest.raises(ValueError, match="finite; those of window 7"):
            answer_ranking.window_logits(windows, logits)


@pytest.mark.parametrize(
    "case",
    toy_files.read_json(locations.GOLDEN / "squad/functions.json")[
        "get_final_text"
    ],
)
def test_final_text_is_that_of_the_release(case):
    tokenizer = tokenization.BasicTokenizer(case["do_lower_case"])
    tokens = " ".join(tokenizer.tokenize(case["orig_text"]))
    text = answer_ranking.final_text(
        case["pred_text"], case["orig_text"], tokens
    )
    assert text == case["final_text"]


def test_a_place_that_begins_or_ends_with_a_space_gives_all_words():
    for pred_text in (" b", "a ", "b "):
        text = answer_ranking.final_text(pred_text, "a b c", "a b c")
        assert text == "a b c"


@pytest.mark.parametrize("words", ["", "a b"])
def test_no_pieces_give_all_words(words):
    assert answer_ranking.final_text("", words, words) == words


def test_pieces_join_to_words():
    pieces = ["un", "##aff", "##able", ",", "#", "[UNK]", "##s"]
    assert answer_ranking.join_pieces(pieces) == "unaffable , # [UNK]s"
    assert answer_ranking.join_pieces(["##able", "."]) == "able ."
    assert answer_ranking.join_pieces([]) == ""

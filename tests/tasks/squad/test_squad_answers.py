import gzip
import json
import pathlib

import numpy as np
import pytest

from tasks.squad import (
    squad,
    squad_answers,
    squad_features,
    squad_search,
    squad_windows,
)
from vocab import tokenization

_GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
_FILES = {
    "predictions": "predictions.json",
    "nbest_predictions": "nbest_predictions.json",
    "null_odds": "null_odds.json",
}


def _released_cases():
    with gzip.open(_GOLDEN / "squad" / "write_predictions.json.gz") as file:
        return json.load(file)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.FullTokenizer(str(_GOLDEN / "inputs" / "vocab.txt"))


@pytest.fixture(scope="module")
def logits():
    with np.load(_GOLDEN / "squad" / "write_predictions_logits.npz") as file:
        return dict(file)


def _rank_case(case, tokenizer, logits):
    version_2 = case["version_2_with_negative"]
    examples = squad.read_examples(
        str(_GOLDEN / "inputs" / "squad" / f"{case['data']}.json"),
        is_training=False,
        version_2_with_negative=version_2,
    )
    length, stride, query = (
        int("".join(filter(str.isdigit, part)))
        for part in case["features"].split("/")[1].split("_")
    )
    features = squad_features.convert_examples_to_features(
        examples,
        tokenizer,
        squad_windows.WindowOptions(
            max_seq_length=length, doc_stride=stride, max_query_length=query
        ),
    )
    ids = logits[f"{case['name']}/unique_ids"].tolist()
    results = [
        squad_search.WindowLogits(
            unique_id=unique_id, start_logits=start, end_logits=end
        )
        for unique_id, (start, end) in zip(
            ids, logits[f"{case['name']}/logits"], strict=True
        )
    ]
    options = squad_search.AnswerOptions(
        n_best_size=case["n_best_size"],
        max_answer_length=case["max_answer_length"],
        version_2_with_negative=version_2,
    )
    return squad_answers.rank_answers(
        examples,
        features,
        reversed(results),  # In any order.
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
    squad_answers.write_answers(str(tmp_path), answers, threshold)
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
    squad_answers.write_answers(str(tmp_path), answers)
    for name in _FILES.values():
        content = json.loads((tmp_path / name).read_text())
        assert list(content) == [answer.qas_id for answer in answers]


def _example(words=("The", "mill's", "weir.")):
    return squad.SquadExample(
        qas_id="q", question_text="wind", doc_tokens=tuple(words)
    )


def _rank(example, tokenizer, make_logits=None, **options):
    features = list(
        squad_features.convert_examples_to_features(
            [example],
            tokenizer,
            squad_windows.WindowOptions(
                max_seq_length=16, doc_stride=4, max_query_length=3
            ),
        )
    )
    results = [
        squad_search.WindowLogits(
            unique_id=feature.unique_id,
            start_logits=make_logits(feature.tokens, 0),
            end_logits=make_logits(feature.tokens, 1),
        )
        for feature in features
    ]
    (answer,) = squad_answers.rank_answers(
        [example],
        features,
        results,
        squad_search.AnswerOptions(**options),
        tokenizer.basic_tokenizer,
    )
    return answer


def test_empty_paragraph_is_answered(tokenizer):
    answer = _rank(_example(()), tokenizer)
    assert answer.prediction() == "empty"
    assert answer.null_odds is None
    answer = _rank(_example(()), tokenizer, version_2_with_negative=True)
    assert answer.prediction() == ""
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
    example = _example(("water", "sun", "night"))
    answer = _rank(
        example,
        tokenizer,
        _one_word_logits("sun", 2),
        version_2_with_negative=True,
    )
    assert answer.null_odds == 2 - 4
    assert answer.best_text() == "sun"
    assert answer.prediction() == "sun"
    # The odds must be above the threshold, not at it.
    assert answer.prediction(-2.0) == "sun"
    assert answer.prediction(-2.5) == ""
    assert squad_answers.predictions([answer], -2.5) == {"q": ""}


def test_null_is_added_to_the_best_where_it_is_not_among_them(tokenizer):
    answer = _rank(
        _example(("water", "sun", "night")),
        tokenizer,
        _one_word_logits("sun", 2),
        version_2_with_negative=True,
        n_best_size=1,
    )
    assert [entry.text for entry in answer.nbest] == ["sun", ""]
    # exp(4) and exp(2), normalised.
    assert answer.nbest[0].probability == pytest.approx(0.880797078)
    assert answer.nbest[1].probability == pytest.approx(0.119202922)


def test_window_without_logits_is_named(tokenizer):
    feature = next(
        squad_features.convert_examples_to_features(
            [_example()], tokenizer, squad_windows.WindowOptions()
        )
    )
    with pytest.raises(ValueError, match="window 1000000000 has none"):
        squad_answers.rank_answers(
            [_example()],
            [feature],
            [],
            squad_search.AnswerOptions(),
            tokenizer.basic_tokenizer,
        )


def test_files_come_back(tmp_path, tokenizer):
    answer = _rank(_example(()), tokenizer, version_2_with_negative=True)
    squad_answers.write_answers(str(tmp_path), [answer])
    path = str(tmp_path / "predictions.json")
    assert squad_answers.read_predictions(path) == {"q": ""}
    path = str(tmp_path / "null_odds.json")
    assert squad_answers.read_null_odds(path) == {"q": 1e6}


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (squad_answers.read_predictions, '["x"]', "a text for .* got list"),
        (squad_answers.read_predictions, '{"q": 1}', "'q' must have a text"),
        (
            squad_answers.read_null_odds,
            '{"q": "1"}',
            "'q' must have a finite number",
        ),
        (squad_answers.read_null_odds, "{", "line 1, column 2: must be JSON"),
    ],
)
def test_wrong_file_is_named(tmp_path, read, content, message):
    path = tmp_path / "wrong.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"wrong\.json.*{message}"):
        read(str(path))

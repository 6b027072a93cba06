import pytest

from bert.tasks.squad import answer_files, answer_ranking, ensembles


def _entry(text, probability, start_logit=0.0, end_logit=0.0):
    return answer_ranking.Candidate(
        text=text,
        probability=probability,
        start_logit=start_logit,
        end_logit=end_logit,
    )


def _combine(systems, qas_ids="q", **options):
    options = {"n_best_size": 20, "version_2_with_negative": False, **options}
    return ensembles.combine_nbest(systems, qas_ids, **options)


def test_probabilities_are_averaged_over_all_systems():
    first = {"q": (_entry("cat", 0.75, 4, 2), _entry("dog", 0.25, 1, 1))}
    second = {"q": (_entry("cow", 0.5, 3, 3), _entry("dog", 0.5, 2, 4))}
    (answer,) = _combine([first, second])
    # "cat" and "dog" are equal: "cat" came first.
    assert answer.nbest == (
        _entry("cat", 0.375, 4, 2),
        _entry("dog", 0.375, 1.5, 2.5),
        _entry("cow", 0.25, 3, 3),
    )
    assert answer.prediction() == "cat"
    assert answer.null_odds is None
    (shorter,) = _combine([first, second], n_best_size=1)
    assert shorter.nbest == answer.nbest[:1]


def test_null_odds_are_the_mean_of_those_of_the_systems():
    # Odds 1 - 3 = -2, and 2 - 1 = 1; the third has nothing but "no answer".
    systems = [
        {"q": (_entry("cat", 0.9, 2, 1), _entry("", 0.1, 0.5, 0.5))},
        {"q": (_entry("", 0.8, 1, 1), _entry("dog", 0.2, 0, 1))},
        {"q": (_entry("", 1.0, 5, 5),)},
    ]
    (answer,) = _combine(systems, version_2_with_negative=True, n_best_size=1)
    assert answer.null_odds == pytest.approx(-0.5)
    (answer,) = _combine(
        systems[:1], version_2_with_negative=True, n_best_size=1
    )
    assert [entry.text for entry in answer.nbest] == ["cat", ""]
    (answer,) = _combine(systems[2:], version_2_with_negative=True)
    assert answer.prediction(1000.0) == ""


def test_the_best_text_stays_among_few_answers():
    systems = [
        {"q": (_entry("", 0.4, 0.2), _entry("cat", 0.33, 0))},
        {"q": (_entry("dog", 0.4, 0.3), _entry("", 0.3, 0))},
    ]
    (answer,) = _combine(systems, version_2_with_negative=True, n_best_size=1)
    assert answer.null_odds == pytest.approx(-0.05)
    assert [entry.text for entry in answer.nbest] == ["", "dog"]
    assert answer.prediction(0.0) == "dog"


def test_systems_must_answer_the_same_questions():
    entry = (_entry("cat", 1.0),)
    with pytest.raises(ValueError, match="system 2 answers others"):
        _combine([{"a": entry}, {"b": entry}], "a")
    with pytest.raises(ValueError, match="system 1 answers others"):
        _combine([{"a": entry, "b": entry}], "a")


def test_version_2_needs_no_answer_in_every_system():
    with pytest.raises(ValueError, match="a system lacks it for 'q'"):
        _combine([{"q": (_entry("cat", 1.0),)}], version_2_with_negative=True)


def test_nbest_comes_back_from_a_file(tmp_path):
    answer = answer_ranking.RankedAnswers(
        qas_id="q", nbest=(_entry("né", 0.5, 1, 2),), null_odds=None
    )
    decisions = answer_files.decide([answer])
    answer_files.write(str(tmp_path), [answer], decisions)
    nbest = ensembles.read_nbest(str(tmp_path / "nbest_predictions.json"))
    assert nbest == {"q": answer.nbest}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "must be a JSON object; got list"),
        ('{"q": "cat"}', "'q' must have a list of answers; got 'cat'"),
        ('{"q": ["cat"]}', r"'q'\[0\] must be an object; got str"),
        ('{"q": [{"text": "cat"}]}', r"'q'\[0\]\.probability is missing"),
        ('{"q": [{"text": 1}]}', r"'q'\[0\]\.text must be a string; got 1"),
        (
            '{"q": [{"text": "", "probability": "0.5"}]}',
            r"'q'\[0\]\.probability must be a number.*; got '0.5'",
        ),
        ('{"q": []}', r"'q' must have a list of answers; got \[\]"),
        ('{"q"', "must be JSON .*line 1 column 5"),
    ],
)
def test_wrong_nbest_file_is_named(tmp_path, content, message):
    path = tmp_path / "nbest.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"nbest\.json.*{message}"):
        ensembles.read_nbest(str(path))

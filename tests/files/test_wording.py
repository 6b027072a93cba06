"""Values in messages: whole where short, cut where long."""

from files import wording


def test_short_values_are_whole_and_long_ones_cut():
    assert wording.shown("a'b") == repr("a'b")
    assert wording.shown([1, "x"]) == "[1, 'x']"
    assert wording.shown("x" * 10**6) == "'" + "x" * 56 + "..."
    assert len(wording.shown("x" * 59)) == 60


def test_values_that_python_cannot_write_are_named_by_type():
    deep = []
    for _ in range(10**5):
        deep = [deep]
    assert wording.shown(deep) == "a list too large to show"
    assert wording.shown(10**5000) == "a int too large to show"


def test_many_values_are_counted():
    assert wording.listed([]) == ""
    assert wording.listed(["a", 1]) == "'a', 1"
    assert wording.listed(range(25)).endswith("18, 19 and 5 more")

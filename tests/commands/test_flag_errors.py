import pytest
from absl import flags

from commands import flag_errors


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("flag --a=x: invalid literal for int() with base 10: 'x'",
         "--a must be a whole number; got x."),
        ("flag --a=x=y: could not convert string to float: 'x=y'",
         "--a must be a number; got x=y."),
        ("flag --a=-1: -1 is not a positive integer",
         "--a must be a positive integer; got -1."),
        ("flag --a=c: value should be one of <b|d>",
         "--a must be one of b, d; got c."),
        ("flag --a=c: Somebody else's words.",
         "flag --a=c: Somebody else's words."),
        ("flags a=1, b=None: --a needs --b.", "--a needs --b."),
    ],
)  # fmt: skip
def test_what_a_flag_must_be_is_told(line, words):
    assert flag_errors.in_words(flags.IllegalFlagValueError(line)) == words


def test_required_flags_must_not_be_empty_and_numbers_be_some():
    values = flags.FlagValues()
    flags.DEFINE_string("a", None, "", required=True, flag_values=values)
    flags.DEFINE_string("b", "", "", flag_values=values)
    flags.DEFINE_float("c", 1.0, "", flag_values=values)
    values(["x", "--a=1", "--b="])
    flag_errors.check(values)
    values(["x", "--a="])
    with pytest.raises(flags.IllegalFlagValueError, match="--a must not be em"):
        flag_errors.check(values)
    values(["x", "--a=1", "--c=nan"])
    with pytest.raises(flags.IllegalFlagValueError, match="--c must be a num"):
        flag_errors.check(values)


def test_several_faults_of_flags_are_told_in_one_line():
    error = flags.IllegalFlagValueError(
        "flag --a=None: Flag --a must have a value other than None.\n"
        "flag --b=None: Flag --b must have a value other than None.\n"
        "flag --c=3: too large"
    )
    assert flag_errors.in_words(error) == (
        "--a, --b must be given. flag --c=3: too large."
    )

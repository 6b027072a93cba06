"""The flags of questions and answers."""

import math

import pytest
from absl import flags

from bert.tasks.squad import options
from tests.support import programs


@pytest.mark.parametrize(
    ("text", "value"), [("auto", "auto"), ("-24.3", -24.3), ("inf", math.inf)]
)
def test_the_threshold_is_a_number_or_auto(text, value):
    parsed = programs.parse(
        options.SquadOptions, null_score_diff_threshold=text
    )
    assert parsed.null_score_diff_threshold == value


@pytest.mark.parametrize("text", ["best", ""])
def test_other_thresholds_are_refused(text):
    with pytest.raises(flags.Error, match="null_score_diff_threshold"):
        programs.parse(options.SquadOptions, null_score_diff_threshold=text)

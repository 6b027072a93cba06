import pytest

from training import durations


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (306, "5m 06s"),
        (3600 * 3 + 240, "3h 04m"),
        (86400 + 7200, "1d 02h"),
    ],
)
def test_durations_in_words(seconds, text):
    assert durations.in_words(seconds) == text

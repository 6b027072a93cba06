"""Word counts: by hand, over processes, and with too many words."""

import pytest

from vocab import counting


def _count(lines, **options):
    options = {"do_lower_case": True, "max_words": 10**6} | options
    return counting.count_words(lines, **{"num_workers": 1} | options)


def test_words_and_characters_are_counted():
    counts = _count(["The tide, the quay.", "", "Tide"])
    assert counts.words == {"the": 2, "tide": 2, ",": 1, "quay": 1, ".": 1}
    assert counts.characters == {
        **{"t": 4, "h": 2, "e": 4, "i": 2, "d": 2, ",": 1},
        **{"q": 1, "u": 1, "a": 1, "y": 1, ".": 1},
    }
    assert counts.num_chars == 23
    assert _count(["Tide tide"], do_lower_case=False).words == {
        "Tide": 1,
        "tide": 1,
    }


def test_no_lines_give_no_counts():
    assert _count([]).words == {}
    assert _count(["", " \t"]).words == {}


def test_too_long_words_are_left_out_and_reported(caplog):
    counts = _count(["a" * 200 + " " + "b" * 201])
    assert list(counts.words) == ["a" * 200]
    assert set(counts.characters) == {"a"}
    assert counts.num_too_long == 1
    assert "left out 1 words over 200 characters" in caplog.text


@pytest.mark.parametrize("num_workers", [2, 3])
def test_processes_change_no_count(num_workers, monkeypatch):
    monkeypatch.setattr(counting, "_CHUNK_CHARS", 40)
    lines = [f"w{number % 7} w{number} w{number // 5}" for number in range(90)]
    alone = _count(lines, max_words=30)
    assert alone.num_forgotten > 0
    assert _count(lines, max_words=30, num_workers=num_workers) == alone


def test_lines_are_read_as_they_are_needed(monkeypatch):
    monkeypatch.setattr(counting, "_CHUNK_CHARS", 1)
    num_read = 0

    def lines():
        nonlocal num_read
        for _ in range(100):
            num_read += 1
            yield "tide"

    read_ahead = []
    add = counting.WordCounts.add

    def watched_add(total, counts):
        add(total, counts)
        read_ahead.append(num_read - total.words["tide"])

    monkeypatch.setattr(counting.WordCounts, "add", watched_add)
    assert _count(lines(), num_workers=2).words == {"tide": 100}
    assert max(read_ahead) <= 3


def test_rarest_words_are_forgotten_by_whole_levels(caplog):
    lines = ["a a a b b b c c d d e f g h"]
    assert _count(lines, max_words=8).num_forgotten == 0
    counts = _count(lines, max_words=7)
    assert counts.words == {"a": 3, "b": 3}
    assert counts.num_forgotten == 6
    assert "forgot the 6 rarest words" in caplog.text
    assert set(counts.characters) == set("abcdefgh")


def test_words_all_equally_rare_are_forgotten_together():
    assert _count(["a b c d"], max_words=1).words == {}

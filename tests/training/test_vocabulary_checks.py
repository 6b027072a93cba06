"""Properties of a vocabulary, and the comparison of two."""

import pathlib

import pytest

from training import vocabulary_checks

_INPUTS = pathlib.Path(__file__).parents[1] / "golden/inputs"
_SHARED = pathlib.Path(__file__).parents[3] / "shared/data/vocab"


def _vocabulary(path, entries):
    path.write_text("".join(f"{e}\n" for e in entries), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("name", "want"), [("vocab.txt", True), ("vocab_cased.txt", False)]
)
def test_capitals_show_the_casing(name, want):
    assert vocabulary_checks.is_lower_case(str(_INPUTS / name)) is want


def test_accents_show_the_casing(tmp_path):
    words = [f"word{i}" for i in range(600)]
    path = tmp_path / "v"
    assert vocabulary_checks.is_lower_case(_vocabulary(path, words)) is True
    words += [f"caf\u00e9{i}" for i in range(100)]
    assert vocabulary_checks.is_lower_case(_vocabulary(path, words)) is False


@pytest.mark.parametrize(
    "entries",
    [
        ["[PAD]", "a", "b"],
        [chr(0x4E00 + i) for i in range(2000)],
        [*(f"word{i}" for i in range(600)), *(f"W{i}" for i in range(5))],
    ],
    ids=["few", "without letters", "between"],
)
def test_ambiguous_vocabularies_have_no_casing(tmp_path, entries):
    path = _vocabulary(tmp_path / "v", entries)
    assert vocabulary_checks.is_lower_case(path) is None


@pytest.mark.shared
@pytest.mark.skipif(not _SHARED.exists(), reason="needs ../shared")
@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("uncased", True),
        ("chinese", True),
        ("cased", False),
        ("multilingual_cased", False),
    ],
)
def test_released_vocabularies_show_their_casing(name, want):
    path = str(_SHARED / f"{name}.txt")
    assert vocabulary_checks.is_lower_case(path) is want


def test_the_first_difference_is_named(tmp_path):
    theirs = _vocabulary(tmp_path / "theirs", ["[PAD]", "a", "b"])
    same = _vocabulary(tmp_path / "same", ["[PAD]", "a", " b\r"])
    vocabulary_checks.check_same(same, theirs)
    for entries, message in (
        (["[PAD]", "c", "d"], r"first in line 2: 'c', there 'a'"),
        (["[PAD]", "a"], r"\(2 entries\).*line 3: the end, there 'b'"),
        (["[PAD]", "a", "b", "c"], "line 4: 'c', there the end"),
    ):
        ours = _vocabulary(tmp_path / "ours", entries)
        with pytest.raises(ValueError, match=message):
            vocabulary_checks.check_same(ours, theirs)


def test_unused_entries_may_be_words(tmp_path, caplog):
    theirs = _vocabulary(tmp_path / "t", ["[PAD]", "[unused0]", "[unused1]"])
    ours = _vocabulary(tmp_path / "o", ["[PAD]", "covid", "[unused1]"])
    with caplog.at_level("INFO"):
        vocabulary_checks.check_same(ours, theirs)
    assert "replaces 1 [unusedN] entries" in caplog.text
    with pytest.raises(ValueError, match=r"there 'covid'"):
        vocabulary_checks.check_same(theirs, ours)

"""Learnt vocabularies: by hand, exact sizes, round trips."""

import collections
import itertools
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support import toy_vocabulary
from vocab import learning

_TEXT = (
    "The harbour wakes before the sun; the tide, the quays and the crane "
    "wake with it. Harbours waken slowly.\n"
    "Crème brûlée, 東京 and \u0395\u03a3!\n"
)
_SPECIAL = learning.special_tokens(99)


def _learn(tmp_path, text=_TEXT, **options):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8", newline="")
    options = {"num_workers": 1, "vocab_size": 200} | options
    return learning.learn_vocabulary([str(path)], learning.Options(**options))


# ------------------------------------------------------------------- Pieces


def test_least_used_pieces_are_dropped():
    pieces = ["##er", "##wer", "lo", "low", "new"]
    alphabet = {"l", "n", "##o", "##w", "##e", "##r"}
    words = {"lower": 4, "newer": 2, "low": 1, "lo": 1}
    keep = learning.keep_most_used
    # Uses: ##er 6, low 5, new 2, lo 1, ##wer 0.
    assert keep(pieces, alphabet, words, 5) == pieces
    assert keep(pieces, alphabet, words, 4) == ["##er", "lo", "low", "new"]
    assert keep(pieces, alphabet, words, 2) == ["##er", "low"]
    assert keep(pieces, alphabet, words, 0) == []
    assert keep(pieces, alphabet, words, 9) == pieces
    # Of equally used ones the first are kept.
    words = {"ab": 1, "cd": 1, "ef": 1}
    assert keep(["ef", "ab", "cd"], "", words, 2) == ["ef", "ab"]
    # A word counts as often as it occurs.
    words = {"ab": 3, "cd": 1, "cde": 1}
    assert keep(["cd", "ab"], {"##e"}, words, 1) == ["ab"]
    # Without abc, which is dropped first, its words use ab.
    words = {"abc": 2, "ab": 3, "yz": 4, "zy": 4}
    assert keep(["abc", "ab", "yz", "zy"], {"##c"}, words, 2) == ["ab", "yz"]


# ------------------------------------------------------------- Vocabularies


def test_entries_come_in_the_released_order(tmp_path):
    # Joined in turn: ab, ##ab, ##abc, abc, cabc.
    text = "ab ab ab, abc! cabc"
    assert _learn(tmp_path, text, vocab_size=116) == [
        *_SPECIAL,
        *("!", ",", "a", "b", "c"),
        *("ab", "abc", "cabc"),
        *("##a", "##b", "##c"),
        "##ab",
    ]
    assert _SPECIAL[0] == "[PAD]"
    assert _SPECIAL[1:100] == [f"[unused{number}]" for number in range(99)]
    assert _SPECIAL[100:] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    more = learning.special_tokens(101)
    assert more == [*_SPECIAL, "[unused99]", "[unused100]"]


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_own_text_has_no_unknown_word(tmp_path, do_lower_case):
    vocabulary = _learn(tmp_path, do_lower_case=do_lower_case)
    tokenizer = toy_vocabulary.tokenizer(
        tmp_path, vocabulary, do_lower_case=do_lower_case
    )
    pieces = tokenizer.tokenize(_TEXT)
    assert "[UNK]" not in pieces
    words = tokenizer.basic_tokenizer.tokenize(_TEXT)
    spelt = "".join(piece.removeprefix("##") for piece in pieces)
    assert spelt == "".join(words)
    assert ("T" in vocabulary) is not do_lower_case


def test_characters_can_start_a_word_and_stand_within_one(tmp_path):
    vocabulary = _learn(tmp_path, "ab c, 東京")
    tokenizer = toy_vocabulary.tokenizer(tmp_path, vocabulary)
    assert "[UNK]" not in tokenizer.tokenize("cab bac a,b 京東")
    # What always stands alone needs no place for within.
    assert not {"##,", "##東", "##京"} & set(vocabulary)


def test_size_is_exact_from_the_smallest_to_the_largest(tmp_path):
    smallest = len(_SPECIAL) + len(_characters_of_text())
    largest = len(_learn(tmp_path, vocab_size=1000))
    assert largest > smallest + 30
    for size in range(smallest, largest + 1):
        vocabulary = _learn(tmp_path, vocab_size=size)
        assert len(vocabulary) == len(set(vocabulary)) == size


def _characters_of_text():
    letters = set("theharbourwakesbeforesuntidequaysandcranewithslowlym")
    letters |= {"\u03b5", "\u03c2"}  # Final sigma.
    alone = set(".;,!東京")
    return letters | alone | {f"##{letter}" for letter in letters}


def test_too_little_text_gives_every_word_and_a_warning(tmp_path, caplog):
    vocabulary = _learn(tmp_path, "ab ab", vocab_size=500)
    assert vocabulary == [*_SPECIAL, "a", "b", "ab", "##a", "##b"]
    told = "only 109 entries of the 500 requested: every word is an entry"
    assert told in caplog.text


def test_rare_characters_can_be_left_out(tmp_path, caplog):
    # A word with a rare character counts no more.
    text = "aab ab ab abbq\N{SNOWMAN}"
    vocabulary = _learn(tmp_path, text, min_character_count=3)
    assert vocabulary == [
        *_SPECIAL,
        "a",
        "b",
        "ab",
        "aab",
        "##a",
        "##b",
        "##ab",
    ]
    assert "only 111 entries" in caplog.text


def test_processes_and_order_of_words_change_no_entry(tmp_path, monkeypatch):
    # Small, so that each process gets several.
    monkeypatch.setattr("vocab.learning._CHUNK_CHARS", 200)
    rng = random.Random(5)
    words = [
        "".join(rng.choices("abcd", k=rng.randint(1, 6))) for _ in range(400)
    ]
    lines = [" ".join(words[start : start + 8]) for start in range(0, 400, 8)]
    alone = _learn(tmp_path, "\n".join(lines))
    assert len(alone) == 200
    assert _learn(tmp_path, "\n".join(lines), num_workers=2) == alone
    assert _learn(tmp_path, "\n".join(reversed(lines))) == alone


def test_all_files_are_read(tmp_path):
    for name, text in ("one", "ab ab"), ("two", "ab cd cd cd"):
        (tmp_path / name).write_text(text)
    vocabulary = learning.learn_vocabulary(
        [str(tmp_path / "one"), str(tmp_path / "two")],
        learning.Options(vocab_size=113, num_workers=1),
    )
    # Both have count 3, "cd" only in the second file and "ab" only in both.
    assert vocabulary == [
        *_SPECIAL,
        *("a", "b", "c", "d", "ab"),
        *("##a", "##b", "##c", "##d"),
    ]


# ------------------------------------------------------------------- Errors


def test_corpus_not_in_utf8_is_refused(tmp_path):
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"tide\ncaf\xe9\n")
    with pytest.raises(ValueError, match=r"latin1\.txt, line 2: not UTF-8"):
        learning.learn_vocabulary([str(path)], learning.Options(num_workers=1))


def test_size_below_the_characters_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"at least 108: 104 special tokens and 4 .* got 107"
    ):
        _learn(tmp_path, "ab", vocab_size=107)
    assert len(_learn(tmp_path, "ab", vocab_size=108)) == 108


# ------------------------------------------------------------ Counting words


def _count(lines, **options):
    options = learning.Options(**{"num_workers": 1} | options)
    return learning.count_words(lines, options)


def test_words_and_characters_are_counted():
    counts = _count(["The tide, the quay.", "", "Tide"])
    assert counts.words == {"the": 2, "tide": 2, ",": 1, "quay": 1, ".": 1}
    assert counts.characters == {
        **{"t": 4, "h": 2, "e": 4, "i": 2, "d": 2, ",": 1},
        **{"q": 1, "u": 1, "a": 1, "y": 1, ".": 1},
    }
    cased = _count(["Tide tide", " \t"], do_lower_case=False)
    assert cased.words == {"Tide": 1, "tide": 1}
    accented = _count(["Café"], strip_accents=False)
    assert accented.words == {"café": 1}
    assert _count([]).words == {}


def test_too_long_words_are_left_out():
    counts = _count(["a" * 200 + " " + "b" * 201])
    assert list(counts.words) == ["a" * 200]
    assert set(counts.characters) == {"a"}


def test_rarest_words_are_forgotten_by_whole_levels(caplog, monkeypatch):
    def count(lines, max_words):
        # A limit of millions takes gigabytes.
        monkeypatch.setattr(learning, "_MAX_WORDS", max_words)
        return _count(lines)

    lines = ["a a a b b b c c d d e f g h"]
    assert len(count(lines, 8).words) == 8
    assert not caplog.text
    counts = count(lines, 7)
    assert counts.words == {"a": 3, "b": 3}
    assert "dropped the 6 rarest words" in caplog.text
    assert set(counts.characters) == set("abcdefgh")
    # The most frequent words are never forgotten.
    assert count(["a b c d"], 1).words == dict.fromkeys("abcd", 1)
    assert count(["a a b b c"], 1).words == {"a": 2, "b": 2}


# -------------------------------------------------------- Byte-pair encoding


def test_pieces_worked_by_hand():
    # First counts: e|##r 6, ##e|##r and ##w|##e 5, l|##o and ##o|##w 4, then
    # n|##e and ##e|##w 1; "#" comes before letters.
    words = {"er": 6, "lower": 4, "newer": 1}
    pieces = ["er", "##er", "##wer", "##ower", "lower", "##ewer", "newer"]
    for num_pieces in range(8):
        learnt = learning.learn_pieces(words, num_pieces)
        assert learnt == pieces[:num_pieces]
    assert learning.learn_pieces(words, 9) == pieces  # There are no more.
    for words in ({}, {"a": 3, "b": 1}):
        assert learning.learn_pieces(words, 5) == []


def _slowly_learnt(words, num_pieces):
    """The same rule without bookkeeping: counts every pair anew."""
    cut = {word: [word[0], *(f"##{c}" for c in word[1:])] for word in words}
    learnt = []
    while len(learnt) < num_pieces:
        pairs = collections.Counter()
        for word, pieces in cut.items():
            for pair in itertools.pairwise(pieces):
                pairs[pair] += words[word]
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        for word, pieces in cut.items():
            rest, cut[word] = pieces, []
            while rest:
                found = rest[:2] == [left, right]
                joined = left + right[2:] if found else rest[0]
                cut[word] += [joined]
                rest = rest[2 if found else 1 :]
        if left + right[2:] not in learnt:
            learnt.append(left + right[2:])
    return learnt


@hypothesis.given(
    words=st.dictionaries(
        st.text("abc", min_size=1, max_size=9), st.integers(1, 5), max_size=9
    ),
    num_pieces=st.integers(0, 40),
)
def test_cached_counts_change_no_piece(words, num_pieces):
    learnt = learning.learn_pieces(words, num_pieces)
    assert learnt == _slowly_learnt(words, num_pieces)

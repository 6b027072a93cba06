"""Learns a WordPiece vocabulary for the tokenizer of the release.

The release came without the program that made its vocabularies. This one
counts the words that `BasicTokenizer` finds and learns some more pieces than
asked for from them by byte-pair encoding. That leaves pieces behind that
`WordpieceTokenizer`, which takes the longest piece, seldom meets: those that
it uses least are dropped.
"""

import collections
import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Mapping

from absl import logging

from files import lines
from vocab import byte_pairs, characters, counting, tokenization

# Measured on 53 million English words with 30,522 entries: 0.5 to 1 % fewer
# pieces per word, held-out text included, than without spare ones.
_SPARE_SHARE = 0.15
# Source: ids 100 to 103 of the released vocabularies.
_UNUSED_BEFORE_UNK = 99


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What to learn.

    Attributes:
        vocab_size: entries of the vocabulary, special ones included.
        do_lower_case: as for the tokenizer that will use the vocabulary.
        num_unused: `[unusedN]` entries, at least 99.
        min_character_count: characters seen less often get no entry, and
            words that have one will be [UNK].
        max_words: distinct words held at a time; beyond it the rarest are
            forgotten.
        num_workers: processes that count words; 0 for one per core.

    Raises:
        ValueError: a number is too small.
    """

    vocab_size: int = 30522  # Source: the released uncased vocabulary.
    do_lower_case: bool = True
    num_unused: int = _UNUSED_BEFORE_UNK
    min_character_count: int = 1
    max_words: int = 4_000_000
    num_workers: int = 0

    def __post_init__(self):
        for name, lowest in (
            ("num_unused", _UNUSED_BEFORE_UNK),  # So that [UNK] has id 100.
            ("min_character_count", 1),
            ("max_words", 1),
            ("num_workers", 0),
        ):
            if getattr(self, name) < lowest:
                raise ValueError(
                    f"{name} must be at least {lowest}; "
                    f"got {getattr(self, name)}."
                )


def learn_vocabulary(paths: Iterable[str], options: Options) -> list[str]:
    """Learns the entries of a vocabulary from text files.

    The result depends on the files, their order and the options, but not on
    `num_workers`.

    Args:
        paths: UTF-8 files.
        options: what to learn.

    Returns:
        The entries in the order of their ids: special tokens, characters,
        pieces that start a word, `##` characters, other `##` pieces; learnt
        pieces the most frequent first. As many as `options.vocab_size`, or
        fewer, with a warning, if the text has no more pieces.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a line is not UTF-8; the files have no words;
            `options.vocab_size` cannot hold the characters.
    """
    paths = list(paths)
    counts = counting.count_words(
        itertools.chain.from_iterable(map(lines.read_lines, paths)),
        do_lower_case=options.do_lower_case,
        max_words=options.max_words,
        num_workers=options.num_workers,
    )
    if not counts.words:
        raise ValueError(
            "The corpus must have words; found none in "
            f"{', '.join(paths) or 'no file'}."
        )
    special = special_tokens(options.num_unused)
    alphabet = _alphabet(counts, options.min_character_count)
    num_pieces = _num_pieces(len(special), len(alphabet), options)
    words = _spelt_with(alphabet, counts.words)
    num_candidates = math.ceil(num_pieces * (1 + _SPARE_SHARE))
    pieces = keep_most_used(
        byte_pairs.learn_pieces(words, num_candidates),
        alphabet,
        words,
        num_pieces,
    )
    vocabulary = special + _ordered(alphabet, pieces)
    if len(vocabulary) < options.vocab_size:
        logging.warning(
            "The text has only %d entries of the %d asked for: every word is "
            "an entry of its own. Learn from more text, or use vocab_size = "
            "%d, in the configuration of the model too.",
            len(vocabulary),
            options.vocab_size,
            len(vocabulary),
        )
    return vocabulary


def _num_pieces(num_special: int, num_characters: int, options: Options) -> int:
    """Counts the longer pieces that there is room for."""
    num_pieces = options.vocab_size - num_special - num_characters
    if num_pieces < 0:
        raise ValueError(
            f"vocab_size must be at least {num_special + num_characters}: "
            f"{num_special} special tokens and {num_characters} pieces of one "
            f"character; got {options.vocab_size}. Raise it, or raise "
            f"min_character_count ({options.min_character_count}) to leave "
            "rare characters out."
        )
    return num_pieces


def special_tokens(num_unused: int) -> list[str]:
    """Lists the special tokens by id: [PAD] 0, [UNK] 100 to [MASK] 103."""
    unused = [f"[unused{number}]" for number in range(num_unused)]
    return [
        "[PAD]",
        *unused[:_UNUSED_BEFORE_UNK],
        *("[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        *unused[_UNUSED_BEFORE_UNK:],
    ]


def keep_most_used(
    pieces: Iterable[str],
    alphabet: Collection[str],
    words: Mapping[str, int],
    num_pieces: int,
) -> list[str]:
    """Drops the pieces that cutting the words needs least.

    Args:
        pieces: to choose from, the most useful first where use is equal.
        alphabet: pieces of one character, kept whatever their use.
        words: word -> occurrences; spelt with `alphabet`.
        num_pieces: how many to keep.

    Returns:
        The kept pieces in the order they came.
    """
    pieces = list(pieces)
    for share in (0.5, 0.5, 1):  # In rounds: one dropped, others are used more.
        num_dropped = math.ceil(share * max(0, len(pieces) - num_pieces))
        if not num_dropped:
            break
        uses = _uses({*alphabet, *pieces}, words)
        ranked = sorted(pieces, key=uses.__getitem__, reverse=True)
        dropped = set(ranked[-num_dropped:])
        pieces = [piece for piece in pieces if piece not in dropped]
        logging.info("dropped the %d least used pieces", num_dropped)
    return pieces


def _uses(
    vocabulary: Collection[str], words: Mapping[str, int]
) -> collections.Counter:
    tokenizer = tokenization.WordpieceTokenizer(vocabulary)
    uses = collections.Counter()
    for word, count in words.items():
        for piece in tokenizer.tokenize(word):
            uses[piece] += count
    return uses


def _alphabet(counts: counting.WordCounts, min_count: int) -> set[str]:
    """Every frequent character, as the start of a word and within one."""
    frequent = [
        c for c, count in counts.characters.items() if count >= min_count
    ]
    within = [f"##{char}" for char in frequent if not _stands_alone(char)]
    return {*frequent, *within}


def _stands_alone(char: str) -> bool:
    return characters.is_punctuation(char) or characters.is_cjk_ideograph(char)


def _spelt_with(
    alphabet: Collection[str], words: Mapping[str, int]
) -> dict[str, int]:
    known = {
        word: count
        for word, count in words.items()
        if all(char in alphabet for char in word)
    }
    num_unknown = sum(words.values()) - sum(known.values())
    if num_unknown:
        logging.warning(
            "%d of %d words have a character without an entry",
            num_unknown,
            sum(words.values()),
        )
    return known


def _ordered(alphabet: Iterable[str], pieces: Iterable[str]) -> list[str]:
    by_start = {False: [], True: []}
    for piece in pieces:
        by_start[piece.startswith("##")].append(piece)
    return [
        *sorted(piece for piece in alphabet if len(piece) == 1),
        *by_start[False],
        *sorted(piece for piece in alphabet if len(piece) > 1),
        *by_start[True],
    ]

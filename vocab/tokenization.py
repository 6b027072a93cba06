"""Tokenizer of the original: the reference from text to word pieces.

There are two steps: `BasicTokenizer` splits text into words and punctuation
marks, `WordpieceTokenizer` splits each of those into pieces of a vocabulary.
`FullTokenizer` does both and reads the vocabulary from a file. Every string has
a defined result, including lone surrogates and unassigned code points.

Source: behavior of tokenization.py of google-research/bert, measured.
"""

import dataclasses
import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from bert.files import lines, paths
from vocab import huggingface_tokenizer

# Source: folder names of the checkpoints that the release recognizes, and
# whether their text is lower-cased.
_CASING_OF_MODEL = {
    "uncased_L-24_H-1024_A-16": True,
    "uncased_L-12_H-768_A-12": True,
    "multilingual_L-12_H-768_A-12": True,
    "chinese_L-12_H-768_A-12": True,
    "cased_L-12_H-768_A-12": False,
    "cased_L-24_H-1024_A-16": False,
    "multi_cased_L-12_H-768_A-12": False,
}
_RELEASED_CHECKPOINT = re.compile(r"([A-Za-z0-9_-]+)/bert_model\.ckpt")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_TEXT_TOKENS = ("[UNK]", "[CLS]", "[SEP]")
_VOCABULARY = "vocab.txt"
_MAX_CACHED_WORDS = 1 << 17  # About 30 MB; English text repeats most words.
# As released: Extensions F and later, kana and hangul are not included.
_CJK_BLOCKS = (
    (0x4E00, 0x9FFF),  # CJK Unified Ideographs
    (0x3400, 0x4DBF),  # Extension A
    (0x20000, 0x2A6DF),  # Extension B
    (0x2A700, 0x2B73F),  # Extension C
    (0x2B740, 0x2B81F),  # Extension D
    (0x2B820, 0x2CEAF),  # Extension E
    (0xF900, 0xFAFF),  # CJK Compatibility Ideographs
    (0x2F800, 0x2FA1F),  # CJK Compatibility Ideographs Supplement
)


def convert_to_unicode(text: str | bytes) -> str:
    """Returns text as a string; bytes are UTF-8, and invalid ones are skipped.

    Raises:
        ValueError: `text` is neither `str` nor `bytes`.
    """
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(
        f"Text must be str or bytes; got {type(text).__name__}: {text!r:.60}."
    )


def printable_text(text: str | bytes) -> str:
    """Returns text for `print` and `logging`, as `convert_to_unicode` does."""
    return convert_to_unicode(text)


def vocabulary_file(path: str) -> str:
    """Returns the file that holds the vocabulary of a path.

    Args:
        path: a file, `vocab.txt` or Hugging Face's `tokenizer.json`; or the
            folder of a model with one of them. Folders that transformers 5
            wrote have no `vocab.txt`: its name stands for `tokenizer.json`.
    """
    if paths.exists(path):
        return path
    folder, name = os.path.split(path)
    if name != _VOCABULARY:
        folder = path
    for name in (_VOCABULARY, huggingface_tokenizer.PIPELINE):
        if paths.exists(file := os.path.join(folder, name)):
            return file
    return path


def read_entries(vocab_file: str) -> list[str]:
    """Lists the entries of a vocabulary, up to blank lines at its end.

    Args:
        vocab_file: see `vocabulary_file`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line is not UTF-8, or a `tokenizer.json` has another
            tokenizer than BERT's.
    """
    path = vocabulary_file(vocab_file)
    if path.endswith(".json"):
        return huggingface_tokenizer.vocabulary(path)
    entries = [line.strip() for line in lines.read_lines(path)]
    while entries and not entries[-1]:
        entries.pop()
    return entries


def load_vocab(vocab_file: str) -> dict[str, int]:
    """Reads a vocabulary: one token per line; its id is the line index.

    White space around a token is dropped. As released: an empty line is the
    token "" and counts; a repeated token keeps its first place in the order
    and gets the last id.

    Args:
        vocab_file: see `vocabulary_file`.

    Returns:
        Token -> id, in the order of the file.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line is not UTF-8, or a `tokenizer.json` has another
            tokenizer than BERT's.
    """
    path = vocabulary_file(vocab_file)
    if path.endswith(".json"):
        return vocabulary_of(huggingface_tokenizer.vocabulary(path))
    return vocabulary_of(lines.read_lines(path))


def vocabulary_of(entries: Iterable[str]) -> dict[str, int]:
    """Returns the ids of the entries of a vocabulary; see `load_vocab`."""
    return {entry.strip(): index for index, entry in enumerate(entries)}


def vocab_sha256(tokens: Iterable[str]) -> str:
    """Hashes a vocabulary: its tokens in order, each followed by a line feed.

    For a vocabulary file without repeated lines this is its SHA-256.
    """
    digest = hashlib.sha256()
    for token in tokens:
        digest.update(token.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def convert_by_vocab(
    vocab: Mapping[_Key, _Value], items: Iterable[_Key]
) -> list[_Value]:
    """Looks up every item in order: tokens -> ids or ids -> tokens.

    Raises:
        KeyError: an item is not in `vocab`.
    """
    items = list(items)
    try:
        return [vocab[item] for item in items]
    except KeyError as error:
        raise KeyError(
            f"{error.args[0]!r} is not in the vocabulary of {len(vocab)} "
            "entries. Tokenize text with the same vocabulary; "
            "special tokens such as [CLS] must be lines of its file."
        ) from None


def convert_tokens_to_ids(
    vocab: Mapping[str, int], tokens: Iterable[str]
) -> list[int]:
    """Returns the id of every token; raises as `convert_by_vocab`."""
    return convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(
    inv_vocab: Mapping[int, str], ids: Iterable[int]
) -> list[str]:
    """Returns the token of every id; raises as `convert_by_vocab`."""
    return convert_by_vocab(inv_vocab, ids)


def whitespace_tokenize(text: str) -> list[str]:
    """Splits text at runs of white space as defined by Python."""
    return text.split()


def validate_case_matches_checkpoint(
    do_lower_case: bool, init_checkpoint: str | None
) -> None:
    """Checks `do_lower_case` against the folder name of a released model.

    As released: seven names are recognized, as `.../NAME/bert_model.ckpt*`
    only; any other checkpoint is accepted.

    Raises:
        ValueError: the named model was trained with the other casing.
    """
    match = _RELEASED_CHECKPOINT.search(init_checkpoint or "")
    if match and _CASING_OF_MODEL.get(match[1]) == (not do_lower_case):
        raise ValueError(
            f"do_lower_case is {do_lower_case}, but according to its name "
            f"{init_checkpoint} was trained with do_lower_case="
            f"{not do_lower_case}. Pass --do_lower_case={not do_lower_case}, "
            "or rename the folder if this is another model."
        )


class FullTokenizer:
    """Tokenizer from text to the word pieces of a vocabulary file.

    Args:
        vocab_file: one token per line; see `load_vocab`.
        do_lower_case: whether text is lower-cased; must match the model.
        strip_accents: whether accents are removed; None: as `do_lower_case`.

    Attributes:
        vocab: token -> id in the order of the file; read-only.
        inv_vocab: id -> token.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line of the file is not UTF-8.
    """

    def __init__(
        self,
        vocab_file: str,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
    ):
        self.vocab_file = vocab_file
        self.vocab = load_vocab(vocab_file)
        self.inv_vocab = {index: token for token, index in self.vocab.items()}
        self.basic_tokenizer = BasicTokenizer(do_lower_case, strip_accents)
        self.wordpiece_tokenizer = WordpieceTokenizer(vocab=self.vocab)

    @property
    def vocab_sha256(self) -> str:
        """`vocab_sha256` of the vocabulary."""
        return vocab_sha256(self.vocab)

    @property
    def vocab_size(self) -> int:
        """Minimum `vocab_size` of a model that reads tokenized text."""
        # Ids can exceed the number of tokens, if lines are repeated. No text
        # has the token of a blank line.
        ids = (index for token, index in self.vocab.items() if token)
        return max(ids, default=-1) + 1

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the word pieces of a text, without [CLS] and [SEP]."""
        return [
            piece
            for word in self.basic_tokenizer.tokenize(text)
            for piece in self.wordpiece_tokenizer.tokenize(word)
        ]

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Returns the id of every token; raises KeyError on an unknown one."""
        return convert_tokens_to_ids(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns the token of every id; raises KeyError on an unknown one."""
        return convert_ids_to_tokens(self.inv_vocab, ids)

    def require_tokens(self, *tokens: str) -> None:
        """Checks that the vocabulary has the required special tokens.

        Raises:
            ValueError: some of `tokens` are missing; names all of them.
        """
        missing = [token for token in tokens if token not in self.vocab]
        if missing:
            raise ValueError(
                f"{self.vocab_file} must have a line for each of "
                f"{', '.join(tokens)}; it lacks {', '.join(missing)}. Is it "
                "the vocab.txt of a BERT model?"
            )


class Options(Protocol):
    """The options of a program that tokenizes text."""

    @property
    def vocab_file(self) -> str: ...
    @property
    def do_lower_case(self) -> bool: ...
    @property
    def strip_accents(self) -> bool | None: ...
    @property
    def init_checkpoint(self) -> str | None: ...


def open_tokenizer(options: Options, *special_tokens: str) -> FullTokenizer:
    """Creates the tokenizer of a run and checks it.

    Args:
        options: of the run: `vocab_file`, `do_lower_case`, `strip_accents` and
            `init_checkpoint`, whose path may identify the casing.
        *special_tokens: required tokens of the vocabulary; by default those
            of encoded text.

    Raises:
        OSError: the vocabulary cannot be opened.
        ValueError: the casing is not that of the checkpoint, or a token is
            missing.
    """
    validate_case_matches_checkpoint(
        options.do_lower_case, options.init_checkpoint
    )
    tokenizer = FullTokenizer(
        options.vocab_file, options.do_lower_case, options.strip_accents
    )
    tokenizer.require_tokens(*(special_tokens or _TEXT_TOKENS))
    return tokenizer


@dataclasses.dataclass(frozen=True)
class BasicTokenizer:
    """Splitter of text into words, punctuation marks and CJK characters.

    In order: control characters are removed (their neighbors join), white
    space becomes a space, and CJK ideographs become single words. With
    `do_lower_case`, text is lower-cased. With `strip_accents`, NFD is applied,
    and combining marks (Mn) are removed. Last, punctuation marks become single
    words. As released: special tokens are not recognized; `[MASK]` becomes `[`,
    `mask`, `]`.

    Args:
        do_lower_case: must match the model.
        strip_accents: None: as `do_lower_case`, which is the release's rule.
    """

    do_lower_case: bool = True
    strip_accents: bool | None = None

    def __post_init__(self) -> None:
        if self.strip_accents is None:
            object.__setattr__(self, "strip_accents", self.do_lower_case)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the words of a text, none of them empty.

        Raises:
            ValueError: `text` is neither `str` nor `bytes`.
        """
        text = convert_to_unicode(text).translate(_CLEANED)
        # Case, decomposition and the order of marks do not depend on context
        # beyond a space, so all of the text can be processed at once.
        if self.do_lower_case:
            text = text.lower()
        if not self.strip_accents:
            return whitespace_tokenize(text.translate(_PUNCTUATION_APART))
        text = unicodedata.normalize("NFD", text)
        return whitespace_tokenize(
            text.translate(_MARKS_DROPPED_PUNCTUATION_APART)
        )

    def fold(self, text: str) -> str:
        """Lower-cases a text and strips its accents, where these rules say."""
        if self.do_lower_case:
            text = text.lower()
        return without_accents(text) if self.strip_accents else text


class WordpieceTokenizer:
    """Splitter of words into pieces by greedy longest match from the left.

    Pieces after the first are looked up with a "##" prefix. A word that cannot
    be split completely, or is too long, becomes one `unk_token`.

    Args:
        vocab: the known pieces; must not be changed afterwards.
        unk_token: replaces a word that cannot be split; it need not be in
            `vocab`.
        max_input_chars_per_word: code points; longer words are unknown.
    """

    def __init__(
        self,
        vocab: Collection[str],
        unk_token: str = "[UNK]",
        max_input_chars_per_word: int = 200,  # Source: the release.
    ):
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word
        self._longest_piece = max(map(len, vocab), default=0)
        self._pieces_of_word: dict[str, tuple[str, ...]] = {}

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the pieces of the words of a text.

        Args:
            text: words separated by white space, as from `BasicTokenizer`; no
                other cleaning or splitting is applied.

        Raises:
            ValueError: `text` is neither `str` nor `bytes`.
        """
        pieces: list[str] = []
        for word in whitespace_tokenize(convert_to_unicode(text)):
            pieces_of_word = self._pieces_of_word.get(word)
            if pieces_of_word is None:
                pieces_of_word = self.split(word)
                if len(self._pieces_of_word) >= _MAX_CACHED_WORDS:
                    self._pieces_of_word.clear()
                self._pieces_of_word[word] = pieces_of_word
            pieces += pieces_of_word
        return pieces

    def split(self, word: str) -> tuple[str, ...]:
        """Returns the pieces of a word, without a cache."""
        if len(word) > self.max_input_chars_per_word:
            return (self.unk_token,)
        pieces, start, prefix = [], 0, ""
        while start < len(word):
            longest_end = min(len(word), start + self._longest_piece)
            for end in range(longest_end, start, -1):
                piece = prefix + word[start:end]
                if piece in self.vocab:
                    break
            else:
                return (self.unk_token,)
            pieces.append(piece)
            start, prefix = end, "##"
        return tuple(pieces)


def without_accents(text: str) -> str:
    """Decomposes a text (NFD) and removes its combining marks."""
    return "".join(
        char
        for char in unicodedata.normalize("NFD", text)
        if not is_combining_mark(char)
    )


# ---------------------------------------------------- Kinds of characters

# Categories are those of the running Python (`unicodedata`), as released.
# Python 3.12 and 3.13 agree; 3.11 differs from them in 65 code points that
# Unicode 15.0 newly assigned (35 marks, 23 punctuation marks, 7 controls).


def is_whitespace(char: str) -> bool:
    """Returns whether cleaning replaces a character by a space.

    U+2028 and U+2029 are not included, but they separate words too, because
    `str.split` splits at them later.
    """
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_removed(char: str) -> bool:
    """Returns whether cleaning removes a character, joining its neighbors.

    As released: controls (U+0085 and the form feed too) and format
    characters are removed, as are U+0000 and U+FFFD; private use,
    surrogates and unassigned code points are kept.
    """
    if char in "\t\n\r":
        return False
    return char in "\0\ufffd" or unicodedata.category(char) in ("Cc", "Cf")


def is_combining_mark(char: str) -> bool:
    """Returns whether a decomposed character is removed as an accent."""
    return unicodedata.category(char) == "Mn"


def is_punctuation(char: str) -> bool:
    """Returns whether a character is a punctuation mark, a word by itself.

    As released: every ASCII symbol is one; other symbols (Sc, Sm, So) are not.
    """
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return unicodedata.category(char).startswith("P")


def is_cjk_ideograph(char: str) -> bool:
    """Returns whether a character is a CJK ideograph, a word by itself."""
    return any(first <= ord(char) <= last for first, last in _CJK_BLOCKS)


def cjk_ideographs() -> Iterator[str]:
    """Yields the characters for which `is_cjk_ideograph` is true."""
    for first, last in _CJK_BLOCKS:
        yield from map(chr, range(first, last + 1))


def stands_alone(char: str) -> bool:
    """Returns whether a kept character is a word by itself."""
    return is_punctuation(char) or is_cjk_ideograph(char)


class _CharacterTable(dict):
    """Table of replacements for `str.translate`, filled on demand."""

    def __init__(self, replacement: Callable[[str], str | None]):
        super().__init__()
        self._replacement = replacement

    def __missing__(self, code: int) -> str | None:
        self[code] = replacement = self._replacement(chr(code))
        return replacement


def _cleaned(char: str) -> str | None:
    if is_removed(char):
        return None
    if is_whitespace(char):
        return " "
    return f" {char} " if is_cjk_ideograph(char) else char


def _punctuation_apart(char: str) -> str:
    return f" {char} " if is_punctuation(char) else char


def _marks_dropped_punctuation_apart(char: str) -> str | None:
    return None if is_combining_mark(char) else _punctuation_apart(char)


_CLEANED = _CharacterTable(_cleaned)
_PUNCTUATION_APART = _CharacterTable(_punctuation_apart)
_MARKS_DROPPED_PUNCTUATION_APART = _CharacterTable(
    _marks_dropped_punctuation_apart
)

"""Features of text: lines to tokens, hidden layers to vectors, and their files.

Source: the lines, their separator and their cut are those of
extract_features.py of the release; alignment and pooling are additions.
"""

import dataclasses
import functools
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

import numpy as np

from tasks import word_pieces
from tasks.classification import sentence_pairs

POOLINGS = ("none", "mean", "cls", "max")
WORD_VECTORS = ("first", "mean")

_SEPARATOR = " ||| "
# What the tokenizer takes for white space: these controls it removes instead,
# which joins the words around them.
_WORD = re.compile(r"[\S\x0b\x0c\x1c-\x1f\x85]+")

_EARLIEST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # equal vectors, equal bytes

# Of the numbers in JSON lines.
_DECIMALS = 6  # As released.
_SCALE = 10**_DECIMALS
# From here on, `repr` may write other digits than the decimal ones.
_LARGEST = 2**31 / _SCALE
# Below this many millionths, `repr` writes an exponent.
_SMALLEST_PLAIN = 100
_COMMA = b", "

Span = tuple[int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the input, ready for the model.

    Attributes:
        index: of the line, from 0.
        tokens: `T`, with [CLS] and [SEP].
        input_ids: `T` ids of the tokens.
        segment_ids: `T`, 0 for the first text and 1 for the second.
        words: `W`, those of both texts, cut at white space; None unless they
            were asked for.
        spans: of each word the first token and the one after its last; equal
            for a word without a token in this line.
    """

    index: int
    tokens: tuple[str, ...]
    input_ids: tuple[int, ...]
    segment_ids: tuple[int, ...]
    words: tuple[str, ...] | None = None
    spans: tuple[Span, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vectors:
    """What is written for a line.

    Attributes:
        index: of the line, from 0.
        names: `n` tokens or words; None where the line has one vector.
        values: `[n, L, D]` float, for each of them the `L` layers that were
            asked for; NaN for a word without a token. `[L, D]` where the line
            has one vector.
    """

    index: int
    names: tuple[str, ...] | None
    values: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reduction:
    """What is made of the hidden layers of a line.

    Attributes:
        pooling: one of `POOLINGS`; "none" for a vector per token or word.
        word_vector: one of `WORD_VECTORS`, where the lines have words.
        dtype: of the vectors, "float32" or "float16".
    """

    pooling: str = "none"
    word_vector: str = "first"
    dtype: str = "float32"


def parse_layers(text: str) -> list[int]:
    """Reads numbers of layers, such as "-1,-2"; negative ones from the top.

    Raises:
        ValueError: one is not a whole number.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            "Layers must be whole numbers between commas, such as "
            f"-1,-2,-3,-4; got {text!r}."
        ) from None


def check_layers(layers: Sequence[int], num_hidden_layers: int) -> None:
    """Checks that a model has the layers.

    Raises:
        ValueError: it lacks one; names all that it lacks.
    """
    absent = [
        layer
        for layer in layers
        if not -num_hidden_layers <= layer < num_hidden_layers
    ]
    if absent:
        raise ValueError(
            f"The model has {num_hidden_layers} layer(s), numbered 0 to "
            f"{num_hidden_layers - 1} from below or -1 to "
            f"-{num_hidden_layers} from above; it has no layer "
            f"{', '.join(map(str, absent))}. Choose others with --layers."
        )


def split_pair(line: str) -> tuple[str, str]:
    """Cuts a line into its two texts; the second is empty if there is one.

    As released: white space at the ends goes first; the last ` ||| ` with a
    space on each side counts.
    """
    line = line.strip()
    first, separator, second = line.rpartition(_SEPARATOR)
    return (first, second) if separator else (line, "")


def prepare(
    index: int,
    text: str,
    packing: sentence_pairs.Packing,
    tokenizer: word_pieces.Tokenizer,
    *,
    with_words: bool = False,
) -> Line:
    """Turns a line of the input into tokens.

    Args:
        index: of the line, from 0.
        text: the line.
        packing: how many tokens fit.
        tokenizer: of the model's vocabulary.
        with_words: whether to find the tokens of each word.
    """
    texts = split_pair(text)
    words = [_WORD.findall(part) if with_words else [part] for part in texts]
    pieces = [[tokenizer.tokenize(word) for word in part] for part in words]
    tokens_a, tokens_b = ([t for w in part for t in w] for part in pieces)
    ((kept_a, kept_b),) = sentence_pairs.fit(tokens_a, tokens_b, packing)
    tokens, segment_ids = sentence_pairs.join(kept_a, kept_b)
    line = Line(
        index=index,
        tokens=tuple(tokens),
        input_ids=tuple(tokenizer.convert_tokens_to_ids(tokens)),
        segment_ids=tuple(segment_ids),
    )
    if not with_words:
        return line
    first_b = 2 + len(kept_a)  # after [CLS], the first text and [SEP]
    spans = [
        *_spans(pieces[0], 1, 1 + len(kept_a)),
        *_spans(pieces[1], first_b, first_b + len(kept_b)),
    ]
    return dataclasses.replace(
        line, words=tuple(words[0] + words[1]), spans=tuple(spans)
    )


def _spans(
    pieces: Iterable[Sequence[str]], start: int, stop: int
) -> Iterator[Span]:
    """Places words one after the other, cut at `stop`."""
    for word in pieces:
        end = min(start + len(word), stop)
        yield start, end
        start = end


def pool(values: np.ndarray, pooling: str) -> np.ndarray:
    """Makes one vector of those of all tokens, [CLS] and [SEP] among them.

    Args:
        values: `[T, L, D]` float, without padding.
        pooling: "mean", "max", or "cls" for that of the first token.

    Returns:
        `[L, D]`.
    """
    if pooling == "cls":
        return values[0]
    return values.mean(axis=0) if pooling == "mean" else values.max(axis=0)


def align(
    values: np.ndarray, spans: Sequence[Span], word_vector: str
) -> np.ndarray:
    """Makes one vector of those of each word's tokens.

    Args:
        values: `[T, L, D]` float.
        spans: `W` of them, as in `Line`.
        word_vector: "first" or "mean".

    Returns:
        `[W, L, D]`; NaN for a word without a token.
    """
    aligned = np.full((len(spans), *values.shape[1:]), np.nan, values.dtype)
    for word, (start, end) in enumerate(spans):
        if start < end:
            span = values[start:end]
            aligned[word] = span[0] if word_vector == "first" else span.mean(0)
    return aligned


def reduce(line: Line, values: np.ndarray, reduction: Reduction) -> Vectors:
    """Makes what is written for a line of the hidden layers of its tokens.

    Args:
        line: the line.
        values: `[T, L, D]` float32, without padding.
        reduction: what to make of them.

    Raises:
        ValueError: a value is not finite, or too large for the type.
    """
    names: tuple[str, ...] | None = line.tokens
    vectors = values
    if reduction.pooling != "none":
        names, vectors = None, pool(values, reduction.pooling)
    elif line.words is not None:
        names = line.words
        vectors = align(values, line.spans, reduction.word_vector)
    with np.errstate(over="ignore"):
        # Copied: a view would keep the padding of the whole batch.
        vectors = vectors.astype(reduction.dtype)
    if not np.isfinite(values).all() or np.isinf(vectors).any():
        raise ValueError(
            f"Line {line.index + 1} of the input: every value must be finite "
            f"in {reduction.dtype}; some are not. Is the checkpoint sound? "
            "If so, choose another --dtype or --precision."
        )
    return Vectors(index=line.index, names=names, values=vectors)


def windows(
    lines: Iterable[Line], size_of: Callable[[Line], int], max_size: int
) -> Iterator[list[Line]]:
    """Cuts a stream of lines into lists of a bounded size, in order.

    Args:
        lines: any number of them; read as lists are asked for.
        size_of: how much a line counts.
        max_size: of a list, unless a single line is larger.
    """
    window: list[Line] = []
    size = 0
    for line in lines:
        if window and size + size_of(line) > max_size:
            yield window
            window, size = [], 0
        window.append(line)
        size += size_of(line)
    if window:
        yield window


def batches(
    lines: Sequence[Line], batch_size: int, *, by_length: bool
) -> list[list[int]]:
    """Groups lines: lists of their places, in order or lengths alike."""
    order = list(range(len(lines)))
    if by_length:
        order.sort(key=lambda place: len(lines[place].tokens))
    return [
        order[start : start + batch_size]
        for start in range(0, len(order), batch_size)
    ]


def json_line(vectors: Vectors, layers: Sequence[int]) -> str:
    """Writes the vectors of a line as the release did.

    As released: the key is "linex_index"; characters beyond ASCII are escaped.
    A line with one vector has "layers" in place of "features"; a word without
    a token has an empty list of layers.

    Args:
        vectors: of the line.
        layers: the `L` numbers of the layers, as they were asked for.
    """
    if vectors.names is None:
        rows = iter(json_rows(vectors.values))
        content = f'"layers": {_list_of_layers(rows, layers)}'
    else:
        named = zip(
            vectors.names, _named_layers(vectors.values, layers), strict=True
        )
        items = (
            f'{{"token": {json.dumps(name)}, "layers": {of_name}}}'
            for name, of_name in named
        )
        content = f'"features": [{", ".join(items)}]'
    return f'{{"linex_index": {vectors.index}, {content}}}\n'


def _named_layers(values: np.ndarray, layers: Sequence[int]) -> Iterator[str]:
    """Writes the layers of each of `[n, L, D]`; none of one that is NaN."""
    is_known = ~np.isnan(values).all(axis=(1, 2))  # [n]
    known = values[is_known]
    rows = iter(json_rows(known.reshape(-1, values.shape[-1])))
    for is_written in is_known:
        yield _list_of_layers(rows, layers) if is_written else "[]"


def _list_of_layers(rows: Iterator[str], layers: Sequence[int]) -> str:
    """Writes the next `L` rows of numbers under the numbers of their layers."""
    of_layers = (
        f'{{"index": {index}, "values": [{next(rows)}]}}' for index in layers
    )
    return f"[{', '.join(of_layers)}]"


class JsonLines:
    """Writes a line of JSON for each line of the input.

    Args:
        file: open for bytes.
        layers: the `L` numbers of the layers.
    """

    def __init__(self, file: IO[bytes], layers: Sequence[int]):
        self._file = file
        self._layers = layers

    def write(self, part: Sequence[Vectors]) -> None:
        """Writes the next lines."""
        for vectors in part:
            line = json_line(vectors, self._layers)
            self._file.write(line.encode("ascii"))

    def close(self) -> None:
        """Ends the file; it stays open."""


class Npz:
    """Writes arrays that `numpy.load` reads, part by part.

    A file is a row of parts, so that neither writing nor reading it takes the
    memory of the whole. Part 0 is

        part0/linex_index  [lines] int64
        part0/values       [n, L, D] float, the vectors of all of its lines
        part0/offsets      [lines + 1] int64: line i has the vectors from
                           offsets[i] to offsets[i + 1]
        part0/tokens       [bytes] uint8: n tokens or words, UTF-8, each ended
                           by a line feed; absent where a line has one vector

    then part1 and so on; `layers` `[L]` int64 and `num_parts` `[]` come last.

    Args:
        file: open for bytes.
        layers: the `L` numbers of the layers.
    """

    def __init__(self, file: IO[bytes], layers: Sequence[int]):
        # Hidden layers are noise to a compressor.
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._layers = layers
        self._num_parts = 0

    def write(self, part: Sequence[Vectors]) -> None:
        """Writes lines as the next part."""
        prefix = f"part{self._num_parts}/"
        rows = [
            v.values[np.newaxis] if v.names is None else v.values for v in part
        ]
        arrays = {
            "linex_index": np.array([v.index for v in part], np.int64),
            "values": np.concatenate(rows),
            "offsets": np.cumsum([0, *map(len, rows)], dtype=np.int64),
        }
        if part[0].names is not None:
            names = "".join(f"{name}\n" for v in part for name in v.names or ())
            arrays["tokens"] = np.frombuffer(names.encode("utf-8"), np.uint8)
        for name, array in arrays.items():
            self._add(prefix + name, array)
        self._num_parts += 1

    def abandon(self) -> None:
        """Ends the writing of a file that nobody will read."""
        # Else the garbage collector would, and would write into a closed file.
        self._zip.fp = None

    def close(self) -> None:
        """Ends the file; it stays open."""
        self._add("layers", np.array(self._layers, np.int64))
        self._add("num_parts", np.array(self._num_parts, np.int64))
        self._zip.close()

    def _add(self, name: str, array: np.ndarray) -> None:
        entry = zipfile.ZipInfo(f"{name}.npy", _EARLIEST_ZIP_DATE)
        with self._zip.open(entry, "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


def json_rows(values: np.ndarray) -> list[str]:
    """Writes each row as `json.dumps` writes its `round`ed numbers.

    `json.dumps` takes several times as long, longer than a small network takes
    to compute them.

    Args:
        values: `[r, D]` float32 or float16, finite.

    Returns:
        `r` texts without brackets, such as "0.5, -1.25".
    """
    # Exact, and so rounded as `round` does: the product has at most 38 bits.
    scaled = np.rint(values.astype(np.float64) * _SCALE)
    if np.abs(scaled).max(initial=0) >= _LARGEST * _SCALE:
        return [json.dumps(row)[1:-1] for row in (scaled / _SCALE).tolist()]
    text, is_kept = _characters(
        np.abs(scaled).astype(np.uint32).ravel(), np.signbit(values).ravel()
    )
    joined = text[is_kept].tobytes().decode("ascii")
    shape = (len(values), values.shape[1] * is_kept.shape[1])
    lengths = is_kept.reshape(shape).sum(axis=1)  # [r]
    ends = np.cumsum(lengths).tolist()
    starts = [0, *ends][:-1]
    return [
        joined[start : max(start, end - len(_COMMA))]
        for start, end in zip(starts, ends, strict=True)
    ]


def _characters(
    millionths: np.ndarray, is_negative: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lays numbers out in columns: sign, digits, point, digits, separator.

    Args:
        millionths: `[n]` uint32.
        is_negative: `[n]` bool.

    Returns:
        `[n, W]` uint8 characters, and `[n, W]` bool which of them are written.
    """
    whole = millionths // _SCALE
    fraction = millionths - whole * _SCALE
    num_whole = len(str(whole.max(initial=0)))
    point = 1 + num_whole
    end = point + 1 + _DECIMALS
    text = np.empty((len(millionths), end + len(_COMMA)), np.uint8)
    is_kept = np.ones(text.shape, bool)
    text[:, 0], is_kept[:, 0] = ord("-"), is_negative
    for column in range(1, point):
        power = 10 ** (num_whole - column)
        text[:, column] = whole // power % 10 + ord("0")
        is_kept[:, column] = (whole >= power) | (power == 1)
    characters, is_digit_kept = _fractions()
    text[:, point:end] = characters.take(fraction, axis=0)
    is_kept[:, point:end] = is_digit_kept.take(fraction, axis=0)
    text[:, -len(_COMMA) :] = list(_COMMA)
    is_small = (millionths > 0) & (millionths < _SMALLEST_PLAIN)
    for place in np.flatnonzero(is_small):
        short = repr(millionths[place].item() / _SCALE).encode("ascii")
        text[place, 1 : 1 + len(short)] = list(short)
        is_kept[place, 1 : 1 + len(short)] = True
        is_kept[place, 1 + len(short) : -len(_COMMA)] = False
    return text, is_kept


@functools.cache
def _fractions() -> tuple[np.ndarray, np.ndarray]:
    """Lists what follows the whole part, for each number of millionths.

    Returns:
        `[10**6, 7]` uint8, the point and six digits, and `[10**6, 7]` bool
        which of them are written: zeros at the end are not, but for one
        behind the point.
    """
    fractions = np.arange(_SCALE, dtype=np.int32)[:, np.newaxis]
    powers = 10 ** np.arange(_DECIMALS - 1, -1, -1, dtype=np.int32)
    characters = np.full((_SCALE, 1 + _DECIMALS), ord("."), np.uint8)
    characters[:, 1:] = fractions // powers % 10 + ord("0")
    is_kept = np.ones(characters.shape, bool)
    is_kept[:, 2:] = fractions % (10 * powers[1:]) > 0
    return characters, is_kept

"""Lines of text -> tokens; hidden layers -> a vector per token, word or line.

Source: the lines, their separator and their cut are those of
extract_features.py of the release; alignment and pooling are additions.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tasks import word_pieces
from tasks.classification import sentence_pairs

POOLINGS = ("none", "mean", "cls", "max")
WORD_VECTORS = ("first", "mean")

_SEPARATOR = " ||| "
# What the tokenizer takes for white space: these controls it removes instead,
# which joins what stands around them.
_WORD = re.compile(r"[\S\x0b\x0c\x1c-\x1f\x85]+")

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
    names, vectors = line.tokens, values
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
    window, size = [], 0
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

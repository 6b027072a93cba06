"""Vectors of lines of text: their tokens, hidden layers, pooling and files.

Source: extract_features.py of the original for the lines, their separator and
their truncation; alignment and pooling are additions.
"""

import dataclasses
import itertools
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO

import numpy as np

from bert.tasks import sentence_pairs
from vocab import tokenization

# The tokenizer removes these control characters, which joins the words around
# them; Python counts them as white space.
_WORD = re.compile(r"[\S\x0b\x0c\x1c-\x1f\x85]+")

_SCALE = 10**6  # As released: numbers in JSON lines have six decimals.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A tokenized line of the input.

    Attributes:
        index: index of the line, from 0.
        tokens: `T`, with [CLS] and [SEP].
        input_ids: `T` ids of the tokens.
        segment_ids: `T`, 0 for the first text and 1 for the second.
        words: `W` words of both texts, split at white space; None if not
            requested.
        first_tokens: the place of the first token of each word; -1 for a word
            without a token in this line.
    """

    index: int
    tokens: tuple[str, ...]
    input_ids: tuple[int, ...]
    segment_ids: tuple[int, ...]
    words: tuple[str, ...] | None = None
    first_tokens: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vectors:
    """The output for a line.

    Attributes:
        index: index of the line, from 0.
        names: `n` tokens or words; None if the line has one vector.
        values: `[n, L, D]` float, the `L` requested layers of each; NaN for a
            word without a token. `[L, D]` if the line has one vector.
    """

    index: int
    names: tuple[str, ...] | None
    values: np.ndarray


def parse_layers(text: str) -> list[int]:
    """Parses layer numbers such as "-1,-2"; negative ones count from the top.

    Raises:
        ValueError: one of them is not a whole number.
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
        ValueError: it lacks one.
    """
    for layer in layers:
        if not -num_hidden_layers <= layer < num_hidden_layers:
            raise ValueError(
                f"The model has {num_hidden_layers} layer(s), numbered from 0 "
                f"up or -1 down; it has no layer {layer}. Choose others with "
                "--layers."
            )


def prepare(
    index: int,
    texts: tuple[str, str],
    truncation: sentence_pairs.Truncation,
    tokenizer: tokenization.FullTokenizer,
    *,
    with_words: bool = False,
    counts: sentence_pairs.TruncationCounts | None = None,
) -> Line:
    """Tokenizes a line of the input.

    Args:
        index: index of the line, from 0.
        texts: those of the line; the second is "" if there is one alone.
        truncation: limits the number of tokens.
        tokenizer: the tokenizer of the model.
        with_words: whether to find the tokens of each word.
        counts: counts the line.
    """
    words = [_WORD.findall(part) if with_words else [part] for part in texts]
    pieces = [[tokenizer.tokenize(word) for word in part] for part in words]
    tokens_a, tokens_b = ([t for w in part for t in w] for part in pieces)
    ((kept_a, kept_b),) = sentence_pairs.fit(tokens_a, tokens_b, truncation)
    if counts:
        num_pieces = len(tokens_a) + len(tokens_b)
        counts.add(num_pieces, num_pieces - len(kept_a) - len(kept_b))
    tokens, segment_ids = sentence_pairs.join(kept_a, kept_b)
    first_b = 2 + len(kept_a)  # after [CLS], the first text and [SEP]
    first_tokens = (
        *_first_tokens(pieces[0], 1, 1 + len(kept_a)),
        *_first_tokens(pieces[1], first_b, first_b + len(kept_b)),
    )
    return Line(
        index=index,
        tokens=tuple(tokens),
        input_ids=tuple(tokenizer.convert_tokens_to_ids(tokens)),
        segment_ids=tuple(segment_ids),
        words=tuple(words[0] + words[1]) if with_words else None,
        first_tokens=first_tokens if with_words else (),
    )


def _first_tokens(
    pieces: Iterable[Sequence[str]], start: int, stop: int
) -> Iterator[int]:
    for word in pieces:
        yield start if word and start < stop else -1
        start += len(word)


def reduce(line: Line, values: np.ndarray, pooling: str) -> Vectors:
    """Reduces the hidden layers of the tokens of a line to its vectors.

    Args:
        line: the line. If it has words, each has the vector of its first token,
            or NaN without a token.
        values: `[T, L, D]` float32, without padding.
        pooling: over all tokens, [CLS] and [SEP] included: "mean", "max", or
            "cls" for the vector of the first one; "none" for a vector each.

    Raises:
        ValueError: a value is not finite.
    """
    if not np.isfinite(values).all():
        raise ValueError(
            f"Line {line.index + 1} of the input: every value must be finite; "
            "some are not. Is the checkpoint sound? If so, choose another "
            "--precision."
        )
    names: tuple[str, ...] | None = None
    if pooling == "mean":
        vectors = values.mean(axis=0)
    elif pooling == "max":
        vectors = values.max(axis=0)
    elif pooling == "cls":
        vectors = values[0].copy()
    elif line.words is None:
        # A copy, because a view would keep the padding of the whole batch.
        names, vectors = line.tokens, values.copy()
    else:
        names, places = line.words, np.array(line.first_tokens, int)
        vectors = values[places]
        vectors[places < 0] = np.nan
    return Vectors(index=line.index, names=names, values=vectors)


def json_line(vectors: Vectors, layers: Sequence[int]) -> str:
    """Formats the vectors of a line as the release does.

    As released: the key is "linex_index"; characters beyond ASCII are escaped;
    numbers have six decimals. A line with one vector has "layers" in place of
    "features"; a word without a token has an empty list of layers.

    Args:
        vectors: the vectors of the line.
        layers: the `L` numbers of the layers, as requested.
    """
    # Exact, and so rounded as `round` does: the product has at most 44 bits.
    numbers = np.rint(vectors.values.astype(np.float64) * _SCALE) / _SCALE

    def of_layers(rows: np.ndarray) -> list[dict[str, object]]:
        if np.isnan(rows).all():
            return []
        return [
            {"index": index, "values": values}
            for index, values in zip(layers, rows.tolist(), strict=True)
        ]

    content: dict[str, object] = {"linex_index": vectors.index}
    if vectors.names is None:
        content["layers"] = of_layers(numbers)
    else:
        content["features"] = [
            {"token": name, "layers": of_layers(rows)}
            for name, rows in zip(vectors.names, numbers, strict=True)
        ]
    return json.dumps(content) + "\n"


def write_json_lines(
    file: IO[bytes], layers: Sequence[int], parts: Iterable[Sequence[Vectors]]
) -> None:
    """Writes one line of JSON for each line of the input.

    Args:
        file: the output, open in binary mode.
        layers: the `L` numbers of the layers.
        parts: the vectors of consecutive lines each.
    """
    for vectors in itertools.chain.from_iterable(parts):
        file.write(json_line(vectors, layers).encode("ascii"))


def write_npz(
    file: IO[bytes], layers: Sequence[int], parts: Iterable[Sequence[Vectors]]
) -> None:
    """Writes arrays for `numpy.load`, in several parts.

    Parts limit the memory for writing and reading a file. Part 0 is

        part0/linex_index  [lines] int64
        part0/values       [n, L, D] float, the vectors of all of its lines
        part0/offsets      [lines + 1] int64: line i has the vectors from
                           offsets[i] to offsets[i + 1]
        part0/tokens       [bytes] uint8: n tokens or words, UTF-8, each ended
                           by a line feed; absent if a line has one vector

    then part1 and so on; `layers` `[L]` int64 and `num_parts` `[]` come last.

    Args:
        file: the output, open in binary mode.
        layers: the `L` numbers of the layers.
        parts: the vectors of consecutive lines each.
    """
    num_parts = 0
    # Hidden layers are noise to a compressor.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for part in parts:
            _add(archive, _arrays(part), f"part{num_parts}/")
            del part  # Frees its memory while the next is computed.
            num_parts += 1
        last = {
            "layers": np.array(layers, np.int64),
            "num_parts": np.array(num_parts, np.int64),
        }
        _add(archive, last)


def _arrays(part: Sequence[Vectors]) -> dict[str, np.ndarray]:
    rows = [v.values[np.newaxis] if v.names is None else v.values for v in part]
    arrays = {
        "linex_index": np.array([v.index for v in part], np.int64),
        "values": np.concatenate(rows),
        "offsets": np.cumsum([0, *map(len, rows)], dtype=np.int64),
    }
    if part[0].names is not None:
        names = "".join(f"{name}\n" for v in part for name in v.names or ())
        arrays["tokens"] = np.frombuffer(names.encode("utf-8"), np.uint8)
    return arrays


def _add(
    archive: zipfile.ZipFile, arrays: Mapping[str, np.ndarray], prefix: str = ""
) -> None:
    for name, array in arrays.items():
        # Its date is that of no file, so equal arrays give equal bytes.
        entry = zipfile.ZipInfo(f"{prefix}{name}.npy")
        with archive.open(entry, "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)

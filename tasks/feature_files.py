"""Files of vectors: JSON lines as the release wrote them, and npz."""

import json
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np

from tasks import decimals, features

_EARLIEST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # equal vectors, equal bytes


def json_line(vectors: features.Vectors, layers: Sequence[int]) -> str:
    """Writes the vectors of a line as the release did.

    As released: the key is "linex_index"; characters beyond ASCII are escaped.
    A line with one vector has "layers" in place of "features"; a word without
    a token has an empty list of layers.

    Args:
        vectors: of the line.
        layers: the `L` numbers of the layers, as they were asked for.
    """
    if vectors.names is None:
        rows = iter(decimals.json_rows(vectors.values))
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
    rows = iter(decimals.json_rows(known.reshape(-1, values.shape[-1])))
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

    def write(self, part: Sequence[features.Vectors]) -> None:
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

    def write(self, part: Sequence[features.Vectors]) -> None:
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
            names = "".join(f"{name}\n" for v in part for name in v.names)
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

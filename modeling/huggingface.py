"""Hugging Face's folders, read and written under the release's names.

A folder holds `config.json` and `model.safetensors`, which may be in several
parts. Variables without a name at Hugging Face (moments of the optimizer, the
step, other heads) are beside them in `release_variables.safetensors`, under the
release's names; those without a name in the release are `huggingface/NAME`.
"""

import contextlib
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import ml_dtypes  # noqa: F401, so that NumPy knows bfloat16
import numpy as np
import safetensors

from files import json_text, messages, paths, writing
from modeling import huggingface_config, name_tables
from modeling.annotations import Spec

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
OTHERS = "release_variables.safetensors"

_FOREIGN = "huggingface/"
_DECODER = "cls.predictions.decoder.weight"
_WORDS = "bert.embeddings.word_embeddings.weight"
_CHOICE = "cls/multiple_choice/output_weights"
_CHOICE_BIAS = "classifier.bias"
# Alias of a tied variable -> the name that it goes by here.
_TIED = {
    _DECODER: _WORDS,
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Buffers that PyTorch stored at times: 0, 1, 2, ... and zeros.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
_HALF = ("float16", "bfloat16")
_LONGEST_FILE_NAME = 255  # Of any usual file system.
# NumPy's names of the types of a safetensors file.
_TYPES = {
    **{"BOOL": "bool", "F16": "float16", "BF16": "bfloat16"},
    **{"F32": "float32", "F64": "float64", "C64": "complex64"},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
# Set by our writer where it adds what only Hugging Face's class has.
_ADDED = "added"


class Reader:
    """Reads a folder under the release's names; see `checkpoints.Source`.

    Args:
        folder: local, with a `model.safetensors` or its index.

    Raises:
        FileNotFoundError: a part of the weights is missing.
        ValueError: the model is not BERT, or a file is broken.
    """

    kind = "Hugging Face"

    def __init__(self, folder: str):
        self.origin = folder
        config = huggingface_config.read(folder)
        self.architectures = tuple(config.get("architectures") or ())
        self._files = contextlib.ExitStack()
        try:
            weights = self._open(files(folder))
            self._check_tied(weights)
            self._places = self._named(weights)
            others = os.path.join(folder, OTHERS)
            if os.path.exists(others):
                for name, part in self._open([others]).items():
                    self._places[name] = (part, name, False)
        except BaseException:
            self.close()
            raise
        self.variables: dict[str, Spec] = {}
        for name, (part, theirs, is_transposed) in sorted(self._places.items()):
            shape, dtype = part.entries[theirs]
            shape = shape[::-1] if is_transposed else shape
            self.variables[name] = (shape, dtype)
        self.notes = self._notes()

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name."""
        part, theirs, is_transposed = self._places[name]
        value = part.read(theirs)
        return value.T if is_transposed else value

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def _open(self, names: Iterable[str]) -> "dict[str, _Part]":
        """Opens files; returns that of each weight."""
        parts = {}
        for path in names:
            part = _Part(path, self._files)
            for name in part.entries:
                if name in parts:
                    raise ValueError(
                        f"{self.origin!r} must hold each weight once; {name} "
                        "is in two of its files."
                    )
                parts[name] = part
        return parts

    def _check_tied(self, parts: "Mapping[str, _Part]") -> None:
        ours = {canonical_name(name): name for name in parts}
        for alias, name in _TIED.items():
            if alias not in ours or name not in ours:
                continue
            one, other = (parts[ours[n]].read(ours[n]) for n in (alias, name))
            # Bytes, so that NaN equals itself.
            if one.shape != other.shape or not np.array_equal(
                _bytes_of(one), _bytes_of(other)
            ):
                raise ValueError(
                    f"{alias} in {self.origin!r} must be the same as {name}: "
                    "BERT ties them. This is another model."
                )

    def _named(
        self, parts: "Mapping[str, _Part]"
    ) -> "dict[str, tuple[_Part, str, bool]]":
        """Maps release names to (part, name in it, is transposed)."""
        canonical = [canonical_name(name) for name in parts]
        table = names_of(name_tables.num_layers(canonical), self.architectures)
        found: dict[str, tuple[_Part, str, bool]] = {}
        for theirs, part in parts.items():
            name = canonical_name(theirs)
            added = part.metadata.get(_ADDED, "").split(",")
            if name.endswith(_BUFFERS) or theirs in added:
                continue
            if name in _TIED:
                if _TIED[name] in canonical:
                    continue
                name = _TIED[name]
            variable = table.get(name)
            release = variable.release if variable else f"{_FOREIGN}{theirs}"
            if release in found:
                raise ValueError(
                    f"{self.origin!r} must hold each weight once; {theirs} "
                    f"and {found[release][1]} are both {release}."
                )
            transposed = bool(variable and variable.is_transposed)
            found[release] = (part, theirs, transposed)
        return found

    def _notes(self) -> tuple[str, ...]:
        half = [n for n, (_, dtype) in self.variables.items() if dtype in _HALF]
        if not half:
            return ()
        return (f"{len(half)} variables are stored in 16 bits and widened",)


class _Part:
    """A safetensors file, open until a stack of files is closed.

    Attributes:
        entries: shape and type by name; NumPy's name of the type, where it
            has one.
        metadata: texts by name that its writer added.
    """

    def __init__(self, path: str, files: contextlib.ExitStack):
        self._path = path
        with _explained(path):
            self._file = files.enter_context(
                safetensors.safe_open(path, framework="numpy")
            )
            self.metadata = self._file.metadata() or {}
            slices = {n: self._file.get_slice(n) for n in self._file.keys()}  # noqa: SIM118
            self.entries = {
                name: (
                    tuple(held.get_shape()),
                    _TYPES.get(held.get_dtype(), held.get_dtype().lower()),
                )
                for name, held in slices.items()
            }

    def read(self, name: str) -> np.ndarray:
        """Reads one array, in the type that it is stored in."""
        with _explained(self._path):
            return self._file.get_tensor(name)


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Reports a file that the library refuses as broken."""
    try:
        yield
    except (safetensors.SafetensorError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path!r} is cut short, or no safetensors file ({error!s:.300}). "
            "If it was copied, copy it again."
        ) from error


def files(folder: str) -> list[str]:
    """Lists the files that hold a folder's weights.

    Raises:
        FileNotFoundError: one that the index names is missing.
        ValueError: the index is broken.
    """
    whole = os.path.join(folder, WEIGHTS)
    if os.path.exists(whole):
        return [whole]
    path = os.path.join(folder, INDEX)
    index = json_text.read_object(path)
    names = []
    if json_text.has_shape(index, {"weight_map": {"*": str}}):
        names = sorted(set(index["weight_map"].values()))
    if not names or not all(map(_is_file_name, names)):
        raise ValueError(
            f"{path} must be JSON with a weight_map of names of files beside "
            f"it; got {messages.short(index.get('weight_map'))}."
        )
    absent = [n for n in names if not os.path.exists(os.path.join(folder, n))]
    if absent:
        raise FileNotFoundError(
            f"{folder!r} must hold all files that its {INDEX} names; it lacks "
            f"{messages.names(absent)}. Copy them there too."
        )
    return [os.path.join(folder, name) for name in names]


def _is_file_name(name: object) -> bool:
    """Tells whether a name is of a file in the folder, and not elsewhere."""
    return (
        isinstance(name, str)
        and name == os.path.basename(name) != ""
        and len(name) <= _LONGEST_FILE_NAME
    )


def canonical_name(name: str) -> str:
    """Returns today's full name of a weight of an old or bare model."""
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    module, _, local = name.rpartition(".")
    if module.endswith("LayerNorm"):
        local = {"gamma": "weight", "beta": "bias"}.get(local, local)
    return f"{module}.{local}" if module else local


def names_of(
    num_layers: int, architectures: Collection[str]
) -> dict[str, name_tables.Variable]:
    """Lists variables by their names at Hugging Face.

    Args:
        num_layers: of the encoder.
        architectures: of the folder: `classifier` is a vector that scores
            choices, or the output layer of sentences or words.
    """
    classifiers = {
        name_tables.SEQUENCE_CLASSIFICATION,
        name_tables.TOKEN_CLASSIFICATION,
        name_tables.MULTIPLE_CHOICE,
    }
    choice = {name_tables.MULTIPLE_CHOICE}
    unused = classifiers - choice if choice & {*architectures} else choice
    variables = list(name_tables.encoder(num_layers))
    for name in name_tables.ARCHITECTURES:
        if name not in unused:
            variables += name_tables.head(name)
    return {variable.huggingface: variable for variable in variables}


def write(
    folder: str,
    variables: Mapping[str, Spec],
    read: Callable[[str], np.ndarray],
    *,
    num_layers: int,
    architectures: Collection[str],
) -> dict[str, int]:
    """Writes a folder's weights; one array at a time is in memory.

    Old weights go first and `model.safetensors` comes last: until it is there,
    the folder holds no model.

    Args:
        folder: to write into.
        variables: shape and type by the release's name.
        read: returns the array of a name.
        num_layers: of the configuration; what deeper layers hold is written
            to the other file.
        architectures: of `name_tables.architectures`, for the same variables.

    Returns:
        The number of variables in each file written: `model.safetensors` and,
        where there is something without a name at Hugging Face,
        `release_variables.safetensors`.

    Raises:
        OSError: a file cannot be written.
        ValueError: a variable is of a type that safetensors does not have.
    """
    table = names_of(num_layers, architectures) if architectures else {}
    ours = {
        theirs: variable.release
        for theirs, variable in table.items()
        if variable.release in variables
    }
    for name in variables:
        if name.startswith(_FOREIGN):
            ours[name.removeprefix(_FOREIGN)] = name
    others = sorted(set(variables) - set(ours.values()))

    specs = {}
    for theirs, name in ours.items():
        shape, dtype = variables[name]
        is_transposed = theirs in table and table[theirs].is_transposed
        specs[theirs] = (shape[::-1] if is_transposed else shape, dtype)
    # PyTorch's own readers ask for the first; the second is ours.
    metadata = {"format": "pt"}
    if _CHOICE in ours.values() and _CHOICE_BIAS not in ours:
        # Hugging Face's class has a bias, which moves all choices alike.
        specs[_CHOICE_BIAS] = ((1,), "float32")
        metadata[_ADDED] = _CHOICE_BIAS

    def read_theirs(theirs: str) -> np.ndarray:
        if theirs not in ours:
            return np.zeros([1], np.float32)
        value = read(ours[theirs])
        is_transposed = theirs in table and table[theirs].is_transposed
        return value.T if is_transposed else value

    weights_path, others_path, index_path = (
        os.path.join(folder, name) for name in (WEIGHTS, OTHERS, INDEX)
    )
    for path in (weights_path, others_path, index_path):
        paths.remove(os.path.realpath(path))
    written = {}
    if others:
        _write_file(others_path, {n: variables[n] for n in others}, read, {})
        written[others_path] = len(others)
    _write_file(weights_path, specs, read_theirs, metadata)
    return {**written, weights_path: len(ours)}


def _write_file(
    path: str,
    specs: Mapping[str, Spec],
    read: Callable[[str], np.ndarray],
    metadata: Mapping[str, str],
) -> None:
    """Writes a safetensors file, one array at a time.

    The library's own function wants all of them in memory.

    Source: github.com/huggingface/safetensors, "Format": the length of the
    header in 8 bytes, the header in JSON, the arrays one after the other.
    """
    names_of_types = {ours: theirs for theirs, ours in _TYPES.items()}
    wrong = [
        f"{name} ({dtype})"
        for name, (_, dtype) in specs.items()
        if dtype not in names_of_types
    ]
    if wrong:
        raise ValueError(
            f"A safetensors file cannot hold these arrays: "
            f"{messages.names(wrong)}."
        )
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    # The widest types first, so that every array begins at a multiple of its
    # own width.
    for name in sorted(specs, key=lambda n: (-_width(specs[n]), n)):
        shape, dtype = specs[name]
        start, end = end, end + math.prod(shape) * _width(specs[name])
        header[name] = {
            "dtype": names_of_types[dtype],
            "shape": shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    data = text.encode("utf-8")
    data += b" " * (-len(data) % 8)
    with writing.whole_file(path, "wb") as file:
        file.write(len(data).to_bytes(8, "little"))
        file.write(data)
        for name in header:
            if name in specs:
                file.write(_bytes_of(np.asarray(read(name), specs[name][1])))


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _width(spec: Spec) -> int:
    return np.dtype(spec[1]).itemsize

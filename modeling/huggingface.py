"""Hugging Face's folders: their weights under the release's names, and back.

A folder holds `config.json` and `model.safetensors`, which may be in several
parts. What has no name at Hugging Face (moments of the optimizer, the step,
other heads) lies beside them in `release_variables.safetensors`, under the
release's names; what has none in the release is called `huggingface/NAME`.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import BinaryIO

import ml_dtypes  # noqa: F401, so that NumPy knows bfloat16
import numpy as np
import safetensors
import safetensors.numpy

from files import json_text, messages
from modeling import huggingface_config, mismatches, name_tables

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
        self.config = huggingface_config.read(folder)
        self.architectures = tuple(self.config.get("architectures") or ())
        self._files = contextlib.ExitStack()
        try:
            weights = self._open(files(folder))
            self._check_tied(weights)
            self._places = self._named(weights)
            others = os.path.join(folder, OTHERS)
            if os.path.exists(others):
                for name, (part, _) in self._open([others]).items():
                    self._places[name] = (part, name, False)
        except BaseException:
            self.close()
            raise
        self.variables = {
            name: _held_spec(part.entries[theirs], is_transposed)
            for name, (part, theirs, is_transposed) in sorted(
                self._places.items()
            )
        }
        self.notes = self._notes()

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name."""
        part, theirs, is_transposed = self._places[name]
        value = part.read(theirs)
        return value.T if is_transposed else value

    def close(self) -> None:
        """Closes the files."""
        self._files.close()

    def _open(self, paths: Iterable[str]) -> dict[str, tuple]:
        """Opens files; returns the part and the metadata by name."""
        places = {}
        for path in paths:
            part = _Part(path, self._files)
            for name in part.entries:
                if name in places:
                    raise ValueError(
                        f"{self.origin!r} must hold each weight once; {name} "
                        "is in two of its files."
                    )
                places[name] = (part, part.metadata)
        return places

    def _check_tied(self, places: Mapping[str, tuple]) -> None:
        ours = {canonical_name(name): name for name in places}
        for alias, name in _TIED.items():
            if alias not in ours or name not in ours:
                continue
            one, other = (
                places[ours[n]][0].read(ours[n]) for n in (alias, name)
            )
            # Bytes, so that NaN equals itself.
            if one.shape != other.shape or not np.array_equal(
                *(a.reshape(-1).view(np.uint8) for a in (one, other))
            ):
                raise ValueError(
                    f"{alias} in {self.origin!r} must be the same as {name}: "
                    "BERT ties them. This is another model."
                )

    def _named(self, places: Mapping[str, tuple]) -> dict[str, tuple]:
        """Maps release names to (part, name in it, is transposed)."""
        canonical = [canonical_name(name) for name in places]
        table = names_of(name_tables.num_layers(canonical), self.architectures)
        found: dict[str, tuple] = {}
        for theirs, (part, metadata) in places.items():
            name = canonical_name(theirs)
            if name.endswith(_BUFFERS) or theirs in metadata.get(
                _ADDED, ""
            ).split(","):
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
    """Says of a file that the library refuses that it is broken."""
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
            f"{mismatches.listed(absent)}. Copy them there too."
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
    """Gives a weight of an old or bare model today's name in a full one."""
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


class Writer:
    """Lays out what `model.safetensors` and the file beside it will hold.

    Args:
        variables: the release's names.
        num_layers: of the configuration; deeper layers go into the other file.
        architectures: of `name_tables.architectures`, for the same variables.

    Attributes:
        weights: of the release's names, those with one at Hugging Face.
        others: those without.
    """

    def __init__(
        self,
        variables: Collection[str],
        num_layers: int,
        architectures: Collection[str],
    ):
        table = names_of(num_layers, architectures) if architectures else {}
        self._theirs = {
            variable.release: (name, variable.is_transposed)
            for name, variable in table.items()
            if variable.release in variables
        }
        for name in variables:
            if name.startswith(_FOREIGN):
                theirs = name.removeprefix(_FOREIGN)
                self._theirs[name] = (theirs, False)
        self.weights = sorted(self._theirs)
        self.others = sorted(set(variables) - set(self._theirs))

    def write_weights(
        self, file: BinaryIO, read: Callable[[str], np.ndarray]
    ) -> None:
        """Writes `model.safetensors`.

        Args:
            file: takes the bytes.
            read: returns a variable by the release's name.
        """
        arrays = {
            theirs: np.asarray(
                read(name).T if is_transposed else read(name), order="C"
            )
            for name, (theirs, is_transposed) in self._theirs.items()
        }
        # PyTorch's own readers ask for the first; the second is ours.
        metadata = {"format": "pt"}
        if _CHOICE in self._theirs and _CHOICE_BIAS not in arrays:
            # Hugging Face's class has a bias, which moves all choices alike.
            arrays[_CHOICE_BIAS] = np.zeros([1], np.float32)
            metadata[_ADDED] = _CHOICE_BIAS
        _write(file, arrays, metadata)

    def write_others(
        self, file: BinaryIO, read: Callable[[str], np.ndarray]
    ) -> None:
        """Writes `release_variables.safetensors`; as `write_weights`."""
        arrays = {n: np.asarray(read(n), order="C") for n in self.others}
        _write(file, arrays, None)


def _write(
    file: BinaryIO,
    arrays: dict[str, np.ndarray],
    metadata: dict[str, str] | None,
) -> None:
    try:
        data = safetensors.numpy.save(arrays, metadata)
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"A safetensors file cannot hold these arrays: {error}."
        ) from error
    file.write(data)


def _held_spec(
    spec: tuple[tuple[int, ...], str], is_transposed: bool
) -> tuple[tuple[int, ...], str]:
    shape, dtype = spec
    return (shape[::-1] if is_transposed else shape), dtype

"""Hugging Face folders, read and written under the release's names.

A folder contains `config.json` and `model.safetensors`, or the `tf_model.h5` or
`pytorch_model.bin` of earlier versions. Weights without a name in the release
keep their own.
"""

import contextlib
import os
import zipfile
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import ml_dtypes  # noqa: F401, so that NumPy knows bfloat16
import numpy as np
import safetensors
import safetensors.numpy

from files import json_text, messages
from modeling import huggingface_config, name_tables, tf_formats
from modeling.name_tables import Spec

WEIGHTS = "model.safetensors"
# In order of preference: a pickle is read last.
FILES = (WEIGHTS, "tf_model.h5", "pytorch_model.bin")

_CHOICE_BIAS = "classifier.bias"
# Alias of a tied variable -> the name used here.
_TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Buffers that some versions stored: 0, 1, 2, ... and zeros.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# The start of NumPy's names of safetensors types.
_TYPES = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint"}
# Source: CVE-2025-32434; earlier, loading tensors only could still run code.
_OLDEST_TORCH = (2, 6)


# Shapes and types by PyTorch's names, and the function that reads one.
_Weights: TypeAlias = tuple[Mapping[str, Spec], Callable[[str], np.ndarray]]


def _safetensors_weights(path: str, files: contextlib.ExitStack) -> _Weights:
    def read(name: str) -> np.ndarray:
        with messages.broken(path, "safetensors"):
            return file.get_tensor(name)

    specs = {}
    with messages.broken(path, "safetensors"):
        file = files.enter_context(
            safetensors.safe_open(path, framework="numpy")
        )
        for name in file.keys():  # noqa: SIM118
            held = file.get_slice(name)
            dtype = held.get_dtype()
            kind = dtype.rstrip("0123456789")
            dtype = _TYPES.get(kind, kind.lower()) + dtype[len(kind) :]
            specs[name] = (tuple(held.get_shape()), dtype)
    return specs, read


def _pytorch_weights(path: str) -> _Weights:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{path!r} can be read only where PyTorch is installed. Install "
            "torch, or save the model in safetensors with transformers' "
            "save_pretrained."
        ) from error
    if tuple(map(int, torch.__version__.split(".")[:2])) < _OLDEST_TORCH:
        raise ValueError(
            f"Loading {path!r} requires torch 2.6 or later; got "
            f"{torch.__version__}, in which loading a file can run any code."
        )
    with messages.broken(path, "PyTorch tensor"):
        tensors = torch.load(
            path,
            map_location="cpu",
            weights_only=True,
            mmap=zipfile.is_zipfile(path),
        )
        arrays = {}
        for name, tensor in tensors.items():
            if tensor.dtype == torch.bfloat16:  # Which NumPy does not know.
                bits = tensor.detach().view(torch.int16)
                arrays[name] = bits.numpy().view("bfloat16")
            else:
                arrays[name] = tensor.detach().numpy()
    specs = {n: (a.shape, a.dtype.name) for n, a in arrays.items()}
    return specs, arrays.__getitem__


class Reader:
    """Reads a folder under the release's names; see `checkpoints.Source`.

    Args:
        path: one of `FILES`, in its local folder.
        files: closes it.

    Raises:
        ValueError: the model is not BERT, or a file is broken.
    """

    kind = "Hugging Face"
    num_attention_heads = None

    def __init__(self, path: str, files: contextlib.ExitStack):
        self.origin = path
        config_file = os.path.join(
            os.path.dirname(path), huggingface_config.CONFIG
        )
        self.architectures: tuple[str, ...] = ()
        if os.path.exists(config_file):
            config = json_text.read_object(config_file)
            huggingface_config.check(config, config_file)
            self.architectures = tuple(config.get("architectures") or ())
        if path.endswith(".h5"):
            weights = tf_formats.open_h5(path, files)
        elif path.endswith(".bin"):
            weights = _pytorch_weights(path)
        else:
            weights = _safetensors_weights(path, files)
        self._specs, self._read = weights
        self._check_tied()
        self._places = self._named()
        self.variables: dict[str, Spec] = {}
        for name, (theirs, is_transposed) in sorted(self._places.items()):
            shape, dtype = self._specs[theirs]
            shape = shape[::-1] if is_transposed else shape
            self.variables[name] = (shape, dtype)

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name."""
        theirs, is_transposed = self._places[name]
        value = self._read(theirs)
        return value.T if is_transposed else value

    def _check_tied(self) -> None:
        ours = {_canonical_name(name): name for name in self._specs}
        for alias, name in _TIED.items():
            if alias not in ours or name not in ours:
                continue
            self._check_equal(ours[alias], ours[name])

    def _check_equal(self, one: str, other: str) -> None:
        first, second = map(self._read, (one, other))
        # Bytes, so that NaN equals itself.
        if first.shape != second.shape or first.tobytes() != second.tobytes():
            raise ValueError(
                f"{one} in {self.origin!r} must equal {other}: in BERT they "
                "are one weight. This is another model."
            )

    def _named(self) -> dict[str, tuple[str, bool]]:
        """Returns the names in the file, and whether axes are transposed."""
        canonical = {n: _canonical_name(n) for n in self._specs}
        table = _names_of(
            name_tables.num_layers(canonical.values()), self.architectures
        )
        is_choice = name_tables.MULTIPLE_CHOICE in self.architectures
        found: dict[str, tuple[str, bool]] = {}
        for theirs, name in canonical.items():
            # Their bias of choices shifts all choices equally.
            if name.endswith(_BUFFERS) or (is_choice and name == _CHOICE_BIAS):
                continue
            tied = _TIED.get(name, name)
            if tied != name and tied in canonical.values():
                continue
            variable = table.get(tied)
            release = variable.release if variable else theirs
            transposed = bool(variable and variable.is_transposed)
            if release in found:
                self._check_equal(theirs, found[release][0])
            found[release] = theirs, transposed
        return found


def _canonical_name(name: str) -> str:
    """Returns the current full name of a weight of an old or bare model."""
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    module, _, local = name.rpartition(".")
    if module.endswith("LayerNorm"):
        local = {"gamma": "weight", "beta": "bias"}.get(local, local)
    return f"{module}.{local}" if module else local


def _names_of(
    num_layers: int, architectures: Collection[str]
) -> dict[str, name_tables.Variable]:
    # The architectures decide whether `classifier` is a vector that scores
    # choices or the output layer of sentences or words.
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
    variables: Mapping[str, np.ndarray],
    num_layers: int,
    architectures: Collection[str],
) -> list[str]:
    """Writes the `model.safetensors` of a folder.

    Args:
        folder: an existing folder.
        variables: float32 arrays by the release's names.
        num_layers: of the configuration; deeper layers are not written.
        architectures: of `name_tables.architectures`, for the same variables.

    Returns:
        The names of the variables that Hugging Face has no name for; they are
        not written.
    """
    table = _names_of(num_layers, architectures)
    stored = {}
    for theirs, variable in table.items():
        if variable.release in variables:
            value = variables[variable.release]
            value = value.T if variable.is_transposed else value
            stored[theirs] = np.ascontiguousarray(value, np.float32)
    if name_tables.MULTIPLE_CHOICE in architectures:
        stored[_CHOICE_BIAS] = np.zeros([1], np.float32)
    # PyTorch's readers require the entry "format".
    path = os.path.join(folder, WEIGHTS)
    try:
        safetensors.numpy.save_file(stored, path, {"format": "pt"})
    except safetensors.SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from error
    held = {variable.release for variable in table.values()}
    return sorted(set(variables) - held)

"""Hugging Face's weight files, read under PyTorch's names.

The kinds are safetensors, which are also written; HDF5, written by the
TensorFlow classes of transformers up to version 4; and PyTorch's pickles, from
which only tensors are loaded.
"""

import contextlib
import dataclasses
import importlib.util
import json
import math
import re
import zipfile
from collections.abc import Callable, Mapping

import ml_dtypes  # noqa: F401, so that NumPy knows bfloat16
import numpy as np
import safetensors

from files import messages, writing
from modeling import hdf5
from modeling.annotations import Spec

# NumPy's names of safetensors types.
_TYPES = {
    **{"BOOL": "bool", "F16": "float16", "BF16": "bfloat16"},
    **{"F32": "float32", "F64": "float64", "C64": "complex64"},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
# Source: CVE-2025-32434; earlier, loading tensors only could still run code.
_OLDEST_TORCH = (2, 6)
# The path of a weight in an HDF5 file: a group, the model's class and other
# parts precede the start of PyTorch's name.
_KERAS_PATH = re.compile(
    r"(?:.*/)?((?:embeddings|encoder|pooler|predictions|seq_relationship"
    r"|classifier|qa_outputs)/(?:.*/)?)(\w+):0"
)
_KERAS_NAMES = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """An open weight file.

    Attributes:
        entries: shape and type by PyTorch's name; the type is NumPy's name,
            if NumPy has one.
        read: returns one array in its stored type.
        metadata: texts by name, added by the writer.
    """

    entries: Mapping[str, Spec]
    read: Callable[[str], np.ndarray]
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


def opened(path: str, files: contextlib.ExitStack) -> Part:
    """Opens a file of any kind; closing the stack closes it.

    Raises:
        ValueError: the file is broken.
    """
    if path.endswith(".h5"):
        return _keras_part(path, files)
    if path.endswith(".bin"):
        return _pytorch_part(path)
    return _safetensors_part(path, files)


def _safetensors_part(path: str, files: contextlib.ExitStack) -> Part:
    def explained() -> contextlib.AbstractContextManager[None]:
        errors = (safetensors.SafetensorError, TypeError, ValueError)
        return messages.broken(path, "safetensors", errors)

    def read(name: str) -> np.ndarray:
        with explained():
            return file.get_tensor(name)

    with explained():
        file = files.enter_context(
            safetensors.safe_open(path, framework="numpy")
        )
        slices = {n: file.get_slice(n) for n in file.keys()}  # noqa: SIM118
        entries = {
            name: (
                tuple(held.get_shape()),
                _TYPES.get(held.get_dtype(), held.get_dtype().lower()),
            )
            for name, held in slices.items()
        }
        return Part(entries=entries, read=read, metadata=file.metadata() or {})


def _keras_part(path: str, files: contextlib.ExitStack) -> Part:
    """Opens an HDF5 file of Keras 2, in which kernels are `[in, out]`.

    Embeddings tied to a head are stored a second time with the head.
    """

    def read(name: str) -> np.ndarray:
        array, is_kernel = arrays[name]
        with hdf5.explained(path):
            return array[()].T if is_kernel else np.asarray(array[()])

    file = files.enter_context(hdf5.opened(path))
    with hdf5.explained(path):
        arrays, entries = {}, {}
        for place, array in sorted(hdf5.arrays(file).items(), reverse=True):
            name, is_kernel = _pytorch_name(place), place.endswith("/kernel:0")
            shape = array.shape[::-1] if is_kernel else array.shape
            arrays[name] = array, is_kernel
            entries[name] = shape, array.dtype.name
    return Part(entries=entries, read=read)


def _pytorch_name(place: str) -> str:
    match = _KERAS_PATH.fullmatch(place)
    if not match:
        return place
    module, name = match[1].replace("layer_._", "layer/"), match[2]
    if module.startswith(("predictions/", "seq_relationship/")):
        module = f"cls/{module}"
    return module.replace("/", ".") + _KERAS_NAMES.get(name, name)


def has_torch() -> bool:
    """Returns whether PyTorch, which reads its own files, is installed."""
    return importlib.util.find_spec("torch") is not None


def _pytorch_part(path: str) -> Part:
    from pickle import UnpicklingError

    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < _OLDEST_TORCH:
        raise ValueError(
            f"Loading {path!r} requires torch 2.6 or later; got "
            f"{torch.__version__}, in which loading a file can run any code."
        )
    errors = (
        *(UnpicklingError, AttributeError, EOFError, LookupError),
        *(OSError, RuntimeError, TypeError, ValueError),
    )
    with messages.broken(path, "PyTorch tensor", errors):
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
    return Part(
        entries={n: (a.shape, a.dtype.name) for n, a in arrays.items()},
        read=arrays.__getitem__,
    )


def write_safetensors(
    path: str,
    specs: Mapping[str, Spec],
    read: Callable[[str], np.ndarray],
    metadata: Mapping[str, str],
) -> None:
    """Writes a safetensors file, one array at a time.

    The library's own function requires all arrays in memory.

    Source: github.com/huggingface/safetensors, "Format": the length of the
    header in 8 bytes, the header in JSON, the concatenated arrays.

    Args:
        path: the file.
        specs: shape and type by name.
        read: returns the array of a name.
        metadata: texts by name.

    Raises:
        OSError: the file cannot be written.
        ValueError: safetensors does not support the type of an array.
    """
    names_of_types = {ours: theirs for theirs, ours in _TYPES.items()}
    wrong = [
        f"{name} ({dtype})"
        for name, (_, dtype) in specs.items()
        if dtype not in names_of_types
    ]
    if wrong:
        raise ValueError(
            f"safetensors does not support the types of these arrays: "
            f"{messages.names(wrong)}."
        )
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    # The widest types come first, which aligns every array to its item size.
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
                file.write(bytes_of(np.asarray(read(name), specs[name][1])))


def bytes_of(array: np.ndarray) -> np.ndarray:
    """Returns the bytes of an array, row by row."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _width(spec: Spec) -> int:
    return np.dtype(spec[1]).itemsize

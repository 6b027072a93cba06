"""Checkpoint formats and their detection.

A format is a module with a `Reader`, which implements `checkpoints.Source`, a
function `files` and, if it is also written, `write`. To add a format, write
such a module, add it to `FORMATS`, and extend `find`.
"""

import contextlib
import dataclasses
import glob
import os
import types

from files import paths
from modeling import (
    huggingface,
    huggingface_weights,
    keras_format,
    keras_hub,
    release_format,
)

RELEASE = "release"
KERAS = "keras"
KERAS_HUB = "keras_hub"
HUGGINGFACE = "huggingface"
FORMATS = {
    RELEASE: release_format,
    KERAS: keras_format,
    KERAS_HUB: keras_hub,
    HUGGINGFACE: huggingface,
}

_CONVERT_TO_SAFETENSORS = (
    "In an environment with transformers and torch: "
    "AutoModelForPreTraining.from_pretrained(FOLDER).save_pretrained(OTHER), "
    "with the class of your model."
)
# Unsupported kinds of weights by file name suffix.
_OTHER_KINDS = {
    "saved_model.pb": "a TensorFlow SavedModel",
    "tfhub_module.pb": "a TensorFlow Hub module",
    "flax_model.msgpack": "Hugging Face's weights for Flax. "
    + _CONVERT_TO_SAFETENSORS,
    ".keras": "a full Keras model. Load it where its class is available, and "
    "call save_weights with a name that ends in .weights.h5",
    ".h5": "a full Keras model, or weights of Keras 2. Load it where its class "
    "is available, and call save_weights with a name that ends in .weights.h5",
    ".weights.json": "the index of sharded Keras weights. Call save_weights "
    "without max_shard_size",
    ".onnx": "an ONNX graph",
    ".tflite": "a TensorFlow Lite model",
    ".gguf": "a GGUF file",
}
_PICKLES = (".bin", ".pt", ".pth", ".bin.index.json")
_PICKLE = (
    "PyTorch's pickled weights. Of these only pytorch_model.bin is supported, "
    "if torch is installed; its code is never run. " + _CONVERT_TO_SAFETENSORS
)
# The first bytes of unsupported files with other names.
_MAGIC = {b"PK\x03\x04": _PICKLE, b"\x80\x02": _PICKLE, b"\x89HDF": ".h5"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """The format and path of a checkpoint.

    Attributes:
        format: one of `FORMATS`.
        path: prefix, file or folder, depending on the format.
    """

    format: str
    path: str

    @property
    def module(self) -> types.ModuleType:
        """The module that reads and writes the format."""
        return FORMATS[self.format]


def find(path: str) -> Place:
    """Finds the checkpoint of a path.

    Args:
        path: in the release's format a prefix, one of its files, or a folder,
            whose latest checkpoint is used; a `.weights.h5`; a Hugging Face
            folder or its weights; a keras-hub preset; a folder with one of
            them.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: the format is not supported, or the folder contains
            several checkpoints.
    """
    missing = FileNotFoundError(
        f"There is no checkpoint {path!r}: it must be a prefix with a file "
        f"{path + '.index'!r}, a {keras_format.SUFFIX} file, or a folder with "
        "a checkpoint."
    )
    # A wrong path is reported before TensorFlow, which takes seconds to
    # import.
    if not paths.is_remote(path) and not glob.glob(f"{glob.escape(path)}*"):
        raise missing
    import tensorflow as tf

    prefix = release_format.prefix_of(path)
    if prefix is not None:
        return Place(format=RELEASE, path=prefix)
    if tf.io.gfile.isdir(path):
        return _find_in(path)
    if not tf.io.gfile.exists(path):
        raise missing
    folder, name = os.path.split(path)
    if keras_hub.is_preset(folder) and name in keras_hub.FILES:
        return Place(format=KERAS_HUB, path=_local(folder or "."))
    if path.endswith(keras_format.SUFFIX):
        return Place(format=KERAS, path=_local(path))
    if _is_huggingface(name):
        return Place(
            format=HUGGINGFACE, path=huggingface.place_of(_local(path))
        )
    if path.endswith((".safetensors", ".safetensors.index.json")):
        raise ValueError(
            f"{path!r} must be named {huggingface.WEIGHTS} or "
            f"{huggingface.INDEX}, Hugging Face's names: pass the folder."
        )
    kind = _other_kind(name) or _kind_by_content(path)
    if kind:
        raise ValueError(f"{path!r} is {kind}.")
    # A file without an index may be of the release's older format, "V1".
    return Place(format=RELEASE, path=path)


def _find_in(folder: str) -> Place:
    import tensorflow as tf

    names = sorted(tf.io.gfile.listdir(folder))
    found = []
    prefix = release_format.latest(folder)
    if prefix is not None:
        found.append(Place(format=RELEASE, path=prefix))
    if keras_hub.is_preset(folder) and keras_hub.FILES[0] in names:
        found.append(Place(format=KERAS_HUB, path=folder))
        names = [name for name in names if name not in keras_hub.FILES]
    found += [
        Place(format=KERAS, path=os.path.join(folder, name))
        for name in names
        if name.endswith(keras_format.SUFFIX) and not name.startswith(".")
    ]
    if {huggingface.WEIGHTS, huggingface.INDEX} & set(names):
        found.append(Place(format=HUGGINGFACE, path=folder))
    # Next to another checkpoint these are converted copies.
    if not found and any(map(_is_huggingface, names)):
        found.append(Place(format=HUGGINGFACE, path=folder))
    if len(found) == 1:
        if found[0].format != RELEASE:
            _local(folder)
        return found[0]
    if found:
        raise ValueError(
            f"The folder {folder!r} must contain one checkpoint; it contains "
            + ", ".join(f"{p.path!r} ({p.format})" for p in found)
            + ". Pass one of them."
        )
    for name in names:
        kind = _other_kind(name)
        if kind:
            raise ValueError(
                f"The folder {folder!r} contains no supported checkpoint; "
                f"{name} is {kind}."
            )
    raise FileNotFoundError(f"The folder {folder!r} contains no checkpoint.")


def _is_huggingface(name: str) -> bool:
    """Returns whether a file name is of readable Hugging Face weights."""
    needs_torch = name.endswith(_PICKLES)
    return name in huggingface.FILES and (
        not needs_torch or huggingface_weights.has_torch()
    )


def _other_kind(name: str) -> str | None:
    if name.endswith(_PICKLES):
        return _PICKLE
    return next(
        (kind for end, kind in _OTHER_KINDS.items() if name.endswith(end)),
        None,
    )


def _kind_by_content(path: str) -> str | None:
    import tensorflow as tf

    with (
        contextlib.suppress(tf.errors.OpError),
        tf.io.gfile.GFile(path, "rb") as file,
    ):
        head = file.read(4)
        for magic, kind in _MAGIC.items():
            if head.startswith(magic):
                return _OTHER_KINDS.get(kind, kind)
    return None


def _local(path: str) -> str:
    if paths.is_remote(path):
        raise ValueError(
            "Weights of Keras, keras-hub and Hugging Face must be local files; "
            f"got {path!r}. Copy them to this machine."
        )
    return path

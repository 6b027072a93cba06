"""Formats of files that are not read as checkpoints, for messages."""

import os
import re
import zipfile
from typing import IO

from bert.files import json_text, lines, messages, paths

# A download leaves one of these in place of a file.
_STAND_INS = {
    "a pointer of Git LFS in place of the file; run `git lfs pull`, or "
    "download the file itself": rb"version https://git-lfs\.github\.com/",
    "a web page in place of the file; download the file itself": (
        rb"\s*<(!doctype|html)"
    ),
}
_KERAS = "a Keras file"
_PYTORCH = "a PyTorch file"
# The first bytes of files.
_SIGNATURES = {
    "an HDF5 file, as Keras writes": rb"\x89HDF\r\n\x1a\n",
    "a pickle, as PyTorch writes": rb"\x80[\x02-\x05]",
    "a GGUF file of llama.cpp": rb"GGUF",
    "a LiteRT (TensorFlow Lite) file": rb".{4}TFL3",
    "a safetensors file": rb'.{6}\0\0\{\s*"',
    "a NumPy file": rb"\x93NUMPY",
    "a JSON file": rb'\s*\{\s*"',
}
_SIGNATURE_BYTES = 64
# The number of a part in a name, of TensorFlow's or of sharded weights.
_PART = re.compile(r"-\d{5}-of-\d{5}\b")
# The ends of names, for formats whose files have no signature.
_ENDINGS = {
    ".onnx": "an ONNX file",
    ".msgpack": "a Flax file",
    ".pb": "a graph of TensorFlow, as of a SavedModel",
    ".pt": _PYTORCH,
    ".pth": _PYTORCH,
    ".bin": _PYTORCH,
    ".keras": _KERAS,
    ".h5": "an HDF5 file, as Keras writes",
    ".safetensors": "a safetensors file",
    ".gguf": "a GGUF file of llama.cpp",
    ".tflite": "a LiteRT (TensorFlow Lite) file",
}
_ADAPTER = "adapter_config.json"
# Patterns within a folder that only contains models, and its kind.
_AROUND_MODELS = {
    "checkpoint-[0-9]*": "the output folder of transformers' Trainer",
    "snapshots/*": "a model in the cache of the hub, with its revisions",
    "models--*": "the cache of the hub",
    "0_*": "a folder of sentence-transformers 1, whose network is inside; a "
    "later release saves the model in a folder that is read as a whole",
}
_TRAINER = re.compile(r"checkpoint-(\d+)$")
_VARIANT = re.compile(r"((?:pytorch_)?model)\.\w+(\.safetensors|\.bin)")
_SAVED_MODEL = ("saved_model.pb", "saved_model.pbtxt", "tfhub_module.pb")
# The ends of names of weights, in a zip file or a folder.
_WEIGHTS = (".index", ".safetensors", ".bin")
# Ends of names in a zip file, and its format.
_IN_ZIP = {
    "/data.pkl": "a zip file of PyTorch",
    ".npy": "a zip file of NumPy",
    "/config.json": "a zip file of Keras",
}


def check_fetched(path: str) -> None:
    """Checks that a download has left a file, not something in its place.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is a pointer of Git LFS, or a web page.
    """
    if kind := format_of(path, is_checkpoint=True):
        raise ValueError(f"{path!r} is {kind}.")


def format_of(path: str, *, is_checkpoint: bool) -> str | None:
    """Names the format of a file that is not read as a checkpoint.

    Args:
        path: the file.
        is_checkpoint: whether its name, or the files beside it, are those of a
            checkpoint, so that it can only be what a download left in its
            place.

    Returns:
        For example "a Keras file"; None if it may be a checkpoint.

    Raises:
        OSError: the file cannot be opened.
    """
    with paths.open_to_read(path) as file:
        archive = lines.kind_of(file)
        head = file.read(_SIGNATURE_BYTES)
        if kind := _match(_STAND_INS, head, re.IGNORECASE):
            return kind
        if is_checkpoint:
            return None
        if archive == "zip":
            return _zip_format(file)
    if archive:
        return f"a {archive} file; if a model is in it, extract it"
    if kind := _match(_SIGNATURES, head, 0):
        return kind
    return _ENDINGS.get(os.path.splitext(path)[1].lower())


def _match(signatures: dict[str, bytes], head: bytes, flags: int) -> str | None:
    for name, signature in signatures.items():
        if re.match(signature, head, re.DOTALL | flags):
            return name
    return None


def _zip_format(file: IO[bytes]) -> str:
    try:
        with zipfile.ZipFile(file) as parts:
            names = [f"/{name}" for name in parts.namelist()]
    except (OSError, zipfile.BadZipFile):
        names = []
    if any(name.endswith(_WEIGHTS) for name in names):
        return "a zip file that contains a model; extract it"
    for ending, kind in _IN_ZIP.items():
        if any(name.endswith(ending) for name in names):
            return kind
    return "a zip file, as PyTorch and Keras write"


def check_no_adapter(folder: str) -> None:
    """Checks that a folder is not that of an adapter, alone or with weights.

    Raises:
        ValueError: it is; the message names the model that it adapts.
    """
    path = os.path.join(folder, _ADAPTER)
    if paths.exists(path):
        base = json_text.read_object(path).get("base_model_name_or_path")
        raise ValueError(
            f"{folder!r} is an adapter of PEFT for the model {base!r}. Merge "
            "it into that model (merge_and_unload, then save_pretrained), and "
            "pass the folder of the result."
        )


def check_no_models_inside(folder: str) -> None:
    """Checks that a folder without weights is not one around models.

    Raises:
        FileNotFoundError: it is; the message says which path to pass.
    """
    for pattern, kind in _AROUND_MODELS.items():
        inside = sorted(paths.matching(folder, pattern), key=_number)
        if not inside:
            continue
        name = os.path.basename(inside[-1])
        target = inside[-1]
        if name.startswith("models--"):
            target = "hf://" + name.removeprefix("models--").replace("--", "/")
        raise FileNotFoundError(f"{folder!r} is {kind}. Pass {target}.")
    names = paths.names_in(folder)
    folders = {
        os.path.dirname(path)
        for ending in _WEIGHTS
        for path in paths.matching(folder, f"*/*{ending}")
    }
    if folders and {*_SAVED_MODEL}.isdisjoint(names):
        raise FileNotFoundError(
            f"{folder!r} has no checkpoint itself. Pass a folder in it: "
            f"{messages.names(sorted(folders))}."
        )
    for name in names:
        if match := _VARIANT.fullmatch(name):
            raise FileNotFoundError(
                f"{folder!r} has a variant of the weights, {name}. Link or "
                f"copy the file to {match[1]}{match[2]}."
            )


def _number(path: str) -> tuple[int, str]:
    match = _TRAINER.search(path)
    return (int(match[1]) if match else 0), path


def formats_in(folder: str) -> str | None:
    """Names the files of other formats in a folder, for a message.

    Returns:
        For example "a SavedModel of TensorFlow"; None if it has no such file or
        is no folder.
    """
    if not paths.is_folder(folder):
        return None
    names = [os.path.basename(p) for p in paths.matching(folder, "*")]
    for name in names:
        if name in _SAVED_MODEL:
            return "a SavedModel of TensorFlow"
    if part := next(filter(_PART.search, names), None):
        return (
            f"a folder with {part}, a part of a checkpoint whose index is "
            "missing"
        )
    kinds = {
        _ENDINGS[ending]: name
        for name in reversed(names)
        if (ending := os.path.splitext(name)[1].lower()) in _ENDINGS
    }
    if not kinds:
        return None
    described = ", ".join(f"{name} ({kind})" for kind, name in kinds.items())
    return f"a folder with {described}"

"""Checkpoints of other formats, written from arrays."""

from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np


def write(
    file_format: ModuleType,
    path: object,
    arrays: Mapping[str, np.ndarray],
    architectures: Sequence[str],
) -> str:
    """Writes a checkpoint as the converter does.

    Args:
        file_format: `huggingface` or `keras_format`.
        path: of the folder or file.
        arrays: of up to two layers, by the release's names.
        architectures: as in the configuration of Hugging Face.

    Returns:
        The path.
    """
    file_format.write(
        str(path),
        {name: (a.shape, a.dtype.name) for name, a in arrays.items()},
        arrays.__getitem__,
        num_layers=2,
        architectures=architectures,
    )
    return str(path)

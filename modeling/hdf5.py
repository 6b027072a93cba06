"""Plain arrays of HDF5 files, the format beneath Keras' weights.

A file is validated before an array of it is read.
"""

import collections
import contextlib
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from files import messages

if TYPE_CHECKING:
    import h5py

_MAX_PATHS = 2  # Paths to one group; `keras_format` gives the encoder two.
_MAX_COMPRESSION = 1100  # Source: zlib.net, "maximum compression factor".


def open_file(path: str, files: contextlib.ExitStack) -> "h5py.File":
    """Opens a local HDF5 file; closing the stack closes it.

    Raises:
        ValueError: the file is broken.
    """
    import h5py

    with explain_errors(path):
        return files.enter_context(h5py.File(path, "r"))


def explain_errors(path: str) -> contextlib.AbstractContextManager[None]:
    """Reports errors of h5py as a broken file."""
    # The exception depends on the part of the file that is damaged.
    errors = (OSError, RuntimeError, LookupError, TypeError, ValueError)
    return messages.broken(path, "HDF5", errors)


def find_arrays(file: "h5py.File") -> "dict[str, h5py.Dataset]":
    """Returns the arrays of a file by path, after checking them.

    A file may link to other files, which may be private. It may declare
    arrays far larger than the stored data, and groups that contain themselves.

    Raises:
        OSError: one of these is found, or an object that is not an array.
    """
    import h5py

    found: dict[str, h5py.Dataset] = {}
    groups = [("", file)]
    num_paths: collections.Counter[int] = collections.Counter()
    while groups:
        above, group = groups.pop()
        for name in group:
            place = f"{above}{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise OSError(f"{place} is a link; only plain arrays are read")
            member = group.get(name)
            if isinstance(member, h5py.Group):
                address = h5py.h5o.get_info(member.id).addr
                num_paths[address] += 1
                if num_paths[address] > _MAX_PATHS:
                    raise OSError(f"{place} is a group that contains itself")
                groups.append((f"{place}/", member))
            elif isinstance(member, h5py.Dataset):
                _require_plain(member, place)
                found[place] = member
            else:
                raise OSError(f"{place} cannot be read")
    return found


def type_of(dataset: "h5py.Dataset") -> np.dtype:
    """Returns the type of an array, also if Keras stored it as bfloat16."""
    if _is_bfloat16(dataset):
        return np.dtype(ml_dtypes.bfloat16)
    return dataset.dtype


def read(dataset: "h5py.Dataset") -> np.ndarray:
    """Reads an array in the type that `type_of` returns."""
    value = np.asarray(dataset[()])
    return value.view(ml_dtypes.bfloat16) if _is_bfloat16(dataset) else value


def _is_bfloat16(dataset: "h5py.Dataset") -> bool:
    # HDF5 has no such type: Keras stores plain bytes, and "bfloat16" as an
    # attribute that it gives no other type. The attribute is not read, because
    # HDF5 hangs if a text of any length is damaged.
    return dataset.dtype == np.dtype("V2") and "dtype" in dataset.attrs


def _require_plain(dataset: "h5py.Dataset", place: str) -> None:
    if dataset.is_virtual or dataset.external:
        raise OSError(f"{place} is stored in another file")
    if dataset.dtype.kind not in "fiub" and not _is_bfloat16(dataset):
        raise OSError(f"{place} must be numeric; got {dataset.dtype}")
    stored = dataset.id.get_storage_size()
    if dataset.nbytes > stored * _MAX_COMPRESSION:
        raise OSError(
            f"{place} declares {dataset.nbytes} bytes; {stored} are stored"
        )

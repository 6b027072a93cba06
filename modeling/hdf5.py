"""HDF5 files of arrays, read without trust in what they say."""

import collections
import contextlib
from typing import TYPE_CHECKING

from files import messages

if TYPE_CHECKING:
    import h5py

_MOST_PLACES = 2  # Of a group; our own writer gives the encoder two.
_MOST_COMPRESSION = 1100  # Source: zlib.net, "maximum compression factor".


def opened(path: str) -> "h5py.File":
    """Opens a local file.

    Raises:
        ValueError: it is broken.
    """
    import h5py

    with explained(path):
        return h5py.File(path, "r")


def explained(path: str) -> contextlib.AbstractContextManager[None]:
    """Reports a file that h5py cannot read as broken."""
    # What h5py raises where a file is damaged depends on the place.
    errors = (OSError, RuntimeError, LookupError, TypeError, ValueError)
    return messages.broken(path, "HDF5", errors)


def arrays(file: "h5py.File") -> "dict[str, h5py.Dataset]":
    """Lists the arrays of a file by path; checks that the file holds them.

    HDF5 may point to other files, where the data of others lie, may claim
    arrays of any size for data that is not there, and may hold groups that
    hold themselves.

    Raises:
        OSError: it does one of these, or holds something else than arrays.
    """
    import h5py

    found: dict[str, h5py.Dataset] = {}
    groups = [("", file)]
    times: collections.Counter[int] = collections.Counter()
    while groups:
        above, group = groups.pop()
        for name in group:
            place = f"{above}{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise OSError(f"{place} is a link; only plain arrays are read")
            member = group.get(name)
            if isinstance(member, h5py.Group):
                where = h5py.h5o.get_info(member.id).addr
                times[where] += 1
                if times[where] > _MOST_PLACES:
                    raise OSError(f"{place} is a group that holds itself")
                groups.append((f"{place}/", member))
            elif isinstance(member, h5py.Dataset):
                _require_plain(member, place)
                found[place] = member
            else:
                raise OSError(f"{place} cannot be read")
    return found


def _require_plain(dataset: "h5py.Dataset", place: str) -> None:
    if dataset.is_virtual or dataset.external:
        raise OSError(f"{place} lies in another file")
    if dataset.dtype.kind not in "fiub":
        raise OSError(f"{place} holds no numbers, but {dataset.dtype}")
    stored = dataset.id.get_storage_size()
    if dataset.nbytes > stored * _MOST_COMPRESSION:
        raise OSError(
            f"{place} claims {dataset.nbytes} bytes; {stored} are there"
        )

"""Room on a disk, looked at before it is needed."""

import os
import shutil


def require(folder: str, num_bytes: int, purpose: str) -> None:
    """Checks that a folder's disk has room for so many bytes more.

    Args:
        folder: an existing one.
        num_bytes: needed.
        purpose: what they are for, for the message.

    Raises:
        OSError: there is less room.
    """
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise OSError(
            f"{purpose} needs {megabytes(num_bytes)} in "
            f"{os.path.abspath(folder)}; {megabytes(free)} are free. Make "
            "room, or write elsewhere."
        )


def megabytes(num_bytes: int) -> str:
    """Writes a number of bytes for people, in units of 10^6."""
    return f"{num_bytes / 1e6:,.1f} MB"

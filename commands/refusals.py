"""Tells what a program refuses from faults of the program."""

import pathlib
import re
import traceback

from absl import flags

# Of what kinds messages for users are.
KINDS = (OSError, RuntimeError, ValueError)
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_INSTALLED = "site-packages"
# How a process of `concurrent.futures` hands over where it stopped.
_REMOTE = "_RemoteTraceback"
_REMOTE_FRAME = re.compile(r'File "(.+)", line \d+, in .*\n +(.*)')


def in_words(error: Exception, values: flags.FlagValues) -> str | None:
    """Returns what to tell the user of an error.

    Args:
        error: what a program ended with.
        values: the flags it was given.

    Returns:
        The message of an error of `KINDS` that a `raise` of this project made,
        or of an OSError that the system made, with the flag that names its
        file. None for anything else, such as a ValueError out of a library or
        out of `int("x")`: that is a fault of the program, and developers need
        to see where it is.
    """
    if not isinstance(error, KINDS):
        return None
    if isinstance(error, OSError) and error.strerror and error.errno:
        return _of_system(error, values)
    return str(error) if _is_raised_here(error) else None


def _of_system(error: OSError, values: flags.FlagValues) -> str:
    """Says which file the system refused, which flag names it, and why."""
    if not error.filename:
        return f"{error.strerror}."
    # Of two files one was to take the name of the other.
    path = str(error.filename2 or error.filename)
    named = _flags_that_name(path, values)
    return f"{path}: {error.strerror}" + (f" ({named})." if named else ".")


def _flags_that_name(path: str, values: flags.FlagValues) -> str:
    """Lists the flags that hold a path; else those that hold a folder of it."""
    given = {
        name: value
        for name in values
        if isinstance(value := values[name].value, str) and value
    }
    found = [name for name in given if path in given[name].split(",")] or [
        name for name in given if path.startswith(f"{given[name].rstrip('/')}/")
    ]
    return ", ".join(f"--{name}={given[name]}" for name in found)


def _is_raised_here(error: Exception) -> bool:
    """Tells whether a `raise` in this checkout made an error."""
    frames = [
        (frame.filename, frame.line or "")
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    if type(error.__cause__).__name__ == _REMOTE:
        frames = _REMOTE_FRAME.findall(str(error.__cause__)) or frames
    if not frames:
        return False
    file, line = frames[-1]
    path = pathlib.Path(file).resolve()
    return (
        path.is_relative_to(_ROOT)
        and _INSTALLED not in path.parts
        and line.startswith("raise")
    )

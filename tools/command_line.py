"""How a tool is run: its flags as options, its errors as one line."""

from collections.abc import Callable
from typing import Any, TypeVar

from absl import app, flags, logging

from training import flags as shared_flags

_Options = TypeVar("_Options")


def run_tool(
    name: str,
    argv: list[str],
    options: type[_Options],
    run: Callable[[_Options], Any],
) -> None:
    """Runs a tool with the flags of the command line.

    Args:
        name: of the tool, with which its errors begin.
        argv: the command line without its flags; only the program may be left.
        options: a dataclass that the flags of the same names fill.
        run: the tool; what it returns is not looked at.

    Raises:
        app.UsageError: an argument is no flag.
        SystemExit: `run` found a file or an option that will not do.
    """
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    logging.set_verbosity(logging.INFO)
    try:
        run(shared_flags.read_options(options, flags.FLAGS))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{name}: {error}") from error

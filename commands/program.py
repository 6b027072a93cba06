"""Program start: flag parsing, --help and one-line error messages."""

import os
import pathlib
import re
import select
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags

from commands import flags as flags_lib
from commands import help_page, tensorflow_import
from files import log_lines

# The types of errors whose messages are for users.
REFUSALS = (OSError, RuntimeError, ValueError)
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_INSTALLED = "site-packages"
# The cause of an error raised in a process of `concurrent.futures`.
_REMOTE = "_RemoteTraceback"
_REMOTE_FRAME = re.compile(r'File "(.+)", line \d+, in .*\n +(.*)')
_INTERRUPTED = 130  # Source: shells' 128 + the number of SIGINT.


def start(
    options: type[flags_lib.T],
    main: Callable[..., Any],
    *,
    arguments: str | None = None,
) -> None:
    """Runs a program; call it if `__name__` is "__main__".

    Parses the flags, shows --help, and calls `main`. Errors for users
    (`error_message`) end the program with one line on stderr and exit code 1.
    Bugs show their traceback, and so do all errors with --traceback.

    Args:
        options: the dataclass that declares the flags of the program.
        main: takes the options and, if the program takes `arguments`, a list of
            them; returns the exit code.
        arguments: the usage of the program's arguments other than flags; None
            if it takes none.
    """
    flags_lib.define(options)
    define_common_flags()

    def run(argv: list[str]) -> Any:
        own: Any = flags_lib.read(options)
        return main(own, argv[1:]) if arguments else main(own)

    app.run(
        lambda argv: _run(run, argv),
        flags_parser=lambda argv: _parse(argv, main.__module__, arguments),
    )


def define_common_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of every program, in addition to absl's."""
    flags.DEFINE_boolean(
        "traceback",
        False,
        "Show the traceback of error messages, for developers.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "log_format",
        log_lines.SHORT,
        log_lines.FORMATS,
        "short: log lines of time and message; full: absl's log lines, with "
        "level, date, thread and line of code.",
        flag_values=values,
    )


class _HelpFlag(flags.BooleanFlag):
    """A flag that shows the text of `help_page` instead of absl's."""

    def __init__(self, name: str, page: Callable[[], str], short_name=None):
        super().__init__(
            name,
            False,
            "show this help",
            short_name=short_name,
            allow_override=True,
        )
        self._page = page

    def parse(self, argument: str | bool) -> None:
        if self._parse(argument):
            _quietly_if_closed(lambda: sys.stdout.write(self._page()))
            sys.exit(0)


def _parse(
    argv: Sequence[str], main_module: str, arguments: str | None
) -> list[str]:
    """Parses the flags; returns the program and its other arguments."""
    module = sys.modules[main_module]

    def page() -> str:
        return help_page.write(
            flags.FLAGS,
            module.__doc__ or "",
            f"{_command(module)} [--FLAG=VALUE ...] {arguments or ''}".strip(),
            flags.get_help_width(),
        )

    flags.DEFINE_flag(_HelpFlag("help", page, short_name="?"))
    flags.DEFINE_flag(_HelpFlag("helpshort", page))
    try:
        left = flags.FLAGS(argv)
        flags_lib.check(flags.FLAGS)
    except flags.Error as error:
        message = flags_lib.error_message(error)
        _refuse(f"{message} See {_command(module)} --help.")
    if left[1:] and not arguments:
        _refuse(
            "takes only flags, written as --NAME=VALUE; got "
            f"{' '.join(left[1:])}."
        )
    return left


def _command(module: Any) -> str:
    """Returns the command of a program, without flags."""
    if module.__spec__ is not None:  # python -m tools.NAME
        return f"python -m {module.__spec__.name}"
    return f"python {os.path.basename(sys.argv[0])}"


def _run(main: Callable[[list[str]], Any], argv: list[str]) -> Any:
    log_lines.use(flags.FLAGS.log_format)
    tensorflow_import.hide_notices()
    try:
        return _quietly_if_closed(lambda: main(argv))
    except REFUSALS as error:
        message = error_message(error, flags.FLAGS)
        if message is None or flags.FLAGS.traceback:
            raise
        return _refuse(message)
    except KeyboardInterrupt:
        if flags.FLAGS.traceback:
            raise
        log_lines.keep()
        sys.stderr.write(f"{_name()}: interrupted.\n")
        sys.exit(_INTERRUPTED)
    finally:
        log_lines.keep()


def _refuse(message: str) -> None:
    sys.exit(f"{_name()}: {message}")


def _name() -> str:
    return pathlib.Path(sys.argv[0]).stem


def _quietly_if_closed(write: Callable[[], Any]) -> Any:
    """Exits silently if stdout is closed, as by `| head`."""
    try:
        result = write()
        sys.stdout.flush()
        return result
    except BrokenPipeError:
        if not _is_closed(sys.stdout.fileno()):
            raise  # Another pipe than stdout.
        # Otherwise flushing the buffer at exit would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _is_closed(descriptor: int) -> bool:
    """Returns whether the reader of a pipe has closed it."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def error_message(error: Exception, values: flags.FlagValues) -> str | None:
    """Returns the message of an error for the user.

    Args:
        error: the error that ended the program.
        values: the flags of the program.

    Returns:
        The message of an error of `REFUSALS` raised by this project, or of an
        OSError of the operating system, with the flag of its file. None for
        other errors, such as a ValueError of a library or of `int("x")`: they
        are bugs, and developers need their traceback.
    """
    if not isinstance(error, REFUSALS):
        return None
    if isinstance(error, OSError) and error.strerror and error.errno:
        return _system_message(error, values)
    return str(error) if _is_raised_here(error) else None


def _system_message(error: OSError, values: flags.FlagValues) -> str:
    """Returns the file, the reason of the system, and the flags of the file."""
    if not error.filename:
        return f"{error.strerror}."
    # The second of two files is the target, as of a rename.
    path = str(error.filename2 or error.filename)
    given = {
        name: value
        for name in values
        if isinstance(value := values[name].value, str) and value
    }
    named = [name for name in given if path in given[name].split(",")] or [
        name for name in given if path.startswith(f"{given[name].rstrip('/')}/")
    ]
    listed = ", ".join(f"--{name}={given[name]}" for name in named)
    return f"{path}: {error.strerror}" + (f" ({listed})." if listed else ".")


def _is_raised_here(error: Exception) -> bool:
    """Returns whether a `raise` of this project raised an error."""
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

"""Program start: flag parsing, --help, one-line errors."""

import codecs
import contextlib
import dataclasses
import functools
import gc
import io
import json
import os
import pathlib
import re
import select
import signal
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from absl import app, flags

from bert.commands import flags as flags_lib
from bert.files import messages, progress

# The types of errors whose messages are for users.
REFUSALS = (OSError, RuntimeError, ValueError)
_COLUMNS = 80
_INDENT = " " * 6
# A page with more flags begins with those of its examples.
_LONG_PAGE_FLAGS = 20
_LAST_LINES = (
    "--flagfile=FILE reads flags from a file, one per line. --verbosity=-1 "
    "logs only warnings. --traceback shows the traceback of error messages. "
    "--helpfull lists these and other absl flags."
)
_GARBAGE_THRESHOLD = 10_000  # New objects before a search for garbage.


def start(
    options: type[flags_lib.T],
    main: Callable[..., object],
    *,
    arguments: str | None = None,
) -> None:
    """Runs a program; call it if `__name__` is "__main__".

    Parses the flags, shows --help, and calls `main`. `REFUSALS` end the program
    with their message on one line and exit code 1, or with --traceback as other
    errors do. SIGTERM and SIGHUP end it as Ctrl-C does.

    Args:
        options: the dataclass that declares the flags of the program.
        main: takes the options and, if the program takes `arguments`, a list of
            them. Its result is the exit code if it is an integer.
        arguments: the usage of the program's arguments other than flags; None
            if it takes none.
    """
    flags_lib.define(options)
    define_common_flags()

    # A letter that the console lacks does not end a program.
    codecs.register_error(_escaped.__name__, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_escaped.__name__)

    def run(argv: list[str]) -> int | None:
        progress.use_short_lines()
        prepare_imports()
        with _one_line_errors(), _quiet_if_closed():
            values = flags_lib.read(options)
            result = main(values, argv[1:]) if arguments else main(values)
        return result if type(result) is int else None

    app.run(
        run, flags_parser=functools.partial(_parse, options, arguments or "")
    )


def _escaped(error: UnicodeError) -> tuple[str, int]:
    r"""Replaces what an encoding lacks by escapes as in JSON, `\u00e9`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return json.dumps(text)[1:-1], error.end


def define_common_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of every program, in addition to absl's."""
    flags.DEFINE_boolean(
        "traceback",
        False,
        "Show the traceback of error messages, for developers.",
        flag_values=values,
    )


def _parse(options: type, arguments: str, argv: Sequence[str]) -> list[str]:
    """Parses the flags; returns the program and its other arguments."""
    module = sys.modules["__main__"]
    command = f"python {os.path.basename(argv[0])}"
    if module.__spec__:
        command = f"python -m {module.__spec__.name}"
    if not {"--help", "-?", "--help=all"}.isdisjoint(argv):
        usage = f"{command} [--FLAG=VALUE ...] {arguments}".rstrip()
        page = help_page(
            options,
            module.__doc__ or "",
            usage,
            is_complete="--help=all" in argv,
        )
        with _quiet_if_closed():
            sys.stdout.write(page)
        sys.exit()
    try:
        left = flags.FLAGS(argv)
    except (flags.Error, UnicodeDecodeError) as error:
        _refuse(f"{' '.join(str(error).split())} (see {command} --help)")
    if left[1:] and not arguments:
        others = " ".join(left[1:])
        _refuse(f"takes only flags, written as --NAME=VALUE; got {others}.")
    return left


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A process of a cluster may wait for another one in C++ code without
        # an end, and Python runs no handler meanwhile.
        if (
            signal.getsignal(number) is signal.SIG_DFL
            and "TF_CONFIG" not in os.environ
        ):
            signal.signal(number, _interrupt)
    try:
        yield
    except REFUSALS as error:
        if flags.FLAGS.traceback:
            raise
        _refuse(error_message(error))
    except KeyboardInterrupt as error:
        if flags.FLAGS.traceback:
            raise
        number = error.args[0] if error.args else signal.SIGINT
        # Source: the status is that of shells.
        _refuse(f"ended by {signal.Signals(number).name}", 128 + number)
    finally:
        progress.keep()


def _interrupt(number: int, frame: types.FrameType | None) -> NoReturn:
    """Ends the program as Ctrl-C does; a second signal kills it."""
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt(number)


def _refuse(message: str, status: int = 1) -> NoReturn:
    progress.keep()
    sys.stderr.write(f"{pathlib.Path(sys.argv[0]).stem}: {message}\n")
    sys.exit(status)


@contextlib.contextmanager
def _quiet_if_closed() -> Iterator[None]:
    """Exits silently if the reader of stdout ends, as by `| head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if not poll.poll(0):  # Another pipe, or a socket, has no reader.
            raise
        # Otherwise flushing the buffer at exit would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def error_message(error: Exception) -> str:
    """Returns the message of an error, of the system's with its file first."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    # The second of two files is the target, as of a rename.
    path = error.filename2 or error.filename
    return f"{path}: {error.strerror}." if path else f"{error.strerror}."


def help_page(
    options: type, docstring: str, command: str, *, is_complete: bool = True
) -> str:
    """Writes the text of --help.

    Args:
        options: the dataclass that declares the flags of the program.
        docstring: the docstring of the program. It is shown first: its
            examples have the flags that most commands need.
        command: the usage, with arguments if the program takes any.
        is_complete: whether a program of many flags shows all of them, or only
            those of its docstring and those that are required.

    Returns:
        Lines of at most 80 columns, except for longer words.
    """
    about, _, rest = textwrap.dedent(docstring).strip().partition("\n\n")
    parts = [about, messages.wrapped(f"Usage: {command}", _COLUMNS, " " * 7)]
    if rest:
        parts.append(rest)
    values = flags.FlagValues()
    flags_lib.define(options, values)
    fields = sorted(
        dataclasses.fields(options), key=flags_lib.is_required, reverse=True
    )
    num_flags = len(fields)
    if not is_complete and num_flags > _LONG_PAGE_FLAGS:
        named = re.findall(r"--(\w+)", docstring)
        fields = [
            field
            for field in fields
            if flags_lib.is_required(field) or field.name in named
        ]
    sections: dict[flags_lib.Heading, list[str]] = {}
    for field in fields:
        lines = sections.setdefault(field.metadata["flag"].heading, [])
        lines += _lines(field, values[field.name])
    for heading in sorted(sections, key=lambda heading: heading.place):
        parts.append("\n".join([f"{heading.title}:", *sections[heading]]))
    more = num_flags - len(fields)
    others = f"--help=all shows {more} more flags. " if more else ""
    parts.append(messages.wrapped(others + _LAST_LINES, _COLUMNS))
    return "\n\n".join(parts) + "\n"


def _lines(field: dataclasses.Field, flag: flags.Flag) -> Iterator[str]:
    """Yields the flag with its type and default, then its help."""
    choices = getattr(flag.parser, "enum_values", None)
    takes = [] if flag.boolean else [flag.parser.syntactic_help]
    if choices:
        takes = [f"one of {', '.join(choices)}"]
    if flags_lib.is_required(field):
        takes.append("required")
    elif flag.default is None:
        takes.append("no default")
    else:
        default = (flag.default_as_str or "").strip("'") or '""'
        takes.append(f"default {default}")
    no = "[no]" if flag.boolean else ""
    head = f"  --{no}{flag.name}  ({'; '.join(filter(None, takes))})"
    yield messages.wrapped(head, _COLUMNS, _INDENT)
    about = " ".join(field.metadata["flag"].help.split())
    yield messages.wrapped(_INDENT + about, _COLUMNS, _INDENT)


def prepare_imports() -> None:
    """Prepares this process for the imports of TensorFlow and Keras.

    Notices of TensorFlow's C++ code are hidden except errors, unless the user
    has set TF_CPP_MIN_LOG_LEVEL. `tensorflow_start` hides those of its start.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    # A folder without keras.json: the settings of the user's other programs,
    # such as `floatx`, would change the types of weights.
    os.environ["KERAS_HOME"] = os.devnull
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Python's 700 would search the thousands of modules for garbage so often
    # that an import takes half a second longer.
    gc.set_threshold(_GARBAGE_THRESHOLD)

"""Program start: flag parsing, --help, one-line errors, quiet imports."""

import contextlib
import dataclasses
import functools
import gc
import importlib.abc
import importlib.machinery
import os
import pathlib
import re
import signal
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from absl import app, flags

from commands import flags as flags_lib
from files import messages, progress

# The types of errors whose messages are for users.
REFUSALS = (OSError, RuntimeError, ValueError)
_TENSORFLOW = "tensorflow"
_COLUMNS = 80
_INDENT = " " * 6
_LAST_LINES = (
    "--flagfile=FILE reads flags from a file, one per line. --verbosity=-1 "
    "logs only warnings. --traceback shows the traceback of error messages. "
    "--helpfull lists these and other absl flags."
)
# Packages that TensorFlow and Keras import if they are installed, for features
# that no program uses. They take 1 to 2 seconds.
_NOT_NEEDED = frozenset({"jax", "matplotlib", "sklearn"})
# TensorFlow 2.21 writes these at any TF_CPP_MIN_LOG_LEVEL.
_NOTICES = (
    rb"[IW]\d{4} |WARNING: All log messages before absl::Init"
    rb"|E\d{4} .*failed call to cuInit"
)


def start(
    options: type[flags_lib.T],
    main: Callable[..., Any],
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

    def run(argv: list[str]) -> int | None:
        progress.use_short_lines()
        prepare_imports()
        with _one_line_errors(), _quiet_if_closed():
            own: Any = flags_lib.read(options)
            result = main(own, argv[1:]) if arguments else main(own)
        return result if type(result) is int else None

    app.run(
        run, flags_parser=functools.partial(_parse, options, arguments or "")
    )


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
    module: Any = sys.modules["__main__"]
    command = f"python {os.path.basename(argv[0])}"
    if module.__spec__:
        command = f"python -m {module.__spec__.name}"
    if not {"--help", "-?"}.isdisjoint(argv):
        usage = f"{command} [--FLAG=VALUE ...] {arguments}".rstrip()
        with _quiet_if_closed():
            sys.stdout.write(help_page(options, module.__doc__, usage))
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
        # an end, and Python runs no handler meanwhile: signals kill it.
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


def _interrupt(number: int, frame: Any) -> NoReturn:
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


def help_page(options: type, docstring: str, command: str) -> str:
    """Writes the text of --help.

    Args:
        options: the dataclass that declares the flags of the program.
        docstring: the docstring of the program. It is shown first: its
            examples have the flags that most commands need.
        command: the usage, with arguments if the program takes any.

    Returns:
        Lines of at most 80 columns, except for longer words.
    """
    about, _, rest = textwrap.dedent(docstring).strip().partition("\n\n")
    parts = [about, messages.wrapped(f"Usage: {command}", _COLUMNS, " " * 7)]
    if rest:
        parts.append(rest)
    values = flags.FlagValues()
    flags_lib.define(options, values)
    sections: dict[flags_lib.Heading, list[str]] = {}
    for field in sorted(
        dataclasses.fields(options), key=flags_lib.is_required, reverse=True
    ):
        lines = sections.setdefault(field.metadata["flag"].heading, [])
        lines += _lines(field, values[field.name])
    for heading in sorted(sections, key=lambda heading: heading.place):
        parts.append("\n".join([f"{heading.title}:", *sections[heading]]))
    parts.append(messages.wrapped(_LAST_LINES, _COLUMNS))
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
    """Makes the imports of TensorFlow and Keras quick and quiet.

    Packages that no program needs are left out, and all messages of
    TensorFlow's C++ code are hidden except errors. TF_CPP_MIN_LOG_LEVEL=0 hides
    nothing.
    """
    os.environ["KERAS_BACKEND"] = _TENSORFLOW
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "keras" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """A finder of TensorFlow and Keras that changes how they are imported."""

    def find_spec(self, fullname, path, target=None):
        if fullname not in (_TENSORFLOW, "keras"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and spec.loader:
            spec.loader.exec_module = functools.partial(  # type: ignore[method-assign]
                _import, spec.loader.exec_module
            )
        return spec


def _import(execute: Callable[[Any], None], module: Any) -> None:
    """Imports TensorFlow or Keras; `execute` executes the module."""
    hidden = _NOT_NEEDED - sys.modules.keys()
    # None makes an import fail. Searching all modules for garbage, now and
    # while functions are traced, would take a tenth of the time of a short run.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    gc.disable()
    try:
        if module.__name__ == _TENSORFLOW:
            with _without_notices():
                execute(module)
                # Searches for GPUs, and logs it, once per process.
                module.config.list_physical_devices()
        else:
            execute(module)
    finally:
        gc.freeze()
        gc.enable()
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Filters notices of C++ code from stderr."""
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
        yield
        return
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            log.seek(0)
            for line in log:
                if not re.match(_NOTICES, line):
                    os.write(2, line)

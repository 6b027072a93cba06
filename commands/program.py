"""Program start: flag parsing, --help, one-line errors, quiet imports."""

import contextlib
import functools
import gc
import importlib.abc
import importlib.machinery
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from absl import app, flags

from commands import flags as flags_lib
from files import messages, progress

# The types of errors whose messages are for users.
REFUSALS = (OSError, RuntimeError, ValueError)
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_INSTALLED = "site-packages"
# The cause of an error raised in a process of `concurrent.futures`.
_REMOTE = "_RemoteTraceback"
_REMOTE_FRAME = re.compile(r'File "(.+)", line \d+, in .*\n +(.*)')
# Source: shells' 128 + the number of the signal.
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
# Set on each machine of a run on several.
_CLUSTER = "TF_CONFIG"
_MOST_COLUMNS = 80
_INDENT = " " * 6
_LAST_LINES = (
    "--flagfile=FILE reads flags from a file, one per line. --verbosity=-1 "
    "logs only warnings, --log_format=full uses the log format of absl. "
    "--traceback shows the traceback of error messages. --helpfull lists these "
    "and other absl flags."
)
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_EVERYTHING, _ERRORS = "0", "2"
_TENSORFLOW, _KERAS = "tensorflow", "keras"
_BACKEND = "KERAS_BACKEND"
# Packages that TensorFlow and Keras import if they are installed, for features
# that no program uses. They take 1 to 2 seconds.
_NOT_NEEDED = frozenset({"jax", "matplotlib", "sklearn"})
# Information, warnings, and absl's line before them.
_NOTICES = r"^[IW][0-9]{4} |^WARNING: All log messages before absl::Init"
# On a machine without an NVIDIA GPU this is logged as an error.
_NO_GPU = r"|failed call to cuInit"
_GPU_DEVICES = "nvidia[0-9]*"


def start(
    options: type[flags_lib.T],
    main: Callable[..., Any],
    *,
    arguments: str | None = None,
) -> None:
    """Runs a program; call it if `__name__` is "__main__".

    Parses the flags, shows --help, and calls `main`. Errors for users
    (`error_message`) end the program with one line on stderr and exit code 1.
    Bugs show their traceback, and so do all errors with --traceback. SIGTERM
    ends the program as Ctrl-C does.

    Args:
        options: the dataclass that declares the flags of the program.
        main: takes the options and, if the program takes `arguments`, a list of
            them. Its result is the exit code if it is an integer.
        arguments: the usage of the program's arguments other than flags; None
            if it takes none.
    """
    _open_closed_streams()
    flags_lib.define(options)
    define_common_flags()

    def run(argv: list[str]) -> int | None:
        own: Any = flags_lib.read(options)
        result = main(own, argv[1:]) if arguments else main(own)
        return result if type(result) is int else None

    app.run(
        lambda argv: _run(run, argv),
        flags_parser=lambda argv: _parse(argv, main.__module__, arguments),
    )


def _open_closed_streams() -> None:
    """Discards the output to a stream that is closed, as by `>&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Open to the end of the program.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


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
        progress.SHORT,
        progress.FORMATS,
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
        return help_page(
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
    except UnicodeDecodeError as error:
        _refuse(f"The file of --flagfile must be UTF-8: {error}.")
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
    if module.__spec__ is not None:  # python -m tools.NAME
        return f"python -m {module.__spec__.name}"
    return f"python {os.path.basename(sys.argv[0])}"


def _run(main: Callable[[list[str]], Any], argv: list[str]) -> Any:
    progress.use_format(flags.FLAGS.log_format)
    prepare_imports()
    try:
        with _termination():
            return _quietly_if_closed(lambda: main(argv))
    except REFUSALS as error:
        message = error_message(error, flags.FLAGS)
        if message is None or flags.FLAGS.traceback:
            raise
        return _refuse(message)
    except _Termination:
        if flags.FLAGS.traceback:
            traceback.print_exc()
        _exit_by_signal("terminated", _TERMINATED)
    except KeyboardInterrupt:
        if flags.FLAGS.traceback:
            raise
        _exit_by_signal("interrupted", _INTERRUPTED)
    finally:
        progress.keep()


class _Termination(KeyboardInterrupt):
    """SIGTERM, which is handled wherever Ctrl-C is."""


@contextlib.contextmanager
def _termination() -> Iterator[None]:
    """Raises `_Termination` at the first SIGTERM; a second one kills.

    As with Ctrl-C, Python runs the handler only when C++ code returns.
    TensorFlow may wait for another machine without an end, so the first signal
    kills a process of a cluster.
    """
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if _CLUSTER in os.environ or not is_default:
        yield
        return
    process = os.getpid()

    def terminate(number, frame):
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != process:  # A fork inherits the handler.
            os.kill(os.getpid(), number)
        raise _Termination

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit_by_signal(ended: str, status: int) -> NoReturn:
    progress.keep()
    sys.stderr.write(f"{_name()}: {ended}.\n")
    sys.exit(status)


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


def help_page(
    values: flags.FlagValues, docstring: str, command: str, width: int
) -> str:
    """Writes the text of --help.

    Args:
        values: the flags of the program.
        docstring: the docstring of the program. Its first paragraph is shown
            first, the rest, with examples, last.
        command: the usage, with arguments if the program takes any.
        width: columns of the terminal; at most 80 are used.

    Returns:
        Lines of at most 80 columns, except for longer words.
    """
    about, _, rest = textwrap.dedent(docstring).strip().partition("\n\n")
    width = min(width, _MOST_COLUMNS)
    parts = [about, messages.wrapped(f"Usage: {command}", width, " " * 7)]
    for group in flags_lib.Group:
        members = flags_lib.of(values, group)
        if members:
            lines = [line for flag in members for line in _lines(flag, width)]
            parts.append("\n".join([f"{group.value}:", *lines]))
    parts.append(messages.wrapped(_LAST_LINES, width))
    if rest:
        parts.append(rest)
    return "\n\n".join(parts) + "\n"


def _lines(flag: flags.Flag, width: int) -> Iterator[str]:
    """Yields the flag with its type and default, then its help."""
    no = "[no]" if flag.boolean else ""
    head = f"  --{no}{flag.name}  ({_takes(flag)})"
    yield messages.wrapped(head, width, _INDENT)
    # absl inserts <A|B>: before the help of a choice; `_takes` shows it too.
    about = re.sub(r"^<[^>]*>: ", "", " ".join(flag.help.split()))
    yield messages.wrapped(_INDENT + about, width, _INDENT)


def _takes(flag: flags.Flag) -> str:
    """Describes the values of a flag, and its default."""
    choices = getattr(flag.parser, "enum_values", None)
    kind = "" if flag.boolean else flag.parser.syntactic_help
    if choices:
        kind = f"one of {', '.join(choices)}"
    if flags_lib.is_required(flag):
        value = "required"
    elif flag.default is None:
        value = "no default"
    else:
        value = f"default {_default(flag.default)}"
    return "; ".join(filter(None, [kind, value]))


def _default(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return str(value) if value != "" else '""'


def prepare_imports() -> None:
    """Makes the imports of TensorFlow and Keras quick and quiet.

    Keras uses TensorFlow, unless KERAS_BACKEND says otherwise. Packages that
    no program needs are left out, and all messages of TensorFlow's C++ code
    are hidden except errors.

    `TF_CPP_MIN_LOG_LEVEL` hides notices of CPU instructions and GPUs, but not
    those of the import itself: TensorFlow 2.21 writes them at any level, before
    its logging starts, and absl reads no environment variable. So stderr is
    filtered during the import.

    A TF_CPP_MIN_LOG_LEVEL set by the user is kept; 0 hides nothing.
    """
    os.environ[_BACKEND] = os.environ.get(_BACKEND) or _TENSORFLOW
    os.environ.setdefault(_LEVEL, _ERRORS)
    if _KERAS not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """A finder of TensorFlow and Keras that changes how they are imported."""

    def find_spec(self, fullname, path, target=None):
        if fullname not in (_TENSORFLOW, _KERAS):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and spec.loader:
            spec.loader.exec_module = functools.partial(  # type: ignore[method-assign]
                _import, spec.loader.exec_module
            )
        return spec


def _import(execute: Callable[[Any], None], module: Any) -> None:
    """Imports TensorFlow or Keras; `execute` executes the module."""
    is_tensorflow = os.environ[_BACKEND] == _TENSORFLOW
    unused = _NOT_NEEDED if is_tensorflow else ()
    with _without_packages(unused), _without_garbage_collection():
        if module.__name__ != _TENSORFLOW or os.environ[_LEVEL] == _EVERYTHING:
            execute(module)
            return
        with _without_notices():
            execute(module)
            # Searches for GPUs, and logs it, once per process.
            module.config.list_physical_devices()


@contextlib.contextmanager
def _without_packages(names: Iterable[str]) -> Iterator[None]:
    """Makes the imports of packages fail, unless they are already imported."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Suspends garbage collection, and exempts the existing objects from it.

    Otherwise searching the modules of TensorFlow for garbage, during the import
    and while functions are traced, takes a tenth of the time of a short run.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Filters notices from stderr, also those of C++ code.

    A separate process filters, so that the error message appears even if the
    import kills the program, as on an unsupported processor.
    """
    has_gpu = any(pathlib.Path("/dev").glob(_GPU_DEVICES))
    pattern = _NOTICES if has_gpu else _NOTICES + _NO_GPU
    stderr = os.dup(2)
    read, write = os.pipe()
    with subprocess.Popen(
        ["grep", "-v", "-E", pattern], stdin=read, stdout=stderr
    ):
        os.dup2(write, 2)
        os.close(read)
        os.close(write)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)

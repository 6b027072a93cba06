"""How a program is run: its flags, its help, its refusals in one line."""

import math
import os
import pathlib
import re
import select
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags

from commands import flag_groups, help_page, refusals

_MISSING = re.compile(r"flag --(\w+)=None: .* must have a value other than")
_INTERRUPTED = 130  # Source: shells' 128 + the number of SIGINT.


def start(
    define_flags: Callable[[], None],
    main: Callable[[list[str]], Any],
    *,
    arguments: str | None = None,
) -> None:
    """Runs a program: call it where `__name__` is "__main__".

    Shows --help, parses the flags, calls `main`. What the program refuses
    (`refusals.in_words`) ends it with one line on stderr and code 1; faults
    keep their traceback, and --traceback shows that of refusals, too.

    Args:
        define_flags: defines the flags of the program.
        main: gets the command line without its flags; what it returns is the
            exit code.
        arguments: what else the program takes beside flags, as its usage says
            it; None for nothing, which is then refused.
    """
    define_flags()
    define_common_flags()
    app.run(
        lambda argv: _run(main, argv),
        flags_parser=lambda argv: _parse(argv, main.__module__, arguments),
    )


def define_common_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines what every program has beside absl's flags."""
    flags.DEFINE_boolean(
        "traceback",
        False,
        "Show where in the code a refusal was raised; for developers.",
        flag_values=values,
    )


class _HelpFlag(flags.BooleanFlag):
    """Shows the page of `help_page` in place of absl's."""

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
            module.__doc__,
            f"{_command(module)} [--FLAG=VALUE ...] {arguments or ''}".strip(),
            flags.get_help_width(),
        )

    flags.DEFINE_flag(_HelpFlag("help", page, short_name="?"))
    flags.DEFINE_flag(_HelpFlag("helpshort", page))
    try:
        left = flags.FLAGS(argv)
        check_values(flags.FLAGS)
    except flags.Error as error:
        _refuse(f"{in_words(error)} {_command(module)} --help says more.")
    if left[1:] and not arguments:
        _refuse(
            "must be given flags alone, --NAME=VALUE with the equals sign; got "
            f"{' '.join(left[1:])}."
        )
    return left


def check_values(values: flags.FlagValues) -> None:
    """Refuses what absl takes and no program can use.

    Raises:
        flags.IllegalFlagValueError: a required flag is empty, as one written
            with a shell's variable that is not set; a number is none.
    """
    for name in values:
        flag = values[name]
        if flag.value == "" and flag_groups.is_required(flag):
            raise flags.IllegalFlagValueError(
                f"--{name} must not be empty. Is it a shell's variable that "
                "is not set?"
            )
        if isinstance(flag.value, float) and math.isnan(flag.value):
            raise flags.IllegalFlagValueError(
                f"--{name} must be a number; got {flag.value}."
            )


# What absl says of a value, as Python says it, and what that means.
_WORDINGS = (
    (r"flag (--\w+)=(.*): could not convert string to float: .*", "a number"),
    (r"flag (--\w+)=(.*): invalid literal for int\(\) .*", "a whole number"),
    (r"flag (--\w+)=(.*): \('Non-boolean argument .*", "true or false"),
    (r"flag (--\w+)=(.*): -?[\d.]+ is not (.*)", None),
    (r"flag (--\w+)=(.*): value should be (one of) <(.*)>", None),
)


def _of_value(line: str) -> str:
    """Says what a flag must be, and what came."""
    for pattern, kind in _WORDINGS:
        if match := re.fullmatch(pattern, line):
            name, value, *rest = match.groups()
            must_be = kind or " ".join(rest).replace("|", ", ")
            return f"{name} must be {must_be}; got {value}."
    # Of several flags that are checked together: their values come first.
    return re.sub(r"^flags \w+=.*?: (?=[A-Z-])", "", line)


def in_words(error: flags.Error) -> str:
    """Says in one line what is wrong with the flags."""
    if isinstance(error, flags.UnrecognizedFlagError):
        meant = re.search(r"Did you mean: (\S+)", str(error))
        return f"there is no flag --{error.flagname}" + (
            f"; did you mean --{meant[1]}?" if meant else "."
        )
    lines = str(error).split("\n")
    missing = [f"--{m[1]}" for line in lines if (m := _MISSING.match(line))]
    others = [_of_value(line) for line in lines if not _MISSING.match(line)]
    if missing:
        others.insert(0, f"{', '.join(missing)} must be given.")
    return " ".join(
        line.rstrip() if line.endswith((".", "?")) else f"{line.rstrip()}."
        for line in others
    )


def _command(module: Any) -> str:
    """Says what a user types to run a program."""
    if module.__spec__ is not None:  # python -m tools.NAME
        return f"python -m {module.__spec__.name}"
    return f"python {os.path.basename(sys.argv[0])}"


def _run(main: Callable[[list[str]], Any], argv: list[str]) -> Any:
    try:
        return _quietly_if_closed(lambda: main(argv))
    except refusals.KINDS as error:
        message = refusals.in_words(error, flags.FLAGS)
        if message is None or flags.FLAGS.traceback:
            raise
        return _refuse(message)
    except KeyboardInterrupt:
        if flags.FLAGS.traceback:
            raise
        sys.stderr.write(f"{_name()}: interrupted.\n")
        sys.exit(_INTERRUPTED)


def _refuse(message: str) -> None:
    sys.exit(f"{_name()}: {message}")


def _name() -> str:
    return pathlib.Path(sys.argv[0]).stem


def _quietly_if_closed(write: Callable[[], Any]) -> Any:
    """Ends the program in silence where nobody reads on, as after `| head`."""
    try:
        result = write()
        sys.stdout.flush()
        return result
    except BrokenPipeError:
        if not _is_closed(sys.stdout.fileno()):
            raise  # Another pipe than stdout.
        # What is left in the buffer would be written, and fail, at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _is_closed(descriptor: int) -> bool:
    """Tells whether nobody reads any more what a pipe carries."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(events & select.POLLERR for _, events in poll.poll(0))

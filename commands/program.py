"""How a program is run: its flags, its help, its refusals in one line."""

import os
import pathlib
import select
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags

from commands import flag_errors, help_page, refusals
from commands import flags as flags_lib

_INTERRUPTED = 130  # Source: shells' 128 + the number of SIGINT.


def start(
    options: type | Callable[[], None],
    main: Callable[..., Any],
    *,
    arguments: str | None = None,
) -> None:
    """Runs a program: call it where `__name__` is "__main__".

    Shows --help, parses the flags, calls `main`. What the program refuses
    (`refusals.in_words`) ends it with one line on stderr and code 1; faults
    keep their traceback, and --traceback shows that of refusals, too.

    Args:
        options: the dataclass that declares the flags of the program.
        main: gets the options and, where the program takes `arguments`, a list
            of them; what it returns is the exit code.
        arguments: what else the program takes beside flags, as its usage says
            it; None for nothing, which is then refused.
    """
    if not isinstance(options, type):  # A function that defines flags.
        options()
        call = main
    else:
        flags_lib.define(options)

        def call(argv):
            own = flags_lib.read(options)
            return main(own, argv[1:]) if arguments else main(own)

    define_common_flags()
    app.run(
        lambda argv: _run(call, argv),
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
        flag_errors.check(flags.FLAGS)
    except flags.Error as error:
        told = flag_errors.in_words(error)
        _refuse(f"{told} {_command(module)} --help says more.")
    if left[1:] and not arguments:
        _refuse(
            "must be given flags alone, --NAME=VALUE with the equals sign; got "
            f"{' '.join(left[1:])}."
        )
    return left


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

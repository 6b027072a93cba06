"""The text of --help: purpose, flags by group and examples."""

import re
import textwrap
from collections.abc import Iterator

from absl import flags

from commands import flags as flags_lib

_MOST_COLUMNS = 80
_INDENT = " " * 6
_LAST_LINES = (
    "--flagfile=FILE reads flags from a file, one per line. --verbosity=-1 "
    "logs only warnings, --log_format=full uses the log format of absl. "
    "--traceback shows the traceback of error messages. --helpfull lists these "
    "and other absl flags."
)


def write(
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
    parts = [about, _filled(f"Usage: {command}", " " * 7, width)]
    for group in flags_lib.Group:
        members = flags_lib.of(values, group)
        if members:
            lines = [line for flag in members for line in _lines(flag, width)]
            parts.append("\n".join([f"{group.value}:", *lines]))
    parts.append(_filled(_LAST_LINES, "", width))
    if rest:
        parts.append(rest)
    return "\n\n".join(parts) + "\n"


def _filled(text: str, indent: str, width: int) -> str:
    return textwrap.fill(
        text,
        min(width, _MOST_COLUMNS),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _lines(flag: flags.Flag, width: int) -> Iterator[str]:
    """Yields the flag with its type and default, then its help."""
    no = "[no]" if flag.boolean else ""
    yield _filled(f"  --{no}{flag.name}  ({_takes(flag)})", _INDENT, width)
    # absl inserts <A|B>: before the help of a choice; `_takes` shows it too.
    about = re.sub(r"^<[^>]*>: ", "", " ".join(flag.help.split()))
    yield _filled(_INDENT + about, _INDENT, width)


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
    """Formats a default as on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return str(value) if value != "" else '""'

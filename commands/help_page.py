"""The text of --help: purpose, flags by group, examples."""

import re
import textwrap
from collections.abc import Iterator

from absl import flags

from commands import flags as flags_lib

_MOST_COLUMNS = 80
_INDENT = " " * 6
_LAST_LINES = (
    "--flagfile=FILE takes flags from a file, one a line. --verbosity=-1 logs "
    "warnings alone, --log_format=full in the long form of absl. --traceback "
    "shows where in the code something was refused. --helpfull lists these and "
    "others of absl."
)


def write(
    values: flags.FlagValues, docstring: str, command: str, width: int
) -> str:
    """Writes the text of --help.

    Args:
        values: the flags of the program.
        docstring: of the program. Its first paragraph is shown first, the
            rest, with examples, last.
        command: runs the program; with its arguments, if it takes any.
        width: columns of the terminal; more than 80 stay empty.

    Returns:
        Lines of at most 80 columns, but for words that are longer.
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
    """Yields the flag with its kind and default, then its help."""
    no = "[no]" if flag.boolean else ""
    yield _filled(f"  --{no}{flag.name}  ({_takes(flag)})", _INDENT, width)
    # absl puts <A|B>: before the words of a choice, which are there already.
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
    """Writes a default as on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return str(value) if value != "" else '""'

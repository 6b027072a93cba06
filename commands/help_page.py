"""What --help shows: what the program is for, its flags by group, examples."""

import re
import textwrap
from collections.abc import Iterator

from absl import flags

from commands import flag_groups

_MOST_COLUMNS = 80
_INDENT = " " * 6
_LAST_LINES = (
    "--flagfile=FILE takes flags from a file, one a line. --verbosity=-1 logs "
    "warnings alone. --traceback shows where in the code something was "
    "refused. --helpfull lists these and others of absl."
)


def write(
    values: flags.FlagValues, docstring: str, command: str, width: int
) -> str:
    """Writes the page.

    Args:
        values: the flags of the program.
        docstring: of the program: a paragraph that says what it does, shown
            first; examples and the rest, shown last, where a terminal stands
            when all is written.
        command: what runs the program, with its arguments, if it takes any.
        width: columns of the terminal; more than 80 stay empty.

    Returns:
        Lines of at most 80 columns, but for words that are longer.
    """
    about, _, rest = textwrap.dedent(docstring).strip().partition("\n\n")
    parts = [about, _filled(f"Usage: {command}", " " * 7, width)]
    for group in flag_groups.Group:
        members = flag_groups.of(values, group)
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
    """Yields a line for the flag and what it takes, then what it means."""
    no = "[no]" if flag.boolean else ""
    yield _filled(f"  --{no}{flag.name}  ({_takes(flag)})", _INDENT, width)
    # absl puts <A|B>: before the words of a choice, which are there already.
    about = re.sub(r"^<[^>]*>: ", "", " ".join(flag.help.split()))
    yield _filled(_INDENT + about, _INDENT, width)


def _takes(flag: flags.Flag) -> str:
    """Says which values a flag takes, and which it has when not given."""
    choices = getattr(flag.parser, "enum_values", None)
    kind = "" if flag.boolean else flag.parser.syntactic_help
    if choices:
        kind = f"one of {', '.join(choices)}"
    if flag_groups.is_required(flag):
        value = "required"
    elif flag.default is None:
        value = "no default"
    else:
        value = f"default {default_in_words(flag.default)}"
    return "; ".join(filter(None, [kind, value]))


def default_in_words(value: object) -> str:
    """Writes a default as it would be written on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    return str(value) if value != "" else '""'

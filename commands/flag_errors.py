"""What is wrong with the flags of a command line, in one line."""

import math
import re

from absl import flags

from commands import flag_groups

_MISSING = re.compile(r"flag --(\w+)=None: .* must have a value other than")


def check(values: flags.FlagValues) -> None:
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
    lines = str(error).removeprefix("ERROR:: ").split("\n")
    missing = [f"--{m[1]}" for line in lines if (m := _MISSING.match(line))]
    others = [_of_value(line) for line in lines if not _MISSING.match(line)]
    if missing:
        others.insert(0, f"{', '.join(missing)} must be given.")
    return " ".join(
        line.rstrip() if line.endswith((".", "?")) else f"{line.rstrip()}."
        for line in others
    )

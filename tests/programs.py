"""Programs of this project, run within a process of tests."""

import importlib
from collections.abc import Sequence

from absl import flags

from commands import flag_errors, refusals
from commands import flags as flags_lib


def refusal(name: str, arguments: Sequence[str]) -> str | None:
    """Runs a program.

    Args:
        name: of its module.
        arguments: of its command line.

    Returns:
        What it tells the user that it refuses; of a fault of the program the
        `repr` of the exception. None where it did its work.
    """
    module = importlib.import_module(name)
    before = flags.FLAGS
    values = flags.FLAGS = flags.FlagValues()
    has_own_flags = hasattr(module, "define_flags")
    if has_own_flags:
        module.define_flags(values)
    else:
        flags_lib.define(module.Options, values)
    try:
        others = values([name, *arguments])
        flag_errors.check(values)
        if has_own_flags:
            module.main(others)
        else:
            main = getattr(module, "main", None) or module.run
            main(flags_lib.read(module.Options, values))
    except flags.Error as error:
        return flag_errors.in_words(error)
    except (ImportError, *refusals.KINDS) as error:
        return refusals.in_words(error, values) or repr(error)
    finally:
        flags.FLAGS = before
    return None

"""Programs of this project, run within a process of tests."""

import importlib
from collections.abc import Sequence

from absl import flags

from commands import flags as flags_lib
from commands import program


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
    flags_lib.define(module.Options, values)
    try:
        _, *others = values([name, *arguments])
        flags_lib.check(values)
        main = getattr(module, "main", None) or module.run
        taken = [others] if hasattr(module, "ARGUMENTS") else []
        main(flags_lib.read(module.Options, values), *taken)
    except flags.Error as error:
        return flags_lib.error_message(error)
    except (ImportError, *program.REFUSALS) as error:
        return program.error_message(error, values) or repr(error)
    finally:
        flags.FLAGS = before
    return None

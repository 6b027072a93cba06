"""The package `commands` that Python finds if a program is run by its path.

Python then searches the program's folder for packages instead of the clone.
"""

import pathlib
import shlex
import sys


def _module_command() -> str:
    tool = pathlib.Path(sys.argv[0]).resolve()
    name = f"{tool.parent.name}.{tool.stem}"
    words = shlex.join(["python", "-m", name, *sys.argv[1:]])
    return f"PYTHONPATH={tool.parents[1]} {words}"


if __name__ == "commands":
    sys.exit(f"Run this as a module, from any folder: {_module_command()}")

"""The package `commands` that Python finds if a program is run by its path.

Python then searches the program's folder for packages instead of the clone.
"""

import pathlib
import shlex
import sys

if __name__ == "commands":
    tool = pathlib.Path(sys.argv[0]).resolve()
    module = f"{tool.parent.name}.{tool.stem}"
    words = shlex.join(["python", "-m", module, *sys.argv[1:]])
    command = f"PYTHONPATH={tool.parents[1]} {words}"
    sys.exit(f"Run this as a module, from any folder: {command}")

"""Runs a script that is killed when a file is about to get its final name.

python -m tests.support.killed_program model.ckpt-8.index run_pretraining.py
"""

import os
import runpy
import signal
import sys


def main(name: str, *command: str) -> None:
    """Runs the command until then."""

    def kill(event, arguments):
        if event == "os.rename" and os.path.basename(arguments[1]) == name:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    sys.argv = list(command)
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])

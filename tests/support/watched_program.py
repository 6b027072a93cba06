"""Runs a script without any dropout, and lists what it writes.

  python -m tests.support.watched_program LIST run_classifier.py --task_name=...

LIST gets a line for each file that the process opened to write, renamed or
removed, by Python; temporary folders and devices are left out.
"""

import os
import runpy
import sys

_WRITING = os.O_WRONLY | os.O_RDWR


def _watch(path: str) -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def note(event, arguments):
        if event == "open" and isinstance(arguments[2], int):
            if not arguments[2] & _WRITING:
                return
            touched = arguments[:1]
        elif event in ("os.rename", "os.remove", "os.mkdir"):
            touched = arguments[:2]
        else:
            return
        for each in touched:
            if isinstance(each, str | bytes):
                os.write(log, f"{os.fsdecode(each)}\n".encode())

    sys.addaudithook(note)


def main(list_path: str, *command: str) -> None:
    """Runs the command, watched."""
    from modeling import config

    config.CLASSIFIER_DROPOUT_PROB = 0.0
    defaults = config.BertConfig.__init__.__kwdefaults__
    defaults["classifier_dropout_prob"] = 0.0
    _watch(list_path)
    sys.argv = list(command)
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What one of several workers writes to a folder, and the others read there.

The chief alone writes. Every worker makes the same decisions from the same
files, so that nothing needs to be sent but the word that a file is there.
"""

import itertools
import os
import secrets
import time
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf
from absl import logging

from files import writing
from training import failures, workers

_LOOK_EVERY_SECONDS = 0.2
_LOOKS_BETWEEN_QUESTIONS = 50
# Network file systems may show a file only a few seconds after it is written.
_MOST_SECONDS_UNSEEN = 20.0

_Made = TypeVar("_Made")


def find_or_make(
    what: str, find: Callable[[], _Made | None], make: Callable[[], _Made]
) -> _Made:
    """Finds something in a shared folder, or has the chief make it.

    The other workers wait, for as long as the chief takes.

    Args:
        what: is waited for, such as a path.
        find: returns it, or None as long as it is not there, whole.
        make: makes and returns it.

    Raises:
        LostWorkerError: the chief has ended without making it.
    """
    if workers.cluster().is_chief:
        found = find()
        return make() if found is None else found
    return wait_for(what, find)


def wait_for(what: str, find: Callable[[], _Made | None]) -> _Made:
    """Waits for what the chief is making; arguments as of `find_or_make`.

    Raises:
        LostWorkerError: the chief has ended without making it.
    """
    members = workers.cluster()
    chief, started = members.names[0], time.monotonic()
    for turn in itertools.count(1):
        is_time_to_ask = turn % _LOOKS_BETWEEN_QUESTIONS == 0
        # Asked before looking: the chief may end once it has made everything.
        is_gone = is_time_to_ask and not workers.chief_answers(members)
        found = find()
        if found is not None:
            return found
        if is_gone:
            raise failures.LostWorkerError(
                f"Lost {chief}, which was to write {what}: see what it says. "
                "Start all workers again with the same command."
            )
        if is_time_to_ask:
            seconds = time.monotonic() - started
            logging.info(
                "Waiting for %s to write %s: %.0f s so far.",
                *(chief, what, seconds),
            )
        time.sleep(_LOOK_EVERY_SECONDS)


@failures.of_workers()
def check_shared(meeting: workers.Meeting, folder: str) -> None:
    """Checks that all workers see what the chief writes to a folder.

    Args:
        meeting: of the run; a process that is alone is not checked.
        folder: made if missing.

    Raises:
        ValueError: some do not; names them.
    """
    if not meeting.has_several:
        return
    number = meeting.all_of(secrets.randbits(60))[0]
    # A name that `checkpointing.remove_partial_files` knows, should it stay.
    path = os.path.join(folder, f".meeting.{number}.partial")
    if meeting.is_chief:
        with writing.whole_file(path) as file:
            file.write("All workers must see this file.\n")
    meeting.wait()
    seen = meeting.all_of(int(_appears(path)))
    if meeting.is_chief:
        tf.io.gfile.remove(path)
    unseen = [
        name
        for name, sees in zip(workers.cluster().names, seen, strict=True)
        if not sees
    ]
    if unseen:
        raise ValueError(
            f"All workers must read and write the same folder, but "
            f"{', '.join(unseen)} cannot see what {workers.cluster().names[0]} "
            f"writes to --output_dir={folder}. Put it on a disk that all of "
            "them share."
        )


def _appears(path: str) -> bool:
    """Tells whether a file is there, or soon will be."""
    until = time.monotonic() + _MOST_SECONDS_UNSEEN
    while not tf.io.gfile.exists(path):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_EVERY_SECONDS)
    return True

"""Work on other processes."""

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures

import pytest

from bert.files import processes


@pytest.mark.parametrize("num_workers", [1, 2])
def test_results_come_in_order_and_items_as_needed(num_workers):
    taken = []

    def items():
        for text in ("a", "bb", "", "cccc", "d", "ee", "f"):
            taken.append(text)
            yield text

    results = processes.map_in_order(len, items(), num_workers)
    assert next(results) == 1
    # The one worked on by each, and one that waits.
    assert len(taken) <= num_workers + 1
    assert list(results) == [2, 0, 4, 1, 2, 1]


def test_a_batch_ends_with_the_item_that_fills_it():
    items = iter(["a", "bb", "", "cccc", "d"])
    batches = processes.batches(items, 3, len)
    assert next(batches) == ["a", "bb"]
    assert next(items) == ""  # Not read ahead.
    assert list(batches) == [["cccc"], ["d"]]
    assert list(processes.batches([], 3, len)) == []


def _process_name(_):
    return multiprocessing.current_process().name


def test_workers_are_no_copies_of_this_process_and_its_locks():
    names = list(processes.map_in_order(_process_name, range(4), 2))
    assert all(name.startswith("SpawnProcess-") for name in names)


def _die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_failure_comes_back_and_a_killed_worker_is_a_readable_error():
    with pytest.raises(TypeError, match="int"):
        list(processes.map_in_order(len, ["a", 1, "b", "c", "d"], 2))
    with pytest.raises(RuntimeError, match="2 worker processes died"):
        list(processes.map_in_order(_die, range(4), 2))


# Work without an end, by every part of the project that uses processes.
_ENDLESS = {
    "processes": """
import time
from bert.files import processes
work = lambda: list(processes.map_in_order(time.sleep, [60, 60], 2))
""",
    "counting": """
import itertools
from vocab import learning
work = lambda: learning.count_words(
    itertools.repeat("the tide " * 1000), learning.Options(num_workers=2))
""",
    "preparation": """
import itertools
from bert.corpus import formats, preparation
rules = formats.Rules(input_format="jsonl")
documents = itertools.repeat(formats.Document(lines=["The tide."] * 1000))
work = lambda: [0 for _ in preparation.prepare(documents, rules, 2)]
""",
}


def _children(parent):
    path = pathlib.Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    if not path.exists():
        pytest.skip("needs Linux")
    return [int(pid) for pid in path.read_text().split()]


def _start(script, work):
    script.write_text(f"{work}\nif __name__ == '__main__':\n    work()\n")
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    )


@pytest.mark.parametrize(
    "users",
    [
        ["processes"],
        pytest.param(
            ["counting", "preparation"], marks=pytest.mark.integration
        ),
    ],
)
def test_workers_end_with_their_parent(tmp_path, users):
    parents = {}
    for user in users:
        parents[user] = _start(tmp_path / f"{user}.py", _ENDLESS[user])
    workers = {}
    try:
        for user, parent in parents.items():
            # Python's tracker of resources is the third.
            while len(_children(parent)) < 3:
                assert parent.poll() is None, user
                time.sleep(0.05)
        workers = {user: _children(parents[user]) for user in parents}
    finally:
        for parent in parents.values():
            parent.kill()
            parent.wait()
    until = time.monotonic() + 30
    while alive := {
        user
        for user, pids in workers.items()
        if any(os.path.exists(f"/proc/{pid}/cmdline") for pid in pids)
    }:
        assert time.monotonic() < until, alive
        time.sleep(0.05)


def test_work_in_progress_alone_ends_with_the_consumer(tmp_path):
    work = """
import multiprocessing, sys, time
from bert.files import processes
def work():
    other = multiprocessing.Process(target=time.sleep, args=(60,))
    other.start()
    results = processes.map_in_order(time.sleep, [0, 60, 60, 60], 2)
    next(results)
    results.close()
    lives = other.is_alive()
    other.kill()
    sys.exit(7 if lives else 1)
"""
    parent = _start(tmp_path / "work.py", work)
    assert parent.wait(timeout=60) == 7


def test_work_that_has_not_begun_is_dropped_with_the_consumer():
    may_end, done = threading.Event(), []

    def work(number):
        if number:
            may_end.wait(30)
        done.append(number)

    with futures.ThreadPoolExecutor(1) as pool:
        results = processes.in_order(pool, work, range(5), 4)
        next(results)
        results.close()
        may_end.set()
    assert done in ([0], [0, 1])


_UNTIL_A_FILE = """
import pathlib, signal, sys, time
from bert.files import processes
# A background job of a shell inherits that interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def wait(name):
    pathlib.Path(name).touch()
    while not pathlib.Path(name + ".end").exists():
        time.sleep(0.05)
if __name__ == "__main__":
    list(processes.map_in_order(wait, sys.argv[1:], 2))
"""


def _started_parent(folder, **options):
    """Starts a process whose two workers wait for a file each."""
    script = folder / "work.py"
    script.write_text(_UNTIL_A_FILE)
    started = [folder / "first", folder / "second"]
    parent = subprocess.Popen(
        [sys.executable, str(script), *map(str, started)],
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        **options,
    )
    while not all(path.exists() for path in started):
        assert parent.poll() is None
        time.sleep(0.05)
    return parent


def test_a_terminal_s_interrupt_ends_all_at_once(tmp_path):
    parent = _started_parent(
        tmp_path, stderr=subprocess.PIPE, start_new_session=True
    )
    os.killpg(parent.pid, signal.SIGINT)
    _, errors = parent.communicate(timeout=30)
    assert errors.count(b"Traceback") == 1  # That of the parent.


def test_workers_leave_a_terminal_s_interrupt_to_their_parent(tmp_path):
    parent = _started_parent(tmp_path)
    for pid in _children(parent):
        os.kill(pid, signal.SIGINT)
    for name in ("first", "second"):
        (tmp_path / f"{name}.end").touch()
    assert parent.wait(timeout=30) == 0

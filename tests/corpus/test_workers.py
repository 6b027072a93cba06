"""Work on other processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from corpus import workers


@pytest.mark.parametrize("num_workers", [1, 2])
def test_results_come_in_order_and_items_as_needed(num_workers):
    taken = []

    def items():
        for text in ("a", "bb", "", "cccc", "d", "ee", "f"):
            taken.append(text)
            yield text

    results = workers.map_in_order(len, items(), num_workers)
    assert next(results) == 1
    # The one worked on by each, and one that waits.
    assert len(taken) <= num_workers + 1
    assert list(results) == [2, 0, 4, 1, 2, 1]


def test_a_failure_comes_back():
    with pytest.raises(TypeError, match="int"):
        list(workers.map_in_order(len, ["a", 1, "b", "c", "d"], 2))


_SLEEPERS = """
import time
from corpus import workers
if __name__ == "__main__":
    print("started", flush=True)
    list(workers.map_in_order(time.sleep, [60, 60], 2))
"""


def test_workers_end_with_their_parent(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_SLEEPERS)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
    )
    parent.stdout.readline()
    children = f"/proc/{parent.pid}/task/{parent.pid}/children"
    if not os.path.exists(children):
        parent.kill()
        pytest.skip("needs Linux")
    for _ in range(200):
        with open(children) as file:
            pids = [int(pid) for pid in file.read().split()]
        if len(pids) >= 2:
            break
        time.sleep(0.05)
    time.sleep(0.5)  # They may be starting still.
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for _ in range(300):
        alive = [pid for pid in pids if os.path.exists(f"/proc/{pid}/cmdline")]
        if not alive:
            break
        time.sleep(0.05)
    assert alive == []

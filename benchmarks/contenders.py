"""Programs that do the same work in turns, each in a process of its own.

A contender is a module that calls `serve`. It may run in an environment of its
own: this file needs nothing but Python.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

_ROOT = pathlib.Path(__file__).parents[1]
_READY, _ABSENT = "ready", "absent"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What every contender does once each turn.

    Attributes:
        kind: "pretraining" or "fine_tuning", a step of training; or
            "prediction", over texts of the given lengths.
        sizes: the keys of a `bert_config.json`.
        batch_size: rows in a batch.
        max_seq_length: tokens of a row in training.
        max_predictions_per_seq: of pre-training.
        precision: "float32" or "mixed_bfloat16".
        lengths: tokens of each text of prediction, in file order.
        by_length: take texts of like length together.
    """

    kind: str
    sizes: Mapping[str, object]
    batch_size: int
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    precision: str = "mixed_bfloat16"
    lengths: Sequence[int] = ()
    by_length: bool = False

    def order(self) -> list[int]:
        """Lists the texts in the order in which batches take them."""
        places = list(range(len(self.lengths)))
        if self.by_length:
            places.sort(key=lambda place: -self.lengths[place])
        return places


def serve(prepare: Callable[[Job], Callable[[], float | None]]) -> None:
    """Does the job of the command line whenever a line comes in.

    Args:
        prepare: makes the work of one turn, which returns its seconds if the
            clock would not tell them. It may raise ImportError.
    """
    job = Job(**json.loads(sys.argv[1]))
    # What libraries print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        work = prepare(job)
        work()  # Compiles, and fills caches.
    except ImportError as error:
        answers.write(f"{_ABSENT} {error}\n")
        answers.close()
        return
    answers.write(f"{_READY}\n")
    answers.flush()
    for _ in sys.stdin:
        start = time.perf_counter()
        seconds = work()
        if seconds is None:
            seconds = time.perf_counter() - start
        answers.write(f"{seconds}\n")
        answers.flush()


class Contender:
    """A process that waits for its turns.

    Args:
        module: of this package; it calls `serve`.
        job: the work.
        python: the interpreter it runs on.

    Attributes:
        absent: why it takes no part; None if it does.

    Raises:
        RuntimeError: it ended without saying why.
    """

    def __init__(self, module: str, job: Job, python: str = sys.executable):
        # Closed by `close`.
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                *(python, "-m", f"benchmarks.{module}"),
                json.dumps(dataclasses.asdict(job)),
            ],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._module = module
        word, _, reason = self._answer().partition(" ")
        self.absent = reason.strip() if word == _ABSENT else None

    def turn(self) -> float:
        """Does the work once; returns its seconds."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(
                f"benchmarks.{self._module} ended: {self._log.read()[-2000:]}"
            )
        return line.strip()


def alternate(
    contenders: Mapping[str, Contender], num_rounds: int
) -> dict[str, float]:
    """Lets all take turns; returns the median seconds of each.

    Args:
        contenders: by name; those that are absent are left out.
        num_rounds: turns of each.
    """
    present = {
        name: contender
        for name, contender in contenders.items()
        if contender.absent is None
    }
    seconds = {name: [] for name in present}
    for _ in range(num_rounds):
        for name, contender in present.items():
            seconds[name].append(contender.turn())
    return {name: statistics.median(each) for name, each in seconds.items()}


def table(
    medians: Mapping[str, float], unit: str, count: float, ours: str
) -> list[str]:
    """Formats medians as the lines of a Markdown table.

    Args:
        medians: seconds by name.
        unit: what is counted, such as "tokens".
        count: how many of it one turn does.
        ours: the name that the others are compared with.
    """
    lines = [
        f"| | ms | {unit}/s | time, ours = 1 |",
        "|---|---|---|---|",
    ]
    for name, seconds in medians.items():
        lines.append(
            f"| {name} | {seconds * 1e3:.1f} | {count / seconds:,.0f} "
            f"| {seconds / medians[ours]:.2f} |"
        )
    return lines

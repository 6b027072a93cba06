"""Benchmark contenders, which take turns in separate processes.

A contender is named `MODULE.FUNCTION`. The function gets a `Job` and returns
the function to measure, whose result, if any, replaces the wall time. It may
raise ImportError. A contender may run in another environment: this file
requires only Python and NumPy.
"""

import dataclasses
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
NUM_LABELS = 2  # Of fine-tuning and of next sentences.
_READY, _ABSENT = "ready", "absent"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """The work of one turn.

    Attributes:
        kind: "pretraining", "fine_tuning" (a classifier) or "span_extraction",
            a training step; "prediction" for texts of the given lengths;
            "tokenization", "graph_tokenization" or "data_creation" for a file.
        sizes: the keys of a `bert_config.json`.
        batch_size: rows in a batch.
        max_seq_length: tokens of a row at most.
        max_predictions_per_seq: of pre-training.
        precision: "float32", "mixed_bfloat16" or "mixed_float16".
        recompute: whether training uses gradient checkpointing.
        num_parts: micro-batches of a step.
        lengths: tokens of each text of prediction, in file order.
        by_length: group texts of similar length.
        text_file: of the other kinds, a sentence a line.
        vocab_file: an uncased vocabulary.
        of_memory: measure peak memory, in bytes, instead of time.
    """

    kind: str
    sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    batch_size: int = 32
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    precision: str = "mixed_bfloat16"
    recompute: bool = False
    num_parts: int = 1
    lengths: Sequence[int] = ()
    by_length: bool = False
    text_file: str = ""
    vocab_file: str = ""
    of_memory: bool = False

    def batches(self) -> list[list[int]]:
        """Returns the lengths of the texts of each prediction batch."""
        lengths = list(self.lengths)
        if self.by_length:
            lengths.sort(reverse=True)
        return [
            lengths[start : start + self.batch_size]
            for start in range(0, len(lengths), self.batch_size)
        ]

    def rows(self) -> "dict[str, np.ndarray]":
        """Returns a batch of random words without padding.

        Returns:
            By feature: `[B, T]`, `[B, P]` or `[B, 1]` int32; weights float32.
        """
        import numpy as np

        rng = np.random.default_rng(1)
        shape = (self.batch_size, self.max_seq_length)
        picked = (self.batch_size, self.max_predictions_per_seq)
        words = self.sizes["vocab_size"]
        rows = {
            "input_ids": rng.integers(1, words, shape),
            "input_mask": np.ones(shape),
            "segment_ids": np.arange(shape[1]) * np.ones(shape) > shape[1] // 2,
        }
        label = rng.integers(0, NUM_LABELS, (shape[0], 1))
        if self.kind == "span_extraction":
            rows |= {"start_positions": label, "end_positions": label}
        elif self.kind != "pretraining":
            rows["label_ids"] = label
        else:
            rows |= {
                "masked_lm_positions": rng.integers(1, shape[1], picked),
                "masked_lm_ids": rng.integers(1, words, picked),
                "next_sentence_labels": label,
            }
        rows = {name: values.astype(np.int32) for name, values in rows.items()}
        if self.kind == "pretraining":
            rows["masked_lm_weights"] = np.ones(picked, np.float32)
        return rows


def serve(name: str, work: str) -> None:
    """Runs a contender's work for every input line.

    Args:
        name: of the contender, in a module of this package.
        work: the fields of a `Job` as JSON.
    """
    job = Job(**json.loads(work))
    # Keeps the output of libraries out of the replies.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        module, function = name.split(".")
        found = importlib.import_module(f"benchmarks.{module}")
        turn = getattr(found, function)(job)
        turn()  # Compiles and fills caches.
    except ImportError as error:
        answers.write(f"{_ABSENT} {error}\n")
        answers.close()
        return
    answers.write(f"{_READY}\n")
    answers.flush()
    for _ in sys.stdin:
        start = time.perf_counter()
        measured = turn()
        if measured is None:
            measured = time.perf_counter() - start
        answers.write(f"{measured}\n")
        answers.flush()


class Contender:
    """A contender in a process that waits for its turns.

    Args:
        name: as for `serve`.
        job: the work.
        python: its interpreter.

    Attributes:
        absent: why it is unavailable; None if it is available.

    Raises:
        RuntimeError: the process ended without a reason.
    """

    def __init__(self, name: str, job: Job, python: str = sys.executable):
        # Closed by `close`.
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                *(python, "-m", "benchmarks.contenders", name),
                json.dumps(dataclasses.asdict(job)),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        # Any: mypy does not know that both are pipes.
        self._requests: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        self._name = name
        word, _, reason = self._answer().partition(" ")
        self.absent = reason.strip() if word == _ABSENT else None

    def turn(self) -> float:
        """Does the work once; returns its seconds or its own measurement."""
        self._requests.write("\n")
        self._requests.flush()
        return float(self._answer())

    def close(self) -> None:
        """Ends the process."""
        self._requests.close()
        self._process.wait()
        self._log.close()

    def _answer(self) -> str:
        line = self._answers.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(
                f"benchmarks.{self._name} ended: {self._log.read()[-2000:]}"
            )
        return line.strip()


class Command:
    """A contender that starts a command in each turn.

    Args:
        make_arguments: returns the command line of a turn, given an empty
            folder.
        of_processor: whether to measure CPU seconds of all its processes.
    """

    absent = None

    def __init__(
        self,
        make_arguments: Callable[[str], Sequence[str]],
        *,
        of_processor: bool = False,
    ):
        self._make_arguments = make_arguments
        self._of_processor = of_processor

    def turn(self) -> float:
        """Runs the command; returns its seconds.

        Raises:
            RuntimeError: the command failed.
        """
        with tempfile.TemporaryDirectory() as folder:
            arguments = [sys.executable, *self._make_arguments(folder)]
            start, used = time.perf_counter(), _children_seconds()
            done = subprocess.run(
                arguments,
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            seconds = time.perf_counter() - start
        if done.returncode:
            raise RuntimeError(f"{arguments} failed: {done.stderr[-2000:]}")
        return _children_seconds() - used if self._of_processor else seconds

    def close(self) -> None:
        """Does nothing: the command has ended."""


def _children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def processor_seconds(work: Callable[[], object]) -> float:
    """Measures the CPU seconds of a call, in all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def alternate(
    contenders: Mapping[str, Contender | Command], num_rounds: int
) -> dict[str, float]:
    """Measures contenders in turns; returns the median of each.

    Args:
        contenders: by name; unavailable ones are skipped.
        num_rounds: turns of each.
    """
    present = {
        name: contender
        for name, contender in contenders.items()
        if contender.absent is None
    }
    measured: dict[str, list[float]] = {name: [] for name in present}
    for _ in range(num_rounds):
        for name, contender in present.items():
            measured[name].append(contender.turn())
    return {name: statistics.median(each) for name, each in measured.items()}


if __name__ == "__main__":
    serve(*sys.argv[1:])

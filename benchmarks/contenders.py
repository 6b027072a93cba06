"""Benchmark contenders, which work in separate processes.

A contender is named `MODULE.FUNCTION`. The function gets a `Job` and returns
the function to measure, of which each call is a turn. It may raise ImportError.
A contender may run in another environment: this file requires only Python and
NumPy.
"""

import dataclasses
import importlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
NUM_LABELS = 2  # Fine-tuning and next sentences have as many.
_READY, _ABSENT = "ready", "absent"


class OutOfMemoryError(RuntimeError):
    """The system killed a contender, as it does when memory runs out."""


class Cost(NamedTuple):
    """The time of one turn.

    Attributes:
        seconds: wall time.
        processor_seconds: of all threads, and of processes that have ended.
    """

    seconds: float
    processor_seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """The work of one turn.

    Attributes:
        kind: "pretraining" or "fine_tuning" (a classifier), a training step;
            "prediction" for texts of the given lengths; "tokenization" for a
            file. Contenders may have others.
        sizes: the keys of a `bert_config.json`.
        batch_size: rows in a batch.
        max_seq_length: tokens of a row at most.
        max_predictions_per_seq: of pre-training.
        precision: "float32" or "mixed_bfloat16".
        lengths: tokens of each text of prediction, in file order.
        by_length: group texts of similar length.
        num_steps: training steps of one turn, after the first.
        recompute: compute activations again in the backward pass.
        text_file: of tokenization, one sentence per line.
        vocab_file: an uncased vocabulary.
    """

    kind: str
    sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    batch_size: int = 32
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    precision: str = "mixed_bfloat16"
    lengths: Sequence[int] = ()
    by_length: bool = False
    num_steps: int = 1
    recompute: bool = False
    text_file: str = ""
    vocab_file: str = ""

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
        if self.kind == "pretraining":
            rows |= {
                "masked_lm_positions": rng.integers(1, shape[1], picked),
                "masked_lm_ids": rng.integers(1, words, picked),
                "next_sentence_labels": label,
            }
        else:
            rows["label_ids"] = label
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
        result = turn()  # Compiles and fills caches.
    except ImportError as error:
        answers.write(f"{_ABSENT} {error}\n")
        answers.close()
        return
    result = result if isinstance(result, dict) else None
    answers.write(f"{_READY} {json.dumps(result)}\n")
    answers.flush()
    for _ in sys.stdin:
        turn()
        answers.write("done\n")
        answers.flush()


class Contender:
    """A contender in a process that waits for its turns.

    Args:
        name: as for `serve`.
        job: the work.
        python: its interpreter.
        clone: the folder of the program; another one compares two versions.

    Attributes:
        absent: why it is unavailable; None if it is available.
        first: the result of the first turn, if it is a dict.

    Raises:
        OutOfMemoryError: the process was killed.
        RuntimeError: the process ended; has the end of its log.
    """

    def __init__(
        self,
        name: str,
        job: Job,
        *,
        python: str = sys.executable,
        clone: str | pathlib.Path = ROOT,
    ):
        # An earlier version may know fewer fields, and have no result.
        plain = dataclasses.asdict(Job(kind=""))
        fields = dataclasses.asdict(job).items()
        work = json.dumps({k: v for k, v in fields if v != plain[k]})
        # Closed by `close`.
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.contenders", name, work],
            cwd=clone,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        # Any: mypy does not know that both are pipes.
        self._requests: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        self._name = name
        word, _, rest = self._answer().partition(" ")
        self.absent = rest if word == _ABSENT else None
        self.first: Any = json.loads(rest or "null") if word == _READY else None

    def turn(self) -> Cost:
        """Does the work once."""
        begin, used = time.perf_counter(), self._processor_seconds()
        self._requests.write("\n")
        self._requests.flush()
        self._answer()
        seconds = time.perf_counter() - begin
        return Cost(seconds, self._processor_seconds() - used)

    def close(self) -> None:
        """Ends the process."""
        self._requests.close()
        self._process.wait()
        self._log.close()

    def _processor_seconds(self) -> float:
        path = pathlib.Path(f"/proc/{self._process.pid}/stat")
        # Source: proc_pid_stat(5): fields 14 to 17, after the name in ().
        fields = path.read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def _answer(self) -> str:
        line = self._answers.readline()
        if line:
            return line.strip()
        if self._process.wait() == -signal.SIGKILL:
            raise OutOfMemoryError(
                f"benchmarks.{self._name} was killed, as the system does when "
                "memory runs out. All contenders of a measurement are in "
                "memory together: leave out --peers or --other_clone, or pass "
                "a smaller --bert_config_file."
            )
        self._log.seek(0)
        raise RuntimeError(
            f"benchmarks.{self._name} ended: {self._log.read()[-2000:]}"
        )


def once(name: str, job: Job) -> dict[str, Any]:
    """Does some work in a process, which has all memory; returns its result.

    Args, raises: as for `Contender`.
    """
    contender = Contender(name, job)
    contender.close()
    return contender.first


def alternate(
    contenders: Mapping[str, Contender], num_rounds: int
) -> dict[str, Cost]:
    """Measures contenders in turns; returns the medians of each.

    Args:
        contenders: by name.
        num_rounds: turns of each.
    """
    measured: dict[str, list[Cost]] = {name: [] for name in contenders}
    for _ in range(num_rounds):
        for name, contender in contenders.items():
            measured[name].append(contender.turn())
    return {
        name: Cost(*map(statistics.median, zip(*each, strict=True)))
        for name, each in measured.items()
    }


if __name__ == "__main__":
    serve(*sys.argv[1:])

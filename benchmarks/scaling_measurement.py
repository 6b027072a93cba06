"""Pre-training runs of a few steps on this machine: their time and memory.

Runs the scripts as a user would, so that what is measured is all of it. Time is
that of the processor, which other programs disturb less than the clock; with
TF_NUM_INTRAOP_THREADS=1 it is what a quiet core would take.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks import scaling_costs
from modeling import config as config_lib

_ROOT = pathlib.Path(__file__).parents[1]
VOCAB_FILE = _ROOT / "vocab" / "english_uncased_30522.txt"
# Enough text for a few thousand records of 128 tokens.
_TEXT_LINES = 12_000
_MOST_SECONDS = 1.0
_LOOK_SECONDS = 0.02
_FIRST_STEPS = 2
# The smallest network there can be: what the program itself needs.
_SMALLEST = {
    "hidden_size": 2,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 2,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A run to measure.

    Attributes:
        name: for people.
        config: of the network.
        shape: of its records.
        batch_size: sequences of a step.
        method: how a step is computed.
    """

    name: str
    config: config_lib.BertConfig
    shape: scaling_costs.Shape
    batch_size: int
    method: scaling_costs.Method


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """What a run took.

    Attributes:
        step_seconds: of the processor, after the first steps, which compile.
        peak_bytes: of memory, of the whole program.
        checkpoint_bytes: of the files of one checkpoint.
    """

    step_seconds: float
    peak_bytes: int
    checkpoint_bytes: int


def write_text(folder: pathlib.Path) -> str:
    """Writes the start of Python's documentation, unless it is there."""
    path = folder / "text.txt"
    if path.exists():
        return str(path)
    whole = folder / "whole.txt"
    _run(
        ["-m", "tools.prepare_corpus", "--input_format=python_docs"],
        {"output_file": whole},
    )
    lines = whole.read_text(encoding="utf-8").split("\n")[:_TEXT_LINES]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def write_records(
    folder: pathlib.Path, text_file: str, shape: scaling_costs.Shape
) -> str:
    """Makes records of a shape from a text, unless they are there."""
    path = _record_file(folder, shape)
    if not path.exists():
        _run(
            ["create_pretraining_data.py"],
            {
                "input_file": text_file,
                "output_file": path,
                "vocab_file": VOCAB_FILE,
                "dupe_factor": 2,
                **dataclasses.asdict(shape),
            },
        )
    return str(path)


def measure(
    case: Case, folder: pathlib.Path, record_file: str, num_steps: int
) -> Measured:
    """Trains for some steps and looks at what that took.

    Args:
        case: the run.
        folder: for its files; those of an earlier run are removed.
        record_file: of its shape.
        num_steps: of which the first two and the last are not timed.
    """
    config_file = folder / "bert_config.json"
    config_file.write_text(case.config.to_json_string(), encoding="utf-8")
    output_dir = folder / "model"
    shutil.rmtree(output_dir, ignore_errors=True)
    marks = _Marks(output_dir / "metrics.jsonl")
    peak = _run(
        ["run_pretraining.py", "--do_train"],
        {
            "input_file": record_file,
            "output_dir": output_dir,
            "bert_config_file": config_file,
            "train_batch_size": case.batch_size,
            "num_train_steps": num_steps,
            "num_warmup_steps": 1,
            "learning_rate": 1e-4,
            "log_every_steps": 1,
            "save_checkpoints_steps": num_steps,
            "precision": case.method.precision,
            "recompute": case.method.recompute,
            "num_accumulation_steps": case.method.num_parts,
            **dataclasses.asdict(case.shape),
        },
        marks.look,
    )
    checkpoint = sum(
        path.stat().st_size
        for path in output_dir.glob(f"model.ckpt-{num_steps}.*")
        if not path.name.endswith(".json")
    )
    return Measured(
        step_seconds=marks.step_seconds(_FIRST_STEPS, num_steps - 1),
        peak_bytes=peak,
        checkpoint_bytes=checkpoint,
    )


def program_bytes(
    folder: pathlib.Path, record_file: str, shape: scaling_costs.Shape
) -> int:
    """Measures the memory of the program around the smallest network."""
    config = config_lib.BertConfig(
        vocab_size=_vocab_size(), type_vocab_size=2, **_SMALLEST
    )
    case = Case(
        name="program",
        config=config,
        shape=shape,
        batch_size=1,
        method=scaling_costs.Method(),
    )
    return measure(case, folder, record_file, 4).peak_bytes


def matmul_flops(case: Case) -> float:
    """Measures the best rate of this machine on a layer's largest product.

    That of `[B * T, D]` by `[D, F]`, in the type of the case's products.
    """
    import tensorflow as tf

    dtype = tf.float32 if case.method.precision == "float32" else tf.bfloat16
    config = case.config
    rows = case.batch_size * case.shape.max_seq_length
    sizes = (rows, config.hidden_size, config.intermediate_size)
    left = tf.random.normal(sizes[:2], dtype=tf.float32)
    right = tf.random.normal(sizes[1:], dtype=tf.float32)
    left, right = tf.cast(left, dtype), tf.cast(right, dtype)
    seconds = _fastest(lambda: tf.matmul(left, right).numpy())
    return 2 * sizes[0] * sizes[1] * sizes[2] / seconds


def memory_bandwidth(num_bytes: int = 1 << 28) -> float:
    """Measures the bytes per second that an addition reads and writes."""
    import tensorflow as tf

    values = tf.zeros([num_bytes // scaling_costs.FLOAT_BYTES])
    return 2 * num_bytes / _fastest(lambda: tf.add(values, 1.0).numpy())


def record_bytes(folder: pathlib.Path, shape: scaling_costs.Shape) -> float:
    """Returns the mean size of the records that were made of a shape."""
    from training import record_files

    path = _record_file(folder, shape)
    return path.stat().st_size / len(record_files.RecordFiles([str(path)]))


def _record_file(
    folder: pathlib.Path, shape: scaling_costs.Shape
) -> pathlib.Path:
    return folder / f"{shape.max_seq_length}.tfrecord"


def _vocab_size() -> int:
    return len(VOCAB_FILE.read_text(encoding="utf-8").splitlines())


class _Marks:
    """How much of the processor a run had used when it reported each step.

    Args:
        path: of the run's `metrics.jsonl`.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._seconds: dict[int, float] = {}

    def look(self, process_id: int) -> None:
        """Notes the seconds used so far, if a step was reported since."""
        try:
            last_line = self._path.read_text().splitlines()[-1]
            step = json.loads(last_line)["step"]
            seconds = _processor_seconds(process_id)
        except (OSError, IndexError, ValueError):
            return  # Nothing yet, or half a line.
        self._seconds.setdefault(step, seconds)

    def step_seconds(self, first: int, last: int) -> float:
        """Returns the mean seconds of the steps after `first` up to `last`.

        Raises:
            RuntimeError: the run was not looked at often enough to say.
        """
        seen = sorted(step for step in self._seconds if first <= step <= last)
        if len(seen) < 2:
            raise RuntimeError(
                f"{self._path}: too few steps were seen; ask for more with "
                "--num_steps."
            )
        taken = self._seconds[seen[-1]] - self._seconds[seen[0]]
        return taken / (seen[-1] - seen[0])


def _processor_seconds(process_id: int) -> float:
    """Reads the seconds that a process and its threads have used."""
    stat = pathlib.Path(f"/proc/{process_id}/stat").read_text()
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # User and system.
    return ticks / os.sysconf("SC_CLK_TCK")


def _fastest(call: Callable[[], object]) -> float:
    """Returns the least seconds of the processor that a call took."""
    best, used = float("inf"), 0.0
    while used < _MOST_SECONDS:
        start = time.process_time()
        call()
        seconds = time.process_time() - start
        best, used = min(best, seconds), used + seconds
    return best


def _run(
    command: list[str],
    options: dict[str, object],
    look: Callable[[int], None] = lambda process_id: None,
) -> int:
    """Runs a script of this project.

    Args:
        command: the script and its flags without a value.
        options: its other flags.
        look: called with the number of the process, again and again.

    Returns:
        Its peak memory in bytes.

    Raises:
        RuntimeError: it failed.
    """
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *command, *arguments],
            cwd=_ROOT,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        peak = 0
        while process.poll() is None:
            look(process.pid)
            peak = max(peak, memory_bytes(process.pid))
            time.sleep(_LOOK_SECONDS)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(
                f"{' '.join(command)} failed: {errors.read().decode()[-2000:]}"
            )
    return peak


def memory_bytes(process_id: int | str, field: str = "VmHWM") -> int:
    """Reads the most memory that a process has held; 0 once it is gone.

    Not `ru_maxrss`, which begins with the memory of the parent.

    Args:
        process_id: or "self".
        field: VmHWM, or VmRSS for what it holds now.
    """
    try:
        status = pathlib.Path(f"/proc/{process_id}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    match = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0

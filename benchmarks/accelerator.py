r"""A report on this machine's accelerator, for people who have one.

  python -m benchmarks.accelerator --output_file=report.md

It runs the GPU tests, times pre-training and fine-tuning steps of BERT-Base and
BERT-Large, finds the largest batches, resumes a run in a second process and
compares bits. It writes one Markdown file. On a CPU it takes hours: pass a
small model, a short length and few steps.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from benchmarks import contenders
from bert.commands import flags, program
from bert.files import writing

_GROUP = flags.Heading("Report")
_CONFIGS = contenders.ROOT / "modeling/configs"
# The run that resumes has as many layers as have a first, a middle and a last.
_SMALL = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "type_vocab_size": 2,
    "max_position_embeddings": 64,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}
_SMALL_LENGTH, _SMALL_STEPS, _SMALL_RECORDS = 64, 12, 200
# A side of the product whose rate is the peak: large enough to reach it.
_PEAK_SIDE = {"GPU": 8192, "CPU": 1024}
_PEAK_ROUNDS = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    output_file: flags.Path = _GROUP.required("Markdown file for the report.")
    bert_config_files: tuple[str, ...] = _GROUP.flag(
        tuple(
            str(_CONFIGS / f"bert_{size}_uncased.json")
            for size in ("base", "large")
        ),
        "JSON files with the configurations of the models.",
    )
    lengths: tuple[int, ...] = _GROUP.flag((128, 512), "Sequence lengths.")
    precisions: tuple[str, ...] = _GROUP.flag(
        ("float32", "mixed_bfloat16"), "Data types of matrix products."
    )
    batch_size: int = _GROUP.positive(32, "Rows of the steps that are timed.")
    num_steps: int = _GROUP.positive(20, "Steps to time.")
    largest_batch: int = _GROUP.non_negative(
        1024, "Batch sizes to try, powers of two, end here; 0 for none."
    )
    run_tests: bool = _GROUP.flag(True, "Run the GPU tests.")


def main(options: Options) -> None:
    """Writes the report; each section as soon as it is complete."""
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    writing.check_files([options.output_file], [])
    text = ["# Report of benchmarks.accelerator\n"]
    sections = {
        "Machine": _machine(),
        "GPU tests": _tests(options.run_tests),
        "Resuming in a second process": _resume(options.precisions),
        "Time of a step": _times(options),
        "Largest batches": _largest(options),
    }
    for title, lines in sections.items():
        logging.info("%s", title)
        text.append(f"\n## {title}\n")
        for line in lines:
            logging.info("%s", line)
            text.append(line)
            with writing.whole_file(options.output_file) as file:
                file.write("\n".join(text) + "\n")


# ---------------------------------------------------------- Machine and tests


def _machine() -> Iterator[str]:
    job = contenders.Job(kind="machine")
    yield contenders.once("accelerator.machine", job)["text"]
    done = subprocess.run(
        ["git", "log", "-1", "--format=%H %s"],
        cwd=contenders.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    yield f"\nCommit {done.stdout.strip() or 'unknown'}"


def _tests(is_wanted: bool) -> Iterator[str]:
    if not is_wanted:
        yield "Not run (`--run_tests=false`)."
        return
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rfs", "-m", "gpu"),
            "tests/test_gpu.py",
        ],
        cwd=contenders.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    yield f"```\n{(done.stdout or done.stderr).strip()[-6000:]}\n```"


# ------------------------------------------------------------------- Resuming


def _resume(precisions: Sequence[str]) -> Iterator[str]:
    for precision in precisions:
        with tempfile.TemporaryDirectory() as folder:
            differing = _differing_weights(pathlib.Path(folder), precision)
        if differing is None:
            yield f"- {precision}: a run failed."
        elif differing:
            yield (
                f"- {precision}: {len(differing)} variables differ, among them "
                f"{differing[0]}."
            )
        else:
            yield f"- {precision}: weights and moments have the same bits."


def _differing_weights(
    folder: pathlib.Path, precision: str
) -> list[str] | None:
    """Trains with and without a stop; None if a run fails."""
    from modeling import checkpoints

    (folder / "config.json").write_text(json.dumps(_SMALL))
    _write_records(str(folder / "records"))
    for name, ends in (
        ("unbroken", [0]),
        ("resumed", [_SMALL_STEPS // 2, 0]),
    ):
        for end in ends:
            done = subprocess.run(
                [
                    *(sys.executable, "run_pretraining.py", "--do_train"),
                    *("--deterministic", f"--precision={precision}"),
                    f"--input_file={folder / 'records'}",
                    f"--bert_config_file={folder / 'config.json'}",
                    f"--output_dir={folder / name}",
                    f"--max_seq_length={_SMALL_LENGTH}",
                    f"--num_train_steps={_SMALL_STEPS}",
                    f"--stop_at_step={end}",
                    *("--num_warmup_steps=2", "--learning_rate=1e-3"),
                ],
                cwd=contenders.ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                logging.error("%s", done.stderr[-2000:])
                return None
    weights, others = (
        checkpoints.read(str(folder / name / f"model.ckpt-{_SMALL_STEPS}"))
        for name in ("unbroken", "resumed")
    )
    return [n for n, x in weights.items() if not np.array_equal(x, others[n])]


def _write_records(path: str) -> None:
    from bert.records import schema, tfrecords

    job = contenders.Job(
        kind="pretraining",
        sizes=_SMALL,
        batch_size=_SMALL_RECORDS,
        max_seq_length=_SMALL_LENGTH,
    )
    rows = job.rows()
    features = schema.pretraining_features(
        _SMALL_LENGTH, job.max_predictions_per_seq
    )
    tfrecords.write_rows(
        path,
        (
            {feature.name: rows[feature.name][row] for feature in features}
            for row in range(_SMALL_RECORDS)
        ),
        features,
    )


# ----------------------------------------------------------- Time and memory


def _jobs(options: Options) -> Iterator[tuple[str, contenders.Job]]:
    """Yields the steps to measure, by the first cells of their rows."""
    for path in options.bert_config_files:
        config = pathlib.Path(path)
        sizes = json.loads(config.read_text(encoding="utf-8"))
        for kind in ("pretraining", "fine_tuning"):
            for length in options.lengths:
                for precision in options.precisions:
                    job = contenders.Job(
                        kind=kind,
                        sizes=sizes,
                        batch_size=options.batch_size,
                        max_seq_length=length,
                        precision=precision,
                    )
                    yield f"{config.stem}, {kind}, {length}, {precision}", job


def _times(options: Options) -> Iterator[str]:
    peaks = {}
    for precision in options.precisions:
        job = contenders.Job(kind="peak", precision=precision)
        peaks[precision] = contenders.once("accelerator.peak", job)["rate"]
    rates = ", ".join(f"{n} {x / 1e12:.3g}" for n, x in peaks.items())
    yield (
        "The peak is the measured rate of a large matrix product, in TFLOP/s: "
        f"{rates}. Batches of {options.batch_size} rows without padding.\n"
    )
    yield (
        "| step | ms | rows/s | tokens/s | share of the peak | memory, GB "
        "| first step, s |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, job in _jobs(options):
        yield f"| {name} | {_time_cells(options, job, peaks[job.precision])} |"


def _time_cells(options: Options, job: contenders.Job, peak: float) -> str:
    from benchmarks import ours

    found = _measure(dataclasses.replace(job, num_steps=options.num_steps))
    if "seconds" not in found:
        return f"{found['failure']} | | | | |"
    seconds = found["seconds"]
    operations = sum(2 * np.prod(p, dtype=float) for p in ours.products_of(job))
    rows = job.batch_size / seconds
    return " | ".join(
        [
            f"{1e3 * seconds:.1f}",
            f"{rows:.1f}",
            f"{rows * job.max_seq_length:.0f}",
            f"{operations / seconds / peak:.2f}",
            found["memory"],
            f"{found['first_seconds']:.1f}",
        ]
    )


def _largest(options: Options) -> Iterator[str]:
    if not options.largest_batch:
        yield "Not searched (`--largest_batch=0`)."
        return
    yield f"Powers of two, at most {options.largest_batch}.\n"
    yield "| step | batch | with `--recompute` |"
    yield "|---|---|---|"
    for name, job in _jobs(options):
        cells = [
            str(
                largest_batch(
                    dataclasses.replace(job, recompute=recompute),
                    options.largest_batch,
                    lambda tried: "seconds" in _measure(tried),
                )
            )
            for recompute in (False, True)
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def largest_batch(
    job: contenders.Job, most: int, fits: Callable[[contenders.Job], bool]
) -> int:
    """Returns the largest power of two that fits as batch size; 0 for none.

    Args:
        job: the step.
        most: the largest batch to try.
        fits: whether a job has enough memory.
    """
    largest, size = 0, 1
    while size <= most and fits(dataclasses.replace(job, batch_size=size)):
        largest, size = size, 2 * size
    return largest


def _measure(job: contenders.Job) -> dict[str, Any]:
    try:
        return contenders.once("accelerator.steps", job)
    except contenders.OutOfMemoryError:
        return {"failure": "out of memory"}
    except RuntimeError as error:
        logging.error("%s", error)
        return {"failure": "failed"}


# ------------------------------------- Work in a process, which has all memory


def machine(job: contenders.Job) -> Callable[[], dict[str, str]]:
    """Describes the devices of this machine."""
    from bert.training import devices

    del job
    strategy = devices.prepare(devices.DeviceOptions(precision="auto"))
    return lambda: {"text": devices.summary(strategy)}


def peak(job: contenders.Job) -> Callable[[], dict[str, float]]:
    """Measures the operations of a second of a large matrix product."""
    return lambda: {"rate": _peak(job.precision)}


def _peak(precision: str) -> float:
    import tensorflow as tf

    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    side = _PEAK_SIDE[kind]
    dtype = tf.float32 if precision == "float32" else tf.bfloat16
    matrix = tf.cast(tf.random.normal([side, side]), dtype)

    def multiply(rounds):
        product = matrix
        for _ in range(rounds):
            product = tf.matmul(matrix, product) / side
        float(product[0, 0])

    multiply(2)
    start = time.perf_counter()
    multiply(_PEAK_ROUNDS)
    seconds = time.perf_counter() - start
    return _PEAK_ROUNDS * 2.0 * side**3 / seconds


def steps(job: contenders.Job) -> Callable[[], dict[str, Any]]:
    """Measures training steps and their memory."""
    import tensorflow as tf

    def turn() -> dict[str, Any]:
        try:
            return _steps(job)
        except (tf.errors.ResourceExhaustedError, MemoryError):
            return {"failure": "out of memory"}

    return turn


def _steps(job: contenders.Job) -> dict[str, Any]:
    import tensorflow as tf

    from benchmarks import ours

    trainer, iterator = ours.training(job)

    def run(count):
        start = time.perf_counter()
        for step in range(count):
            result = trainer.run(iterator, step, np.float32(1e-4), seed=1)
        float(result.gradient_norm)  # The host does not wait for each step.
        return time.perf_counter() - start

    first_seconds = run(1)
    seconds = run(job.num_steps) / job.num_steps
    memory = ""
    if tf.config.list_logical_devices("GPU"):
        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        memory = f"{peak / 1e9:.2f}"
    return {
        "first_seconds": first_seconds,
        "seconds": seconds,
        "memory": memory,
    }


if __name__ == "__main__":
    program.start(Options, main)

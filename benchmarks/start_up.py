r"""How long --help takes, and how long the first training step waits.

  python -m benchmarks.start_up \
    --input_file=records.tfrecord --bert_config_file=bert_tiny.json

Runs the scripts as commands. The first step's time is that of a run of one
step, its checkpoint and its end included, so that it is an upper bound.
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags, logging

from commands import flag_groups, program

_ROOT = pathlib.Path(__file__).parents[1]


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string(
        "input_file", None, "Records for one step; without it, --help alone.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "bert_config_file", None, "A small model.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "arguments", [], "More flags for run_pretraining.py, such as "
        "--precision=mixed_bfloat16.", flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "repeats", 3, "Runs, of which the median counts.",
        lower_bound=1, flag_values=values)  # fmt: skip


def seconds_of(arguments: list[str]) -> float:
    """Times a script of this project.

    Raises:
        RuntimeError: it fails.
    """
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{arguments} failed: {done.stderr[-2000:]}")
    return seconds


def first_step(values: flags.FlagValues) -> float:
    """Times a run of one step into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        return seconds_of(
            [
                "run_pretraining.py",
                f"--input_file={pathlib.Path(values.input_file).resolve()}",
                "--bert_config_file="
                f"{pathlib.Path(values.bert_config_file).resolve()}",
                *(f"--output_dir={folder}", "--do_train"),
                *("--num_train_steps=1", "--num_warmup_steps=0"),
                *values.arguments,
            ]
        )


def compare(values: flags.FlagValues) -> None:
    """Measures, and logs a table."""
    rows = []
    for script in sorted(path.name for path in _ROOT.glob("*.py")):
        seconds = [
            seconds_of([script, "--help"]) for _ in range(values.repeats)
        ]
        rows.append(f"| `{script} --help` | {statistics.median(seconds):.2f} |")
    if values.input_file and values.bert_config_file:
        seconds = [first_step(values) for _ in range(values.repeats)]
        rows.append(
            f"| one step of training | {statistics.median(seconds):.1f} |"
        )
    else:
        logging.info(
            "The first step is left out: it takes --input_file and "
            "--bert_config_file."
        )
    logging.info("\n| | s |\n|---|---|\n%s", "\n".join(rows))


def main(_: list[str]) -> None:
    """Measures what the flags say."""
    compare(flags.FLAGS)


if __name__ == "__main__":
    program.start(define_flags, main)

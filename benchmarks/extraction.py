"""Speed and memory of extract_features.py beside padding to a fixed length.

  python -m benchmarks.extraction --input_file=sentences.txt \\
    --vocab_file=vocab.txt --bert_config_file=bert_config.json \\
    --init_checkpoint=bert_model.ckpt

Runs the script on the first lines of a file that are not empty: with batches
of like length, and in file order with every batch padded to 128 as the release
does, in turns. The speed is that of the lines by which the longer run exceeds
the shorter one, so that starting and compiling are left out of it.
"""

import dataclasses
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags, logging

from commands import flag_groups, program
from files import lines

_SCRIPT = pathlib.Path(__file__).parents[1] / "extract_features.py"
_MODEL_FLAGS = ("vocab_file", "bert_config_file", "init_checkpoint")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run took: seconds, megabytes at most and written.

    Attributes:
        seconds: on the clock.
        cpu_seconds: of all cores, which other programs disturb less.
        peak_mb: of memory.
        output_mb: of the file.
    """

    seconds: float
    cpu_seconds: float
    peak_mb: float
    output_mb: float


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    for name in ("input_file", *_MODEL_FLAGS):
        flags.DEFINE_string(
            name, None, "As for extract_features.py.",
            required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "num_lines", ["1000", "10000"], "Lines of the shorter, longer run.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "repeats", 3, "Runs of each kind, of which the median counts.",
        lower_bound=1, flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "arguments", [], "More flags for the script, such as --layers=-1.",
        flag_values=values)  # fmt: skip


def measure(command: list[str], output_file: str) -> Cost:
    """Runs a command and removes what it wrote.

    Raises:
        RuntimeError: it failed.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise RuntimeError(
            f"{' '.join(command)} failed: {errors.decode()[-2000:]}"
        )
    size = os.path.getsize(output_file)
    os.remove(output_file)
    return Cost(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss / 1024,
        output_mb=size / 1e6,
    )


def write_lines(source: str, target: pathlib.Path, count: int) -> None:
    """Copies the first lines of a file that are not empty.

    Raises:
        ValueError: there are fewer.
    """
    full = (line for line in lines.read_lines(source) if line.strip())
    chosen = list(itertools.islice(full, count))
    if len(chosen) < count:
        raise ValueError(
            f"{source} must have {count} lines that are not empty; it has "
            f"{len(chosen)}."
        )
    target.write_text("\n".join(chosen) + "\n", encoding="utf-8")


def compare(values: flags.FlagValues, folder: pathlib.Path) -> None:
    """Measures all runs and logs what they took."""
    shorter, longer = (int(count) for count in values.num_lines)
    for count in (shorter, longer):
        write_lines(values.input_file, folder / f"{count}.txt", count)
    model = [f"--{name}={values[name].value}" for name in _MODEL_FLAGS]
    costs = {}
    for _ in range(values.repeats):
        for bucketed, count in itertools.product(
            (True, False), (shorter, longer)
        ):
            output_file = str(folder / "output")
            cost = measure(
                [
                    *(sys.executable, str(_SCRIPT)),
                    f"--input_file={folder / str(count)}.txt",
                    f"--output_file={output_file}",
                    f"--bucket_by_length={bucketed}",
                    *(*model, *values.arguments),
                ],
                output_file,
            )
            costs.setdefault((bucketed, count), []).append(cost)
            logging.info("bucketed %s, %d lines: %s", bucketed, count, cost)
    speeds = {}
    for bucketed in (True, False):
        short, long = (costs[bucketed, n] for n in (shorter, longer))
        speeds[bucketed] = [
            (longer - shorter) / _difference(short, long, attribute)
            for attribute in ("seconds", "cpu_seconds")
        ]
        logging.info(
            "%s: %.0f lines/s, %.0f lines/s of CPU time; %.0f MB at most for "
            "%d lines, %.0f MB for %d",
            "by length" if bucketed else "fixed length",
            *speeds[bucketed],
            *(max(c.peak_mb for c in short), shorter),
            *(max(c.peak_mb for c in long), longer),
        )
    ratios = [a / b for a, b in zip(*speeds.values(), strict=True)]
    logging.info("%.2f times as fast, %.2f times by CPU time", *ratios)


def _difference(short: list[Cost], long: list[Cost], attribute: str) -> float:
    """Returns how much more the longer runs took, by their medians."""
    medians = [
        statistics.median(getattr(cost, attribute) for cost in of_runs)
        for of_runs in (short, long)
    ]
    return medians[1] - medians[0]


def main(_: list[str]) -> None:
    """Measures what the flags say."""
    with tempfile.TemporaryDirectory() as folder:
        compare(flags.FLAGS, pathlib.Path(folder))


if __name__ == "__main__":
    program.start(define_flags, main)

"""Estimates of the largest batch in a memory, and measured peaks on a CPU.

  python -m benchmarks.memory
  python -m benchmarks.memory --kind=pretraining --precision=mixed_bfloat16
  python -m benchmarks.memory --measure --cases=bert_tiny:128:32+64+128

Prints Markdown; docs/performance.md explains the columns.
"""

import dataclasses
import re
import statistics
import sys
from collections.abc import Mapping

from absl import logging

from benchmarks import contenders, scaling
from commands import flags, program
from modeling import config as config_lib
from modeling import costs

_MEASUREMENT = flags.Heading("Measurement")
_GROUP = _MEASUREMENT
_GIGABYTE = 10**9
_CASE = re.compile(r"(.+?):(\d+):(\d+(?:\+\d+)*)(?::(recompute)|:(\d+))?")
# Micro-batches of a step: the memory other than the examples' is the same for
# any number above 1.
_SOME_PARTS = 2
# Source: the paper and the release predict 15 %, rounded up to 20 of 128.
_PREDICTED_SHARE = 0.15
_PREDICTIONS_OF_128 = 20
# Source: the release's README, "Out-of-memory issues": one Titan X of 12 GB,
# TensorFlow 1.11; by length, BERT-Base and BERT-Large.
RELEASED_GB = 12
RELEASED = {
    64: (64, 12),
    128: (32, 6),
    256: (16, 2),
    320: (14, 1),
    384: (12, 0),
    512: (6, 0),
}
# Kinds of steps -> those of contenders.Job.
_JOB_KINDS = {"fine_tuning": "span_extraction", "pretraining": "pretraining"}
_RELEASED_NETWORKS = ("bert_base_uncased", "bert_large_uncased")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    networks: tuple[str, ...] = _GROUP.flag(
        ("bert_tiny", "bert_mini", "bert_base_uncased", "bert_large_uncased"),
        "Networks, by their names in modeling/configs.",
    )
    kind: str = _GROUP.flag(
        "fine_tuning",
        "Kind of step; fine_tuning is that of run_squad.py. A classifier needs "
        "less, since its last layer is computed at [CLS] only.",
        choices=tuple(_JOB_KINDS),
    )
    precision: str = _GROUP.flag(
        "float32",
        "The --precision of run_pretraining.py.",
        choices=costs.PRECISIONS,
    )
    lengths: tuple[int, ...] = _GROUP.flag(
        (64, 128, 256, 320, 384, 512), "Sequence lengths in word pieces."
    )
    memory_gb: tuple[float, ...] = _GROUP.flag(
        (8, 12, 16, 24, 40, 80), "Memory sizes of devices, in GB."
    )
    measure: bool = _GROUP.switch(
        "Measure steps on this machine's CPU and compare."
    )
    cases: tuple[str, ...] = _GROUP.flag(
        (
            "bert_tiny:128:32+64+128",
            "bert_tiny:128:32+64+128:recompute",
            "bert_mini:128:16+32+64",
            "bert_base_uncased:64:8+16+32",
            "bert_base_uncased:64:16+32:recompute",
        ),
        "Cases to measure: configuration, sequence length, batch sizes joined "
        "by + and, after another colon, `recompute` or a number of "
        "micro-batches.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Need:
    """The bytes of a step: `fixed + per_example * rows`."""

    fixed: float
    per_example: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A step to measure, with several batch sizes."""

    config: config_lib.BertConfig
    length: int
    batch_sizes: tuple[int, ...]
    method: costs.Method


def read_case(text: str, precision: str) -> Case:
    """Parses `CONFIG:LENGTH:BATCH+BATCH[:recompute]` or `...[:PARTS]`.

    Raises:
        OSError: there is no such configuration.
        ValueError: the text has another form.
    """
    found = _CASE.fullmatch(text)
    if not found:
        raise ValueError(
            "A case must be CONFIG:LENGTH:BATCH+BATCH, optionally followed by "
            f":recompute or :PARTS; got {text!r}."
        )
    name, length, batches, recompute, num_parts = found.groups()
    return Case(
        config=scaling.read_config(name),
        length=int(length),
        batch_sizes=tuple(map(int, batches.split("+"))),
        method=costs.Method(
            precision=precision,
            recompute=bool(recompute),
            num_parts=int(num_parts or 1),
        ),
    )


def shape_of(length: int, kind: str) -> costs.Shape:
    """Returns the shape of a sequence; fine-tuning predicts no masked word."""
    predictions = (
        _PREDICTIONS_OF_128
        if length == 128
        else round(length * _PREDICTED_SHARE)
    )
    return costs.Shape(
        max_seq_length=length,
        max_predictions_per_seq=predictions if kind == "pretraining" else 0,
    )


def computed_need(
    config: config_lib.BertConfig, shape: costs.Shape, method: costs.Method
) -> Need:
    """Estimates the memory of a step.

    For fine-tuning it counts the pre-training heads, although the actual head
    is smaller: half a percent of BERT-Base.
    """
    return Need(
        fixed=costs.memory(config, shape, 0, method).total,
        per_example=costs.activations(config, shape, method),
    )


def fitted_need(peaks: Mapping[int, float]) -> Need:
    """Fits a straight line to measured peaks, by least squares.

    Args:
        peaks: bytes by the rows of a micro-batch.

    Raises:
        ValueError: there are fewer than two batch sizes.
    """
    if len(peaks) < 2:
        raise ValueError(
            "At least two batch sizes must be measured, as in "
            f"bert_tiny:128:32+64; got {sorted(peaks)}."
        )
    line = statistics.linear_regression(list(peaks), list(peaks.values()))
    return Need(fixed=line.intercept, per_example=line.slope)


def largest_batch(need: Need, memory_gb: float) -> int:
    """Returns the largest number of rows that fits with headroom, or 0.

    Args:
        need: of a step.
        memory_gb: of the device, of which a share is usable.
    """
    room = scaling.USABLE_MEMORY * memory_gb * _GIGABYTE
    return max(0, int((room - need.fixed) // need.per_example))


def network_table(name: str, options: Options, *, in_parts: bool) -> str:
    """Formats the largest batches of a network, by memory and length.

    Args:
        name: of the network.
        options: of the tables.
        in_parts: whether --num_accumulation_steps is used; a cell then has the
            rows of one micro-batch.

    Returns:
        Markdown; a cell has the rows without and with --recompute.
    """
    config = scaling.read_config(name)
    plain = costs.Method(
        precision=options.precision, num_parts=_SOME_PARTS if in_parts else 1
    )
    needs = [
        [
            computed_need(config, shape_of(length, options.kind), method)
            for method in (plain, dataclasses.replace(plain, recompute=True))
        ]
        for length in options.lengths
    ]
    rows = [
        [
            f"{memory:g} GB",
            *(
                " / ".join(str(largest_batch(n, memory)) for n in ways)
                for ways in needs
            ),
        ]
        for memory in options.memory_gb
    ]
    start = f"{name}{', in parts' if in_parts else ''}, length"
    return scaling.table([start, *map(str, options.lengths)], rows)


def released_table() -> str:
    """Formats the release's own measurements next to the estimates."""
    configs = [scaling.read_config(name) for name in _RELEASED_NETWORKS]
    ways = {
        "float32": costs.Method(),
        "recompute": costs.Method(recompute=True),
        "bfloat16": costs.Method(precision="mixed_bfloat16"),
    }
    rows = []
    for length, released in RELEASED.items():
        cells = [length]
        for config, measured in zip(configs, released, strict=True):
            shape = shape_of(length, "fine_tuning")
            needs = [
                computed_need(config, shape, method) for method in ways.values()
            ]
            cells += [
                measured,
                *(largest_batch(need, RELEASED_GB) for need in needs),
            ]
        rows.append(cells)
    header = ["length"]
    for name in ("Base", "Large"):
        header += [f"{name}, the release's", *ways]
    return scaling.table(header, rows)


def measured_table(options: Options) -> str:
    """Measures the cases; formats the fitted needs next to the estimates."""
    rows = []
    for text in options.cases:
        case = read_case(text, options.precision)
        measured = fitted_need(
            {
                batch_size // case.method.num_parts: peak_bytes(
                    case, batch_size, options.kind
                )
                for batch_size in case.batch_sizes
            }
        )
        shape = shape_of(case.length, options.kind)
        needs = (computed_need(case.config, shape, case.method), measured)
        rows.append(
            [
                text,
                *(f"{need.fixed / 1e6:.0f} MB" for need in needs),
                *(f"{need.per_example / 1e6:.2f} MB" for need in needs),
                *(largest_batch(need, RELEASED_GB) for need in needs),
            ]
        )
        logging.info("%s", rows[-1])
    header = [
        *("case", "fixed, computed", "measured"),
        *("an example, computed", "measured"),
        *(f"largest batch in {RELEASED_GB} GB, computed", "measured"),
    ]
    return scaling.table(header, rows)


def peak_bytes(case: Case, batch_size: int, kind: str) -> float:
    """Measures two steps in a new process.

    Returns:
        Peak memory in bytes, minus the memory after the imports.

    Raises:
        RuntimeError: the process failed, possibly out of memory.
    """
    shape = shape_of(case.length, kind)
    contender = contenders.Contender(
        "ours.this_project",
        contenders.Job(
            kind=_JOB_KINDS[kind],
            sizes=case.config.to_dict(),
            batch_size=batch_size,
            of_memory=True,
            **dataclasses.asdict(shape),
            **dataclasses.asdict(case.method),
        ),
    )
    peak = contender.turn()
    contender.close()
    return peak


def main(options: Options) -> None:
    """Writes the estimates or, with `measure`, their comparison."""
    if options.measure:
        sys.stdout.write(measured_table(options))
        return
    networks = "".join(
        network_table(name, options, in_parts=in_parts)
        for name in options.networks
        for in_parts in (False, True)
    )
    sys.stdout.write(f"{networks}{RELEASED_GB} GB:\n\n{released_table()}")


if __name__ == "__main__":
    program.start(Options, main)

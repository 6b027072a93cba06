"""The largest batch that a memory holds: computed, and measured on a CPU.

  python -m benchmarks.memory
  python -m benchmarks.memory --kind=pretraining --precision=mixed_bfloat16
  python -m benchmarks.memory --measure --cases=bert_tiny:128:32+64+128

Prints Markdown: docs/memory.md explains it.
"""

import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence

from absl import flags, logging

from benchmarks import (
    memory_step,
    scaling_comparison,
    scaling_costs,
    scaling_measurement,
    scaling_plans,
)
from commands import flag_groups, program
from commands import flags as flags_lib
from modeling import config as config_lib

_GIGABYTE = 10**9
_BATCH_SEPARATOR = "+"
# Parts that a batch is gone through in: any number above 1 takes as much
# beside the examples themselves.
_SOME_PARTS = 2
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
_RELEASED_NETWORKS = ("bert_base_uncased", "bert_large_uncased")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags` for each."""

    networks: Sequence[str] = (
        *("bert_tiny", "bert_mini", "bert_base_uncased"),
        "bert_large_uncased",
    )
    kind: str = "fine_tuning"
    precision: str = "float32"
    lengths: Sequence[str] = ("64", "128", "256", "320", "384", "512")
    memory_gb: Sequence[str] = ("8", "12", "16", "24", "40", "80")
    measure: bool = False
    cases: Sequence[str] = (
        "bert_tiny:128:32+64+128",
        "bert_tiny:128:32+64+128:recompute",
        "bert_mini:128:16+32+64",
        "bert_base_uncased:64:8+16+32",
        "bert_base_uncased:64:16+32:recompute",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Need:
    """What a step takes: `fixed + per_example * rows` bytes."""

    fixed: float
    per_example: float


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_list(
        "networks", list(Options.networks),
        "Networks, by their names in modeling/configs.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "kind", Options.kind, ["fine_tuning", "pretraining"], "Of the step.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "precision", Options.precision, scaling_costs.PRECISIONS,
        "As for run_pretraining.py.", flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "lengths", list(Options.lengths), "Of a sequence, in word pieces.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "memory_gb", list(Options.memory_gb), "Of devices, in GB.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "measure", Options.measure,
        "Measure steps on this machine's CPU and compare.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "cases", list(Options.cases),
        "What to measure: configuration, sequence length and batch sizes with "
        "+ between them, and after another colon `recompute` or a number of "
        "parts.", flag_values=values)  # fmt: skip


def shape_of(length: int, kind: str) -> scaling_costs.Shape:
    """Returns the shape of a sequence; of fine-tuning, it predicts no word."""
    shape = scaling_comparison.shape_of(length)
    if kind == "pretraining":
        return shape
    return dataclasses.replace(shape, max_predictions_per_seq=0)


def computed_need(
    config: config_lib.BertConfig,
    shape: scaling_costs.Shape,
    method: scaling_costs.Method,
) -> Need:
    """Computes what a step takes, by `scaling_costs`.

    The heads of pre-training are counted in fine-tuning too, which has
    smaller ones: half a percent of BERT-Base.
    """
    return Need(
        fixed=scaling_costs.memory(config, shape, 0, method).total,
        per_example=scaling_costs.activations(config, shape, method),
    )


def fitted_need(peaks: Mapping[int, int]) -> Need:
    """Fits a straight line to measured peaks, by least squares.

    Args:
        peaks: bytes by the rows that are gone through at once.

    Raises:
        ValueError: there are not two numbers of rows.
    """
    if len(peaks) < 2:
        raise ValueError(
            "Two batch sizes at least must be measured, as in "
            f"bert_tiny:128:32+64; got {sorted(peaks)}."
        )
    line = statistics.linear_regression(list(peaks), list(peaks.values()))
    return Need(fixed=line.intercept, per_example=line.slope)


def largest_batch(need: Need, memory_gb: float) -> int:
    """Returns the most rows that fit, or 0, with some of the memory left over.

    Args:
        need: of a step.
        memory_gb: of the device, of which a share can be used.
    """
    room = scaling_plans.USABLE_MEMORY * memory_gb * _GIGABYTE
    return max(0, int((room - need.fixed) // need.per_example))


def network_table(name: str, options: Options, *, in_parts: bool) -> str:
    """Lays out the largest batches of a network, by memory and length.

    Args:
        name: of the network.
        options: of the tables.
        in_parts: as with --num_accumulation_steps: what is laid out are the
            rows of one part.

    Returns:
        Markdown; a cell has the rows without and with --recompute.
    """
    config = scaling_comparison.read_config(name)
    plain = scaling_costs.Method(
        precision=options.precision, num_parts=_SOME_PARTS if in_parts else 1
    )
    needs = [
        [
            computed_need(config, shape_of(int(length), options.kind), method)
            for method in (plain, dataclasses.replace(plain, recompute=True))
        ]
        for length in options.lengths
    ]
    rows = [
        [
            f"{memory} GB",
            *(
                " / ".join(str(largest_batch(n, float(memory))) for n in ways)
                for ways in needs
            ),
        ]
        for memory in options.memory_gb
    ]
    start = f"{name}{', in parts' if in_parts else ''}, length"
    return scaling_comparison.table([start, *options.lengths], rows)


def released_table() -> str:
    """Lays the release's own measurements beside what is computed here."""
    configs = [scaling_comparison.read_config(n) for n in _RELEASED_NETWORKS]
    ways = {
        "float32": scaling_costs.Method(),
        "recompute": scaling_costs.Method(recompute=True),
        "bfloat16": scaling_costs.Method(precision="mixed_bfloat16"),
    }
    rows = []
    for length, released in RELEASED.items():
        row = [length]
        for config, measured in zip(configs, released, strict=True):
            shape = shape_of(length, "fine_tuning")
            row += [
                measured,
                *(
                    largest_batch(
                        computed_need(config, shape, method), RELEASED_GB
                    )
                    for method in ways.values()
                ),
            ]
        rows.append(row)
    header = ["length"]
    for name in ("Base", "Large"):
        header += [f"{name}, the release's", *(f"{w}" for w in ways)]
    return scaling_comparison.table(header, rows)


def measured_table(options: Options) -> str:
    """Measures the cases; lays the fitted needs beside the computed ones."""
    rows = []
    for text in options.cases:
        cases = read_cases(text, options.precision)
        need = fitted_need(
            {
                case.batch_size // case.method.num_parts: _measure(
                    case, options.kind
                )
                for case in cases
            }
        )
        first = cases[0]
        shape = shape_of(first.shape.max_seq_length, options.kind)
        computed = computed_need(first.config, shape, first.method)
        rows.append(
            [
                text,
                *(
                    f"{value / 1e6:.0f} MB"
                    for value in (computed.fixed, need.fixed)
                ),
                *(
                    f"{value / 1e6:.2f} MB"
                    for value in (computed.per_example, need.per_example)
                ),
                *(
                    largest_batch(each, RELEASED_GB)
                    for each in (computed, need)
                ),
            ]
        )
        logging.info("%s", rows[-1])
    header = [
        *("case", "fixed, computed", "measured"),
        *("an example, computed", "measured"),
        *(f"largest batch in {RELEASED_GB} GB, computed", "measured"),
    ]
    return scaling_comparison.table(header, rows)


def read_cases(text: str, precision: str) -> list[scaling_measurement.Case]:
    """Reads `CONFIG:LENGTH:BATCH+BATCH`, or with more behind it, as cases.

    Raises:
        OSError: there is no such configuration.
        ValueError: it is not of this form.
    """
    fields = text.split(":")
    batches = fields[2].split(_BATCH_SEPARATOR) if len(fields) > 2 else [""]
    return [
        scaling_comparison.read_case(
            ":".join([*fields[:2], batch, *fields[3:]]), precision
        )
        for batch in batches
    ]


def _measure(case: scaling_measurement.Case, kind: str) -> int:
    shape = shape_of(case.shape.max_seq_length, kind)
    job = memory_step.Job(
        sizes=case.config.to_dict(),
        num_rows=case.batch_size,
        method=dataclasses.asdict(case.method),
        **dataclasses.asdict(shape),
    )
    peak = memory_step.peak_bytes_apart(job)
    logging.info("%s: %.0f MB", case.name, peak / 1e6)
    return peak


def report(options: Options) -> str:
    """Writes all that is computed, or with `measure` what is compared."""
    if options.measure:
        return measured_table(options)
    networks = "".join(
        network_table(name, options, in_parts=in_parts)
        for name in options.networks
        for in_parts in (False, True)
    )
    return f"{networks}{RELEASED_GB} GB:\n\n{released_table()}"


def main(_: list[str]) -> None:
    """Prints the tables that the flags ask for."""
    options = flags_lib.read(Options, flags.FLAGS)
    sys.stdout.write(report(options))


if __name__ == "__main__":
    program.start(define_flags, main)

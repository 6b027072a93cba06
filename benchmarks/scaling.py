"""What pre-training BERT needs, computed, and measured where it can be.

  python -m benchmarks.scaling
  python -m benchmarks.scaling --devices=h100 --num_devices=8,64 --recompute
  python -m benchmarks.scaling --measure

Prints Markdown: docs/scaling.md explains it.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from benchmarks import scaling_comparison, scaling_costs, scaling_plans
from commands import flag_groups, program
from commands import flags as flags_lib
from modeling import sizes

_DEVICES = pathlib.Path(__file__).with_name("scaling_devices.json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags` for each."""

    configs: Sequence[str] = ("bert_base_uncased", "bert_large_uncased")
    devices_file: str = str(_DEVICES)
    devices: Sequence[str] = ()
    num_devices: Sequence[str] = ("1", "4", "8", "16", "64")
    efficiency: float = 0.3
    precision: str = "mixed_bfloat16"
    recompute: bool = False
    measure: bool = False
    measure_precision: str = "float32"
    cases: Sequence[str] = (
        *("bert_tiny:128:32", "bert_tiny:512:8", "bert_mini:128:32"),
        "bert_small:128:16",
    )
    num_steps: int = 8
    work_dir: str | None = None


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_list(
        "configs", list(Options.configs),
        "Networks, by their names in modeling/configs.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "devices_file", Options.devices_file, "JSON file of devices.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "devices", list(Options.devices), "Which of them; all if empty.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "num_devices", list(Options.num_devices), "How many share a batch.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_float(
        "efficiency", Options.efficiency,
        "Share of the peak rate that a step reaches: an assumption.",
        lower_bound=0.001, upper_bound=1.0, flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "precision", Options.precision, scaling_costs.PRECISIONS,
        "As for run_pretraining.py.", flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "recompute", Options.recompute, "As for run_pretraining.py.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "measure", Options.measure,
        "Run a few steps on this machine and compare.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "measure_precision", Options.measure_precision,
        scaling_costs.PRECISIONS, "That of the measured runs.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "cases", list(Options.cases),
        "What to measure: configuration, sequence length and batch size, and "
        "after another colon `recompute` or a number of parts.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "num_steps", Options.num_steps, "Steps of each measured run.",
        lower_bound=4, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "work_dir", Options.work_dir,
        "Folder for the text and records of measured runs, to use them again.",
        flag_values=values)  # fmt: skip


def network_table(options: Options) -> str:
    """Says what a network costs, whatever it runs on."""
    phases = scaling_plans.PAPER_PHASES
    rows = []
    for name in options.configs:
        config = scaling_comparison.read_config(name)
        flops = [
            scaling_costs.training_flops(config, phase.shape)
            for phase in phases
        ]
        total = scaling_plans.PAPER_BATCH * sum(
            phase.num_steps * count
            for phase, count in zip(phases, flops, strict=True)
        )
        per_token = [
            f"{count / phase.shape.max_seq_length / 1e9:.2f}"
            for phase, count in zip(phases, flops, strict=True)
        ]
        exchanged = scaling_costs.all_reduce_bytes(config, 64)
        rows.append(
            [
                name,
                f"{sizes.pretraining_parameters(config) / 1e6:.1f} M",
                *per_token,
                f"{total:.2e}",
                f"{scaling_costs.checkpoint_bytes(config) / 1e9:.2f} GB",
                f"{exchanged / 1e9:.2f} GB",
            ]
        )
    header = [
        *("network", "parameters", "GFLOP a token, length 128", "512"),
        *("FLOP, paper's run", "checkpoint", "sent a step, 64 devices"),
    ]
    return scaling_comparison.table(header, rows)


def data_table() -> str:
    """Says how large records are."""
    num_pieces = scaling_plans.PAPER_WORDS * scaling_comparison.PIECES_PER_WORD
    rows = []
    for phase in scaling_plans.PAPER_PHASES:
        shape = phase.shape
        size = scaling_costs.record_bytes(
            shape,
            id_bytes=scaling_comparison.ID_BYTES,
            fill=scaling_comparison.FILL,
        )
        seen = scaling_plans.PAPER_BATCH * phase.num_steps
        copy = scaling_costs.records_per_copy(
            shape, num_pieces, fill=scaling_comparison.FILL
        )
        rows.append(
            [
                shape.max_seq_length,
                shape.max_predictions_per_seq,
                f"{size:.0f}",
                f"{copy / 1e6:.1f} M",
                f"{seen / 1e6:.1f} M",
                f"{seen / copy:.1f}",
                f"{seen * size / 1e9:.0f} GB",
                f"{scaling_plans.PAPER_BATCH * size / 1e3:.0f} kB",
            ]
        )
    header = [
        *("length", "predictions", "bytes a record", "records, corpus once"),
        *("records, paper's run", "times the corpus"),
        *("read in all", "read a step"),
    ]
    return scaling_comparison.table(header, rows)


def device_table(options: Options, device: scaling_plans.Device) -> str:
    """Says how long the paper's run takes on numbers of one device."""
    method = scaling_costs.Method(
        precision=options.precision, recompute=options.recompute
    )
    rows = [
        _device_row(
            name,
            scaling_plans.Cluster(
                device=device,
                num_devices=int(count),
                efficiency=options.efficiency,
            ),
            method,
        )
        for name in options.configs
        for count in options.num_devices
    ]
    header = [
        *("network", device.name, "memory 128", "512"),
        *("step 128", "512", "of it exchange", "days"),
    ]
    return f"{device.about}:\n\n" + scaling_comparison.table(header, rows)


def _device_row(
    name: str,
    cluster: scaling_plans.Cluster,
    method: scaling_costs.Method,
) -> list[str]:
    config = scaling_comparison.read_config(name)
    plans = [
        scaling_plans.plan(config, phase.shape, cluster, method)
        for phase in scaling_plans.PAPER_PHASES
    ]
    start = [name, str(cluster.num_devices)]
    if None in plans:
        return [*start, *["does not fit"] * 2, *["-"] * 4]
    memory = [
        f"{plan.memory.total / 1e9:.1f} GB"
        + (f" in {parts} parts" if (parts := plan.method.num_parts) > 1 else "")
        for plan in plans
    ]
    return [
        *start,
        *memory,
        *(f"{plan.step.total * 1e3:.0f} ms" for plan in plans),
        f"{plans[0].step.exchange * 1e3:.0f} ms",
        f"{scaling_plans.days(plans):.1f}",
    ]


def read_devices(options: Options) -> list[scaling_plans.Device]:
    """Reads the devices that the options name.

    Raises:
        OSError: their file cannot be opened.
        ValueError: it is not as it must be, or has no such device.
    """
    known = scaling_plans.read_devices(options.devices_file)
    unknown = [name for name in options.devices if name not in known]
    if unknown:
        raise ValueError(
            f"{options.devices_file} must hold the devices of --devices; it "
            f"has no {', '.join(unknown)}, only {', '.join(known)}."
        )
    return [known[name] for name in options.devices or known]


def report(options: Options) -> str:
    """Writes all that is computed, or with `measure` what is compared."""
    if options.measure:
        return scaling_comparison.tables(
            [
                scaling_comparison.read_case(text, options.measure_precision)
                for text in options.cases
            ],
            options.num_steps,
            options.work_dir,
        )
    devices = read_devices(options)
    return (
        network_table(options)
        + data_table()
        + "".join(device_table(options, device) for device in devices)
    )


def main(_: list[str]) -> None:
    """Prints the tables that the flags ask for."""
    options = flags_lib.read(Options, flags.FLAGS)
    sys.stdout.write(report(options))


if __name__ == "__main__":
    program.start(define_flags, main)

"""Estimates of the time, memory and data of pre-training on accelerators.

  python -m benchmarks.scaling
  python -m benchmarks.scaling --devices=h100 --num_devices=8,64 --recompute

Prints Markdown; docs/performance.md explains it.
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterable, Sequence

from commands import flags, program
from modeling import config as config_lib
from modeling import costs
from training import records

_MEASUREMENT = flags.Heading("Measurement")
_GROUP = _MEASUREMENT
_DEVICES = pathlib.Path(__file__).with_name("scaling_devices.json")
_CONFIGS = pathlib.Path(config_lib.__file__).parent / "configs"
_SECONDS_PER_DAY = 86_400
# Memory of a device's runtime and of fragmentation; an assumption.
USABLE_MEMORY = 0.9

# Measured, see docs/performance.md: bytes of a word id, share of a record that
# is not padding, word pieces per whitespace-separated word.
_ID_BYTES = 2.0
_FILL = 0.8
_PIECES_PER_WORD = 1.34
# Of the bytes of a record and of each of its features; see `record_bytes`.
_EXAMPLE_OVERHEAD = 16 + 8
_FEATURE_OVERHEAD = 12


# Source: Devlin et al. 2019, App. A.2: 1,000,000 steps of 256 sequences, 90 %
# of them of 128 tokens, the rest of 512. 15 % of the tokens are predicted; the
# release rounds 19 up to 20.
PAPER_BATCH = 256
PAPER_STEPS = {
    costs.Shape(max_seq_length=128, max_predictions_per_seq=20): 900_000,
    costs.Shape(max_seq_length=512, max_predictions_per_seq=77): 100_000,
}
# Source: Devlin et al. 2019, §3.1: BooksCorpus and English Wikipedia.
_PAPER_WORDS = 3.3e9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    configs: tuple[str, ...] = _GROUP.flag(
        ("bert_base_uncased", "bert_large_uncased"),
        "Networks, by their names in modeling/configs.",
    )
    devices_file: str = _GROUP.flag(str(_DEVICES), "JSON file of devices.")
    devices: tuple[str, ...] = _GROUP.flag(
        (), "Devices of --devices_file; all if empty."
    )
    num_devices: tuple[int, ...] = _GROUP.flag(
        (1, 4, 8, 16, 64), "Numbers of devices that share a batch."
    )
    efficiency: float = _GROUP.flag(
        0.3,
        "Share of the peak rate that a step reaches: an assumption.",
        lower_bound=0.001,
        upper_bound=1.0,
    )
    precision: str = _GROUP.flag(
        "mixed_bfloat16",
        "The --precision of run_pretraining.py.",
        choices=costs.PRECISIONS,
    )
    recompute: bool = _GROUP.switch(
        "Estimate with --recompute of run_pretraining.py."
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in lines) + "\n"


def read_config(name: str) -> config_lib.BertConfig:
    """Reads a shipped configuration by its name.

    Raises:
        OSError: there is no configuration of this name.
    """
    return config_lib.BertConfig.from_json_file(str(_CONFIGS / f"{name}.json"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """An accelerator; rates are per second, each way.

    Attributes:
        name: for the command line.
        about: a description.
        peak_flops: peak operations per second of matrix products.
        memory_bytes: size of its memory.
        memory_bandwidth: bytes per second.
        link_bandwidth: bytes per second sent to a device of the same machine.
        network_bandwidth: bytes per second sent to another machine.
        devices_per_machine: number of devices that share links.
    """

    name: str
    about: str
    peak_flops: float
    memory_bytes: float
    memory_bandwidth: float
    link_bandwidth: float
    network_bandwidth: float
    devices_per_machine: int

    def bandwidth(self, num_devices: int) -> float:
        """Returns the bytes per second of the slowest link in a ring."""
        if num_devices <= self.devices_per_machine:
            return self.link_bandwidth
        return min(self.link_bandwidth, self.network_bandwidth)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A phase on a number of devices.

    Attributes:
        method: with the number of micro-batches that the memory requires.
        memory: of a device.
        compute: seconds of a step's products.
        update: seconds of its update.
        exchange: seconds of its exchange of gradients.
    """

    method: costs.Method
    memory: costs.Memory
    compute: float
    update: float
    exchange: float

    @property
    def step(self) -> float:
        """Seconds of a step, whose parts do not overlap."""
        return self.compute + self.update + self.exchange


def read_devices(options: Options) -> list[Device]:
    """Reads the devices of the options.

    Raises:
        OSError: their file cannot be opened.
        ValueError: it is not a list of objects with the fields of `Device`, or
            a device is missing.
    """
    path = options.devices_file
    with open(path, encoding="utf-8") as file:
        try:
            devices = [Device(**values) for values in json.load(file)]
        except (ValueError, TypeError) as error:
            fields = ", ".join(f.name for f in dataclasses.fields(Device))
            raise ValueError(
                f"{path}: must be a JSON list of objects with {fields} "
                f"({error})."
            ) from error
    known = {device.name: device for device in devices}
    unknown = [name for name in options.devices if name not in known]
    if unknown:
        raise ValueError(
            f"{path} must contain the devices of --devices; it lacks "
            f"{', '.join(unknown)}, and has {', '.join(known)}."
        )
    return [known[name] for name in options.devices or known]


def plan(
    config: config_lib.BertConfig,
    shape: costs.Shape,
    device: Device,
    num_devices: int,
    options: Options,
) -> Plan | None:
    """Fits a step of `PAPER_BATCH` sequences into devices.

    It uses the smallest power of two micro-batches that fits into the memory.

    Returns:
        None if not even a single sequence fits.
    """
    num_rows = -(-PAPER_BATCH // num_devices)
    recompute = options.recompute
    flops = costs.training_flops(config, shape, recompute=recompute)
    sent = costs.all_reduce_bytes(config, num_devices)
    num_parts = 1
    while num_parts <= num_rows:
        method = costs.Method(
            precision=options.precision,
            recompute=recompute,
            num_parts=num_parts,
        )
        need = costs.memory(config, shape, num_rows, method)
        if need.total <= USABLE_MEMORY * device.memory_bytes:
            rate = device.peak_flops * options.efficiency
            return Plan(
                method=method,
                memory=need,
                compute=num_rows * flops / rate,
                update=costs.update_traffic(config) / device.memory_bandwidth,
                exchange=sent / device.bandwidth(num_devices),
            )
        num_parts *= 2
    return None


def days(plans: Sequence[Plan]) -> float:
    """Returns the days of the paper's run, given a plan for each length."""
    seconds = sum(
        num_steps * plan.step
        for num_steps, plan in zip(PAPER_STEPS.values(), plans, strict=True)
    )
    return seconds / _SECONDS_PER_DAY


def paper_flops(config: config_lib.BertConfig) -> float:
    """Counts the operations of the paper's pre-training."""
    return PAPER_BATCH * sum(
        num_steps * costs.training_flops(config, shape)
        for shape, num_steps in PAPER_STEPS.items()
    )


def record_bytes(shape: costs.Shape, *, id_bytes: float, fill: float) -> float:
    """Estimates the bytes of a record on disk, on average.

    Numbers are varints, with 7 bits a byte. There are three lists of T numbers,
    one of them word ids, two lists of P, and P floats.

    Args:
        shape: of the record.
        id_bytes: mean bytes of a word id: 2 from 128, 3 from 16,384 on.
        fill: share of a sequence that is not padding.
    """
    tokens, predictions = shape.max_seq_length, shape.max_predictions_per_seq
    ids = tokens * (fill * id_bytes + (1 - fill))
    # From 128 on a position takes two bytes.
    positions = 1 if tokens <= 128 else 2 - 128 / tokens
    masked = predictions * fill * (positions + id_bytes)
    padding = predictions * (1 - fill) * 2
    names = sum(
        len(feature.name) + _FEATURE_OVERHEAD
        for feature in records.pretraining_features(tokens, predictions)
    )
    floats = costs.FLOAT_BYTES * predictions
    lists = ids + 2 * tokens + masked + padding + floats
    return lists + names + _EXAMPLE_OVERHEAD


def records_per_copy(
    shape: costs.Shape, num_pieces: float, *, fill: float
) -> float:
    """Estimates the number of records of a corpus with `dupe_factor` 1.

    Args:
        shape: of the records.
        num_pieces: word pieces of the corpus.
        fill: as for `record_bytes`; includes [CLS] and both [SEP].
    """
    return num_pieces / (fill * shape.max_seq_length - 3)


def network_table(options: Options) -> str:
    """Formats the hardware-independent costs of each network."""
    rows = []
    for name in options.configs:
        config = read_config(name)
        per_token = [
            costs.training_flops(config, shape) / shape.max_seq_length
            for shape in PAPER_STEPS
        ]
        rows.append(
            [
                name,
                f"{costs.pretraining_parameters(config) / 1e6:.1f} M",
                *(f"{flops / 1e9:.2f}" for flops in per_token),
                f"{paper_flops(config):.2e}",
                f"{costs.checkpoint_bytes(config) / 1e9:.2f} GB",
                f"{costs.all_reduce_bytes(config, 64) / 1e9:.2f} GB",
            ]
        )
    header = [
        *("network", "parameters", "GFLOP a token, length 128", "512"),
        *("FLOP, paper's run", "checkpoint", "sent a step, 64 devices"),
    ]
    return table(header, rows)


def data_table() -> str:
    """Formats the number and size of records."""
    num_pieces = _PAPER_WORDS * _PIECES_PER_WORD
    rows = []
    for shape, num_steps in PAPER_STEPS.items():
        size = record_bytes(shape, id_bytes=_ID_BYTES, fill=_FILL)
        seen = PAPER_BATCH * num_steps
        copy = records_per_copy(shape, num_pieces, fill=_FILL)
        rows.append(
            [
                shape.max_seq_length,
                shape.max_predictions_per_seq,
                f"{size:.0f}",
                f"{copy / 1e6:.1f} M",
                f"{seen / 1e6:.1f} M",
                f"{seen / copy:.1f}",
                f"{seen * size / 1e9:.0f} GB",
                f"{PAPER_BATCH * size / 1e3:.0f} kB",
            ]
        )
    header = [
        *("length", "predictions", "bytes a record", "records, corpus once"),
        *("records, paper's run", "times the corpus"),
        *("read in all", "read a step"),
    ]
    return table(header, rows)


def device_table(options: Options, device: Device) -> str:
    """Formats the days of the paper's run on several numbers of a device."""
    rows = [
        [name, count, *_device_cells(name, device, count, options)]
        for name in options.configs
        for count in options.num_devices
    ]
    header = [
        *("network", device.name, "memory 128", "512"),
        *("step 128", "512", "of it exchange", "days"),
    ]
    return f"{device.about}:\n\n" + table(header, rows)


def _device_cells(
    name: str, device: Device, num_devices: int, options: Options
) -> list[str]:
    plans = []
    for shape in PAPER_STEPS:
        found = plan(read_config(name), shape, device, num_devices, options)
        if found is None:
            return [*["does not fit"] * 2, *["-"] * 4]
        plans.append(found)
    memory = [
        f"{each.memory.total / 1e9:.1f} GB"
        + (f" in {parts} parts" if (parts := each.method.num_parts) > 1 else "")
        for each in plans
    ]
    return [
        *memory,
        *(f"{each.step * 1e3:.0f} ms" for each in plans),
        f"{plans[0].exchange * 1e3:.0f} ms",
        f"{days(plans):.1f}",
    ]


def main(options: Options) -> None:
    """Writes all tables."""
    of_devices = [device_table(options, d) for d in read_devices(options)]
    tables = [network_table(options), data_table(), *of_devices]
    sys.stdout.writelines(tables)


if __name__ == "__main__":
    program.start(Options, main)

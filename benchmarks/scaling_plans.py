"""How long pre-training takes on devices, by what a step costs."""

import dataclasses
import json

from benchmarks import scaling_costs
from modeling import config as config_lib

_SECONDS_PER_DAY = 86_400
# Room that a device's runtime and fragments of memory need; an assumption.
USABLE_MEMORY = 0.9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """An accelerator; rates are per second, each way.

    Attributes:
        name: for the command line.
        about: what it is, for people.
        peak_flops: operations per second of matrix products at most.
        memory_bytes: there are.
        memory_bandwidth: bytes per second.
        link_bandwidth: bytes per second it sends to another of its machine.
        network_bandwidth: bytes per second it sends to another machine.
        devices_per_machine: that share links.
    """

    name: str
    about: str
    peak_flops: float
    memory_bytes: float
    memory_bandwidth: float
    link_bandwidth: float
    network_bandwidth: float
    devices_per_machine: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps of one shape."""

    shape: scaling_costs.Shape
    num_steps: int


# Source: Devlin et al. 2019, App. A.2: 1,000,000 steps of 256 sequences, 90 %
# of them of 128 tokens, the rest of 512. 15 % of the tokens are predicted; the
# release rounds 19 up to 20.
PAPER_BATCH = 256
# Source: Devlin et al. 2019, §3.1: BooksCorpus and English Wikipedia.
PAPER_WORDS = 3.3e9
PAPER_PHASES = (
    Phase(
        shape=scaling_costs.Shape(
            max_seq_length=128, max_predictions_per_seq=20
        ),
        num_steps=900_000,
    ),
    Phase(
        shape=scaling_costs.Shape(
            max_seq_length=512, max_predictions_per_seq=77
        ),
        num_steps=100_000,
    ),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """Where the seconds of a step go; nothing is assumed to overlap."""

    compute: float
    update: float
    exchange: float

    @property
    def total(self) -> float:
        """Seconds of a step."""
        return self.compute + self.update + self.exchange


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """Devices of one kind that share a batch.

    Attributes:
        device: of which kind.
        num_devices: how many.
        efficiency: share of the peak rate that a step reaches on average.
    """

    device: Device
    num_devices: int
    efficiency: float

    @property
    def bandwidth(self) -> float:
        """Bytes per second of the slowest link in a ring of all devices."""
        device = self.device
        if self.num_devices <= device.devices_per_machine:
            return device.link_bandwidth
        return min(device.link_bandwidth, device.network_bandwidth)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A phase on a number of devices.

    Attributes:
        method: with as many parts as the memory asks for.
        memory: of a device.
        step: its seconds.
    """

    method: scaling_costs.Method
    memory: scaling_costs.Memory
    step: Step


def read_devices(path: str) -> dict[str, Device]:
    """Reads devices by name from a JSON file.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is no list of objects with the fields of `Device`.
    """
    with open(path, encoding="utf-8") as file:
        try:
            devices = [Device(**values) for values in json.load(file)]
        except (ValueError, TypeError) as error:
            fields = ", ".join(f.name for f in dataclasses.fields(Device))
            raise ValueError(
                f"{path}: must be a JSON list of objects with {fields} "
                f"({error})."
            ) from error
    return {device.name: device for device in devices}


def step_seconds(
    config: config_lib.BertConfig,
    shape: scaling_costs.Shape,
    num_rows: int,
    cluster: Cluster,
    *,
    recompute: bool = False,
) -> Step:
    """Says how long a step takes.

    Args:
        config: of the network.
        shape: of a sequence.
        num_rows: sequences of each device.
        cluster: the devices.
        recompute: as for `scaling_costs.Method`.
    """
    device = cluster.device
    flops = scaling_costs.training_flops(config, shape, recompute=recompute)
    rate = device.peak_flops * cluster.efficiency
    sent = scaling_costs.all_reduce_bytes(config, cluster.num_devices)
    return Step(
        compute=num_rows * flops / rate,
        update=scaling_costs.update_traffic(config) / device.memory_bandwidth,
        exchange=sent / cluster.bandwidth,
    )


def plan(
    config: config_lib.BertConfig,
    shape: scaling_costs.Shape,
    cluster: Cluster,
    method: scaling_costs.Method,
) -> Plan | None:
    """Fits a step of `PAPER_BATCH` sequences into devices.

    Takes as few parts, a power of two, as the memory allows.

    Returns:
        None if not even one sequence at a time fits.
    """
    num_rows = -(-PAPER_BATCH // cluster.num_devices)
    num_parts = 1
    while num_parts <= num_rows:
        fitted = dataclasses.replace(method, num_parts=num_parts)
        need = scaling_costs.memory(config, shape, num_rows, fitted)
        if need.total <= USABLE_MEMORY * cluster.device.memory_bytes:
            step = step_seconds(
                config, shape, num_rows, cluster, recompute=method.recompute
            )
            return Plan(method=fitted, memory=need, step=step)
        num_parts *= 2
    return None


def days(plans: list[Plan]) -> float:
    """Adds up the days of the paper's phases, by a plan for each."""
    seconds = sum(
        phase.num_steps * phase_plan.step.total
        for phase, phase_plan in zip(PAPER_PHASES, plans, strict=True)
    )
    return seconds / _SECONDS_PER_DAY

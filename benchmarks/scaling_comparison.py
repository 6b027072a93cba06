"""What a step was computed to cost, beside what it was measured to."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterable, Sequence

from absl import logging

from benchmarks import scaling_costs, scaling_measurement
from modeling import config as config_lib

_CONFIGS = pathlib.Path(config_lib.__file__).parent / "configs"
# Measured, see docs/scaling.md: bytes of a word id, share of a record that is
# no padding, word pieces of a word between white space.
ID_BYTES = 2.0
FILL = 0.8
PIECES_PER_WORD = 1.34
# Source: the paper and the release predict 15 %, rounded up to 20 of 128.
_PREDICTED_SHARE = 0.15
_PREDICTIONS_OF_128 = 20


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lays rows out in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in lines) + "\n"


def read_config(name: str) -> config_lib.BertConfig:
    """Reads a shipped configuration by its name.

    Raises:
        OSError: there is none of this name.
    """
    return config_lib.BertConfig.from_json_file(str(_CONFIGS / f"{name}.json"))


def shape_of(length: int) -> scaling_costs.Shape:
    """Returns the shape of a record of a length, with as many predictions."""
    return scaling_costs.Shape(
        max_seq_length=length,
        max_predictions_per_seq=_PREDICTIONS_OF_128
        if length == 128
        else round(length * _PREDICTED_SHARE),
    )


def read_case(text: str, precision: str) -> scaling_measurement.Case:
    """Reads `CONFIG:LENGTH:BATCH`, or with `:recompute` or `:PARTS` behind it.

    Raises:
        OSError: there is no such configuration.
        ValueError: it is not of this form.
    """
    name, *numbers = text.split(":")
    try:
        length, batch_size = int(numbers[0]), int(numbers[1])
        more = numbers[2:]
        recompute = more == ["recompute"]
        num_parts = int(more[0]) if more and not recompute else 1
    except (ValueError, IndexError) as error:
        raise ValueError(
            "A case must be CONFIG:LENGTH:BATCH, or with :recompute or :PARTS "
            f"behind it; got {text!r}."
        ) from error
    return scaling_measurement.Case(
        name=text,
        config=read_config(name),
        shape=shape_of(length),
        batch_size=batch_size,
        method=scaling_costs.Method(
            precision=precision, recompute=recompute, num_parts=num_parts
        ),
    )


def tables(
    cases: Sequence[scaling_measurement.Case],
    num_steps: int,
    work_dir: str | None = None,
) -> str:
    """Measures cases; lays out what was computed beside it.

    Args:
        cases: at least one.
        num_steps: of each run.
        work_dir: holds text and records; those of an earlier call are used
            again. None for a temporary folder.
    """
    times, spaces = [], []
    bandwidth = scaling_measurement.memory_bandwidth()
    with contextlib.ExitStack() as stack:
        if work_dir is None:
            work_dir = stack.enter_context(tempfile.TemporaryDirectory())
        folder = pathlib.Path(work_dir)
        folder.mkdir(exist_ok=True)
        text_file = scaling_measurement.write_text(folder)
        shapes = dict.fromkeys(case.shape for case in cases)
        record_files = {
            shape: scaling_measurement.write_records(folder, text_file, shape)
            for shape in shapes
        }
        program = scaling_measurement.program_bytes(
            folder, record_files[cases[0].shape], cases[0].shape
        )
        for case in cases:
            measured = scaling_measurement.measure(
                case, folder, record_files[case.shape], num_steps
            )
            rate = scaling_measurement.matmul_flops(case)
            times.append(_time_row(case, measured, rate, bandwidth))
            spaces.append(_space_row(case, measured, program))
            logging.info("%s; %s", times[-1], spaces[-1])
        records = [_record_row(folder, shape) for shape in shapes]
    return (
        f"Addition moves {bandwidth / 1e9:.1f} GB/s of memory.\n\n"
        + table(
            [
                *("case", "rate of products", "products", "update"),
                *("step, computed", "measured", "share of the rate"),
            ],
            times,
        )
        + table(
            [
                *("case", "memory, computed", "measured", "program alone"),
                *("checkpoint, computed", "measured"),
            ],
            spaces,
        )
        + table(
            ["length", "record, computed", "measured"],
            records,
        )
    )


def _time_row(
    case: scaling_measurement.Case,
    measured: scaling_measurement.Measured,
    rate: float,
    bandwidth: float,
) -> list[str]:
    flops = case.batch_size * scaling_costs.training_flops(
        case.config, case.shape, recompute=case.method.recompute
    )
    products = flops / rate
    update = scaling_costs.update_traffic(case.config) / bandwidth
    taken = measured.step_seconds
    return [
        case.name,
        f"{rate / 1e9:.0f} GFLOP/s",
        f"{products:.3f} s",
        f"{update:.3f} s",
        f"{products + update:.3f} s",
        f"{taken:.3f} s",
        f"{products / (taken - update):.2f}",
    ]


def _space_row(
    case: scaling_measurement.Case,
    measured: scaling_measurement.Measured,
    program: int,
) -> list[str]:
    need = scaling_costs.memory(
        case.config, case.shape, case.batch_size, case.method
    )
    checkpoint = scaling_costs.checkpoint_bytes(case.config)
    return [
        case.name,
        f"{need.total / 1e6:.0f} MB",
        f"{(measured.peak_bytes - program) / 1e6:.0f} MB",
        f"{program / 1e6:.0f} MB",
        f"{checkpoint / 1e6:.1f} MB",
        f"{measured.checkpoint_bytes / 1e6:.1f} MB",
    ]


def _record_row(
    folder: pathlib.Path, shape: scaling_costs.Shape
) -> tuple[str, ...]:
    computed = scaling_costs.record_bytes(shape, id_bytes=ID_BYTES, fill=FILL)
    measured = scaling_measurement.record_bytes(folder, shape)
    return (str(shape.max_seq_length), f"{computed:.0f}", f"{measured:.0f}")

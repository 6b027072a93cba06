r"""The largest batches of fine-tuning, computed from XLA's buffer assignments.

  python -m benchmarks.memory

XLA assigns the buffers of a training step when it compiles it, on any machine.
For each size of BERT the program compiles the forward and backward pass of a
span model (SQuAD) with few layers, and extrapolates: the
bytes of weights, and those of a row, are a constant and a term for each layer;
those of a row have a part that is proportional to its length and one that is
proportional to the square. It prints the tables of docs/performance.md.
"""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from benchmarks import contenders

_MEMORIES = (8, 12, 16, 24, 80)  # GB.
_UNUSED = 0.1
_LENGTHS = (128, 256, 384, 512)
# Layers, rows and length of the passes that are compiled: enough rows that
# their memory, not that of the gradient of the words, is the peak.
_COMPILED = (
    (2, 64, 128),
    (4, 64, 128),
    (2, 128, 128),
    (4, 128, 128),
    (2, 32, 512),
    (4, 32, 512),
)
_SIZES = {
    "BERT-Base": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
    },
    "BERT-Large": {
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
    },
}
_VOCAB_SIZE = 30522
# Adam's moments are not in the pass: 8 bytes for each weight.
_MOMENT_BYTES = 8
_USED = re.compile(r"Total bytes used: (\d+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pass:
    """A forward and backward pass to compile."""

    sizes: dict[str, Any]
    length: int
    batch_size: int
    precision: str
    recompute: bool


def compile_pass(work: Pass) -> int:
    """Compiles a pass; returns the number of weights of its model."""
    import keras
    import tensorflow as tf

    from bert.training import checkpointing, objectives, optimization, steps
    from modeling import compilation, heads
    from modeling import config as config_lib

    keras.config.set_dtype_policy(work.precision)
    config = config_lib.BertConfig(
        vocab_size=_VOCAB_SIZE, type_vocab_size=2, **work.sizes
    )
    model = heads.BertForQuestionAnswering(config)
    model.bert.encoder.recompute = work.recompute
    objective = objectives.SpanExtraction(model)
    weights = checkpointing.weights(model)
    trainer = steps.Trainer(
        tf.distribute.get_strategy(),
        objective,
        optimization.AdamWeightDecayOptimizer(weights),
        mode=compilation.ExecutionMode.XLA,
    )
    shape = [work.batch_size, work.length]
    names = (*objectives.PIECE_INPUTS, "start_positions", "end_positions")
    features = {name: tf.ones(shape, tf.int32) for name in names[:3]}
    features |= {name: tf.ones([shape[0], 1], tf.int32) for name in names[3:]}
    trainer._compiled_gradients.experimental_get_compiler_ir(
        features,
        objective.denominators(features),
        tf.constant([1, 2]),
        tf.constant(1.0),
    )(stage="optimized_hlo")
    return sum(int(np.prod(w.shape)) for w in weights.values())


def bytes_of(work: Pass) -> int:
    """Compiles a pass in a process; returns its bytes and those of moments."""
    with tempfile.TemporaryDirectory() as folder:
        flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
        done = subprocess.run(
            [
                sys.executable,
                *("-m", "benchmarks.memory"),
                json.dumps(dataclasses.asdict(work)),
            ],
            cwd=contenders.ROOT,
            env={**os.environ, "XLA_FLAGS": flags, "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        reports = pathlib.Path(folder).glob("*gradients*memory-usage-report*")
        (used,) = {int(_USED.search(p.read_text())[1]) for p in reports}  # type: ignore[index]
    return used + _MOMENT_BYTES * int(done.stdout.splitlines()[-1])


def largest_batches(
    sizes: dict[str, Any], *, recompute: bool
) -> list[list[int]]:
    """Returns the largest batch in float32 for each memory and length."""

    def terms(layers, rows, length):
        parts = [1, rows * length, rows * length**2]
        return [factor * part for part in parts for factor in (1, layers)]

    measured = [
        bytes_of(
            Pass(
                sizes={**sizes, "num_hidden_layers": layers},
                length=length,
                batch_size=batch_size,
                precision="float32",
                recompute=recompute,
            )
        )
        for layers, batch_size, length in _COMPILED
    ]
    fitted = np.linalg.solve(
        np.array([terms(*case) for case in _COMPILED], float),
        np.array(measured, float),
    )

    def largest(memory, length):
        used, more = (
            fitted @ terms(sizes["num_hidden_layers"], rows, length)
            for rows in (0, 1)
        )
        free = (1 - _UNUSED) * memory * 1e9 - used
        return max(int(free / (more - used)), 0)

    return [[largest(m, length) for length in _LENGTHS] for m in _MEMORIES]


def main() -> None:
    """Prints a table for each size."""
    for name, sizes in _SIZES.items():
        plain, less = (
            largest_batches(sizes, recompute=recompute)
            for recompute in (False, True)
        )
        heading = " | ".join([f"{name}, length", *map(str, _LENGTHS)])
        lines = [f"| {heading} |", "|---" * (1 + len(_LENGTHS)) + "|"]
        for memory, *rows in zip(_MEMORIES, plain, less, strict=True):
            cells = [f"{a} / {b}" for a, b in zip(*rows, strict=True)]
            lines.append(f"| {memory} GB | {' | '.join(cells)} |")
        sys.stdout.write("\n".join(lines) + "\n\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        count = compile_pass(Pass(**json.loads(sys.argv[1])))
        sys.stdout.write(f"{count}\n")
    else:
        main()

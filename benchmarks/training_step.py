r"""A step of pre-training or fine-tuning, beside its limit and its peers.

  python -m benchmarks.training_step \
    --bert_config_file=modeling/configs/bert_tiny.json \
    --peers=/path/to/an/environment/bin/python

Forward, backward, clipping and update of one batch with random words, dropout
on, in turns: here, the step's matrix products alone (`machine.py`), and, on the
Python of --peers, Hugging Face transformers and keras-hub where installed.
"""

import dataclasses
import json
import pathlib

from absl import flags, logging

from benchmarks import contenders, machine
from commands import flag_groups, program

_OURS, _LIMIT = "this project", "its matrix products alone"
# Names of peers, their modules, and the precision that is theirs alone, if any.
_PEERS = {
    "huggingface": ("Hugging Face, PyTorch", "huggingface", None),
    "keras_hub": ("keras-hub", "keras_hub", None),
    "huggingface_float32": (
        "Hugging Face, PyTorch, float32",
        "huggingface",
        "float32",
    ),
}


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string(
        "bert_config_file", None, "The model's sizes.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "kind", "pretraining", ["pretraining", "fine_tuning"], "Which step.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "precision", "mixed_bfloat16", ["float32", "mixed_bfloat16"],
        "Of all contenders.", flag_values=values)  # fmt: skip
    for name, default in (
        ("batch_size", 32),
        ("max_seq_length", 128),
        ("max_predictions_per_seq", 20),
        ("rounds", 7),
    ):
        flags.DEFINE_integer(
            name, default, "Of each step; rounds: turns of each contender.",
            lower_bound=1, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "peers", None, "An environment's Python, for the peers.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_multi_enum(
        "peer", list(_PEERS), list(_PEERS),
        "Who takes part; each stays in memory. PyTorch does float32 faster "
        "than bfloat16 on some CPUs.", flag_values=values)  # fmt: skip


def compare(values: flags.FlagValues) -> None:
    """Measures, and logs a table."""
    job = contenders.Job(
        kind=values.kind,
        sizes=json.loads(pathlib.Path(values.bert_config_file).read_text()),
        batch_size=values.batch_size,
        max_seq_length=values.max_seq_length,
        max_predictions_per_seq=values.max_predictions_per_seq,
        precision=values.precision,
    )
    running = {
        _OURS: contenders.Contender("ours", job),
        _LIMIT: contenders.Contender("machine", job),
    }
    for peer in values.peer if values.peers else ():
        name, module, precision = _PEERS[peer]
        theirs = dataclasses.replace(job, precision=precision or job.precision)
        running[name] = contenders.Contender(module, theirs, values.peers)
        if running[name].absent is not None:
            logging.info("%s is left out: %s", name, running[name].absent)
    medians = contenders.alternate(running, values.rounds)
    for contender in running.values():
        contender.close()
    tokens = job.batch_size * job.max_seq_length
    lines = contenders.table(medians, "tokens", tokens, _OURS)
    operations = sum(p.operations for p in machine.products_of(job))
    logging.info(
        "%s, %s, batch %d x %d\n%s\n%.0f GFLOP/s in the step's products, "
        "%.0f %% of what they reach alone (%.0f)",
        values.kind,
        values.precision,
        job.batch_size,
        job.max_seq_length,
        "\n".join(lines),
        operations / medians[_OURS] / 1e9,
        100 * medians[_LIMIT] / medians[_OURS],
        operations / medians[_LIMIT] / 1e9,
    )


def main(_: list[str]) -> None:
    """Measures what the flags say."""
    compare(flags.FLAGS)


if __name__ == "__main__":
    program.start(define_flags, main)

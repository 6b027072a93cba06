"""Seconds and memory of loading BERT from a checkpoint of each form.

  python -m benchmarks.loading --forms=release --forms=keras

Makes a checkpoint of BERT-Base with random weights, converts it, and loads each
form in a process of its own. Memory is that of the process at most, above what
it had once everything was imported; the model itself is one share of it. Reads
Linux' `/proc`.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time

from absl import flags, logging

from commands import flag_groups, program

_SIZES = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "type_vocab_size": 2,
}  # Source: Devlin et al. 2019, §3; the released uncased model.
_OUTPUTS = {
    "release": "bert_model.ckpt",
    "keras": "bert_model.weights.h5",
    "huggingface": "huggingface",
}
_MEBIBYTE = 2**20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What loading took.

    Attributes:
        seconds: on the clock, imports left out; of making the model and
            loading it.
        load_seconds: of loading alone.
        weights_mb: of the model's variables, in MiB.
        peak_mb: of the process at most, above that after the imports.
    """

    seconds: float
    load_seconds: float
    weights_mb: float
    peak_mb: float

    def __str__(self) -> str:
        return (
            f"{self.seconds:.1f} s, of which loading {self.load_seconds:.1f}; "
            f"weights {self.weights_mb:.0f} MB, peak above imports "
            f"{self.peak_mb:.0f} MB ({self.peak_mb / self.weights_mb:.2f} of "
            "the weights)"
        )


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_multi_enum(
        "forms", list(_OUTPUTS), list(_OUTPUTS), "Forms to load.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "folder", None,
        "Where to keep the checkpoints; a temporary folder by default.",
        flag_values=values)  # fmt: skip


def make_checkpoints(folder: str, forms: list[str]) -> None:
    """Writes BERT-Base with random weights, in each form.

    Args:
        folder: to write to.
        forms: of `_OUTPUTS`.
    """
    import keras

    from modeling import checkpoints, heads
    from modeling import config as config_lib
    from tools import conversion, convert_checkpoint

    keras.utils.set_random_seed(1)
    config = config_lib.BertConfig(**_SIZES)
    model = heads.BertForPreTraining(config)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "bert_config.json"), "w") as file:
        file.write(config.to_json_string())
    source = os.path.join(folder, _OUTPUTS["release"])
    checkpoints.save(source, checkpoints.variables_by_name(model))
    for form in forms:
        if form != "release":
            convert_checkpoint.convert(
                conversion.Options(
                    input=source,
                    output=os.path.join(folder, _OUTPUTS[form]),
                    output_format=form,
                    overwrite=True,
                )
            )


def measure(path: str) -> Cost:
    """Makes a model and loads a checkpoint into it, in this process.

    Args:
        path: of the checkpoint, with its configuration beside it.
    """
    import tensorflow as tf

    from modeling import checkpoints, config_beside, heads

    config = config_beside.read(path)
    tf.zeros([1]).numpy()  # The devices are set up by the first operation.
    before = _memory_mb("VmRSS")
    start = time.perf_counter()
    model = heads.BertForPreTraining(config)
    made = time.perf_counter()
    checkpoints.load(model, path)
    end = time.perf_counter()
    return Cost(
        seconds=end - start,
        load_seconds=end - made,
        weights_mb=4 * model.count_params() / _MEBIBYTE,
        peak_mb=_memory_mb("VmHWM") - before,
    )


def measure_apart(path: str) -> Cost:
    """Measures as `measure` does, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.loading", "--measure", path],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _memory_mb(field: str) -> float:
    """Reads `VmRSS` or `VmHWM`, what is and was at most in memory, in MiB.

    Not `getrusage`, whose peak a process takes over from the one that started
    it.
    """
    with open("/proc/self/status", encoding="ascii") as file:
        values = dict(line.split(":", 1) for line in file)
    return int(values[field].split()[0]) / 1024  # The file counts in KiB.


def main(_: list[str]) -> None:
    """Runs the benchmark with the flags of the command line."""
    forms = flags.FLAGS.forms
    with tempfile.TemporaryDirectory() as temporary:
        folder = flags.FLAGS.folder or temporary
        make_checkpoints(folder, forms)
        for form in forms:
            cost = measure_apart(os.path.join(folder, _OUTPUTS[form]))
            logging.info("%s: %s", form, cost)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        sys.stdout.write(json.dumps(dataclasses.asdict(measure(sys.argv[2]))))
        sys.stdout.write("\n")
    else:
        program.start(define_flags, main)

r"""Speed of this project, its peers and the processor's matrix products.

  python -m benchmarks.speed
  python -m benchmarks.speed --measurements=prediction,tokenization \
    --text_file=wiki.txt --peers=/path/to/an/environment/bin/python
  python -m benchmarks.speed --other_clone=/path/to/an/earlier/version

Prints a Markdown table of wall time / processor time. Its first column is this
project's; the others are multiples of it. The contenders are measured in
alternation, and medians are reported. benchmarks/README.md describes the
measurements and the columns.
"""

import dataclasses
import itertools
import json
import pathlib
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence

from absl import logging

from benchmarks import contenders
from bert.commands import flags, program
from bert.files import lines, messages
from vocab import tokenization

# Column -> contender.
COLUMNS = {
    "this project": "ours.this_project",
    "other clone": "ours.this_project",
    "XLA": "ours.xla_steps",
    "Hugging Face": "peers.hugging_face",
    "Hugging Face, defaults": "peers.hugging_face",
    "keras-hub": "peers.keras_hub",
    "floor": "ours.floor",
}
_STEP = tuple(COLUMNS)
# Measurement -> its columns. Only a pre-training step has keras-hub's model.
MEASUREMENTS = {
    "pretraining_step": _STEP,
    "fine_tuning_step": tuple(name for name in _STEP if name != "keras-hub"),
    "prediction": (*_STEP[:2], *_STEP[3:5], "floor"),
    "tokenization": (*_STEP[:2], "Hugging Face"),
}
_GROUP = flags.Heading("Measurement")
_SPECIAL_TOKENS = 2  # [CLS] and [SEP].
_VOCABULARY = str(contenders.ROOT / "vocab/english_uncased_30522.txt")
_BATCH_SIZE, _MAX_SEQ_LENGTH = 32, 128
_NUM_TEXTS = 872  # Lines to predict.
_TEXT_BYTES = 2_000_000  # To tokenize.
_ROUNDS = 5  # Measurements of each contender.
# Linux's names of extensions that accelerate matrix products.
_PROCESSOR_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    bert_config_file: flags.Path = _GROUP.flag(
        str(contenders.ROOT / "modeling/configs/bert_mini.json"),
        "JSON file with the configuration of the model.",
    )
    text_file: flags.Path | None = _GROUP.optional(
        "Text with one sentence per line and an empty line between documents; "
        "by default Python's documentation."
    )
    peers: str | None = _GROUP.optional(
        "Python of an environment with torch, transformers and keras-hub; "
        "without it, they are not measured."
    )
    other_clone: str | None = _GROUP.optional(
        "Folder of another version of this project to compare with."
    )
    measurements: tuple[str, ...] = _GROUP.flag(
        tuple(MEASUREMENTS), "Measurements to make."
    )
    precision: str = _GROUP.flag(
        "mixed_bfloat16",
        "Data type of the matrix products of all contenders.",
        choices=("float32", "mixed_bfloat16"),
    )


def make_job(options: Options, name: str, text_file: str) -> contenders.Job:
    """Creates the work of a measurement."""
    lengths: list[int] = []
    if name == "prediction":
        tokenizer = tokenization.FullTokenizer(_VOCABULARY)
        texts = filter(str.strip, lines.read_lines(text_file))
        lengths = [
            min(
                len(tokenizer.tokenize(text)) + _SPECIAL_TOKENS,
                _MAX_SEQ_LENGTH,
            )
            for text in itertools.islice(texts, _NUM_TEXTS)
        ]
    config = pathlib.Path(options.bert_config_file)
    return contenders.Job(
        kind=name.removesuffix("_step"),
        sizes=json.loads(config.read_text(encoding="utf-8")),
        batch_size=_BATCH_SIZE,
        max_seq_length=_MAX_SEQ_LENGTH,
        precision=options.precision,
        lengths=lengths,
        by_length=True,
        text_file=text_file,
        vocab_file=_VOCABULARY,
    )


def start(
    options: Options, name: str, job: contenders.Job
) -> dict[str, contenders.Contender]:
    """Starts the contenders of a measurement; returns them by column."""
    running = {}
    for column in MEASUREMENTS[name]:
        python, clone, work = sys.executable, str(contenders.ROOT), job
        if column == "other clone":
            if not options.other_clone:
                continue
            clone = options.other_clone
        if COLUMNS[column].startswith("peers."):
            if not options.peers:
                continue
            python = options.peers
        if column.endswith("defaults"):
            work = dataclasses.replace(
                job, precision="float32", by_length=False
            )
        contender = contenders.Contender(
            COLUMNS[column], work, python=python, clone=clone
        )
        if contender.absent is None:
            running[column] = contender
        else:
            logging.info("Without %s: %s", column, contender.absent)
    return running


def cut(source: str, target: str, num_bytes: int) -> None:
    """Writes the start of a text, up to the end of a document."""
    with open(source, "rb") as file:
        text = file.read(num_bytes)
    end = text.rfind(b"\n\n") + 2
    pathlib.Path(target).write_bytes(text[:end] if end > 1 else text)


def row(name: str, medians: Mapping[str, contenders.Cost]) -> list[str]:
    """Formats this project's times, and the others as multiples of them."""
    ours, *_ = medians.values()
    cells = [name, f"{ours.seconds:.3f} / {ours.processor_seconds:.3f} s"]
    for column in itertools.islice(COLUMNS, 1, None):
        theirs = medians.get(column, ())
        pairs = zip(theirs, ours, strict=False)
        cells.append(" / ".join(f"{each / own:.2f}" for each, own in pairs))
    return cells


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Formats a Markdown table."""
    cells = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(each)} |\n" for each in cells)


def _processor() -> str:
    path = pathlib.Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or platform.machine()
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    about = {name.strip(): value.strip() for name, _, value in pairs}
    present = about.get("flags", "").split()
    found = [flag for flag in _PROCESSOR_FLAGS if flag in present]
    return f"{about.get('model name', platform.machine())} ({' '.join(found)})"


def main(options: Options) -> None:
    """Runs the measurements of the options; writes the table.

    Raises:
        ValueError: a measurement is unknown.
        RuntimeError: a contender failed.
    """
    for name in options.measurements:
        messages.check_choice("--measurements", name, tuple(MEASUREMENTS))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        text_file, whole = f"{folder}/text.txt", options.text_file
        if whole is None:
            whole = f"{folder}/whole.txt"
            for command in (
                ["tools.python_docs", f"--output_dir={folder}"],
                [
                    *("tools.prepare_corpus", "--input_format=jsonl"),
                    f"--input_file={folder}/docs.jsonl",
                    f"--output_file={whole}",
                ],
            ):
                subprocess.run(
                    [sys.executable, "-m", *command],
                    cwd=contenders.ROOT,
                    check=True,
                )
        cut(whole, text_file, _TEXT_BYTES)
        for name in options.measurements:
            running = start(options, name, make_job(options, name, text_file))
            medians = contenders.alternate(running, _ROUNDS)
            for contender in running.values():
                contender.close()
            rows.append(row(name, medians))
            logging.info("%s", " | ".join(rows[-1]))
    sys.stdout.write(
        f"{_processor()}; {options.precision}, batches of "
        f"{_BATCH_SIZE} x {_MAX_SEQ_LENGTH}, "
        f"{pathlib.Path(options.bert_config_file).stem}\n\n"
        f"{table(['', *COLUMNS], rows)}"
    )


if __name__ == "__main__":
    program.start(Options, main)

r"""Speed of this project, its peers and the processor's matrix products.

  python -m benchmarks.speed
  python -m benchmarks.speed --measurements=prediction,tokenization \
    --text_file=wiki.txt --peers=/path/to/an/environment/bin/python

Prints a Markdown table. Its first column is this project's time; the others are
multiples of it. The contenders are measured in alternation, and medians are
reported. "Hugging Face" uses this project's precision and order of texts; its
defaults are float32 and file order. The floor is the time of the same matrix
products alone; for start_up, the import of Keras and TensorFlow.
benchmarks/README.md describes the measurements.
"""

import dataclasses
import itertools
import json
import pathlib
import platform
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from absl import logging

from benchmarks import contenders, scaling
from commands import flags, program
from files import lines, messages
from vocab import tokenization

_MEASUREMENT = flags.Heading("Measurement")


_OURS, _PEER, _FLOOR = "this project", "Hugging Face", "floor"
_PEER_DEFAULTS, _KERAS_HUB = "Hugging Face, defaults", "keras-hub"
_DEFINITION = "plain definition"
COLUMNS = (_OURS, _PEER, _PEER_DEFAULTS, _KERAS_HUB, _DEFINITION, _FLOOR)
_GROUP = _MEASUREMENT
_SPECIAL_TOKENS = 2  # [CLS] and [SEP].
# Linux's names of extensions that accelerate matrix products.
_PROCESSOR_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
_START_UP_BYTES = 100_000

# The contenders of a measurement, by column.
_Contenders = dict[str, contenders.Contender | contenders.Command]
# Methods of `Bench`.
MEASUREMENTS = (
    *("pretraining_step", "fine_tuning_step", "prediction", "tokenization"),
    *("graph_tokenization", "data_creation", "start_up", "help"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    bert_config_file: str = _GROUP.flag(
        "modeling/configs/bert_mini.json",
        "JSON file with the configuration of the model.",
    )
    vocab_file: str = _GROUP.flag(
        "vocab/english_uncased_30522.txt", "Uncased vocabulary."
    )
    text_file: str | None = _GROUP.optional(
        "Text with one sentence per line and an empty line between documents; "
        "by default Python's documentation."
    )
    peers: str | None = _GROUP.optional(
        "Python of an environment with torch, transformers and keras-hub; "
        "without it, they are not measured."
    )
    measurements: tuple[str, ...] = _GROUP.flag(
        MEASUREMENTS, "Measurements to make."
    )
    precision: str = _GROUP.flag(
        "mixed_bfloat16",
        "Data type of the matrix products of all contenders.",
        choices=("float32", "mixed_bfloat16"),
    )
    batch_size: int = _GROUP.count(32, "Sequences in a batch.")
    max_seq_length: int = _GROUP.count(128, "Tokens per sequence.")
    max_predictions_per_seq: int = _GROUP.count(
        20, "Masked tokens per sequence."
    )
    num_texts: int = _GROUP.count(872, "Number of lines to predict.")
    megabytes: float = _GROUP.flag(
        2.0,
        "Amount of text to tokenize and to create records from.",
        lower_bound=0.001,
    )
    rounds: int = _GROUP.count(5, "Number of measurements of each contender.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """The measurements; each method starts its contenders, by column.

    Attributes:
        options: of the command line.
        folder: of temporary files; `text.txt` is a part of the text.
    """

    options: Options
    folder: pathlib.Path

    def pretraining_step(self) -> _Contenders:
        """Forward, backward and update of one batch of random words."""
        return self._of_model(self._job("pretraining"))

    def fine_tuning_step(self) -> _Contenders:
        """The same for a classifier."""
        return self._of_model(self._job("fine_tuning"))

    def prediction(self) -> _Contenders:
        """Prediction of texts of mixed length, tokenized beforehand."""
        tokenizer = tokenization.FullTokenizer(self.options.vocab_file)
        texts = filter(str.strip, lines.read_lines(self.text_file))
        lengths = [
            len(tokenizer.tokenize(text)) + _SPECIAL_TOKENS
            for text in itertools.islice(texts, self.options.num_texts)
        ]
        longest = self.options.max_seq_length
        job = self._job(
            "prediction",
            lengths=[min(length, longest) for length in lengths],
            by_length=True,
        )
        return self._of_model(job)

    def tokenization(self) -> _Contenders:
        """Tokenization of the text, in processor seconds."""
        return self._tokenization("tokenization")

    def graph_tokenization(self) -> _Contenders:
        """The same with the tokenizer of exported models."""
        return self._tokenization("graph_tokenization")

    def data_creation(self) -> _Contenders:
        """Records of the text, one process, one shard, in processor seconds."""
        return {
            _OURS: contenders.Command(
                lambda folder: self._create_records(
                    self.text_file, f"{folder}/records"
                ),
                of_processor=True,
            ),
            _DEFINITION: contenders.Contender(
                "definition.data_creation", self._job("data_creation")
            ),
        }

    def start_up(self) -> _Contenders:
        """A run of one step, from launch to end, checkpoint included."""
        records = str(self.folder / "records")
        part = str(self.folder / "part.txt")
        _cut(self.text_file, part, _START_UP_BYTES)
        contenders.Command(lambda _: self._create_records(part, records)).turn()
        return {
            _OURS: contenders.Command(
                lambda folder: [
                    "run_pretraining.py",
                    f"--input_file={records}",
                    f"--bert_config_file={self.options.bert_config_file}",
                    *(f"--output_dir={folder}", "--do_train"),
                    *("--num_train_steps=1", "--num_warmup_steps=0"),
                    f"--precision={self.options.precision}",
                ]
            ),
            _FLOOR: contenders.Command(
                lambda _: ["-c", "import tensorflow, keras"]
            ),
        }

    def help(self) -> _Contenders:
        """The --help page of a script."""
        command = ["run_pretraining.py", "--help"]
        return {_OURS: contenders.Command(lambda _: command)}

    @property
    def text_file(self) -> str:
        """The path of the text to tokenize and to create records from."""
        return str(self.folder / "text.txt")

    def _job(self, kind: str, **more) -> contenders.Job:
        options = self.options
        config = pathlib.Path(options.bert_config_file)
        return contenders.Job(
            kind=kind,
            sizes=json.loads(config.read_text(encoding="utf-8")),
            batch_size=options.batch_size,
            max_seq_length=options.max_seq_length,
            max_predictions_per_seq=options.max_predictions_per_seq,
            precision=options.precision,
            text_file=self.text_file,
            vocab_file=str(pathlib.Path(options.vocab_file).resolve()),
            **more,
        )

    def _of_model(self, job: contenders.Job) -> _Contenders:
        """Starts all contenders that train a model or predict."""
        plain = dataclasses.replace(job, precision="float32", by_length=False)
        running = {
            _OURS: contenders.Contender("ours.this_project", job),
            **self._peer(_PEER, "peers.hugging_face", job),
            **self._peer(_PEER_DEFAULTS, "peers.hugging_face", plain),
        }
        if job.kind == "pretraining":
            running |= self._peer(_KERAS_HUB, "peers.keras_hub", job)
        return {**running, _FLOOR: contenders.Contender("ours.floor", job)}

    def _tokenization(self, kind: str) -> _Contenders:
        return {
            _OURS: contenders.Contender("ours.this_project", self._job(kind)),
            **self._peer(
                _PEER, "peers.hugging_face", self._job("tokenization")
            ),
        }

    def _peer(self, column: str, name: str, job: contenders.Job) -> _Contenders:
        """Starts a peer, if its environment is given."""
        if not self.options.peers:
            return {}
        peer = contenders.Contender(name, job, self.options.peers)
        if peer.absent is not None:
            logging.info("Without %s: %s", column, peer.absent)
        return {column: peer}

    def _create_records(self, text_file: str, output: str) -> list[str]:
        return [
            "create_pretraining_data.py",
            f"--input_file={text_file}",
            f"--vocab_file={self.options.vocab_file}",
            f"--output_file={output}",
        ]


def _cut(source: str, target: str, num_bytes: int) -> None:
    """Writes the start of a text, up to the end of a document."""
    with open(source, "rb") as file:
        text = file.read(num_bytes)
    end = text.rfind(b"\n\n") + 2
    pathlib.Path(target).write_bytes(text[:end] if end > 1 else text)


def row(name: str, medians: Mapping[str, float]) -> list[str]:
    """Formats this project's time, and the others as multiples of it."""
    ours = medians[_OURS]
    time = f"{ours:.2f} s" if ours >= 1 else f"{ours * 1e3:.1f} ms"
    ratios = [
        f"{medians[column] / ours:.2f}" if column in medians else ""
        for column in COLUMNS[1:]
    ]
    return [name, time, *ratios]


def _processor() -> str:
    path = pathlib.Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or platform.machine()
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    about = {name.strip(): value.strip() for name, _, value in pairs}
    present = about.get("flags", "").split()
    found = [flag for flag in _PROCESSOR_FLAGS if flag in present]
    return f"{about.get('model name', platform.machine())} ({' '.join(found)})"


def absolute(options: Options) -> Options:
    """Makes paths absolute; the commands run in the clone.

    A default is a file of the clone, from any folder.
    """
    found: dict[str, Any] = {}
    for name in ("bert_config_file", "vocab_file"):
        path = getattr(options, name)
        is_default = path == getattr(Options, name)
        folder = contenders.ROOT if is_default else pathlib.Path.cwd()
        found[name] = str(folder / path)
    return dataclasses.replace(options, **found)


def main(options: Options) -> None:
    """Runs the measurements of the options; writes the table.

    Raises:
        ValueError: a measurement is unknown.
        RuntimeError: a contender failed.
    """
    for name in options.measurements:
        messages.check_choice("--measurements", name, MEASUREMENTS)
    options = absolute(options)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options=options, folder=pathlib.Path(folder))
        text_file = options.text_file
        if text_file is None:
            text_file = f"{folder}/whole.txt"
            make = ["-m", "tools.prepare_corpus", "--input_format=python_docs"]
            contenders.Command(
                lambda _: [*make, f"--output_file={text_file}"]
            ).turn()
        _cut(text_file, bench.text_file, round(options.megabytes * 1e6))
        for name in options.measurements:
            running = getattr(bench, name)()
            medians = contenders.alternate(running, options.rounds)
            for contender in running.values():
                contender.close()
            rows.append(row(name, medians))
            logging.info("%s", " | ".join(rows[-1]))
    about = (
        f"{_processor()}; {options.precision}, batches of "
        f"{options.batch_size} x {options.max_seq_length}, "
        f"{pathlib.Path(options.bert_config_file).stem}"
    )
    table = scaling.table(["", *COLUMNS], rows)
    sys.stdout.write(f"{about}\n\n{table}")


if __name__ == "__main__":
    program.start(Options, main)

r"""Extraction of the hidden layers of a pre-trained model for lines of text.

Example:

  python extract_features.py \
    --input_file=sentences.txt --output_file=features.jsonl \
    --init_checkpoint=model --layers=-1,-2,-3,-4

Each line of the input is one text, or two separated by ` ||| `. Neither the
[CLS] vector of a pre-trained model nor --pooling=mean was trained for sentence
similarity.
"""

import collections
import dataclasses
import itertools
import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from absl import logging

from bert.commands import flags, program
from bert.files import (
    lines,
    paths,
    progress,
    row_files,
    tensorflow_start,
    writing,
)
from bert.models import folder as folder_lib
from bert.models import prepare
from bert.tasks import sentence_pairs, text_tables
from bert.tasks.embedding import text_vectors
from bert.training import options as training_options
from bert.training import workers
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    from bert.training import prediction

_VECTORS = flags.Heading("Vectors")
# Lines are sorted by length in windows of at most this many batches, and this
# many bytes of vectors.
_WINDOW_BATCHES = 32
_WINDOW_BYTES = 1 << 27
_FLOAT_BYTES = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_options.TpuOptions, training_options.ModelOptions):
    """The flags of this script; see --help."""

    input_file: flags.Path = flags.Group.FILES.required(
        "Input file: per line one text, or two separated by ` ||| `; or a "
        "table (.csv, .tsv, .jsonl, .parquet) with --text_a_column."
    )
    text_a_column: str | None = flags.Group.FILES.optional(
        "Column of the text of a table: its name, or its number from 0."
    )
    text_b_column: str | None = flags.Group.FILES.optional(
        "Column of the second text of a table, if any."
    )
    output_file: flags.Path = flags.Group.FILES.required(
        "File for the vectors."
    )
    output_format: str = flags.Group.FILES.flag(
        "jsonl",
        "jsonl: JSON lines as in the original; npz: arrays for numpy.load, in "
        "several parts.",
        choices=("jsonl", "npz"),
    )
    max_seq_length: int = flags.Group.TEXT.flag(
        128,
        "Maximum word pieces per line; the rest is truncated.",
        of_model=True,
        lower_bound=3,
    )
    layers: str = _VECTORS.flag(
        "-1,-2,-3,-4",
        "Comma-separated layer numbers: 0 for the lowest, -1 for the highest.",
    )
    pooling: str = _VECTORS.flag(
        "none",
        "none: one vector per token; word: that of the first token of each "
        "word between white space; mean, max: over all tokens; cls: that of "
        "[CLS], which does not represent its sentence without fine-tuning.",
        choices=("none", "word", "mean", "cls", "max"),
    )
    precision: str = flags.redeclare(
        training_options.TrainingOptions, "precision"
    )
    batch_size: int = flags.Group.SPEED.positive(
        32, "Global batch size, in lines."
    )
    use_one_hot_embeddings: bool = flags.Group.TPU.boolean(
        "Accepted as in the original's commands; has no effect."
    )

    def __post_init__(self) -> None:
        _ = self.layer_numbers  # The property checks the value.

    @property
    def layer_numbers(self) -> list[int]:
        """The numbers of the layers."""
        return text_vectors.parse_layers(self.layers)


def run(options: Options) -> None:
    """Writes the vectors of all lines, in input order.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: options, files and model are incompatible.
    """
    paths.check_readable(options.input_file)
    if text_tables.is_table(options.input_file) != (
        options.text_a_column is not None
    ):
        raise ValueError(
            f"{options.input_file}: a table (.csv, .tsv, .jsonl, .parquet) "
            "needs --text_a_column, and a file of lines has no columns; name "
            "a file of lines .txt."
        )
    prepared = prepare.open_model(options, flags.given())
    options, config = prepared.options, prepared.config
    config.check_length(options.max_seq_length)
    writing.check_files(
        [options.output_file],
        [options.input_file, options.vocab_file, options.bert_config_file],
    )
    tokenizer = prepared.read_tokenizer()
    text_vectors.check_layers(options.layer_numbers, config.num_hidden_layers)
    hidden_layers = _load_model(options, config, prepared.run)
    num_numbers = len(options.layer_numbers) * config.hidden_size
    if options.pooling in ("none", "word"):
        num_numbers *= options.max_seq_length
    most = min(
        _WINDOW_BATCHES * options.batch_size,
        _WINDOW_BYTES // (num_numbers * _FLOAT_BYTES),
    )
    most = max(most, options.batch_size)
    _write(options, _vectors(options, config, tokenizer, hidden_layers, most))


def _vectors(
    options: Options,
    config: config_lib.BertConfig,
    tokenizer: tokenization.FullTokenizer,
    hidden_layers: "prediction.HiddenLayers",
    num_lines_in_window: int,
) -> Iterator[list[text_vectors.Vectors]]:
    """Yields the vectors of windows of lines, in the order of the input."""
    truncation = sentence_pairs.Truncation(
        max_seq_length=options.max_seq_length
    )
    with_words = options.pooling == "word"
    counts = sentence_pairs.TruncationCounts()
    prepared = (
        text_vectors.prepare(
            index,
            text,
            truncation,
            tokenizer,
            with_words=with_words,
            counts=counts,
        )
        for index, text in enumerate(_texts(options))
    )
    report = progress.Progress()
    num_lines = num_cut_words = 0
    while window := list(itertools.islice(prepared, num_lines_in_window)):
        part = []
        for line in window:
            config.check_segments(line.segment_ids)
        # Lines of similar length are in one batch.
        in_order = sorted(window, key=lambda line: len(line.tokens))
        for start in range(0, len(window), options.batch_size):
            batch = in_order[start : start + options.batch_size]
            outputs = hidden_layers.compute(
                [line.input_ids for line in batch],
                [line.segment_ids for line in batch],
                options.max_seq_length,
                pad_to_max_length=options.use_tpu,
            )
            part += [
                text_vectors.reduce(
                    line, values[: len(line.tokens)], options.pooling
                )
                for line, values in zip(batch, outputs, strict=True)
            ]
            report("lines", num_lines + len(part))
        num_lines += len(part)
        num_cut_words += sum(
            place < 0 for line in window for place in line.first_tokens
        )
        yield sorted(part, key=operator.attrgetter("index"))
    counts.log(options.input_file, options.max_seq_length, "--max_seq_length")
    if num_cut_words:
        logging.warning(
            "%s words have no vector: they were truncated at "
            "--max_seq_length, or contain no visible character.",
            f"{num_cut_words:,}",
        )


def _texts(options: Options) -> Iterator[tuple[str, str]]:
    """Yields the texts of each line or row; the second is "" without one."""
    if options.text_a_column is None:
        yield from map(
            sentence_pairs.split_pair, lines.read_lines(options.input_file)
        )
        return
    columns = {"text_a": options.text_a_column}
    if options.text_b_column is not None:
        columns["text_b"] = options.text_b_column
    for place, row in text_tables.read(options.input_file, columns, {}):
        if isinstance(row, ValueError):
            raise row
        try:
            first, *second = map(row_files.text, row.values())
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        yield first, "".join(second)


def _load_model(
    options: Options,
    config: config_lib.BertConfig,
    folder: folder_lib.ModelFolder,
) -> "prediction.HiddenLayers":
    tensorflow_start.load()
    from bert.training import devices, prediction, warm_start
    from modeling import bert

    strategy = devices.prepare(options)
    with strategy.scope(), folder.open_weights() as source:
        model = bert.BertModel(config)
        # No hidden layer depends on the pooler.
        warm_start.load_for_evaluation(model, source)
    return prediction.HiddenLayers(
        strategy,
        model,
        options.layer_numbers,
        options.batch_size,
        devices.execution_mode(strategy),
    )


def _write(
    options: Options, parts: Iterable[list[text_vectors.Vectors]]
) -> None:
    if not workers.is_chief():
        # Only the chief writes the output of all workers.
        collections.deque(parts, maxlen=0)
        return
    write = {
        "jsonl": text_vectors.write_json_lines,
        "npz": text_vectors.write_npz,
    }[options.output_format]
    with writing.whole_file(options.output_file, "wb") as file:
        write(file, options.layer_numbers, parts)
    logging.info("Wrote %s.", options.output_file)


if __name__ == "__main__":
    program.start(Options, run)

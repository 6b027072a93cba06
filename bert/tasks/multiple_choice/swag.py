"""SWAG and other multiple-choice data sets.

Source: Zellers et al. 2018, "SWAG"; Devlin et al. 2019, section 4.4. For each
ending, A is the preceding sentence, and B is the start of the next sentence
followed by that ending.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
from absl import logging

from bert.commands import flags
from bert.files import row_files
from bert.records import schema
from bert.tasks import sentence_pairs, task
from bert.tasks.classification import class_labels, predictions
from vocab import tokenization

_LABEL = "label"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of the endings; other columns have SWAG's names."""

    ending_columns: tuple[str, ...] = flags.Group.FILES.flag(
        ("ending0", "ending1", "ending2", "ending3"),
        "Columns of the choices, any number of them. The text before is in "
        "sent1, the start of every choice in sent2, and label is the number of "
        "the right one, from 0.",
        of_model=True,
    )

    def label_set(self) -> class_labels.LabelSet:
        """Returns the labels, the numbers of the endings from 0."""
        places = map(str, range(len(self.ending_columns)))
        return class_labels.LabelSet(names=tuple(places), missing=())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """A row of a file.

    Attributes:
        first: the preceding sentence.
        second: text before every ending; may be empty.
        endings: C texts, some of which may be empty.
        label_id: index of the correct ending; 0 if unknown.
    """

    first: str
    second: str
    endings: tuple[str, ...]
    label_id: int = 0


def read_examples(
    path: str, columns: Columns, *, with_labels: bool
) -> Iterator[Example]:
    """Yields the rows of a file.

    Args:
        path: a .csv, .tsv or .jsonl file, UTF-8; its first row, except in JSON
            Lines, has the column names.
        columns: those of the choices.
        with_labels: whether to read the labels.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a column is missing, the file has no row, a label is
            unknown, or a row cannot be read; names the file and the line.
    """
    texts = ("sent1", "sent2", *columns.ending_columns)
    label_set = columns.label_set()
    row = None
    for row in row_files.read_rows(
        path,
        (*texts, _LABEL) if with_labels else texts,
        has_header=True,
        same_width=True,
    ):
        first, second, *endings = (
            row.read(column, row_files.text) for column in texts
        )
        label_id = 0
        if with_labels:
            label = row.read(_LABEL, label_set.parse)
            label_id = label_set.ids[str(label)]
        yield Example(
            first=first,
            second=second,
            endings=tuple(endings),
            label_id=label_id,
        )
    if row is None:
        raise ValueError(f"{path}: the file has no examples.")


def has_labels(path: str, columns: Columns) -> bool:
    """Returns whether each row of a file to predict has a label.

    Warns of a file with labels in some rows, or with others: it has no score.
    """
    label_set = columns.label_set()
    has_labels = False
    for row in row_files.read_rows(path, has_header=True, optional=(_LABEL,)):
        if not row.has(_LABEL):
            return False
        try:
            row.read(_LABEL, label_set.parse)
        except row_files.ColumnError as error:
            if has_labels or not label_set.is_missing(row.cell(_LABEL)):
                logging.warning("%s No row has a test score.", error)
            return False
        has_labels = True
    return has_labels


def example_record(
    example: Example,
    truncation: sentence_pairs.Truncation,
    tokenizer: tokenization.FullTokenizer,
    counts: sentence_pairs.TruncationCounts | None = None,
) -> task.Record:
    """Converts an example to C sequences: [CLS] A [SEP] B [SEP].

    Long sequences are truncated at the end of their longer text.

    Args:
        example: the row.
        truncation: sets T.
        tokenizer: of the model.
        counts: counts the example.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, each `[C, T]` int64, and
        `label_ids`, the index of the correct choice.
    """
    first = tokenizer.tokenize(example.first)
    second = tokenizer.tokenize(example.second)
    # These are the pieces of both texts joined by a space.
    pairs = [
        (first, second + tokenizer.tokenize(ending))
        for ending in example.endings
    ]
    rows = sentence_pairs.encode(pairs, truncation, tokenizer, counts)
    record = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {**record, "label_ids": [example.label_id]}


def records(
    examples: Iterable[Example],
    truncation: sentence_pairs.Truncation,
    tokenizer: tokenization.FullTokenizer,
    name: str,
) -> Iterator[list[task.Record]]:
    """Yields the one record of each example; logs how many were cut.

    `name` is that of the data set.
    """
    counts = sentence_pairs.TruncationCounts()
    for example in examples:
        yield [example_record(example, truncation, tokenizer, counts)]
    counts.log(name, truncation.max_seq_length, "--max_seq_length")


def prediction_lines(
    label_set: class_labels.LabelSet, outputs: np.ndarray
) -> Iterator[str]:
    """Yields the lines of predictions.csv.

    Source: the prediction files of the authors of SWAG: a header, then the row
    number, from 0, and the chosen ending.

    Args:
        label_set: the labels, in the order of the endings.
        outputs: `[E, C]` float, probabilities.
    """
    yield ",pred\n"
    for index, name in enumerate(
        predictions.predicted_labels(label_set, outputs)
    ):
        yield f"{index},{name}\n"


def record_features(
    max_seq_length: int, num_choices: int
) -> tuple[schema.Feature, ...]:
    """Returns the features of records: one sequence for each choice.

    Args:
        max_seq_length: T, tokens of a sequence.
        num_choices: C.
    """
    return (
        *schema.sequence_features((num_choices, max_seq_length)),
        schema.LABEL,
    )

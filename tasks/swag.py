"""SWAG, and other sets of one right ending among several.

Source: Zellers et al. 2018, "SWAG"; Devlin et al. 2019, section 4.4: for each
ending, the sentence before as A, the start of the next with that ending as B.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from files import wording
from tasks import tables
from tasks.classification import labels, predictions, sentence_pairs

_FORMATS = {".tsv": tables.TSV, ".jsonl": tables.JSONL}  # else CSV


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a file, by name; the defaults are those of SWAG.

    Attributes:
        first: the sentence before.
        second: what B begins with; empty if the endings are all of it.
        endings: the choices, C of them.
        label: which ending is right.
        label_names: what that column holds for each ending, in order; their
            places, from 0, if none are given.

    Raises:
        ValueError: there are fewer than two endings, one has two labels, or
            the names of the labels are not one for each ending.
    """

    first: str = "sent1"
    second: str = "sent2"
    endings: tuple[str, ...] = ("ending0", "ending1", "ending2", "ending3")
    label: str = "label"
    label_names: tuple[str, ...] = ()

    def __post_init__(self):
        if len(self.endings) < 2 or len(set(self.endings)) < len(self.endings):
            raise ValueError(
                "There must be at least two different ending columns; got "
                f"{', '.join(self.endings) or 'none'}."
            )
        if self.label_names and len(self.label_names) != len(self.endings):
            raise ValueError(
                f"Each of the {len(self.endings)} ending columns must have one "
                f"label name; got {', '.join(self.label_names)}."
            )

    def label_set(self) -> labels.LabelSet:
        """Returns the labels, in the order of the endings."""
        places = map(str, range(len(self.endings)))
        return labels.LabelSet(names=self.label_names or tuple(places))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """A row of a file.

    Attributes:
        first: the sentence before.
        second: what every ending follows; may be empty.
        endings: the choices, C texts, of which some may be empty.
        label_id: the place of the right one; 0 where it is not known.
    """

    first: str
    second: str
    endings: tuple[str, ...]
    label_id: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Features:
    """The numbers of an example: C sequences, and a label.

    Attributes:
        input_ids, input_mask, segment_ids: `[C, T]` int64.
        label_id: the place of the right choice.
        is_cut: whether a sequence did not fit.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    label_id: int
    is_cut: bool


def read_examples(
    path: str, layout: Layout, *, with_labels: bool
) -> Iterator[Example]:
    """Yields the rows of a file: CSV, or by its name .tsv or .jsonl.

    Args:
        path: the file, UTF-8, whose first row names the columns.
        layout: its columns.
        with_labels: whether to read the labels.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it lacks a column or has no row, or a label is none of
            those there are, or a row cannot be read; names the file and the
            line.
    """
    file_format = _FORMATS.get(os.path.splitext(path)[1], tables.CSV)
    table = tables.open_table(
        path, file_format, has_header=True, same_width=True
    )
    first, second = (
        table.find(name) if name else None
        for name in (layout.first, layout.second)
    )
    label = table.find(layout.label) if with_labels else None
    endings = [table.find(name) for name in layout.endings]
    label_set = layout.label_set()
    row = None
    for row in table.rows:
        label_id = 0
        if with_labels:
            label_id = _label_id(table, row, label, label_set)
        yield Example(
            first=_text(table, row, first),
            second=_text(table, row, second),
            endings=tuple(_text(table, row, ending) for ending in endings),
            label_id=label_id,
        )
    if row is None:
        raise ValueError(f"{path}: the file holds no example.")


def _text(
    table: tables.Table, row: tables.Row, column: tables.Column | None
) -> str:
    if column is None:
        return ""
    text = table.cell(row, column)
    if not isinstance(text, str):
        raise ValueError(
            f"{table.place(row, column)}: a text must be a string; "
            f"got {wording.shown(text)}."
        )
    return text


def _label_id(
    table: tables.Table,
    row: tables.Row,
    column: tables.Column,
    label_set: labels.LabelSet,
) -> int:
    value = table.cell(row, column)
    try:
        return label_set.encode(label_set.parse(value))
    except ValueError as error:
        raise ValueError(
            f"{table.place(row, column)}: the label must name one of the "
            f"endings: {error}"
        ) from error


def convert_example(
    example: Example,
    packing: sentence_pairs.Packing,
    tokenizer: sentence_pairs.Tokenizer,
) -> Features:
    """Turns an example into C sequences: [CLS] A [SEP] B [SEP].

    A sequence that is too long loses tokens at the end of its longer text.

    Args:
        example: the row.
        packing: T.
        tokenizer: of the model's vocabulary.
    """
    length = packing.max_seq_length
    shape = (len(example.endings), length)
    input_ids, input_mask, segment_ids = np.zeros((3, *shape), np.int64)
    first = tokenizer.tokenize(example.first)
    second = tokenizer.tokenize(example.second)
    is_cut = False
    for choice, ending in enumerate(example.endings):
        # The same pieces as of both texts with a space between them.
        tokens_b = second + tokenizer.tokenize(ending)
        ((kept_a, kept_b),) = sentence_pairs.fit(first, tokens_b, packing)
        tokens, segments = sentence_pairs.join(kept_a, kept_b)
        is_cut |= len(kept_a) + len(kept_b) < len(first) + len(tokens_b)
        ids = tokenizer.convert_tokens_to_ids(tokens)
        input_ids[choice, : len(ids)] = ids
        input_mask[choice, : len(ids)] = 1
        segment_ids[choice, : len(ids)] = segments
    return Features(
        input_ids=input_ids,
        input_mask=input_mask,
        segment_ids=segment_ids,
        label_id=example.label_id,
        is_cut=is_cut,
    )


def to_records(
    examples: Iterable[Example],
    packing: sentence_pairs.Packing,
    tokenizer: sentence_pairs.Tokenizer,
) -> Iterator[dict[str, Any]]:
    """Yields the values of each example by name; logs how many were cut."""
    num_examples = num_cut = 0
    for example in examples:
        features = convert_example(example, packing, tokenizer)
        num_examples += 1
        num_cut += features.is_cut
        yield {
            "input_ids": features.input_ids,
            "input_mask": features.input_mask,
            "segment_ids": features.segment_ids,
            "label_ids": [features.label_id],
        }
    if num_cut:
        logging.warning(
            "%d of %d examples have a choice of more than %d tokens, which "
            "was cut; see --max_seq_length",
            *(num_cut, num_examples, packing.max_seq_length),
        )


def prediction_lines(
    label_set: labels.LabelSet, outputs: Sequence[Any]
) -> Iterator[str]:
    """Yields the lines of predictions.csv.

    Source: the predictions that the authors of SWAG write: a header, then the
    number of the row, from 0, and the chosen ending.

    Args:
        label_set: the labels, in the order of the endings.
        outputs: `[E, C]` float, probabilities.
    """
    yield ",pred\n"
    for index, name in enumerate(predictions.answers(label_set, outputs)):
        yield f"{index},{name}\n"

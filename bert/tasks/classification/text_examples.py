"""Examples of texts and pairs with their labels, and their records."""

import dataclasses
from collections.abc import Iterable, Iterator

from bert.records import schema
from bert.tasks import sentence_pairs
from bert.tasks.classification import class_labels
from vocab import tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputExample:
    """An example of a classification task.

    Args:
        text_a: the first, or only, sentence.
        text_b: the second; None or empty for a single sentence.
        label: as parsed by its `LabelSet`; None if unknown.
        row: its row in the file, from 0 without the header.
    """

    text_a: str
    text_b: str | None = None
    label: class_labels.Label | None = None
    row: int = 0

    @property
    def texts(self) -> dict[str, str]:
        """The texts by name, for result files."""
        if self.text_b is None:
            return {"text_a": self.text_a}
        return {"text_a": self.text_a, "text_b": self.text_b}


def records(
    examples: Iterable[InputExample],
    label_set: class_labels.LabelSet,
    truncation: sentence_pairs.Truncation,
    tokenizer: tokenization.FullTokenizer,
    name: str,
) -> Iterator[list[dict[str, list[int] | list[float]]]]:
    """Yields the records of each example, in order; logs how many were cut.

    If an example can have several (`windows`), `predictions.pool_windows` needs
    their number.

    Args:
        examples: the examples.
        label_set: their labels.
        truncation: how their texts are fitted into `T` tokens.
        tokenizer: of the model.
        name: that of the data set.

    Yields:
        `input_ids`, `input_mask` and `segment_ids` `[T]`; `label_ids`: an
        integer for a class (as released), a float for a score, `K` floats, each
        0 or 1, for several labels; `is_real_example`, always 1, for readers of
        the release's records.
    """
    counts = sentence_pairs.TruncationCounts()
    for example in examples:
        # As released: an empty or blank second text makes a single sentence.
        pair = (
            tokenizer.tokenize(example.text_a),
            tokenizer.tokenize(example.text_b or ""),
        )
        label = example.label
        label_id = label_set.encode(
            label_set.placeholder if label is None else label
        )
        label_ids = (
            list(label_id) if isinstance(label_id, tuple) else [label_id]
        )
        yield [
            {**row, "label_ids": label_ids, "is_real_example": [1]}
            for row in sentence_pairs.encode(
                [pair], truncation, tokenizer, counts
            )
        ]
    flags = "--max_seq_length and --long_text"
    counts.log(name, truncation.max_seq_length, flags)


def record_features(
    max_seq_length: int, label: schema.Feature
) -> tuple[schema.Feature, ...]:
    """Returns the features of records of texts and pairs.

    Source: run_classifier.py of the release, for one class per text.

    Args:
        max_seq_length: T, tokens of a record.
        label: the feature of the labels.
    """
    return (
        *schema.labeled_features(max_seq_length, label),
        schema.Feature(name="is_real_example", shape=(1,)),
    )

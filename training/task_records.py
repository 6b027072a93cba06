"""Records of the examples of a task, made once and used again."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from training import input_pipeline, record_cache, records

# Yields the records of each example.
Examples = Callable[[], Iterable[Sequence[Mapping[str, Any]]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskRecords:
    """The records of one file, and which of them are of one example.

    Attributes:
        source: the records, `R` of them.
        rows_per_example: `[E]` int64, more than 1 for text in windows; 0 for
            a question without text.
    """

    source: input_pipeline.RecordSource
    rows_per_example: np.ndarray


def make_or_reuse(
    path: str,
    features: Sequence[records.Feature],
    made_from: records.Metadata,
    examples: Examples,
) -> TaskRecords:
    """Writes the records of a file, unless they are there already.

    Args:
        path: of the record file.
        features: what a record holds.
        made_from: what the records depend on; its `num_records` is filled in.
        examples: yields the records of each example, any number of them;
            asked only if they are to be written.

    Raises:
        ValueError: there is no record, or an example cannot be read.
    """
    cached = record_cache.make_or_reuse(path, features, made_from, examples)
    return TaskRecords(
        source=input_pipeline.RecordSource(
            files=cached.files,
            features=features,
            vocab_size=made_from.vocab_size,
        ),
        rows_per_example=cached.rows_per_example,
    )

"""Records of examples that have a label each: texts, or sets of choices."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from training import objectives, record_cache, records, task_records

# How records hold labels.
_LABEL_DTYPES = {
    objectives.SINGLE_LABEL: "int64",
    objectives.MULTI_LABEL: "float32",
    objectives.REGRESSION: "float32",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledRecords(task_records.TaskRecords):
    """The records of one file, and the labels of its examples.

    Attributes:
        label_ids: `[E]` or, for several labels, `[E, K]`.
    """

    label_ids: np.ndarray


def text_features(
    max_seq_length: int, problem_type: str, num_outputs: int
) -> tuple[records.Feature, ...]:
    """Describes the records of texts, or pairs, with labels.

    Args:
        max_seq_length: tokens of a record, T.
        problem_type: one of `objectives.PROBLEM_TYPES`.
        num_outputs: K, the width of the output layer.
    """
    several = problem_type == objectives.MULTI_LABEL
    return records.classification_features(
        max_seq_length,
        num_labels=num_outputs if several else 1,
        label_dtype=_LABEL_DTYPES[problem_type],
    )


def choice_features(
    max_seq_length: int, num_choices: int
) -> tuple[records.Feature, ...]:
    """Describes the records of choices: one sequence for each of them.

    Args:
        max_seq_length: tokens of a sequence, T.
        num_choices: C.
    """
    sequences = (num_choices, max_seq_length)
    return (
        records.Feature(name="input_ids", shape=sequences),
        records.Feature(name="input_mask", shape=sequences),
        records.Feature(name="segment_ids", shape=sequences),
        records.Feature(name="label_ids", shape=(1,)),
    )


def make_or_reuse(
    path: str,
    features: Sequence[records.Feature],
    made_from: records.Metadata,
    examples: task_records.Examples,
    *,
    has_several_labels: bool = False,
) -> LabelledRecords:
    """Writes the records of a file, unless they are there already.

    Args:
        path: of the record file.
        features: what a record holds, `label_ids` among it.
        made_from: what the records depend on; its `num_records` is filled in.
        examples: yields the records of each example, one or more.
        has_several_labels: whether an example may have any number of labels.

    Raises:
        ValueError: there is no example, or one cannot be read.
    """
    made = task_records.make_or_reuse(path, features, made_from, examples)
    (label,) = (f for f in features if f.name == "label_ids")
    of_rows = record_cache.values(made.source.files, label)  # [R, 1] or [R, K]
    counts = made.rows_per_example
    label_ids = of_rows[np.cumsum(counts) - counts]  # [E, 1] or [E, K]
    return LabelledRecords(
        source=made.source,
        rows_per_example=counts,
        label_ids=label_ids if has_several_labels else label_ids[:, 0],
    )

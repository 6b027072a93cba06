"""Records of texts with labels, made once, and how they answer together."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from training import fine_tuning, input_pipeline, record_cache, records

# How records hold labels.
_LABEL_DTYPES = {
    fine_tuning.SINGLE_LABEL: "int64",
    fine_tuning.MULTI_LABEL: "float32",
    fine_tuning.REGRESSION: "float32",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labelling:
    """What the labels are.

    Attributes:
        problem_type: one of `fine_tuning.PROBLEM_TYPES`.
        num_outputs: K, the width of the output layer.
    """

    problem_type: str
    num_outputs: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledRecords:
    """The records of one file of texts.

    Attributes:
        source: the records, `R` of them.
        rows_per_example: `[E]` int64, more than 1 for text in windows.
        label_ids: `[E]` or, for several labels, `[E, K]`.
        order: `[R]`, in which prediction reads the records, longest first;
            file order if None.
    """

    source: input_pipeline.RecordSource
    rows_per_example: np.ndarray
    label_ids: np.ndarray
    order: np.ndarray | None = None

    def by_length(self) -> Self:
        """Has prediction put records of like length in a batch, and cut it."""
        return dataclasses.replace(
            self,
            source=dataclasses.replace(self.source, trim=True),
            order=np.argsort(-self.source.lengths(), kind="stable"),
        )


def make_or_reuse(
    path: str,
    labelling: Labelling,
    text: Mapping[str, Any],
    made_from: Mapping[str, Any],
    examples: Callable[[], Iterable[Sequence[Mapping[str, Any]]]],
) -> LabelledRecords:
    """Writes the records of a file of texts, unless they are there already.

    Args:
        path: of the record file.
        labelling: what the labels are.
        text: how text is read: `max_seq_length`, `vocab_size`,
            `vocab_sha256`, `do_lower_case`.
        made_from: what else the records depend on, values as JSON has them.
        examples: yields the records of each example, one or more.

    Raises:
        ValueError: there is no example, or one cannot be read.
    """
    several = labelling.problem_type == fine_tuning.MULTI_LABEL
    features = records.classification_features(
        text["max_seq_length"],
        num_labels=labelling.num_outputs if several else 1,
        label_dtype=_LABEL_DTYPES[labelling.problem_type],
    )
    cached = record_cache.make_or_reuse(
        path,
        features,
        records.Metadata(
            kind="classification", num_records=0, flags=made_from, **text
        ),
        examples,
    )
    (label,) = (f for f in features if f.name == "label_ids")
    label_ids = record_cache.values(cached.files, label)  # [R, 1] or [R, K]
    counts = cached.rows_per_example
    label_ids = label_ids[np.cumsum(counts) - counts]  # [E, 1] or [E, K]
    return LabelledRecords(
        source=input_pipeline.RecordSource(
            files=cached.files,
            features=features,
            vocab_size=text["vocab_size"],
        ),
        rows_per_example=counts,
        label_ids=label_ids if several else label_ids[:, 0],
    )

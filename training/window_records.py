"""Records of windows over paragraphs, made once and used again."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from training import input_pipeline, record_cache, records


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowRecords:
    """The windows of questions.

    Attributes:
        source: the records, `R` of them.
        rows_per_example: `[E]` int64, how many windows each question has.
    """

    source: input_pipeline.RecordSource
    rows_per_example: np.ndarray


def make_or_reuse(
    path: str,
    text: Mapping[str, Any],
    made_from: Mapping[str, Any],
    examples: Callable[[], Iterable[Sequence[Mapping[str, Any]]]],
    *,
    is_training: bool,
) -> WindowRecords:
    """Writes the windows of questions, unless they are there already.

    Args:
        path: of the record file.
        text: how text is read: `max_seq_length`, `vocab_size`,
            `vocab_sha256`, `do_lower_case`.
        made_from: what else the records depend on, values as JSON has them.
        examples: yields the records of each question, possibly none.
        is_training: whether they hold the place of the answer.

    Raises:
        ValueError: there is no window.
    """
    features = records.squad_features(
        text["max_seq_length"], is_training=is_training
    )
    cached = record_cache.make_or_reuse(
        path,
        features,
        records.Metadata(
            kind="squad training" if is_training else "squad prediction",
            num_records=0,
            flags=made_from,
            **text,
        ),
        examples,
    )
    return WindowRecords(
        source=input_pipeline.RecordSource(
            files=cached.files,
            features=features,
            vocab_size=text["vocab_size"],
        ),
        rows_per_example=cached.rows_per_example,
    )

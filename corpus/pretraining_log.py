"""What the making of pre-training data tells while it goes on."""

import os
from collections.abc import Iterable

from absl import logging

from corpus import preparation, pretraining_shards, progress
from files import paths
from tasks.masked_lm import data_warnings

_COMPRESSED = (".xz", ".gz", ".bz2", ".tgz", ".txz", ".tbz2")


def follow(
    reports: Iterable[pretraining_shards.Report], text: pretraining_shards.Text
) -> pretraining_shards.Report:
    """Logs what becomes of shards, how far they are, and the end.

    Args:
        reports: of each shard, as they are made.
        text: what they are made from.

    Returns:
        The sum of the reports.

    Raises:
        ValueError: there was no sentence in the text.
    """
    for path in text.paths:
        logging.info("Reading %s", path)
    size = _size(text)
    bar = progress.Progress("Making shards")
    total = pretraining_shards.Report()
    for report in reports:
        _log_shard(report, total.num_shards, text)
        total.add(report)
        if text.is_sharded and size:
            bar.update(
                min(total.num_bytes / size, 1), f"{total.num_shards} shards"
            )
    if not total.num_documents and not total.num_reused:
        # Differs: the release goes on and writes files without a record, which
        # training only then fails on (README, Differences from the release).
        raise ValueError(
            "The input must hold at least one sentence; there is none in "
            f"{', '.join(text.paths)}."
        )
    _log_total(total, text)
    return total


def _size(text: pretraining_shards.Text) -> int:
    """Sums the bytes of the files; 0 where that is not the size of the text."""
    if any(
        paths.is_remote(path) or path.endswith(_COMPRESSED)
        for path in text.paths
    ):
        return 0
    return sum(map(os.path.getsize, text.paths))


def _log_shard(
    report: pretraining_shards.Report,
    number: int,
    text: pretraining_shards.Text,
) -> None:
    for example in report.examples:
        logging.info("*** Example ***")
        logging.info("tokens: %s", " ".join(example.tokens))
        for name, values in example.features.items():
            logging.info("%s: %s", name, " ".join(map(str, values)))
    if report.num_reused:
        logging.info("%d shards were there already.", report.num_reused)
    elif text.is_sharded and not report.num_documents:
        logging.warning(
            "Shard %d has no sentence: no file is written for it.", number
        )
    for path, count in report.records.items():
        logging.info("Wrote %d records to %s", count, path)


def _log_total(
    total: pretraining_shards.Report, text: pretraining_shards.Text
) -> None:
    logging.info(
        "Read %d files: %d documents, %d sentences.",
        len(text.paths),
        total.num_documents,
        total.num_sentences,
    )
    if total.num_tokenless:
        logging.warning(
            "Left out %d sentences without a token, such as those of control "
            "characters.",
            total.num_tokenless,
        )
    if text.rules is not None:
        logging.info(
            "%s", preparation.describe_dropped(total.dropped, text.rules)
        )
    logging.info(
        "Made %d instances, %.1f %% of them with a random next.",
        total.num_instances,
        100 * total.num_random_next / max(1, total.num_instances),
    )
    if total.num_reused:
        return  # What is known is not of the whole text.
    for warning in (
        *data_warnings.corpus_warnings(total.num_documents),
        *data_warnings.random_next_warnings(
            total.num_random_next, total.num_instances
        ),
    ):
        logging.warning("%s", warning)

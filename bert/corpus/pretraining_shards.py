"""Pre-training data in shards that are created independently.

A single shard is the complete text, as in the original. With several, memory
holds one shard per process, whatever the size of the text. Shard k contains the
original's result for its documents with the seed `random_seed + k`. It depends
on nothing else, so any number of processes or machines give the same records.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator

from absl import logging

from bert.corpus import formats, preparation
from bert.files import paths, progress
from bert.records import shard_files
from bert.tasks.pretraining import (
    encoded_corpus,
    instance_options,
    masked_pairs,
)
from vocab import word_memory

# Number and documents: a list, or for a single shard a one-pass iterator.
Shard = tuple[int, Iterable[formats.Document]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputText:
    """Input text and its division into shards.

    Attributes:
        paths: the files, in order.
        rules: for reading and splitting raw text; None for one sentence per
            line, read as in the release.
        shard_documents: documents per shard; 0 for all.
    """

    paths: tuple[str, ...]
    rules: formats.Rules | None = None
    shard_documents: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """Picklable settings for creating records from text.

    Attributes:
        vocab_file: one token per line.
        do_lower_case: must match the vocabulary.
        strip_accents: None: as `do_lower_case`.
        options: for creating instances; with the seed of shard 0.
        rules: see `InputText`.
        store: writes the records.
    """

    vocab_file: str
    do_lower_case: bool
    strip_accents: bool | None = None
    options: instance_options.InstanceOptions
    rules: formats.Rules | None
    store: shard_files.ShardFiles


@dataclasses.dataclass(kw_only=True)
class ShardCounts:
    """Counts of one created shard or of several.

    Attributes:
        counts: of "shards"; of those among them that are "reused", which
            contribute no other counts, or "single", of one document; and of
            "documents", "sentences", "instances" and "random_next" pairs.
        dropped: the text that was dropped, by the words for it in the log.
        records: number of records per path.
    """

    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    dropped: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    records: dict[str, int] = dataclasses.field(default_factory=dict)


def read_documents(text: InputText) -> Iterator[formats.Document]:
    """Yields the documents of all files, in order.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file is not in its format; names the file.
    """
    if text.rules:
        yield from formats.read_documents(text.paths, text.rules)
        return
    for sentences in encoded_corpus.read_documents(text.paths):
        yield formats.Document(lines=sentences)


def read_shards(text: InputText) -> Iterator[Shard]:
    """Yields the shards; raises errors as `read_documents` does."""
    documents = read_documents(text)
    if not text.shard_documents:
        yield 0, documents
        return
    for number in itertools.count():
        shard = list(itertools.islice(documents, text.shard_documents))
        if not shard:
            return
        yield number, shard


def make_shard(
    settings: ShardSettings,
    shard: Shard,
    on_progress: Callable[[float], None] = lambda share: None,
) -> ShardCounts:
    """Creates the records of a shard, unless they exist already.

    Args:
        settings: the settings.
        shard: its number and documents. A list allows reuse of existing
            records; a one-pass iterator is always processed.
        on_progress: called with the fraction done, 0 to 1.

    Returns:
        The counts. If the text has no sentence, it has no "documents" and the
        shard has no file.
    """
    number, documents = shard
    report, digest = ShardCounts(), hashlib.sha256()
    hashed: Iterable[formats.Document] = _hashed(documents, digest.update)
    if isinstance(documents, list):
        hashed = list(hashed)
        if settings.store.holds(number, digest.hexdigest()):
            report.counts.update(shards=1, reused=1)
            return report
    tokenizer = _tokenizer(
        settings.vocab_file,
        settings.do_lower_case,
        settings.strip_accents,
        paths.sha256(settings.vocab_file),
    )
    corpus = encoded_corpus.encode_documents(
        _sentences(hashed, settings.rules, report.dropped), tokenizer.encode
    )
    report.dropped[
        "sentences without a token, such as those of control characters"
    ] += corpus.num_tokenless
    report.counts.update(
        shards=1,
        single=int(corpus.num_documents == 1),
        documents=corpus.num_documents,
        sentences=corpus.num_sentences,
    )
    if not corpus.num_documents:
        settings.store.remove(number)
        return report
    instances = masked_pairs.create_instances(
        corpus,
        tokenizer.vocab,
        settings.options,
        random.Random(settings.options.random_seed + number),
        on_progress,
    )
    report.counts.update(
        instances=len(instances), random_next=instances.num_random_next()
    )
    report.records = settings.store.write(
        number, instances.batches(), digest.hexdigest()
    )
    return report


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocab_file: str,
    do_lower_case: bool,
    strip_accents: bool | None,
    sha256: str,
) -> word_memory.WordMemory:
    # One per process: its cache of words is valid for all shards while the
    # contents of the file are the same.
    del sha256
    return word_memory.WordMemory(vocab_file, do_lower_case, strip_accents)


def _sentences(
    documents: Iterable[formats.Document],
    rules: formats.Rules | None,
    dropped: collections.Counter[str],
) -> Iterator[list[str]]:
    if rules is None:
        yield from (document.lines for document in documents)
        return
    for document in documents:
        prepared = preparation.prepare_batch(rules, [document])
        dropped.update(prepared.dropped)
        for text in prepared.texts:
            yield text.removesuffix("\n").split("\n")


def _hashed(
    documents: Iterable[formats.Document], digest: Callable[[bytes], None]
) -> Iterator[formats.Document]:
    for document in documents:
        lines = document.lines
        if document.title is not None:
            lines = [document.title, *lines]
        text = "\n".join(lines).encode("utf-8", "surrogatepass")
        digest(b"%d\n" % len(text))
        digest(text)
        yield document


# -------------------------------------------------------------------- The log


def log_reports(reports: Iterable[ShardCounts], text: InputText) -> None:
    """Logs the progress and the totals of shards.

    Args:
        reports: one per shard, as they are completed, or one for all.
        text: the input.

    Raises:
        ValueError: the text has no sentence.
    """
    log_progress = progress.Progress()
    total = ShardCounts()
    for report in reports:
        for path, count in report.records.items():
            logging.info("Wrote %d records to %s", count, path)
        total.counts.update(report.counts)
        total.dropped.update(report.dropped)
        if text.shard_documents:
            log_progress("shards", total.counts["shards"])
    counts = total.counts
    if counts["reused"]:
        logging.info(
            "Kept %d of %d shards.", counts["reused"], counts["shards"]
        )
    if counts["sentences"]:
        _log_new(total, text)
    elif counts["instances"]:
        # Workers of Apache Beam report no counts of their own.
        logging.info(
            "Read %d files: %d documents. The sidecars of %d shards state %d "
            "instances.",
            len(text.paths),
            counts["documents"],
            counts["shards"],
            counts["instances"],
        )
    elif not counts["reused"]:
        logging.info("%s", preparation.describe_dropped(total.dropped))
        # Differs: the release writes files without a record, and only training
        # fails on them (docs/differences.md).
        raise ValueError(
            "The input must contain at least one sentence; got none in "
            f"{', '.join(text.paths)}."
        )


def _log_new(total: ShardCounts, text: InputText) -> None:
    counts = total.counts
    logging.info(
        "Read %d files: %d documents, %d sentences.",
        len(text.paths),
        counts["documents"],
        counts["sentences"],
    )
    logging.info("%s", preparation.describe_dropped(total.dropped))
    logging.info(
        "Created %d instances, %.1f %% with a random next sentence.",
        counts["instances"],
        100 * counts["random_next"] / max(1, counts["instances"]),
    )
    # The last one may be a rest.
    if counts["single"] > 1:
        logging.warning(
            "%d shards have a single document each, so their random next "
            "sentences come from the same document and that task means "
            "little. Pass a larger --shard_documents.",
            counts["single"],
        )
    if counts["reused"]:
        return  # The counts do not cover the complete text.
    for warning in encoded_corpus.corpus_warnings(counts["documents"]):
        logging.warning("%s", warning)

"""Pre-training data in shards that are created independently.

A single shard is the complete text, as released. With several, memory holds
one shard per process, whatever the size of the text. Shard k contains the
release's result for its documents with the seed `random_seed + k`. It depends
on nothing else, so any number of processes or machines give the same records.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from absl import logging

from corpus import cleaning, formats, preparation
from files import paths, progress
from tasks.masked_lm import (
    encoded_corpus,
    masked_pairs,
    record_contents,
)
from vocab import word_memory

_COMPRESSED = (".xz", ".gz", ".bz2", ".tgz", ".txz", ".tbz2", ".parquet")
_NUM_EXAMPLES = 20  # Source: the release logs as many.
# Source: measured on 20 and 60 MB of English Wikipedia, sequences of 32 to 512,
# 1 to 10 passes: the estimate is between the peak and 26 % above it.
_PROGRAM_BYTES = 100e6
_TEXT_BYTES_PER_TOKEN = 4.3
_BYTES_PER_TOKEN = 4
_TOKENS_PER_INSTANCE = 0.7  # Share of max_seq_length that is filled.
_BYTES_PER_INSTANCE = 56
_BYTES_PER_PREDICTION = 8
_EXPANSION = 3  # Compression ratio of text.
_USABLE_MEMORY = 0.8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """Input text and its division into shards.

    Attributes:
        paths: the files, in order.
        rules: for reading and splitting raw text; None for one sentence per
            line, read as in the release.
        shard_documents: documents per shard; 0 for all.
        shard_by_file: each file is one shard.
    """

    paths: tuple[str, ...]
    rules: formats.Rules | None = None
    shard_documents: int = 0
    shard_by_file: bool = False

    @property
    def is_sharded(self) -> bool:
        """Whether the text may have several shards."""
        return self.shard_by_file or bool(self.shard_documents)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Picklable settings for creating records from text.

    Attributes:
        vocab_file: one token per line.
        do_lower_case: must match the vocabulary.
        options: for creating instances; with the seed of shard 0.
        rules: see `Text`.
        store: writes the records, see
            `training.pretraining_records.PretrainingRecords`.
    """

    vocab_file: str
    do_lower_case: bool
    options: masked_pairs.InstanceOptions
    rules: formats.Rules | None
    store: Any


@dataclasses.dataclass(kw_only=True)
class Report:
    """Counts for one shard or several.

    Attributes:
        num_shards, num_reused: all shards; those that existed already, which
            contribute no other counts than `num_bytes`.
        num_single: new shards of one document.
        num_bytes: size of the text.
        num_documents, num_sentences: of the text; num_instances,
            num_random_next: of the records.
        num_tokenless: sentences dropped because they have no token.
        dropped: text dropped by the rules.
        records: number of records per path.
        examples: the first records of shard 0, as lines of the log.
    """

    num_shards: int = 0
    num_reused: int = 0
    num_single: int = 0
    num_bytes: int = 0
    num_documents: int = 0
    num_sentences: int = 0
    num_tokenless: int = 0
    num_instances: int = 0
    num_random_next: int = 0
    dropped: cleaning.Counts = dataclasses.field(
        default_factory=cleaning.Counts
    )
    records: dict[str, int] = dataclasses.field(default_factory=dict)
    examples: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """Returns the counts by name, except those of `dropped`."""
        return {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, int)
        }

    def add(self, other: "Report") -> None:
        """Adds the counts of other shards; keeps the examples."""
        for name, value in other.counts().items():
            setattr(self, name, getattr(self, name) + value)
        self.dropped.add(other.dropped)
        self.records.update(other.records)


def read_shards(text: Text) -> Iterator[tuple[int, Iterable[formats.Document]]]:
    """Yields number and documents of each shard.

    Documents are a list, or for a single shard a one-pass iterator.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file is not in its format; names the file.
    """
    if text.shard_by_file:
        for number, path in enumerate(text.paths):
            yield number, list(_read([path], text))
    elif text.shard_documents:
        documents = _read(text.paths, text)
        for number in itertools.count():
            shard = list(itertools.islice(documents, text.shard_documents))
            if not shard:
                return
            yield number, shard
    else:
        yield 0, _read(text.paths, text)


def _read(names: Sequence[str], text: Text) -> Iterator[formats.Document]:
    if text.rules is None:
        return (
            formats.Document(lines=sentences)
            for sentences in encoded_corpus.read_documents(names)
        )
    return formats.read_documents(list(names), text.rules)


def make_shard(
    recipe: Recipe,
    shard: tuple[int, Iterable[formats.Document]],
    on_progress: Callable[[float], None] = lambda share: None,
) -> Report:
    """Creates the records of a shard, unless they exist already.

    Args:
        recipe: the settings.
        shard: its number and documents. A list allows reuse of existing
            records; a one-pass iterator is always processed.
        on_progress: called with the fraction done, 0 to 1.

    Returns:
        The counts. If the text has no sentence, `num_documents` is 0 and the
        shard has no file.
    """
    number, documents = shard
    if isinstance(documents, list):
        held = find_shard(recipe, number, documents)
        if held is not None:
            return held
    tokenizer = _tokenizer(
        recipe.vocab_file, recipe.do_lower_case, paths.sha256(recipe.vocab_file)
    )
    text, dropped = _Hash(), cleaning.Counts()
    corpus = encoded_corpus.encode_documents(
        _sentences(text.through(documents), recipe.rules, dropped),
        tokenizer.encode,
    )
    report = Report(
        num_shards=1,
        num_single=int(corpus.num_documents == 1),
        num_bytes=text.num_bytes,
        num_documents=corpus.num_documents,
        num_sentences=corpus.num_sentences,
        num_tokenless=corpus.num_tokenless,
        dropped=dropped,
    )
    if not corpus.num_documents:
        recipe.store.remove(number)
        return report
    instances = masked_pairs.create_instances(
        corpus,
        encoded_corpus.vocabulary(tokenizer.definition.vocab),
        recipe.options,
        random.Random(recipe.options.random_seed + number),
        on_progress,
    )
    report.num_instances = len(instances)
    report.num_random_next = instances.num_random_next()
    report.records = recipe.store.write(
        number, instances.batches(), text.digest.hexdigest()
    )
    if number == 0:
        report.examples = tuple(_examples(instances, tokenizer.definition))
    return report


def find_shard(
    recipe: Recipe, number: int, documents: Sequence[formats.Document]
) -> Report | None:
    """Returns the counts of an existing shard of these documents, or None."""
    text = _Hash()
    collections.deque(text.through(documents), maxlen=0)
    if not recipe.store.holds(number, text.digest.hexdigest()):
        return None
    return Report(num_shards=1, num_reused=1, num_bytes=text.num_bytes)


@functools.lru_cache(maxsize=1)
def _tokenizer(
    vocab_file: str, do_lower_case: bool, sha256: str
) -> word_memory.WordMemory:
    # One per process: its cache of words is valid for all shards while the
    # contents of the file are the same.
    del sha256
    return word_memory.WordMemory(vocab_file, do_lower_case)


def _sentences(
    documents: Iterable[formats.Document],
    rules: formats.Rules | None,
    dropped: cleaning.Counts,
) -> Iterator[list[str]]:
    if rules is None:
        yield from (document.lines for document in documents)
        return
    for document in documents:
        texts, counts = preparation.prepare_batch(rules, [document])
        dropped.add(counts)
        for text in texts:
            yield text.removesuffix("\n").split("\n")


class _Hash:
    """SHA-256 and size in bytes of a stream of documents."""

    def __init__(self):
        self.digest = hashlib.sha256()
        self.num_bytes = 0

    def through(
        self, documents: Iterable[formats.Document]
    ) -> Iterator[formats.Document]:
        """Yields the documents."""
        for document in documents:
            lines = document.lines
            if document.title is not None:
                lines = [document.title, *lines]
            text = "\n".join(lines).encode("utf-8", "surrogatepass")
            self.digest.update(b"%d\n" % len(text))
            self.digest.update(text)
            self.num_bytes += len(text)
            yield document


def _examples(instances, definition) -> Iterator[str]:
    arrays = instances.features(0, _NUM_EXAMPLES)
    lengths = arrays["input_mask"].sum(axis=1).tolist()
    for row, length in enumerate(lengths):
        ids = arrays["input_ids"][row, :length].tolist()
        tokens = " ".join(definition.convert_ids_to_tokens(ids))
        yield "*** Example ***"
        yield f"tokens: {tokens}"
        for name, array in arrays.items():
            yield f"{name}: {' '.join(map(str, array[row].tolist()))}"


def log_reports(
    reports: Iterable[Report], text: Text, max_seq_length: int
) -> Report:
    """Logs the progress and the totals of shards.

    Args:
        reports: one per shard, as they are completed, or one for all.
        text: the input.
        max_seq_length: of the records.

    Returns:
        The sum of the reports.

    Raises:
        ValueError: the text has no sentence.
    """
    for path in text.paths:
        logging.debug("Reading %s", path)
    size = _size(text)
    log_progress = progress.Progress()
    total = Report()
    for report in reports:
        if report.num_shards == 1:
            _log_shard(report, total.num_shards, text)
        total.add(report)
        if text.is_sharded and size:
            log_progress(
                "text",
                min(total.num_bytes / size, 1),
                1,
                f"{total.num_shards} shards",
            )
    if not total.num_documents and not total.num_reused:
        _log_dropped(total, text)
        # Differs: the release writes files without a record, and only training
        # fails on them (docs/differences.md).
        raise ValueError(
            "The input must contain at least one sentence; got none in "
            f"{', '.join(text.paths)}."
        )
    _log_total(total, text, max_seq_length)
    return total


def _size(text: Text) -> int:
    """Returns the size of the files; 0 if remote or compressed."""
    if any(
        paths.is_remote(path) or path.lower().endswith(_COMPRESSED)
        for path in text.paths
    ):
        return 0
    return sum(map(os.path.getsize, text.paths))


def estimate_memory(
    text: Text, options: masked_pairs.InstanceOptions
) -> float | None:
    """Estimates the memory for creating all records in a single shard.

    Returns:
        Bytes; None for sharded text, or for files in a remote store.
    """
    if text.is_sharded or any(map(paths.is_remote, text.paths)):
        return None
    num_bytes = sum(map(os.path.getsize, text.paths))
    if not _size(text):
        num_bytes *= _EXPANSION
    length = options.max_seq_length
    num_tokens = num_bytes / _TEXT_BYTES_PER_TOKEN
    num_instances = (
        options.dupe_factor * num_tokens / (_TOKENS_PER_INSTANCE * length)
    )
    return (
        _PROGRAM_BYTES
        + num_tokens * _BYTES_PER_TOKEN
        + num_instances
        * (
            _BYTES_PER_INSTANCE
            + _BYTES_PER_PREDICTION * options.num_predictions(length)
        )
    )


def sharding_warnings(
    text: Text, options: masked_pairs.InstanceOptions, num_workers: int
) -> list[str]:
    """Warns if a text should be divided into shards but is not.

    Args:
        text: the input.
        options: for creating instances.
        num_workers: value of the flag.
    """
    warnings = []
    if num_workers > 1 and not text.is_sharded:
        warnings.append(
            f"--num_workers={num_workers} has no effect: one process creates "
            "one shard, and the text is not divided into several. Pass "
            "--shard_documents=10000 or --shard_by_file."
        )
    needed, available = estimate_memory(text, options), _available_memory()
    if needed and needed > _USABLE_MEMORY * available:
        warnings.append(
            "Creating all records at once takes about "
            f"{needed / 1e9:.1f} GB of memory, and {available / 1e9:.1f} GB "
            "are available. Stop this run and pass --shard_documents=10000, "
            "which limits the documents in memory for each of --num_workers, "
            "or --shard_by_file."
        )
    return warnings


def _available_memory() -> float:
    """Returns the available memory in bytes, or else the total memory."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            sizes = dict(line.split(":") for line in file)
        return 1024 * int(sizes["MemAvailable"].split()[0])
    except (OSError, KeyError):  # Not on Linux.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _log_shard(report: Report, number: int, text: Text) -> None:
    for line in report.examples:
        logging.debug("%s", line)
    if report.num_reused:
        logging.info("Shard %d exists already.", number)
    elif text.is_sharded and not report.num_documents:
        logging.warning("Shard %d has no sentence: no file is written.", number)
    for path, count in report.records.items():
        logging.info("Wrote %d records to %s", count, path)


def _log_total(total: Report, text: Text, max_seq_length: int) -> None:
    if total.num_reused:
        others = " In the others:" if total.num_documents else ""
        kept = f"Kept {total.num_reused} of {total.num_shards} shards."
        logging.info("%s%s", kept, others)
        if not others:
            return
    logging.info(
        "Read %d files: %d documents, %d sentences.",
        len(text.paths),
        total.num_documents,
        total.num_sentences,
    )
    _log_dropped(total, text)
    logging.info(
        "Created %d instances, %.1f %% with a random next sentence.",
        total.num_instances,
        100 * total.num_random_next / max(1, total.num_instances),
    )
    # The last one may be a rest.
    if total.num_single > 1:
        logging.warning(
            "%d shards have a single document each, so their random next "
            "sentences come from the same document and that task means "
            "little. Pass --shard_documents=10000, which counts the documents "
            "of all files.",
            total.num_single,
        )
    if total.num_reused:
        return  # The counts do not cover the complete text.
    for warning in (
        *record_contents.corpus_warnings(total.num_documents),
        *record_contents.balance_warnings(
            total.num_random_next, total.num_instances, max_seq_length
        ),
    ):
        logging.warning("%s", warning)


def _log_dropped(total: Report, text: Text) -> None:
    if total.num_tokenless:
        logging.warning(
            "Dropped %d sentences without a token, such as those of control "
            "characters.",
            total.num_tokenless,
        )
    if text.rules is not None:
        logging.info(
            "%s", preparation.describe_dropped(total.dropped, text.rules)
        )

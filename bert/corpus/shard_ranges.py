"""Ranges of consecutive shards, which workers read from the text themselves.

The shard of a document depends on the number of documents before it. So the
documents of all files are counted first, and each worker then reads the files
of its own shards only.
"""

import collections
import dataclasses
import functools
import itertools
import os
from collections.abc import Iterator, Sequence

from bert.corpus import formats, pretraining_shards
from bert.files import lines, paths, processes

# Ranges of shards in a large file, at most: each worker reads the file from its
# start. For 16, this is 8 times the file on average, or some 10 % of
# the time of creating its records once.
_MAX_RANGES_PER_FILE = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileCount:
    """The documents in a file.

    Attributes:
        num_documents: including those that begin or end in other files.
        starts_open: its first line continues a document of the file before, if
            that ends with one.
        ends_open: its last document may continue in the next file.
        is_empty: it has no line.
    """

    num_documents: int
    starts_open: bool = False
    ends_open: bool = False
    is_empty: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardRange:
    """Consecutive shards that begin in one file.

    Attributes:
        text: the files with their documents.
        num_skipped: documents of the first file before the range.
        first_shard: the number of the first shard.
        num_documents: in all shards of the range.
    """

    text: pretraining_shards.InputText
    num_skipped: int
    first_shard: int
    num_documents: int

    @property
    def num_shards(self) -> int:
        """The number of shards."""
        return -(-self.num_documents // self.text.shard_documents)


def count_documents(text: pretraining_shards.InputText) -> list[FileCount]:
    """Counts the documents of each file, on all cores.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file is not in its format, or is a pipe; names the file.
    """
    for path in text.paths:
        if paths.is_stream(path):
            raise ValueError(
                f"{path} must be a regular file: workers read it again."
            )
    num_workers = min(os.cpu_count() or 1, len(text.paths))
    count = functools.partial(count_file, text.rules)
    return list(processes.map_in_order(count, text.paths, num_workers))


def count_file(rules: formats.Rules | None, path: str) -> FileCount:
    """Counts the documents of a file; see `pretraining_shards.InputText`."""
    if rules is not None:
        documents = formats.read_documents([path], rules)
        return FileCount(num_documents=sum(1 for _ in documents))
    first = last = None
    num_documents = 0
    texts = (bool(line.strip()) for line in lines.read_lines(path))
    for is_sentence, _ in itertools.groupby(texts):
        first = is_sentence if first is None else first
        last = is_sentence
        num_documents += is_sentence
    return FileCount(
        num_documents=num_documents,
        starts_open=bool(first),
        ends_open=bool(last),
        is_empty=first is None,
    )


def divide(
    text: pretraining_shards.InputText, counts: Sequence[FileCount]
) -> list[ShardRange]:
    """Divides the shards of a text into ranges.

    Args:
        text: the files; sharded.
        counts: of `count_documents`.
    """
    size = text.shard_documents
    begun = _begun(counts)
    # The number of documents that begin before each file, and in all.
    before = list(itertools.accumulate(begun, initial=0))
    ranges = []
    for file, count in enumerate(counts):
        first, last = (-(-before[file + i] // size) for i in (0, 1))
        step = max(1, -(-(last - first) // _MAX_RANGES_PER_FILE))
        for shard in range(first, last, step):
            start = shard * size
            end = min(min(shard + step, last) * size, before[-1])
            # Up to the file in which the next document begins.
            stop = next(
                (i for i in range(file, len(begun)) if before[i + 1] > end),
                len(begun),
            )
            continued = count.num_documents - begun[file]
            ranges.append(
                ShardRange(
                    text=dataclasses.replace(
                        text, paths=text.paths[file : stop + 1]
                    ),
                    num_skipped=continued + start - before[file],
                    first_shard=shard,
                    num_documents=end - start,
                )
            )
    return ranges


def _begun(counts: Sequence[FileCount]) -> list[int]:
    """Returns the number of documents that begin in each file."""
    begun, is_open = [], False
    for count in counts:
        continues = is_open and count.starts_open
        begun.append(count.num_documents - continues)
        if not count.is_empty:
            is_open = count.ends_open
    return begun


def read_shards(shards: ShardRange) -> Iterator[pretraining_shards.Shard]:
    """Yields the shards of a range.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file is not the one that was counted.
    """
    documents = pretraining_shards.read_documents(shards.text)
    collections.deque(itertools.islice(documents, shards.num_skipped), maxlen=0)
    size = shards.text.shard_documents
    for number, start in enumerate(
        range(0, shards.num_documents, size), shards.first_shard
    ):
        wanted = min(size, shards.num_documents - start)
        shard = list(itertools.islice(documents, wanted))
        if len(shard) < wanted:
            raise ValueError(
                f"Shard {number} must have {wanted} documents; got "
                f"{len(shard)}. {shards.text.paths[0]} or a later file has "
                "changed, or is another one on this worker."
            )
        yield number, shard

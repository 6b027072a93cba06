"""The record files of pre-training data, and their completed shards."""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Mapping

import numpy as np

from files import paths, writing
from training import record_files, records

_NUMBER = "-%05d"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingRecords:
    """The record files of the shards of pre-training data.

    A shard is complete when all its files and their sidecars exist; sidecars
    are written last. Files are written atomically, so that an interrupted run
    leaves no partial file under its final name.

    Attributes:
        record_paths: the files; records are distributed over them in turn.
        made_with: the contents of their sidecars, with flags as JSON values
            and the `random_seed` of shard 0.
        is_sharded: whether each name includes the number of the shard.
    """

    record_paths: tuple[str, ...]
    made_with: records.Metadata
    is_sharded: bool = False

    def paths_of(self, shard: int) -> list[str]:
        """Returns the files of a shard: `a.b` -> `a-00003.b` if sharded."""
        if not self.is_sharded:
            return list(self.record_paths)
        return [
            f"{stem}{_NUMBER % shard}{ending}"
            for stem, ending in map(os.path.splitext, self.record_paths)
        ]

    def outputs(self) -> list[str]:
        """Lists the output files that are known in advance.

        The number of shards is not known: those of the first shard and all
        numbered files that exist are listed.
        """
        records_of = [*self.paths_of(0)]
        if self.is_sharded:
            records_of += self.others(records_of)
        sidecars = [
            records.metadata_path(path)
            for path in records_of
            if not writing.is_stream(path)
        ]
        return records_of + sidecars

    def others(self, written: Iterable[str]) -> list[str]:
        """Lists existing numbered files on local disks except `written`."""
        found = itertools.chain.from_iterable(
            paths.numbered(f"{stem}-", ending)
            for stem, ending in map(os.path.splitext, self.record_paths)
        )
        return sorted(set(found).difference(written))

    def holds(self, shard: int, text_sha256: str) -> bool:
        """Returns whether this shard was already created from this text.

        If so, the temporary files that a killed run left of it are removed.
        """
        wanted = self._metadata(shard, text_sha256, 0)
        names = self.paths_of(shard)
        is_held = all(
            paths.exists(path)
            and (held := records.read_metadata(path)) is not None
            and records.is_same_data(held, wanted)
            for path in names
        )
        for path in names if is_held else ():
            _remove_remains(path)
        return is_held

    def write(
        self,
        shard: int,
        batches: Iterable[Mapping[str, np.ndarray]],
        text_sha256: str,
    ) -> dict[str, int]:
        """Writes the records of a shard.

        Args:
            shard: its number.
            batches: for each feature `[B, ...]`.
            text_sha256: hash of their text.

        Returns:
            The number of records in each file.
        """
        names = self.paths_of(shard)
        for path in names:
            records.remove_metadata(path)
            _remove_remains(path)
        counts = record_files.write_batches(names, batches)
        for path, count in zip(names, counts, strict=True):
            if writing.is_stream(path):
                continue
            records.write_metadata(
                path, self._metadata(shard, text_sha256, count)
            )
        return dict(zip(names, counts, strict=True))

    def _metadata(
        self, shard: int, text_sha256: str, num_records: int
    ) -> records.Metadata:
        flags = dict(self.made_with.flags)
        if self.is_sharded:
            # With these flags the release creates this shard from its text.
            flags["shard"] = shard
            flags["random_seed"] += shard
        return dataclasses.replace(
            self.made_with,
            flags=flags,
            text_sha256=text_sha256,
            num_records=num_records,
        )


def _remove_remains(path: str) -> None:
    """Removes the temporary files of a killed run."""
    for final in (path, records.metadata_path(path)):
        writing.remove_remains(final)

"""Record files of pre-training data, by shard."""

import dataclasses
import glob
import os
from collections.abc import Iterable, Mapping

import numpy as np
from absl import logging

from bert.files import paths
from bert.records import offsets, sidecars, tfrecords

_SHARD = "-%05d"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardFiles:
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
    made_with: sidecars.Metadata
    is_sharded: bool = False

    def paths_of(self, shard: int) -> list[str]:
        """Returns the files of a shard: `a.b` -> `a-00003.b` if sharded."""
        if not self.is_sharded:
            return list(self.record_paths)
        return [
            f"{stem}{_SHARD % shard}{ending}"
            for stem, ending in map(os.path.splitext, self.record_paths)
        ]

    def outputs(self) -> list[str]:
        """Lists the output files that are known in advance.

        The number of shards is not known: those of the first shard and all
        numbered files that exist are listed.
        """
        records_of = self.paths_of(0)
        for stem, ending in map(os.path.splitext, self.record_paths):
            if self.is_sharded:  # In a remote store, the pattern matches none.
                pattern = glob.escape(stem) + "-" + "[0-9]" * 5 + ending
                records_of += sorted({*glob.glob(pattern)} - {*records_of})
        metadata = [
            sidecars.metadata_path(path)
            for path in records_of
            if not paths.is_stream(path)
        ]
        return records_of + metadata

    def remove(self, shard: int) -> None:
        """Removes the files of a shard whose text has no sentence any more."""
        for path in self.paths_of(shard) if self.is_sharded else ():
            sidecars.remove_metadata(path)
            offsets.remove(path)
            paths.remove(path)

    def holds(self, shard: int, text_sha256: str) -> bool:
        """Returns whether this shard was already created from this text."""
        wanted = self._metadata(shard, text_sha256, 0)
        names = self.paths_of(shard)
        try:
            return all(
                paths.exists(path)
                and (stored := sidecars.read_metadata(path)) is not None
                and sidecars.is_same_data(stored, wanted)
                for path in names
            )
        except ValueError as error:
            logging.warning("Creating shard %d again: %s", shard, error)
            return False

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
            sidecars.remove_metadata(path)
        counts = tfrecords.write_batches(names, batches, with_indices=True)
        for path, count in zip(names, counts, strict=True):
            if paths.is_stream(path):
                continue
            sidecars.write_metadata(
                path, self._metadata(shard, text_sha256, count)
            )
        return dict(zip(names, counts, strict=True))

    def num_records(self, shard: int) -> int:
        """Returns the number of records that the sidecars of a shard state.

        It is 0 if there are none: the shard has no sentence.

        Raises:
            ValueError: a sidecar is damaged.
        """
        stored = map(sidecars.read_metadata, self.paths_of(shard))
        return sum(metadata.num_records for metadata in stored if metadata)

    def _metadata(
        self, shard: int, text_sha256: str, num_records: int
    ) -> sidecars.Metadata:
        flags = dict(self.made_with.flags)
        if self.is_sharded:
            # The release creates this shard from its text with these flags.
            flags["shard"] = shard
            flags["random_seed"] += shard
        return dataclasses.replace(
            self.made_with,
            flags=flags,
            text_sha256=text_sha256,
            num_records=num_records,
        )

"""Sidecars of record files: the origin of the records.

The sidecar of a record file `NAME` is `NAME.meta.json`.
"""

import dataclasses
import json

from bert.files import json_text, messages, paths, writing

ENDING = ".meta.json"
# The key of a sidecar's `flags` for the number of records of each example.
ROWS_PER_EXAMPLE = "rows_per_example"
# The key of a sidecar's `flags` for the id of [MASK] of unmasked records.
MASK_ID = "mask_id"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """The contents of a sidecar: the origin of a record file.

    Attributes:
        kind: the use of the records, e.g. "pretraining".
        max_seq_length: tokens per record.
        max_predictions_per_seq: masked tokens per record; None for other
            records.
        vocab_size: the size of the vocabulary: ids are below it.
        vocab_sha256: `tokenization.vocab_sha256` of the vocabulary.
        do_lower_case: whether text was lower-cased.
        strip_accents: whether accents were removed; None: as `do_lower_case`.
        num_records: the records of this file.
        text_sha256: hash of their text; None if not known.
        flags: the flags of the program that created the file, as JSON values.
    """

    kind: str
    max_seq_length: int
    max_predictions_per_seq: int | None = None
    vocab_size: int
    vocab_sha256: str
    do_lower_case: bool
    strip_accents: bool | None = None
    num_records: int
    text_sha256: str | None = None
    flags: json_text.Object = dataclasses.field(default_factory=dict)

    @property
    def text_options(self) -> tuple[str, bool, bool]:
        """The vocabulary, and whether text was lower-cased and stripped."""
        accents = self.strip_accents
        if accents is None:
            accents = self.do_lower_case
        return self.vocab_sha256, self.do_lower_case, accents


def metadata_path(record_path: str) -> str:
    """Returns the path of the sidecar of a record file."""
    return record_path + ENDING


def write_metadata(record_path: str, metadata: Metadata) -> None:
    """Writes the sidecar of a record file."""
    values = dataclasses.asdict(metadata)
    writing.write_json(metadata_path(record_path), values)


def remove_metadata(record_path: str) -> None:
    """Removes the sidecar of a record file before the file is replaced.

    A sidecar must never describe an earlier version of its record file.
    """
    paths.remove(metadata_path(record_path))


def read_metadata(record_path: str) -> Metadata | None:
    """Reads the sidecar of a record file.

    Returns:
        None if there is no sidecar: another program created the records.

    Raises:
        ValueError: the sidecar is not JSON, or has other names.
    """
    path = metadata_path(record_path)
    if not paths.exists(path):
        return None
    try:
        return Metadata(**json_text.read_object(path))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not describe records "
            f"({messages.short(str(error))}). Create the records again, or "
            "delete this file to use them without its checks."
        ) from error


def is_same_data(stored: Metadata, wanted: Metadata) -> bool:
    """Returns whether two sidecars describe records of the same data.

    All values must be equal except the numbers of records, which are known only
    after all records are created.
    """

    def comparable(metadata: Metadata) -> json_text.Object:
        values = dataclasses.asdict(metadata)
        del values["num_records"]
        values["flags"].pop(ROWS_PER_EXAMPLE, None)
        return json.loads(json.dumps(values))

    return comparable(stored) == comparable(wanted)

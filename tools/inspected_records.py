"""What `tools.inspect_data` finds in records."""

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from files import paths
from tasks.masked_lm import data_warnings, record_contents
from tools import inspection_report
from vocab import tokenization

_RECORDS_PER_BATCH = 256
# What `run_swag.py` calls its records, and the features with one row a choice.
_CHOICES = "multiple choice"
_SEQUENCES = {"input_ids", "input_mask", "segment_ids"}


def look(
    options: Any, tokenizer: tokenization.FullTokenizer
) -> inspection_report.Finding:
    """Looks at records.

    Args:
        options: those of the tool.
        tokenizer: of the vocabulary that they should be made with.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file does not hold records of sequences.
    """
    from training import record_files

    files = record_files.RecordFiles(paths.expand(options.record_file))
    count = min(options.max_records or len(files), len(files))
    places = np.unique(np.linspace(0, len(files) - 1, count, dtype=np.int64))
    batches = list(_read(files, places))
    title = f"RECORDS {options.record_file} ({len(places):,} of {len(files):,})"
    if "masked_lm_ids" not in batches[0]:
        found = _finding_of_sequences(title, batches, options.num_examples)
        warnings = _sidecar_warnings(options, files.paths, tokenizer)
        return dataclasses.replace(found, warnings=warnings)
    examples = rows(batches[0])[: options.num_examples]
    contents = record_contents.measure(
        batches, record_contents.special_ids(tokenizer.vocab)
    )
    return inspection_report.Finding(
        sections=[inspection_report.records_section(title, contents)],
        numbers={"records": dataclasses.asdict(contents)},
        examples=examples,
        warnings=[
            *_sidecar_warnings(options, files.paths, tokenizer),
            *record_contents.contents_warnings(contents),
            *data_warnings.balance_warnings(
                contents.num_random_next,
                contents.num_records,
                contents.seq_length,
            ),
        ],
    )


def _finding_of_sequences(
    title, batches, num_examples
) -> inspection_report.Finding:
    """Describes records of texts or choices, with labels or without."""
    lengths = np.concatenate([b["input_mask"].sum(axis=-1) for b in batches])
    labels = None
    if batches[0].get("label_ids", np.zeros((1, 2))).shape[1:] == (1,):
        labels = np.concatenate([b["label_ids"][:, 0] for b in batches])
        is_whole = np.issubdtype(labels.dtype, np.integer)
        labels = labels if is_whole else None
    counts = {} if labels is None else collections.Counter(labels.tolist())
    return inspection_report.Finding(
        sections=[
            inspection_report.sequences_section(
                title, lengths, batches[0]["input_ids"].shape[-1], labels
            )
        ],
        numbers={"num_records": len(lengths), "labels": dict(counts)},
        examples=rows(batches[0])[:num_examples],
        warnings=[],
    )


def _read(files: Any, places: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    """Yields records as arrays by feature, some at a time."""
    import tensorflow as tf

    from training import records

    features = _features(files, int(places[0]))
    num_tokens = _tokens_of_choices(files.paths)
    for start in range(0, len(places), _RECORDS_PER_BATCH):
        chosen = places[start : start + _RECORDS_PER_BATCH]
        try:
            parsed = records.parse(tf.constant(files.read(chosen)), features)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(
                f"{files.name(int(chosen[0]))} and those after it must have "
                f"the features of {files.name(int(places[0]))}; "
                f"{error.message}"
            ) from error
        batch = {name: value.numpy() for name, value in parsed.items()}
        if num_tokens:
            for name in _SEQUENCES & batch.keys():
                rows_of = batch[name]
                batch[name] = rows_of.reshape(len(rows_of), -1, num_tokens)
        yield batch


def _tokens_of_choices(names: Sequence[str]) -> int | None:
    """Reads how long each choice is; None if a record is one sequence.

    The sequences of a choice record lie end to end, which only the file beside
    the records tells.
    """
    from training import records

    metadata = records.read_metadata(names[0])
    if metadata is None or metadata.kind != _CHOICES:
        return None
    return metadata.max_seq_length


def _features(files: Any, place: int) -> list[Any]:
    """Describes what a record holds, by looking at one."""
    import tensorflow as tf
    from google.protobuf import message

    from training import records

    example = tf.train.Example()
    try:
        example.ParseFromString(files.read([place])[0])
    except message.DecodeError as error:
        raise ValueError(
            f"{files.name(place)} must be a tf.train.Example ({error})."
        ) from error
    held = example.features.feature
    missing = {"input_ids", "input_mask"} - set(held)
    if missing:
        raise ValueError(
            f"{files.name(place)} must be a sequence of word ids; it lacks "
            f"{', '.join(sorted(missing))} and has {', '.join(sorted(held))}."
        )
    return [
        records.Feature(
            name=name,
            shape=(len(value.float_list.value or value.int64_list.value),),
            dtype="float32" if value.float_list.value else "int64",
        )
        for name, value in held.items()
        if value.WhichOneof("kind") != "bytes_list"
    ]


def rows(batch: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Cuts a batch into its records."""
    count = len(batch["input_ids"])
    return [{name: v[row] for name, v in batch.items()} for row in range(count)]


def _sidecar_warnings(options, names, tokenizer) -> list[str]:
    """Compares the vocabulary with that which the records were made with."""
    from training import records

    ours = records.vocab_sha256(tokenizer.vocab)
    found = {name: records.read_metadata(name) for name in names}
    return [
        f"{name} was made with another vocabulary than {options.vocab_file} "
        "(see the .meta.json beside it): the words shown are not its words."
        for name, metadata in found.items()
        if metadata is not None and metadata.vocab_sha256 != ours
    ]

"""Turns text into TFRecords of masked sentence pairs, to pre-train BERT on.

The text is UTF-8, one sentence a line, a blank line between documents:

  python create_pretraining_data.py --input_file='text/*.txt' \\
      --output_file=data/pairs.tfrecord --vocab_file=vocab.txt \\
      --max_seq_length=128 --max_predictions_per_seq=20 --dupe_factor=5

The same text, flags and seed give the records of the released program, in the
same order. max_seq_length and max_predictions_per_seq must be those of
run_pretraining.py; masked_lm_prob * max_seq_length is a good number of
predictions. With --shard_documents, text of any size goes through little
memory, on all cores; run the same command again to go on after a stop.
"""

import dataclasses
import functools
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from commands import flags, program
from corpus import beam, formats, preparation, pretraining_shards
from files import destinations, locking, paths, processes, progress
from tasks.masked_lm import data_warnings, masked_pairs
from vocab import tokenization

_FORMATS = {name: form for name, form in formats.FORMATS.items() if form.read}
ARGUMENTS = "[-- OPTION_OF_BEAM ...]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _TextOptions(preparation.RawTextOptions):
    """Which text is read, and how."""

    input_file: str = flags.Group.FILES.required(
        "Text files: comma-separated paths or globs."
    )
    output_file: str = flags.Group.FILES.required(
        "TFRecords, comma-separated, filled in turn."
    )
    input_format: str = flags.Group.FILES.flag(
        "text",
        f"text: {_FORMATS['text'].about}, as released. Split into sentences "
        "here, and read from .xz, .gz, .bz2 and .tar too: "
        + "; ".join(
            f"{name}: {form.about}"
            for name, form in _FORMATS.items()
            if name != "text"
        )
        + ".",
        choices=tuple(_FORMATS),
    )
    vocab_file: str = flags.Group.TEXT.required(
        "The vocabulary: one word piece a line."
    )
    do_lower_case: bool = flags.Group.TEXT.flag(
        True, "Lower-case and strip accents: True for an uncased vocabulary."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(masked_pairs.InstanceOptions, _TextOptions):
    """The flags of this script; see --help."""

    random_seed: int = flags.Group.PAIRS.flag(
        12345, "Decides every random draw."
    )
    shard_documents: int = flags.Group.SPEED.flag(
        0,
        "Make the records of so many documents at a time, each with a file "
        "OUT-00000, OUT-00001 ... and the next random_seed; 0 for all at once.",
        lower_bound=0,
    )
    shard_by_file: bool = flags.Group.SPEED.flag(
        False, "The same, with a shard for each input file."
    )
    num_workers: int = flags.Group.SPEED.flag(
        0, "Processes that make shards; 0 for one per core.", lower_bound=0
    )
    runner: str | None = flags.Group.SPEED.flag(
        None,
        "Make the shards with this runner of Apache Beam, such as "
        "DirectRunner; its options follow after --.",
    )

    def __post_init__(self):
        super().__post_init__()
        if not self.output_files:
            raise ValueError("output_file must name one or more files.")
        if self.shard_documents and self.shard_by_file:
            raise ValueError(
                "shard_documents and shard_by_file are two ways to cut the "
                "text; pass one of them."
            )
        if self.input_format == "text" and self.min_paragraph_words:
            raise ValueError(
                "min_paragraph_words is for text that is split here; "
                "input_format=text holds sentences."
            )

    @classmethod
    def presets(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the default of `dupe_factor`: unmasked, one is enough."""
        return {"dupe_factor": 1} if values["dynamic_masking"] else {}

    @property
    def output_files(self) -> tuple[str, ...]:
        """The files that `output_file` names."""
        return tuple(filter(None, map(str.strip, self.output_file.split(","))))

    @property
    def instances(self) -> masked_pairs.InstanceOptions:
        """How pairs are made."""
        return flags.narrow(masked_pairs.InstanceOptions, self)

    def made_with(self) -> dict[str, Any]:
        """Returns what decides the records, for their sidecars."""
        values = dataclasses.asdict(self)
        values["masking"] = self.masking_rates
        values["output_file"] = self.output_files
        if not self.dynamic_masking:
            # As the sidecars say that were written before there was this flag.
            del values["dynamic_masking"]
        return {
            name: value
            for name, value in values.items()
            if name not in ("num_workers", "runner")
        }


def run(options: Options, beam_arguments: Sequence[str] = ()) -> None:
    """Reads the text, makes the instances, writes the records.

    Args:
        options: the flags.
        beam_arguments: options of `options.runner`.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: an option has an impossible value, no input file matches,
            the text is empty or not UTF-8, the vocabulary lacks a special
            token, or an output would overwrite an input.
    """
    if beam_arguments and not options.runner:
        raise ValueError(
            "Only flags, --NAME=VALUE with the equals sign, are expected, and "
            "options of Apache Beam after -- where there is a --runner; got "
            f"{' '.join(beam_arguments)}."
        )
    instances = options.instances
    started = time.monotonic()
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, do_lower_case=options.do_lower_case
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]", "[MASK]")
    text = text_of(options)
    for warning in (
        *data_warnings.casing_warnings(
            tokenizer.vocab, do_lower_case=options.do_lower_case
        ),
        *data_warnings.prediction_warnings(instances),
        *pretraining_shards.sharding_warnings(
            text, instances, options.num_workers
        ),
    ):
        logging.warning("%s", warning)
    store = _record_files(options, tokenizer, text)
    destinations.check_files(store.outputs(), [*text.paths, options.vocab_file])
    recipe = pretraining_shards.Recipe(
        vocab_file=options.vocab_file,
        do_lower_case=options.do_lower_case,
        random_seed=options.random_seed,
        options=instances,
        rules=text.rules,
        store=store,
    )
    with locking.lock_outputs(options.output_files, "output_file"):
        total = pretraining_shards.log_reports(
            _reports(text, recipe, options, beam_arguments), text
        )
    shards = range(total.num_shards)
    written = itertools.chain.from_iterable(map(store.paths_of, shards))
    destinations.warn_of_others(store.others(written))
    logging.debug("Took %.1f seconds.", time.monotonic() - started)


def text_of(options: Options) -> pretraining_shards.Text:
    """Finds the files, or raises ValueError; says how they are read and cut."""
    is_raw = options.input_format != "text"
    return pretraining_shards.Text(
        paths=tuple(paths.expand(options.input_file)),
        rules=options.rules(options.input_format) if is_raw else None,
        reading=options.reading(),
        shard_documents=options.shard_documents,
        shard_by_file=options.shard_by_file,
    )


def _record_files(options, tokenizer, text):
    from training import pretraining_records, records

    made_with = options.made_with()
    if options.dynamic_masking:
        made_with[records.MASK_ID] = tokenizer.vocab["[MASK]"]
    return pretraining_records.PretrainingRecords(
        record_paths=options.output_files,
        made_with=records.Metadata(
            kind="pretraining",
            max_seq_length=options.max_seq_length,
            max_predictions_per_seq=options.max_predictions_per_seq,
            vocab_size=tokenizer.vocab_size,
            vocab_sha256=records.vocab_sha256(tokenizer.vocab),
            do_lower_case=options.do_lower_case,
            num_records=0,
            flags=made_with,
        ),
        is_sharded=text.is_sharded,
    )


def _reports(
    text, recipe, options, beam_arguments
) -> Iterator[pretraining_shards.Report]:
    shards = pretraining_shards.read_shards(text)
    if options.runner:
        yield beam.make_shards(text, recipe, options.runner, beam_arguments)
    elif text.is_sharded:
        yield from processes.map_in_order(
            functools.partial(pretraining_shards.make_shard, recipe),
            shards,
            options.num_workers,
        )
    else:
        report = progress.Progress()
        for shard in shards:
            yield pretraining_shards.make_shard(
                recipe, shard, lambda share: report("instances", share, 1)
            )


if __name__ == "__main__":
    program.start(Options, run, arguments=ARGUMENTS)

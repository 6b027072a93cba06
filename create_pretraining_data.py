"""Creates TFRecords of masked sentence pairs from text, to pre-train BERT.

The text is UTF-8, one sentence per line, with an empty line between documents:

  python create_pretraining_data.py --input_file='text/*.txt' \\
      --output_file=data/pairs.tfrecord --vocab_file=vocab.txt \\
      --max_seq_length=128 --max_predictions_per_seq=20 --dupe_factor=5

The same text, flags and seed give the records of the original, in the
same order. max_seq_length and max_predictions_per_seq must match
run_pretraining.py; set max_predictions_per_seq to about
masked_lm_prob * max_seq_length. With --shard_documents, memory use does not
grow with the text and all cores are used. Run the same command again to resume.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

from absl import logging

from bert.commands import flags, program
from bert.corpus import (
    beam_shards,
    format_checks,
    formats,
    preparation,
    pretraining_shards,
)
from bert.files import locks, paths, processes, progress, writing
from bert.models import flag_defaults
from bert.records import shard_files, sidecars
from bert.tasks.pretraining import instance_options
from bert.training import options as training_options
from vocab import casing, tokenization

ARGUMENTS = "[-- OPTION_OF_BEAM ...]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    instance_options.InstanceOptions,
    preparation.RawTextOptions,
    training_options.TokenizerOptions,
):
    """The flags of this script; see --help."""

    input_file: flags.Path = flags.Group.FILES.required(
        "Text files: comma-separated paths or globs."
    )
    output_file: flags.Path = flags.Group.FILES.required(
        "TFRecord files, comma-separated; written to in turn."
    )
    input_format: str = flags.Group.FILES.flag(
        "text",
        f"text: {formats.FORMATS['text'].about}, as in the original. The other "
        "formats are split into sentences; .xz, .gz and .bz2 are read too: "
        + "; ".join(
            f"{name}: {form.about}"
            for name, form in formats.FORMATS.items()
            if name != "text"
        )
        + ".",
        choices=tuple(formats.FORMATS),
    )
    shard_documents: int = flags.Group.SPEED.non_negative(
        0,
        "Documents per shard. Each shard has its own file OUT-00000, OUT-00001 "
        "... and the next random_seed; 0: a single shard.",
    )
    runner: str | None = flags.Group.SPEED.optional(
        "Create the shards with this Apache Beam runner, such as DirectRunner; "
        "its options follow after --."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.output_files:
            raise ValueError("output_file must name one or more files.")
        if self.input_format == "text" and self.min_paragraph_words:
            raise ValueError(
                "min_paragraph_words is for formats that are split into "
                "sentences; input_format=text is split already."
            )
        if self.runner and self.num_workers:
            raise ValueError(
                "num_workers has no effect with runner; pass an option of the "
                "runner, such as -- --direct_num_workers=2."
            )

    @classmethod
    def presets(cls, values: Mapping[str, object]) -> dict[str, object]:
        """Returns 1 for `dupe_factor` with dynamic masking."""
        return {"dupe_factor": 1} if values["dynamic_masking"] else {}

    @property
    def output_files(self) -> tuple[str, ...]:
        """Paths listed in `output_file`."""
        return tuple(filter(None, map(str.strip, self.output_file.split(","))))

    def made_with(self) -> dict[str, object]:
        """Returns the options that determine the records, for the sidecars."""
        values = dataclasses.asdict(self)
        values["masking"] = self.masking_rates
        values["output_file"] = self.output_files
        if not self.dynamic_masking:
            # Sidecars written before this flag existed do not contain it.
            del values["dynamic_masking"]
        return {
            name: value
            for name, value in values.items()
            if name not in ("num_workers", "runner")
        }


def run(options: Options, beam_arguments: Sequence[str] = ()) -> None:
    """Reads the text, creates the instances and writes the records.

    Args:
        options: the flags.
        beam_arguments: options of `options.runner`.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: an option has an impossible value, no input file matches,
            the text is empty or not UTF-8, the vocabulary lacks a special
            token, or an output would overwrite an input.
    """
    if any(
        not (options.runner and argument.startswith("--"))
        for argument in beam_arguments
    ):
        raise ValueError(
            "Only flags are expected, and with --runner Apache Beam options "
            "after --, each as --NAME=VALUE with the equals sign; got "
            f"{' '.join(beam_arguments)}."
        )
    options = flag_defaults.fill_vocabulary(options, flags.given())
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, options.do_lower_case, options.strip_accents
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]", "[MASK]")
    # Beam's workers have other working folders.
    path_of = paths.absolute if options.runner else str
    text = pretraining_shards.InputText(
        paths=tuple(map(path_of, paths.expand(options.input_file))),
        rules=None
        if options.input_format == "text"  # As released.
        else options.rules(options.input_format),
        shard_documents=options.shard_documents,
    )
    for warning in (
        *(
            format_checks.warnings(text.paths)
            if options.input_format == "text"
            else ()
        ),
        *casing.contradictions(
            tokenizer.vocab,
            do_lower_case=options.do_lower_case,
            strip_accents=options.strips_accents,
        ),
        *options.warnings(),
    ):
        logging.warning("%s", warning)
    store = _record_files(
        options, tokenizer, tuple(map(path_of, options.output_files))
    )
    writing.check_files(store.outputs(), [*text.paths, options.vocab_file])
    settings = pretraining_shards.ShardSettings(
        vocab_file=path_of(options.vocab_file),
        do_lower_case=options.do_lower_case,
        strip_accents=options.strip_accents,
        options=flags.narrow(instance_options.InstanceOptions, options),
        rules=text.rules,
        store=store,
    )
    with locks.lock_outputs(options.output_files):
        pretraining_shards.log_reports(
            _reports(text, settings, options, beam_arguments), text
        )


def _record_files(options, tokenizer, record_paths):
    made_with = options.made_with()
    if options.dynamic_masking:
        made_with[sidecars.MASK_ID] = tokenizer.vocab["[MASK]"]
    return shard_files.ShardFiles(
        record_paths=record_paths,
        made_with=sidecars.Metadata(
            kind="pretraining",
            max_seq_length=options.max_seq_length,
            max_predictions_per_seq=options.max_predictions_per_seq,
            # As released, blank lines may be random replacements too.
            vocab_size=max(tokenizer.vocab.values()) + 1,
            vocab_sha256=tokenizer.vocab_sha256,
            do_lower_case=options.do_lower_case,
            strip_accents=options.strips_accents,
            num_records=0,
            flags=made_with,
        ),
        is_sharded=bool(options.shard_documents),
    )


def _reports(
    text, settings, options, beam_arguments
) -> Iterator[pretraining_shards.ShardCounts]:
    shards = pretraining_shards.read_shards(text)
    if options.num_workers > 1 and not options.shard_documents:
        logging.warning(
            "--num_workers=%d has no effect: one process creates one shard. "
            "Pass --shard_documents=10000.",
            options.num_workers,
        )
    if options.runner:
        yield beam_shards.make_shards(
            text, settings, options.runner, beam_arguments
        )
    elif text.shard_documents:
        yield from processes.map_in_order(
            functools.partial(pretraining_shards.make_shard, settings),
            shards,
            options.num_workers,
        )
    else:
        report = progress.Progress()
        report("text", 0)  # "instances" start after it.
        for shard in shards:
            yield pretraining_shards.make_shard(
                settings, shard, lambda share: report("instances", share, 1)
            )


if __name__ == "__main__":
    program.start(Options, run, arguments=ARGUMENTS)

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
from collections.abc import Iterator, Sequence

from absl import flags, logging

from commands import flag_groups, program
from corpus import (
    beam,
    formats,
    preparation,
    pretraining_shards,
)
from files import destinations, paths, processes, progress
from tasks.masked_lm import (
    data_warnings,
    masked_pairs,
)
from vocab import tokenization

_FORMATS = ("text", "wikiextractor", "jsonl", "book")
ARGUMENTS = "[-- OPTION_OF_BEAM ...]"
_Group = flag_groups.Group
_INSTANCE_DEFAULTS = masked_pairs.InstanceOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags`."""

    input_file: str
    output_file: tuple[str, ...]
    vocab_file: str
    do_lower_case: bool = True
    random_seed: int = 12345
    instances: masked_pairs.InstanceOptions = _INSTANCE_DEFAULTS
    input_format: str = "text"
    language: str = "en"
    encoding: str = "utf-8"
    text_field: str = "text"
    min_paragraph_words: int | None = None
    shard_documents: int = 0
    shard_by_file: bool = False

    def __post_init__(self):
        if not self.output_file:
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machinery:
    """On what the work is done; the records do not depend on it.

    Attributes:
        num_workers: processes; 0 for one per core.
        runner: of Apache Beam; None for this machine without Beam.
        beam_arguments: options of the runner.
    """

    num_workers: int = 0
    runner: str | None = None
    beam_arguments: tuple[str, ...] = ()


_THIS_MACHINE = Machinery()


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of the release, and those for more and other text."""
    _define_file_flags(values)
    _define_casing_flags(values)
    _define_text_flags(values)
    _define_pair_flags(values)
    _define_shard_flags(values)


@flag_groups.under(_Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    for name, text in (
        ("input_file", "Text files: comma-separated paths or globs."),
        ("output_file", "TFRecords, comma-separated, filled in turn."),
    ):
        flags.DEFINE_string(name, None, text, required=True, flag_values=values)
    flags.DEFINE_enum(
        "input_format", Options.input_format, _FORMATS,
        "text: a sentence a line, an empty line between documents, as "
        "released. Split into sentences here, and read from .xz, .gz, .bz2 "
        "and .tar too: wikiextractor: <doc ...> to </doc>, or its JSON; "
        "jsonl: an object a line; book: each file one book.",
        flag_values=values)  # fmt: skip


@flag_groups.under(_Group.TEXT)
def _define_casing_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "vocab_file", None, "The vocabulary: one word piece a line.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_boolean(
        "do_lower_case", Options.do_lower_case,
        "Lower-case and strip accents: True for an uncased vocabulary.",
        flag_values=values)  # fmt: skip


@flag_groups.under(_Group.PAIRS)
def _define_pair_flags(values: flags.FlagValues) -> None:
    default = _INSTANCE_DEFAULTS
    integer = functools.partial(flags.DEFINE_integer, flag_values=values)
    number = functools.partial(flags.DEFINE_float, flag_values=values)
    integer("max_seq_length", default.max_seq_length, "Tokens per pair.")
    integer(
        "max_predictions_per_seq",
        default.max_predictions_per_seq,
        "Most tokens to predict per pair.",
    )
    number("masked_lm_prob", default.masked_lm_prob, "Share to predict.")
    flags.DEFINE_boolean(
        "do_whole_word_mask", default.do_whole_word_mask,
        "Predict all pieces of a word together.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "masking", ",".join(map(str, default.masking)),
        "Percent of the predicted tokens that become [MASK], stay the same, "
        "become a random token (not in the release).",
        flag_values=values)  # fmt: skip
    number(
        "short_seq_prob",
        default.short_seq_prob,
        "Share of documents cut into pairs of a random shorter length.",
    )
    integer("dupe_factor", default.dupe_factor, "Passes over the text.")
    integer("random_seed", Options.random_seed, "Decides every random draw.")


@flag_groups.under(_Group.RAW_TEXT)
def _define_text_flags(values: flags.FlagValues) -> None:
    string = functools.partial(flags.DEFINE_string, flag_values=values)
    string("language", Options.language, "ISO 639 code: how sentences end.")
    string("encoding", Options.encoding, "Of the files; text is always UTF-8.")
    string("text_field", Options.text_field, "jsonl: the field with the text.")
    flags.DEFINE_integer(
        "min_paragraph_words", Options.min_paragraph_words,
        "Drop shorter paragraphs. 8 by default for wikiextractor, else 0; not "
        "for text.",
        lower_bound=0, flag_values=values)  # fmt: skip


@flag_groups.under(_Group.SPEED)
def _define_shard_flags(values: flags.FlagValues) -> None:
    integer = functools.partial(
        flags.DEFINE_integer, lower_bound=0, flag_values=values
    )
    integer(
        "shard_documents",
        Options.shard_documents,
        "Make the records of so many documents at a time, each with a file "
        "OUT-00000, OUT-00001 ... and the next random_seed; 0 for all at once.",
    )
    flags.DEFINE_bool(
        "shard_by_file", Options.shard_by_file,
        "The same, with a shard for each input file.",
        flag_values=values)  # fmt: skip
    integer(
        "num_workers",
        Machinery.num_workers,
        "Processes that make shards; 0 for one per core.",
    )
    flags.DEFINE_string(
        "runner", Machinery.runner,
        "Make the shards with this runner of Apache Beam, such as "
        "DirectRunner; its options follow after --.",
        flag_values=values)  # fmt: skip


def options_from(values: flags.FlagValues) -> Options:
    """Reads the flags.

    Raises:
        ValueError: a flag has an impossible value.
    """
    same = {field.name for field in dataclasses.fields(Options)}
    same -= {"output_file", "instances"}
    made = {field.name for field in dataclasses.fields(_INSTANCE_DEFAULTS)}
    made -= {"masking"}
    return Options(
        output_file=tuple(
            filter(None, map(str.strip, values.output_file.split(",")))
        ),
        instances=masked_pairs.InstanceOptions(
            masking=masked_pairs.parse_masking(values.masking),
            **{name: values[name].value for name in made},
        ),
        **{name: values[name].value for name in same},
    )


def machinery_from(
    values: flags.FlagValues, beam_arguments: Sequence[str]
) -> Machinery:
    """Reads the flags that say on what the work is done.

    Raises:
        ValueError: there are arguments for Beam, but no runner.
    """
    if beam_arguments and not values.runner:
        raise ValueError(
            "Only flags, --NAME=VALUE with the equals sign, are expected, and "
            "options of Apache Beam after -- where there is a --runner; got "
            f"{' '.join(beam_arguments)}."
        )
    return Machinery(
        num_workers=values.num_workers,
        runner=values.runner,
        beam_arguments=tuple(beam_arguments),
    )


def run(options: Options, machinery: Machinery = _THIS_MACHINE) -> None:
    """Reads the text, makes the instances, writes the records.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: no input file matches, the text is empty or not UTF-8, the
            vocabulary lacks a special token, or an output would overwrite an
            input.
    """
    started = time.monotonic()
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, do_lower_case=options.do_lower_case
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]", "[MASK]")
    for warning in (
        *data_warnings.casing_warnings(
            tokenizer.vocab, do_lower_case=options.do_lower_case
        ),
        *data_warnings.prediction_warnings(options.instances),
    ):
        logging.warning("%s", warning)
    text = text_of(options)
    store = _record_files(options, tokenizer, text)
    destinations.check_files(store.outputs(), [*text.paths, options.vocab_file])
    recipe = pretraining_shards.Recipe(
        vocab_file=options.vocab_file,
        do_lower_case=options.do_lower_case,
        random_seed=options.random_seed,
        options=options.instances,
        rules=text.rules,
        store=store,
    )
    total = pretraining_shards.log_reports(
        _reports(text, recipe, machinery), text
    )
    shards = range(total.num_shards)
    written = itertools.chain.from_iterable(map(store.paths_of, shards))
    destinations.warn_of_others(store.others(written))
    logging.info("Took %.1f seconds.", time.monotonic() - started)


def text_of(options: Options) -> pretraining_shards.Text:
    """Finds the files, or raises ValueError; says how they are read and cut."""
    rules = None
    if options.input_format != "text":
        rules = preparation.rules_of(
            options.input_format,
            options.min_paragraph_words,
            language=options.language,
        )
    return pretraining_shards.Text(
        paths=tuple(paths.expand(options.input_file)),
        rules=rules,
        reading=formats.ReadOptions(
            encoding=options.encoding, text_field=options.text_field
        ),
        shard_documents=options.shard_documents,
        shard_by_file=options.shard_by_file,
    )


def _record_files(options, tokenizer, text):
    from training import pretraining_records, records

    made_with = dataclasses.asdict(options)
    made_with.update(made_with.pop("instances"))
    return pretraining_records.PretrainingRecords(
        record_paths=options.output_file,
        made_with=records.Metadata(
            kind="pretraining",
            max_seq_length=options.instances.max_seq_length,
            max_predictions_per_seq=options.instances.max_predictions_per_seq,
            vocab_size=tokenizer.vocab_size,
            vocab_sha256=records.vocab_sha256(tokenizer.vocab),
            do_lower_case=options.do_lower_case,
            num_records=0,
            flags=made_with,
        ),
        is_sharded=text.is_sharded,
    )


def _reports(text, recipe, machinery) -> Iterator[pretraining_shards.Report]:
    shards = pretraining_shards.read_shards(text)
    if machinery.runner:
        yield beam.make_shards(
            text, recipe, machinery.runner, machinery.beam_arguments
        )
    elif text.is_sharded:
        yield from processes.map_in_order(
            functools.partial(pretraining_shards.make_shard, recipe),
            shards,
            machinery.num_workers,
        )
    else:
        report = progress.Progress()
        for shard in shards:
            yield pretraining_shards.make_shard(
                recipe, shard, lambda share: report("instances", share, 1)
            )


def main(argv: list[str]) -> None:
    """Runs the script with its flags, and options of Apache Beam after --."""
    machinery = machinery_from(flags.FLAGS, argv[1:])
    run(options_from(flags.FLAGS), machinery)


if __name__ == "__main__":
    program.start(define_flags, main, arguments=ARGUMENTS)

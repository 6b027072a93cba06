"""Turns text into TFRecords of masked sentence pairs, to pre-train BERT on.

The text is UTF-8, one sentence a line, a blank line between documents:

  python create_pretraining_data.py --input_file='text/*.txt' \\
      --output_file=data/pairs.tfrecord --vocab_file=vocab.txt \\
      --max_seq_length=128 --max_predictions_per_seq=20 --dupe_factor=5

The same text, flags and seed give the records of the released program, in the
same order. max_seq_length and max_predictions_per_seq must be those of
run_pretraining.py; masked_lm_prob * max_seq_length is a good number of
predictions. All instances are held in memory: cut a large corpus into several
inputs and call the program for each, with a random_seed of its own.
"""

import dataclasses
import functools
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

from absl import app, flags, logging

from files import paths
from tasks import masking, pretraining, pretraining_warnings
from vocab import tokenization

_NUM_INSTANCES_LOGGED = 20  # Source: the release.
_INSTANCE_DEFAULTS = pretraining.InstanceOptions()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags`."""

    input_file: str
    output_file: tuple[str, ...]
    vocab_file: str
    do_lower_case: bool = True
    random_seed: int = 12345
    instances: pretraining.InstanceOptions = _INSTANCE_DEFAULTS

    def __post_init__(self):
        if not self.output_file:
            raise ValueError("output_file must name one or more files.")


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of the release, and `--masking`."""
    default = _INSTANCE_DEFAULTS
    text = functools.partial(
        flags.DEFINE_string, default=None, required=True, flag_values=values
    )
    boolean = functools.partial(flags.DEFINE_bool, flag_values=values)
    integer = functools.partial(flags.DEFINE_integer, flag_values=values)
    number = functools.partial(flags.DEFINE_float, flag_values=values)

    text("input_file", help="Text files: comma-separated paths or globs.")
    text("output_file", help="TFRecords, comma-separated, filled in turn.")
    text("vocab_file", help="The vocabulary: one word piece a line.")
    boolean(
        "do_lower_case",
        Options.do_lower_case,
        "Lower-case and strip accents: True for an uncased vocabulary.",
    )
    boolean(
        "do_whole_word_mask",
        default.do_whole_word_mask,
        "Predict all pieces of a word together.",
    )
    integer("max_seq_length", default.max_seq_length, "Tokens per pair.")
    integer(
        "max_predictions_per_seq",
        default.max_predictions_per_seq,
        "Most tokens to predict per pair.",
    )
    integer("random_seed", Options.random_seed, "Decides every random draw.")
    integer("dupe_factor", default.dupe_factor, "Passes over the text.")
    number("masked_lm_prob", default.masked_lm_prob, "Share to predict.")
    number(
        "short_seq_prob",
        default.short_seq_prob,
        "Share of documents cut into pairs of a random shorter length.",
    )
    flags.DEFINE_string(
        "masking",
        ",".join(map(str, default.masking)),
        "Percent of the predicted tokens that become [MASK], stay the same, "
        "become a random token (not in the release).",
        flag_values=values,
    )


def options_from(values: flags.FlagValues) -> Options:
    """Reads the flags.

    Raises:
        ValueError: a flag has an impossible value.
    """
    return Options(
        input_file=values.input_file,
        output_file=tuple(
            filter(None, map(str.strip, values.output_file.split(",")))
        ),
        vocab_file=values.vocab_file,
        do_lower_case=values.do_lower_case,
        random_seed=values.random_seed,
        instances=pretraining.InstanceOptions(
            max_seq_length=values.max_seq_length,
            max_predictions_per_seq=values.max_predictions_per_seq,
            dupe_factor=values.dupe_factor,
            short_seq_prob=values.short_seq_prob,
            masked_lm_prob=values.masked_lm_prob,
            do_whole_word_mask=values.do_whole_word_mask,
            masking=masking.parse_masking(values.masking),
        ),
    )


def run(options: Options) -> None:
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
    tokenizer.require_tokens("[CLS]", "[SEP]", "[MASK]")
    vocab_words = list(tokenizer.vocab)
    _warn(
        pretraining_warnings.casing_warnings(
            vocab_words, do_lower_case=options.do_lower_case
        )
    )
    documents = _read(options, tokenizer)
    _warn(pretraining_warnings.corpus_warnings(documents, options.instances))
    instances = pretraining.create_training_instances(
        documents,
        vocab_words,
        options.instances,
        random.Random(options.random_seed),
    )
    logging.info(
        "Made %d instances, %.1f %% of them with a random next.",
        len(instances),
        100 * pretraining_warnings.random_next_share(instances),
    )
    _warn(pretraining_warnings.balance_warnings(instances))
    _write(options, tokenizer, instances)
    logging.info("Took %.1f seconds.", time.monotonic() - started)


def _read(
    options: Options, tokenizer: tokenization.FullTokenizer
) -> list[pretraining.Document]:
    input_paths = paths.expand(options.input_file)
    overwritten = sorted(set(input_paths) & set(options.output_file))
    if overwritten:
        raise ValueError(
            f"output_file must not name an input file; got {overwritten}."
        )
    for path in input_paths:
        logging.info("Reading %s", path)
    documents = pretraining.read_documents(input_paths, tokenizer.tokenize)
    logging.info(
        "Read %d files: %d documents, %d sentences.",
        len(input_paths),
        len(documents),
        sum(map(len, documents)),
    )
    return documents


def _write(
    options: Options,
    tokenizer: tokenization.FullTokenizer,
    instances: Sequence[pretraining.TrainingInstance],
) -> None:
    from training import records

    counts = records.write_records(
        options.output_file,
        _logged_features(instances, tokenizer, options.instances),
        records.pretraining_features(
            options.instances.max_seq_length,
            options.instances.max_predictions_per_seq,
        ),
    )
    made_with = dataclasses.asdict(options)
    made_with.update(made_with.pop("instances"))
    for path, count in zip(options.output_file, counts, strict=True):
        metadata = records.Metadata(
            kind="pretraining",
            max_seq_length=options.instances.max_seq_length,
            max_predictions_per_seq=options.instances.max_predictions_per_seq,
            vocab_size=tokenizer.vocab_size,
            vocab_sha256=records.vocab_sha256(tokenizer.vocab),
            do_lower_case=options.do_lower_case,
            num_records=count,
            flags=made_with,
        )
        records.write_metadata(path, metadata)
        logging.info("Wrote %d records to %s", count, path)


def _logged_features(
    instances: Sequence[pretraining.TrainingInstance],
    tokenizer: tokenization.FullTokenizer,
    options: pretraining.InstanceOptions,
) -> Iterator[dict[str, Any]]:
    """Yields the features of each instance, and logs the first ones."""
    for number, instance in enumerate(instances):
        features = pretraining.instance_features(
            instance, tokenizer.convert_tokens_to_ids, options
        )
        if number < _NUM_INSTANCES_LOGGED:
            logging.info("*** Example ***")
            logging.info("tokens: %s", " ".join(instance.tokens))
            for name, values in features.items():
                logging.info("%s: %s", name, " ".join(map(str, values)))
        yield features


def _warn(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        logging.warning("%s", sentence)


def main(argv: Sequence[str]) -> None:
    """Runs the program with its flags."""
    if len(argv) > 1:
        raise app.UsageError(f"Only flags are expected; got {argv[1:]}.")
    run(options_from(flags.FLAGS))


if __name__ == "__main__":
    define_flags()
    flags.FLAGS.set_default("verbosity", logging.INFO)
    app.run(main)

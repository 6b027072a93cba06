"""Learns a WordPiece vocabulary from text, laid out as the released ones.

For example, for a model of another language or field:

  python -m tools.learn_vocab --input_file='corpus/*.txt' \\
    --output_file=vocab.txt --vocab_size=30522 --do_lower_case=True
"""

import dataclasses
import time

from absl import flags, logging

from commands import flag_groups, program
from files import destinations, paths, writing
from vocab import learning


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags` for each."""

    input_file: str
    output_file: str
    learning: learning.Options


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this tool."""
    _define_file_flags(values)
    _define_text_flags(values)
    _define_vocabulary_flags(values)
    _define_speed_flags(values)


@flag_groups.under(flag_groups.Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "input_file", None,
        "Text to learn from, UTF-8: globs, comma-separated.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "output_file", None, "Vocabulary to write, one entry a line.",
        required=True, flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.TEXT)
def _define_text_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_bool(
        "do_lower_case", learning.Options.do_lower_case,
        "Lower-case and strip accents, as the model's tokenizer will.",
        flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.VOCABULARY)
def _define_vocabulary_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "vocab_size", learning.Options.vocab_size,
        "Entries, special tokens included: vocab_size of the model.",
        lower_bound=1, flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "num_unused", learning.Options.num_unused,
        "[unusedN] entries, to be replaced by words of your own later. 99 "
        "give [UNK] to [MASK] the released ids 100 to 103; more come after.",
        lower_bound=learning.Options.num_unused,
        flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "min_character_count", learning.Options.min_character_count,
        "Leave out characters seen less often; words with one become [UNK].",
        lower_bound=1, flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.SPEED)
def _define_speed_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "max_words", learning.Options.max_words,
        "Distinct words to hold in memory, about 1 kB each; beyond it the "
        "rarest are forgotten.",
        lower_bound=1, flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "num_workers", learning.Options.num_workers,
        "Processes that count words; 0 for one per core. The vocabulary is "
        "the same.",
        lower_bound=0, flag_values=values)  # fmt: skip


def run(options: Options) -> None:
    """Learns a vocabulary and writes it, whole or not at all.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: no file matches, or `learning.learn_vocabulary` refuses.
    """
    input_files = paths.expand(options.input_file)
    destinations.check_files([options.output_file], input_files)
    logging.info("%s", options)
    start = time.monotonic()
    vocabulary = learning.learn_vocabulary(input_files, options.learning)
    with writing.whole_file(options.output_file) as file:
        file.writelines(f"{entry}\n" for entry in vocabulary)
    logging.info(
        "Wrote %d entries to %s in %.0f s.",
        len(vocabulary),
        options.output_file,
        time.monotonic() - start,
    )


def read_options(values: flags.FlagValues = flags.FLAGS) -> Options:
    """Returns what the flags say."""
    fields = [field.name for field in dataclasses.fields(learning.Options)]
    return Options(
        input_file=values.input_file,
        output_file=values.output_file,
        learning=learning.Options(
            **{name: values[name].value for name in fields}
        ),
    )


def main(_: list[str]) -> None:
    """Runs the tool with its flags."""
    run(read_options(flags.FLAGS))


if __name__ == "__main__":
    program.start(define_flags, main)

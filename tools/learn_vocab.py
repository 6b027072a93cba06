"""Learns a WordPiece vocabulary from text, in the layout of the released ones.

For example, for a model of another language or field:

  python -m tools.learn_vocab --input_file='corpus/*.txt' \\
    --output_file=vocab.txt --vocab_size=30522 --do_lower_case=True
"""

import dataclasses
import time

from absl import logging

from commands import flags, program
from files import paths, writing
from vocab import languages, learning

_DEFAULTS = learning.Options()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    input_file: str = flags.Group.FILES.required(
        "Text to learn from, UTF-8: globs, comma-separated."
    )
    output_file: str = flags.Group.FILES.required(
        "Vocabulary to write, one entry a line."
    )
    do_lower_case: bool = flags.Group.TEXT.flag(
        _DEFAULTS.do_lower_case,
        "Lower-case and strip accents, as the model's tokenizer will.",
    )
    language_exponent: float | None = flags.Group.TEXT.optional(
        "Weight the words of each language by its share of the text to this "
        "power, 0.7 for multilingual BERT; --input_file=en=FILES,is=FILES.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    vocab_size: int = flags.Group.VOCABULARY.count(
        _DEFAULTS.vocab_size,
        "Entries, special tokens included: vocab_size of the model.",
    )
    num_unused: int = flags.Group.VOCABULARY.flag(
        _DEFAULTS.num_unused,
        "[unusedN] entries, which can be replaced by other words later. With "
        "99, [UNK] to [MASK] have the released ids 100 to 103; more follow.",
        lower_bound=_DEFAULTS.num_unused,
    )
    min_character_count: int = flags.Group.VOCABULARY.count(
        _DEFAULTS.min_character_count,
        "Omit rarer characters; words with one become [UNK].",
    )
    max_words: int = flags.Group.SPEED.count(
        _DEFAULTS.max_words,
        "Maximum number of distinct words in memory, about 1 kB each; then the "
        "rarest are dropped.",
    )
    num_workers: int = flags.Group.SPEED.flag(
        _DEFAULTS.num_workers,
        "Processes that count words; 0 for one per core. The vocabulary is "
        "the same.",
        lower_bound=0,
    )


def run(options: Options) -> None:
    """Learns a vocabulary and writes it, whole or not at all.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: no file matches, or `learning.learn_vocabulary` refuses.
    """
    exponent = options.language_exponent
    if exponent is None:
        files = {"": paths.expand(options.input_file)}
    else:
        files = languages.expand(options.input_file)
    input_files = [name for names in files.values() for name in names]
    writing.check_files([options.output_file], input_files)
    start = time.monotonic()
    vocabulary_options = flags.narrow(learning.Options, options)
    if exponent is None:
        vocabulary = learning.learn_vocabulary(input_files, vocabulary_options)
    else:
        vocabulary = learning.learn_multilingual_vocabulary(
            files, exponent, vocabulary_options
        )
    with writing.whole_file(options.output_file) as file:
        file.writelines(f"{entry}\n" for entry in vocabulary)
    logging.info(
        "Wrote %d entries to %s in %.0f s.",
        len(vocabulary),
        options.output_file,
        time.monotonic() - start,
    )


if __name__ == "__main__":
    program.start(Options, run)

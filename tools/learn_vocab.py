"""Learns a WordPiece vocabulary from text, in the layout of the released ones.

For example, for a model of another language or field:

  python -m tools.learn_vocab --input_file='corpus/*.txt' \\
    --output_file=vocab.txt --vocab_size=30522 --do_lower_case=True
"""

import dataclasses

from absl import logging

from bert.commands import flags, program
from bert.files import paths, writing
from vocab import learning


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(learning.Options):
    """The flags of this tool; see --help."""

    input_file: flags.Path = flags.Group.FILES.required(
        "Text to learn from, UTF-8: globs, comma-separated."
    )
    output_file: flags.Path = flags.Group.FILES.required(
        "Vocabulary to write, one entry per line."
    )


def run(options: Options) -> None:
    """Learns a vocabulary and writes it, whole or not at all.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: no file matches, or `learning.learn_vocabulary` refuses.
    """
    input_files = paths.expand(options.input_file)
    writing.check_files([options.output_file], input_files)
    vocabulary = learning.learn_vocabulary(input_files, options)
    with writing.whole_file(options.output_file) as file:
        file.writelines(f"{entry}\n" for entry in vocabulary)
    logging.info(
        "Wrote %d entries to %s.", len(vocabulary), options.output_file
    )


if __name__ == "__main__":
    program.start(Options, run)

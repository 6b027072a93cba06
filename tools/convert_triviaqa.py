"""Makes a SQuAD 1.1 training file from TriviaQA-Wiki.

  python -m tools.convert_triviaqa \\
    --input_file=qa/wikipedia-train.json --evidence_dir=evidence/wikipedia \\
    --output_file=triviaqa-train.json

Then train on it before SQuAD, as the paper did for Table 2:

  python run_squad.py --train_file=triviaqa-train.json,train-v1.1.json ...
"""

import dataclasses
import os

from absl import flags, logging

from commands import flag_groups, program
from commands import flags as flags_lib
from files import destinations, writing
from tasks.squad import triviaqa


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags` for each."""

    input_file: str
    evidence_dir: str
    output_file: str
    max_words: int = triviaqa.MAX_WORDS


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this tool."""
    _define_file_flags(values)
    _define_text_flags(values)


@flag_groups.under(flag_groups.Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "input_file", None, "Questions of TriviaQA: wikipedia-train.json.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "evidence_dir", None, "Folder with the pages: evidence/wikipedia.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "output_file", None, "SQuAD 1.1 file to write.",
        required=True, flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.TEXT)
def _define_text_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "max_words", Options.max_words, "Words kept of the start of a page.",
        lower_bound=1, flag_values=values)  # fmt: skip


def run(options: Options) -> None:
    """Converts one file.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the input is not of TriviaQA, or nothing can be kept.
    """
    inputs = [options.input_file]
    target = os.path.realpath(options.output_file)
    folder = os.path.join(os.path.realpath(options.evidence_dir), "")
    if target.startswith(folder) and os.path.exists(target):
        inputs.append(target)
    destinations.check_files([options.output_file], inputs)
    dataset = triviaqa.convert(
        options.input_file, options.evidence_dir, max_words=options.max_words
    )
    writing.write_json(options.output_file, dataset)
    num_questions = sum(
        len(paragraph["qas"])
        for entry in dataset["data"]
        for paragraph in entry["paragraphs"]
    )
    logging.info(
        "Wrote %d questions on %d pages to %s.",
        num_questions,
        len(dataset["data"]),
        options.output_file,
    )


def main(_: list[str]) -> None:
    """Runs the tool with its flags."""
    run(flags_lib.read(Options, flags.FLAGS))


if __name__ == "__main__":
    program.start(define_flags, main)

"""Converts TriviaQA-Wiki to a SQuAD 1.1 training file.

  python -m tools.convert_triviaqa \\
    --input_file=qa/wikipedia-train.json --evidence_dir=evidence/wikipedia \\
    --output_file=triviaqa-train.json

Then train on it before SQuAD, as the paper did for Table 2:

  python run_squad.py --train_file=triviaqa-train.json,train-v1.1.json ...
"""

import dataclasses
import os

from absl import logging

from commands import flags, program
from files import writing
from tasks.squad import triviaqa


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    input_file: str = flags.Group.FILES.required(
        "Questions of TriviaQA: wikipedia-train.json."
    )
    evidence_dir: str = flags.Group.FILES.required(
        "Folder with the pages: evidence/wikipedia."
    )
    output_file: str = flags.Group.FILES.required("SQuAD 1.1 file to write.")
    max_words: int = flags.Group.TEXT.count(
        triviaqa.MAX_WORDS, "Words to keep from the start of a page."
    )


def run(options: Options) -> None:
    """Converts one file.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the input is not TriviaQA, or no question can be converted.
    """
    inputs = [options.input_file]
    target = os.path.realpath(options.output_file)
    folder = os.path.join(os.path.realpath(options.evidence_dir), "")
    if target.startswith(folder) and os.path.exists(target):
        inputs.append(target)
    writing.check_files([options.output_file], inputs)
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


if __name__ == "__main__":
    program.start(Options, run)

"""Takes a part of a SQuAD file, holds some of it out, shortens contexts.

For runs that a laptop can make:

  python -m paper.squad_part --input_file=train-v1.1.json \\
    --output_file=train-small.json --num_questions=4000
  python -m paper.squad_part --input_file=dev-v2.0.json \\
    --output_file=train.json --holdout_every=4 --holdout_file=held_out.json
  python -m paper.squad_part --input_file=dev-v1.1.json \\
    --output_file=dev-short.json --context_words=24 --all_answers

What is held out are whole articles. A part is taken evenly from all articles.
Where several answers are given for a question, as in development files, the
part to train on keeps the first alone.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags, logging

from commands import flag_groups, program
from files import destinations, json_text, writing
from paper import short_contexts

_ANSWER = {"text": str, "answer_start": int}
_QUESTION = {"id": str, "answers": [_ANSWER]}
_SQUAD = {"data": [{"paragraphs": [{"context": str, "qas": [_QUESTION]}]}]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags`."""

    input_file: str
    output_file: str
    num_questions: int = 0
    holdout_every: int = 0
    holdout_file: str | None = None
    context_words: int = 0
    all_answers: bool = False

    def __post_init__(self):
        if bool(self.holdout_every) != bool(self.holdout_file):
            raise ValueError(
                "--holdout_every and --holdout_file go together; got "
                f"{self.holdout_every} and {self.holdout_file!r}."
            )


@flag_groups.under(flag_groups.Group.FILES)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this program."""
    for name, meaning in (
        ("input_file", "SQuAD file to take from."),
        ("output_file", "SQuAD file to write."),
    ):
        flags.DEFINE_string(
            name, None, meaning, required=True, flag_values=values
        )
    flags.DEFINE_integer(
        "num_questions",
        0,
        "Questions to take, about; 0 for all.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "holdout_every",
        0,
        "Every Nth article goes to --holdout_file instead; 0 for none.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_string(
        "holdout_file", None, "SQuAD file of what is held out.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "context_words",
        0,
        "Words of context to keep around the first answer of each question; 0 "
        "for whole contexts.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_bool(
        "all_answers", False,
        "Keep all answers of a question in --output_file, to evaluate on.",
        flag_values=values)  # fmt: skip


def run(options: Options) -> None:
    """Writes the parts.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the file is not of SQuAD, or a part would be empty.
    """
    outputs = filter(None, [options.output_file, options.holdout_file])
    destinations.check_files(outputs, [options.input_file])
    content = json_text.read_object(options.input_file)
    if not json_text.has_shape(content, _SQUAD):
        raise ValueError(
            f"{options.input_file}: must be a SQuAD file: articles of "
            "paragraphs, each with a context and questions, each with an id "
            "and answers."
        )
    articles, every = content["data"], options.holdout_every
    held_out = articles[every - 1 :: every] if every else []
    kept = [
        article
        for number, article in enumerate(articles, start=1)
        if not every or number % every
    ]
    taken = thin_out(kept, options.num_questions)
    if not options.all_answers:
        taken = [_to_train_on(each) for each in taken]
    written = {options.output_file: taken}
    if every:
        written[options.holdout_file] = held_out
    if options.context_words:
        written = {
            path: [
                short_contexts.shorten(article, options.context_words)
                for article in part
            ]
            for path, part in written.items()
        }
    for path, part in written.items():
        count = num_questions(part)
        if not count:
            raise ValueError(
                f"{options.input_file}: must hold enough for every part; "
                f"nothing is left for {path}."
            )
        writing.write_json(path, {**content, "data": part})
        logging.info("Wrote %d questions to %s", count, path)


def num_questions(articles: Sequence[Mapping[str, Any]]) -> int:
    """Counts the questions of articles."""
    return sum(
        len(paragraph["qas"])
        for article in articles
        for paragraph in article["paragraphs"]
    )


def thin_out(
    articles: Sequence[Mapping[str, Any]], wanted: int
) -> list[Mapping[str, Any]]:
    """Takes paragraphs evenly, of about so many questions; all for 0."""
    total = num_questions(articles)
    if not wanted or wanted >= total:
        return list(articles)
    taken, passed, so_far = [], 0, 0
    for article in articles:
        paragraphs = []
        for paragraph in article["paragraphs"]:
            passed += len(paragraph["qas"])
            # So many should have been taken by now.
            if so_far < passed * wanted / total:
                paragraphs.append(paragraph)
                so_far += len(paragraph["qas"])
        if paragraphs:
            taken.append({**article, "paragraphs": paragraphs})
    return taken


def _to_train_on(article: Mapping[str, Any]) -> dict[str, Any]:
    """Keeps one answer of each question, as training wants."""
    return {
        **article,
        "paragraphs": [
            {
                **paragraph,
                "qas": [
                    {**qa, "answers": qa["answers"][:1]}
                    for qa in paragraph["qas"]
                ],
            }
            for paragraph in article["paragraphs"]
        ],
    }


def main(_: list[str]) -> None:
    """Runs the program with its flags."""
    values = flags.FLAGS
    chosen = {
        field.name: values[field.name].value
        for field in dataclasses.fields(Options)
    }
    run(Options(**chosen))


if __name__ == "__main__":
    program.start(define_flags, main)

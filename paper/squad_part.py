"""Samples, splits and shortens SQuAD files.

Examples for small-scale runs:

  python -m paper.squad_part --input_file=train-v1.1.json \\
    --output_file=train-small.json --num_questions=4000
  python -m paper.squad_part --input_file=dev-v2.0.json \\
    --output_file=train.json --holdout_every=4 --holdout_file=held_out.json
  python -m paper.squad_part --input_file=dev-v1.1.json \\
    --output_file=dev-short.json --context_words=24 --all_answers

Full articles are held out. Questions are sampled evenly from all articles.
If a question has several answers, as in dev files, the training part keeps only
the first.
"""

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from commands import flags, program
from files import json_text, writing

_GROUP = flags.Group.FILES
_WORD = re.compile(r"\S+")
_ANSWER = {"text": str, "answer_start": int}
_QUESTION = {"id": str, "answers": [_ANSWER]}
_SQUAD = {"data": [{"paragraphs": [{"context": str, "qas": [_QUESTION]}]}]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    input_file: str = _GROUP.required("SQuAD file to sample from.")
    output_file: str = _GROUP.required("SQuAD file to write.")
    num_questions: int = _GROUP.whole(
        0, "Approximate number of questions; 0 for all."
    )
    holdout_every: int = _GROUP.whole(
        0, "Every Nth article goes to --holdout_file instead; 0 for none."
    )
    holdout_file: str | None = _GROUP.optional(
        "SQuAD file for the held-out articles."
    )
    context_words: int = _GROUP.whole(
        0,
        "Words of context to keep around the first answer of each question; 0 "
        "for full contexts.",
    )
    all_answers: bool = _GROUP.switch(
        "Keep all answers of a question in --output_file, to evaluate on."
    )

    def __post_init__(self):
        if bool(self.holdout_every) != bool(self.holdout_file):
            raise ValueError(
                "--holdout_every and --holdout_file must be used together; got "
                f"{self.holdout_every} and {self.holdout_file!r}."
            )


def run(options: Options) -> None:
    """Writes the parts.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the file is not a SQuAD file, or a part would be empty.
    """
    outputs = filter(None, [options.output_file, options.holdout_file])
    writing.check_files(outputs, [options.input_file])
    content = json_text.read_object(options.input_file)
    if not json_text.has_shape(content, _SQUAD):
        raise ValueError(
            f"{options.input_file}: must be a SQuAD file: articles of "
            "paragraphs, each with a context and questions, each with an id "
            "and answers."
        )
    kept = content["data"]
    written: dict[str, Sequence[Mapping[str, Any]]] = {}
    if every := options.holdout_every:
        holdout_file = flags.needed(options.holdout_file, "holdout_file")
        written[holdout_file] = kept[every - 1 :: every]
        del kept[every - 1 :: every]
    taken = thin_out(kept, options.num_questions)
    if not options.all_answers:
        for qa in questions(taken):
            del qa["answers"][1:]
    written = {options.output_file: taken, **written}
    if options.context_words:
        written = {
            path: [shorten(article, options.context_words) for article in part]
            for path, part in written.items()
        }
    counts = {path: len(questions(part)) for path, part in written.items()}
    for path, count in counts.items():
        if not count:
            raise ValueError(
                f"{options.input_file}: too small for every part; "
                f"nothing is left for {path}."
            )
    for path, part in written.items():
        writing.write_json(path, {**content, "data": part})
        logging.info("Wrote %d questions to %s", counts[path], path)


def questions(articles: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lists the questions of articles."""
    return [
        qa
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def thin_out(
    articles: Sequence[Mapping[str, Any]], num_wanted: int
) -> list[Mapping[str, Any]]:
    """Samples paragraphs evenly, about `num_wanted` questions; 0 for all."""
    total = len(questions(articles))
    if not num_wanted or num_wanted >= total:
        return list(articles)
    taken: list[Mapping[str, Any]] = []
    passed = so_far = 0
    for article in articles:
        paragraphs = []
        for paragraph in article["paragraphs"]:
            passed += len(paragraph["qas"])
            # The number that should be sampled by now.
            if so_far < passed * num_wanted / total:
                paragraphs.append(paragraph)
                so_far += len(paragraph["qas"])
        if paragraphs:
            taken.append({**article, "paragraphs": paragraphs})
    return taken


def shorten(article: Mapping[str, Any], num_words: int) -> dict[str, Any]:
    """Gives every question of an article a separate, shorter context.

    The position of the first answer in it is random, but the same in every
    run. A question without answers gets random words of its context. Other
    answers are kept if they are completely inside.

    Args:
        article: of a SQuAD file.
        num_words: words to keep, more only if an answer is longer.

    Raises:
        ValueError: an answer is not in its context.
    """
    return {
        **article,
        "paragraphs": [
            _cut(paragraph["context"], qa, num_words)
            for paragraph in article["paragraphs"]
            for qa in paragraph["qas"]
        ],
    }


def _cut(context: str, qa: Mapping[str, Any], num_words: int) -> dict[str, Any]:
    answers = qa["answers"]
    words = [found.span() for found in _WORD.finditer(context)]
    draw = random.Random(qa["id"])
    if answers:
        start, end = _span(answers[0])
        inside = [
            number
            for number, word in enumerate(words)
            if word[0] < end and start < word[1]
        ]
        if not inside:
            raise ValueError(
                f"Question {qa['id']}: its answer {answers[0]['text']!r} must "
                f"be in its context; it starts at {start} of {len(context)}."
            )
        first, last = inside[0], inside[-1]
    else:
        first = last = draw.randrange(len(words)) if words else 0
    # Any start from which the words stay inside the context.
    begin = draw.randint(
        max(0, min(last - num_words + 1, first)),
        max(0, min(first, len(words) - num_words)),
    )
    kept = words[begin : max(begin + num_words, last + 1)] or [(0, 0)]
    left, right = kept[0][0], kept[-1][1]
    return {
        "context": context[left:right],
        "qas": [
            {
                **qa,
                "answers": [
                    {**answer, "answer_start": start - left}
                    for answer in answers
                    for start, end in [_span(answer)]
                    if left <= start and end <= right
                ],
            }
        ],
    }


def _span(answer: Mapping[str, Any]) -> tuple[int, int]:
    start = answer["answer_start"]
    return start, start + len(answer["text"])


if __name__ == "__main__":
    program.start(Options, run)

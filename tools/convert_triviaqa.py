"""Converts TriviaQA-Wiki to a SQuAD 1.1 training file.

  python -m tools.convert_triviaqa \\
    --input_file=qa/wikipedia-train.json --evidence_dir=evidence/wikipedia \\
    --output_file=triviaqa-train.json

Then train on it before SQuAD, as the paper did for Table 2:

  python run_squad.py --train_file=triviaqa-train.json --output_dir=trivia ...
  python run_squad.py --train_file=train-v1.1.json --init_checkpoint=trivia ...
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator
from typing import TypedDict

from absl import logging

from bert.commands import flags, program
from bert.files import json_text, lines, writing

# Source: Devlin et al. 2019, §4.2, which speaks of tokens; these are words.
_MAX_WORDS = 400
_FIRST_WORDS = re.compile(rf"\S+(?:\s+\S+){{0,{_MAX_WORDS - 1}}}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    input_file: flags.Path = flags.Group.FILES.required(
        "Questions of TriviaQA: wikipedia-train.json."
    )
    evidence_dir: flags.Path = flags.Group.FILES.required(
        "Folder with the pages: evidence/wikipedia."
    )
    output_file: flags.Path = flags.Group.FILES.required(
        "SQuAD 1.1 file to write."
    )


class _Answer(TypedDict):
    text: str
    answer_start: int


class _Question(TypedDict):
    id: str
    question: str
    answers: list[_Answer]


class _Paragraph(TypedDict):
    context: str
    qas: list[_Question]


class _Page(TypedDict):
    title: str
    paragraphs: list[_Paragraph]


class SquadFile(TypedDict):
    """The content of a SQuAD file."""

    version: str
    data: list[_Page]


def run(options: Options) -> None:
    """Converts one file.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: no question can be converted.
    """
    writing.check_files([options.output_file], [options.input_file])
    dataset = convert(options.input_file, options.evidence_dir)
    writing.write_json(options.output_file, dataset)
    logging.info(
        "Wrote %d questions on %d pages to %s.",
        sum(len(entry["paragraphs"][0]["qas"]) for entry in dataset["data"]),
        len(dataset["data"]),
        options.output_file,
    )


def convert(path: str, evidence_dir: str) -> SquadFile:
    """Converts a TriviaQA-Wiki file to the content of a SQuAD 1.1 file.

    Each page of evidence becomes one paragraph with every question that it
    answers: its first 400 words, as in the paper (§4.2, footnote). The answer
    is the first position where its value or an alias occurs as complete words,
    ignoring case; the longest of those that start there. Pairs of question and
    page without an answer are dropped and counted in the log.

    Args:
        path: such as `qa/wikipedia-train.json`.
        evidence_dir: folder of the pages, such as `evidence/wikipedia`.

    Returns:
        JSON for `json.dump`. The id of a question is `QuestionId--Filename`.

    Raises:
        OSError: `path` cannot be opened.
        ValueError: it is not JSON or has another format; no page has an answer.
    """
    pages: dict[str, _Paragraph | None] = {}
    num_unanswered = 0
    for question_id, question, answers, names in _questions(path):
        for name in names:
            if name not in pages:
                pages[name] = _paragraph(os.path.join(evidence_dir, name))
            paragraph = pages[name]
            if paragraph is None:
                continue
            match = answers.search(paragraph["context"])
            if match is None:
                num_unanswered += 1
                continue
            paragraph["qas"].append(
                {
                    "id": f"{question_id}--{name}",
                    "question": question,
                    "answers": [
                        {"text": match.group(), "answer_start": match.start()}
                    ],
                }
            )
    logging.info(
        "%d of %d pages are missing; %d questions have no answer in a page.",
        sum(page is None for page in pages.values()),
        len(pages),
        num_unanswered,
    )
    data: list[_Page] = [
        {"title": os.path.splitext(name)[0], "paragraphs": [page]}
        for name, page in pages.items()
        if page and page["qas"]
    ]
    if not data:
        raise ValueError(
            f"{path}: at least one of {len(pages)} pages in {evidence_dir} "
            f"must have an answer in its first {_MAX_WORDS} words."
        )
    return {"version": "1.1", "data": data}


def _questions(
    path: str,
) -> Iterator[tuple[str, str, re.Pattern[str], list[str]]]:
    """Yields the id, text, answers and page names of each question."""
    field = json_text.field
    dataset = json_text.read_object(path)
    for i, record in enumerate(field(dataset, "Data", list, f"{path}: $")):
        where = f"{path}: Data[{i}]"
        answer = field(record, "Answer", dict, where)
        value = field(answer, "Value", str, where)
        aliases = map(str, field(answer, "Aliases", list, where))
        pages = field(record, "EntityPages", list, where)
        yield (
            field(record, "QuestionId", str, where),
            field(record, "Question", str, where),
            _whole_words([value, *aliases]),
            [field(page, "Filename", str, where) for page in pages],
        )


def _whole_words(texts: Iterable[str]) -> re.Pattern[str]:
    """Compiles a search for any of the texts, ignoring case and spacing."""
    words = {tuple(text.split()) for text in texts if text.strip()}
    # Longest first, since the first matching alternative is taken.
    patterns = sorted(
        (r"\s+".join(map(re.escape, w)) for w in words),
        key=lambda text: (-len(text), text),
    )
    # The search for no texts must match nothing.
    pattern = "|".join(patterns) or r"(?!)"
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)


def _paragraph(file: str) -> _Paragraph | None:
    """Reads a page as a paragraph without questions; None if it is missing."""
    if not os.path.isfile(file):
        return None
    words = _FIRST_WORDS.search("\n".join(lines.read_lines(file)))
    return {"context": words.group() if words else "", "qas": []}


if __name__ == "__main__":
    program.start(Options, run)

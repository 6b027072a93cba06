"""Converts TriviaQA-Wiki to a SQuAD 1.1 training file.

  python -m tools.convert_triviaqa \\
    --input_file=qa/wikipedia-train.json --evidence_dir=evidence/wikipedia \\
    --output_file=triviaqa-train.json

Then train on it before SQuAD, as the paper did for Table 2:

  python run_squad.py --train_file=triviaqa-train.json --output_dir=trivia ...
  python run_squad.py --train_file=train-v1.1.json --init_checkpoint=trivia ...
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from absl import logging

from commands import flags, program
from files import json_text, lines, messages, writing

# Source: Devlin et al. 2019. The kind of tokens is not given; here words.
MAX_WORDS = 400
_WORD = re.compile(r"\S+")
_NUM_NAMED = 5  # Maximum names in a warning.
# Id, text, a search for the answer, and the file names of the pages.
_Question = tuple[str, str, re.Pattern[str], list[str]]


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
        MAX_WORDS, "Words to keep from the start of a page."
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
    dataset = convert(
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


def convert(
    path: str, evidence_dir: str, *, max_words: int = MAX_WORDS
) -> dict[str, Any]:
    """Converts a TriviaQA-Wiki file to the content of a SQuAD 1.1 file.

    Each page of evidence becomes one paragraph with every question that it
    answers: its first words, as in the paper (§4.2, footnote). The answer is
    the first position where its value or an alias occurs as complete words,
    ignoring case; the longest of those that start there. Pairs of question and
    page without an answer are dropped and counted in the log.

    Args:
        path: such as `qa/wikipedia-train.json`.
        evidence_dir: folder of the pages, such as `evidence/wikipedia`.
        max_words: length of a paragraph.

    Returns:
        JSON for `json.dump`. The id of a question is `QuestionId--Filename`.

    Raises:
        OSError: `path` cannot be opened.
        ValueError: it is not JSON or has another format; no page of evidence
            exists; no page has an answer.
    """
    pages: dict[str, dict[str, Any] | None] = {}
    unanswered = []
    for question_id, text, answers, names in _questions(path):
        for name in names:
            if name not in pages:
                pages[name] = _paragraph(evidence_dir, name, max_words)
            page = pages[name]
            if page is None:
                continue
            qas_id = f"{question_id}--{name}"
            match = answers.search(page["context"])
            if match is None:
                unanswered.append(qas_id)
                continue
            answer = {"text": match.group(), "answer_start": match.start()}
            page["qas"].append(
                {"id": qas_id, "question": text, "answers": [answer]}
            )
    absent = [name for name, page in pages.items() if page is None]
    _warn(path, absent, f"pages are not in {evidence_dir}")
    _warn(path, unanswered, "pairs of question and page have no answer")
    data = [
        {"title": os.path.splitext(name)[0], "paragraphs": [page]}
        for name, page in pages.items()
        if page and page["qas"]
    ]
    if not data:
        raise ValueError(
            f"{path}: at least one page in {evidence_dir} must have an answer "
            f"in its first {max_words} words; of {len(pages)} pages "
            f"{len(absent)} are missing and the others have none."
        )
    return {"version": "1.1", "data": data}


def first_words(text: str, max_words: int) -> str:
    """Returns the first `max_words` words of a text."""
    words = list(itertools.islice(_WORD.finditer(text), max_words))
    return text[words[0].start() : words[-1].end()] if words else ""


def _questions(path: str) -> Iterator[_Question]:
    field = json_text.field
    dataset = json_text.read(path)
    for i, record in enumerate(field(dataset, "Data", list, f"{path}: $")):
        where = f"{path}: Data[{i}]"
        answer = field(record, "Answer", dict, where)
        aliases = field(answer, "Aliases", list, f"{where}.Answer")
        for place, alias in enumerate(aliases):
            if not isinstance(alias, str):
                raise ValueError(
                    f"{where}.Answer.Aliases[{place}] must be a string; "
                    f"got {messages.short(alias)}."
                )
        value = field(answer, "Value", str, f"{where}.Answer")
        pages = field(record, "EntityPages", list, where)
        yield (
            field(record, "QuestionId", str, where),
            field(record, "Question", str, where),
            _whole_words([value, *aliases]),
            [
                _file_name(page, f"{where}.EntityPages[{j}]")
                for j, page in enumerate(pages)
            ],
        )


def _file_name(page: Any, where: str) -> str:
    """Reads the name of a page, which must be inside the folder of evidence."""
    name = json_text.field(page, "Filename", str, where)
    if os.path.isabs(name) or ".." in name.split("/"):
        raise ValueError(
            f"{where}.Filename must name a file in the folder of evidence; "
            f"got {messages.short(name)}, outside of it."
        )
    return name


def _whole_words(texts: Iterable[str]) -> re.Pattern[str]:
    """Compiles a search for any of the texts, ignoring case and spacing."""
    words = {tuple(text.split()) for text in texts if text.strip()}
    # Longest first, since the first matching alternative is taken.
    texts = sorted(
        (r"\s+".join(map(re.escape, w)) for w in words),
        key=lambda text: (-len(text), text),
    )
    # Without texts, it must match nothing.
    pattern = "|".join(texts) or r"(?!)"
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)


def _paragraph(
    evidence_dir: str, name: str, max_words: int
) -> dict[str, Any] | None:
    """Reads a page as a paragraph without questions; None if it is missing."""
    file = os.path.join(evidence_dir, name)
    if not os.path.isfile(file):
        return None
    kept, num_words = [], 0
    for line in lines.read_lines(file):
        kept.append(line)
        num_words += len(line.split())
        if num_words >= max_words:
            break
    return {"context": first_words("\n".join(kept), max_words), "qas": []}


def _warn(path: str, names: Sequence[str], what: str) -> None:
    if names:
        listed = messages.listed(names, _NUM_NAMED)
        logging.warning("%s: %d %s: %s.", path, len(names), what, listed)


if __name__ == "__main__":
    program.start(Options, run)

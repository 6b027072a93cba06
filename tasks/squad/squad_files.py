"""Files in the format of SQuAD 1.1 and 2.0, read and checked."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from files import json_text, paths, wording

_VERSION_2 = re.compile(r"v?2(\.\d{1,2})*(-[a-z].*)?", re.IGNORECASE)
_JSON_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    list: "a list",
    bool: "true or false",
    dict: "an object",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """A given answer: its text, and where in the paragraph it starts.

    `start` counts code points from 0, as the file does.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """One question as the file has it.

    `answers` and `is_impossible` are None where the file has no such field.
    `where` is the path to the question in the file, for messages.
    """

    qas_id: str
    text: str
    context: str
    answers: tuple[Answer, ...] | None
    is_impossible: bool | None
    where: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """A file of questions; `version` is what it says of itself, or ""."""

    path: str
    version: str
    questions: tuple[Question, ...]


def read_dataset(path: str) -> Dataset:
    """Reads and checks a SQuAD file.

    Raises:
        OSError: the file cannot be opened.
        ValueError: not UTF-8, not JSON, a field that is missing or of the
            wrong type; the message has the position or the path to it.
    """
    dataset = read_json(path)
    questions = tuple(_questions(dataset, path))
    if not questions:
        raise ValueError(f"{path}: must hold at least one question; has none.")
    version = dataset.get("version", "")
    return Dataset(path=path, version=str(version), questions=questions)


def check_version(dataset: Dataset, *, version_2_with_negative: bool) -> None:
    """Checks that a file and `--version_2_with_negative` belong together.

    Raises:
        ValueError: the file has unanswerable questions, or calls itself
            version 2, without the flag; or it has answers but nowhere
            `is_impossible`, with it: such a file is of version 1.1, whatever
            it calls itself.
    """
    questions = dataset.questions
    is_version_1 = any(question.answers for question in questions) and all(
        question.is_impossible is None for question in questions
    )
    if version_2_with_negative:
        if is_version_1:
            raise ValueError(
                f"{dataset.path}: with --version_2_with_negative questions "
                "must say `is_impossible`; none does, so this is a file of "
                "SQuAD 1.1. Leave the flag out."
            )
        return
    unanswerable = [q for q in questions if q.is_impossible]
    is_called_2 = _VERSION_2.fullmatch(dataset.version)
    if unanswerable or (is_called_2 and not is_version_1):
        raise ValueError(
            f"{dataset.path}: a file of SQuAD 2.0 (version "
            f"{wording.shown(dataset.version)}, {len(unanswerable)} "
            f"unanswerable questions of {len(questions)}) needs "
            "--version_2_with_negative."
        )


def require_unique_ids(dataset: Dataset) -> None:
    """Checks that no two questions have one id.

    Raises:
        ValueError: two have; names the id and both places.
    """
    first_place = {}
    for question in dataset.questions:
        earlier = first_place.setdefault(question.qas_id, question.where)
        if earlier != question.where:
            raise ValueError(
                f"{question.where}: ids must be unique; "
                f"{wording.shown(question.qas_id)} is also the id of {earlier}."
            )


def read_json(path: str) -> Any:
    """Reads a file of JSON.

    Raises:
        OSError: the file cannot be opened.
        ValueError: not UTF-8 or not JSON; the message has the position.
    """
    with paths.open_to_read(path) as file:
        return json_text.parse(file.read(), path)


def _questions(dataset: Any, path: str) -> Iterator[Question]:
    """Walks a parsed file; every field is checked on the way."""
    for i, entry in enumerate(field(dataset, "data", list, f"{path}: $")):
        at = f"{path}: data[{i}]"
        for j, paragraph in enumerate(field(entry, "paragraphs", list, at)):
            at_paragraph = f"{at}.paragraphs[{j}]"
            context = field(paragraph, "context", str, at_paragraph)
            for k, qa in enumerate(field(paragraph, "qas", list, at_paragraph)):
                yield _question(qa, context, f"{at_paragraph}.qas[{k}]")


def _question(qa: Any, context: str, where: str) -> Question:
    answers = is_impossible = None
    text = field(qa, "question", str, where)
    if "answers" in qa:
        answers = tuple(
            Answer(
                text=field(answer, "text", str, f"{where}.answers[{i}]"),
                start=field(
                    answer, "answer_start", int, f"{where}.answers[{i}]"
                ),
            )
            for i, answer in enumerate(field(qa, "answers", list, where))
        )
    if "is_impossible" in qa:
        is_impossible = field(qa, "is_impossible", bool, where)
    return Question(
        # A number as id comes out as JSON writes it for a key.
        qas_id=str(field(qa, "id", (str, int), where)),
        text=text,
        context=context,
        answers=answers,
        is_impossible=is_impossible,
        where=where,
    )


def field(record: Any, name: str, kind: Any, where: str) -> Any:
    """Returns a field of a parsed object.

    Args:
        record: should be an object of JSON.
        name: of the field.
        kind: the type that its value must have, or several.
        where: the path to `record`, for messages.

    Raises:
        ValueError: no object, no such field, or one of another type.
    """
    if not isinstance(record, dict):
        raise ValueError(
            f"{where} must be an object; got {type(record).__name__}."
        )
    if name not in record:
        raise ValueError(f"{where}.{name} is missing.")
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # A truth value is a whole number to Python alone.
    is_stray = isinstance(record[name], bool) and bool not in kinds
    if is_stray or not isinstance(record[name], kinds):
        raise ValueError(
            f"{where}.{name} must be "
            f"{' or '.join(_JSON_NAMES[kind] for kind in kinds)}; "
            f"got {wording.shown(record[name])}."
        )
    return record[name]

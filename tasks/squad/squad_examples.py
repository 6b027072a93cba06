"""SQuAD examples: reader of SQuAD 1.1 and 2.0 files.

Source: behavior of run_squad.py of google-research/bert, measured.
"""

import bisect
import collections
import dataclasses
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from files import json_text, messages

_VERSION_2 = re.compile(r"v?2(\.\d{1,2})*(-[a-z].*)?", re.IGNORECASE)
# As released: white space is these five; U+00A0 and the like stay in words.
WHITE_SPACE = " \t\r\n\u202f"
_WORD = re.compile(f"[^{WHITE_SPACE}]+")
_NUM_NAMED = 5  # Maximum names in a warning.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """A gold answer: its text and its offset in the paragraph.

    `start` counts code points from 0, as in the file; None if it has no such
    field, which only training needs.
    """

    text: str
    start: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A question of a file.

    `answers` and `is_impossible` are None if the file has no such field.
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
    """A file of questions; `version` is its version field, or ""."""

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
    dataset = json_text.read(path)
    questions = tuple(_questions(dataset, path))
    if not questions:
        raise ValueError(f"{path}: expected at least one question; got none.")
    version = dataset.get("version", "")
    return Dataset(path=path, version=str(version), questions=questions)


def read_version(path: str, *, version_2_with_negative: bool) -> Dataset:
    """Reads a SQuAD file and checks its version.

    Raises:
        OSError: the file cannot be opened.
        ValueError: as `read_dataset`; or, without `version_2_with_negative`,
            the file has unanswerable questions, or its version field is 2 and
            it has no answers.
    """
    dataset = read_dataset(path)
    questions = dataset.questions
    unanswerable = [q for q in questions if q.is_impossible]
    has_answers = any(question.answers for question in questions)
    is_called_2 = _VERSION_2.fullmatch(dataset.version)
    if version_2_with_negative:
        if has_answers and all(q.is_impossible is None for q in questions):
            logging.warning(
                "%s: no question has `is_impossible`, as in SQuAD 1.1, where "
                "every question has an answer. With --version_2_with_negative "
                "the model may predict that there is none.",
                dataset.path,
            )
    elif unanswerable or (is_called_2 and not has_answers):
        raise ValueError(
            f"{dataset.path}: a file of SQuAD 2.0 (version "
            f"{messages.short(dataset.version)}, {len(unanswerable)} "
            f"unanswerable questions of {len(questions)}) needs "
            "--version_2_with_negative."
        )
    empty = [q.qas_id for q in questions if not q.text.strip()]
    _warn(dataset, empty, "have an empty question")
    empty = [q.qas_id for q in questions if not q.context.strip()]
    _warn(dataset, empty, "have an empty paragraph")
    return dataset


def require_unique_ids(dataset: Dataset) -> None:
    """Checks that question ids are unique.

    Raises:
        ValueError: an id is repeated; names the id and both positions.
    """
    first_place: dict[str, str] = {}
    for question in dataset.questions:
        earlier = first_place.setdefault(question.qas_id, question.where)
        if earlier != question.where:
            raise ValueError(
                f"{question.where}: ids must be unique; "
                f"{messages.short(question.qas_id)} is also the id of "
                f"{earlier}."
            )


def _questions(dataset: Any, path: str) -> Iterator[Question]:
    for i, entry in enumerate(
        json_text.field(dataset, "data", list, f"{path}: $")
    ):
        at = f"{path}: data[{i}]"
        for j, paragraph in enumerate(
            json_text.field(entry, "paragraphs", list, at)
        ):
            at_paragraph = f"{at}.paragraphs[{j}]"
            context = json_text.field(paragraph, "context", str, at_paragraph)
            for k, qa in enumerate(
                json_text.field(paragraph, "qas", list, at_paragraph)
            ):
                yield _question(qa, context, f"{at_paragraph}.qas[{k}]")


def _question(qa: Any, context: str, where: str) -> Question:
    answers = is_impossible = None
    text = json_text.field(qa, "question", str, where)
    if qa.get("answers") is not None:
        answers = tuple(
            _answer(answer, f"{where}.answers[{i}]")
            for i, answer in enumerate(
                json_text.field(qa, "answers", list, where)
            )
        )
    if "is_impossible" in qa:
        is_impossible = json_text.field(qa, "is_impossible", bool, where)
    return Question(
        # A number as id is converted to its JSON key.
        qas_id=str(json_text.field(qa, "id", (str, int), where)),
        text=text,
        context=context,
        answers=answers,
        is_impossible=is_impossible,
        where=where,
    )


def _answer(answer: Any, where: str) -> Answer:
    text, start = json_text.field(answer, "text", str, where), None
    if "answer_start" in answer:
        start = json_text.field(answer, "answer_start", int, where)
    return Answer(text=text, start=start)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadExample:
    """A question on the words of a paragraph.

    `start_position` and `end_position` are the first and last word of the
    answer, -1 for an unanswerable question. They and `orig_answer_text` are
    None in prediction. Questions on one paragraph share `doc_tokens`.
    """

    qas_id: str
    question_text: str
    doc_tokens: tuple[str, ...]
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a paragraph with their offsets."""

    words: tuple[str, ...]
    starts: tuple[int, ...]  # In code points of the paragraph.

    def at(self, offset: int) -> int:
        # As released: white space belongs to the word before it, and to -1
        # before the first word.
        return bisect.bisect_right(self.starts, offset) - 1


def read_training_examples(
    path: str, *, version_2_with_negative: bool
) -> list[SquadExample]:
    """Reads a training file, shuffled to the order of the release.

    Raises:
        OSError: the file cannot be opened.
        ValueError: as `read_version` and `training_examples`; or no example is
            left.
    """
    dataset = read_version(
        path, version_2_with_negative=version_2_with_negative
    )
    examples = training_examples(
        dataset, version_2_with_negative=version_2_with_negative
    )
    if not examples:
        raise ValueError(
            f"{path}: there must be a question to train on; no answer is at "
            "its offset."
        )
    # Source: seed 12345, run_squad.py of the release.
    random.Random(12345).shuffle(examples)
    return examples


def prediction_examples(dataset: Dataset) -> list[SquadExample]:
    """Creates examples without answers, in file order.

    Raises:
        ValueError: two questions have the same id, the key of predictions.
    """
    require_unique_ids(dataset)
    words_of = _words_of_contexts(dataset)
    return [
        SquadExample(
            qas_id=question.qas_id,
            question_text=question.text,
            doc_tokens=words_of[question.context].words,
        )
        for question in dataset.questions
    ]


def training_examples(
    dataset: Dataset, *, version_2_with_negative: bool
) -> list[SquadExample]:
    """Creates examples with their answers, in file order.

    As released, a question is dropped if its answer is not in the words at its
    offset; their number and first names are logged.

    Raises:
        ValueError: a question does not have exactly one answer.
    """
    words_of = _words_of_contexts(dataset)
    examples = []
    dropped: list[str] = []
    moved: list[str] = []
    for question in dataset.questions:
        words = words_of[question.context]
        if version_2_with_negative and question.is_impossible is None:
            raise ValueError(
                f"{question.where}.is_impossible is missing; with "
                "--version_2_with_negative every question to train on needs "
                "it. Leave the flag out to train on a file of SQuAD 1.1."
            )
        is_impossible = version_2_with_negative and bool(question.is_impossible)
        text, span = "", (-1, -1)
        if not is_impossible:
            if question.answers is None or len(question.answers) != 1:
                raise ValueError(
                    f"{question.where}.answers must have exactly 1 answer to "
                    f"train on; got {len(question.answers or ())}."
                )
            (answer,) = question.answers
            if answer.start is None:
                raise ValueError(
                    f"{question.where}.answers[0].answer_start is missing; "
                    "training needs it."
                )
            text = answer.text
            found = _answer_words(text, answer.start, words, question.context)
            if found is None:
                dropped.append(question.qas_id)
                continue
            span = found
            if not question.context.startswith(text, answer.start):
                moved.append(question.qas_id)
        examples.append(
            SquadExample(
                qas_id=question.qas_id,
                question_text=question.text,
                doc_tokens=words.words,
                orig_answer_text=text,
                start_position=span[0],
                end_position=span[1],
                is_impossible=is_impossible,
            )
        )
    counts = collections.Counter(q.qas_id for q in dataset.questions)
    repeated = [qas_id for qas_id, count in counts.items() if count > 1]
    _warn(dataset, dropped, "dropped: the answer is not at its offset")
    # As released: these are kept, with a span that may be too wide.
    _warn(dataset, moved, "kept, although the answer has an imprecise offset")
    _warn(dataset, repeated, "have the id of an earlier question")
    return examples


def find_words(context: str) -> Words:
    """Splits a paragraph into words as released."""
    matches = list(_WORD.finditer(context))
    return Words(
        words=tuple(match.group() for match in matches),
        starts=tuple(match.start() for match in matches),
    )


def _words_of_contexts(dataset: Dataset) -> dict[str, Words]:
    contexts = dict.fromkeys(q.context for q in dataset.questions)
    return {context: find_words(context) for context in contexts}


def _answer_words(
    text: str, first: int, words: Words, context: str
) -> tuple[int, int] | None:
    """Returns the first and last word of an answer; None if it is not found.

    As released: the offset is accepted if the words at it contain the answer,
    at any position. White space in the answer is that of Unicode, in the
    paragraph only the five characters of `_WORD`, so an answer with U+00A0 is
    never found.
    """
    answer_words = text.split()
    last = first + len(text) - 1
    # Differs: the release stops with an error at an offset past the end and
    # counts a negative one from there; it keeps answers without text.
    if first < 0 or last >= len(context) or not answer_words:
        return None
    start, end = words.at(first), words.at(last)
    if " ".join(answer_words) not in " ".join(words.words[start : end + 1]):
        return None
    return start, end


def _warn(dataset: Dataset, ids: Sequence[str], what: str) -> None:
    if ids:
        logging.warning(
            "%s: %d of %d questions %s: %s.",
            dataset.path,
            len(ids),
            len(dataset.questions),
            what,
            messages.listed(ids, _NUM_NAMED),
        )

"""SQuAD examples: reader of SQuAD 1.1 and 2.0 files.

Source: behavior of run_squad.py of google-research/bert, measured.
"""

import bisect
import dataclasses
import functools
import random
import re
from collections.abc import Iterator, Sequence

from absl import logging

from bert.files import json_text, messages

# As released: white space is these five; U+00A0 and the like stay in words.
WHITE_SPACE = " \t\r\n\u202f"
_WORD = re.compile(f"[^{WHITE_SPACE}]+")
_FORMAT = (
    '{"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question":'
    ' ..., "answers": [{"text": ..., "answer_start": ...}]}]}]}]}'
)
_NUM_NAMED = 5  # Maximum names in a warning.
# The label of an answer: its first occurrence in the words at its offset, as
# released; or the occurrence at its offset.
WORD, OFFSET = "word", "offset"
ALIGNMENTS = (WORD, OFFSET)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Question:
    """A question of a file.

    Attributes:
        where: its path in the file, for messages.
        qas_id: its id; a number is converted to its JSON key.
        text: the question.
        context: its paragraph.
        record: its JSON object. `is_impossible` is a Boolean and `answers` a
            list of objects with texts, if they are present.
    """

    where: str
    qas_id: str
    text: str
    context: str
    record: json_text.Object


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadExample:
    """A question on the words of a paragraph.

    `start_position` and `end_position` are the first and last word of the
    answer, -1 for an unanswerable question. They and `orig_answer_text` are
    None in prediction. Questions on one paragraph share `doc_tokens`. With
    `OFFSET`, `answer_characters` are the begin and the end of the answer in
    its words, joined by spaces.
    """

    qas_id: str
    question_text: str
    doc_tokens: tuple[str, ...]
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False
    answer_characters: tuple[int, int] | None = None


def find_words(context: str) -> tuple[str, ...]:
    """Splits a paragraph into words as released."""
    return tuple(_WORD.findall(context))


def read_training_examples(
    path: str, *, version_2_with_negative: bool, answer_alignment: str = WORD
) -> list[SquadExample]:
    """Reads examples with their answers, shuffled to the order of the release.

    As released, a question is dropped if its answer is not in the words at its
    offset; with `OFFSET` also if it is not at its offset. Their number and
    first names are logged, and with `WORD` those of answers that occur more
    than once in their words.

    Args:
        path: the file.
        version_2_with_negative: whether it is of SQuAD 2.0.
        answer_alignment: one of `ALIGNMENTS`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is not in SQuAD format or has the wrong version, a
            question does not have exactly one answer, or no example is left.
    """
    is_aligned = answer_alignment == OFFSET
    examples, dropped, ambiguous = [], [], []
    words_of = functools.cache(find_words)
    starts_of = functools.cache(
        lambda context: [match.start() for match in _WORD.finditer(context)]
    )
    for question in _questions(path, version_2_with_negative):
        is_impossible = version_2_with_negative and json_text.field(
            question.record, "is_impossible", bool, question.where
        )
        text, words = "", words_of(question.context)
        place: _AnswerPlace | None = _AnswerPlace(first_word=-1, last_word=-1)
        if not is_impossible:
            text, offset = _only_answer(question)
            place = _answer_place(
                text,
                offset,
                question.context,
                words,
                starts_of(question.context),
            )
            if is_aligned and place and not place.characters:
                place = None
        if place is None:
            dropped.append(question.qas_id)
            continue
        if place.is_ambiguous:
            ambiguous.append(question.qas_id)
        examples.append(
            SquadExample(
                qas_id=question.qas_id,
                question_text=question.text,
                doc_tokens=words,
                orig_answer_text=text,
                start_position=place.first_word,
                end_position=place.last_word,
                is_impossible=is_impossible,
                answer_characters=place.characters if is_aligned else None,
            )
        )
    warn(path, dropped, "questions dropped: the answer is not at its offset")
    if not is_aligned:
        warn(
            path,
            ambiguous,
            "answers occur more than once in their words, so that the label "
            "may be another occurrence (see --answer_alignment)",
        )
    if not examples:
        raise ValueError(f"{path}: no question has its answer at its offset.")
    # Source: seed 12345, run_squad.py of the release.
    random.Random(12345).shuffle(examples)
    return examples


def read_questions(
    path: str, *, version_2_with_negative: bool, with_gold: bool = False
) -> tuple[list[SquadExample], dict[str, tuple[str, ...]]]:
    """Reads questions to answer, in file order.

    Args:
        path: the file.
        version_2_with_negative: whether it is of SQuAD 2.0.
        with_gold: whether every question must have gold answers.

    Returns:
        The examples, without answers; and the gold answer texts by id, if
        needed.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is not in SQuAD format or has the wrong version;
            two questions have the same id, the key of predictions; or a
            question lacks gold answers.
    """
    places: dict[str, str] = {}
    examples, gold = [], {}
    words_of = functools.cache(find_words)
    for question in _questions(path, version_2_with_negative):
        qas_id, where = question.qas_id, question.where
        if (earlier := places.setdefault(qas_id, where)) != where:
            raise ValueError(
                f"{where}: ids must be unique; {messages.short(qas_id)} is "
                f"also the id of {earlier}."
            )
        if with_gold:
            answers = json_text.field(question.record, "answers", list, where)
            if not answers and not version_2_with_negative:
                raise ValueError(
                    f"{where}.answers must have an answer to score; got none. "
                    "A file of SQuAD 2.0 needs --version_2_with_negative."
                )
            gold[qas_id] = tuple(answer["text"] for answer in answers)
        examples.append(
            SquadExample(
                qas_id=qas_id,
                question_text=question.text,
                doc_tokens=words_of(question.context),
            )
        )
    return examples, gold


def warn(where: str, ids: Sequence[str], what: str) -> None:
    """Logs the number of questions, if any, and the first of their ids."""
    if ids:
        logging.warning(
            "%s: %d %s: %s.",
            *(where, len(ids), what, messages.listed(ids, _NUM_NAMED)),
        )


def _questions(path: str, version_2_with_negative: bool) -> Iterator[_Question]:
    """Reads the questions of a file and checks its version."""
    field, where = json_text.field, ""
    dataset = json_text.read(path)
    if not isinstance(dataset, dict) or "data" not in dataset:
        keys = messages.listed(dataset) if isinstance(dataset, dict) else ""
        raise ValueError(
            f"{path}: must be in the format of SQuAD, {_FORMAT}; got "
            f"{keys or type(dataset).__name__}."
        )
    for i, entry in enumerate(field(dataset, "data", list, f"{path}: $")):
        at = f"{path}: data[{i}]"
        for j, paragraph in enumerate(field(entry, "paragraphs", list, at)):
            at_paragraph = f"{at}.paragraphs[{j}]"
            context = field(paragraph, "context", str, at_paragraph)
            for k, qa in enumerate(field(paragraph, "qas", list, at_paragraph)):
                where = f"{at_paragraph}.qas[{k}]"
                text = field(qa, "question", str, where)
                if "is_impossible" in qa:
                    is_impossible = field(qa, "is_impossible", bool, where)
                    if is_impossible and not version_2_with_negative:
                        raise ValueError(
                            f"{where} has no answer: a file of SQuAD 2.0 needs "
                            "--version_2_with_negative."
                        )
                if qa.get("answers") is not None:
                    answers = field(qa, "answers", list, where)
                    for n, answer in enumerate(answers):
                        field(answer, "text", str, f"{where}.answers[{n}]")
                yield _Question(
                    where=where,
                    qas_id=str(field(qa, "id", (str, int), where)),
                    text=text,
                    context=context,
                    record=qa,
                )
    if not where:
        raise ValueError(f"{path}: expected at least one question; got none.")


def _only_answer(question: _Question) -> tuple[str, int]:
    """Returns the text and the offset of the answer to train on."""
    answers = question.record.get("answers") or []
    where = f"{question.where}.answers"
    if len(answers) != 1:
        raise ValueError(
            f"{where} must have exactly 1 answer to train on; "
            f"got {len(answers)}."
        )
    offset = json_text.field(answers[0], "answer_start", int, f"{where}[0]")
    return answers[0]["text"], offset


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AnswerPlace:
    """The place of an answer in its paragraph.

    Attributes:
        first_word, last_word: the words at its offset, which contain it.
        characters: see `SquadExample.answer_characters`; None if it is not at
            its offset, but elsewhere in these words.
        is_ambiguous: whether these words contain it more than once.
    """

    first_word: int
    last_word: int
    characters: tuple[int, int] | None = None
    is_ambiguous: bool = False


def _answer_place(
    text: str,
    offset: int,
    context: str,
    words: Sequence[str],
    starts: Sequence[int],
) -> _AnswerPlace | None:
    """Finds an answer in the words at its offset; None if it is not there.

    As released: the offset is accepted if the words at it contain the answer,
    at any position. White space in the answer is that of Unicode, in the
    paragraph only the five characters of `_WORD`, so an answer with U+00A0 is
    never found.

    Args:
        text: the answer.
        offset: its first character in the paragraph.
        context: the paragraph.
        words: its words.
        starts: the first character of each word.
    """
    answer = " ".join(text.split())
    last = offset + len(text) - 1
    # Differs: the release stops with an error at an offset past the end and
    # counts a negative one from there; it keeps answers without text.
    if offset < 0 or last >= len(context) or not answer:
        return None
    # As released: white space belongs to the word before it, and to -1 before
    # the first word.
    start = bisect.bisect_right(starts, offset) - 1
    end = bisect.bisect_right(starts, last) - 1
    joined = " ".join(words[start : end + 1])
    # They may overlap.
    occurrences = [
        match.start()
        for match in re.finditer(f"(?={re.escape(answer)})", joined)
    ]
    if not occurrences:
        return None
    offset += len(text) - len(text.lstrip())
    preceding = "".join(find_words(context[starts[start] : offset]))
    characters = None
    for place in occurrences:
        if place - joined.count(" ", 0, place) == len(preceding):
            characters = place, place + len(answer)
    return _AnswerPlace(
        first_word=start,
        last_word=end,
        characters=characters,
        is_ambiguous=len(occurrences) > 1,
    )

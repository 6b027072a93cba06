"""SQuAD examples: reader of SQuAD 1.1 and 2.0 files.

Source: behavior of run_squad.py of google-research/bert, measured.
"""

import bisect
import dataclasses
import functools
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from files import json_text, messages

# As released: white space is these five; U+00A0 and the like stay in words.
WHITE_SPACE = " \t\r\n\u202f"
_WORD = re.compile(f"[^{WHITE_SPACE}]+")
_NUM_NAMED = 5  # Maximum names in a warning.

# A question of a file: its path in the file, for messages; its paragraph; and
# its JSON object, whose fields are checked and whose id is text.
_Question = tuple[str, str, dict[str, Any]]


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


def find_words(context: str) -> tuple[str, ...]:
    """Splits a paragraph into words as released."""
    return tuple(_WORD.findall(context))


def read_training_examples(
    path: str, *, version_2_with_negative: bool
) -> list[SquadExample]:
    """Reads examples with their answers, shuffled to the order of the release.

    As released, a question is dropped if its answer is not in the words at its
    offset; their number and first names are logged.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is not in SQuAD format or has the wrong version, a
            question does not have exactly one answer, or no example is left.
    """
    examples, dropped = [], []
    words_of = functools.cache(find_words)
    starts_of = functools.cache(
        lambda context: [match.start() for match in _WORD.finditer(context)]
    )
    for where, context, qa in _questions(path, version_2_with_negative):
        is_impossible = version_2_with_negative and json_text.field(
            qa, "is_impossible", bool, where
        )
        text = ""
        span: tuple[int, int] | None = (-1, -1)
        if not is_impossible:
            answers = qa.get("answers") or []
            if len(answers) != 1:
                raise ValueError(
                    f"{where}.answers must have exactly 1 answer to train on; "
                    f"got {len(answers)}."
                )
            text = answers[0]["text"]
            start = json_text.field(
                answers[0], "answer_start", int, f"{where}.answers[0]"
            )
            span = _answer_words(
                (text, start), context, words_of(context), starts_of(context)
            )
        if span is None:
            dropped.append(qa["id"])
            continue
        examples.append(
            SquadExample(
                qas_id=qa["id"],
                question_text=qa["question"],
                doc_tokens=words_of(context),
                orig_answer_text=text,
                start_position=span[0],
                end_position=span[1],
                is_impossible=is_impossible,
            )
        )
    warn(path, dropped, "questions dropped: the answer is not at its offset")
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
    for where, context, qa in _questions(path, version_2_with_negative):
        qas_id = qa["id"]
        if (earlier := places.setdefault(qas_id, where)) != where:
            raise ValueError(
                f"{where}: ids must be unique; {messages.short(qas_id)} is "
                f"also the id of {earlier}."
            )
        if with_gold:
            answers = json_text.field(qa, "answers", list, where)
            if not answers and not version_2_with_negative:
                raise ValueError(
                    f"{where}.answers must have an answer to score; got none. "
                    "A file of SQuAD 2.0 needs --version_2_with_negative."
                )
            gold[qas_id] = tuple(answer["text"] for answer in answers)
        examples.append(
            SquadExample(
                qas_id=qas_id,
                question_text=qa["question"],
                doc_tokens=words_of(context),
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
    for i, entry in enumerate(field(dataset, "data", list, f"{path}: $")):
        at = f"{path}: data[{i}]"
        for j, paragraph in enumerate(field(entry, "paragraphs", list, at)):
            at_paragraph = f"{at}.paragraphs[{j}]"
            context = field(paragraph, "context", str, at_paragraph)
            for k, qa in enumerate(field(paragraph, "qas", list, at_paragraph)):
                where = f"{at_paragraph}.qas[{k}]"
                field(qa, "question", str, where)
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
                # A number as id is converted to its JSON key.
                qas_id = str(field(qa, "id", (str, int), where))
                yield where, context, {**qa, "id": qas_id}
    if not where:
        raise ValueError(f"{path}: expected at least one question; got none.")


def _answer_words(
    answer: tuple[str, int],
    context: str,
    words: Sequence[str],
    starts: Sequence[int],
) -> tuple[int, int] | None:
    """Returns the first and last word of an answer; None if it is not found.

    As released: the offset is accepted if the words at it contain the answer,
    at any position. White space in the answer is that of Unicode, in the
    paragraph only the five characters of `_WORD`, so an answer with U+00A0 is
    never found.
    """
    text, first = answer
    answer_words = text.split()
    last = first + len(text) - 1
    # Differs: the release stops with an error at an offset past the end and
    # counts a negative one from there; it keeps answers without text.
    if first < 0 or last >= len(context) or not answer_words:
        return None
    # As released: white space belongs to the word before it, and to -1 before
    # the first word.
    start = bisect.bisect_right(starts, first) - 1
    end = bisect.bisect_right(starts, last) - 1
    if " ".join(answer_words) not in " ".join(words[start : end + 1]):
        return None
    return start, end

"""Questions on the words of a paragraph, made from a SQuAD file.

Source: behaviour of run_squad.py of google-research/bert, measured.
"""

import bisect
import collections
import dataclasses
import random
import re
from collections.abc import Sequence

from absl import logging

from tasks.squad import squad_files

# As released: white space is these five; U+00A0 and the like stay in words.
_WORD = re.compile("[^ \t\r\n\u202f]+")
_NUM_NAMED = 5  # Names given in a warning about many.


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadExample:
    """A question on the words of a paragraph.

    `start_position` and `end_position` are the first and last word of the
    answer, -1 for an unanswerable question; they and `orig_answer_text` are
    None where answers are to be found. Questions on one paragraph share
    `doc_tokens`.
    """

    qas_id: str
    question_text: str
    doc_tokens: tuple[str, ...]
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Words:
    words: tuple[str, ...]
    starts: tuple[int, ...]  # In code points of the paragraph.

    def at(self, offset: int) -> int:
        # As released: white space belongs to the word before it, and to -1
        # before the first word.
        return bisect.bisect_right(self.starts, offset) - 1


def read_examples(
    path: str, *, is_training: bool, version_2_with_negative: bool
) -> list[SquadExample]:
    """Reads the questions of a SQuAD file.

    For training, a question whose answer is not in the words that its offset
    names is left out, as released; their number and first names are logged.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is not JSON or not in the format of SQuAD; its
            version is not the one asked for; a question to train on has not
            exactly one answer; two questions to predict have one id.
    """
    dataset = squad_files.read_dataset(path)
    squad_files.check_version(
        dataset, version_2_with_negative=version_2_with_negative
    )
    _warn_of_empty_texts(dataset)
    if is_training:
        return training_examples(
            dataset, version_2_with_negative=version_2_with_negative
        )
    return prediction_examples(dataset)


def read_training_examples(
    paths: Sequence[str], *, version_2_with_negative: bool
) -> list[SquadExample]:
    """Reads files to train on, one after the other, each shuffled in itself.

    Source: Devlin et al. 2019, §4.2, trains on TriviaQA first.

    Raises:
        OSError: a file cannot be opened.
        ValueError: as `read_examples`; or no example is left.
    """
    examples = []
    for path in paths:
        of_file = read_examples(
            path,
            is_training=True,
            version_2_with_negative=version_2_with_negative,
        )
        examples += shuffled_for_training(of_file)
    if not examples:
        raise ValueError(
            f"{', '.join(paths)}: there must be a question to train on; no "
            "answer is where it says it is."
        )
    return examples


def shuffled_for_training(
    examples: Sequence[SquadExample], *, seed: int = 12345
) -> list[SquadExample]:
    """Returns the examples in the order in which the release featurises them.

    Each file has its own generator, so that its order does not depend on the
    files trained on before it.
    """
    # Source: seed 12345, run_squad.py of the release.
    examples = list(examples)
    random.Random(seed).shuffle(examples)
    return examples


def prediction_examples(dataset: squad_files.Dataset) -> list[SquadExample]:
    """Makes examples without answers, in the order of the file.

    Raises:
        ValueError: two questions have one id; answers are written by id.
    """
    squad_files.require_unique_ids(dataset)
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
    dataset: squad_files.Dataset, *, version_2_with_negative: bool
) -> list[SquadExample]:
    """Makes examples with the words of the answer, in the order of the file.

    Raises:
        ValueError: a question has not exactly one answer, or with
            `version_2_with_negative` does not say `is_impossible`.
    """
    words_of = _words_of_contexts(dataset)
    examples, dropped, moved = [], [], []
    for question in dataset.questions:
        words = words_of[question.context]
        if version_2_with_negative and _is_impossible(question):
            examples.append(_unanswerable_example(question, words))
            continue
        answer = _only_answer(question)
        span = _answer_words(answer, question.context, words)
        if span is None:
            dropped.append(question.qas_id)
            continue
        if not question.context.startswith(answer.text, answer.start):
            moved.append(question.qas_id)
        examples.append(
            SquadExample(
                qas_id=question.qas_id,
                question_text=question.text,
                doc_tokens=words.words,
                orig_answer_text=answer.text,
                start_position=span[0],
                end_position=span[1],
            )
        )
    _warn(dataset, dropped, "left out: the answer is not where it says it is")
    # As released: these are kept with a span that may be too wide.
    _warn(dataset, moved, "kept, though the answer starts a little off")
    _warn(dataset, _repeated_ids(dataset), "have an id that came before")
    return examples


def _unanswerable_example(
    question: squad_files.Question, words: _Words
) -> SquadExample:
    return SquadExample(
        qas_id=question.qas_id,
        question_text=question.text,
        doc_tokens=words.words,
        orig_answer_text="",
        start_position=-1,
        end_position=-1,
        is_impossible=True,
    )


def _repeated_ids(dataset: squad_files.Dataset) -> list[str]:
    counts = collections.Counter(q.qas_id for q in dataset.questions)
    return [qas_id for qas_id, count in counts.items() if count > 1]


def split_words(context: str) -> tuple[str, ...]:
    """Returns the words of a paragraph as the release separates them."""
    return _find_words(context).words


def _find_words(context: str) -> _Words:
    matches = list(_WORD.finditer(context))
    return _Words(
        words=tuple(match.group() for match in matches),
        starts=tuple(match.start() for match in matches),
    )


def _words_of_contexts(dataset: squad_files.Dataset) -> dict[str, _Words]:
    contexts = dict.fromkeys(q.context for q in dataset.questions)
    return {context: _find_words(context) for context in contexts}


def _is_impossible(question: squad_files.Question) -> bool:
    if question.is_impossible is None:
        raise ValueError(
            f"{question.where}.is_impossible is missing; with "
            "--version_2_with_negative every question to train on needs it."
        )
    return question.is_impossible


def _only_answer(question: squad_files.Question) -> squad_files.Answer:
    if question.answers is None or len(question.answers) != 1:
        raise ValueError(
            f"{question.where}.answers must hold exactly 1 answer to train "
            f"on; holds {len(question.answers or ())}."
        )
    return question.answers[0]


def _answer_words(
    answer: squad_files.Answer, context: str, words: _Words
) -> tuple[int, int] | None:
    """Returns the first and last word of an answer; None if it is not there.

    As released: the offset is believed when the words that it names contain
    the answer, wherever in them it starts. White space in the answer is any
    that Unicode has, in the paragraph only the five of `_WORD`, so an answer
    with U+00A0 is never found.
    """
    answer_words = answer.text.split()
    last = answer.start + len(answer.text) - 1
    # Differs: the release stops with an error at an offset past the end and
    # counts a negative one from there; it keeps an answer without text.
    if answer.start < 0 or last >= len(context) or not answer_words:
        return None
    start, end = words.at(answer.start), words.at(last)
    if " ".join(answer_words) not in " ".join(words.words[start : end + 1]):
        return None
    return start, end


def _warn_of_empty_texts(dataset: squad_files.Dataset) -> None:
    empty = [q.qas_id for q in dataset.questions if not q.text.strip()]
    _warn(dataset, empty, "have an empty question")
    empty = [q.qas_id for q in dataset.questions if not q.context.strip()]
    _warn(dataset, empty, "have an empty paragraph")


def _warn(dataset: squad_files.Dataset, ids: Sequence[str], what: str) -> None:
    if ids:
        logging.warning(
            "%s: %d of %d questions %s; first of them: %s.",
            dataset.path,
            len(ids),
            len(dataset.questions),
            what,
            ", ".join(ids[:_NUM_NAMED]),
        )

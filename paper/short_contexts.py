"""Cuts the contexts of SQuAD to the words around an answer.

Small models that have seen a few thousand questions find hardly any answer in
a paragraph, whatever they have been pre-trained on; in two dozen words they
find enough for models to differ.
"""

import random
import re
from collections.abc import Mapping
from typing import Any

_WORD = re.compile(r"\S+")


def shorten(article: Mapping[str, Any], num_words: int) -> dict[str, Any]:
    """Gives every question of an article a context of its own.

    The first answer falls anywhere in it, always at the same place for the
    same question; a question without answers has any words of its context.
    Other answers are kept if they lie in it whole.

    Args:
        article: of a SQuAD file.
        num_words: words to keep, more only where an answer is longer.

    Raises:
        ValueError: an answer does not lie in its context.
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
    """Makes a paragraph of one question."""
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
                f"lie in its context; it starts at {start} of {len(context)}."
            )
        first, last = inside[0], inside[-1]
    else:
        first = last = draw.randrange(len(words)) if words else 0
    # Any place for it from which the words do not run over an end.
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

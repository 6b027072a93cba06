"""What a tagger answered: tags of sentences, files and scores."""

from collections.abc import Iterator, Sequence

import numpy as np

from tasks.tagging import conll, entities


def split_labels(
    label_ids: np.ndarray,
    label_mask: np.ndarray,
    sentences: Sequence[conll.Sentence],
    labels: Sequence[str],
) -> list[tuple[str, ...]]:
    """Turns the labels of rows into the tags of sentences.

    Args:
        label_ids: `[N, T]` int, the label of each place of each row.
        label_mask: `[N, T]`, more than 0 at the places of words; row by row
            these are the words of all sentences, in order.
        sentences: what was tagged.
        labels: names by id.

    Raises:
        ValueError: there are more or fewer places than words.
    """
    found = label_ids[label_mask > 0]
    lengths = [len(sentence.words) for sentence in sentences]
    if len(found) != sum(lengths):
        raise ValueError(
            f"There must be a label for each of {sum(lengths)} words; got "
            f"{len(found)}."
        )
    names = [labels[number] for number in found.tolist()]
    ends = np.cumsum(lengths)
    return [
        tuple(names[end - length : end])
        for end, length in zip(ends.tolist(), lengths, strict=True)
    ]


def prediction_lines(
    sentences: Sequence[conll.Sentence],
    gold: Sequence[Sequence[str]] | None,
    predicted: Sequence[Sequence[str]],
) -> Iterator[str]:
    """Formats answers as the evaluation script of CoNLL reads them.

    A line for each word: the word, its tag in IOB2 if that is known, the
    predicted tag; an empty line after each sentence.
    """
    for number, sentence in enumerate(sentences):
        columns = [sentence.words]
        if gold is not None:
            columns.append(gold[number])
        columns.append(predicted[number])
        rows = zip(*columns, strict=True)
        yield from conll.write([*rows, ()])


def results(scores: entities.Scores, prefix: str) -> dict[str, float]:
    """Names all scores, with `prefix` and an underscore before each."""
    return {
        f"{prefix}_{name}": value for name, value in scores.metrics().items()
    }

"""The definition of pre-training instances: plain Python on strings.

Slow and easy to check. `masked_lm.pretraining` must make the same instances
from the same draws.

Source: Devlin et al. 2019, §3.1 and App. A.1, A.2; for the same text, flags
and seed the instances are those of create_pretraining_data.py of the release,
in its order. That fixes the order of every random draw below: a draw more, less
or earlier changes all that follow.
"""

import dataclasses
import random
from collections.abc import Callable, Iterable, Sequence

from files import lines
from tasks.masked_lm import pretraining
from tests import plain_masking

# A sentence is a list of tokens, a document a list of sentences.
Sentence = list[str]
Document = list[Sentence]

# [CLS] A [SEP] B [SEP]
_NUM_SPECIAL_TOKENS = 3
# Source: the release. A document other than the pair's own is drawn at most so
# often, then the last one drawn is taken, even the pair's own.
_TRIES_FOR_ANOTHER_DOCUMENT = 10


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrainingInstance:
    """One masked pair of sentences.

    Attributes:
        tokens: `[CLS] A [SEP] B [SEP]`, after masking.
        segment_ids: for each token 0 up to the first [SEP], then 1.
        is_random_next: B does not follow A in the text.
        masked_lm_positions: the places to predict, ascending.
        masked_lm_labels: the tokens that stood there.
    """

    tokens: list[str]
    segment_ids: list[int]
    is_random_next: bool
    masked_lm_positions: list[int]
    masked_lm_labels: list[str]


def read_documents(
    input_paths: Iterable[str], tokenize: Callable[[str], Sentence]
) -> list[Document]:
    """Reads text files: one sentence a line, documents apart by blank lines.

    As released: a file ends no document (only a blank line does), and a line
    without tokens, such as one of control characters, neither adds a sentence
    nor ends a document.

    Args:
        input_paths: UTF-8 files, read in this order as one text.
        tokenize: cuts a sentence into tokens.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a line is not UTF-8, or the files hold no sentence.
    """
    input_paths = list(input_paths)
    documents = [[]]
    for path in input_paths:
        for line in lines.read_lines(path):
            text = line.strip()
            if not text:
                documents.append([])
                continue
            tokens = tokenize(text)
            if tokens:
                documents[-1].append(tokens)
    documents = [document for document in documents if document]
    if not documents:
        # Differs: the release goes on and writes files without a record, which
        # training only then fails on (README, Differences from the release).
        raise ValueError(
            "The input must hold at least one sentence; there is none in "
            f"{', '.join(input_paths)}."
        )
    return documents


def create_training_instances(
    documents: Sequence[Document],
    vocab_words: Sequence[str],
    options: pretraining.InstanceOptions,
    rng: random.Random,
) -> list[TrainingInstance]:
    """Makes the instances of a corpus, in random order.

    As released: all of them, `dupe_factor` times the corpus, are in memory.

    Args:
        documents: the corpus, as from `read_documents`.
        vocab_words: the tokens that may replace another one. As released, the
            whole vocabulary: [PAD], [CLS] and [unused1] too.
        options: how instances are made.
        rng: draws everything.
    """
    documents = list(documents)
    rng.shuffle(documents)
    instances = []
    for _ in range(options.dupe_factor):
        for index in range(len(documents)):
            instances += create_instances_from_document(
                documents, index, vocab_words, options, rng
            )
    rng.shuffle(instances)
    return instances


def create_instances_from_document(
    documents: Sequence[Document],
    document_index: int,
    vocab_words: Sequence[str],
    options: pretraining.InstanceOptions,
    rng: random.Random,
) -> list[TrainingInstance]:
    """Cuts one document into pairs, about half with a random second part."""
    document = documents[document_index]
    max_num_tokens = options.max_seq_length - _NUM_SPECIAL_TOKENS
    # Some pairs are shorter than the rest, as inputs are when fine-tuning.
    target_length = max_num_tokens
    if rng.random() < options.short_seq_prob:
        target_length = rng.randint(2, max_num_tokens)

    instances = []
    start = 0
    while start < len(document):
        chunk = _chunk(document, start, target_length)
        a_end = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
        tokens_a = _joined(chunk[:a_end])
        # As released: a chunk of one sentence always gets a random next.
        is_random_next = len(chunk) == 1 or rng.random() < 0.5
        if is_random_next:
            tokens_b = _random_next(
                documents, document_index, target_length - len(tokens_a), rng
            )
            # The sentences that B would have had begin the next chunk.
            start += a_end
        else:
            tokens_b = _joined(chunk[a_end:])
            start += len(chunk)
        tokens_a, tokens_b = truncate_pair_at_random_ends(
            tokens_a, tokens_b, max_num_tokens, rng
        )
        tokens = ["[CLS]", *tokens_a, "[SEP]", *tokens_b, "[SEP]"]
        masked = plain_masking.create_masked_lm_predictions(
            tokens, vocab_words, options, rng
        )
        instances.append(
            TrainingInstance(
                tokens=masked.tokens,
                segment_ids=[0] * (len(tokens_a) + 2)
                + [1] * (len(tokens_b) + 1),
                is_random_next=is_random_next,
                masked_lm_positions=masked.positions,
                masked_lm_labels=masked.labels,
            )
        )
    return instances


def _chunk(document: Document, start: int, target_length: int) -> Document:
    """Takes sentences from `start` on until they have enough tokens."""
    length = 0
    for end in range(start, len(document)):
        length += len(document[end])
        if length >= target_length:
            return document[start : end + 1]
    return document[start:]


def _random_next(
    documents: Sequence[Document],
    document_index: int,
    target_length: int,
    rng: random.Random,
) -> list[str]:
    """Takes sentences from a random place of another document."""
    for _ in range(_TRIES_FOR_ANOTHER_DOCUMENT):
        random_index = rng.randint(0, len(documents) - 1)
        if random_index != document_index:
            break
    document = documents[random_index]
    start = rng.randint(0, len(document) - 1)
    return _joined(_chunk(document, start, target_length))


def _joined(sentences: Iterable[Sentence]) -> list[str]:
    return [token for sentence in sentences for token in sentence]


def truncate_pair_at_random_ends(
    tokens_a: Sequence[str],
    tokens_b: Sequence[str],
    max_num_tokens: int,
    rng: random.Random,
) -> tuple[list[str], list[str]]:
    """Shortens a pair, token by token from the longer one (B if equal).

    Each token is taken from the front or the back at random, so that neither
    end of a sentence is seen more often. Fine-tuning has another rule: see
    `tasks.classification.sentence_pairs`.

    Returns:
        The two sentences, together at most `max_num_tokens` tokens.
    """
    # Of each sentence the part from `begins` to `ends` is kept.
    begins = [0, 0]
    ends = [len(tokens_a), len(tokens_b)]
    while ends[0] - begins[0] + ends[1] - begins[1] > max_num_tokens:
        longer = 0 if ends[0] - begins[0] > ends[1] - begins[1] else 1
        if rng.random() < 0.5:
            begins[longer] += 1
        else:
            ends[longer] -= 1
    return (
        list(tokens_a[begins[0] : ends[0]]),
        list(tokens_b[begins[1] : ends[1]]),
    )


def instance_features(
    instance: TrainingInstance,
    convert_tokens_to_ids: Callable[[Iterable[str]], list[int]],
    options: pretraining.InstanceOptions,
) -> dict[str, list[int] | list[float]]:
    """Turns an instance into the arrays of a record, padded with zeros.

    As released: padding is id 0, whatever token the vocabulary has there.

    Returns:
        `input_ids`, `input_mask`, `segment_ids`: `[T]`; `masked_lm_positions`,
        `masked_lm_ids`, `masked_lm_weights`: `[P]`; `next_sentence_labels`:
        `[1]`, 1 for a random next. T is `max_seq_length`, P is
        `max_predictions_per_seq`.
    """
    length = options.max_seq_length
    num_places = options.max_predictions_per_seq
    num_tokens = len(instance.tokens)
    num_masked = len(instance.masked_lm_positions)
    input_ids = convert_tokens_to_ids(instance.tokens)
    masked_lm_ids = convert_tokens_to_ids(instance.masked_lm_labels)
    return {
        "input_ids": _padded(input_ids, length),
        "input_mask": _padded([1] * num_tokens, length),
        "segment_ids": _padded(instance.segment_ids, length),
        "masked_lm_positions": _padded(
            instance.masked_lm_positions, num_places
        ),
        "masked_lm_ids": _padded(masked_lm_ids, num_places),
        "masked_lm_weights": _padded([1.0] * num_masked, num_places, 0.0),
        "next_sentence_labels": [int(instance.is_random_next)],
    }


def _padded(values: list, length: int, padding: float = 0) -> list:
    return values + [padding] * (length - len(values))

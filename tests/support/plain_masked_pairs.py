"""Masked sentence pairs on strings, one rule of the release after the other.

The expectation of tests: easy to verify, and the definition of the instances
that `bert.tasks.pretraining.masked_pairs` makes in a fraction of the time.
"""

import dataclasses
import random
from collections.abc import Callable, Iterable, Sequence

from bert.records import schema
from bert.tasks.pretraining.instance_options import InstanceOptions

# A sentence is a list of tokens, a document a list of sentences.
Sentence = list[str]
Document = list[Sentence]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrainingInstance:
    """One masked pair of sentences.

    Attributes:
        tokens: `[CLS] A [SEP] B [SEP]`, after masking unless it is dynamic.
        segment_ids: for each token 0 up to the first [SEP], then 1.
        is_random_next: B does not follow A in the text.
        masked_lm_positions: the predicted positions, ascending.
        masked_lm_labels: the original tokens there.
    """

    tokens: list[str]
    segment_ids: list[int]
    is_random_next: bool
    masked_lm_positions: list[int]
    masked_lm_labels: list[str]


def tokenize_documents(
    documents: Iterable[Iterable[str]], tokenize: Callable[[str], Sentence]
) -> list[Document]:
    """Tokenizes the sentences of documents.

    As released: a line without tokens, such as one of control characters,
    neither adds a sentence nor ends a document.

    Args:
        documents: as from `encoded_corpus.read_documents`.
        tokenize: tokenizes a sentence.
    """
    tokenized = (
        [tokens for line in document if (tokens := tokenize(line))]
        for document in documents
    )
    return [document for document in tokenized if document]


def create_training_instances(
    documents: Sequence[Document],
    vocab_words: Sequence[str],
    options: InstanceOptions,
    rng: random.Random,
) -> list[TrainingInstance]:
    """Creates the instances of a corpus, in random order.

    As released: all instances of `dupe_factor` passes are in memory.

    Args:
        documents: the corpus, as from `tokenize_documents`.
        vocab_words: the possible random replacements. As released, the complete
            vocabulary, including [PAD], [CLS] and [unused1].
        options: for creating instances.
        rng: source of all random draws.
    """
    documents = list(documents)
    rng.shuffle(documents)
    instances = []
    for _ in range(options.dupe_factor):
        for index in range(len(documents)):
            instances += _create_instances_from_document(
                documents, index, vocab_words, options, rng
            )
    rng.shuffle(instances)
    return instances


def _create_instances_from_document(
    documents: Sequence[Document],
    document_index: int,
    vocab_words: Sequence[str],
    options: InstanceOptions,
    rng: random.Random,
) -> list[TrainingInstance]:
    """Splits one document into pairs, about half with a random second part."""
    document = documents[document_index]
    max_num_tokens = options.max_seq_length - schema.NUM_SPECIAL_TOKENS
    # Some pairs are shorter, like inputs in fine-tuning.
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
            # The unused sentences of the chunk begin the next one.
            start += a_end
        else:
            tokens_b = _joined(chunk[a_end:])
            start += len(chunk)
        tokens_a, tokens_b = truncate_pair_at_random_ends(
            tokens_a, tokens_b, max_num_tokens, rng
        )
        tokens = ["[CLS]", *tokens_a, "[SEP]", *tokens_b, "[SEP]"]
        positions: list[int] = []
        labels: list[str] = []
        if not options.dynamic_masking:
            tokens, positions, labels = create_masked_lm_predictions(
                tokens, vocab_words, options, rng
            )
        instances.append(
            TrainingInstance(
                tokens=tokens,
                segment_ids=[0] * (len(tokens_a) + 2)
                + [1] * (len(tokens_b) + 1),
                is_random_next=is_random_next,
                masked_lm_positions=positions,
                masked_lm_labels=labels,
            )
        )
    return instances


def _chunk(document: Document, start: int, target_length: int) -> Document:
    """Collects sentences from `start` on until they have enough tokens."""
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
    """Collects sentences from a random position in another document."""
    for _ in range(10):  # Source: the release.
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
    """Truncates a pair, token by token from the longer part (B if equal).

    Each token is removed from the front or the back at random, to avoid a bias
    towards either end. Fine-tuning has a different rule: see
    `bert.tasks.sentence_pairs`.

    Returns:
        The two sentences, together at most `max_num_tokens` tokens.
    """
    # The slice from `begins` to `ends` of each part is kept.
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


def create_masked_lm_predictions(
    tokens: Sequence[str],
    vocab_words: Sequence[str],
    options: InstanceOptions,
    rng: random.Random,
) -> tuple[list[str], list[int], list[str]]:
    """Chooses the tokens to predict and masks most of them.

    As released, a word with more pieces than predictions left is skipped in
    favor of a shorter one.

    Args:
        tokens: a complete instance; [CLS] and [SEP] are never predicted.
        vocab_words: the possible random replacements.
        options: of masking.
        rng: source of all random draws.

    Returns:
        The tokens, some of them replaced; the predicted positions, ascending;
        and the original tokens there.
    """
    words = _maskable_words(tokens, options.do_whole_word_mask)
    rng.shuffle(words)
    num_to_predict = options.num_predictions(len(tokens))
    masked = list(tokens)
    positions: list[int] = []
    for word in words:
        if len(positions) == num_to_predict:
            break
        if len(positions) + len(word) > num_to_predict:
            continue
        # As released: each piece of a word is drawn separately
        # (google-research/bert#910).
        for position in word:
            masked[position] = _hidden(
                tokens[position], vocab_words, options, rng
            )
        positions += word
    positions.sort()
    return masked, positions, [tokens[position] for position in positions]


def _maskable_words(
    tokens: Sequence[str], do_whole_word_mask: bool
) -> list[list[int]]:
    """Lists the positions of each word, or of each piece."""
    words: list[list[int]] = []
    for position, token in enumerate(tokens):
        if token in ("[CLS]", "[SEP]"):
            continue
        # As released: if B begins within a word, its first piece joins the
        # last word of A, over the [SEP] between them.
        if do_whole_word_mask and words and token.startswith("##"):
            words[-1].append(position)
        else:
            words.append([position])
    return words


def _hidden(
    token: str,
    vocab_words: Sequence[str],
    options: InstanceOptions,
    rng: random.Random,
) -> str:
    """Draws the replacement of a predicted token."""
    mask_prob, same_prob = options.draw_probs
    if rng.random() < mask_prob:
        return "[MASK]"
    if rng.random() < same_prob:
        return token
    return vocab_words[rng.randint(0, len(vocab_words) - 1)]


def instance_features(
    instance: TrainingInstance,
    convert_tokens_to_ids: Callable[[Iterable[str]], list[int]],
    options: InstanceOptions,
) -> dict[str, list[int] | list[float]]:
    """Converts an instance to the arrays of a record, padded with zeros.

    As released: padding is id 0, whatever token has that id.

    Returns:
        `input_ids`, `input_mask`, `segment_ids`: `[T]`; `masked_lm_positions`,
        `masked_lm_ids`, `masked_lm_weights`: `[P]`; `next_sentence_labels`:
        `[1]`, 1 for a random next. T is `max_seq_length`, P is
        `max_predictions_per_seq`. With `dynamic_masking` there are no
        `masked_lm` arrays; for whole words there is `word_starts`, `[T]`, 0 for
        a token that continues a word.
    """
    length = options.max_seq_length
    num_places = options.max_predictions_per_seq
    tokens = instance.tokens
    features = {
        "input_ids": _padded(convert_tokens_to_ids(tokens), length),
        "input_mask": _padded([1] * len(tokens), length),
        "segment_ids": _padded(instance.segment_ids, length),
        "next_sentence_labels": [int(instance.is_random_next)],
    }
    if options.dynamic_masking:
        if options.do_whole_word_mask:
            starts = [int(not token.startswith("##")) for token in tokens]
            features["word_starts"] = _padded(starts, length)
        return features
    num_masked = len(instance.masked_lm_positions)
    masked_lm_ids = convert_tokens_to_ids(instance.masked_lm_labels)
    return {
        **features,
        "masked_lm_positions": _padded(
            instance.masked_lm_positions, num_places
        ),
        "masked_lm_ids": _padded(masked_lm_ids, num_places),
        "masked_lm_weights": _padded([1.0] * num_masked, num_places, 0.0),
    }


def _padded(values: list, length: int, padding: float = 0) -> list:
    return values + [padding] * (length - len(values))

"""Record schemas: the features of each kind of record.

A record is a `tf.train.Example`. Its features have a fixed shape and the names
and types of the original, so that either program reads the other's files.
"""

import dataclasses

from bert.commands import flags

# The names of the encoder's inputs, `[T]` or `[C, T]` each.
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
NUM_SPECIAL_TOKENS = 3  # [CLS] A [SEP] B [SEP]
PAIR_FLAGS = flags.Heading("Masked pairs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairSizes:
    """The sizes of a masked pair, flags of the programs that write and read."""

    # [CLS], two [SEP] and a token of each sentence.
    max_seq_length: int = PAIR_FLAGS.flag(
        128,
        "Tokens per pair.",
        lower_bound=NUM_SPECIAL_TOKENS + 2,
        changes_result=True,
        of_model=True,
    )
    max_predictions_per_seq: int = PAIR_FLAGS.count(
        20, "Maximum number of predicted tokens per pair.", changes_result=True
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """A named array of a record.

    Attributes:
        name: the key in the record.
        shape: its shape in one record, without the batch axis.
        dtype: "int64" or "float32".
        stored_name: the key in records of another program; None: `name`.
        stored_dtype: "int64" for whole numbers that another program stored for
            "float32"; None: `dtype`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "int64"
    stored_name: str | None = None
    stored_dtype: str | None = None


LABEL = Feature(name="label_ids", shape=(1,))


def _sequence_features(shape: tuple[int, ...]) -> tuple[Feature, ...]:
    return tuple(Feature(name=name, shape=shape) for name in SEQUENCES)


def pretraining_features(
    max_seq_length: int, max_predictions_per_seq: int
) -> tuple[Feature, ...]:
    """Returns the features of masked sentence pairs.

    Source: create_pretraining_data.py and run_pretraining.py of the release.
    """
    predictions = (max_predictions_per_seq,)
    return (
        *_sequence_features((max_seq_length,)),
        Feature(name="masked_lm_positions", shape=predictions),
        Feature(name="masked_lm_ids", shape=predictions),
        Feature(name="masked_lm_weights", shape=predictions, dtype="float32"),
        Feature(name="next_sentence_labels", shape=(1,)),
    )


def unmasked_features(
    max_seq_length: int, *, do_whole_word_mask: bool
) -> tuple[Feature, ...]:
    """Returns the features of sentence pairs for dynamic masking.

    `word_starts` is 0 for a token that continues a word.
    """
    sequence = (max_seq_length,)
    words = (Feature(name="word_starts", shape=sequence),)
    return (
        *_sequence_features(sequence),
        *(words if do_whole_word_mask else ()),
        Feature(name="next_sentence_labels", shape=(1,)),
    )


def labeled_features(
    max_seq_length: int,
    label: Feature = LABEL,
) -> tuple[Feature, ...]:
    """Returns the features of texts, or pairs, with labels.

    Args:
        max_seq_length: T, tokens of a record.
        label: the feature of the labels, by default one class.
    """
    return (*_sequence_features((max_seq_length,)), label)


def classification_features(
    max_seq_length: int, label: Feature = LABEL
) -> tuple[Feature, ...]:
    """Returns the features of run_classifier.py.

    Source: run_classifier.py of the release, for one class per text.

    Args: as for `labeled_features`.
    """
    return (
        *labeled_features(max_seq_length, label),
        Feature(name="is_real_example", shape=(1,)),
    )


def choice_features(
    max_seq_length: int, num_choices: int
) -> tuple[Feature, ...]:
    """Returns the features of multiple choice: one sequence for each choice.

    Args:
        max_seq_length: T, tokens of a sequence.
        num_choices: C.
    """
    return (
        *_sequence_features((num_choices, max_seq_length)),
        LABEL,
    )


def squad_features(
    max_seq_length: int, *, is_training: bool
) -> tuple[Feature, ...]:
    """Returns the features of windows over paragraphs.

    Source: run_squad.py of the release.

    Args:
        max_seq_length: tokens of a window.
        is_training: whether the records hold the positions of the answer.
    """
    features = (
        Feature(name="unique_ids", shape=(1,)),
        *_sequence_features((max_seq_length,)),
    )
    if not is_training:
        return features
    return (
        *features,
        Feature(name="start_positions", shape=(1,)),
        Feature(name="end_positions", shape=(1,)),
        Feature(name="is_impossible", shape=(1,)),
    )


def tagging_features(max_seq_length: int) -> tuple[Feature, ...]:
    """Returns the features of windows with labeled words.

    `label_mask` is 1 at the first piece of each word labeled in this window.
    """
    sequence = (max_seq_length,)
    return (
        *_sequence_features(sequence),
        Feature(name="label_ids", shape=sequence),
        Feature(name="label_mask", shape=sequence),
    )

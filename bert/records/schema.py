"""Record schemas: features, those of pre-training and of labeled texts.

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
    max_predictions_per_seq: int = PAIR_FLAGS.positive(
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


def sequence_features(shape: tuple[int, ...]) -> tuple[Feature, ...]:
    """Returns the features of the encoder's inputs, each of this shape."""
    return tuple(Feature(name=name, shape=shape) for name in SEQUENCES)


def pretraining_features(
    max_seq_length: int, max_predictions_per_seq: int
) -> tuple[Feature, ...]:
    """Returns the features of masked sentence pairs.

    Source: create_pretraining_data.py and run_pretraining.py of the release.
    """
    predictions = (max_predictions_per_seq,)
    return (
        *sequence_features((max_seq_length,)),
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
        *sequence_features(sequence),
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
    return (*sequence_features((max_seq_length,)), label)

"""Dynamic masking: new masks each time that an example is read.

Source: Liu et al. 2019 (RoBERTa), §4.1. The distribution is that of
`bert.tasks.pretraining.masked_pairs`, which masks one example after the other;
this module masks a batch when it is read.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert.records import sidecars
from bert.tasks.pretraining import instance_options

if TYPE_CHECKING:
    import tensorflow as tf

_RATES = ("masked_lm_prob", "do_whole_word_mask")
_LENGTHS = ("max_seq_length", "max_predictions_per_seq")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DynamicMasking:
    """The masking of unmasked records.

    Attributes:
        options: the number of predicted tokens, and their replacements.
        vocab_size: any id below it may replace a token.
        mask_id: the id of [MASK].
    """

    options: instance_options.InstanceOptions
    vocab_size: int
    mask_id: int

    def identity(self) -> list[object]:
        """Returns the rates, and whether whole words are masked, as JSON."""
        rates = [getattr(self.options, name) for name in _RATES]
        return [*rates, *self.options.masking_rates]

    def apply(
        self, batch: Mapping[str, "tf.Tensor"], seeds: "tf.Tensor"
    ) -> dict[str, "tf.Tensor"]:
        """Masks examples; each mask depends on the seed of its example alone.

        Args:
            batch: the features of `schema.unmasked_features`.
            seeds: `[B, 2]` int64.

        Returns:
            The features of `schema.pretraining_features`.
        """
        import tensorflow as tf

        features = dict(batch)
        ids = features["input_ids"]
        starts = features.pop("word_starts", tf.ones_like(ids))  # [B, T]
        inputs = (ids, features["input_mask"], features["segment_ids"], starts)
        masked_ids, positions, labels, weights = tf.numpy_function(
            self.draw, [*inputs, seeds], [tf.int32] * 4
        )
        shape = [ids.shape[0], self.options.max_predictions_per_seq]
        return {
            **features,
            "input_ids": tf.ensure_shape(masked_ids, ids.shape),
            "masked_lm_positions": tf.ensure_shape(positions, shape),
            "masked_lm_ids": tf.ensure_shape(labels, shape),
            "masked_lm_weights": tf.cast(
                tf.ensure_shape(weights, shape), tf.float32
            ),
        }

    def draw(
        self,
        ids: np.ndarray,
        mask: np.ndarray,
        segment_ids: np.ndarray,
        starts: np.ndarray,
        seeds: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        """Draws the masks of examples.

        Args:
            ids, mask, segment_ids: `[B, T]` int32.
            starts: `[B, T]` int32, 1 for a token that starts a word.
            seeds: `[B, 2]` int64.

        Returns:
            The masked ids, `[B, T]`; and the positions, labels and weights of
            the predictions, `[B, P]`; all int32.
        """
        word_noise, kind_noise, id_noise = noise(seeds, ids.shape[1])
        limits = [self.options.num_predictions(n) for n in mask.sum(axis=1)]
        chosen = choose(
            _maskable(mask, segment_ids), starts, word_noise, limits
        )
        to_mask, same, _ = np.array(self.options.masking_rates) / 100
        random_ids = (id_noise * self.vocab_size).astype(ids.dtype)
        hidden = np.where(
            kind_noise < to_mask,
            self.mask_id,
            np.where(kind_noise < to_mask + same, ids, random_ids),
        )  # [B, T]
        # The chosen positions in ascending order, padded with zeros.
        width = self.options.max_predictions_per_seq
        positions = np.argsort(~chosen, axis=1, kind="stable")[:, :width]
        weights = np.take_along_axis(chosen, positions, axis=1)
        missing = [(0, 0), (0, width - positions.shape[1])]
        positions = np.pad(positions * weights, missing)
        weights = np.pad(weights, missing)
        labels = np.take_along_axis(ids, positions, axis=1) * weights
        masked_ids = np.where(chosen, hidden, ids)
        return tuple(
            np.asarray(array, np.int32)
            for array in (masked_ids, positions, labels, weights)
        )


def noise(seeds: np.ndarray, length: int) -> np.ndarray:
    """Draws numbers from 0 to 1 for the tokens of each example: `[3, B, T]`.

    The numbers of an example must not depend on the rest of the batch.
    """
    drawn = [
        np.random.default_rng(pair).random((3, length))
        for pair in seeds.astype(np.uint64).tolist()
    ]
    return np.stack(drawn, axis=1)


def _maskable(mask: np.ndarray, segment_ids: np.ndarray) -> np.ndarray:
    """Marks all tokens but [CLS] and [SEP], `[B, T]`.

    [CLS] is the first token, and [SEP] the last one of each segment.
    """
    # Padding counts as a separate segment.
    segments = np.where(mask > 0, segment_ids, -1)
    following = np.pad(segments[:, 1:], [(0, 0), (0, 1)], constant_values=-1)
    is_first = np.arange(mask.shape[1]) == 0
    return (mask > 0) & (segments == following) & ~is_first


def choose(
    maskable: np.ndarray,
    starts: np.ndarray,
    word_noise: np.ndarray,
    limits: Sequence[int],
) -> np.ndarray:
    """Chooses the tokens to predict.

    Args:
        maskable: `[B, T]` bool, tokens that may be predicted.
        starts: `[B, T]`, true for tokens that start a word, as the first one
            does. As released, the first token of segment B may continue the
            last word of A.
        word_noise: `[B, T]`, decides the order of the words: word `i` has the
            priority `word_noise[:, i]`, lowest first.
        limits: `[B]`, the most predictions. As released, a word with more
            tokens than may still be predicted is skipped.

    Returns:
        `[B, T]` bool.
    """
    is_start = maskable & (
        (starts > 0) | (np.cumsum(maskable, axis=1) == 1)
    )  # [B, T]
    count = np.cumsum(is_start, axis=1)
    words = np.where(maskable, count - 1, -1)  # [B, T], the word of each token
    chosen = np.zeros(maskable.shape, bool)
    for row, limit in enumerate(limits):
        room, num_words = limit, count[row, -1]
        sizes = np.bincount(words[row][maskable[row]], minlength=num_words)
        order = np.argsort(word_noise[row, :num_words], kind="stable")
        taken = np.zeros(num_words + 1, bool)  # The last is of no word.
        for word, size in zip(
            order.tolist(), sizes[order].tolist(), strict=True
        ):
            if size <= room:
                taken[word] = True
                room -= size
            if not room:
                break
        chosen[row] = taken[words[row]]
    return chosen


def of_sidecars(
    metadata_of_files: Mapping[str, sidecars.Metadata | None],
) -> DynamicMasking | None:
    """Reads the masking of record files; None if they are masked already.

    Raises:
        ValueError: the masking of the files differs.
    """
    paths: dict[DynamicMasking | None, str] = {}
    for path, metadata in metadata_of_files.items():
        masking = None
        if metadata is not None and sidecars.MASK_ID in metadata.flags:
            masking = _masking(metadata)
        paths.setdefault(masking, path)
    if len(paths) > 1:
        raise ValueError(
            "All records of a run must be masked alike, either by "
            "create_pretraining_data.py or (--dynamic_masking) by "
            "run_pretraining.py with the same --masked_lm_prob, --masking and "
            f"--do_whole_word_mask; these differ: {', '.join(paths.values())}"
        )
    return next(iter(paths))


def _masking(metadata: sidecars.Metadata) -> DynamicMasking:
    made_with = metadata.flags
    return DynamicMasking(
        options=instance_options.InstanceOptions(
            masking=",".join(map(str, made_with["masking"])),
            **{name: made_with[name] for name in _RATES},
            **{name: getattr(metadata, name) for name in _LENGTHS},
        ),
        vocab_size=metadata.vocab_size,
        mask_id=made_with[sidecars.MASK_ID],
    )

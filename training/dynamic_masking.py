"""Dynamic masking: new masks each time that an example is read.

Source: Liu et al. 2019 (RoBERTa), §4.1. The distribution is that of
`tasks.masked_lm.masked_pairs`, which masks one example after the other;
this module masks a batch in the graph.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.masked_lm import masked_pairs
from training import records

_RATES = ("masked_lm_prob", "do_whole_word_mask")
_LENGTHS = ("max_seq_length", "max_predictions_per_seq")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking:
    """The masking of unmasked records.

    Attributes:
        options: the number of predicted tokens, and their replacements.
        vocab_size: any id below it may replace a token.
        mask_id: the id of [MASK].
    """

    options: masked_pairs.InstanceOptions
    vocab_size: int
    mask_id: int

    def identity(self) -> list[Any]:
        """Returns the rates, and whether whole words are masked, as JSON."""
        rates = [getattr(self.options, name) for name in _RATES]
        return [*rates, *self.options.masking_rates]

    def apply(
        self, batch: Mapping[str, tf.Tensor], seeds: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Masks examples; each mask depends on the seed of its example alone.

        Args:
            batch: the features of `records.unmasked_features`.
            seeds: `[B, 2]` int64.

        Returns:
            The features of `records.pretraining_features`.
        """
        features = dict(batch)
        ids, mask = features["input_ids"], features["input_mask"]
        length = ids.shape[1]
        starts = features.pop("word_starts", tf.ones_like(ids))  # [B, T]
        word_noise, kind_noise, id_noise = tf.unstack(
            _noise(seeds, length), axis=1
        )  # [B, T] each
        num_predictions = tf.gather(
            [self.options.num_predictions(n) for n in range(length + 1)],
            tf.reduce_sum(mask, axis=1),
        )  # [B]
        chosen = choose(
            _maskable(mask, features["segment_ids"]),
            starts > 0,
            word_noise,
            num_predictions,
        )
        to_mask, same, _ = np.array(self.options.masking_rates) / 100
        random_ids = tf.cast(id_noise * self.vocab_size, ids.dtype)
        hidden = tf.where(
            kind_noise < to_mask,
            self.mask_id,
            tf.where(kind_noise < to_mask + same, ids, random_ids),
        )  # [B, T]
        positions, weights = _positions(
            chosen, self.options.max_predictions_per_seq
        )
        labels = tf.gather(ids, positions, batch_dims=1)  # [B, P]
        return {
            **features,
            "input_ids": tf.where(chosen, hidden, ids),
            "masked_lm_positions": positions,
            "masked_lm_ids": labels * weights,
            "masked_lm_weights": tf.cast(weights, tf.float32),
        }


# Compiled: called eagerly, `map_fn` takes a millisecond for each example.
@tf.function(autograph=False)
def _noise(seeds: tf.Tensor, length: int) -> tf.Tensor:
    """Draws numbers from 0 to 1 for the tokens of each example: `[B, 3, T]`."""
    shape = [3, length]
    # One example at a time: an operation takes a single seed, and the numbers
    # of an example must not depend on the rest of the batch.
    return tf.map_fn(
        lambda seed: tf.random.stateless_uniform(shape, seed, dtype=tf.float64),
        seeds,
        fn_output_signature=tf.TensorSpec(shape, tf.float64),
    )


def _maskable(mask: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
    """Marks all tokens but [CLS] and [SEP], `[B, T]`.

    [CLS] is the first token, and [SEP] the last one of each segment.
    """
    # Padding counts as a separate segment.
    segments = tf.where(mask > 0, segment_ids, -1)
    following = tf.pad(segments[:, 1:], [[0, 0], [0, 1]], constant_values=-1)
    is_first = tf.range(mask.shape[1]) == 0
    return (mask > 0) & (segments == following) & ~is_first


def choose(
    maskable: tf.Tensor,
    starts: tf.Tensor,
    noise: tf.Tensor,
    num_predictions: tf.Tensor,
) -> tf.Tensor:
    """Chooses the tokens to predict.

    Args:
        maskable: `[B, T]` bool, tokens that may be predicted.
        starts: `[B, T]` bool, tokens that start a word, as the first one does.
            As released, the first token of segment B may continue the last
            word of A.
        noise: `[B, T]`, decides the order of the words: word `i` has the
            priority `noise[:, i]`, lowest first.
        num_predictions: `[B]` int32. As released, a word with more tokens than
            may still be predicted is skipped.

    Returns:
        `[B, T]` bool.
    """
    length = maskable.shape[1]
    is_token = tf.cast(maskable, tf.int32)
    starts |= tf.cumsum(is_token, axis=1) == 1
    count = tf.cumsum(tf.cast(maskable & starts, tf.int32), axis=1)
    words = tf.maximum(count - 1, 0)  # [B, T], the word of each token
    sizes = tf.math.bincount(
        words, is_token, minlength=length, maxlength=length, axis=-1
    )  # [B, T], the tokens of each word
    order = tf.argsort(noise, axis=1)
    taken = _take_in_order(
        tf.gather(sizes, order, batch_dims=1), num_predictions[:, tf.newaxis]
    )
    taken = tf.gather(taken, tf.argsort(order, axis=1), batch_dims=1)
    return maskable & tf.gather(taken, words, batch_dims=1)


def _take_in_order(sizes: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    """Selects each item that still fits, from the first to the last.

    Args:
        sizes: `[B, N]` int32.
        limit: `[B, 1]` int32, the greatest sum of the selected sizes.

    Returns:
        `[B, N]` bool.
    """

    def fitting(taken):
        room = limit - tf.reduce_sum(
            tf.where(taken, sizes, 0), axis=1, keepdims=True
        )
        return ~taken & (sizes > 0) & (sizes <= room), room

    def take(taken):
        # Selects consecutive items up to the first that does not fit. Such an
        # item never fits later, so the next round continues after it.
        fits, room = fitting(taken)
        sums = tf.cumsum(tf.where(fits, sizes, 0), axis=1)
        return (taken | (fits & (sums <= room)),)

    (taken,) = tf.while_loop(
        lambda taken: tf.reduce_any(fitting(taken)[0]),
        take,
        (tf.zeros_like(sizes, tf.bool),),
    )
    return taken


def _positions(
    chosen: tf.Tensor, max_predictions: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Lists the chosen positions in ascending order, padded with zeros.

    Args:
        chosen: `[B, T]` bool, at most P in a row.
        max_predictions: P.

    Returns:
        `positions`, and `weights`, 1 for each position, both `[B, P]` int32.
    """
    length = chosen.shape[1]
    places = tf.sort(tf.where(chosen, tf.range(length), length), axis=1)
    missing = max(max_predictions - length, 0)
    places = tf.pad(places, [[0, 0], [0, missing]], constant_values=length)
    places = places[:, :max_predictions]
    weights = tf.cast(places < length, tf.int32)
    return places * weights, weights


def of_sidecars(
    sidecars: Mapping[str, records.Metadata | None],
) -> Masking | None:
    """Reads the masking of records; None if they are masked already.

    Args:
        sidecars: for each record file the contents of its sidecar, None if it
            has none.

    Raises:
        ValueError: the masking of the files differs, or a sidecar lacks it.
    """
    paths: dict[Masking | None, str] = {}
    for path, metadata in sidecars.items():
        paths.setdefault(_of_sidecar(path, metadata), path)
    if len(paths) > 1:
        raise ValueError(
            "All records of a run must be masked alike, either by "
            "create_pretraining_data.py or (--dynamic_masking) by "
            "run_pretraining.py with the same --masked_lm_prob, --masking and "
            f"--do_whole_word_mask; these differ: {', '.join(paths.values())}"
        )
    return next(iter(paths))


def _of_sidecar(path: str, metadata: records.Metadata | None) -> Masking | None:
    if metadata is None or records.MASK_ID not in metadata.flags:
        return None
    made_with: Mapping[str, Any] = metadata.flags
    try:
        return Masking(
            options=masked_pairs.InstanceOptions(
                masking=",".join(map(str, made_with["masking"])),
                **{name: made_with[name] for name in _RATES},
                **{name: getattr(metadata, name) for name in _LENGTHS},
            ),
            vocab_size=metadata.vocab_size,
            mask_id=made_with[records.MASK_ID],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{records.metadata_path(path)}: `flags` must hold the masking "
            f"options of the records ({error!r}). Create the records again."
        ) from error

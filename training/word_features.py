"""Word features: hidden layers of a frozen encoder, computed once and stored.

A record is a `tf.train.Example` of one sentence of `n` words: `word_features`,
the bytes of `[n, L * D]` float32, and `label_ids`, the bytes of `[n]` int32,
both little-endian.
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from commands import flags
from files import progress, writing
from modeling import bert, checkpoints, tagging
from modeling import config as config_lib
from tasks import task
from training import (
    devices,
    input_pipeline,
    model_files,
    prediction,
    record_files,
    records,
    task_data,
    workers,
)
from training import flags as training_flags

_FLOAT_BYTES = 4
_LABEL_BYTES = 4
_STORED = {
    "word_features": tf.io.FixedLenFeature([], tf.string),
    "label_ids": tf.io.FixedLenFeature([], tf.string),
}
_RECORDS_PER_SCAN = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordFeatureSource(input_pipeline.Source):
    """Records of word features.

    `length_step` is not used: batches are padded to their longest sentence.

    Attributes:
        width: L * D, the size of a word's vector.
    """

    width: int

    def parse(
        self, serialized: tf.Tensor, seeds: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Parses `[B]` records to a batch; `seeds` are not used.

        Returns:
            `word_features` `[B, S, L * D]` float32, `label_ids` and
            `label_mask` `[B, S]` int32; 0 beyond the end of a sentence.
        """
        stored = tf.io.parse_example(serialized, _STORED)
        lengths = tf.strings.length(stored["label_ids"]) // _LABEL_BYTES  # [B]
        longest = tf.reduce_max(lengths)
        label_ids = tf.io.decode_raw(
            stored["label_ids"], tf.int32, fixed_length=longest * _LABEL_BYTES
        )  # [B, S]
        values = tf.io.decode_raw(
            stored["word_features"],
            tf.float32,
            fixed_length=longest * self.width * _FLOAT_BYTES,
        )  # [B, S * L * D]
        num_rows = serialized.shape[0]
        batch = {
            "word_features": tf.reshape(values, [-1, longest, self.width]),
            "label_ids": label_ids,
            "label_mask": tf.sequence_mask(lengths, longest, tf.int32),
        }
        return {
            name: tf.ensure_shape(value, [num_rows, *value.shape[1:]])
            for name, value in batch.items()
        }

    def lengths(self) -> np.ndarray:
        """Counts the words of every record: `[N]` int64."""
        counts = []
        for start in range(0, len(self.files), _RECORDS_PER_SCAN):
            stop = min(start + _RECORDS_PER_SCAN, len(self.files))
            for record in self.files.read(np.arange(start, stop)):
                example = tf.train.Example.FromString(record)
                stored = example.features.feature["label_ids"].bytes_list
                counts.append(len(stored.value[0]) // _LABEL_BYTES)
        return np.asarray(counts)


@workers.communication_errors()
def make_source(
    path: str,
    width: int,
    made_from: records.Metadata,
    sentences: Callable[[], Iterable[tuple[np.ndarray, Sequence[int]]]],
    communicator: workers.Communicator,
) -> WordFeatureSource:
    """Writes word features to a file, or reuses existing ones.

    All workers compute, each a share of every batch; the chief writes.

    Args:
        path: the record file.
        width: L * D.
        made_from: the sidecar: data, vocabulary, checkpoint and layers.
        sentences: computes for each sentence `[n, L * D]` float32 and the `n`
            labels; called only to write the file.
        communicator: of the workers that compute.
    """
    files, _ = task_data.make_or_reuse(
        path,
        made_from,
        lambda: _write(path, sentences()),
        communicator,
        take_part=lambda: collections.deque(sentences(), maxlen=0),
    )
    return WordFeatureSource(files=files, width=width)


def _write(path, sentences) -> list[int]:
    counts = []
    with writing.whole_file(path, "wb") as file:
        for values, label_ids in sentences:
            file.write(record_files.frame(_serialized(values, label_ids)))
            counts.append(1)
    return counts


class FrozenEncoder:
    """An encoder that computes word vectors and is not trained.

    Its weights are loaded on first use.

    Args:
        setup: the setup of the run, with the encoder's `init_checkpoint`.
        features: the layers, a value of `--features`.

    Raises:
        ValueError: the encoder lacks the layers; on first use, its checkpoint
            lacks a weight or has another vocabulary.
    """

    def __init__(self, setup: task_data.Setup, features: str):
        self._setup = setup
        self._options = setup.options
        self._checkpoint = flags.needed(
            setup.options.init_checkpoint, "init_checkpoint"
        )
        self._numbers = layer_numbers(features, setup.config.num_hidden_layers)
        self._layers = functools.cache(self._load)

    def make_data(self, data_set: task.DataSet) -> task.Data:
        """Creates the records of a data set, or reuses existing ones.

        Args:
            data_set: its `examples` yields the windows of each sentence.
        """
        metadata = self._setup.metadata(data_set)
        origin = {
            **metadata.flags,
            "layers": list(self._numbers),
            "precision": devices.precision_in_use(),
            "encoder_sha256": checkpoints.sha256(self._checkpoint),
        }
        source = make_source(
            self._setup.record_path(f"{data_set.name}_features"),
            len(self._numbers) * self._setup.config.hidden_size,
            dataclasses.replace(metadata, flags=origin),
            lambda: self.vectors(data_set.examples()),
            workers.Communicator(self._setup.strategy),
        )
        return task.Data(
            data_set=data_set,
            source=source,
            rows_per_example=np.ones(len(source.files), np.int64),
        )

    def vectors(
        self, sentences: Iterable[Sequence[Any]]
    ) -> Iterator[tuple[np.ndarray, Sequence[int]]]:
        """Computes the vectors of sentences, a batch of windows at a time.

        Args:
            sentences: the windows of each, in the order of their words, as
                `tasks.tagging.ner.Window`.

        Yields:
            For each sentence of `n` words their vectors, `[n, L * D]` float32,
            and their labels.
        """
        sentences = list(sentences)
        of_windows = self._vectors_of_windows(
            [window for windows in sentences for window in windows]
        )
        for windows in sentences:
            parts = list(itertools.islice(of_windows, len(windows)))
            vectors = np.concatenate(parts)  # [n, L, D]
            labels = [label for each in windows for label in each.label_ids]
            yield vectors.reshape(len(vectors), -1), labels

    def _vectors_of_windows(
        self, windows: Sequence[Any]
    ) -> Iterator[np.ndarray]:
        options, hidden_layers = self._options, self._layers()
        report = progress.Progress()
        for start in range(0, len(windows), options.predict_batch_size):
            report("windows", start, len(windows))
            batch = windows[start : start + options.predict_batch_size]
            values = hidden_layers.compute(
                [window.input_ids for window in batch],
                [[0] * len(window.input_ids) for window in batch],
                options.max_seq_length,
                pad_to_max_length=training_flags.wants_tpu(options),
            )  # [b, T, L, D]
            for row, window in enumerate(batch):
                yield values[row, list(window.positions)]  # [n, L, D]

    def _load(self) -> prediction.HiddenLayers:
        model_files.check_vocabulary(
            config_lib.folder_of(self._checkpoint), self._options.vocab_file
        )
        strategy = self._setup.strategy
        with strategy.scope():
            model = bert.BertModel(self._setup.config)
            report = checkpoints.load(
                model, self._checkpoint, new=model.optional_variables
            )
        logging.info("Frozen encoder: %s", report)
        return prediction.HiddenLayers(
            strategy,
            model,
            self._numbers,
            self._options.predict_batch_size,
            embeddings_first=True,
        )


def _serialized(values: np.ndarray, label_ids: Sequence[int]) -> bytes:
    message = tf.train.Example()
    stored = message.features.feature
    for name, array, kind in (
        ("word_features", values, "<f4"),
        ("label_ids", np.asarray(label_ids), "<i4"),
    ):
        data = np.ascontiguousarray(array, kind).tobytes()
        stored[name].bytes_list.value.append(data)
    return message.SerializeToString(deterministic=True)


def layer_numbers(choice: str, num_hidden_layers: int) -> tuple[int, ...]:
    """Lists the layers of one of `training_flags.FEATURE_LAYERS`.

    0 are the embeddings, 1 is the first layer and so on.

    Raises:
        ValueError: the encoder has fewer layers.
    """
    last = num_hidden_layers
    first, end = {
        "embeddings": (0, 0),
        "second_to_last": (last - 1, last - 1),
        "last": (last, last),
        "sum_last_four": (last - 3, last),
        "concat_last_four": (last - 3, last),
        "sum_all": (1, last),
    }[choice]
    if first < 1 and choice != "embeddings":
        raise ValueError(
            f"{choice} needs at least {last + 1 - first} layers; the model has "
            f"{last}."
        )
    return tuple(range(first, end + 1))


def make_tagger(
    config: config_lib.BertConfig,
    options: training_flags.TaggingOptions,
    num_labels: int,
) -> tagging.LstmTagger:
    """Creates the BiLSTM that is trained on word vectors."""
    features = flags.needed(options.features, "features")
    return tagging.LstmTagger(
        num_layers=len(layer_numbers(features, config.num_hidden_layers)),
        hidden_size=config.hidden_size,
        is_sum=features.startswith("sum"),
        num_labels=num_labels,
        num_units=options.lstm_units,
    )

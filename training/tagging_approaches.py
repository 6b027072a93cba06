"""The two ways to tag words with BERT: fine-tuned, or frozen below a BiLSTM.

Source: Devlin et al. 2019, §5.3 and table 7.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import tensorflow as tf

from modeling import config as config_lib
from modeling import feature_layers
from modeling import tagging as taggers
from training import (
    ablations,
    input_pipeline,
    objectives,
    precision,
    records,
    task_records,
    word_features,
    workers,
)
from training import flags as training_flags


class Window(word_features.Window, Protocol):
    """Words as an encoder reads them, and as a record."""

    def record(self, max_seq_length: int) -> dict[str, list[int]]:
        """Returns the features of `records.tagging_features`."""


Sentences = Callable[[], Iterable[Sequence[Window]]]


class Approach(Protocol):
    """What a run asks of either way.

    Attributes:
        name: what a model is of; no other kind is resumed.
        init_checkpoint: of the weights that the model starts from, or None.
    """

    name: str
    init_checkpoint: str | None

    def make_objective(self, num_labels: int) -> objectives.Tagging:
        """Makes a model with new weights; in the strategy's scope."""

    def make_or_reuse(
        self, path: str, made_from: records.Metadata, sentences: Sentences
    ) -> input_pipeline.Source:
        """Makes the records of a file, unless they are there already.

        Args:
            path: of the record file, without its ending.
            made_from: what else they depend on.
            sentences: the windows of each sentence; asked only if needed.
        """


def choose(
    options: training_flags.TaggingOptions,
    config: config_lib.BertConfig,
    strategy: tf.distribute.Strategy,
) -> Approach:
    """Returns the way that `--features` asks for.

    Raises:
        ValueError: the options do not fit together, or not to the model.
    """
    if not options.features:
        return FineTuned(options, config)
    if ablations.of_options(options) != ablations.NONE:
        raise ValueError(
            "--features are those of BERT as it is: pass neither --attention "
            "nor --bilstm_head with them."
        )
    return FeatureBased(options, config, strategy)


class FineTuned:
    """The whole encoder is trained; as `Approach`.

    Args:
        options: of the run.
        config: the network's sizes.
    """

    def __init__(
        self,
        options: training_flags.TaggingOptions,
        config: config_lib.BertConfig,
    ):
        self.name = "fine-tuned"
        self.init_checkpoint = options.init_checkpoint
        self._options, self._config = options, config

    def make_objective(self, num_labels: int) -> objectives.Tagging:
        model = ablations.token_classification(
            self._config, self._options, num_labels
        )
        return objectives.Tagging(model, objectives.PIECE_INPUTS)

    def make_or_reuse(
        self, path: str, made_from: records.Metadata, sentences: Sentences
    ) -> input_pipeline.Source:
        length = self._options.max_seq_length
        made = task_records.make_or_reuse(
            f"{path}.tf_record",
            records.tagging_features(length),
            made_from,
            lambda: (
                [window.record(length) for window in windows]
                for windows in sentences()
            ),
        )
        return made.source


class FeatureBased:
    """A BiLSTM is trained on the layers of a frozen encoder; as `Approach`.

    Args:
        options: of the run.
        config: the network's sizes.
        strategy: where the variables live.

    Raises:
        ValueError: there is no checkpoint to compute features with, or the
            encoder lacks the layers.
    """

    def __init__(
        self,
        options: training_flags.TaggingOptions,
        config: config_lib.BertConfig,
        strategy: tf.distribute.Strategy,
    ):
        if not options.init_checkpoint:
            raise ValueError(
                "--features are computed by the encoder of --init_checkpoint, "
                "which is not given."
            )
        if options.freeze_layers:
            raise ValueError(
                "--freeze_layers is for fine-tuning; with --features all "
                "layers of the encoder are frozen. Pass one of them."
            )
        if options.recompute:
            raise ValueError(
                "--recompute is for fine-tuning; with --features no activation "
                "of the encoder is kept. Pass one of them."
            )
        self.name = f"{options.features}, {options.lstm_units} units"
        # The weights of the encoder are loaded where features are computed.
        self.init_checkpoint = None
        self._options, self._config = options, config
        self._communicator = workers.Communicator(strategy)
        self._layers = feature_layers.choose(
            options.features, config.num_hidden_layers
        )
        self._encoder = word_features.FrozenEncoder(
            strategy,
            config,
            word_features.ExtractionOptions(
                init_checkpoint=options.init_checkpoint,
                layers=self._layers.numbers,
                batch_size=options.predict_batch_size,
                max_seq_length=options.max_seq_length,
                pad_to_max_length=training_flags.wants_tpu(options),
            ),
        )

    def make_objective(self, num_labels: int) -> objectives.Tagging:
        model = taggers.LstmTagger(
            num_layers=len(self._layers.numbers),
            hidden_size=self._config.hidden_size,
            is_sum=self._layers.is_sum,
            num_labels=num_labels,
            num_units=self._options.lstm_units,
        )
        return objectives.Tagging(model, objectives.WORD_INPUTS)

    def make_or_reuse(
        self, path: str, made_from: records.Metadata, sentences: Sentences
    ) -> input_pipeline.Source:
        origin = {
            **made_from.flags,
            "layers": list(self._layers.numbers),
            "config": self._config.to_dict(),
            "precision": precision.in_use(),
            "encoder_sha256": self._encoder.sha256(),
        }
        return word_features.make_or_reuse(
            f"{path}_features.tf_record",
            len(self._layers.numbers) * self._config.hidden_size,
            dataclasses.replace(made_from, flags=origin),
            lambda: self._encoder.vectors(sentences()),
            self._communicator,
        )

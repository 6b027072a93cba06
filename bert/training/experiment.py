"""The interface of an experiment: the model, the data and their evaluation."""

import abc
import gc
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

import tensorflow as tf
from absl import logging

from bert.commands import flags
from bert.models import folder as folder_lib
from bert.records import reading
from bert.tasks import objectives
from bert.training import options as training_options
from bert.training import resuming, steps, workers

Options = TypeVar("Options", bound=training_options.TrainingOptions)
Objective = TypeVar("Objective", bound=objectives.Objective)


class Experiment(abc.ABC, Generic[Options, Objective]):
    """The model, the data and the evaluation of `bert.training.run`.

    The runs of a grid share an experiment, because compilation takes much of
    the time of a short training. Each of them starts with new weights.

    Args:
        strategy: holds the variables.
        model: the description and the sizes of the model.
        start_model: the weights of `--init_checkpoint`, if it is given.

    Attributes:
        strategy, model, start_model: these.
        communicator: connects the workers.
        trainer: the compiled steps, once a run has trained.
        records: the training data, if there is a run that trains.
        num_examples: those of an epoch; 0 if the flags count steps.
        training_data: identifies them besides their records, as JSON.
        row_length: of packed rows; 0 for the length of the longest record.
        num_frozen_layers: the first layers of this number are not trained, nor
            are the embeddings; 0 to train everything.
        new_variables: patterns of the variables that `--init_checkpoint` may
            lack, such as the output layer.
        metric: of the held-out data; it selects the weights in `best/`.
        splits: those to evaluate or predict at the end of a run.
        uses_best: whether `best/` is evaluated instead of the latest weights.
    """

    records: reading.RecordSource
    num_examples: int = 0
    training_data: Mapping[str, object] = MappingProxyType({})
    row_length: int = 0
    num_frozen_layers: int = 0
    new_variables: Sequence[str]
    metric: resuming.HeldOutMetric
    splits: Sequence[str] = ()
    uses_best: bool = False

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: folder_lib.PlannedModel,
        start_model: folder_lib.ModelFolder | None,
    ):
        self.strategy, self.model = strategy, model
        self.start_model = start_model
        self.communicator = workers.Communicator(strategy)
        self.trainer: steps.Trainer | None = None
        self._objective: Objective | None = None

    @abc.abstractmethod
    def make_objective(self) -> Objective:
        """Creates the model with new weights, and its losses."""

    def data_identity(self) -> dict[str, object]:
        """Identifies the training data, as JSON."""
        masking = self.records.masking
        return {
            **self.training_data,
            "num_records": len(self.records.files),
            "records_fingerprint": self.records.files.fingerprint(),
            "masking": masking.identity() if masking else None,
        }

    @abc.abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Scores the current weights on held-out data, while training."""

    @abc.abstractmethod
    def write_results(
        self, output_dir: str, step: int, metrics: Mapping[str, float] | None
    ) -> Mapping[str, float]:
        """Answers `splits` at the end of a run; the chief writes the files.

        Args:
            output_dir: of the run.
            step: the number of steps of the current weights.
            metrics: the result of `evaluate` for them, if it is known.

        Returns:
            The contents of the result files.
        """

    def log_new_weights(self) -> None:
        """Logs that a run starts from the weights of `make_objective`."""
        logging.info("Fresh run: the weights are random, nothing is loaded.")

    @property
    def needed_start(self) -> folder_lib.ModelFolder:
        """The weights to start from, which must be given.

        Raises:
            ValueError: `--init_checkpoint` is not given.
        """
        return flags.needed(self.start_model, "init_checkpoint")

    @property
    def objective(self) -> Objective:
        """The model and its losses, once a run has started."""
        if self._objective is None:
            raise RuntimeError("No run has started.")
        return self._objective

    def start(self) -> Objective:
        """Gives the model new weights, drawn with the seed that is set."""
        with self.strategy.scope():
            new = self.make_objective()
        if self._objective is None:
            self._objective = new
            logging.info("%s parameters", f"{new.model.count_params():,}")
            return new
        with self.strategy.scope():
            for ours, theirs in zip(
                self._objective.model.variables,
                new.model.variables,
                strict=True,
            ):
                ours.assign(theirs)
        # Now, since a model is in reference cycles: otherwise those of several
        # runs are in memory at once.
        del new
        gc.collect()
        return self._objective

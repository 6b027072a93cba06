"""The interface of an experiment: the model, the data and their evaluation."""

import abc
import dataclasses
import gc
import sys
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import tensorflow as tf
from absl import logging

from bert.commands import flags
from bert.models import describing
from bert.models import folder as folder_lib
from bert.records import reading
from bert.training import objectives, steps, workers
from bert.training import options as training_options

Options = TypeVar("Options", bound=training_options.TrainingOptions)
Objective = TypeVar("Objective", bound=objectives.Objective)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Length:
    """The steps of a run.

    Attributes:
        num_train_steps: the step at which the learning rate reaches its end.
        num_warmup_steps: the steps of the learning rate's warm-up.
        stop_at_step: the last step of this command, if it is before that of the
            run; 0 for none.
        eval_every_steps: steps between evaluations, of which the last one is at
            the end; 0 for none.
    """

    num_train_steps: int
    num_warmup_steps: int = 0
    stop_at_step: int = 0
    eval_every_steps: int = 0

    @property
    def end(self) -> int:
        """The step at which this command ends."""
        return min(self.stop_at_step or sys.maxsize, self.num_train_steps)

    def is_due(self, step: int, *intervals: int) -> bool:
        """Returns whether an event with these intervals, 0 for none, is due."""
        return step == self.end or any(
            step % every == 0 for every in intervals if every
        )

    def evaluates_at(self, step: int) -> bool:
        """Returns whether an evaluation is due after a step."""
        every = self.eval_every_steps
        return every > 0 and step > 0 and self.is_due(step, every)


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
        row_length: of packed rows; 0 for the length of the longest record.
        num_frozen_layers: the first layers of this number are not trained, nor
            are the embeddings; 0 to train everything.
        new_variables: patterns of the variables that `--init_checkpoint` may
            lack, such as the output layer.
        metric: the held-out metric that selects the weights in `best/`.
        higher_is_better: False for losses.
        splits: those to evaluate or predict at the end of a run.
        uses_best: whether `best/` is evaluated instead of the latest weights.
    """

    records: reading.RecordSource
    row_length: int = 0
    num_frozen_layers: int = 0
    new_variables: Sequence[str]
    metric: str
    higher_is_better: bool = True
    splits: Sequence[str] = ()
    uses_best: bool = False

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: describing.PlannedModel,
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

    @abc.abstractmethod
    def length(self, options: Options) -> Length:
        """Returns the steps of a run.

        Raises:
            ValueError: there is less than one step.
        """

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

"""The network of a run and its compiled steps."""

import gc
from collections.abc import Callable
from typing import Generic, TypeVar

import tensorflow as tf
from absl import logging

from bert.tasks import objectives
from bert.training import (
    checkpointing,
    devices,
    optimization,
    steps,
    warm_start,
    workers,
)
from bert.training import options as training_options
from modeling import compilation

Objective = TypeVar("Objective", bound=objectives.Objective)


class Network(Generic[Objective]):
    """The network, and its compiled steps, that the runs of a grid share.

    Compilation takes much of the time of a short training, so each of them
    starts with new weights in the same variables.

    Args:
        strategy: holds the variables.
        make: creates the network with new weights, and its losses.

    Attributes:
        strategy: that of the arguments.
        communicator: connects the workers.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, make: Callable[[], Objective]
    ):
        self.strategy = strategy
        self.communicator = workers.Communicator(strategy)
        self._make = make
        self._objective: Objective | None = None
        self._trainer: steps.Trainer | None = None

    @property
    def objective(self) -> Objective:
        """The network and its losses, once it has weights."""
        if self._objective is None:
            raise RuntimeError("The network has no weights yet.")
        return self._objective

    def reset_weights(self, seed: int) -> None:
        """Draws new weights."""
        devices.set_seed(seed)
        with self.strategy.scope():
            new = self._make()
        if self._objective is None:
            self._objective = new
            logging.info("%s parameters", f"{new.model.count_params():,}")
            return
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

    def trainer(
        self,
        options: training_options.TrainingOptions,
        mode: compilation.ExecutionMode,
        num_frozen_layers: int,
    ) -> steps.Trainer:
        """Returns the compiled steps, with moments of 0.

        Args:
            options: of the run; those of the optimizer are those of the grid.
            mode: another one than before compiles the steps again.
            num_frozen_layers: number of lowest layers to freeze, with the
                embeddings; 0 to train everything.
        """
        if self._trainer is None or self._trainer.mode != mode:
            self._trainer = self._make_trainer(options, mode, num_frozen_layers)
        self._trainer.reset()
        return self._trainer

    def _make_trainer(
        self,
        options: training_options.TrainingOptions,
        mode: compilation.ExecutionMode,
        num_frozen_layers: int,
    ) -> steps.Trainer:
        model = self.objective.model
        if options.recompute:
            model.bert.encoder.recompute = True
        frozen = (*model.frozen_variables, *_first_layers(num_frozen_layers))
        trained = {
            name: variable
            for name, variable in checkpointing.weights(model).items()
            if not warm_start.matches(name, frozen)
        }
        adam = optimization.AdamOptions(
            weight_decay_rate=options.weight_decay,
            beta_1=options.adam_beta_1,
            beta_2=options.adam_beta_2,
            epsilon=options.adam_epsilon,
            bias_correction=options.adam_bias_correction,
            layer_adaptation=options.optimizer == "lamb",
        )
        with self.strategy.scope():
            return steps.Trainer(
                self.strategy,
                self.objective,
                optimization.AdamWeightDecayOptimizer(trained, adam, mode),
                scales_loss=devices.precision_in_use() == "mixed_float16",
                clip_norm=options.max_grad_norm,
                mode=mode,
                times_input=not options.deterministic,
            )


def _first_layers(num_layers: int) -> tuple[str, ...]:
    """Lists patterns of the embeddings and the first layers; 0 for nothing."""
    if not num_layers:
        return ()
    numbers = "|".join(map(str, range(num_layers)))
    return ("bert/embeddings/.*", f"bert/encoder/layer_({numbers})/.*")

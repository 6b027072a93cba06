"""The experiment of a fine-tuning task."""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np
from absl import logging

from bert.files import run_files
from bert.models import folder as folder_lib
from bert.tasks import objectives
from bert.tasks import task as task_lib
from bert.training import (
    devices,
    experiment,
    failures,
    input_pipeline,
    prediction,
    resuming,
    task_records,
    workers,
)
from bert.training import options as training_options

_Options = training_options.FineTuningOptions


class TaskExperiment(experiment.Experiment[_Options, objectives.FineTuning]):
    """The model of a task, its records, answers and scores.

    Args:
        task: the task; its options are those that the runs of a grid share.
        model: the description and the sizes of the model.
        start_model: the weights of `--init_checkpoint`, if it is given.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a data set is empty, or a batch cannot be divided among the
            devices.
    """

    new_variables = ("(?!bert/).*",)  # The output layer.

    def __init__(
        self,
        task: task_lib.Task,
        model: folder_lib.PlannedModel,
        start_model: folder_lib.ModelFolder | None = None,
    ):
        options: _Options = task.options
        super().__init__(devices.prepare(options), model, start_model)
        for setting in options.grid:
            input_pipeline.check_batch_size(
                dataclasses.replace(options, **setting),
                self.strategy.num_replicas_in_sync,
            )
        self._task = task
        self.num_frozen_layers = options.freeze_layers
        self.uses_best = options.use_best_checkpoint
        self._predictor: prediction.Predictor | None = None
        self.data: Mapping[str, list[task_lib.Records]] = {
            split: [
                task_records.make(
                    task,
                    data_set,
                    self.communicator,
                    model.config.type_vocab_size,
                )
                for data_set in task.data_sets(split)
            ]
            for split in options.needed_splits
        }
        if options.do_eval:
            self.splits = (task_lib.EVAL,)
        if options.do_predict:
            self.splits = (*self.splits, task_lib.PREDICT)
        if options.do_train:
            (train,) = self.data[task_lib.TRAIN]
            self.records = train.source
            self.training_data = task_records.origin(task, train.data_set)
            self.num_examples = len(
                train.rows_per_example
                if train.data_set.counts_examples
                else train.source.files
            )
        if options.evaluates_while_training:
            held_out = self.data[task_lib.EVAL][0].data_set
            self.metric = resuming.HeldOutMetric(
                name=task.metric,
                held_out=task_records.origin(task, held_out),
            )

    def make_objective(self) -> objectives.FineTuning:
        return self._task.make_objective(self.model.config)

    def log_new_weights(self) -> None:
        logging.warning(
            "No --init_checkpoint is given: the whole model starts from random "
            "weights. Fine-tuning needs a pre-trained checkpoint for good "
            "results."
        )

    def evaluate(self) -> Mapping[str, float]:
        held_out = self.data[task_lib.EVAL][0]
        return self._task.metrics(held_out, self._answer(held_out))

    def write_results(
        self, output_dir: str, step: int, metrics: object
    ) -> dict[str, float]:
        """Writes the answers and results of `splits`."""
        results: dict[str, float] = {}
        answers: dict[str, object] = {}  # The keys are names of data sets.
        for split in self.splits:
            scores: dict[str, float] = {}
            for data in self.data[split]:
                name = data.data_set.name
                # The answers serve for evaluation and prediction.
                if name not in answers:
                    answers[name] = self._answer(data)
                if workers.is_chief():
                    self._task.write_answers(data, answers[name], output_dir)
                if data.data_set.has_labels:
                    scores |= self._task.results(data, answers[name])
            if scores and workers.is_chief():
                name = f"{task_lib.RESULTS_PREFIX[split]}_results.txt"
                run_files.write_results(
                    os.path.join(output_dir, name),
                    {**scores, "global_step": step},
                )
            results |= scores
        return results

    def _answer(self, data: task_lib.Records) -> object:
        """Answers a data set with the current weights.

        Raises:
            NonFiniteOutputError: an output of the model is not finite.
        """
        options: _Options = self._task.options
        if not len(data.source.files):
            return self._task.decode(data, {})
        if self._predictor is None:
            self._predictor = prediction.Predictor(
                self.strategy,
                self.objective,
                devices.execution_mode(self.strategy, options.jit_compile),
            )
        is_evaluation = data.data_set.split == task_lib.EVAL
        outputs = self._predictor.predict(
            data.source,
            batch_size=(
                options.held_out_batch_size
                if is_evaluation
                else options.predict_batch_size
            ),
            by_length=options.packing,
        )
        for name, values in outputs.items():
            if not np.isfinite(values).all():
                raise failures.NonFiniteOutputError(
                    f"The outputs of the model must be finite; {name} is not, "
                    f"for {data.data_set.name}. Did the training diverge? Try "
                    "a lower learning rate."
                )
        return self._task.decode(data, outputs)

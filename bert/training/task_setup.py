"""The setup of fine-tuning: a task's records, answers and scores."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert.files import run_files
from bert.models import folder as folder_lib
from bert.tasks import objectives
from bert.tasks import task as task_lib
from bert.training import (
    devices,
    failures,
    input_pipeline,
    network,
    prediction,
    resuming,
    task_records,
    workers,
)
from bert.training import options as training_options
from bert.training import setup as setup_lib

_Options = training_options.FineTuningOptions


def setup(
    task: task_lib.Task, planned: folder_lib.PlannedModel
) -> setup_lib.Setup[objectives.FineTuning]:
    """Sets up the fine-tuning of a task; the chief makes the records.

    Args:
        task: its options are those that the runs of a grid share.
        planned: the description and the sizes of the model.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a data set is empty, or a batch cannot be divided among the
            devices.
    """
    options: _Options = task.options
    strategy = devices.prepare(options)
    for setting in options.grid:
        input_pipeline.check_batch_size(
            dataclasses.replace(options, **setting),
            strategy.num_replicas_in_sync,
        )
    shared = network.Network(
        strategy, lambda: task.make_objective(planned.config)
    )
    data: dict[str, list[task_lib.Records]] = {
        split: [
            task_records.make(
                task,
                data_set,
                shared.communicator,
                planned.config.type_vocab_size,
            )
            for data_set in task.data_sets(split)
        ]
        for split in options.needed_splits
    }
    records, training_data, num_examples = None, {}, 0
    if options.do_train:
        (train,) = data[task_lib.TRAIN]
        records = train.source
        training_data = task_records.identity(task, train.data_set)
        num_examples = len(
            train.rows_per_example
            if train.data_set.counts_examples
            else train.source.files
        )
    metric = None
    if options.evaluates_while_training:
        held_out = data[task_lib.EVAL][0].data_set
        metric = resuming.HeldOutMetric(
            name=task.metric, held_out=task_records.identity(task, held_out)
        )
    splits = {
        task_lib.EVAL: options.do_eval,
        task_lib.PREDICT: options.do_predict,
    }
    return setup_lib.Setup(
        planned=planned,
        new_variables=("(?!bert/).*",),  # The output layer.
        is_pretrained=True,
        network=shared,
        records=records,
        training_data=training_data,
        num_examples=num_examples,
        num_frozen_layers=options.freeze_layers,
        evaluation=Answering(strategy, task, data),
        metric=metric,
        splits=tuple(split for split, is_asked in splits.items() if is_asked),
        uses_best=options.use_best_checkpoint,
    )


class Answering(setup_lib.Evaluation[objectives.FineTuning]):
    """The answers of a task to its data sets, and their scores.

    Args:
        strategy: holds the variables.
        task: decodes the outputs and scores the answers.
        data: the records of each split.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        task: task_lib.Task,
        data: Mapping[str, Sequence[task_lib.Records]],
    ):
        self._strategy, self._task, self._data = strategy, task, data
        self._predictor: prediction.RecordPredictor | None = None
        # Those of the last `score`, by the name of the data set.
        self._answers: dict[str, object] = {}

    def score(self, objective: objectives.FineTuning) -> Mapping[str, float]:
        held_out = self._data[task_lib.EVAL][0]
        answers = self._answer(objective, held_out)
        self._answers = {held_out.data_set.name: answers}
        return self._task.metrics(held_out, answers)

    def write_results(
        self,
        objective: objectives.FineTuning,
        output_dir: str,
        step: int,
        splits: Sequence[str],
        metrics: Mapping[str, float] | None,
    ) -> dict[str, float]:
        results: dict[str, float] = {}
        # The answers serve for evaluation and prediction.
        answers = self._answers if metrics else {}
        for split in splits:
            scores: dict[str, float] = {}
            for data in self._data[split]:
                name = data.data_set.name
                if name not in answers:
                    answers[name] = self._answer(objective, data)
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

    def _answer(
        self, objective: objectives.FineTuning, data: task_lib.Records
    ) -> object:
        """Answers a data set with the current weights.

        Raises:
            NonFiniteOutputError: an output of the model is not finite.
        """
        options: _Options = self._task.options
        if not len(data.source.files):
            return self._task.decode(data, {})
        if self._predictor is None:
            self._predictor = prediction.RecordPredictor(
                self._strategy,
                objective,
                devices.execution_mode(self._strategy, options.jit_compile),
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

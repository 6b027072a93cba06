"""The model of a task: its records, training, evaluation and prediction."""

import dataclasses
import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from files import paths, run_files
from modeling import config as config_lib
from tasks import task as task_lib
from training import (
    checkpointing,
    devices,
    initialization,
    input_pipeline,
    loop,
    model_folder,
    prediction,
    record_files,
    records,
    sidecars,
    steps,
    workers,
)
from training import flags as training_flags

_OUTPUT_LAYER = "(?!bert/).*"  # Missing in a pre-trained checkpoint.
# The data sets by split.
_Data = Mapping[str, Sequence[task_lib.Records]]


class TaskModel:
    """The network of a task, and what is done with it.

    All trials of a run share the network, because compilation takes much of the
    time of a short training. Each trial has options with its own `output_dir`,
    `random_seed` and setting of the grid.

    Args:
        task: the task.
        config: the configuration of the model.
    """

    def __init__(self, task: task_lib.Task, config: config_lib.BertConfig):
        self._task, self._config, self._options = task, config, task.options
        self._strategy = devices.prepare(self._options)
        for setting in self._options.grid:
            input_pipeline.check_batch_size(
                dataclasses.replace(self._options, **setting),
                self._strategy.num_replicas_in_sync,
            )
        self._communicator = workers.Communicator(self._strategy)
        self._objective: Any = None  # An `objectives.FineTuning`.
        self._trainer: steps.Trainer | None = None

    # ------------------------------------------------------------- Description

    @property
    def _description(self) -> dict[str, Any]:
        options = self._options
        return {
            "task": self._task.kind,
            **self._task.description,
            "vocab_sha256": sidecars.vocab_sha256(self._task.tokenizer.vocab),
            "do_lower_case": options.do_lower_case,
            "strip_accents": options.strips_accents,
            "max_seq_length": options.max_seq_length,
            "attention": training_flags.ATTENTIONS[options.is_causal],
            "bilstm_head": getattr(options, "bilstm_head", False),
        }

    # ----------------------------------------------------------------- Records

    def make_data(self, data_set: task_lib.DataSet) -> task_lib.Records:
        """Writes the records of a data set, or reuses existing ones.

        They are reused if they were created from the same text with the same
        vocabulary, length and so on. The chief writes, and the others wait.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: the data set is empty; or there are only examples
                without records, such as questions about empty paragraphs, to
                train on.
        """
        name = f"{data_set.name}.tf_record"
        path = os.path.join(self._options.output_dir, name)
        made_from = self._metadata(data_set)
        if workers.is_chief() and not _is_up_to_date(path, made_from):
            _write_records(path, made_from, data_set)
        self._communicator.barrier()
        files = record_files.RecordFiles([path], may_be_empty=True)
        made = sidecars.read_metadata(path)
        flags = made.flags if made else {}
        counts = flags.get(sidecars.ROWS_PER_EXAMPLE, [1] * len(files))
        is_training = data_set.split == task_lib.TRAIN
        if not counts or (is_training and not len(files)):
            raise ValueError(
                f"{path}: none of {len(counts)} examples has a record. Are all "
                "texts empty?"
            )
        return task_lib.Records(
            data_set=data_set,
            source=input_pipeline.RecordSource(
                files=files,
                features=data_set.features,
                vocab_size=self._task.tokenizer.vocab_size,
            ),
            rows_per_example=np.asarray(counts, np.int64),
        )

    def _metadata(self, data_set: task_lib.DataSet) -> sidecars.Metadata:
        """Returns the expected sidecar of the records of a data set."""
        options, tokenizer = self._options, self._task.tokenizer
        return sidecars.Metadata(
            kind=data_set.kind,
            max_seq_length=options.max_seq_length,
            vocab_size=tokenizer.vocab_size,
            vocab_sha256=sidecars.vocab_sha256(tokenizer.vocab),
            do_lower_case=options.do_lower_case,
            strip_accents=options.strips_accents,
            num_records=0,  # Filled in when they are written.
            flags=data_set.made_from,
        )

    # ---------------------------------------------------------------- Training

    def start(self, options: training_flags.FineTuningOptions) -> None:
        """Starts a trial with new weights, and describes the model.

        Raises:
            ValueError: the folder contains another model, or `init_checkpoint`
                was trained with other text options.
        """
        if workers.is_chief():
            model_folder.describe(
                options.output_dir,
                self._config.to_dict(),
                self._description,
                options.vocab_file,
                is_training=options.do_train,
                start=options.init_checkpoint,
            )
        self._communicator.barrier()
        devices.set_seed(options.random_seed)
        with self._strategy.scope():
            new = self._task.make_objective(self._config)
        if self._objective is None:
            self._objective = new
            self._predictor = prediction.Predictor(
                self._strategy,
                new,
                devices.execution_mode(self._strategy, options.jit_compile),
            )
            logging.info("%s parameters", f"{new.model.count_params():,}")
            return
        with self._strategy.scope():
            variables = self._objective.model.variables
            for ours, theirs in zip(
                variables, new.model.variables, strict=True
            ):
                ours.assign(theirs)
        # Now, since a model is in reference cycles: otherwise those of several
        # trials are in memory at once.
        del new
        gc.collect()

    def train(
        self, options: training_flags.FineTuningOptions, data: _Data
    ) -> None:
        """Trains on the data of `TRAIN`, resuming from the folder's checkpoint.

        Raises:
            ValueError: there are too few examples for one step.
        """
        (train,) = data[task_lib.TRAIN]
        plan = self._plan(options, train, data)
        # The trials of a batch size share the compiled steps.
        rates = options.learning_rates or (options.learning_rate,)
        num_sharing = options.num_trials * len(rates)
        mode = devices.execution_mode(
            self._strategy,
            options.jit_compile,
            num_train_steps=plan.num_train_steps * num_sharing,
            saved=checkpointing.latest_state(options.output_dir).get(
                "execution"
            ),
        )
        if self._trainer is None or self._trainer.mode != mode:
            self._trainer = initialization.make_trainer(
                self._strategy, self._objective, options, mode
            )
        first_step = initialization.initialize(self._trainer, options, plan)
        batches = input_pipeline.training_batches(
            train.source, options, self._strategy.num_replicas_in_sync
        )
        loop.train(self._trainer, batches, options, plan, first_step)

    def _plan(
        self, options, train: task_lib.Records, data
    ) -> initialization.Plan:
        count = len(train.source.files)
        if train.data_set.counts_examples:
            count = len(train.rows_per_example)
        num_train_steps = count_steps(count, options)
        every = options.eval_every_steps
        if options.eval_every_epoch:
            # Rounded up, so that the last epoch ends with the run.
            every = -(-count // options.train_batch_size)

        def evaluate() -> Mapping[str, float]:
            held_out = data[task_lib.EVAL][0]
            return self._task.metrics(held_out, self._answer(held_out))

        return initialization.Plan(
            num_train_steps=num_train_steps,
            num_warmup_steps=int(num_train_steps * options.warmup_proportion),
            data={
                "num_records": len(train.source.files),
                "records_fingerprint": train.source.files.fingerprint(),
            },
            new_variables=(_OUTPUT_LAYER,),
            evaluate=evaluate,
            eval_every_steps=every,
            best_metric=self._task.metric,
        )

    # -------------------------------------------------------------- Evaluation

    def evaluate(
        self,
        options: training_flags.FineTuningOptions,
        data: _Data,
        splits: Sequence[str],
    ) -> dict[str, float]:
        """Evaluates and predicts; writes answers and results.

        Args:
            options: the options of the trial. Its best or latest checkpoint is
                used, or else `init_checkpoint`.
            data: the data sets by split.
            splits: `EVAL` for scores of held-out data, `PREDICT` for answers.

        Returns:
            The contents of the result files.
        """
        if not splits:
            return {}
        step = initialization.load_for_evaluation(
            self._strategy, self._objective.model, options
        )
        results: dict[str, float] = {}
        answers: dict[str, Any] = {}  # By data set.
        for split in splits:
            scores: dict[str, float] = {}
            for each in data[split]:
                name = each.data_set.name
                # Once, for evaluation and prediction.
                if name not in answers:
                    answers[name] = self._answer(each)
                if workers.is_chief():
                    self._task.write_answers(
                        each, answers[name], options.output_dir
                    )
                if each.data_set.has_labels:
                    scores |= self._task.results(each, answers[name])
            if scores and workers.is_chief():
                name = f"{task_lib.RESULTS_PREFIX[split]}_results.txt"
                run_files.write_results(
                    os.path.join(options.output_dir, name),
                    {**scores, "global_step": step},
                )
            results |= scores
        return results

    def _answer(self, data: task_lib.Records) -> Any:
        """Answers a data set with the current weights."""
        batch_flag = "predict_batch_size"
        if data.data_set.split == task_lib.EVAL:
            batch_flag = self._options.eval_batch_flag
        if not len(data.source.files):
            return self._task.decode(data, {})
        with input_pipeline.reading_errors():
            outputs = self._predictor.predict(
                data.source,
                batch_size=getattr(self._options, batch_flag),
                by_length=self._options.packing,
            )
        return self._task.decode(data, outputs)


# --------------------------------------------------------------------- Records


def _is_up_to_date(path: str, made_from: sidecars.Metadata) -> bool:
    """Returns whether a record file is whole and was made from this data."""
    try:
        held = sidecars.read_metadata(path)
        if held is None or not paths.exists(path):
            return False
        files = record_files.RecordFiles([path], may_be_empty=True)
    except (OSError, ValueError) as error:
        logging.warning("%s is damaged, and is made again: %s", path, error)
        return False
    counts = held.flags.get(sidecars.ROWS_PER_EXAMPLE, [1] * len(files))
    if not (
        sidecars.is_same_data(held, made_from)
        and sum(counts) == len(files) == held.num_records
    ):
        return False
    logging.info("%s: reusing %d records", path, len(files))
    return True


def _write_records(
    path: str, made_from: sidecars.Metadata, data_set: task_lib.DataSet
) -> None:
    """Writes a record file, then its sidecar."""
    counts: list[int] = []

    def rows() -> Iterator[Mapping[str, Any]]:
        for example in data_set.examples():
            counts.append(len(example))
            yield from example

    sidecars.remove_metadata(path)
    records.write_records(path, rows(), data_set.features)
    flags = dict(made_from.flags)
    if any(count != 1 for count in counts):
        flags[sidecars.ROWS_PER_EXAMPLE] = counts
    sidecars.write_metadata(
        path,
        dataclasses.replace(made_from, num_records=sum(counts), flags=flags),
    )


# ------------------------------------------------------------ Steps and batches


def count_steps(
    num_examples: int, options: training_flags.FineTuningOptions
) -> int:
    """Counts the steps of a run.

    As released: fractions of a training step and of a warm-up step are dropped.

    Args:
        num_examples: the examples of one epoch.
        options: the options of the run.

    Raises:
        ValueError: there is less than one step.
    """
    batch_size = options.train_batch_size
    num_train_epochs = options.num_train_epochs
    num_train_steps = int(num_examples / batch_size * num_train_epochs)
    if num_train_steps < 1:
        raise ValueError(
            f"{num_examples} examples in batches of {batch_size} for "
            f"{num_train_epochs:g} epochs make less than one step. Choose a "
            "smaller --train_batch_size or a larger --num_train_epochs."
        )
    return num_train_steps

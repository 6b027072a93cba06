"""Fine-tuning of any task: training, evaluation, trials and prediction."""

import dataclasses
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from commands import flags
from files import writing
from modeling import config as config_lib
from tasks import task as task_lib
from training import (
    attention_checks,
    checkpointing,
    devices,
    initialization,
    input_pipeline,
    loop,
    model_folder,
    objectives,
    option_checks,
    prediction,
    record_cache,
    record_order,
    records,
    reporting,
    steps,
    trials,
    workers,
)
from training import flags as training_flags
from training import plan as plan_lib

_OUTPUT_LAYER = "(?!bert/).*"  # Missing in a pre-trained checkpoint.
_RESULTS_PREFIX = {task_lib.EVAL: "eval", task_lib.PREDICT: "test"}


class Tokenizer(Protocol):
    """The tokenizer of a run.

    Attributes:
        vocab: the id of every piece.
        vocab_size: the least `vocab_size` of a model for these ids.
    """

    @property
    def vocab(self) -> Mapping[str, int]: ...

    @property
    def vocab_size(self) -> int: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """The shared setup of all trials of a run.

    Attributes:
        options: the flags; `output_dir` contains the records of the run, and
            the folders of several trials.
        config: the configuration of the model.
        text: the text options for the descriptions of models and records:
            `vocab_sha256` and `do_lower_case`.
        vocab_size: the size of the vocabulary: ids are below it.
        strategy: holds the variables.
    """

    options: training_flags.FineTuningOptions
    config: config_lib.BertConfig
    text: Mapping[str, Any]
    vocab_size: int
    strategy: tf.distribute.Strategy

    def record_path(self, name: str) -> str:
        """Returns the path of the records called `name`."""
        return os.path.join(self.options.output_dir, f"{name}.tf_record")

    def make_data(self, data_set: task_lib.DataSet) -> task_lib.Data:
        """Creates the records of a data set, or reuses existing ones."""
        features = {each.name: each for each in data_set.features}
        cached = record_cache.make_or_reuse(
            self.record_path(data_set.name),
            data_set.features,
            self.metadata(data_set),
            data_set.examples,
        )
        return task_lib.Data(
            data_set=data_set,
            source=input_pipeline.RecordSource(
                files=cached.files,
                features=data_set.features,
                vocab_size=self.vocab_size,
            ),
            rows_per_example=cached.rows_per_example,
            read=lambda name: record_cache.values(cached.files, features[name]),
        )

    def metadata(self, data_set: task_lib.DataSet) -> records.Metadata:
        """Returns the expected sidecar of the records of a data set."""
        return records.Metadata(
            kind=data_set.kind,
            max_seq_length=self.options.max_seq_length,
            vocab_size=self.vocab_size,
            num_records=0,  # Filled in when they are written.
            flags=data_set.made_from,
            **self.text,
        )


def run(
    task: task_lib.Task,
    config: config_lib.BertConfig,
    tokenizer: Tokenizer,
) -> None:
    """Trains, evaluates and predicts according to the options of a task.

    Args:
        task: the task, whose options passed `option_checks`.
        config: the configuration of the model.
        tokenizer: the tokenizer of the task's text.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: options, folders, checkpoints and data are inconsistent.
    """
    setup = prepare(task.options, config, tokenizer)
    folds = task.folds
    data = [_make_data(setup, fold) for fold in folds]
    plan = trials.plan_run(
        dataclasses.replace(task.options, init_checkpoint=task.init_checkpoint),
        len(folds),
    )
    answers_everything = task.writes_everything or len(plan) == 1
    model: Model | None = None
    results = []
    for trial, options in plan:
        fold, own = folds[trial.fold], data[trial.fold]
        model = make_model(setup, fold, options, earlier=model)
        if options.do_train:
            model.train(own)
        results.append(model.evaluate(own, predicts=answers_everything))
    if model is None or len(plan) == 1:
        return
    constant = statistics.fmean(
        fold.constant_score(own[task_lib.EVAL][0])
        for fold, own in zip(folds, data, strict=True)
    )
    best = _summarize(setup, task, plan, results, constant)
    if task.options.do_predict and not answers_everything:
        dataclasses.replace(model, options=best).evaluate(
            {task_lib.PREDICT: data[0][task_lib.PREDICT]}, predicts=True
        )


def _make_data(
    setup: Setup, task: task_lib.Task
) -> dict[str, list[task_lib.Data]]:
    """Creates the records of every split that the options need."""
    return {
        split: [
            task.make_data(setup, data_set)
            for data_set in task.data_sets(split)
        ]
        for split in option_checks.needed_splits(task.options)
    }


def prepare(
    options: training_flags.FineTuningOptions,
    config: config_lib.BertConfig,
    tokenizer: Tokenizer,
) -> Setup:
    """Checks existing checkpoints and chooses devices.

    Raises:
        ValueError: the options do not fit the checkpoints or the devices, or
            workers do not share the folder of the run.
    """
    attention_checks.check_checkpoints(options)
    strategy = devices.prepare(
        flags.narrow(devices.DeviceOptions, options),
        precision=options.precision,
        batch_sizes={
            field.name: getattr(options, field.name)
            for field in dataclasses.fields(options)
            if field.name.endswith("_batch_size")
        },
        output_dir=options.output_dir,
    )
    for setting in getattr(options, "grid", ()):
        input_pipeline.check_batch_size(
            devices.TRAIN_BATCH_SIZE,
            setting[devices.TRAIN_BATCH_SIZE],
            strategy.num_replicas_in_sync,
            options.num_accumulation_steps,
        )
    workers.check_shared(workers.Communicator(strategy), options.output_dir)
    return Setup(
        options=options,
        config=config,
        text={
            "vocab_sha256": records.vocab_sha256(tokenizer.vocab),
            "do_lower_case": options.do_lower_case,
        },
        vocab_size=tokenizer.vocab_size,
        strategy=strategy,
    )


def make_model(
    setup: Setup,
    task: task_lib.Task,
    options: training_flags.FineTuningOptions,
    *,
    earlier: "Model | None" = None,
) -> "Model":
    """Creates a model with new weights, and describes it in its folder.

    The configuration, vocabulary and so on are written to the folders of the
    trial and of the run. The trials of a run share one network, because
    compilation takes much of the time of a short training.

    Args:
        setup: the setup of the run.
        task: the task.
        options: those of `setup`, with the folder, setting and seed of the
            trial.
        earlier: the model of an earlier trial. Its network receives the new
            weights; do not use it afterwards.

    Raises:
        ValueError: a folder contains another model, or `init_checkpoint` was
            trained with other text options.
    """
    workers.run_on_chief(
        setup.strategy,
        options.output_dir,
        lambda: _validate_folders(setup, options.output_dir, task.labels),
    )
    devices.set_seed(options.random_seed, deterministic=options.deterministic)
    with setup.strategy.scope():
        objective = task.make_objective(setup.config)
    if earlier is not None:
        with setup.strategy.scope():
            _copy_weights(objective.model, earlier.objective.model)
        return dataclasses.replace(
            earlier, task=task, options=options, _answers={}
        )
    logging.info("%s parameters", f"{objective.model.count_params():,}")
    return Model(
        task=task,
        options=options,
        strategy=setup.strategy,
        objective=objective,
        compiled=_Compiled(
            predictor=prediction.Predictor(setup.strategy, objective)
        ),
    )


def _validate_folders(
    setup: Setup, folder: str, labels: Mapping[str, object] | None
) -> None:
    """Checks the folders of a trial and of the run, and writes descriptions."""
    whole = setup.options
    if whole.init_checkpoint:
        origin = model_folder.of_checkpoint(whole.init_checkpoint)
        model_folder.check_text(origin, setup.text)
    described = model_folder.Description(
        config=setup.config.to_dict(),
        vocab_file=whole.vocab_file,
        text=setup.text,
        labels=labels,
    )
    for place in dict.fromkeys((folder, whole.output_dir)):
        model_folder.validate_output_dir(place, described)


def _copy_weights(source: keras.Model, target: keras.Model) -> None:
    for other, variable in zip(source.variables, target.variables, strict=True):
        variable.assign(other)


@dataclasses.dataclass(kw_only=True)
class _Compiled:
    """The compiled functions of a network, shared by all trials."""

    predictor: prediction.Predictor
    trainer: steps.Trainer | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A model and its folder.

    Attributes:
        task: the task.
        options: the options of this model, with its own `output_dir`,
            `random_seed` and setting of the grid.
        strategy: holds the variables.
        objective: the network and its losses.
        compiled: the compiled functions of the network.
    """

    task: task_lib.Task
    options: training_flags.FineTuningOptions
    strategy: tf.distribute.Strategy
    objective: objectives.Objective
    compiled: _Compiled
    # Answers of the restored weights, by data set.
    _answers: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes files; only one worker does."""
        return workers.Communicator(self.strategy).is_chief

    def train(self, data: Mapping[str, Sequence[task_lib.Data]]) -> None:
        """Trains on the data of `TRAIN`, resuming from the folder's checkpoint.

        Raises:
            ValueError: there are too few examples for one step, or the folder
                contains another run.
        """
        (train,) = data[task_lib.TRAIN]
        options = self.options
        file_parts = parts(train, options.num_train_epochs)
        schedule_length = length(
            _num_examples(train),
            options.train_batch_size,
            options.num_train_epochs,
            options.warmup_proportion,
        )
        evaluates = option_checks.evaluates_while_training(options)
        every = options.eval_every_steps
        if options.eval_every_epoch:
            every = schedule_length.steps_per_epoch
        self.compiled.trainer = loop.train(
            self.strategy,
            self.objective,
            training_batches(train.source, options, file_parts),
            options,
            plan_lib.Plan(
                num_train_steps=schedule_length.num_train_steps,
                num_warmup_steps=schedule_length.num_warmup_steps,
                identity=self._identity(train, file_parts),
                new_variables=(_OUTPUT_LAYER,),
                frozen_variables=frozen_variables(options.freeze_layers),
                evaluate=(lambda: self._metrics(data)) if evaluates else None,
                eval_every_steps=every,
                best_metric=self.task.metric if evaluates else None,
            ),
            self.compiled.trainer,
        ).trainer

    def _metrics(self, data) -> Mapping[str, float]:
        """Evaluates the first held-out data set with the current weights."""
        held_out = data[task_lib.EVAL][0]
        return self.task.metrics(held_out, self.answer(held_out))

    def evaluate(
        self, data: Mapping[str, Sequence[task_lib.Data]], *, predicts: bool
    ) -> dict[str, float]:
        """Evaluates and predicts according to the options; writes the results.

        Args:
            data: the data sets by split; missing splits are skipped.
            predicts: whether to predict, if the options request it.

        Returns:
            The contents of the result files.
        """
        options = self.options
        results: dict[str, float] = {}
        splits = [task_lib.EVAL] if options.do_eval else []
        if options.do_predict and predicts:
            splits.append(task_lib.PREDICT)
        splits = [split for split in splits if split in data]
        if not splits:
            return results
        step = self.restore()
        for split in splits:
            scores: dict[str, float] = {}
            for each in data[split]:
                folder = options.output_dir
                answers = self.task.calibrate(
                    each, self._kept_answers(each), folder
                )
                is_evaluation = split == task_lib.EVAL
                if is_evaluation and self.is_chief:
                    self.task.write_report(each, answers, folder)
                writes = not is_evaluation or self.task.writes_everything
                if writes and self.is_chief:
                    self.task.write_answers(each, answers, folder)
                if split == task_lib.EVAL or each.data_set.has_labels:
                    scores |= self.task.results(each, answers)
            if scores:
                self._write_results(
                    {**scores, "global_step": step},
                    f"{_RESULTS_PREFIX[split]}_results.txt",
                )
            results |= scores
        return results

    def _kept_answers(self, data: task_lib.Data) -> Any:
        """Answers a data set once, for evaluation and prediction."""
        name = data.data_set.name
        if name not in self._answers:
            self._answers[name] = self.answer(data)
        return self._answers[name]

    def answer(self, data: task_lib.Data) -> Any:
        """Answers a data set with the current weights."""
        outputs = {}
        if data.source is not None:
            outputs = self.predict(data.source, self._batch_size(data))
        return self.task.decode(data, outputs)

    def _batch_size(self, data: task_lib.Data) -> int:
        if data.data_set.split == task_lib.EVAL:
            return getattr(
                self.options, "eval_batch_size", self.options.predict_batch_size
            )
        return self.options.predict_batch_size

    @workers.communication_errors()
    def predict(
        self, source: input_pipeline.Source, batch_size: int
    ) -> dict[str, np.ndarray]:
        """Scores all records of a source, as `prediction.Predictor.predict`.

        With `bucket_by_length` records of similar length share a batch, padded
        to the longest of them; results are still in file order.

        Args:
            source: the N records.
            batch_size: the global batch size.
        """
        return self.compiled.predictor.predict(
            source,
            batch_size=batch_size,
            by_length=self.options.bucket_by_length,
        )

    def restore(self) -> int:
        """Loads the weights for evaluation or prediction.

        They are those of the best or latest checkpoint of the folder, or else
        of `init_checkpoint`.

        Returns:
            The step of the checkpoint; 0 for `init_checkpoint`, as released.

        Raises:
            ValueError: there is no checkpoint, or it lacks the output layer.
        """
        prefix = checkpointing.best_or_latest(
            self.options.output_dir, best=self.options.use_best_checkpoint
        )
        self._answers.clear()
        return initialization.load_for_evaluation(
            self.strategy, self.objective, prefix, self.options
        )

    def _write_results(self, results: Mapping[str, float], name: str) -> None:
        if self.is_chief:
            reporting.write_results(
                os.path.join(self.options.output_dir, name), results
            )

    def _identity(self, train, file_parts) -> dict[str, object]:
        """Returns the values that must stay the same when a run resumes."""
        names = (
            *("num_train_epochs", "warmup_proportion"),
            *("freeze_layers", "bucket_by_length"),
        )
        return {
            "objective": self.task.name,
            "num_records": [part.num_records for part in file_parts]
            or len(train.source.files),
            "records_fingerprint": train.source.files.fingerprint(),
            **{name: getattr(self.options, name) for name in names},
            **self.task.identity,
        }


def _summarize(
    setup: Setup, task: task_lib.Task, plan, results, constant: float
) -> training_flags.FineTuningOptions:
    """Writes the summary of the trials; returns the options of the best one."""
    runs = [trial for trial, _ in plan]
    summaries = {}
    for prefix in _RESULTS_PREFIX.values():
        name = f"{prefix}_{task.metric}"
        if prefix == _RESULTS_PREFIX[task_lib.EVAL] and name not in results[0]:
            name = task.metric  # SQuAD's names have no prefix.
        if name in results[0]:
            summaries[prefix] = trials.summarize(runs, results, name, constant)
    if workers.cluster().is_chief:
        path = os.path.join(setup.options.output_dir, trials.SUMMARY_FILE)
        content = summaries if task.writes_everything else summaries["eval"]
        writing.write_json(path, content)
    for summary in summaries.values():
        logging.info("%s", trials.table(summary))
    best = summaries["eval"]["best_trial"]
    return next(options for trial, options in plan if trial.name == best)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Length:
    """The length of a run in steps, as the release counts it."""

    num_train_steps: int
    num_warmup_steps: int
    steps_per_epoch: int


def length(
    num_examples: int,
    batch_size: int,
    num_train_epochs: float,
    warmup_proportion: float,
) -> Length:
    """Counts the steps of a run.

    As released: fractions of a training step and of a warm-up step are dropped.

    Args:
        num_examples: the examples of one epoch.
        batch_size: examples in a step.
        num_train_epochs: may be a fraction.
        warmup_proportion: the share of warm-up steps.

    Raises:
        ValueError: there is less than one step.
    """
    num_train_steps = int(num_examples / batch_size * num_train_epochs)
    if num_train_steps < 1:
        raise ValueError(
            f"{num_examples} examples in batches of {batch_size} for "
            f"{num_train_epochs:g} epochs make less than one step. Choose a "
            "smaller --train_batch_size or a larger --num_train_epochs."
        )
    return Length(
        num_train_steps=num_train_steps,
        num_warmup_steps=int(num_train_steps * warmup_proportion),
        # Rounded up, so that the last epoch ends with the run.
        steps_per_epoch=-(-num_examples // batch_size),
    )


def _num_examples(train: task_lib.Data) -> int:
    of_files = train.data_set.examples_of_files
    return sum(of_files) if of_files else len(train.source.files)


def parts(
    train: task_lib.Data, num_train_epochs: float
) -> tuple[record_order.Part, ...]:
    """Divides records into the parts of files that training reads in turn.

    The share of each file in the steps is its share of the examples, whatever
    the number of records of an example.
    """
    of_files = train.data_set.examples_of_files
    if not of_files:
        return ()
    ends = np.cumsum(of_files)
    return tuple(
        record_order.Part(
            num_records=int(train.rows_per_example[start:end].sum()),
            num_taken=int((end - start) * num_train_epochs),
        )
        for start, end in zip(ends - of_files, ends, strict=True)
    )


def frozen_variables(num_layers: int) -> tuple[str, ...]:
    """Lists patterns of the embeddings and the first layers; 0 for nothing."""
    if not num_layers:
        return ()
    numbers = "|".join(map(str, range(num_layers)))
    return ("bert/embeddings/.*", f"bert/encoder/layer_({numbers})/.*")


def training_batches(
    source: input_pipeline.Source,
    options: training_flags.FineTuningOptions,
    parts: Sequence[record_order.Part] = (),
) -> input_pipeline.TrainingBatches:
    """Orders the records of a run: all are shuffled in each epoch.

    With `parts`, the parts follow each other, each shuffled separately.
    """
    everything = record_order.Part(num_records=len(source.files), num_taken=0)
    stream = record_order.ConsecutiveOrder(
        parts or [everything], options.random_seed
    )
    order: record_order.Order = stream
    if options.bucket_by_length:
        order = record_order.BucketedOrder(
            stream, source.lengths(), options.random_seed
        )
        source = dataclasses.replace(
            source, length_step=input_pipeline.TRAINING_LENGTH_STEP
        )
    phase = input_pipeline.BatchPhase(
        source=source,
        batch_size=options.train_batch_size,
        order=order,
        num_accumulation_steps=options.num_accumulation_steps,
    )
    return input_pipeline.TrainingBatches([phase])

"""The model of a task: its training, evaluation and prediction."""

import dataclasses
import gc
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from absl import logging

from files import messages, result_files, run_files, writing
from modeling import config as config_lib
from tasks import task as task_lib
from training import (
    checkpointing,
    devices,
    initialization,
    input_pipeline,
    loop,
    model_files,
    model_folder,
    objectives,
    prediction,
    records,
    steps,
    task_data,
    workers,
)
from training import flags as training_flags

_OUTPUT_LAYER = "(?!bert/).*"  # Missing in a pre-trained checkpoint.
# Options of fine-tuning that must stay the same when a run resumes.
_IDENTITY = (
    *("num_train_epochs", "warmup_proportion"),
    *("freeze_layers", "packing"),
)


def prepare(
    task: task_lib.Task, config: config_lib.BertConfig
) -> task_data.Setup:
    """Chooses devices and sets up the run; see `devices.prepare_training`."""
    options: training_flags.FineTuningOptions = task.options
    strategy = devices.prepare_training(
        options,
        [dataclasses.replace(options, **each) for each in options.grid],
    )
    return task_data.Setup(
        options=options,
        config=config,
        text={
            "vocab_sha256": records.vocab_sha256(task.tokenizer.vocab),
            "do_lower_case": options.do_lower_case,
            "strip_accents": options.strips_accents,
        },
        vocab_size=task.tokenizer.vocab_size,
        strategy=strategy,
    )


class FineTuner:
    """The training, evaluation and prediction of the trials of a run.

    The trials share one network, because compilation takes much of the time of
    a short training. Each trial has options with its own `output_dir`,
    `random_seed` and setting of the grid.

    Args:
        task: the task.
        setup: the setup of the run.
    """

    _objective: objectives.FineTuning
    _predictor: prediction.Predictor

    def __init__(self, task: task_lib.Task, setup: task_data.Setup):
        self._task, self._setup = task, setup
        self._strategy = setup.strategy
        self._communicator = workers.Communicator(setup.strategy)
        self._has_network = False
        self._trainer: steps.Trainer | None = None

    @property
    def _description(self) -> dict[str, Any]:
        options = self._setup.options
        return {
            **self._setup.text,
            "max_seq_length": options.max_seq_length,
            "attention": model_folder.attention(is_causal=options.is_causal),
            **options.ablation,
            **self._task.description,
        }

    def check_trained(self, options: training_flags.FineTuningOptions) -> None:
        """Checks that this run would train the checkpoint of its folder alike.

        Args:
            options: the options of the trial.

        Raises:
            ValueError: a value that the task fixes differs.
        """
        latest = next(checkpointing.readable_states(options.output_dir), None)
        if latest is None:
            return
        prefix, saved = latest[0], model_files.identity(latest[0])
        identity = self._identity_of_weights()
        now = {name: identity[name] for name in self._task.fixed}
        differing = messages.changes(saved, now)
        if differing:
            raise ValueError(
                f"{prefix} was trained with other flags: "
                f"{', '.join(differing.values())}. Pass those of its training "
                "(encoder_sha256 depends on --init_checkpoint), or choose "
                "another --output_dir."
            )

    def start(self, options: training_flags.FineTuningOptions) -> None:
        """Starts a trial with new weights, and describes the model.

        The configuration, vocabulary and so on are written to the folders of
        the trial and of the run.

        Raises:
            ValueError: a folder contains another model, or `init_checkpoint`
                was trained with other text options.
        """
        if workers.is_chief():
            self._validate_folders(options.output_dir)
        self._communicator.barrier()
        devices.set_seed(
            options.random_seed, deterministic=options.deterministic
        )
        with self._strategy.scope():
            new = self._task.make_objective(self._setup.config)
            if self._has_network:
                _copy_weights(new.model, self._objective.model)
                # Now, since a model is in reference cycles: otherwise those of
                # several trials are in memory at once.
                del new
                gc.collect()
                return
        self._has_network, self._objective = True, new
        self._predictor = prediction.Predictor(self._strategy, new)
        logging.info("%s parameters", f"{new.model.count_params():,}")

    def _validate_folders(self, output_dir: str) -> None:
        """Checks the folders of a trial and of the run; describes the model."""
        whole, text = self._setup.options, self._setup.text
        if whole.init_checkpoint:
            origin = config_lib.folder_of(whole.init_checkpoint)
            model_files.check_text(origin, text, whole.vocab_file)
            now = self._description
            is_other = model_folder.check_start(
                whole.init_checkpoint, now, whole.vocab_file
            )
            has_own = run_files.checkpoints_in(output_dir)
            if is_other and not (whole.do_train or has_own):
                there = model_folder.outputs(model_folder.read(origin))
                raise ValueError(
                    f"The output layer of {whole.init_checkpoint} is not that "
                    f"of this run: {there} there, {model_folder.outputs(now)} "
                    "here. Evaluate it with the script and the labels of its "
                    "training. If the labels have the same meaning, name them "
                    f"alike in the folder's {run_files.TASK}."
                )
        for folder in dict.fromkeys((output_dir, whole.output_dir)):
            model_folder.describe(
                folder,
                self._setup.config.to_dict(),
                self._description,
                whole.vocab_file,
                is_training=whole.do_train,
            )
            if whole.do_train:
                path = os.path.join(folder, run_files.TOKENIZER)
                writing.write_json(path, dict(text))
            if whole.do_train and self._task.labels:
                path = os.path.join(folder, run_files.LABELS)
                writing.write_json(path, dict(self._task.labels))

    def train(
        self,
        options: training_flags.FineTuningOptions,
        data: Mapping[str, Sequence[task_lib.Data]],
    ) -> None:
        """Trains on the data of `TRAIN`, resuming from the folder's checkpoint.

        Raises:
            ValueError: there are too few examples for one step, or the folder
                contains another run.
        """
        (train,) = data[task_lib.TRAIN]
        length = task_data.length(task_data.num_examples(train), options)
        evaluates = options.evaluates_while_training
        every = options.eval_every_steps
        if options.eval_every_epoch:
            every = length.steps_per_epoch
        plan = initialization.Plan(
            num_train_steps=length.num_train_steps,
            num_warmup_steps=length.num_warmup_steps,
            identity=self._identity(options, train),
            fixed=self._fixed(options),
            new_variables=(_OUTPUT_LAYER,),
            frozen_variables=(
                *self._objective.model.frozen_variables,
                *frozen_variables(options.freeze_layers),
            ),
            evaluate=(lambda: self._metrics(data)) if evaluates else None,
            eval_every_steps=every,
            best_metric=self._task.metric if evaluates else None,
        ).complete_identity(options, self._strategy)
        with self._strategy.scope():
            state, first_step = initialization.initialize(
                self._objective,
                options,
                plan,
                self._trainer.state if self._trainer else None,
            )
        self._trainer = self._trainer_of(state, options)
        batches = task_data.training_batches(train.source, options)
        loop.train(self._trainer, batches, options, plan, first_step)

    def _trainer_of(self, state: steps.TrainState, options) -> steps.Trainer:
        """Returns compiled steps; the same if schedules differ in their peak.

        The length of a run is compiled into its steps.
        """
        trainer, constants = self._trainer, state.schedule.without_peak
        if trainer and trainer.state.schedule.without_peak == constants:
            trainer.state = state
            return trainer
        return steps.Trainer(
            self._strategy,
            state,
            jit_compile=devices.compiles_whole_steps(
                self._strategy, options.jit_compile
            ),
        )

    def _identity(self, options, train) -> dict[str, object]:
        """Returns the values that must stay the same when a run resumes."""
        return {
            **self._identity_of_weights(),
            "num_records": len(train.source.files),
            "records_fingerprint": train.source.files.fingerprint(),
            **{name: getattr(options, name) for name in _IDENTITY},
        }

    def _identity_of_weights(self) -> dict[str, object]:
        return {"objective": self._task.name, **self._task.identity}

    def _fixed(self, options) -> list[str]:
        """Returns the values that identify a trial, whose folder is numbered.

        With another grid a folder may have the number of another trial.
        """
        is_trial = options.output_dir != self._setup.options.output_dir
        of_trial = ["random_seed", *options.grid[0]] if is_trial else []
        return ["objective", *of_trial]

    def _metrics(self, data) -> Mapping[str, float]:
        """Evaluates the first held-out data set with the current weights."""
        held_out = data[task_lib.EVAL][0]
        return self._task.metrics(held_out, self._answer(held_out))

    def evaluate(
        self,
        options: training_flags.FineTuningOptions,
        data: Mapping[str, Sequence[task_lib.Data]],
        *,
        predicts: bool,
    ) -> dict[str, float]:
        """Evaluates and predicts according to the options; writes the results.

        Args:
            options: the options of the trial.
            data: the data sets by split; missing splits are skipped.
            predicts: whether to predict, if the options request it.

        Returns:
            The contents of the result files.
        """
        results: dict[str, float] = {}
        wanted = {
            task_lib.EVAL: options.do_eval,
            task_lib.PREDICT: options.do_predict and predicts,
        }
        splits = [split for split in wanted if wanted[split] and split in data]
        step = self._restore(options) if splits else 0
        answers: dict[str, Any] = {}  # By data set.
        for split in splits:
            scores: dict[str, float] = {}
            for each in data[split]:
                name = each.data_set.name
                # Once, for evaluation and prediction.
                if name not in answers:
                    answers[name] = self._answer(each)
                scores |= self._results(each, answers[name], options.output_dir)
            if scores and workers.is_chief():
                result_files.write(
                    os.path.join(
                        options.output_dir,
                        f"{task_lib.RESULTS_PREFIX[split]}_results.txt",
                    ),
                    {**scores, "global_step": step},
                )
            results |= scores
        return results

    def _results(
        self, data: task_lib.Data, answers: Any, folder: str
    ) -> Mapping[str, float]:
        """Writes the files of a data set and returns its results."""
        if workers.is_chief():
            self._task.write_answers(data, answers, folder)
        if data.data_set.has_labels:
            return self._task.results(data, answers)
        return {}

    def _answer(self, data: task_lib.Data) -> Any:
        """Answers a data set with the current weights."""
        options, outputs = self._setup.options, {}
        batch_flag = "predict_batch_size"
        if data.data_set.split == task_lib.EVAL:
            batch_flag = options.eval_batch_flag
        if data.source is not None:
            with input_pipeline.reading_errors():
                outputs = self._predictor.predict(
                    data.source,
                    batch_size=getattr(options, batch_flag),
                    by_length=options.packing,
                )
        return self._task.decode(data, outputs)

    def _restore(self, options: training_flags.FineTuningOptions) -> int:
        """Loads the best or latest checkpoint, or else `init_checkpoint`.

        Returns:
            The step of the checkpoint; 0 for `init_checkpoint`, as released.
        """
        prefix = checkpointing.best_or_latest(
            options.output_dir, best=options.use_best_checkpoint
        )
        return initialization.load_for_evaluation(
            self._strategy, self._objective.model, prefix, options
        )


def _copy_weights(source: keras.Model, target: keras.Model) -> None:
    for theirs, ours in zip(source.variables, target.variables, strict=True):
        ours.assign(theirs)


def frozen_variables(num_layers: int) -> tuple[str, ...]:
    """Lists patterns of the embeddings and the first layers; 0 for nothing."""
    if not num_layers:
        return ()
    numbers = "|".join(map(str, range(num_layers)))
    return ("bert/embeddings/.*", f"bert/encoder/layer_({numbers})/.*")

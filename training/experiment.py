"""One fine-tuning run, from its options to its weights and their answers.

A script prepares (`preparation.prepare`), makes the records of its files
(`task_records`), makes a `Learner`, and has it train, load and predict. Where
each example gets one row of outputs, `labelled_runs` does all but the first.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from commands import flags
from files import writing
from training import (
    ablations,
    bookkeeping,
    epochs,
    input_pipeline,
    loop,
    model_folder,
    objectives,
    optimization,
    option_checks,
    precision,
    prediction,
    preparation,
    record_order,
    reporting,
    runtime,
    selection,
    shapes,
    starting,
    steps,
    workers,
)
from training import flags as training_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """What a run learns from.

    Attributes:
        name: what is learnt; a folder in which something else was is refused.
        source: the records.
        metric: the held-out metric that decides; higher is better.
        evaluate: returns held-out metrics.
        head: patterns of the variables of the output layer.
        num_examples: of an epoch; the number of records if None.
        parts: of the records, to be gone through one after the other; none to
            shuffle all of them together.
    """

    name: str
    source: input_pipeline.Source
    metric: str
    evaluate: Callable[[], Mapping[str, float]]
    head: tuple[str, ...]
    num_examples: int | None = None
    parts: Sequence[record_order.Part] = ()


@dataclasses.dataclass(kw_only=True)
class Compiled:
    """What is compiled for a network, kept from one trial to the next.

    Attributes:
        predictor: what scores records.
        trainer: the training step; None before the first training.
    """

    predictor: prediction.Predictor
    trainer: steps.Trainer | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learner:
    """A model and its folder: it is trained, loaded and asked.

    Attributes:
        options: of this model; its `output_dir`, `learning_rate` and
            `random_seed` count.
        strategy: where the variables live.
        objective: the model and its losses.
        compiled: for this model.
    """

    options: training_flags.FineTuningOptions
    strategy: tf.distribute.Strategy
    objective: objectives.Objective
    compiled: Compiled

    @property
    def is_chief(self) -> bool:
        """Whether this process writes; of several workers one does."""
        return workers.Communicator(self.strategy).is_chief

    def train(self, training: Training) -> None:
        """Trains the model, from wherever its folder stands.

        Raises:
            ValueError: the data make no step; the folder is another run's.
        """
        options = self.options
        length = epochs.length(
            training.num_examples or len(training.source.files),
            options.train_batch_size,
            options.num_train_epochs,
            options.warmup_proportion,
        )
        identity = _identity(training, options, self.strategy)
        trainer = self.compiled.trainer
        with self.strategy.scope():
            state, first_step = starting.start(
                self.objective,
                self._start_options(training, length, identity),
                trainer and trainer.state,
            )
        if trainer:
            trainer.restart(state)
        else:
            trainer = self.compiled.trainer = steps.Trainer(
                self.strategy,
                state,
                jit_compile=runtime.compiles_whole_steps(
                    self.strategy, options.jit_compile
                ),
            )
        loop.train(
            trainer,
            training_batches(training.source, options, training.parts),
            _loop_options(training, options, length),
            first_step=first_step,
            identity=identity,
            evaluate=training.evaluate
            if option_checks.evaluates_while_training(options)
            else None,
        )

    def _start_options(self, training, length, identity):
        options = self.options
        return starting.StartOptions(
            output_dir=options.output_dir,
            init_checkpoint=options.init_checkpoint,
            new_variables=training.head,
            frozen_variables=frozen_variables(options.freeze_layers),
            schedule=optimization.Schedule(
                init_lr=options.learning_rate,
                num_train_steps=length.num_train_steps,
                num_warmup_steps=length.num_warmup_steps,
                kind=options.lr_schedule,
            ),
            adam=optimization.AdamOptions(
                bias_correction=options.adam_bias_correction,
                layer_adaptation=options.optimizer == "lamb",
            ),
            scale_loss=precision.in_use() == "mixed_float16",
            recompute=options.recompute,
            seed=options.random_seed,
            identity=identity,
        )

    def load(self) -> int:
        """Loads what is to be evaluated, or to predict.

        The checkpoint of the folder, the best or the latest, else
        `init_checkpoint`.

        Returns:
            The step of the checkpoint; 0 for `init_checkpoint`, as released.

        Raises:
            ValueError: there is no checkpoint, or it lacks the output layer.
        """
        prefix = selection.chosen(
            self.options.output_dir, best=self.options.use_best_checkpoint
        )
        return starting.load_for_evaluation(
            self.strategy, self.objective, prefix, self.options
        )

    @workers.communication_errors()
    def predict(
        self, source: input_pipeline.Source, batch_size: int
    ) -> dict[str, np.ndarray]:
        """Scores all records of a source, as `prediction.Predictor.predict`.

        With `bucket_by_length` records of like length share a batch, which is
        then as long as its longest; results are in file order all the same.

        Args:
            source: the records, N of them.
            batch_size: of a batch over all replicas.
        """
        order = None
        if self.options.bucket_by_length:
            source, order = longest_first(source)
        return self.compiled.predictor.predict(
            source, batch_size=batch_size, order=order
        )

    def write_files(self, files: Mapping[str, Iterable[str]]) -> None:
        """Writes the lines of files, by name, to the folder."""
        if not self.is_chief:
            return
        for name, lines in files.items():
            path = os.path.join(self.options.output_dir, name)
            with writing.whole_file(path) as file:
                file.writelines(lines)

    def write_results(
        self, results: Mapping[str, float], name: str = "eval_results.txt"
    ) -> None:
        """Writes results to a file of the folder, and logs them."""
        if not self.is_chief:
            return
        path = os.path.join(self.options.output_dir, name)
        reporting.write_results(path, results)


def make_learner(
    setup: preparation.Setup,
    options: training_flags.FineTuningOptions,
    make_objective: Callable[[], objectives.Objective],
    labels: Mapping[str, object] | None = None,
    *,
    earlier: Learner | None = None,
) -> Learner:
    """Makes a model with new weights, and takes its folder.

    What it takes to use the model alone is put beside it, and in the folder of
    the whole run. The trials of a run share one network, for compiling it
    is a good part of a short training.

    Args:
        setup: what the run stands on.
        options: those of `setup`, but for what this trial has of its own.
        make_objective: makes the model; in the strategy's scope.
        labels: what the outputs mean, as labels.json holds it; None where
            there is nothing to say.
        earlier: of an earlier trial, with the same network, which gets the new
            weights: it is not to be used any more.

    Raises:
        ValueError: a folder holds another model, or `init_checkpoint` reads
            text in another way.
    """
    workers.run_on_chief(
        setup.strategy,
        options.output_dir,
        lambda: _validate_folders(setup, options.output_dir, labels),
    )
    runtime.set_seed(options.random_seed, deterministic=options.deterministic)
    with setup.strategy.scope():
        objective = make_objective()
    if earlier is not None:
        with setup.strategy.scope():
            _give_weights(earlier.objective.model, objective.model)
        return dataclasses.replace(earlier, options=options)
    logging.info("%s parameters", f"{objective.model.count_params():,}")
    return Learner(
        options=options,
        strategy=setup.strategy,
        objective=objective,
        compiled=Compiled(
            predictor=prediction.Predictor(setup.strategy, objective)
        ),
    )


def _validate_folders(
    setup: preparation.Setup,
    folder: str,
    labels: Mapping[str, object] | None,
) -> None:
    """Checks and describes the folder of a trial and that of the whole run."""
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


def _give_weights(model: keras.Model, source: keras.Model) -> None:
    for variable, other in zip(model.variables, source.variables, strict=True):
        variable.assign(other)


def _loop_options(training, options, length) -> bookkeeping.LoopOptions:
    every = options.eval_every_steps
    if options.eval_every_epoch:
        every = length.steps_per_epoch
    evaluates = option_checks.evaluates_while_training(options)
    return flags.narrow(
        bookkeeping.LoopOptions,
        options,
        num_train_steps=length.num_train_steps,
        eval_every_steps=every,
        best_metric=training.metric if evaluates else None,
        iterations_per_loop=runtime.steps_per_call(
            use_tpu=training_flags.wants_tpu(options),
            iterations_per_loop=options.iterations_per_loop,
            steps_per_loop=options.steps_per_loop,
        ),
    )


def _identity(training, options, strategy) -> dict[str, object]:
    """Names what a resumed run must share with the one it goes on with."""
    names = (
        *("train_batch_size", "learning_rate", "lr_schedule"),
        *("adam_bias_correction", "num_train_epochs", "warmup_proportion"),
        *("freeze_layers", "bucket_by_length", "random_seed"),
        *("max_seq_length", "optimizer", "num_accumulation_steps"),
    )
    return {
        "objective": training.name,
        "num_records": [part.num_records for part in training.parts]
        or len(training.source.files),
        "records_fingerprint": training.source.files.fingerprint(),
        "num_replicas": strategy.num_replicas_in_sync,
        "precision": precision.in_use(),
        **{name: getattr(options, name) for name in names},
        **ablations.identity(options),
    }


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
    """Orders the records of a run: shuffled, each epoch anew as a whole.

    With `parts` one part after the other, each shuffled so.
    """
    everything = record_order.Part(num_records=len(source.files), num_taken=0)
    order = record_order.ConsecutiveOrder(
        parts or [everything], options.random_seed
    )
    if options.bucket_by_length:
        order = record_order.BucketedOrder(
            order, source.lengths(), options.random_seed
        )
        source = dataclasses.replace(
            source, length_step=input_pipeline.TRAINING_LENGTH_STEP
        )
    return input_pipeline.TrainingBatches(
        source,
        batch_size=options.train_batch_size,
        order=order,
        num_accumulation_steps=options.num_accumulation_steps,
    )


def longest_first(
    source: input_pipeline.Source,
) -> tuple[input_pipeline.Source, np.ndarray]:
    """Has batches share little padding, and cuts what they share.

    Returns:
        The source, whose batches are cut to as many lengths as are compiled,
        and `[N]`, the order to read its records in.
    """
    lengths = source.lengths()
    step = -(-int(lengths.max()) // shapes.MAX_SHAPES)
    order = np.argsort(-lengths, kind="stable")
    return dataclasses.replace(source, length_step=step), order

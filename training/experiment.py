"""One fine-tuning run, from its options to its weights."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from modeling import config as config_lib
from training import (
    epochs,
    fine_tuning_flags,
    input_pipeline,
    loop,
    objectives,
    optimization,
    prediction,
    record_order,
    runtime,
    selection,
    starting,
    steps,
)
from training import flags as shared_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """What a run learns from.

    Attributes:
        objective: the model and its losses.
        name: what is learnt; a folder in which something else was is refused.
        source: the records.
        metric: the held-out metric that decides; higher is better.
        evaluate: returns held-out metrics.
        head: patterns of the variables of the output layer.
        encoder_only: take the encoder of `init_checkpoint` alone.
        num_examples: of an epoch; the number of records if None.
        parts: of the records, to be gone through one after the other; none to
            shuffle all of them together.
    """

    objective: objectives.Objective
    name: str
    source: input_pipeline.Source
    metric: str
    evaluate: Callable[[], Mapping[str, float]]
    head: tuple[str, ...]
    encoder_only: bool = False
    num_examples: int | None = None
    parts: Sequence[record_order.Part] = ()


def check_options(
    options: fine_tuning_flags.TaskOptions,
    config: config_lib.BertConfig,
    vocab_size: int,
) -> None:
    """Checks that a run's options fit together and to its model.

    Raises:
        ValueError: they do not.
    """
    if not (options.do_train or options.do_eval or options.do_predict):
        raise ValueError(
            "At least one of `do_train`, `do_eval` or `do_predict' must be "
            "True."
        )
    starting.check_length(options.max_seq_length, config)
    config.check_vocabulary(vocab_size, options.vocab_file)
    if options.freeze_layers > config.num_hidden_layers:
        raise ValueError(
            f"--freeze_layers must be at most {config.num_hidden_layers}, the "
            f"layers of the model; got {options.freeze_layers}."
        )
    if options.bucket_by_length and options.use_tpu:
        raise ValueError(
            "--bucket_by_length makes batches of different lengths; a TPU "
            "needs one length. Pass one of --bucket_by_length and --use_tpu."
        )
    _check_evaluations(options)


def _check_evaluations(options) -> None:
    if options.eval_every_epoch and options.eval_every_steps:
        raise ValueError(
            "Pass one of --eval_every_epoch and --eval_every_steps; got both."
        )
    if options.early_stopping_patience and not evaluates_while_training(
        options
    ):
        raise ValueError(
            "--early_stopping_patience counts evaluations: it needs "
            "--eval_every_epoch or --eval_every_steps."
        )
    if not isinstance(options, fine_tuning_flags.FineTuningOptions):
        return
    several = options.num_trials > 1 or len(options.learning_rates) > 1
    if several and not options.do_eval:
        raise ValueError(
            "Of several runs (--num_trials, --learning_rates) the one that "
            "does best on held-out data is wanted: pass --do_eval too."
        )


def evaluates_while_training(
    options: fine_tuning_flags.TaskOptions,
) -> bool:
    """Tells whether held-out data are looked at before the end."""
    return bool(
        options.do_train
        and (options.eval_every_epoch or options.eval_every_steps)
    )


def prepare_devices(
    options: fine_tuning_flags.TaskOptions,
) -> tf.distribute.Strategy:
    """Chooses devices and precision; returns the distribution strategy.

    Raises:
        ValueError: a batch does not divide among the devices.
    """
    return runtime.prepare(
        shared_flags.narrow(runtime.DeviceOptions, options),
        precision=options.precision,
        batch_sizes={
            field.name: getattr(options, field.name)
            for field in dataclasses.fields(options)
            if field.name.endswith("_batch_size")
        },
    )


def train(
    strategy: tf.distribute.Strategy,
    training: Training,
    options: fine_tuning_flags.TaskOptions,
) -> None:
    """Trains a model, from wherever its folder stands.

    Args:
        strategy: where the variables live.
        training: what is learnt.
        options: of the run; its `output_dir` and `learning_rate` count.

    Raises:
        ValueError: the data make no step; the folder is another run's.
    """
    length = epochs.length(
        training.num_examples or len(training.source.files),
        options.train_batch_size,
        options.num_train_epochs,
        options.warmup_proportion,
    )
    identity = _identity(training, options, strategy)
    with strategy.scope():
        state, first_step = starting.start(
            training.objective,
            starting.StartOptions(
                output_dir=options.output_dir,
                init_checkpoint=options.init_checkpoint,
                new_variables=training.head,
                encoder_only=training.encoder_only,
                frozen_variables=frozen_variables(options.freeze_layers),
                schedule=optimization.Schedule(
                    init_lr=options.learning_rate,
                    num_train_steps=length.num_train_steps,
                    num_warmup_steps=length.num_warmup_steps,
                    kind=options.lr_schedule,
                ),
                adam=optimization.AdamOptions(
                    bias_correction=options.adam_bias_correction
                ),
                scale_loss=options.precision == "mixed_float16",
                seed=options.random_seed,
                identity=identity,
            ),
        )
    loop.train(
        steps.Trainer(strategy, state),
        training_batches(training.source, options, training.parts),
        _loop_options(training, options, length),
        first_step=first_step,
        identity=identity,
        evaluate=training.evaluate
        if evaluates_while_training(options)
        else None,
    )


def _loop_options(training, options, length) -> loop.LoopOptions:
    every = options.eval_every_steps
    if options.eval_every_epoch:
        every = length.steps_per_epoch
    evaluates = evaluates_while_training(options)
    return shared_flags.narrow(
        loop.LoopOptions,
        options,
        num_train_steps=length.num_train_steps,
        eval_every_steps=every,
        best_metric=training.metric if evaluates else None,
        iterations_per_loop=runtime.steps_per_call(
            use_tpu=options.use_tpu,
            iterations_per_loop=options.iterations_per_loop,
        ),
    )


def _identity(training, options, strategy) -> dict[str, object]:
    """Names what a resumed run must share with the one it goes on with."""
    names = (
        *("train_batch_size", "learning_rate", "lr_schedule", "precision"),
        *("adam_bias_correction", "num_train_epochs", "warmup_proportion"),
        *("freeze_layers", "bucket_by_length", "random_seed"),
        "max_seq_length",
    )
    return {
        "objective": training.name,
        "num_records": [part.num_records for part in training.parts]
        or len(training.source.files),
        "num_replicas": strategy.num_replicas_in_sync,
        **{name: getattr(options, name) for name in names},
    }


def frozen_variables(num_layers: int) -> tuple[str, ...]:
    """Lists patterns of the embeddings and the first layers; 0 for nothing."""
    if not num_layers:
        return ()
    numbers = "|".join(map(str, range(num_layers)))
    return ("bert/embeddings/.*", f"bert/encoder/layer_({numbers})/.*")


def training_batches(
    source: input_pipeline.Source,
    options: fine_tuning_flags.TaskOptions,
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
        source = dataclasses.replace(source, trim=True)
    return input_pipeline.TrainingBatches(
        source, batch_size=options.train_batch_size, order=order
    )


def predict(
    predictor: prediction.Predictor,
    source: input_pipeline.Source,
    options: fine_tuning_flags.TaskOptions,
) -> dict[str, np.ndarray]:
    """Scores all records of a source, as `prediction.Predictor.predict`.

    With `bucket_by_length` records of like length share a batch, which is then
    as long as its longest; results are in file order all the same.

    Args:
        predictor: what scores.
        source: the records, N of them.
        options: of the run.
    """
    order = None
    if options.bucket_by_length:
        order = np.argsort(-source.lengths(), kind="stable")
        source = dataclasses.replace(source, trim=True)
    return predictor.predict(
        source, batch_size=options.predict_batch_size, order=order
    )


def load(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    options: fine_tuning_flags.TaskOptions,
) -> int:
    """Loads what is to be evaluated, or to predict.

    The checkpoint of the folder, the best or the latest, else
    `init_checkpoint`.

    Returns:
        The step of the checkpoint; 0 for `init_checkpoint`, as released.

    Raises:
        ValueError: there is no checkpoint, or it lacks the output layer.
    """
    prefix = selection.chosen(
        options.output_dir, best=options.use_best_checkpoint
    )
    return starting.load_for_evaluation(strategy, objective, prefix, options)

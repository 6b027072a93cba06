"""Training of a model from its options: initialization, then the loop."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from commands import flags
from training import (
    devices,
    initialization,
    input_pipeline,
    loop,
    objectives,
    optimization,
    reporting,
    steps,
)
from training import flags as training_flags

# Options of any run that must stay the same when it resumes.
_IDENTITY = (
    *("random_seed", "train_batch_size", "learning_rate", "lr_schedule"),
    *("adam_bias_correction", "optimizer", "num_accumulation_steps"),
    "max_seq_length",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The training of a run, in addition to its flags.

    Attributes:
        num_train_steps: the step at which the run ends.
        num_warmup_steps: the steps of the learning rate's warm-up.
        identity: the values that must stay the same for an exact resume, in
            addition to the flags of all training and the devices; another
            `objective` is an error.
        new_variables: patterns of variables that `--init_checkpoint` may lack.
        frozen_variables: patterns of variables that are not trained.
        evaluate: returns held-out metrics; None for no evaluation.
        eval_every_steps: steps between evaluations; 0 for none.
        best_metric: the held-out metric that selects the best weights; None to
            keep none.
        higher_is_better: False for losses.
        make_sanity_check: creates the check of each report; called if steps
            remain.
    """

    num_train_steps: int
    num_warmup_steps: int
    identity: Mapping[str, object]
    new_variables: Sequence[str] = ()
    frozen_variables: Sequence[str] = ()
    evaluate: Callable[[], Mapping[str, float]] | None = None
    eval_every_steps: int = 0
    best_metric: str | None = None
    higher_is_better: bool = True
    make_sanity_check: Callable[[], reporting.SanityCheck | None] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a training.

    Attributes:
        trainer: the compiled steps, for another training of the same network.
        step: the number of completed steps.
        metrics: the last held-out metrics; None if there were none.
    """

    trainer: steps.Trainer
    step: int
    metrics: Mapping[str, float] | None


def schedule(
    options: training_flags.TrainingOptions,
    num_train_steps: int,
    num_warmup_steps: int,
) -> optimization.Schedule:
    """Returns the learning-rate schedule of a run."""
    return optimization.Schedule(
        init_lr=options.learning_rate,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_warmup_steps,
        kind=options.lr_schedule,
    )


def train(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    batches: input_pipeline.TrainingBatches,
    options: training_flags.TrainingOptions,
    plan: Plan,
    trainer: steps.Trainer | None = None,
) -> Result:
    """Trains a model, resuming from the latest checkpoint of its folder.

    Args:
        strategy: holds the variables.
        objective: the model, with new weights, and its losses.
        batches: the batches of every step.
        options: the flags of the run.
        plan: the rest of the run's settings.
        trainer: of an earlier training of the same network; reused if the
            schedule differs in its peak alone.

    Raises:
        ValueError: the folder contains another run, or a checkpoint does not
            fit.
        NonFiniteLossError, OutOfMemoryError, LostWorkerError, WritingError: see
            `loop.train`.
    """
    identity = {
        **{name: getattr(options, name) for name in _IDENTITY},
        **plan.identity,
        "precision": devices.precision_in_use(),
        "num_replicas": strategy.num_replicas_in_sync,
    }
    planned = schedule(options, plan.num_train_steps, plan.num_warmup_steps)
    if trainer and planned.without_peak != trainer.state.schedule.without_peak:
        trainer = None  # The length of a run is compiled into its steps.
    with strategy.scope():
        state, first_step = initialization.initialize(
            objective,
            _init_options(options, plan, planned, identity),
            trainer.state if trainer else None,
        )
    if trainer:
        trainer.restart(state)
    else:
        trainer = steps.Trainer(
            strategy,
            state,
            jit_compile=devices.compiles_whole_steps(
                strategy, options.jit_compile
            ),
        )
    has_steps_left = first_step < plan.num_train_steps
    step, metrics = loop.train(
        trainer,
        batches,
        flags.narrow(
            loop.LoopOptions,
            options,
            num_train_steps=plan.num_train_steps,
            eval_every_steps=plan.eval_every_steps,
            best_metric=plan.best_metric,
            higher_is_better=plan.higher_is_better,
            iterations_per_loop=devices.steps_per_call(
                use_tpu=training_flags.wants_tpu(options),
                iterations_per_loop=options.iterations_per_loop,
                steps_per_loop=options.steps_per_loop,
            ),
            sanity_check=plan.make_sanity_check()
            if plan.make_sanity_check and has_steps_left
            else None,
        ),
        first_step=first_step,
        identity=identity,
        evaluate=plan.evaluate,
    )
    return Result(trainer=trainer, step=step, metrics=metrics)


def _init_options(
    options, plan, planned, identity
) -> initialization.InitOptions:
    return initialization.InitOptions(
        output_dir=options.output_dir,
        init_checkpoint=options.init_checkpoint,
        new_variables=plan.new_variables,
        frozen_variables=plan.frozen_variables,
        schedule=planned,
        adam=optimization.AdamOptions(
            bias_correction=options.adam_bias_correction,
            layer_adaptation=options.optimizer == "lamb",
        ),
        scale_loss=devices.precision_in_use() == "mixed_float16",
        recompute=options.recompute,
        seed=options.random_seed,
        identity=identity,
    )

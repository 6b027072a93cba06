"""Plan and initialization of a run: random, from weights, or resumed."""

import dataclasses
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from files import messages, progress
from modeling import bert, checkpoints, heads, name_tables
from modeling import config as config_lib
from training import (
    checkpointing,
    devices,
    model_files,
    objectives,
    optimization,
    steps,
)
from training import flags as training_flags

_OUTPUT_LAYER = ("output_weights", "output_bias")
# Models with the same variables.
_TWINS = {name_tables.SEQUENCE_CLASSIFICATION, name_tables.TOKEN_CLASSIFICATION}
# Hugging Face's classes without a pooler.
_WITHOUT_POOLER = {
    "BertForMaskedLM",
    "BertForQuestionAnswering",
    name_tables.TOKEN_CLASSIFICATION,
}

# Settings that distribute a batch over devices; its examples do not depend on
# them.
_BATCH_SPLIT = {
    "num_replicas",
    "num_accumulation_steps",
}
# Options of any run that must stay the same when it resumes.
_IDENTITY = (
    *("random_seed", "train_batch_size", "learning_rate", "lr_schedule"),
    *("adam_bias_correction", "optimizer", "num_accumulation_steps"),
    *("end_learning_rate", "weight_decay", "adam_beta_1", "adam_beta_2"),
    *("adam_epsilon", "max_grad_norm", "max_seq_length"),
)
# Values that earlier versions saved only if they were others.
_DEFAULTS: Mapping[str, object] = {
    "class_weights": [],
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a training, in addition to its flags.

    Attributes:
        num_train_steps: the step at which the run ends.
        num_warmup_steps: the steps of the learning rate's warm-up.
        identity: the values that must stay the same for an exact resume; saved
            with each checkpoint.
        fixed: names of `identity`. A checkpoint with other values of them
            belongs to another run.
        new_variables: patterns of variables that may be missing from
            `--init_checkpoint` or have another shape there, such as the output
            layer of a task.
        frozen_variables: patterns of variables that are not trained.
        evaluate: returns held-out metrics; called every `eval_every_steps` and
            at the end. None for no evaluation.
        eval_every_steps: steps between evaluations; 0 for none.
        best_metric: the held-out metric that selects the weights in `best/`;
            None to keep none.
        higher_is_better: False for losses.
        stop_at_step: the last step of this command, if it is before that of the
            run.
    """

    num_train_steps: int
    num_warmup_steps: int = 0
    identity: Mapping[str, object]
    fixed: Collection[str] = ("objective",)
    new_variables: Sequence[str] = ()
    frozen_variables: Sequence[str] = ()
    evaluate: Callable[[], Mapping[str, float]] | None = None
    eval_every_steps: int = 0
    best_metric: str | None = None
    higher_is_better: bool = True
    stop_at_step: int = 0

    @property
    def end(self) -> int:
        """The step at which this command ends."""
        return min(self.stop_at_step or sys.maxsize, self.num_train_steps)

    def schedule(
        self, options: training_flags.TrainingOptions
    ) -> optimization.Schedule:
        """Returns the learning-rate schedule."""
        return optimization.Schedule(
            init_lr=options.learning_rate,
            end_lr=options.end_learning_rate,
            num_train_steps=self.num_train_steps,
            num_warmup_steps=self.num_warmup_steps,
            kind=options.lr_schedule,
        )

    def complete_identity(
        self,
        options: training_flags.TrainingOptions,
        strategy: tf.distribute.Strategy,
    ) -> "Plan":
        """Adds the flags of every training, and the devices, to `identity`."""
        identity = {
            **{name: getattr(options, name) for name in _IDENTITY},
            **self.identity,
            "precision": devices.precision_in_use(),
            "num_replicas": strategy.num_replicas_in_sync,
        }
        return dataclasses.replace(self, identity=identity)


def initialize(
    objective: objectives.Objective,
    options: training_flags.TrainingOptions,
    plan: Plan,
    earlier: steps.TrainState | None = None,
) -> tuple[steps.TrainState, int]:
    """Makes the optimizer and loads the weights, moments and step.

    Call it in the scope of the distribution strategy.

    Args:
        objective: its model has new weights.
        options: the flags of the run; a checkpoint in `output_dir` takes
            precedence over `init_checkpoint`.
        plan: the other settings of the run.
        earlier: the state of a completed run of this objective; its optimizer
            is reused.

    Returns:
        The state of the run and the first step to make.
    """
    if options.recompute:
        objective.model.bert.encoder.recompute = True
    if earlier is None:
        state = _new_state(objective, options, plan)
    else:
        state = earlier.renewed(plan.schedule(options), options.random_seed)
    logging.info("Learning rate: %s.", state.schedule.describe())
    if checkpointing.latest(options.output_dir):
        return state, _resume(state, options, plan)
    if options.init_checkpoint:
        _check_not_replaced(options.init_checkpoint, options.output_dir)
        origin = config_lib.folder_of(options.init_checkpoint)
        labels = model_files.labels(options.output_dir)
        load_weights(
            objective.model,
            options.init_checkpoint,
            new=plan.new_variables,
            encoder_only=labels is not None
            and model_files.answers_differ(origin, labels),
        )
    elif isinstance(objective.model, heads.BertForPreTraining):
        logging.info("Fresh run: the weights are random, nothing is loaded.")
    elif isinstance(objective.model, heads.BertWithHead):
        logging.warning(
            "No --init_checkpoint is given: the whole model starts from random "
            "weights. Fine-tuning needs a pre-trained checkpoint for good "
            "results."
        )
    return state, 0


def _check_not_replaced(init_checkpoint: str, output_dir: str) -> None:
    """Refuses to start from the best checkpoint of the run's own folder."""
    origin = config_lib.folder_of(init_checkpoint)
    folder = checkpointing.best_folder(output_dir)
    if os.path.realpath(origin) == os.path.realpath(folder):
        raise ValueError(
            f"--init_checkpoint={init_checkpoint} is in a folder that a new "
            f"run in --output_dir={output_dir} replaces. Choose another "
            "--output_dir."
        )


def _new_state(objective, options, plan) -> steps.TrainState:
    variables = checkpointing.weights(objective.model)
    trained = {
        name: variable
        for name, variable in variables.items()
        if not _matches(name, plan.frozen_variables)
    }
    if len(trained) < len(variables):
        counts = [
            sum(math.prod(v.shape) for v in chosen.values())
            for chosen in (trained, variables)
        ]
        logging.info(
            "%s weights are trained, %s are frozen.",
            f"{counts[0]:,}",
            f"{counts[1] - counts[0]:,}",
        )
    adam = optimization.AdamOptions(
        weight_decay_rate=options.weight_decay,
        beta_1=options.adam_beta_1,
        beta_2=options.adam_beta_2,
        epsilon=options.adam_epsilon,
        bias_correction=options.adam_bias_correction,
        layer_adaptation=options.optimizer == "lamb",
    )
    is_float16 = devices.precision_in_use() == "mixed_float16"
    return steps.TrainState(
        objective=objective,
        optimizer=optimization.AdamWeightDecayOptimizer(trained, adam),
        schedule=plan.schedule(options),
        loss_scale=steps.LossScale(active=is_float16),
        clip_norm=options.max_grad_norm,
        seed=options.random_seed,
    )


def load_for_evaluation(
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    prefix: str | None,
    options: training_flags.TrainingOptions,
) -> int:
    """Loads a model for evaluation without training.

    Args:
        strategy: the scope of the variables.
        model: receives the weights.
        prefix: the checkpoint in the run's folder; None for none.
        options: `output_dir` and `init_checkpoint`, which is loaded if the
            folder has no checkpoint.

    Returns:
        The step of the folder's checkpoint; 0 for `init_checkpoint`, as
        released.

    Raises:
        ValueError: there is no checkpoint, it lacks a weight, its output layer
            belongs to another task, or a weight is not finite.
    """
    path = prefix or options.init_checkpoint
    if not path:
        raise ValueError(
            f"There is nothing to evaluate: {options.output_dir} holds no "
            "checkpoint and --init_checkpoint is not given."
        )
    order = None
    if prefix is None:
        order = _output_order(model, path, options.output_dir)
    with strategy.scope():
        load_weights(model, path)
        if order is not None:
            _reorder_outputs(model, order)
    checkpoints.check_finite(model, path)
    return checkpointing.load_step(prefix) if prefix else 0


def load_pretrained(
    model: bert.BertModel | heads.BertForPreTraining, options: Any
) -> None:
    """Loads a checkpoint of BERT for a program that does not train.

    Args:
        model: receives the weights.
        options: `init_checkpoint`, `vocab_file` and `do_lower_case`.

    Raises:
        ValueError: the checkpoint is not of BERT, was trained with another
            vocabulary or casing, lacks a weight, or has one that is not finite.
    """
    path = options.init_checkpoint
    model_files.check_bidirectional(path)
    folder = config_lib.folder_of(path)
    model_files.check_casing(
        folder, options.do_lower_case, options.strips_accents
    )
    model_files.check_vocabulary(folder, options.vocab_file)
    report = checkpoints.load(model, path, new=model.optional_variables)
    checkpoints.check_finite(model, path)
    logging.info("%s: %s", path, report)


def _output_order(
    model: keras.Model, path: str, output_dir: str
) -> list[int] | None:
    """Finds the output of a checkpoint for each label of a run."""
    labels = model_files.labels(output_dir)
    names = checkpoints.variables_by_name(model).keys()
    if labels is None or not names >= {*_OUTPUT_LAYER}:
        return None
    folder = config_lib.folder_of(path)
    if model_files.labels(folder) is None:
        logging.warning(
            "No file beside %s names its labels; they are assumed to be %s.",
            path,
            labels,
        )
    return model_files.output_order(folder, labels)


def _reorder_outputs(model: keras.Model, order: Sequence[int]) -> None:
    logging.info(
        "The outputs are reordered to the labels of this run: %s.", order
    )
    variables = checkpoints.variables_by_name(model)
    for name in _OUTPUT_LAYER:
        rows = variables[name].value.numpy()
        variables[name].assign(rows[list(order)])


def load_weights(
    model: keras.Model,
    path: str,
    *,
    new: Sequence[str] = (),
    encoder_only: bool = False,
) -> None:
    """Loads the weights of a checkpoint and logs the variables not loaded.

    Args:
        model: receives the weights.
        path: the checkpoint.
        new: patterns of variables that may be missing or have another shape,
            such as the output layer of another task; they keep their initial
            values.
        encoder_only: load only the encoder.

    Raises:
        ValueError: `new` is empty, and the output layer labels words instead
            of sentences or sentences instead of words.
    """
    variables = checkpoints.variables_by_name(model)
    with checkpoints.opened(path) as source:
        architectures = model_files.architectures(source)
        held = source.variables
    ours, theirs = {type(model).__name__} & _TWINS, {*architectures} & _TWINS
    is_of_twin = bool(ours and theirs and ours != theirs)
    has_other_shapes = any(
        name in held and held[name][0] != tuple(variable.shape)
        for name, variable in variables.items()
        if _matches(name, new)
    )
    optional = model.optional_variables
    if new and architectures and {*architectures} <= _WITHOUT_POOLER:
        optional = (*optional, name_tables.POOLER)
    if is_of_twin and not new:
        raise ValueError(
            f"The output layer of {path} belongs to "
            f"{', '.join(architectures)}; this run needs that of "
            f"{type(model).__name__} and does not train one. Evaluate the "
            "checkpoint with the script that trained it."
        )
    if encoder_only or is_of_twin or has_other_shapes:
        report = checkpoints.load(model.bert, path, new=optional)
        head = [name for name in variables if not name.startswith("bert/")]
        progress.log_paragraph(
            f"Initialized the encoder from {path}: {report}. The output layer "
            f"is new ({', '.join(head)}): that of the checkpoint "
            "belongs to another task."
        )
        return
    report = checkpoints.load(model, path, new=(*new, *optional))
    progress.log_paragraph(f"Initialized from {path}: {report}")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _resume(state: steps.TrainState, options, plan) -> int:
    """Restores the latest checkpoint; if it is damaged, the one before.

    Returns:
        Its step.
    """
    faults = []
    for prefix in checkpointing.newest_first(options.output_dir):
        try:
            saved = checkpointing.load_state(prefix)
            checkpoints.load(state.objective.model, prefix)
            checkpointing.load_slots(prefix, state.optimizer.slots())
            step = checkpointing.load_step(prefix)
        except (OSError, ValueError) as error:
            logging.warning("%s cannot be read: %s", prefix, error)
            faults.append(error)
            continue
        if saved is not None:
            if "loss_scale" not in saved:
                raise ValueError(
                    f"{prefix} cannot be resumed: it has weights only, like "
                    "the best checkpoint of a run. To resume that run, pass "
                    "its --output_dir. To start from these weights, pass them "
                    "as --init_checkpoint with another --output_dir."
                )
            _check_identity(prefix, saved.get("identity", {}), plan)
            state.loss_scale.restore(saved["loss_scale"])
        logging.info("Resumed from %s at step %d.", prefix, step)
        if options.init_checkpoint:
            logging.info(
                "--init_checkpoint=%s is ignored: the checkpoint in "
                "--output_dir takes precedence.",
                options.init_checkpoint,
            )
        return step
    raise faults[0]


def _check_identity(
    prefix: str, saved: Mapping[str, object], plan: Plan
) -> None:
    saved = {**_DEFAULTS, **saved}
    # Runs of earlier versions did not save all of these values.
    differing = messages.changes(saved, plan.identity)
    described = ", ".join(differing.values())
    if not differing.keys().isdisjoint(plan.fixed):
        raise ValueError(
            f"{prefix} belongs to another run: {described}. Choose another "
            "--output_dir, or pass it as --init_checkpoint."
        )
    if differing and differing.keys() <= _BATCH_SPLIT:
        logging.warning(
            "Resuming from %s with a different distribution of the batch: %s. "
            "Each step has the same examples and learning rate. Dropout masks "
            "and rounding differ, so the result will not be identical to that "
            "of an uninterrupted run.",
            prefix,
            described,
        )
    elif differing:
        logging.warning(
            "Resuming from %s with different settings: %s. The result will not "
            "be that of an uninterrupted run.",
            prefix,
            described,
        )

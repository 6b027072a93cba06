"""Plan and initialization of a run: random, from weights, or resumed."""

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from commands import flags
from files import messages
from modeling import bert, checkpoints, compilation, heads, name_tables
from modeling import config as config_lib
from training import (
    checkpointing,
    devices,
    model_folder,
    objectives,
    optimization,
    steps,
)
from training import flags as training_flags

# Tasks, and Hugging Face's classes, of models that have no pooler.
_WITHOUT_POOLER = {
    model_folder.QUESTION_ANSWERING,
    model_folder.TAGGING,
    "BertForMaskedLM",
    "BertForQuestionAnswering",
    name_tables.TOKEN_CLASSIFICATION,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a training, in addition to its flags.

    Attributes:
        num_train_steps: the step at which the run ends.
        num_warmup_steps: the steps of the learning rate's warm-up.
        data: identifies the training data, as JSON. A resumed run with other
            data or flags is not exact.
        new_variables: patterns of variables that may be missing from
            `--init_checkpoint` or have another shape there, such as the output
            layer of a task.
        evaluate: returns held-out metrics.
        eval_every_steps: steps between evaluations, of which the last one is at
            the end; 0 for none.
        best_metric: the held-out metric that selects the weights in `best/`.
        higher_is_better: False for losses.
        stop_at_step: the last step of this command, if it is before that of the
            run.
    """

    num_train_steps: int
    num_warmup_steps: int = 0
    data: Mapping[str, object]
    new_variables: Sequence[str] = ()
    evaluate: Callable[[], Mapping[str, float]]
    eval_every_steps: int = 0
    best_metric: str
    higher_is_better: bool = True
    stop_at_step: int = 0

    @property
    def end(self) -> int:
        """The step at which this command ends."""
        return min(self.stop_at_step or sys.maxsize, self.num_train_steps)


def run_state(
    options: training_flags.TrainingOptions,
    plan: Plan,
    trainer: steps.Trainer,
) -> dict[str, Any]:
    """Returns the flags and the data of a run, which each checkpoint stores."""
    values = {
        **dataclasses.asdict(options),
        "precision": devices.precision_in_use(),
    }
    num_replicas = trainer.strategy.num_replicas_in_sync
    data = {**plan.data, "num_replicas": num_replicas}
    execution = devices.saved_execution(trainer.strategy, trainer.mode)
    return json.loads(
        json.dumps({"flags": values, "data": data, "execution": execution})
    )


def make_trainer(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    options: training_flags.TrainingOptions,
    mode: compilation.ExecutionMode,
) -> steps.Trainer:
    """Makes the optimizer and the steps of a model.

    Args:
        strategy: holds the variables.
        objective: the model and its losses.
        options: the flags of the run.
        mode: how the steps are executed.
    """
    model = objective.model
    if options.recompute:
        model.bert.encoder.recompute = True
    # Only fine-tuning has this flag.
    num_frozen = getattr(options, "freeze_layers", 0)
    frozen = [*model.frozen_variables, *_first_layers(num_frozen)]
    trained = {
        name: variable
        for name, variable in checkpointing.weights(model).items()
        if not _matches(name, frozen)
    }
    adam = optimization.AdamOptions(
        weight_decay_rate=options.weight_decay,
        beta_1=options.adam_beta_1,
        beta_2=options.adam_beta_2,
        epsilon=options.adam_epsilon,
        bias_correction=options.adam_bias_correction,
        layer_adaptation=options.optimizer == "lamb",
    )
    with strategy.scope():
        return steps.Trainer(
            strategy,
            objective,
            optimization.AdamWeightDecayOptimizer(trained, adam, mode),
            scales_loss=devices.precision_in_use() == "mixed_float16",
            clip_norm=options.max_grad_norm,
            mode=mode,
        )


def _first_layers(num_layers: int) -> tuple[str, ...]:
    """Lists patterns of the embeddings and the first layers; 0 for nothing."""
    if not num_layers:
        return ()
    numbers = "|".join(map(str, range(num_layers)))
    return ("bert/embeddings/.*", f"bert/encoder/layer_({numbers})/.*")


def initialize(
    trainer: steps.Trainer,
    options: training_flags.TrainingOptions,
    plan: Plan,
) -> int:
    """Loads the weights, moments and step of a run.

    Args:
        trainer: its model has new weights; it may have made another run.
        options: the flags of the run; a checkpoint in `output_dir` takes
            precedence over `init_checkpoint`.
        plan: the other settings of the run.

    Returns:
        The first step to make.
    """
    trainer.reset()
    with trainer.strategy.scope():
        if checkpointing.latest(options.output_dir):
            return _resume(trainer, options, plan)
        model = trainer.objective.model
        if options.init_checkpoint:
            origin = config_lib.folder_of(options.init_checkpoint)
            there = model_folder.read(origin)
            here = model_folder.read(options.output_dir)
            load_weights(
                model,
                options.init_checkpoint,
                new=plan.new_variables,
                encoder_only=model_folder.outputs_differ(there, here),
            )
        elif isinstance(model, heads.BertForPreTraining):
            logging.info(
                "Fresh run: the weights are random, nothing is loaded."
            )
        else:
            logging.warning(
                "No --init_checkpoint is given: the whole model starts from "
                "random weights. Fine-tuning needs a pre-trained checkpoint "
                "for good results."
            )
    return 0


def load_for_evaluation(
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    options: training_flags.TrainingOptions,
) -> int:
    """Loads a model for evaluation.

    Args:
        strategy: the scope of the variables.
        model: receives the weights.
        options: of the run. The best or latest checkpoint in `output_dir` is
            loaded, else `init_checkpoint`.

    Returns:
        The step of the folder's checkpoint; 0 for `init_checkpoint`, as
        released.

    Raises:
        ValueError: there is no checkpoint, it lacks a weight, or a weight is
            not finite.
    """
    folder = options.output_dir
    # Only fine-tuning has this flag.
    uses_best = getattr(options, "use_best_checkpoint", False)
    if uses_best:
        folder = checkpointing.best_folder(folder)
    prefix = checkpointing.latest(folder)
    if uses_best and prefix is None:
        raise ValueError(
            f"{options.output_dir} has no best checkpoint. Training keeps one "
            "if it evaluates (--eval_every_epoch, --eval_every_steps)."
        )
    path = prefix or flags.needed(options.init_checkpoint, "init_checkpoint")
    with strategy.scope():
        load_weights(model, path)
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
            vocabulary, casing or attention, lacks a weight, or has one that is
            not finite.
    """
    path = options.init_checkpoint
    text = {
        "attention": training_flags.BIDIRECTIONAL,
        "do_lower_case": options.do_lower_case,
        "strip_accents": options.strips_accents,
    }
    model_folder.check_start(path, text, options.vocab_file)
    report = checkpoints.load(model, path, new=model.optional_variables)
    checkpoints.check_finite(model, path)
    logging.info("%s: %s", path, report)


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
    """
    variables = checkpoints.variables_by_name(model)
    with checkpoints.opened(path) as source:
        held, classes = source.variables, {*source.architectures}
    has_other_shapes = any(
        name in held and held[name][0] != tuple(variable.shape)
        for name, variable in variables.items()
        if _matches(name, new)
    )
    optional = model.optional_variables
    task = model_folder.read(config_lib.folder_of(path)).get("task")
    if new and (classes or {f"{task}"}) <= _WITHOUT_POOLER:
        optional = (*optional, name_tables.POOLER)
    if encoder_only or has_other_shapes:
        report = checkpoints.load(model.bert, path, new=optional)
        head = [name for name in variables if not name.startswith("bert/")]
        logging.info(
            "%s",
            f"Initialized the encoder from {path}: {report}. The output layer "
            f"is new ({', '.join(head)}): that of the checkpoint belongs to "
            "another task.",
        )
        return
    report = checkpoints.load(model, path, new=(*new, *optional))
    logging.info("Initialized from %s: %s", path, report)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _resume(
    trainer: steps.Trainer,
    options: training_flags.TrainingOptions,
    plan: Plan,
) -> int:
    """Restores the latest checkpoint; if it is damaged, the one before."""
    faults = []
    for prefix in checkpointing.newest_first(options.output_dir):
        try:
            saved = checkpointing.load_state(prefix)
            checkpoints.load(trainer.objective.model, prefix)
            checkpointing.load_slots(prefix, trainer.optimizer.slots())
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
            now = run_state(options, plan, trainer)
            names = flags.changing_result(type(options)) - {"jit_compile"}
            _warn_of_changes(prefix, saved, now, names)
            trainer.loss_scale.restore(saved["loss_scale"])
        logging.info("Resumed from %s at step %d.", prefix, step)
        if options.init_checkpoint:
            logging.info("--init_checkpoint is not read when a run resumes.")
        if step > plan.num_train_steps:
            logging.warning(
                "The results are those of step %d, which an earlier run in "
                "this folder made, although this command is for %d steps. For "
                "a shorter run choose another --output_dir.",
                step,
                plan.num_train_steps,
            )
        return step
    raise faults[0]


def _warn_of_changes(
    prefix: str,
    saved: Mapping[str, Any],
    now: Mapping[str, Any],
    names: Collection[str],
) -> None:
    values = {
        name: value
        for name, value in saved.get("flags", {}).items()
        if name in names
    }
    differing = {
        **messages.changes(values, now["flags"]),
        # The choice of `--jit_compile=auto` counts.
        **messages.changes(saved.get("execution", {}), now["execution"]),
        **messages.changes(saved.get("data", {}), now["data"]),
    }
    if differing:
        logging.warning(
            "Resuming from %s with other settings: %s. The result will not be "
            "that of an uninterrupted run.",
            prefix,
            ", ".join(differing.values()),
        )

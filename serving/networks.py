"""Trained networks: their weights, and their outputs for rows of ids."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from modeling import bert, checkpoints, heads
from serving import run_folder, token_rows
from tasks import task as task_lib

# Independent of the policy and of the precision in training.
_DTYPE = "float32"
_MODELS: dict[str, Callable[..., keras.Model]] = {
    run_folder.ANSWER: heads.BertForQuestionAnswering,
    run_folder.CHOOSE: heads.BertForMultipleChoice,
    run_folder.CLASSIFY: heads.BertForSequenceClassification,
    run_folder.EMBED: bert.BertModel,
    run_folder.FILL_MASK: heads.BertForPreTraining,
    run_folder.SCORE: heads.BertForSequenceClassification,
    run_folder.TAG: heads.BertForTokenClassification,
}
_LABELED = (run_folder.CLASSIFY, run_folder.SCORE, run_folder.TAG)


def load(task: str, settings: run_folder.Settings) -> Any:
    """Loads the network of one of `run_folder.TASKS`.

    Returns:
        A model of `heads`, or a `bert.BertModel` to embed.

    Raises:
        ValueError: the checkpoint lacks a weight of the task, or has one that
            is not finite.
    """
    # Zeros, because drawing weights, which are replaced, takes seconds.
    config = dataclasses.replace(settings.config, initializer_range=0.0)
    options: dict[str, Any] = {"dtype": _DTYPE}
    if task in _LABELED:
        options["num_labels"] = settings.known_labels.num_outputs
    if task == run_folder.FILL_MASK:
        options["objective"] = "mlm"  # It reads single texts too.
    return _filled(_MODELS[task](config, **options), settings.model.checkpoint)


def _filled(model: Any, path: str) -> Any:
    """Loads the weights of a model, which must be finite."""
    report = checkpoints.load(model, path, new=model.optional_variables)
    logging.info("%s: %s", path, report)
    checkpoints.check_finite(model, path)
    return model


# ------------------------------------------------------------ Outputs for ids


def outputs_of(
    task: str, model: Any, settings: run_folder.Settings
) -> Callable[..., Mapping[str, tf.Tensor]]:
    """Returns the network as a function of ids.

    Its arguments are `signatures.ID_NAMES`, each `[R, T]` int32 (`[R, C, T]`
    for C choices). Its outputs are, each float32:

    - to classify: `probabilities` `[R, K]`; to score: `score` `[R]`;
    - to choose: `probabilities` `[R, C]`;
    - to answer: `start_logits` and `end_logits`, each `[R, T]`;
    - to tag: `probabilities` `[R, T, K]`;
    - to embed: `sequence_output` `[R, T, D]` and, if the model has it,
      `pooled_output` `[R, D]`.

    Args:
        task: of the model; not `FILL_MASK`.
        model: of `load`.
        settings: of the model.
    """
    kept: tuple[str, ...] = ()
    if task == run_folder.ANSWER:
        kept = ("start_logits", "end_logits")
    elif task == run_folder.EMBED:
        kept = ("sequence_output", "pooled_output")
        kept = kept if settings.model.has_pooler else kept[:1]
    kind = settings.problem_type

    def compute(*ids):
        outputs = model(*ids)
        if kept:
            return {name: outputs[name] for name in kept}
        values = activated(outputs["logits"], kind)
        if task == run_folder.SCORE:
            return {"score": values[:, 0]}
        return {"probabilities": values}

    return compute


def activated(logits: tf.Tensor, problem_type: str) -> tf.Tensor:
    """Returns the probabilities for logits; scores stay unchanged."""
    return {
        task_lib.SINGLE_LABEL: tf.nn.softmax,
        task_lib.MULTI_LABEL: tf.nn.sigmoid,
        task_lib.REGRESSION: tf.identity,
    }[problem_type](logits)


class Network:
    """A model as a function of any number of rows of any length, in float32.

    All signatures of an exported model call this function, so that its graph
    contains the network once. It is traced here, outside of what training
    compiles, so that plain operations are exported.

    Args:
        model: in float32; computed without dropout.
        choose: returns the required part of the model's outputs.
        num_more: number of model inputs after the ids, each `[R, P]` int32.
        rank: of the ids; 3 for `[R, C, T]`.

    Attributes:
        variables: the weights.
    """

    def __init__(
        self,
        model: Any,
        choose: Callable[[Any], Any],
        *,
        num_more: int = 0,
        rank: int = 2,
    ):
        self.variables = [variable.value for variable in model.variables]
        specs = [tf.TensorSpec([None] * rank, tf.int32)] * (3 + num_more)
        self._run = tf.function(
            lambda *values: choose(model(*values)),
            input_signature=specs,
            autograph=False,  # No Python here depends on a tensor.
        )

    def __call__(self, rows: token_rows.ModelInputs, *more: tf.Tensor) -> Any:
        """Returns what `choose` returns, for R rows."""
        return self._run(*vars(rows).values(), *more)

"""Trained models: the descriptions in their folders, and their networks."""

import dataclasses
import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from files import run_files
from modeling import bert, checkpoints, heads
from modeling import config as config_lib
from tasks import task as task_lib
from tasks import text_vectors
from tasks.classification import labels, sentence_pairs
from tasks.squad import squad_answers, squad_features
from training import model_folder
from vocab import tokenization

EMBEDDING = "embedding"  # The encoder of any model.

ID_NAMES = ("input_ids", "input_mask", "segment_ids")
# Independent of the policy and of the precision in training.
_DTYPE = "float32"
_OUTPUT_WEIGHTS = "output_weights"
_MASKED_LM = "cls/predictions/output_bias"
_CAUSAL = "causal"
_POOLER = "bert/pooler/dense/kernel"
_TASK_OF_OUTPUTS = {
    "cls/squad/output_weights": model_folder.QUESTION_ANSWERING,
    "cls/multiple_choice/output_weights": model_folder.MULTIPLE_CHOICE,
}
_THRESHOLD, _VERSION_2 = "null_score_diff_threshold", "version_2_with_negative"
_WITH_LABELS = (model_folder.CLASSIFICATION, model_folder.TAGGING)
# The defaults of the scripts, for folders that do not state a length.
_LENGTHS = {
    model_folder.QUESTION_ANSWERING: 384,
    model_folder.TAGGING: 512,
}
_LENGTH = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A trained model, as the files of its folder describe it.

    Attributes:
        task: one of `model_folder.TASKS`, or `EMBEDDING`.
        checkpoint: the prefix.
        variables: the names of its variables.
        config: the sizes.
        tokenizer: of its vocabulary and casing.
        description: the content of task.json.
        layers: the hidden layers of an embedding.
    """

    task: str
    checkpoint: str
    variables: Collection[str]
    config: config_lib.BertConfig
    tokenizer: tokenization.FullTokenizer
    description: Mapping[str, Any]
    layers: tuple[int, ...] = (-1,)

    @property
    def max_seq_length(self) -> int:
        """The word pieces of a sequence."""
        most = self.config.max_position_embeddings
        if self.task == model_folder.PRETRAINING:
            return most  # Masks are filled at all positions.
        default = min(_LENGTHS.get(self.task, _LENGTH), most)
        return self.description.get("max_seq_length", default)

    @property
    def truncation(self) -> sentence_pairs.Truncation:
        """The rule for long texts."""
        return self._filled(sentence_pairs.Truncation)

    @property
    def label_set(self) -> labels.LabelSet:
        """The labels of a classifier or a tagger."""
        return labels.LabelSet(
            problem_type=self.problem_type,
            names=tuple(self.description.get("labels", ())),
        )

    @property
    def problem_type(self) -> str:
        """The kind of the outputs, one of `task.PROBLEM_TYPES`."""
        return self.description.get("problem_type", task_lib.SINGLE_LABEL)

    @property
    def windows(self) -> squad_features.WindowOptions:
        """How paragraphs are split."""
        return self._filled(squad_features.WindowOptions)

    @property
    def answers(self) -> squad_answers.AnswerOptions:
        """How answers are searched."""
        return self._filled(squad_answers.AnswerOptions)

    @property
    def threshold(self) -> float:
        """The null odds above which there is no answer, in version 2."""
        return float(self.description.get(_THRESHOLD, 0.0))

    def _filled(self, options: type[Any]) -> Any:
        # A value that is not described is the default.
        values = {**self.description, "max_seq_length": self.max_seq_length}
        names = [field.name for field in dataclasses.fields(options)]
        return options(
            **{name: values[name] for name in names if name in values}
        )


def read(
    folder: str, *, best: bool = False, layers: tuple[int, ...] | None = None
) -> Model:
    """Reads the description of a trained model.

    Args:
        folder: of a run or a trial, of the release, or of Hugging Face.
        best: the best checkpoint of the run instead of the latest.
        layers: to embed with these layers, whatever the model's task.

    Raises:
        OSError: a file cannot be read.
        ValueError: there is no model, or several; the folder does not state
            what predicting needs; or the model is not supported.
    """
    if best:
        folder = os.path.join(folder, "best")
    try:
        checkpoint = checkpoints.find(folder)
    except FileNotFoundError as error:
        raise ValueError(
            f"{folder} contains no checkpoint. Pass the --output_dir of a run "
            "that was trained, or the folder of one of its trials."
        ) from error
    shapes = checkpoints.list_variables(checkpoint)
    description = model_folder.read(folder)
    task = _task(description, shapes) if layers is None else EMBEDDING
    _check_described(folder, task, description, shapes)
    config = config_lib.BertConfig.from_checkpoint(folder)
    tokenizer = tokenization.FullTokenizer(
        os.path.join(folder, run_files.VOCABULARY),
        description["do_lower_case"],
        description.get("strip_accents"),
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]")
    config.check_vocabulary(tokenizer.vocab_size, tokenizer.vocab_file)
    if layers is not None:
        text_vectors.check_layers(layers, config.num_hidden_layers)
    model = Model(
        task=task or model_folder.CLASSIFICATION,
        checkpoint=checkpoint,
        variables=shapes.keys(),
        config=config,
        tokenizer=tokenizer,
        description=description,
        layers=layers or (-1,),
    )
    config.check_length(model.max_seq_length)
    return model


def _task(
    description: Mapping[str, Any], variables: Collection[str]
) -> str | None:
    """Returns the task; None for labels of texts or of words."""
    if "task" in description:
        return description["task"]
    for name, task in _TASK_OF_OUTPUTS.items():
        if name in variables:
            return task
    return None if _OUTPUT_WEIGHTS in variables else model_folder.PRETRAINING


def _check_described(
    folder: str,
    task: str | None,
    description: Mapping[str, Any],
    shapes: Mapping[str, Any],
) -> None:
    """Checks that the model is served, and what only task.json can state."""
    if description.get("attention") == _CAUSAL:
        raise ValueError(f"{folder}: left-to-right attention is not served.")
    if task != EMBEDDING and (
        description.get("bilstm_head") or description.get("features")
    ):
        raise ValueError(
            f"{folder}: a BiLSTM below the output layer is not served; "
            "tools.export_model --layers exports its encoder."
        )
    needed: dict[str, Any] = {"do_lower_case": True}
    if task is None:
        needed["task"] = model_folder.CLASSIFICATION
    if task == model_folder.QUESTION_ANSWERING:
        needed[_VERSION_2] = True
    is_score = description.get("problem_type") == task_lib.REGRESSION
    if task in (None, *_WITH_LABELS) and not is_score:
        count = shapes[_OUTPUT_WEIGHTS][0][0]
        needed["labels"] = [f"name of output {i}" for i in range(count)]
    missing = {k: v for k, v in needed.items() if k not in description}
    if missing:
        example = {"task": task, **description, **missing}
        raise ValueError(
            f"No file of {folder} states {', '.join(sorted(missing))} of "
            "the model. Write this, with the right values, to "
            f"{os.path.join(folder, run_files.TASK)}: {json.dumps(example)}. "
            "The script of the task writes it too, with --do_predict, "
            f"--output_dir={folder} and the flags of the training. For folders "
            "of the original program, see docs/migrating_from_tf1.md."
        )
    if description.get(_THRESHOLD) == "auto":
        raise ValueError(
            f"{folder}: the {_THRESHOLD} of auto is not known before "
            "run_squad.py --do_predict --do_eval chose it."
        )


# -------------------------------------------------------------------- Networks


def load(model: Model) -> Any:
    """Loads the network of a model: one of `heads`, or a `bert.BertModel`.

    Raises:
        ValueError: the checkpoint lacks a weight, or has one that is not
            finite.
    """
    # Zeros, because drawing weights, which are replaced, takes seconds.
    config = dataclasses.replace(model.config, initializer_range=0.0)
    make = {
        model_folder.CLASSIFICATION: heads.BertForSequenceClassification,
        model_folder.TAGGING: heads.BertForTokenClassification,
        model_folder.QUESTION_ANSWERING: heads.BertForQuestionAnswering,
        model_folder.MULTIPLE_CHOICE: heads.BertForMultipleChoice,
        model_folder.PRETRAINING: heads.BertForPreTraining,
        EMBEDDING: bert.BertModel,
    }[model.task]
    options: dict[str, Any] = {}
    if model.task in _WITH_LABELS:
        options = {"num_labels": model.label_set.num_outputs}
    if model.task == model_folder.PRETRAINING:
        options = {"objective": "mlm"}  # It reads single texts too.
        if _MASKED_LM not in model.variables:
            raise ValueError(
                f"{model.checkpoint} has no output layer for masked words. "
                "extract_features.py writes its vectors."
            )
    network = make(config, dtype=_DTYPE, **options)
    report = checkpoints.load(
        network, model.checkpoint, new=network.optional_variables
    )
    logging.info("%s: %s", model.checkpoint, report)
    checkpoints.check_finite(network, model.checkpoint)
    return network


def outputs_of(
    model: Model, network: Any
) -> Callable[..., Mapping[str, tf.Tensor]]:
    """Returns the network as a function of ids.

    Its arguments are `ID_NAMES`, each `[R, T]` int32 (`[R, C, T]` for C
    choices). Its outputs are, each float32:

    - of a classifier: `probabilities` `[R, K]`, or `score` `[R]`;
    - of a tagger: `probabilities` `[R, T, K]`; of choices: `[R, C]`;
    - of questions: `start_logits` and `end_logits`, each `[R, T]`;
    - of an encoder: `sequence_output` `[R, T, D]`, the chosen `layers`
      `[R, T, L, D]` and, if the model has it, `pooled_output` `[R, D]`.

    Args:
        model: of `read`, not pre-trained.
        network: of `load`.
    """
    activation = {
        task_lib.SINGLE_LABEL: tf.nn.softmax,
        task_lib.MULTI_LABEL: tf.nn.sigmoid,
    }.get(model.problem_type)

    def compute(input_ids, input_mask, segment_ids):
        outputs = network(input_ids, input_mask, segment_ids)
        if model.task == model_folder.QUESTION_ANSWERING:
            return {k: outputs[k] for k in ("start_logits", "end_logits")}
        if model.task == EMBEDDING:
            every = outputs["all_encoder_layers"]
            found = {
                "sequence_output": outputs["sequence_output"],
                "layers": tf.stack([every[i] for i in model.layers], axis=2),
            }
            if _POOLER in model.variables:
                found["pooled_output"] = outputs["pooled_output"]
            return found
        if activation is None:
            return {"score": outputs["logits"][:, 0]}
        return {"probabilities": activation(outputs["logits"])}

    return compute

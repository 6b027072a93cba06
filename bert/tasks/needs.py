"""Needs of programs: the facts about a model without which they cannot answer.

Nothing is assumed in place of an entry that is missing: the labels, their
order, the length and the casing decide every answer.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence

from bert.files import messages
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from modeling import config as config_lib
from modeling import name_tables

_OUTPUT_WEIGHTS, _OUTPUT_BIAS = "output_weights", "output_bias"
# The variable that the output layer of a task has.
_OUTPUTS = {
    description_lib.QUESTION_ANSWERING: "cls/squad/output_weights",
    description_lib.MULTIPLE_CHOICE: "cls/multiple_choice/output_weights",
    description_lib.CLASSIFICATION: _OUTPUT_WEIGHTS,
    description_lib.TAGGING: _OUTPUT_WEIGHTS,
    description_lib.PRETRAINING: "cls/predictions/output_bias",
}
# The entries that each task needs, besides the casing.
_ENTRIES = {
    description_lib.CLASSIFICATION: (
        "labels",
        "max_seq_length",
        "problem_type",
    ),
    description_lib.TAGGING: ("labels", "max_seq_length"),
    description_lib.QUESTION_ANSWERING: (
        "version_2_with_negative",
        "max_seq_length",
    ),
    description_lib.MULTIPLE_CHOICE: ("max_seq_length",),
    # Masks are filled at all positions of the network.
    description_lib.PRETRAINING: (),
}
_REGRESSION = "regression"
# The activations of a CrossEncoder. A score is that of `identity` if none is
# stated; labels have probabilities also where a file states `identity`.
IDENTITY, SIGMOID = "identity", "sigmoid"
_ACTIVATIONS = {
    _REGRESSION: (SIGMOID,),
    "multi_label": (SIGMOID,),
    "single_label": ("softmax",),
}
# Examples of values, for messages.
_EXAMPLES: Mapping[str, object] = {
    "task": description_lib.CLASSIFICATION,
    "problem_type": "single_label",
    "do_lower_case": True,
    "version_2_with_negative": True,
    "max_seq_length": 128,
}
Spec = name_tables.Spec


def inferred_from_weights(
    variables: Mapping[str, Spec], architectures: Sequence[str] = ()
) -> description_lib.Description:
    """Returns what the variables of a checkpoint show about its model.

    Classifiers and taggers have the same variables; only Hugging Face's name
    of the class tells them apart.

    Args:
        variables: shapes and types by the release's name.
        architectures: Hugging Face's names of the classes, if known.
    """
    description = description_lib.Description()
    if name_tables.TOKEN_CLASSIFICATION in architectures:
        return dataclasses.replace(description, task=description_lib.TAGGING)
    if name_tables.SEQUENCE_CLASSIFICATION in architectures:
        description = dataclasses.replace(
            description, task=description_lib.CLASSIFICATION
        )
    if variables.get(_OUTPUT_BIAS, (None,))[0] == (1,):
        return dataclasses.replace(
            description,
            task=description_lib.CLASSIFICATION,
            problem_type=_REGRESSION,
            labels=(),
        )
    if _OUTPUT_WEIGHTS in variables:
        return description
    for task, name in _OUTPUTS.items():
        if name in variables:
            return dataclasses.replace(description, task=task)
    return description


def missing_entries(
    description: description_lib.Description, *, has_outputs: bool
) -> tuple[str, ...]:
    """Lists the entries without which a model cannot answer.

    Args:
        description: what is known of the model.
        has_outputs: whether the weights have an output layer of labels.
    """
    needed: tuple[str, ...] = ("do_lower_case",)
    if description.task is None and has_outputs:
        needed += ("task", *_ENTRIES[description_lib.CLASSIFICATION])
    needed += _ENTRIES.get(description.task or "", ())
    if description.problem_type == _REGRESSION:
        needed = tuple(name for name in needed if name != "labels")
    return tuple(n for n in needed if description.stated(n) is None)


def check_answerable(
    model: folder_lib.ModelFolder,
    description: description_lib.Description,
    variables: Mapping[str, Spec],
    *,
    embeds: bool = False,
) -> None:
    """Checks that a model can answer texts, and asks for what is missing.

    Args:
        model: the folder.
        description: what its files and its weights say.
        variables: of its checkpoint.
        embeds: whether only the encoder is used.

    Raises:
        ValueError: the task is unknown here, the weights have no output layer
            of the task, or the files lack an entry; the message names it.
    """
    task = None if embeds else description.task
    has_outputs = _OUTPUT_WEIGHTS in variables and not embeds
    if task is not None:
        _check_task(model, task, variables)
    missing = missing_entries(
        dataclasses.replace(description, task=task, problem_type=None)
        if embeds
        else description,
        has_outputs=has_outputs,
    )
    count = variables[_OUTPUT_WEIGHTS][0][0] if has_outputs else 0
    if missing:
        example = {
            **_EXAMPLES,
            "labels": [f"name of output {i}" for i in range(count)],
        }
        values = description.to_json() | {n: example[n] for n in missing}
        raise ValueError(
            f"No file of {model.path} states {', '.join(sorted(missing))} of "
            "the model. Write this, with the right values, to "
            f"{os.path.join(model.path, description_lib.FILE)}: "
            f"{json.dumps(values)}. "
            "The script of the task writes it too, with --do_predict, "
            f"--output_dir={model.path} and the flags of the training. For "
            "folders of the original, see docs/migrating_from_tf1.md."
        )
    if task in description_lib.WITH_LABELS:
        check_outputs(description, count, model.path)


def _check_task(
    model: folder_lib.ModelFolder, task: str, variables: Mapping[str, Spec]
) -> None:
    if task not in description_lib.TASKS:
        raise ValueError(
            f"{model.path}: the task is {task!r}; the tasks of this program "
            f"are {', '.join(description_lib.TASKS)}. The script that trained "
            "the model predicts with it."
        )
    # Weights without an output layer for masked words still embed texts.
    if task != description_lib.PRETRAINING and _OUTPUTS[task] not in variables:
        said_by = model.sources.get("task", "the checkpoint")
        raise ValueError(
            f"{model.path}: according to {said_by}, the task is {task}, but "
            f"{model.checkpoint} has no output layer of it "
            f"({_OUTPUTS[task]}). Does the description belong to another model?"
        )


def files(
    model: folder_lib.ModelFolder,
) -> tuple[config_lib.BertConfig, str]:
    """Returns the configuration and the vocabulary of a model.

    Raises:
        FileNotFoundError: one is missing; the message names the files.
    """
    config, vocab_file = model.config, model.vocab_file
    if config is None or vocab_file is None:
        missing = [
            name
            for name, file in (
                ("bert_config.json, or Hugging Face's config.json", config),
                ("vocab.txt, or Hugging Face's tokenizer.json", vocab_file),
            )
            if file is None
        ]
        raise FileNotFoundError(
            f"{model.path} must have {'; and '.join(missing)}. docs/models.md "
            "says where those of released models are."
        )
    return config, vocab_file


def check_outputs(
    description: description_lib.Description, num_outputs: int, origin: str
) -> None:
    """Checks that the outputs of a classifier or tagger can be answered.

    Raises:
        ValueError: the problem type is unknown, there are several scores, the
            number of labels is not that of the outputs, or the activation is
            not supported.
    """
    problem, labels = description.problem_type, description.labels or ()
    if problem is not None:
        messages.check_choice(f"{origin}: problem_type", problem, _ACTIVATIONS)
    if problem == _REGRESSION and num_outputs > 1:
        names = f" ({messages.listed(labels)})" if labels else ""
        raise ValueError(
            f"{origin}: problem_type is {problem} and the model has "
            f"{num_outputs} outputs{names}. Several scores of one text are not "
            "supported."
        )
    if labels:
        check_labels(labels, num_outputs, origin)
    activations = _ACTIVATIONS.get(problem or "", ())
    if description.activation not in (None, IDENTITY, *activations):
        raise ValueError(
            f"{origin}: the activation of the outputs must be "
            f"{' or '.join((IDENTITY, *activations))}; got "
            f"{description.activation!r:.60}."
        )


def check_labels(labels: Sequence[str], num_outputs: int, origin: str) -> None:
    """Checks that there is a label for each output of a model.

    Raises:
        ValueError: their numbers differ.
    """
    if len(labels) != num_outputs:
        raise ValueError(
            f"{origin}: the model has {num_outputs} outputs; got "
            f"{len(labels)} labels: {messages.listed(labels)}."
        )

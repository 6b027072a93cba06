"""Contents of the folder of a training run: checkpoint, task, text options."""

import dataclasses
import itertools
import os
import re
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from files import json_text, lines, messages, paths
from modeling import checkpoints
from tasks import swag
from tasks.classification import labels

ANSWER, CHOOSE, CLASSIFY, EMBED = "answer", "choose", "classify", "embed"
FILL_MASK, SCORE, TAG = "fill_mask", "score", "tag"
TASKS = (CLASSIFY, SCORE, CHOOSE, ANSWER, TAG, EMBED, FILL_MASK)

_ENCODER = "bert/embeddings/word_embeddings"
_POOLER = "bert/pooler/dense/kernel"
_OUTPUT_LAYER = "output_weights"
_BILSTM = "bilstm/"
BIDIRECTIONAL = "bidirectional_"  # Begins the LSTMs of a tagger on features.
_TRIALS = "trials.json"
_TAGS = "tags"  # Begins the name of what run_ner.py trains.
_SPLITS = ("train", "eval", "predict")
_ENDINGS = (".tf_record", "_features.tf_record")
# Types of what is taken from a sidecar and from its flags.
_SIDECAR = {"max_seq_length": int, "kind": str, "flags": dict}
_RUN_CARD = "run_card.json"
_RESULTS = "eval_results.txt"
_THRESHOLD, CHOSEN = "null_score_diff_threshold", "auto"
_SEARCH = ("n_best_size", "max_answer_length", _THRESHOLD)
_WINDOWS = ("doc_stride", "max_query_length", "version_2_with_negative")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """A checkpoint and what can be told from its variables.

    Attributes:
        checkpoint: its prefix.
        variables: the names of its variables.
    """

    checkpoint: str
    variables: Collection[str]

    @property
    def has_pooler(self) -> bool:
        """Returns whether the pooler is in it."""
        return _POOLER in self.variables

    @property
    def is_feature_tagger(self) -> bool:
        """Tells whether it holds LSTMs above an encoder that lies elsewhere."""
        return _ENCODER not in self.variables


@dataclasses.dataclass(frozen=True, kw_only=True)
class FrozenEncoder:
    """The encoder below a tagger on features.

    Attributes:
        checkpoint: its own.
        layers: those whose outputs make a word; 0 is the embeddings.
    """

    checkpoint: str
    layers: tuple[int, ...]


def weights(path: str) -> Weights:
    """Looks into a checkpoint.

    Args:
        path: a prefix, one of its files, or a folder.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it is broken, does not hold an encoder, or reads from left
            to right.
    """
    prefix = checkpoints.resolve(path)
    if checkpoints.is_causal(_identity(prefix)):
        raise ValueError(
            f"{prefix} was trained from left to right (--objective=ltr, "
            "--attention=causal), which no exported model is: it would read "
            "text in both directions. Export a model of BERT."
        )
    names = checkpoints.list_variables(prefix).keys()
    if _ENCODER not in names and not any(
        name.startswith(BIDIRECTIONAL) for name in names
    ):
        raise ValueError(
            f"Checkpoint {prefix!r} must hold the encoder ({_ENCODER}); it "
            "does not."
        )
    return Weights(checkpoint=prefix, variables=names)


def weights_of_run(folder: str, *, best: bool = False) -> Weights:
    """Looks into the latest checkpoint of a run, or the best one.

    Raises:
        ValueError: there is none; or as `weights`.
    """
    place = os.path.join(folder, "best") if best else folder
    try:
        return weights(place)
    except FileNotFoundError as error:
        raise ValueError(_no_checkpoint(place)) from error


def task_of(found: Weights, run: Mapping[str, Any]) -> str:
    """Tells what a model was made for.

    Args:
        found: its checkpoint.
        run: what `read` found in its folder.

    Raises:
        ValueError: it has a BiLSTM, or its labels are not known.
    """
    names = found.variables
    if any(name.startswith(_BILSTM) for name in names):
        raise ValueError(
            f"{found.checkpoint} has a BiLSTM below its output layer "
            "(--bilstm_head), which no exported model has. Its encoder can be "
            "exported with --task=embed."
        )
    if "cls/squad/output_weights" in names:
        return ANSWER
    if "cls/multiple_choice/output_weights" in names:
        return CHOOSE
    if _OUTPUT_LAYER in names:
        return _task_of_labels(found, run)
    return FILL_MASK if "cls/predictions/output_bias" in names else EMBED


def _task_of_labels(found: Weights, run: Mapping[str, Any]) -> str:
    if "labels" not in run:
        raise ValueError(
            f"{found.checkpoint} has an output layer, but no labels.json lies "
            "beside it to say what it answers. Pass the --output_dir of the "
            "run as --model_dir."
        )
    if run.get("is_tagger") or found.is_feature_tagger:
        return TAG
    is_score = run["labels"].problem_type == labels.REGRESSION
    return SCORE if is_score else CLASSIFY


def check_task(task: str, found: Weights, run: Mapping[str, Any]) -> None:
    """Checks that a model can do what is asked.

    Raises:
        ValueError: it was made for another task; names it.
    """
    if task == EMBED and not found.is_feature_tagger:
        return  # Every other model has an encoder.
    if task == FILL_MASK and "cls/predictions/output_bias" in found.variables:
        return
    own = task_of(found, run)
    # A folder may not tell a tagger from a classifier: both have labels.
    is_unsure = "is_tagger" not in run and {own, task} <= {CLASSIFY, TAG}
    if own != task and not is_unsure:
        raise ValueError(
            f"--task={task} asks for another model than {found.checkpoint}, "
            f"which was made for {own}. Pass --task={own}, or the folder of "
            "another run."
        )


def read(folder: str) -> dict[str, Any]:
    """Reads what lies beside a model, as far as it is there.

    Returns:
        Some of: `bert_config_file`, `vocab_file`, `do_lower_case`,
        `vocab_sha256`, `labels` (a `labels.LabelSet`), `is_tagger`,
        `max_seq_length`, and how records were made: `long_text`,
        `window_stride`, `doc_stride`, `max_query_length`,
        `version_2_with_negative`, `encoder_layers` and `encoder_sha256`. Of
        the program that ran last: `n_best_size`, `max_answer_length`,
        `null_score_diff_threshold` and `encoder`, the checkpoint of a frozen
        one.

    Raises:
        ValueError: the folder is not there, or a file is not what it should
            be.
    """
    if not tf.io.gfile.isdir(folder):
        raise ValueError(
            f"The model must be the --output_dir of a training run; {folder} "
            "is no folder."
        )
    found = _files(folder)
    found |= _json(os.path.join(folder, "tokenizer.json"))
    label_file = os.path.join(folder, "labels.json")
    # That of a model of choices names no labels.
    is_choice = _json(label_file).get("problem_type") == swag.PROBLEM_TYPE
    if paths.exists(label_file) and not is_choice:
        found["labels"] = labels.load(label_file)
    found |= _of_state(folder)
    places = [folder]
    parent = os.path.dirname(os.path.abspath(folder))
    if paths.exists(os.path.join(parent, _TRIALS)):
        places.append(parent)  # Trials share the records of their run.
    for place in places:
        found |= _of_card(_json(os.path.join(place, _RUN_CARD)))
    if found.get(_THRESHOLD) == CHOSEN:
        found[_THRESHOLD] = _chosen_threshold(folder)
    for place, split, ending in itertools.product(places, _SPLITS, _ENDINGS):
        sidecar = os.path.join(place, f"{split}{ending}.meta.json")
        if made := _json(sidecar):
            return found | _of_records(_checked(made, _SIDECAR, sidecar))
    return found


def _no_checkpoint(folder: str) -> str:
    """Says what is wrong with a folder without a checkpoint."""
    trials = os.path.join(folder, _TRIALS)
    if paths.exists(trials):
        return (
            f"{folder} holds several trials. Pass the folder of one, such as "
            f"the best one that {trials} names."
        )
    return (
        f"{folder} holds no trained model: no checkpoint is in it. Pass the "
        "--output_dir of a run that was trained."
    )


def _files(folder: str) -> dict[str, Any]:
    names = {
        "bert_config_file": "bert_config.json",
        "vocab_file": "vocab.txt",
    }
    at = {key: os.path.join(folder, name) for key, name in names.items()}
    return {key: path for key, path in at.items() if paths.exists(path)}


def _of_state(folder: str) -> dict[str, Any]:
    """Picks from the state beside the latest checkpoint what was trained."""
    try:
        prefix = checkpoints.resolve(folder)
    except FileNotFoundError:
        return {}
    identity = _identity(prefix)
    # A pre-trained model reads as many tokens as it has positions.
    is_pretrained = "max_predictions_per_seq" in identity
    found = {}
    if "max_seq_length" in identity and not is_pretrained:
        found["max_seq_length"] = identity["max_seq_length"]
    if "objective" in identity:
        found["is_tagger"] = identity["objective"].startswith(_TAGS)
    return found


def _identity(prefix: str) -> Mapping[str, Any]:
    """Reads what the run that wrote a checkpoint says of itself, if it does."""
    path = f"{prefix}.state.json"
    state = _checked(_json(path), {"identity": dict}, path)
    return _checked(
        state.get("identity", {}),
        {"max_seq_length": int, "objective": str},
        path,
    )


def _of_records(made: Mapping[str, Any]) -> dict[str, Any]:
    """Picks from a sidecar how texts became records."""
    made_from = made.get("flags", {})
    found = {"is_tagger": made.get("kind") == "tagging"}
    if "max_seq_length" in made:
        found["max_seq_length"] = made["max_seq_length"]
    kept = (*_WINDOWS, "encoder_sha256")
    found |= {key: made_from[key] for key in kept if key in made_from}
    if "layers" in made_from:
        found["encoder_layers"] = made_from["layers"]
    return found | _packing(str(made_from.get("packing", "")))


def _of_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Picks from a run card what nothing else records."""
    said = card.get("flags", {})
    found = {key: said[key] for key in _SEARCH if key in said}
    if said.get("features") and said.get("init_checkpoint"):
        found["encoder"] = said["init_checkpoint"]
    return found


def _chosen_threshold(folder: str) -> float | str:
    """Reads the threshold that an evaluation chose; `CHOSEN` if unknown."""
    path = os.path.join(folder, _RESULTS)
    for line in lines.read_lines(path) if paths.exists(path) else ():
        name, _, value = line.partition(" = ")
        if name == _THRESHOLD:
            return float(value)
    return CHOSEN


def _packing(text: str) -> dict[str, Any]:
    """Reads how texts were fitted: the `repr` of `sentence_pairs.Packing`."""
    found = {}
    if said := re.search(r"\blong_text='(\w+)'", text):
        found["long_text"] = said[1]
    if said := re.search(r"\bwindow_stride=(\d{1,9}|None)\b", text):
        found["window_stride"] = None if said[1] == "None" else int(said[1])
    return found


def _checked(
    values: Mapping[str, Any], kinds: Mapping[str, type], path: str
) -> Mapping[str, Any]:
    """Checks the types of values, as far as they are there."""
    for name, kind in kinds.items():
        if name in values and type(values[name]) is not kind:
            raise ValueError(
                f"{path}: {name} must be of type {kind.__name__}; got "
                f"{messages.short(values[name])}."
            )
    return values


def _json(path: str) -> dict[str, Any]:
    """Reads a JSON object; an empty one where there is no file."""
    if not paths.exists(path):
        return {}
    return json_text.read_object(path)

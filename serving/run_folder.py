"""Contents of a run's folder: checkpoint, task and text options."""

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
BIDIRECTIONAL = "bidirectional_"  # Prefix of LSTMs of a tagger on features.
_TRIALS = "trials.json"
_TAGS = "tags"  # Prefix of the objectives of run_ner.py.
_SPLITS = ("train", "eval", "predict")
_ENDINGS = (".tf_record", "_features.tf_record")
# Types of the entries of a sidecar.
_SIDECAR = {"max_seq_length": int, "kind": str, "flags": dict}
_RUN_CARD = "run_card.json"
_RESULTS = "eval_results.txt"
_THRESHOLD, CHOSEN = "null_score_diff_threshold", "auto"
_SEARCH = ("n_best_size", "max_answer_length", _THRESHOLD)
_WINDOWS = ("doc_stride", "max_query_length", "version_2_with_negative")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """A checkpoint and its variables.

    Attributes:
        checkpoint: its prefix.
        variables: the names of its variables.
    """

    checkpoint: str
    variables: Collection[str]

    @property
    def has_pooler(self) -> bool:
        """Whether the checkpoint has a pooler."""
        return _POOLER in self.variables

    @property
    def is_feature_tagger(self) -> bool:
        """Whether it is a tagger without its encoder."""
        return _ENCODER not in self.variables


@dataclasses.dataclass(frozen=True, kw_only=True)
class FrozenEncoder:
    """The encoder below a tagger on features.

    Attributes:
        checkpoint: of the encoder.
        layers: those that are the features; 0 is the embeddings.
    """

    checkpoint: str
    layers: tuple[int, ...]


def weights(path: str) -> Weights:
    """Reads the names in a checkpoint.

    Args:
        path: a prefix, one of its files, or a folder.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it is broken, has no encoder, or is left-to-right.
    """
    prefix = checkpoints.find(path).path
    if checkpoints.is_causal(_identity(prefix)):
        raise ValueError(
            f"{prefix} was trained from left to right (--objective=ltr, "
            "--attention=causal). Exported models are bidirectional. Export a "
            "model of BERT."
        )
    names = checkpoints.list_variables(prefix).keys()
    if _ENCODER not in names and not any(
        name.startswith(BIDIRECTIONAL) for name in names
    ):
        raise ValueError(
            f"Checkpoint {prefix!r} must contain the encoder ({_ENCODER}); it "
            "does not."
        )
    return Weights(checkpoint=prefix, variables=names)


def weights_of_run(folder: str, *, best: bool = False) -> Weights:
    """Reads the names in the latest checkpoint of a run, or the best one.

    Raises:
        ValueError: there is none; or as `weights`.
    """
    place = os.path.join(folder, "best") if best else folder
    try:
        return weights(place)
    except FileNotFoundError as error:
        trials = os.path.join(place, _TRIALS)
        if paths.exists(trials):
            raise ValueError(
                f"{place} contains several trials. Pass the folder of one, "
                f"such as the best one in {trials}."
            ) from error
        raise ValueError(
            f"{place} contains no checkpoint. Pass the --output_dir of a run "
            "that was trained."
        ) from error


def task_of(found: Weights, run: Mapping[str, Any]) -> str:
    """Returns the task of a model.

    Args:
        found: its checkpoint.
        run: the contents of its folder, of `read`.

    Raises:
        ValueError: it has a BiLSTM, or its labels are unknown.
    """
    names = found.variables
    if any(name.startswith(_BILSTM) for name in names):
        raise ValueError(
            f"{found.checkpoint} has a BiLSTM below its output layer "
            "(--bilstm_head), which cannot be exported. Its encoder can, with "
            "--task=embed."
        )
    if "cls/squad/output_weights" in names:
        return ANSWER
    if "cls/multiple_choice/output_weights" in names:
        return CHOOSE
    if _OUTPUT_LAYER not in names:
        return FILL_MASK if "cls/predictions/output_bias" in names else EMBED
    if "labels" not in run:
        raise ValueError(
            f"{found.checkpoint} has an output layer, but no labels.json with "
            "its labels. Pass the --output_dir of the run as --model_dir."
        )
    if run.get("is_tagger") or found.is_feature_tagger:
        return TAG
    is_score = run["labels"].problem_type == labels.REGRESSION
    return SCORE if is_score else CLASSIFY


def check_task(task: str, found: Weights, run: Mapping[str, Any]) -> None:
    """Checks that a model is for a task.

    Raises:
        ValueError: it is for another task, which the message names.
    """
    if task == EMBED and not found.is_feature_tagger:
        return  # Every other model has an encoder.
    if task == FILL_MASK and "cls/predictions/output_bias" in found.variables:
        return
    own = task_of(found, run)
    # A folder may not distinguish a tagger from a classifier.
    is_unsure = "is_tagger" not in run and {own, task} <= {CLASSIFY, TAG}
    if own != task and not is_unsure:
        raise ValueError(
            f"--task={task} does not fit {found.checkpoint}, which was made "
            f"for {own}. Pass --task={own}, or the folder of another run."
        )


def read(folder: str) -> dict[str, Any]:
    """Reads the files of a model's folder, as far as they exist.

    Returns:
        Some of: `bert_config_file`, `vocab_file`, `do_lower_case`,
        `vocab_sha256`, `labels` (a `labels.LabelSet`), `is_tagger`,
        `max_seq_length`; of the records: `long_text`, `window_stride`,
        `doc_stride`, `max_query_length`, `version_2_with_negative`,
        `encoder_layers` and `encoder_sha256`; of the last program:
        `n_best_size`, `max_answer_length`, `null_score_diff_threshold` and
        `encoder`, the checkpoint of a frozen one.

    Raises:
        ValueError: the folder does not exist, or a file is invalid.
    """
    if not tf.io.gfile.isdir(folder):
        raise ValueError(
            f"The model must be the --output_dir of a training run; {folder} "
            "is not a folder."
        )
    files = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
    places = {k: os.path.join(folder, name) for k, name in files.items()}
    found: dict[str, Any] = {
        key: path for key, path in places.items() if paths.exists(path)
    }
    found |= _json(os.path.join(folder, "tokenizer.json"))
    label_file = os.path.join(folder, "labels.json")
    # That of SWAG has no labels.
    is_choice = _json(label_file).get("problem_type") == swag.PROBLEM_TYPE
    if paths.exists(label_file) and not is_choice:
        found["labels"] = labels.load(label_file)
    found |= _of_state(folder)
    folders = [folder]
    parent = os.path.dirname(os.path.abspath(folder))
    if paths.exists(os.path.join(parent, _TRIALS)):
        folders.append(parent)  # Trials share the records of their run.
    for place in folders:
        found |= _of_card(_json(os.path.join(place, _RUN_CARD)))
    if found.get(_THRESHOLD) == CHOSEN:
        found[_THRESHOLD] = _chosen_threshold(folder)
    for place, split, ending in itertools.product(folders, _SPLITS, _ENDINGS):
        sidecar = os.path.join(place, f"{split}{ending}.meta.json")
        if made := _json(sidecar):
            return found | _of_records(_checked(made, _SIDECAR, sidecar))
    return found


def _of_state(folder: str) -> dict[str, Any]:
    try:
        prefix = checkpoints.find(folder).path
    except FileNotFoundError:
        return {}
    identity = _identity(prefix)
    # A pre-trained model may use all of its positions.
    is_pretrained = "max_predictions_per_seq" in identity
    found = {}
    if "max_seq_length" in identity and not is_pretrained:
        found["max_seq_length"] = identity["max_seq_length"]
    if "objective" in identity:
        found["is_tagger"] = identity["objective"].startswith(_TAGS)
    return found


def _identity(prefix: str) -> Mapping[str, Any]:
    """Reads the identity of the run that wrote a checkpoint, if it is known."""
    path = f"{prefix}.state.json"
    state = _checked(_json(path), {"identity": dict}, path)
    return _checked(
        state.get("identity", {}),
        {"max_seq_length": int, "objective": str},
        path,
    )


def _of_records(made: Mapping[str, Any]) -> dict[str, Any]:
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
    """Returns the entries of a run card that are in no other file."""
    given = card.get("flags", {})
    found = {key: given[key] for key in _SEARCH if key in given}
    if given.get("features") and given.get("init_checkpoint"):
        found["encoder"] = given["init_checkpoint"]
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
    """Parses the `repr` of a `sentence_pairs.Packing`."""
    found: dict[str, Any] = {}
    if match := re.search(r"\blong_text='(\w+)'", text):
        found["long_text"] = match[1]
    if match := re.search(r"\bwindow_stride=(\d{1,9}|None)\b", text):
        found["window_stride"] = None if match[1] == "None" else int(match[1])
    return found


def _checked(
    values: Mapping[str, Any], kinds: Mapping[str, type], path: str
) -> Mapping[str, Any]:
    for name, kind in kinds.items():
        if name in values and type(values[name]) is not kind:
            raise ValueError(
                f"{path}: {name} must be of type {kind.__name__}; got "
                f"{messages.short(values[name])}."
            )
    return values


def _json(path: str) -> dict[str, Any]:
    if not paths.exists(path):
        return {}
    return json_text.read_object(path)

"""Trained models in the folders of their runs: task, checkpoint, settings."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Collection, Mapping
from typing import Any

from files import paths, result_files, run_files
from modeling import checkpoints, name_tables
from modeling import config as config_lib
from tasks import swag
from tasks import task as task_lib
from tasks.classification import labels, sentence_pairs
from tasks.squad import squad_answers, squad_features, squad_results
from training import model_files
from vocab import tokenization

ANSWER, CHOOSE, CLASSIFY, EMBED = "answer", "choose", "classify", "embed"
FILL_MASK, SCORE, TAG = "fill_mask", "score", "tag"
TASKS = (CLASSIFY, SCORE, CHOOSE, ANSWER, TAG, EMBED, FILL_MASK)

_POOLER = "bert/pooler/dense/kernel"
_OUTPUT_LAYER = "output_weights"
_MASKED_LM = "cls/predictions/output_bias"
# Variables of heads that are not served.
_LSTMS = ("bilstm/", "features/")
_SPLITS = ("train", "eval", "predict")
_ENDINGS = (".tf_record", "_features.tf_record")
# Types of the entries of a sidecar.
_SIDECAR = {"max_seq_length": int, "kind": str, "flags": dict}
_THRESHOLD, _CHOSEN = "null_score_diff_threshold", "auto"
_SEARCH = ("n_best_size", "max_answer_length")
_SHORTENING, _SHORTENED = ("packing", "bucket_by_length"), "removes_padding"
_WINDOWS = ("doc_stride", "max_query_length")
_VERSION_2 = "version_2_with_negative"
_READING = ("long_text", "window_stride", *_WINDOWS, _VERSION_2)
# The defaults of the scripts, if neither the flags nor the run state a length.
_LENGTHS = {
    **dict.fromkeys((CLASSIFY, SCORE, CHOOSE, EMBED), 128),
    ANSWER: squad_features.WindowOptions.max_seq_length,
    TAG: 512,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A trained model, as its checkpoint and the files of its folder state it.

    Attributes:
        checkpoint: the prefix.
        variables: the names of the variables.
        architectures: Hugging Face's names of the classes, if known.
        values: the settings of the folder, of `read`.
    """

    checkpoint: str
    variables: Collection[str]
    architectures: tuple[str, ...]
    values: Mapping[str, Any]

    @property
    def has_pooler(self) -> bool:
        """Whether the checkpoint has a pooler."""
        return _POOLER in self.variables

    @property
    def _labels_words(self) -> bool | None:
        """Whether the output layer labels words; None if unknown."""
        if self.architectures:
            return name_tables.TOKEN_CLASSIFICATION in self.architectures
        return self.values.get("is_tagger")

    @property
    def task(self) -> str:
        """One of `TASKS`.

        Raises:
            ValueError: it has a BiLSTM, or its labels are unknown.
        """
        names = self.variables
        if any(name.startswith(_LSTMS) for name in names):
            raise ValueError(
                f"{self.checkpoint} has a BiLSTM below its output layer "
                "(--bilstm_head, --features), which this tool does not "
                "support. Only its "
                "encoder can be exported (tools.export_model --task=embed)."
            )
        if "cls/squad/output_weights" in names:
            return ANSWER
        if "cls/multiple_choice/output_weights" in names:
            return CHOOSE
        if _OUTPUT_LAYER not in names:
            return FILL_MASK if _MASKED_LM in names else EMBED
        if "labels" not in self.values:
            raise ValueError(
                f"{self.checkpoint} has an output layer, but no labels.json "
                "with its labels. Pass the --output_dir of its run."
            )
        if self._labels_words:
            return TAG
        is_score = self.values["labels"].problem_type == task_lib.REGRESSION
        return SCORE if is_score else CLASSIFY

    def check_task(self, task: str) -> None:
        """Checks that the model is for a task.

        Raises:
            ValueError: it is for another task, which the message names.
        """
        if task == EMBED:
            return  # Every other model has an encoder.
        if task == FILL_MASK and _MASKED_LM in self.variables:
            return
        own = self.task
        # A folder may not distinguish a tagger from a classifier.
        is_unsure = self._labels_words is None and task in (CLASSIFY, TAG)
        if own == CLASSIFY and is_unsure:
            return
        if own != task:
            raise ValueError(
                f"--task={task} does not fit {self.checkpoint}, whose task is "
                f"{own}. Pass --task={own}, or the folder of another run."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """Options for answering questions.

    Attributes:
        windows: how paragraphs are split.
        answers: how answers are searched.
        threshold: in version 2 "no answer" wins above it; None in version 1.
        removes_padding: whether the run predicted without the padding of its
            windows, which otherwise competes for the best places.
    """

    windows: squad_features.WindowOptions = dataclasses.field(
        default_factory=squad_features.WindowOptions
    )
    answers: squad_answers.AnswerOptions = dataclasses.field(
        default_factory=squad_answers.AnswerOptions
    )
    threshold: float | None = None
    removes_padding: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a model.

    Attributes:
        model: its checkpoint.
        config: its sizes.
        vocab_file: its vocabulary.
        do_lower_case: whether text is lower-cased.
        truncation: how texts are truncated; `max_seq_length` is for all tasks.
        label_set: its labels; None except for labels, scores and tags.
        answering: options for questions.
        layers: the hidden layers of an embedding.
        top_k: candidates for a mask.
    """

    model: Model
    config: config_lib.BertConfig
    vocab_file: str
    do_lower_case: bool
    truncation: sentence_pairs.Truncation
    label_set: labels.LabelSet | None = None
    answering: Reading = dataclasses.field(default_factory=Reading)
    layers: tuple[int, ...] = (-1,)
    top_k: int = 5

    @functools.cached_property
    def tokenizer(self) -> tokenization.FullTokenizer:
        """The definition of the tokenizer."""
        return tokenization.FullTokenizer(self.vocab_file, self.do_lower_case)

    @property
    def known_labels(self) -> labels.LabelSet:
        """The labels.

        Raises:
            ValueError: there are none.
        """
        if self.label_set is None:
            raise ValueError("The labels must be given for this task.")
        return self.label_set

    @property
    def problem_type(self) -> str:
        """The kind of the outputs, one of `task.PROBLEM_TYPES`."""
        found = self.label_set
        return found.problem_type if found else task_lib.SINGLE_LABEL


def find(
    folder: str | None, checkpoint: str | None = None, *, best: bool = False
) -> Model:
    """Finds a trained model.

    Args:
        folder: of its run; None for a checkpoint alone.
        checkpoint: a prefix, one of its files, or a folder, instead of the
            checkpoint of the run.
        best: the best checkpoint of the run instead of the latest.

    Raises:
        FileNotFoundError: there is no `checkpoint`.
        ValueError: the folder does not exist; the run has none, or several;
            a file is invalid; or the model has no encoder, or is
            left-to-right.
    """
    if folder and not paths.is_folder(folder):
        raise ValueError(
            f"The model must be the --output_dir of a training run; {folder} "
            "is not a folder."
        )
    path = checkpoint or folder or ""
    if best and not checkpoint:
        path = os.path.join(path, "best")
    try:
        prefix = checkpoints.find(path).path
    except FileNotFoundError as error:
        if checkpoint:
            raise
        trials = os.path.join(path, run_files.TRIALS)
        raise ValueError(
            f"{path} contains several trials. Pass the folder of one, such as "
            f"the best one in {trials}."
            if paths.exists(trials)
            else f"{path} contains no checkpoint. Pass the --output_dir of a "
            "run that was trained."
        ) from error
    values = read(folder, prefix) if folder else {}
    model_files.check_bidirectional(prefix)
    with checkpoints.opened(prefix) as source:
        names = source.variables.keys()
        architectures = model_files.architectures(source)
    if name_tables.WORD_EMBEDDINGS not in names:
        raise ValueError(
            f"Checkpoint {prefix!r} must contain the encoder "
            f"({name_tables.WORD_EMBEDDINGS}); it does not."
        )
    return Model(
        checkpoint=prefix,
        variables=names,
        architectures=architectures,
        values=values,
    )


# ------------------------------------------------------- The files of a folder


def read(folder: str, checkpoint: str | None = None) -> dict[str, Any]:
    """Reads the existing files of a model's folder.

    Args:
        folder: of a run, or of its best checkpoint.
        checkpoint: the prefix of the selected one, whose state replaces that
            of the folder's; None for the latter.

    Returns:
        Some of: `bert_config_file`, `vocab_file`, `do_lower_case`,
        `vocab_sha256`, `labels` (a `labels.LabelSet`), `is_tagger`,
        `max_seq_length`; of the records, or else of the last program that wrote
        a run card: `long_text`, `window_stride`, `doc_stride`,
        `max_query_length` and `version_2_with_negative`; of the records:
        `encoder_layers` and `encoder_sha256`; of that card: `n_best_size`,
        `max_answer_length`, `null_score_diff_threshold`, `removes_padding` and
        `encoder`, the checkpoint of a frozen one.

    Raises:
        ValueError: a file is invalid.
    """
    found: dict[str, Any] = {}
    for key, name in (
        ("bert_config_file", config_lib.FILE),
        ("vocab_file", run_files.VOCABULARY),
    ):
        if paths.exists(path := os.path.join(folder, name)):
            found[key] = path
    found |= model_files.read(folder, run_files.TOKENIZER)
    # Folders of Hugging Face's format state it elsewhere.
    if casing := model_files.casing(folder):
        found["do_lower_case"] = casing.do_lower_case
    label_file = os.path.join(folder, run_files.LABELS)
    if paths.exists(label_file):
        values = model_files.read(folder, run_files.LABELS)
        if values.get("problem_type") != swag.PROBLEM_TYPE:  # It has none.
            found["labels"] = labels.load(label_file)
    for path in filter(None, (folder, checkpoint)):
        found |= _of_checkpoint(path)
    run, folders = folder, [folder]
    if paths.exists(os.path.join(folder, run_files.BEST_RECORD)):
        run = _parent(folder)  # The records and the card are there.
        folders.append(run)
    parent = _parent(run)
    if paths.exists(os.path.join(parent, run_files.TRIALS)):
        folders.append(parent)  # Trials share the records of their run.
    for place in reversed(folders):  # The card of a trial replaces the run's.
        found |= _of_card(place, run, checkpoint)
    for place, split, ending in itertools.product(folders, _SPLITS, _ENDINGS):
        name = f"{split}{ending}{paths.SIDECAR_ENDING}"
        if sidecar := model_files.read(place, name, **_SIDECAR):
            return found | _of_records(sidecar)
    return found


def _parent(folder: str) -> str:
    # `os.path.abspath` would remove a slash of "gs://".
    if paths.is_remote(folder):
        return os.path.dirname(folder.rstrip("/"))
    return os.path.dirname(os.path.abspath(folder))


def _of_checkpoint(path: str) -> dict[str, Any]:
    """Returns the entries of the state of a checkpoint, if it has one.

    Args:
        path: of the checkpoint, or of a folder with one.
    """
    try:
        prefix = checkpoints.find(path).path
    except (FileNotFoundError, ValueError):  # There is none, or several.
        return {}
    identity = model_files.identity(prefix)
    found: dict[str, Any] = {}
    # A pre-trained model may use all of its positions.
    if "max_predictions_per_seq" not in identity:
        found = {k: v for k, v in identity.items() if k == "max_seq_length"}
    if "objective" in identity:
        found["is_tagger"] = model_files.is_tagger(identity)
    return found


def _of_records(sidecar: Mapping[str, Any]) -> dict[str, Any]:
    made_from = sidecar.get("flags", {})
    found = {"is_tagger": sidecar.get("kind") == "tagging"}
    if "max_seq_length" in sidecar:
        found["max_seq_length"] = sidecar["max_seq_length"]
    kept = _READING
    found |= {key: made_from[key] for key in kept if key in made_from}
    return found


def _of_card(place: str, folder: str, checkpoint: str | None) -> dict[str, Any]:
    """Returns the entries of a run card.

    Args:
        place: the folder of the card.
        folder: of the run: the same, or that of a trial in it.
        checkpoint: the prefix of the selected one.
    """
    card = model_files.read(place, run_files.RUN_CARD, flags=dict, written=dict)
    given = card.get("flags", {})
    kept = (*_SEARCH, *_READING)
    found = {name: given[name] for name in kept if name in given}
    if (threshold := given.get(_THRESHOLD)) == _CHOSEN:
        names = (squad_results.PREDICTIONS, squad_results.SCORES)
        predicts, scores = (
            os.path.relpath(os.path.join(folder, name), place)
            in card.get("written", {})
            for name in names
        )
        found[_THRESHOLD] = _CHOSEN
        if scores or not predicts:  # Else the scores are of other predictions.
            path = os.path.join(folder, squad_results.SCORES)
            results = result_files.read(path) if paths.exists(path) else {}
            step = int(results.get("global_step", 0))
            if _THRESHOLD in results and not run_files.are_of_other_weights(
                step, checkpoint or ""
            ):
                found[_THRESHOLD] = float(results[_THRESHOLD])
    elif threshold is not None:
        found[_THRESHOLD] = float(threshold)  # Infinities are text.
    shortening = [given[k] for k in _SHORTENING if k in given]
    if shortening:
        found[_SHORTENED] = any(shortening)
    return found


# -------------------------------------------------------------------- Settings


def settings_of(task: str, model: Model, given: Mapping[str, Any]) -> Settings:
    """Collects the settings of a model.

    Args:
        task: one of `TASKS`.
        model: its checkpoint and folder.
        given: values of flags, which replace those of the folder; None is no
            value. `bert_config_file` and `vocab_file` must be in one of them.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the files do not fit together; or the encoder below a
            tagger is unknown, or not that of training.
    """
    given = {name: value for name, value in given.items() if value is not None}
    values = {**model.values, **given}
    do_lower_case = values.get("do_lower_case", True)
    tokenization.validate_case_matches_checkpoint(
        do_lower_case, model.checkpoint
    )
    config = config_lib.BertConfig.from_json_file(values["bert_config_file"])
    longest = config.max_position_embeddings
    # Masks are filled at all positions of the model.
    stated = given if task == FILL_MASK else values
    length = stated.get(
        "max_seq_length", min(_LENGTHS.get(task, longest), longest)
    )
    config.check_length(length)
    answering = reading_of(values, length) if task == ANSWER else Reading()
    found = Settings(
        model=model,
        config=config,
        vocab_file=values["vocab_file"],
        do_lower_case=do_lower_case,
        truncation=sentence_pairs.Truncation(
            max_seq_length=length,
            long_text=values.get("long_text", sentence_pairs.HEAD),
            window_stride=values.get("window_stride"),
        ),
        label_set=values.get("labels"),
        answering=answering,
    )
    found.tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]")
    config.check_vocabulary(found.tokenizer.vocab_size, found.vocab_file)
    return found


def reading_of(values: Mapping[str, Any], max_seq_length: int) -> Reading:
    """Collects the options for answering questions.

    Raises:
        ValueError: the threshold that the run chose is unknown.
    """
    threshold = values.get(_THRESHOLD, 0.0)
    if threshold == _CHOSEN:
        raise ValueError(
            "The threshold of --null_score_diff_threshold=auto is not known: "
            "the last prediction did not write it to eval_results.txt, or had "
            "other weights. Run run_squad.py again with --do_predict "
            "--do_eval (for the best weights --use_best_checkpoint, too), or "
            "pass a number to tools.export_model."
        )

    def chosen(*names: str) -> dict[str, Any]:
        return {name: values[name] for name in names if name in values}

    answers = squad_answers.AnswerOptions(**chosen(*_SEARCH, _VERSION_2))
    return Reading(
        windows=squad_features.WindowOptions(
            max_seq_length=max_seq_length, **chosen(*_WINDOWS)
        ),
        answers=answers,
        threshold=threshold if answers.version_2_with_negative else None,
        removes_padding=values.get(_SHORTENED, False),
    )

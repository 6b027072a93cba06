"""Settings of a trained model: its tokenization, inputs and outputs."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from modeling import checkpoints
from modeling import config as config_lib
from serving import run_folder
from tasks.classification import labels, sentence_pairs
from tasks.squad import squad_answers, squad_features
from vocab import tokenization

_Value = TypeVar("_Value")
# The defaults of the scripts, if neither the flags nor the run state a length.
_LENGTHS = {
    **dict.fromkeys(
        (
            *(run_folder.CLASSIFY, run_folder.SCORE),
            *(run_folder.CHOOSE, run_folder.EMBED),
        ),
        128,
    ),
    run_folder.ANSWER: squad_features.WindowOptions.max_seq_length,
    run_folder.TAG: 512,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """Options for answering questions.

    Attributes:
        windows: how paragraphs are split.
        answers: how answers are searched.
        null_score_diff_threshold: in version 2 "no answer" wins above it.
    """

    windows: squad_features.WindowOptions
    answers: squad_answers.AnswerOptions
    null_score_diff_threshold: float = 0.0

    @property
    def threshold(self) -> float | None:
        """The threshold; None in version 1."""
        if not self.answers.version_2_with_negative:
            return None
        return self.null_score_diff_threshold


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a model.

    Attributes:
        weights: its checkpoint.
        config: its sizes.
        vocab_file: its vocabulary.
        do_lower_case: whether text is lower-cased.
        packing: how texts are truncated; `max_seq_length` is for all tasks.
        label_set: its labels; None except for labels, scores and tags.
        answering: options for questions; None for other tasks.
        encoder: the frozen encoder below a tagger; None for other models.
        layers: the hidden layers of an embedding.
        top_k: candidates for a mask.
    """

    weights: run_folder.Weights
    config: config_lib.BertConfig
    vocab_file: str
    do_lower_case: bool
    packing: sentence_pairs.Packing
    label_set: labels.LabelSet | None = None
    answering: Reading | None = None
    encoder: run_folder.FrozenEncoder | None = None
    layers: tuple[int, ...] = (-1,)
    top_k: int = 5

    @functools.cached_property
    def tokenizer(self) -> tokenization.FullTokenizer:
        """The definition of the tokenizer."""
        return tokenization.FullTokenizer(self.vocab_file, self.do_lower_case)


def given(value: _Value | None, name: str) -> _Value:
    """Returns a setting that the task requires.

    Raises:
        ValueError: it is None.
    """
    if value is None:
        raise ValueError(f"{name} must be given for this task.")
    return value


def find(
    task: str, weights: run_folder.Weights, values: Mapping[str, Any]
) -> Settings:
    """Collects the settings of a model.

    Args:
        task: one of `run_folder.TASKS`.
        weights: its checkpoint.
        values: of flags, else of the folder of the run (`run_folder.read`);
            `bert_config_file` and `vocab_file` are required.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the files do not fit together; or the encoder below a
            tagger is unknown, or not that of training.
    """
    do_lower_case = values.get("do_lower_case", True)
    tokenization.validate_case_matches_checkpoint(
        do_lower_case, weights.checkpoint
    )
    config = config_lib.BertConfig.from_json_file(values["bert_config_file"])
    longest = config.max_position_embeddings
    # A pre-trained model fills masks at all of its positions.
    length = values.get(
        "max_seq_length", min(_LENGTHS.get(task, longest), longest)
    )
    config.check_length(length)
    found = Settings(
        weights=weights,
        config=config,
        vocab_file=values["vocab_file"],
        do_lower_case=do_lower_case,
        packing=sentence_pairs.Packing(
            max_seq_length=length,
            long_text=values.get("long_text", sentence_pairs.HEAD),
            window_stride=values.get("window_stride"),
        ),
        label_set=values.get("labels"),
        answering=reading_of(values, length)
        if task == run_folder.ANSWER
        else None,
        encoder=_encoder(values)
        if task == run_folder.TAG and weights.is_feature_tagger
        else None,
    )
    found.tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]")
    config.check_vocabulary(found.tokenizer.vocab_size, found.vocab_file)
    return found


def reading_of(values: Mapping[str, Any], max_seq_length: int) -> Reading:
    """Collects the options for answering questions.

    Raises:
        ValueError: the threshold that the run chose is unknown.
    """
    windows = ("doc_stride", "max_query_length")
    answers = ("n_best_size", "max_answer_length", "version_2_with_negative")
    threshold = values.get("null_score_diff_threshold", 0.0)
    if threshold == run_folder.CHOSEN:
        raise ValueError(
            "The threshold of --null_score_diff_threshold=auto is not known: "
            "the run wrote no eval_results.txt. Run run_squad.py again with "
            "--do_eval, or export with a number."
        )
    return Reading(
        windows=squad_features.WindowOptions(
            max_seq_length=max_seq_length,
            **{name: values[name] for name in windows if name in values},
        ),
        answers=squad_answers.AnswerOptions(
            **{name: values[name] for name in answers if name in values}
        ),
        null_score_diff_threshold=threshold,
    )


def _encoder(values: Mapping[str, Any]) -> run_folder.FrozenEncoder:
    """Finds the encoder below a tagger on features."""
    layers = values.get("encoder_layers")
    path = values.get("encoder_checkpoint", values.get("encoder"))
    if layers is None or path is None:
        raise ValueError(
            "A tagger on --features has only the layers above a frozen "
            "encoder. Pass the --output_dir of its run, with the records of "
            "its features, and the encoder as --encoder_checkpoint."
        )
    if checkpoints.sha256(path) != values.get("encoder_sha256"):
        raise ValueError(
            f"{path} is not the encoder that the tagger was trained on: its "
            "files differ. Pass that encoder as --encoder_checkpoint."
        )
    return run_folder.FrozenEncoder(checkpoint=path, layers=tuple(layers))

"""Loading of a trained model for export, one function per task."""

import dataclasses
from typing import Any, TypeVar

import keras
import numpy as np
from absl import logging

from modeling import bert, checkpoints, heads
from modeling import config as config_lib
from serving import (
    answerer,
    classifier,
    embedder,
    graph_tokenizer,
    mask_filler,
    run_folder,
    signatures,
    tagger,
)
from tasks.classification import labels, sentence_pairs

_Value = TypeVar("_Value")
_POOLER = "bert/pooler/.*"
_NEXT_SENTENCE = "cls/seq_relationship/.*"
# Whatever policy is set, and whatever the model was trained in.
_DTYPE = "float32"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """A model, and how it reads text and answers.

    Attributes:
        weights: its checkpoint.
        config: its sizes.
        tokenizer: of its vocabulary.
        packing: how texts fit into a row; `max_seq_length` is for all tasks.
        label_set: what it answers; None but for labels, scores and tags.
        answering: how questions are answered; None for other tasks.
        layers: the hidden layers of an embedding.
        top_k: candidates for a mask.
    """

    weights: run_folder.Weights
    config: config_lib.BertConfig
    tokenizer: graph_tokenizer.GraphTokenizer
    packing: sentence_pairs.Packing
    label_set: labels.LabelSet | None = None
    answering: answerer.Reading | None = None
    layers: tuple[int, ...] = (-1,)
    top_k: int = 5


def load(task: str, settings: Settings) -> signatures.Servable:
    """Loads a model for one of `run_folder.TASKS`.

    Raises:
        ValueError: the checkpoint lacks a weight that the task needs, or has
            one that is not finite.
    """
    return {
        run_folder.CLASSIFY: _classifier,
        run_folder.SCORE: _classifier,
        run_folder.ANSWER: _answerer,
        run_folder.TAG: _tagger,
        run_folder.EMBED: _embedder,
        run_folder.FILL_MASK: _mask_filler,
    }[task](settings)


def _given(value: _Value | None, name: str) -> _Value:
    """Returns what the settings of some tasks must say."""
    if value is None:
        raise ValueError(f"{name} must be given for this task.")
    return value


def _classifier(settings: Settings) -> signatures.Servable:
    label_set = _given(settings.label_set, "label_set")
    model = heads.BertForSequenceClassification(
        settings.config,
        num_labels=label_set.num_outputs,
        dtype=_DTYPE,
    )
    return classifier.servable(
        _filled(model, settings),
        settings.tokenizer,
        label_set,
        settings.packing,
    )


def _answerer(settings: Settings) -> signatures.Servable:
    model = heads.BertForQuestionAnswering(settings.config, dtype=_DTYPE)
    return answerer.servable(
        _filled(model, settings, _POOLER),
        settings.tokenizer,
        _given(settings.answering, "answering"),
    )


def _tagger(settings: Settings) -> signatures.Servable:
    names = _given(settings.label_set, "label_set").names
    model = heads.BertForTokenClassification(
        settings.config, num_labels=len(names), dtype=_DTYPE
    )
    return tagger.servable(
        _filled(model, settings, _POOLER),
        settings.tokenizer,
        names,
        settings.packing.max_seq_length,
    )


def _embedder(settings: Settings) -> signatures.Servable:
    model = bert.BertModel(settings.config, dtype=_DTYPE)
    return embedder.servable(
        _filled(model, settings, _POOLER),
        settings.tokenizer,
        settings.packing,
        settings.layers,
        has_pooler=settings.weights.has_pooler,
    )


def _mask_filler(settings: Settings) -> signatures.Servable:
    model = heads.BertForPreTraining(settings.config, dtype=_DTYPE)
    return mask_filler.servable(
        _filled(model, settings, _POOLER, _NEXT_SENTENCE),
        settings.tokenizer,
        settings.packing.max_seq_length,
        settings.top_k,
    )


def _filled(model: keras.Model, settings: Settings, *unused: str) -> Any:
    """Loads the weights of a model.

    Args:
        model: takes them.
        settings: name the checkpoint.
        *unused: patterns of variables that no answer depends on.
    """
    path = settings.weights.checkpoint
    report = checkpoints.load(model, path, new=unused)
    logging.info("%s: %s", path, report)
    for variable in model.variables:
        if not np.isfinite(np.asarray(variable)).all():
            raise ValueError(
                f"Weights must be finite; those of {variable.path} in {path} "
                "are not. Did the training diverge? Export an earlier "
                "checkpoint."
            )
    return model

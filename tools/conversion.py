"""What is known of a model whose checkpoint is converted."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from commands import flags
from files import json_text
from modeling import name_tables

_HALF = ("float16", "bfloat16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `tools.convert_checkpoint`; see --help."""

    input: str = flags.Group.FILES.required(
        "Checkpoint: prefix, .index file, .weights.h5, Hugging Face folder, or "
        "a folder with one of them."
    )
    output: str = flags.Group.FILES.required(
        "Prefix, file that ends in .weights.h5, or folder, by the form."
    )
    output_format: str = flags.Group.FILES.required(
        "Form to write.", choices=("release", "keras", "huggingface")
    )
    overwrite: bool = flags.Group.FILES.flag(
        False, "Replace files that are there."
    )
    bert_config_file: str | None = flags.Group.MODEL.flag(
        None,
        "JSON file with the sizes of the model; by default that beside the "
        "input.",
    )
    architecture: str | None = flags.Group.MODEL.flag(
        None,
        "What output_weights and output_bias label, sentences or words, where "
        "nothing beside the input says.",
        choices=(
            name_tables.SEQUENCE_CLASSIFICATION,
            name_tables.TOKEN_CLASSIFICATION,
        ),
    )
    strip_optimizer: bool = flags.Group.MODEL.flag(
        False, "Leave out the moments of the optimizer and the step."
    )
    vocab_file: str | None = flags.Group.TEXT.flag(
        None,
        "Vocabulary of the model; by default the vocab.txt beside the input.",
    )
    do_lower_case: bool | None = flags.Group.TEXT.flag(
        None,
        "Whether the model reads lower-cased text; by default what lies beside "
        "the input says, or the vocabulary shows.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """All that is known of what is converted.

    Attributes:
        variables: shape and type as written, by the release's name.
        read: returns the array of a name, in that shape and type.
        config: its sizes, if known.
        architectures: of `name_tables.architectures`.
        beside: what lies beside the input.
    """

    variables: Mapping[str, tuple[tuple[int, ...], str]]
    read: Callable[[str], np.ndarray]
    config: Any
    architectures: list[str]
    beside: "Beside"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Beside:
    """What lies beside a model besides its weights.

    Attributes:
        vocab_file: its vocabulary, or None.
        do_lower_case: how text is read, or None where nothing tells.
        labels: what `labels.json` would say, or None.
        huggingface: Hugging Face's `config.json`, or nothing.
    """

    vocab_file: str | None
    do_lower_case: bool | None
    labels: Mapping[str, Any] | None
    huggingface: Mapping[str, Any]


def understand(options: Options, source: Any) -> Model:
    """Checks a checkpoint against what lies beside it and what the flags say.

    Args:
        options: of the tool.
        source: a `checkpoints.Source`, open.

    Raises:
        OSError: a file that is named is missing.
        ValueError: the checkpoint contradicts its configuration, vocabulary
            or casing, or reads from left to right.
    """
    from modeling import checkpoints, mismatches
    from training import attention_checks

    # What is written says nothing of how it was trained.
    attention_checks.check_bert(options.input)
    variables = {
        name: (shape, "float32" if dtype in _HALF else dtype)
        for name, (shape, dtype) in source.variables.items()
    }
    if options.strip_optimizer:
        variables = {
            name: held
            for name, held in variables.items()
            if not checkpoints.is_training_state(name, source.variables)
        }
    config = _config(options)
    if config is not None and name_tables.WORD_EMBEDDINGS in variables:
        wanted = name_tables.encoder_shapes(config)
        held = {name: shape for name, (shape, _) in variables.items()}
        optional = ["bert/pooler/.*"]
        mismatches.check_names(source.origin, wanted, held, optional)
        mismatches.check_shapes(source.origin, wanted, held)
        _name_deeper_layers(source.origin, config, held)
    beside = _look_beside(options, config)
    hint = options.architecture or _hint(source, beside)

    def read(name: str) -> np.ndarray:
        return source.read(name).astype(variables[name][1], copy=False)

    return Model(
        variables=variables,
        read=read,
        config=config,
        architectures=name_tables.architectures(variables, hint),
        beside=beside,
    )


def _config(options: Options) -> Any:
    from modeling import config as config_lib
    from modeling import config_beside

    if options.bert_config_file is None:
        return config_beside.find(options.input)
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    for remark in config_beside.check(config, options.input):
        logging.warning("%s.", remark)
    return config


def _name_deeper_layers(origin, config, held) -> None:
    layers = name_tables.num_layers(held)
    if layers > config.num_hidden_layers:
        logging.warning(
            "%s holds %d layers, its configuration says %d: the others are "
            "kept among the variables that have no place in the model.",
            origin,
            layers,
            config.num_hidden_layers,
        )


def _look_beside(options: Options, config: Any) -> Beside:
    from modeling import config_beside, huggingface_config
    from training import model_folder, vocabulary_checks
    from vocab import tokenization

    folder = config_beside.folder_of(options.input)
    beside = os.path.join(folder, model_folder.VOCABULARY)
    vocab_file = options.vocab_file
    if vocab_file is not None:
        model_folder.check_vocabulary(folder, vocab_file)
    elif os.path.exists(beside):
        vocab_file = beside
    if vocab_file is not None and config is not None:
        size = 1 + max(tokenization.load_vocab(vocab_file).values(), default=-1)
        config.check_vocabulary(size, vocab_file)
    lower = options.do_lower_case
    if lower is not None:
        tokenization.validate_case_matches_checkpoint(lower, options.input)
        model_folder.check_casing(folder, lower)
    else:
        known = model_folder.casing(folder)
        lower = known.do_lower_case if known else None
    if vocab_file is not None:
        shown = vocabulary_checks.is_lower_case(vocab_file)
        lower = shown if lower is None else lower
        if shown is not None and shown != lower:
            logging.warning(
                "do_lower_case is %s; the entries of %s look as if it were %s.",
                lower,
                vocab_file,
                shown,
            )
    theirs = os.path.join(folder, huggingface_config.CONFIG)
    values = json_text.read_object(theirs) if os.path.exists(theirs) else {}
    return Beside(
        vocab_file=vocab_file,
        do_lower_case=lower,
        labels=model_folder.labels(folder),
        huggingface=values if "model_type" in values else {},
    )


def _hint(source: Any, beside: Beside) -> str | None:
    """Says whether sentences or words are labelled, where that is known."""
    from training import model_folder

    said = {
        *model_folder.architectures(source),
        *(beside.huggingface.get("architectures") or ()),
    }
    return (
        name_tables.TOKEN_CLASSIFICATION
        if name_tables.TOKEN_CLASSIFICATION in said
        else None
    )

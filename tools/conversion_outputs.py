"""Writes a converted checkpoint, and what belongs beside it."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from files import destinations, paths, writing
from modeling import name_tables
from tools import conversion

_BILSTM = "bilstm/"
_DEFAULT_NAME = "bert_model"  # Source: the names of the released files.


def write(options: conversion.Options, model: conversion.Model) -> list[str]:
    """Writes a model in the form that the options ask for.

    Returns:
        The files written, that of the weights first.

    Raises:
        OSError: a file is there already, or cannot be written.
        ValueError: the form needs what is not known, or the output is no name
            for it.
    """
    return _WRITERS[options.output_format](options, model)


class _Lazy(Mapping):
    """Arrays by name, each read when it is asked for."""

    def __init__(self, model: conversion.Model):
        self._model = model

    def __getitem__(self, name: str) -> np.ndarray:
        return self._model.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._model.variables)

    def __len__(self) -> int:
        return len(self._model.variables)


def _write_release(
    options: conversion.Options, model: conversion.Model
) -> list[str]:
    from modeling import checkpoints

    prefix = options.output.removesuffix(".index")
    if os.path.isdir(prefix) or prefix.endswith("/"):
        prefix = os.path.join(prefix, f"{_DEFAULT_NAME}.ckpt")
    sidecars = _sidecars(os.path.dirname(prefix), model)
    _check_targets(options, checkpoints.saved_files(prefix), sidecars)
    _write_sidecars(sidecars)
    writing.remove_remains(prefix)
    checkpoints.save(prefix, _Lazy(model))
    return [f"{prefix}.index", *sidecars]


def _write_keras(
    options: conversion.Options, model: conversion.Model
) -> list[str]:
    from modeling import keras_format

    path = options.output
    if os.path.isdir(path) or path.endswith("/"):
        path = os.path.join(path, _DEFAULT_NAME + keras_format.SUFFIX)
    if not path.endswith(keras_format.SUFFIX):
        raise ValueError(
            f"--output must end in {keras_format.SUFFIX}, which Keras asks "
            f"for; got {path!r}."
        )
    sidecars = _sidecars(os.path.dirname(path), model)
    _check_targets(options, [path], sidecars)
    _write_sidecars(sidecars)
    with writing.whole_file(path, "w+b") as file:
        keras_format.write(
            file,
            model.variables,
            model.read,
            num_layers=_num_layers(model),
            architectures=model.architectures,
        )
    return [path, *sidecars]


def _write_huggingface(
    options: conversion.Options, model: conversion.Model
) -> list[str]:
    from modeling import huggingface, huggingface_config

    folder = options.output
    if os.path.isfile(folder) or folder.endswith(".safetensors"):
        raise ValueError(
            f"--output must be a folder for this form; got {folder!r}."
        )
    if model.config is None:
        raise ValueError(
            f"{huggingface_config.CONFIG} needs the sizes of the model, and "
            "there is no configuration beside --input: pass "
            "--bert_config_file."
        )
    if any(name.startswith(_BILSTM) for name in model.variables):
        raise ValueError(
            f"{options.input} has a BiLSTM below its output layer "
            "(--bilstm_head), which no model of this form has: it would be "
            "read without. Choose another --output_format."
        )
    weights, others, index = (
        os.path.join(folder, name)
        for name in (
            huggingface.WEIGHTS,
            huggingface.OTHERS,
            huggingface.INDEX,
        )
    )
    # Without weights, what lies there is of a run that was killed.
    sidecars = _huggingface_sidecars(folder, model)
    _check_targets(options, [weights, index], sidecars)
    _write_sidecars(sidecars)
    # Weights last: until they are there, the folder holds no model.
    for path in (weights, others, index):
        paths.remove(os.path.realpath(path))
    layout = huggingface.Writer(
        model.variables, _num_layers(model), model.architectures
    )
    written = [weights, *sidecars]
    if layout.others:
        with writing.whole_file(others, "wb") as file:
            layout.write_others(file, model.read)
        written.append(others)
        logging.info(
            "%d variables without a name there are in %s.",
            len(layout.others),
            others,
        )
    with writing.whole_file(weights, "wb") as file:
        layout.write_weights(file, model.read)
    return written


_WRITERS = {
    "release": _write_release,
    "keras": _write_keras,
    "huggingface": _write_huggingface,
}


def _num_layers(model: conversion.Model) -> int:
    if model.config is not None:
        return model.config.num_hidden_layers
    return name_tables.num_layers(model.variables)


def _sidecars(folder: str, model: conversion.Model) -> dict[str, bytes]:
    """Makes what lies beside weights of the release's or Keras' form."""
    from modeling import config_beside, huggingface_config
    from training import model_folder, records
    from vocab import tokenization

    made = {}
    if model.config is not None:
        made[config_beside.CONFIG] = model.config.to_json_string().encode()
    known = model.beside
    if known.labels is not None:
        made[model_folder.LABELS] = _json(known.labels)
    if known.huggingface:
        made[huggingface_config.CONFIG] = _json(known.huggingface)
    if known.vocab_file is not None:
        made[model_folder.VOCABULARY] = _content(known.vocab_file)
    if known.vocab_file is not None and known.do_lower_case is not None:
        vocab = tokenization.load_vocab(known.vocab_file)
        made[model_folder.TOKENIZER] = _json(
            {
                "vocab_sha256": records.vocab_sha256(vocab),
                "do_lower_case": known.do_lower_case,
            }
        )
    return {os.path.join(folder, name): data for name, data in made.items()}


def _huggingface_sidecars(
    folder: str, model: conversion.Model
) -> dict[str, bytes]:
    from modeling import config_beside, huggingface_config
    from training import model_folder
    from vocab import tokenization

    known, config = model.beside, model.config.to_dict()
    made = {}
    pad_token_id = 0
    if known.vocab_file is None:
        logging.warning(
            "There is no vocabulary beside --input, nor --vocab_file: the "
            "folder gets no tokenizer."
        )
    else:
        made[model_folder.VOCABULARY] = _content(known.vocab_file)
        vocab = tokenization.load_vocab(known.vocab_file)
        pad_token_id = vocab.get("[PAD]", pad_token_id)
        if known.do_lower_case is None:
            raise ValueError(
                "Nothing says whether the model reads lower-cased text: pass "
                "--do_lower_case or --nodo_lower_case."
            )
        made[huggingface_config.TOKENIZER] = _json(
            huggingface_config.tokenizer(
                do_lower_case=known.do_lower_case,
                model_max_length=config["max_position_embeddings"],
            )
        )
    values = huggingface_config.from_release(
        config, model.architectures, _labels(model), pad_token_id
    )
    values = huggingface_config.merged(known.huggingface, values)
    made[huggingface_config.CONFIG] = _json(values)
    # For the scripts of this project, which read it.
    made[config_beside.CONFIG] = model.config.to_json_string().encode()
    return {os.path.join(folder, name): data for name, data in made.items()}


def _labels(model: conversion.Model) -> dict[str, Any]:
    """Says what an output layer answers; its rows have names in any case."""
    from modeling import huggingface_config

    known = dict(model.beside.labels or {})
    if "output_bias" not in model.variables or not model.architectures:
        return known
    (num_labels,), _ = model.variables["output_bias"]
    names = huggingface_config.label_names(num_labels, known.get("labels", ()))
    return {**known, "labels": names}


def _json(value: Any) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8")


def _content(path: str) -> bytes:
    return b"".join(paths.chunks_of(path))


def _check_targets(
    options: conversion.Options,
    weights: list[str],
    sidecars: Mapping[str, bytes],
) -> None:
    """Checks that nothing is replaced that should not be."""
    from modeling import checkpoints

    changed = _changed(sidecars)
    inputs = checkpoints.files(options.input)
    inputs += filter(None, (options.bert_config_file, options.vocab_file))
    destinations.check_files([*weights, *changed], inputs)
    destinations.check_seekable(weights)
    if options.overwrite:
        return
    for path in weights:
        if os.path.exists(path):
            raise FileExistsError(
                f"{path} is there already. Choose another --output, or pass "
                "--overwrite."
            )
    for path in changed:
        if os.path.exists(path):
            raise FileExistsError(
                f"{path} is there already, with other content. Choose another "
                "folder for --output, or pass --overwrite."
            )


def _changed(sidecars: Mapping[str, bytes]) -> dict[str, bytes]:
    """Picks the files that are not there yet with the same content."""
    return {
        path: data
        for path, data in sidecars.items()
        if not paths.exists(path) or _content(path) != data
    }


def _write_sidecars(sidecars: Mapping[str, bytes]) -> None:
    for path, data in _changed(sidecars).items():
        with writing.whole_file(path, "wb") as file:
            file.write(data)

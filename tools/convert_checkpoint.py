"""Converts checkpoints to the release's, Keras' or Hugging Face's format.

For example:

  python -m tools.convert_checkpoint \\
    --input=uncased_L-12_H-768_A-12/bert_model.ckpt \\
    --output=bert-base-uncased --output_format=huggingface

The format of the input is detected. Variables without a name in the output
format are kept; `docs/checkpoints.md` describes where.
"""

import collections
import dataclasses
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from commands import flags, program
from files import paths, run_files, writing
from modeling import (
    checkpoints,
    huggingface,
    huggingface_config,
    keras_format,
    name_tables,
)
from modeling import config as config_lib
from modeling.name_tables import Spec
from training import model_files, records
from vocab import tokenization

_HALF = ("float16", "bfloat16")
_BILSTM = "bilstm/"
_OF_BERT = ("bert/", "cls/", "output_")
# Files from which labels and casing of a model are read.
_DESCRIPTIONS = (
    *(run_files.LABELS, huggingface_config.CONFIG),
    huggingface_config.TOKENIZER,
)
_DEFAULT_NAME = "bert_model"  # Source: the names of the released files.
_KINDS = (
    (
        re.compile(r"^huggingface/|^keras/|^model_garden/"),
        "variables without a release name",
    ),
    (re.compile(r"/adam_[mv]$|^global_step$"), "of the optimizer"),
    (re.compile(r"^bert/"), "of the encoder"),
    (re.compile(r""), "of heads"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `tools.convert_checkpoint`; see --help."""

    input: str = flags.Group.FILES.required(
        "Checkpoint: prefix, .index file, .weights.h5, Hugging Face folder, "
        "keras-hub preset, or a folder with one of them."
    )
    output: str = flags.Group.FILES.required(
        "Prefix, file that ends in .weights.h5, or folder, by the format."
    )
    output_format: str = flags.Group.FILES.required(
        "Format of the output.", choices=("release", "keras", "huggingface")
    )
    overwrite: bool = flags.Group.FILES.switch("Replace existing files.")
    bert_config_file: str | None = flags.Group.MODEL.optional(
        "JSON file with the sizes of the model; by default that next to the "
        "input."
    )
    architecture: str | None = flags.Group.MODEL.optional(
        "What output_weights and output_bias label, sentences or words, if the "
        "files next to the input do not contain it.",
        choices=(
            name_tables.SEQUENCE_CLASSIFICATION,
            name_tables.TOKEN_CLASSIFICATION,
        ),
    )
    strip_optimizer: bool = flags.Group.MODEL.switch(
        "Omit the moments of the optimizer and the step."
    )
    vocab_file: str | None = flags.Group.TEXT.optional(
        "Vocabulary of the model; by default the vocab.txt next to the input."
    )
    do_lower_case: bool | None = flags.Group.TEXT.optional(
        "Whether the model reads lower-cased text; by default taken from the "
        "files next to the input or from the vocabulary."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A model to be converted.

    Attributes:
        variables: shape and type as written, by the release's name.
        read: returns the array of a name, in that shape and type.
        config: its sizes, if known.
        architectures: of `name_tables.architectures`.
        vocab_file: its vocabulary, or None.
        do_lower_case: whether it reads lower-cased text, or None if unknown.
        labels: content of a `labels.json`, or None.
        huggingface: Hugging Face's `config.json`, possibly empty, or only its
            architectures.
    """

    variables: Mapping[str, Spec]
    read: Callable[[str], np.ndarray]
    config: config_lib.BertConfig | None
    architectures: list[str]
    vocab_file: str | None
    do_lower_case: bool | None
    labels: Mapping[str, Any] | None
    huggingface: Mapping[str, Any]


def convert(options: Options) -> None:
    """Reads a checkpoint and writes it in another format.

    Raises:
        OSError: a file is missing, cannot be read or written, or would be
            replaced.
        ValueError: the input is broken, unsupported, or contradicts its
            configuration, vocabulary or casing.
    """
    with checkpoints.opened(options.input) as source:
        logging.info(
            "%s is a checkpoint in the %s format.", source.origin, source.kind
        )
        half = [d for _, d in source.variables.values() if d in _HALF]
        notes = source.notes
        if half and source.kind != huggingface.Reader.kind:  # It has the note.
            widened = f"{len(half)} variables are stored in 16 bits and widened"
            notes = (*notes, widened)
        for note in notes:
            logging.info("%s: %s.", source.origin, note)
        model = _understand(options, source)
        written = _write(options, model)
    counts = collections.Counter(
        next(kind for pattern, kind in _KINDS if pattern.search(name))
        for name in model.variables
    )
    shapes = (shape for shape, _ in model.variables.values())
    counts["numbers in all"] = sum(map(math.prod, shapes))
    logging.info(
        "Converted %s: %s. Wrote %s.",
        source.origin,
        ", ".join(f"{count} {what}" for what, count in counts.items()),
        ", ".join(written),
    )


# ---------------------------------------------------------------- The input


def _understand(options: Options, source: checkpoints.Source) -> Model:
    """Checks a checkpoint against the files next to it and the flags."""
    # The output does not record how the model was trained.
    model_files.check_bidirectional(options.input)
    checkpoints.check_types(
        source.origin,
        {
            name: dtype
            for name, (_, dtype) in source.variables.items()
            if name.startswith(_OF_BERT)
        },
    )
    variables = {
        name: (shape, "float32" if dtype in _HALF else dtype)
        for name, (shape, dtype) in source.variables.items()
        if not options.strip_optimizer
        or not checkpoints.is_training_state(name, source.variables)
    }
    if options.bert_config_file is None:
        config = config_lib.BertConfig.find(options.input)
    else:
        config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    if config is not None:
        _check_config(options, config, source, variables)
    folder = config_lib.folder_of(options.input)
    vocab_file = options.vocab_file or model_files.vocabulary(folder)
    if vocab_file is not None:
        model_files.check_vocabulary(folder, vocab_file)
        if config is not None:
            size = tokenization.FullTokenizer(vocab_file).vocab_size
            config.check_vocabulary(size, vocab_file)
    theirs = model_files.read(folder, huggingface_config.CONFIG)
    theirs = theirs if "model_type" in theirs else {}
    hint = options.architecture
    if hint is None and name_tables.TOKEN_CLASSIFICATION in (
        model_files.architectures(source)
    ):
        hint = name_tables.TOKEN_CLASSIFICATION
    architectures = name_tables.architectures(variables, hint)
    if hint in architectures:
        # Variable names do not show it in any format.
        theirs = {**theirs, "architectures": architectures}

    def read(name: str) -> np.ndarray:
        return source.read(name).astype(variables[name][1], copy=False)

    return Model(
        variables=variables,
        read=read,
        config=config,
        architectures=architectures,
        vocab_file=vocab_file,
        do_lower_case=_casing(options, folder, vocab_file),
        labels=model_files.labels(folder),
        huggingface=theirs,
    )


def _check_config(
    options: Options,
    config: config_lib.BertConfig,
    source: checkpoints.Source,
    variables: Mapping[str, Spec],
) -> None:
    for remark in config.check_checkpoint(
        options.input, source.num_attention_heads
    ):
        logging.warning("%s.", remark)
    if name_tables.WORD_EMBEDDINGS not in variables:
        return
    held = {name: shape for name, (shape, _) in variables.items()}
    checkpoints.check_variables(
        source.origin, config.encoder_shapes(), held, [name_tables.POOLER]
    )
    num_layers = name_tables.num_layers(held)
    if num_layers > config.num_hidden_layers:
        logging.warning(
            "%s has %d layers, but its configuration %d: the others are "
            "kept among the variables outside the model.",
            source.origin,
            num_layers,
            config.num_hidden_layers,
        )


def _casing(
    options: Options, folder: str, vocab_file: str | None
) -> bool | None:
    lower = options.do_lower_case
    if lower is not None:
        tokenization.validate_case_matches_checkpoint(lower, options.input)
    elif known := model_files.casing(folder):
        lower = known.do_lower_case
    shown = None
    if vocab_file is not None:
        shown = model_files.is_vocabulary_lower_case(vocab_file)
    if lower is None:
        lower = shown
    if lower is not None:
        # The output states only the casing, so all else must be BERT's.
        model_files.check_casing(folder, lower)
    if None not in (lower, shown) and shown != lower:
        logging.warning(
            "do_lower_case is %s, but the entries of %s suggest %s. If the "
            "model was trained so, pass --do_lower_case=%s.",
            *(lower, vocab_file, shown, shown),
        )
    return lower


# ---------------------------------------------------------------- The output


def _write(options: Options, model: Model) -> list[str]:
    """Writes a model; returns its files."""
    path, weights = _target(options, model)
    is_huggingface = options.output_format == checkpoints.HUGGINGFACE
    make = _huggingface_sidecars if is_huggingface else _sidecars
    sidecars = _write_sidecars(
        options, weights, _described(model) | make(model)
    )
    if options.output_format == checkpoints.RELEASE:
        import tensorflow as tf

        # One at a time, because all at once would double the memory.
        checkpoints.save(
            path,
            {n: tf.convert_to_tensor(model.read(n)) for n in model.variables},
        )
        return [f"{path}.index", *sidecars]
    num_layers = name_tables.num_layers(model.variables)
    if model.config is not None:
        num_layers = model.config.num_hidden_layers
    written = checkpoints.FORMATS[options.output_format].write(
        path,
        model.variables,
        model.read,
        num_layers=num_layers,
        architectures=model.architectures,
    )
    for others in written.keys() - set(weights):
        logging.info(
            "%d variables without a Hugging Face name are in %s.",
            written[others],
            others,
        )
    return [*written, *sidecars]


def _target(options: Options, model: Model) -> tuple[str, list[str]]:
    """Checks the output; returns its path, and the files of weights there."""
    path, ending = options.output, keras_format.SUFFIX
    if options.output_format == checkpoints.HUGGINGFACE:
        if os.path.isfile(path) or path.endswith(".safetensors"):
            raise ValueError(
                f"--output must be a folder for this format; got {path!r}."
            )
        if any(name.startswith(_BILSTM) for name in model.variables):
            raise ValueError(
                f"{options.input} has a BiLSTM below its output layer "
                "(--bilstm_head), which Hugging Face's models do not support. "
                "Choose another --output_format."
            )
        # Files in a folder without weights are of an interrupted run.
        names = (huggingface.WEIGHTS, huggingface.INDEX)
        return path, [os.path.join(path, name) for name in names]
    if options.output_format == checkpoints.RELEASE:
        path, ending = path.removesuffix(".index"), ".ckpt"
    if os.path.isdir(path) or path.endswith("/"):
        path = os.path.join(path, _DEFAULT_NAME + ending)
    if options.output_format == checkpoints.RELEASE:
        return path, checkpoints.saved_files(path)
    if not path.endswith(ending):
        raise ValueError(
            f"--output must end in {ending}, which Keras requires; got "
            f"{path!r}."
        )
    return path, [path]


def _described(model: Model) -> dict[str, bytes]:
    """Returns configuration and vocabulary, by name."""
    made = {}
    if model.config is not None:
        made[config_lib.FILE] = model.config.to_json_string().encode()
    if model.vocab_file is not None:
        made[run_files.VOCABULARY] = _content(model.vocab_file)
    return made


def _sidecars(model: Model) -> dict[str, bytes]:
    """Returns the other files of the release's and Keras' formats."""
    made = {}
    if model.labels is not None:
        made[run_files.LABELS] = _json(model.labels)
    if model.huggingface:
        made[huggingface_config.CONFIG] = _json(model.huggingface)
    if model.vocab_file is not None and model.do_lower_case is not None:
        vocab = tokenization.load_vocab(model.vocab_file)
        made[run_files.TOKENIZER] = _json(
            {
                "vocab_sha256": records.vocab_sha256(vocab),
                "do_lower_case": model.do_lower_case,
            }
        )
    return made


def _huggingface_sidecars(model: Model) -> dict[str, bytes]:
    if model.config is None:
        raise ValueError(
            f"{huggingface_config.CONFIG} requires the sizes of the model, and "
            "there is no configuration next to --input: pass "
            "--bert_config_file."
        )
    sizes, made, pad_token_id = model.config.to_dict(), {}, 0
    if model.vocab_file is None:
        logging.warning(
            "There is no vocabulary next to --input and no --vocab_file: the "
            "folder will have no tokenizer."
        )
    else:
        vocab = tokenization.load_vocab(model.vocab_file)
        pad_token_id = vocab.get("[PAD]", pad_token_id)
        if model.do_lower_case is None:
            raise ValueError(
                "It is unknown whether the model reads lower-cased text: pass "
                "--do_lower_case or --nodo_lower_case."
            )
        made[huggingface_config.TOKENIZER] = _json(
            huggingface_config.tokenizer(
                do_lower_case=model.do_lower_case,
                model_max_length=sizes["max_position_embeddings"],
            )
        )
    labels = dict(model.labels or {})
    if "output_bias" in model.variables and model.architectures:
        (num_labels,), _ = model.variables["output_bias"]
        names = labels.pop("labels", ())
        held = model.huggingface.get("id2label") or ()
        # The name of a score is only in Hugging Face's files. Other missing
        # names become placeholders.
        if names or len(held) != num_labels:
            labels["labels"] = huggingface_config.label_names(num_labels, names)
    values = huggingface_config.from_release(
        sizes, model.architectures, labels, pad_token_id, model.huggingface
    )
    made[huggingface_config.CONFIG] = _json(values)
    return made


def _json(value: Any) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8")


def _content(path: str) -> bytes:
    return b"".join(paths.chunks_of(path))


def _write_sidecars(
    options: Options, weights: Sequence[str], contents: Mapping[str, bytes]
) -> list[str]:
    """Writes files beside the weights, unless a file would be replaced."""
    folder = os.path.dirname(weights[0])
    sidecars = {os.path.join(folder, k): data for k, data in contents.items()}
    changed = {
        path: data
        for path, data in sidecars.items()
        if not paths.exists(path) or _content(path) != data
    }
    # They would be taken for the description of this model.
    others = [
        path
        for name in _DESCRIPTIONS
        if paths.exists(path := os.path.join(folder, name))
        and path not in sidecars
    ]
    origin = config_lib.folder_of(options.input)
    if os.path.realpath(folder) == os.path.realpath(origin):
        others = []
    inputs = checkpoints.files(options.input)
    inputs += filter(None, (options.bert_config_file, options.vocab_file))
    removed = []
    if options.output_format == checkpoints.HUGGINGFACE:
        removed = [os.path.join(folder, huggingface.OTHERS)]
    if checkpoints.find(options.input).format == checkpoints.HUGGINGFACE:
        for name in (huggingface.INDEX, huggingface.OTHERS):
            path = os.path.join(origin, name)
            inputs += [path] if paths.exists(path) else []
    writing.check_files([*weights, *changed, *others, *removed], inputs)
    for path in () if options.overwrite else (*weights, *changed):
        if paths.exists(path):
            which = " with other content" if path in changed else ""
            raise FileExistsError(
                f"{path} already exists{which}. Choose another --output, or "
                "pass --overwrite."
            )
    for path in others:
        if not options.overwrite:
            raise FileExistsError(
                f"{path} already exists, and the converted model has no such "
                "file. Choose another --output, or pass --overwrite to remove "
                "it."
            )
        paths.remove(path)
    for path, data in changed.items():
        with writing.whole_file(path, "wb") as file:
            file.write(data)
    return list(sidecars)


if __name__ == "__main__":
    program.start(Options, convert)

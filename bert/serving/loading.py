"""Reading of trained models that answer texts, and of their networks."""

import dataclasses
import os
from collections.abc import Callable

import keras
from absl import logging

from bert.files import run_files
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import asking, needs, own_task, registry
from bert.tasks import task as task_lib
from modeling import checkpoints, foreign_files, huggingface, name_tables
from modeling import config as config_lib
from vocab import tokenization

_CAUSAL = "causal"


def read(
    folder: str,
    *,
    best: bool = False,
    layers: tuple[int, ...] | None = None,
    task_file: str | None = None,
) -> asking.Asking:
    """Reads a trained model, without its weights.

    Args:
        folder: see `ModelFolder.open`.
        best: the best checkpoint of the run instead of the latest.
        layers: to return these hidden layers, whatever the model's task.
        task_file: the Python file of a task of the user's own.

    Raises:
        OSError: a file cannot be read.
        ValueError: there is no model, or several; the folder does not state
            what predicting needs; or the model is not supported.
    """
    if best:
        folder = os.path.join(folder, run_files.BEST)
    model = folder_lib.ModelFolder.open(folder)
    if model.checkpoint is None:
        foreign_files.check_no_models_inside(model.path)
        formats = foreign_files.formats_in(model.path)
        state = f"is {formats}" if formats else "contains no checkpoint"
        raise ValueError(
            f"{folder} {state}. "
            "Pass the --output_dir of a run that was trained, the folder of "
            "one of its trials, or of a released or Hugging Face model."
        )
    config, vocab_file = needs.files(model)
    with checkpoints.opened(model.checkpoint) as source:
        shown = needs.inferred_from_weights(
            source.variables, source.architectures
        )
        variables, kind = dict(source.variables), source.kind
    depth = name_tables.num_layers(variables)
    if depth > config.num_hidden_layers:
        logging.warning(
            "%s has %d layers, and num_hidden_layers is %d in %s: the last "
            "layers are not used",
            *(model.checkpoint, depth, config.num_hidden_layers),
            model.config_file,
        )
    description = model.description.completed(shown)
    task = description.task or registry.PRETRAINED.kind
    if kind == huggingface.Reader.kind and task in registry.ASKING:
        description = registry.ASKING[task].completed(description, model.path)
    sentence_encoder = None
    # A model that was fine-tuned for another task answers it.
    if layers is None and task == registry.PRETRAINED.kind:
        sentence_encoder = model.sentence_encoder
    is_encoder = layers is not None or sentence_encoder is not None
    if is_encoder:
        task = registry.ENCODER.kind
    own: type[task_lib.Task] | None = None
    if task_file is not None and not is_encoder:
        own = own_task.find(task_file, task)
    elif task not in registry.ASKING:
        raise ValueError(
            f"{model.path}: the task is {task!r}, which this program does not "
            "have. Pass --task_file, the Python file with its class "
            "(docs/adding_a_task.md)."
        )
    needs.check_answerable(
        model,
        description,
        variables,
        embeds=is_encoder or own is not None,
    )
    _check_served(model.path, description, is_encoder=is_encoder)
    tokenizer = open_tokenizer(vocab_file, description, config)
    length = description.max_seq_length
    if length is not None and task != registry.PRETRAINED.kind:
        config.check_length(length)
    served = asking.ServedModel(
        folder=model,
        checkpoint=model.checkpoint,
        variables=variables.keys(),
        config=config,
        tokenizer=tokenizer,
        description=description,
        layers=layers or (-1,),
        sentence_encoder=sentence_encoder,
    )
    if own is not None:
        return own_task.OwnTask(served, own)
    return registry.ASKING[task](served)


def _check_served(
    folder: str,
    description: description_lib.Description,
    *,
    is_encoder: bool,
) -> None:
    """Checks that the network of a model is served."""
    if description.attention == _CAUSAL:
        raise ValueError(f"{folder}: left-to-right attention is not served.")
    if not is_encoder and (description.bilstm_head or description.features):
        raise ValueError(
            f"{folder}: a BiLSTM below the output layer is not served; "
            "tools.export_model --layers exports its encoder."
        )


def open_tokenizer(
    vocab_file: str,
    description: description_lib.Description,
    config: config_lib.BertConfig,
) -> tokenization.FullTokenizer:
    """Opens the tokenizer of a model; its description states the casing.

    Raises:
        OSError: the vocabulary cannot be read.
        ValueError: it is not the model's, or lacks a special token.
    """
    tokenizer = tokenization.FullTokenizer(
        vocab_file,
        bool(description.do_lower_case),
        description.strip_accents,
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]")
    config.check_vocab_size(tokenizer.vocab_size, tokenizer.vocab_file)
    return tokenizer


def load(answering: asking.Asking) -> keras.Model:
    """Loads the network of a model of `read`; raises as `load_network`."""
    model = answering.model
    return load_network(answering.make_network, model.config, model.checkpoint)


def load_network(
    make: Callable[[config_lib.BertConfig], keras.Model],
    config: config_lib.BertConfig,
    checkpoint: str,
) -> keras.Model:
    """Makes a network and loads its weights.

    Raises:
        ValueError: the checkpoint lacks a weight, or has one that is not
            finite.
    """
    # Zeros, because drawing weights, which are replaced, takes seconds.
    network = make(dataclasses.replace(config, initializer_range=0.0))
    report = checkpoints.load(
        network, checkpoint, new=network.optional_variables
    )
    logging.info("%s: %s", checkpoint, report)
    checkpoints.check_finite(network, checkpoint)
    return network

"""Writing of models: SavedModels of TensorFlow Serving, and LiteRT."""

import contextlib
import dataclasses
import functools
import logging
import os
import platform
import unicodedata
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text as tf_text

from files import run_files, writing
from modeling import layers
from serving import networks, run_folder, signatures

DESCRIPTION = "model.json"
LITERT = "litert"
_LITERT_FILE = "model.tflite"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Converted:
    """A network as the one file of a runtime.

    Attributes:
        name: of the file.
        content: its bytes.
        description: its entries in model.json.
    """

    name: str
    content: bytes
    description: dict[str, Any]


def write(
    servable: signatures.Servable,
    folder: str,
    vocab_file: str,
    described: dict[str, Any],
    converted: Converted | None = None,
) -> None:
    """Writes a model atomically.

    The files are written to a temporary folder, which is renamed: TensorFlow
    Serving, which watches for versions, never sees an incomplete one. Remote
    stores have no such renaming; there the files are written in place.

    Args:
        servable: the model.
        folder: of the version, such as `NAME/1`; created.
        vocab_file: copied to the model's `assets/`.
        described: entries of `model.json` besides the task, its details and
            the versions of the software.
        converted: written instead of the SavedModel, with a copy of the
            vocabulary.

    Raises:
        OSError: the folder cannot be written.
        ValueError: the folder exists.
    """
    check_new(folder)
    if converted:
        form = converted.description
    else:
        form = {"signatures": _described(servable)}
    description = {
        "task": servable.task,
        **servable.details,
        **described,
        **form,
        "versions": {
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "tensorflow_text": tf_text.__version__,
            "keras": keras.__version__,
            # Of the tables in the model's tokenizer.
            "unicode": unicodedata.unidata_version,
        },
    }
    try:
        with writing.whole_folder(folder) as aside:
            if converted:
                writing.copy_file(
                    vocab_file, os.path.join(aside, run_files.VOCABULARY)
                )
                path = os.path.join(aside, converted.name)
                with writing.whole_file(path, "wb") as file:
                    file.write(converted.content)
            else:
                _save(servable, aside, vocab_file)
            writing.write_json(os.path.join(aside, DESCRIPTION), description)
    except tf.errors.OpError as error:
        raise OSError(
            f"{folder} could not be written: {error.message}"
        ) from error


def check_new(folder: str) -> None:
    """Checks that the folder of a version is new and can be written.

    Raises:
        OSError: no permission to write.
        ValueError: the folder exists, or TensorFlow could not load it.
    """
    if any(character in os.path.abspath(folder) for character in "[\\"):
        raise ValueError(
            f"{folder}: TensorFlow cannot load a SavedModel from a path that "
            "contains [ or a backslash. Pass another --export_dir."
        )
    if os.path.lexists(folder) or tf.io.gfile.exists(folder):
        raise ValueError(
            f"{folder} exists, and a served version must not change. "
            "Pass another --version or --export_dir."
        )
    writing.check_folder(os.path.dirname(folder))


def _save(servable, folder: str, vocab_file: str) -> None:
    root = tf.Module(name=servable.task)
    root.weights = servable.variables
    root.vocabulary = tf.saved_model.Asset(vocab_file)
    with _without_notices():
        tf.saved_model.save(
            root,
            folder,
            signatures={
                name: function.get_concrete_function()
                for name, function in servable.signatures.items()
            },
            # It is not trained.
            options=tf.saved_model.SaveOptions(
                experimental_custom_gradients=False
            ),
        )


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Hides notices of TensorFlow and the converters, except errors.

    They name temporary files, and variables and tensors by numbers.
    """
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(before)


def _described(servable) -> dict[str, dict[str, Any]]:
    """Returns the type and shape of each input and output of signatures."""

    def kinds(specs):
        return {
            name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
            for name, spec in specs.items()
        }

    return {
        name: {
            "inputs": kinds(
                {spec.name: spec for spec in function.input_signature}
            ),
            "outputs": kinds(
                function.get_concrete_function().structured_outputs
            ),
        }
        for name, function in servable.signatures.items()
    }


def convert(
    task: str,
    model: Any,
    settings: run_folder.Settings,
    quantize: str | None = None,
) -> Converted:
    """Converts a network to LiteRT, for any number of rows of any length.

    Args:
        task: one of `run_folder.TASKS`.
        model: of `networks.load`; its activations are replaced by operations
            that exist in LiteRT.
        settings: of the model.
        quantize: "int8" to store the matrices as 8-bit integers; the other
            factors are quantized at run time (dynamic range).
    """
    _use_gelu_operation(model)
    specs = signatures.id_specs(3 if task == run_folder.CHOOSE else 2)
    network = tf.function(
        networks.outputs_of(task, model, settings),
        input_signature=specs,
        autograph=False,  # No Python here depends on a tensor.
    ).get_concrete_function()
    root = tf.Module()
    # Tracked variables become constants.
    root.weights = [variable.value for variable in model.variables]
    converter = tf.lite.TFLiteConverter.from_concrete_functions([network], root)
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with _without_notices():
        content = converter.convert()
    outputs = network.structured_outputs
    return Converted(
        name=_LITERT_FILE,
        content=content,
        description={
            "format": LITERT,
            "quantize": quantize,
            "inputs": {spec.name: spec.shape.as_list() for spec in specs},
            "outputs": {k: v.shape.as_list() for k, v in outputs.items()},
        },
    )


def _use_gelu_operation(model: Any) -> None:
    """Replaces GELU by LiteRT's own operation.

    LiteRT has no `erf`, which the exact form requires.
    """
    forms = {"gelu": True, "gelu_exact": False}
    for layer in model._flatten_layers():
        if isinstance(layer, layers.Transform) and layer.activation in forms:
            layer.activation = functools.partial(
                tf.nn.gelu, approximate=forms[layer.activation]
            )

"""Writing of models: SavedModels of TensorFlow Serving, and LiteRT."""

import contextlib
import dataclasses
import logging
import os
import platform
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text as tf_text

from files import run_files, writing
from serving import models, signatures

DESCRIPTION = "model.json"
LITERT = "litert"
_LITERT_FILE = "model.tflite"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A model that takes raw text.

    Attributes:
        signatures: of `signatures.make`.
        network: with the weights.
    """

    signatures: signatures.Signatures
    network: Any

    @property
    def description(self) -> dict[str, Any]:
        """The type and shape of each input and output of signatures."""
        return {
            "signatures": {
                name: {
                    "inputs": _kinds({s.name: s for s in made.input_signature}),
                    "outputs": _kinds(
                        made.get_concrete_function().structured_outputs
                    ),
                }
                for name, made in self.signatures.items()
            }
        }

    def write(self, folder: str, vocab_file: str) -> None:
        """Writes the SavedModel."""
        root = tf.Module(name="bert")
        root.weights = [variable.value for variable in self.network.variables]
        root.vocabulary = tf.saved_model.Asset(vocab_file)
        with _without_notices():
            tf.saved_model.save(
                root,
                folder,
                signatures={
                    name: function.get_concrete_function()
                    for name, function in self.signatures.items()
                },
                # It is not trained.
                options=tf.saved_model.SaveOptions(
                    experimental_custom_gradients=False
                ),
            )


def _kinds(specs: Mapping[str, tf.TensorSpec]) -> dict[str, Any]:
    return {
        name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
        for name, spec in specs.items()
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Converted:
    """A network as the one file of a runtime.

    Attributes:
        content: of the file.
        description: its entries in model.json.
    """

    content: bytes
    description: dict[str, Any]

    def write(self, folder: str, vocab_file: str) -> None:
        """Writes the file, and a copy of the vocabulary."""
        writing.copy_file(
            vocab_file, os.path.join(folder, run_files.VOCABULARY)
        )
        path = os.path.join(folder, _LITERT_FILE)
        with writing.whole_file(path, "wb") as file:
            file.write(self.content)


Exported = SavedModel | Converted


def write(
    exported: Exported, folder: str, vocab_file: str, described: dict[str, Any]
) -> None:
    """Writes a model atomically.

    The files are written to a temporary folder, which is renamed: TensorFlow
    Serving, which watches for versions, never sees an incomplete one. Remote
    stores have no such renaming; there the files are written in place.

    Args:
        exported: a SavedModel, or a converted network, which is written with a
            copy of the vocabulary.
        folder: of the version, such as `NAME/1`; created.
        vocab_file: copied to the model's `assets/`.
        described: entries of `model.json` besides the form of the model and
            the versions of the software.

    Raises:
        OSError: the folder cannot be written.
        ValueError: the folder exists.
    """
    check_new(folder)
    description = {
        **described,
        **exported.description,
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
            exported.write(aside, vocab_file)
            writing.write_json(os.path.join(aside, DESCRIPTION), description)
    except tf.errors.OpError as error:
        raise OSError(
            f"{folder} could not be written: {error.message}"
        ) from error


def check_new(folder: str) -> None:
    """Checks that the folder of a version is new and can be written.

    Raises:
        OSError: no permission to write.
        ValueError: the folder exists.
    """
    if os.path.lexists(folder) or tf.io.gfile.exists(folder):
        raise ValueError(
            f"{folder} exists, and a served version must not change. "
            "Pass another --export_dir."
        )
    writing.check_folder(os.path.dirname(folder))


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


def convert(
    model: models.Model, network: Any, *, quantize: bool = False
) -> Converted:
    """Converts a network to LiteRT, for any number of rows of any length.

    Args:
        model: of `models.read`.
        network: of `models.load`; its activations are replaced by operations
            that exist in LiteRT.
        quantize: store the matrices as 8-bit integers; the other factors are
            quantized at run time (dynamic range).
    """
    specs = signatures.id_specs(model)
    compute = tf.function(
        models.outputs_of(model, network),
        input_signature=specs,
        autograph=False,  # No Python here depends on a tensor.
    ).get_concrete_function()
    root = tf.Module()
    # Tracked variables become constants.
    root.weights = [variable.value for variable in network.variables]
    converter = tf.lite.TFLiteConverter.from_concrete_functions([compute], root)
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with _without_notices():
        content = converter.convert()
    outputs = compute.structured_outputs
    return Converted(
        content=content,
        description={
            "format": LITERT,
            "quantize": "int8" if quantize else None,
            "inputs": {spec.name: spec.shape.as_list() for spec in specs},
            "outputs": {k: v.shape.as_list() for k, v in outputs.items()},
        },
    )

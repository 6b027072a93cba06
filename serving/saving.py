"""SavedModel writing, in the layout of TensorFlow Serving."""

import contextlib
import os
import platform
import shutil
import unicodedata
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text as tf_text
from absl import logging

from files import writing
from serving import converting, signatures

DESCRIPTION = "model.json"
VOCABULARY = "vocab.txt"


def write(
    servable: signatures.Servable,
    folder: str,
    vocab_file: str,
    described: dict[str, Any],
    converted: converting.Converted | None = None,
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
    description = {
        "task": servable.task,
        **servable.details,
        **described,
        **(
            converted.description
            if converted
            else {"signatures": _described(servable)}
        ),
        "versions": _versions(),
    }
    try:
        with writing.whole_folder(folder) as aside:
            if converted:
                os.makedirs(aside)
                shutil.copy(vocab_file, os.path.join(aside, VOCABULARY))
                with open(os.path.join(aside, converted.name), "wb") as file:
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
    """Hides TensorFlow's notices on saving, except errors.

    They name temporary files, and captured variables by numbers.
    """
    verbosity, level = logging.get_verbosity(), tf.get_logger().level
    logging.set_verbosity(logging.ERROR)
    tf.get_logger().setLevel("ERROR")
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        tf.get_logger().setLevel(level)


def _described(servable) -> dict[str, dict[str, Any]]:
    """Returns the inputs and outputs of each signature."""
    described = {}
    for name, function in servable.signatures.items():
        concrete = function.get_concrete_function()
        inputs = concrete.structured_input_signature
        described[name] = {
            "inputs": {
                spec.name: _kind(spec) for spec in tf.nest.flatten(inputs)
            },
            "outputs": {
                key: _kind(spec)
                for key, spec in concrete.structured_outputs.items()
            },
        }
    return described


def _kind(spec) -> dict[str, Any]:
    """Returns the type and shape of a tensor, with None for any size."""
    return {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "tensorflow_text": tf_text.__version__,
        "keras": keras.__version__,
        # Of the tables in the model's tokenizer.
        "unicode": unicodedata.unidata_version,
    }

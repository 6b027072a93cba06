"""Writing of models: SavedModels of TensorFlow Serving, and LiteRT.

The files of a model are written to a temporary folder, which is renamed:
TensorFlow Serving, which watches for versions, never sees an incomplete one.
Remote stores have no such renaming; there the files are written in place.
"""

import contextlib
import logging
import os
import platform
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping

import keras
import tensorflow as tf
import tensorflow_text as tf_text

from bert.files import run_files, writing
from bert.models import folder as folder_lib
from bert.serving import warmup
from bert.tasks import asking, signatures
from vocab import graph_tokenizer

_DESCRIPTION = "model.json"
_LITERT_FILE = "model.tflite"


def make_signatures(
    model: asking.Asking, network: keras.Model
) -> asking.Signatures:
    """Makes the signatures of a model.

    Args:
        model: of `loading.read`.
        network: of `loading.load`.

    Raises:
        ValueError: the model is not exported for texts.
    """
    text_tokenizer = model.model.tokenizer
    basic = text_tokenizer.basic_tokenizer
    tokenizer = graph_tokenizer.GraphTokenizer(
        text_tokenizer.vocab_file, basic.do_lower_case, basic.strip_accents
    )
    return model.signatures(_compute(model, network), tokenizer)


def _compute(
    model: asking.Asking, network: keras.Model
) -> signatures.Signature:
    """Traces the outputs of rows of ids once for all signatures.

    Outside of what training compiles, plain operations are exported.
    """

    # No Python here depends on a tensor.
    @tf.function(input_signature=signatures.id_specs(model), autograph=False)
    def compute(
        input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> asking.Tensors:
        ids = (input_ids, input_mask, segment_ids)
        rows = dict(zip(asking.ID_NAMES, ids, strict=True))
        return model.outputs(network, rows)

    return compute


def write_saved_model(
    functions: asking.Signatures,
    network: keras.Model,
    folder: str,
    vocab_file: str,
    described: Mapping[str, object],
) -> None:
    """Writes a model that takes raw text.

    Args:
        functions: of `make_signatures`.
        network: with the weights.
        folder: of the version, such as `NAME/1`; created.
        vocab_file: copied to the model's `assets/`.
        described: entries of `model.json` besides the inputs and outputs of
            the signatures and the versions of the software.

    Raises:
        OSError: the folder cannot be written.
        ValueError: the folder exists.
    """
    concrete = {k: f.get_concrete_function() for k, f in functions.items()}
    specs = {
        name: {
            "inputs": _specs_as_json(
                {spec.name: spec for spec in function.input_signature}
            ),
            "outputs": _specs_as_json(concrete[name].structured_outputs),
        }
        for name, function in functions.items()
    }
    root = tf.Module(name="bert")
    root.weights = [variable.value for variable in network.variables]
    # An asset keeps the name of its file.
    with (
        tempfile.TemporaryDirectory() as work,
        _written(folder, {**described, "signatures": specs}) as incomplete,
    ):
        path = os.path.join(work, run_files.VOCABULARY)
        folder_lib.write_vocabulary(vocab_file, path)
        root.vocabulary = tf.saved_model.Asset(path)
        tf.saved_model.save(
            root,
            incomplete,
            signatures=concrete,
            # A SavedModel for serving needs no gradients.
            options=tf.saved_model.SaveOptions(
                experimental_custom_gradients=False
            ),
        )
        warmup.write(functions, incomplete)


def _specs_as_json(specs: Mapping[str, tf.TensorSpec]) -> dict[str, object]:
    return {
        name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
        for name, spec in specs.items()
    }


def write_litert(
    model: asking.Asking,
    network: keras.Model,
    folder: str,
    described: Mapping[str, object],
    *,
    quantize: bool = False,
) -> None:
    """Writes a network for LiteRT, for any number of rows of any length.

    Args:
        model: of `loading.read`; its vocabulary is copied.
        network: of `loading.load`; its activations are replaced by operations
            that exist in LiteRT.
        folder, described: as for `write_saved_model`.
        quantize: store the matrices as 8-bit integers; the other factors are
            quantized at run time (dynamic range).

    Raises:
        OSError, ValueError: as `write_saved_model`.
    """
    specs = signatures.id_specs(model)
    compute = _compute(model, network).get_concrete_function()
    root = tf.Module()
    # Tracked variables become constants.
    root.weights = [variable.value for variable in network.variables]
    converter = tf.lite.TFLiteConverter.from_concrete_functions([compute], root)
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    outputs = compute.structured_outputs
    form = {
        "format": "litert",
        "quantize": "int8" if quantize else None,
        "inputs": {spec.name: spec.shape.as_list() for spec in specs},
        "outputs": {k: v.shape.as_list() for k, v in outputs.items()},
    }
    with _written(folder, {**described, **form}) as incomplete:
        content = converter.convert()
        folder_lib.write_vocabulary(
            model.model.tokenizer.vocab_file,
            os.path.join(incomplete, run_files.VOCABULARY),
        )
        path = os.path.join(incomplete, _LITERT_FILE)
        with writing.whole_file(path, "wb") as file:
            file.write(content)


@contextlib.contextmanager
def _written(folder: str, described: Mapping[str, object]) -> Iterator[str]:
    """Yields the folder to fill, and adds `model.json` to it."""
    check_new(folder)
    versions = {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "tensorflow_text": tf_text.__version__,
        "keras": keras.__version__,
        # The tables in the model's tokenizer follow this version.
        "unicode": unicodedata.unidata_version,
    }
    try:
        with writing.whole_folder(folder) as incomplete, _without_notices():
            yield incomplete
            writing.write_json(
                os.path.join(incomplete, _DESCRIPTION),
                {**described, "versions": versions},
            )
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

"""Networks for runtimes other than TensorFlow's: LiteRT and ONNX.

The converters are libraries of requirements-export.txt, imported late.
"""

import dataclasses
import functools
import importlib.util
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from modeling import layers
from serving import networks
from serving import settings as settings_lib
from tasks.classification import labels

LITERT, ONNX = "litert", "onnx"
INT8 = "int8"
_FILES = {LITERT: "model.tflite", ONNX: "model.onnx"}


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


def check_installed(target: str, quantize: str | None) -> None:
    """Checks that the converter is installed, before a model is loaded.

    Raises:
        ValueError: a package is missing.
    """
    needed = [ONNX, *(["onnxruntime"] if quantize else [])]
    for package in needed if target == ONNX else ():
        if importlib.util.find_spec(package) is None:
            raise ValueError(
                f"--format={ONNX} needs the package {package}; install it with "
                "pip install -r requirements-export.txt."
            )


def convert(
    task: str,
    model: Any,
    settings: settings_lib.Settings,
    target: str,
    quantize: str | None = None,
) -> Converted:
    """Converts a network, for any number of rows of any length.

    Args:
        task: one of `run_folder.TASKS`.
        model: of `networks.load`; for LiteRT its activations are replaced by
            operations that exist there.
        settings: of the model.
        target: `LITERT` or `ONNX`.
        quantize: `INT8` to store the matrices as 8-bit integers; the other
            factors are quantized at run time (dynamic range).
    """
    if target == LITERT:
        _use_gelu_operation(model)
    network = tf.function(
        networks.outputs_of(task, model, settings),
        input_signature=networks.specs(task),
        autograph=False,  # No Python here depends on a tensor.
    ).get_concrete_function()
    shapes = [
        {name: spec.shape.as_list() for name, spec in specs.items()}
        for specs in (
            {spec.name: spec for spec in networks.specs(task)},
            network.structured_outputs,
        )
    ]
    if target == LITERT:
        content = _to_litert(model, network, quantize)
    else:
        content = _to_onnx(task, model, settings, shapes, quantize)
    return Converted(
        name=_FILES[target],
        content=content,
        description={
            "format": target,
            "quantize": quantize,
            "inputs": shapes[0],
            "outputs": shapes[1],
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


def _to_litert(model: Any, network: Any, quantize: str | None) -> bytes:
    root = tf.Module()
    # Tracked variables become constants.
    root.weights = [variable.value for variable in model.variables]
    converter = tf.lite.TFLiteConverter.from_concrete_functions([network], root)
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert()


def _to_onnx(
    task: str,
    model: Any,
    settings: settings_lib.Settings,
    shapes: Sequence[dict[str, list[Any]]],
    quantize: str | None,
) -> bytes:
    from serving import onnx_graph

    label_set = settings.label_set
    kind = label_set.problem_type if label_set else labels.SINGLE_LABEL
    converted = onnx_graph.write(task, model, kind, *shapes)
    if not quantize:
        return converted.SerializeToString()
    import onnx
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        whole, small = (os.path.join(folder, n) for n in ("whole", "small"))
        onnx.save(converted, whole)
        quantization.quantize_dynamic(whole, small, per_channel=True)
        with open(small, "rb") as file:
            return file.read()

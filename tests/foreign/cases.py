"""The network and inputs of the checkpoints that other programs write."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

SIZES = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 14,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}
POSITIONS = np.array([[1, 4], [0, 2], [3, 5]])


def inputs(shape: tuple[int, ...] = (3, 7)) -> dict[str, np.ndarray]:
    """Draws token ids, with their mask and segments, of a shape."""
    rng = np.random.default_rng(3)
    ids = rng.integers(1, SIZES["vocab_size"], shape)
    mask = np.ones(shape, np.int32)
    mask[1, ..., -3:] = 0
    segments = np.zeros(shape, np.int32)
    segments[..., 4:] = 1
    return {
        "input_ids": ids.astype(np.int32),
        "input_mask": mask,
        "segment_ids": segments,
    }


def noise(number: int, shape: tuple[int, ...]) -> np.ndarray:
    """Draws float32 numbers to add to the variable of a number."""
    rng = np.random.default_rng(number)
    return rng.normal(0, 0.2, shape).astype(np.float32)


def write(
    folder: pathlib.Path,
    model_class: str,
    given: Mapping[str, np.ndarray],
    outputs: Mapping[str, Any],
    num_labels: int = 2,
) -> None:
    """Writes the outputs of a model beside its checkpoint.

    Args:
        folder: of the checkpoint.
        model_class: its name in Hugging Face's Transformers.
        given: `inputs` of the model.
        outputs: arrays by the names they have in this project.
        num_labels: of the model.
    """
    case = {"class": model_class, "num_labels": num_labels}
    (folder / "case.json").write_text(json.dumps(case))
    np.savez_compressed(
        folder / "case.npz",
        masked_lm_positions=POSITIONS,
        **given,
        **{f"out/{key}": np.asarray(value) for key, value in outputs.items()},
    )

"""Answers of an exported model, in the form that `predicting` gives them."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  # The operations of the tokenizer.

from files import json_text
from serving import predicting, run_folder, saving, signatures
from tasks.classification import labels, predictions


class SavedPredictor:
    """Answers with a SavedModel of `tools.export_model`.

    Args:
        folder: of its version.
        batch_size: examples that are read at once.

    Attributes:
        task: what the model does.

    Raises:
        ValueError: it is not for one of `predicting.FIELDS`.
    """

    def __init__(self, folder: str, batch_size: int):
        path = os.path.join(folder, saving.DESCRIPTION)
        described = json_text.read_object(path)
        self.task: str = described["task"]
        if self.task not in predicting.FIELDS or "signatures" not in described:
            raise ValueError(
                f"{folder} must be a SavedModel that answers texts; it is for "
                f"{self.task} ({described.get('format', 'saved_model')})."
            )
        if self.task in (run_folder.CLASSIFY, run_folder.SCORE):
            self._labels = labels.load(path)
        self._batch_size = batch_size
        # Kept: its signatures do not keep it.
        self._model = tf.saved_model.load(folder)

    def predict(
        self, examples: Iterable[predicting.Example]
    ) -> list[dict[str, Any]]:
        """Answers examples, in order, as JSON has it."""
        left = list(examples)
        answers: list[dict[str, Any]] = []
        while left:
            batch, left = left[: self._batch_size], left[self._batch_size :]
            if self.task == run_folder.CHOOSE:
                # A tensor has as many endings in each row.
                same = len(batch[0]["endings"])
                count = next(
                    (
                        i
                        for i, e in enumerate(batch)
                        if len(e["endings"]) != same
                    ),
                    len(batch),
                )
                batch, left = batch[:count], batch[count:] + left
            answers += self._answers(batch)
        return answers

    def _answers(self, batch) -> Iterable[dict[str, Any]]:
        names = predicting.FIELDS[self.task]
        signature = signatures.DEFAULT
        if "text_b" in names:
            signature = signatures.PAIRS
        columns = {
            name: tf.constant([each.get(name, "") for each in batch])
            for name in names
        }
        outputs = {
            name: value.numpy()
            for name, value in self._model.signatures[signature](
                **columns
            ).items()
        }
        if self.task == run_folder.SCORE:
            scores = outputs["score"][:, np.newaxis]
            return predictions.named_answers(self._labels, scores)
        if self.task == run_folder.CLASSIFY:
            probabilities = outputs["probabilities"]
            return predictions.named_answers(self._labels, probabilities)
        rows = [
            {name: values[row] for name, values in outputs.items()}
            for row in range(len(batch))
        ]
        if self.task == run_folder.CHOOSE:
            return [
                predicting.chosen(each, row["probabilities"])
                for each, row in zip(batch, rows, strict=True)
            ]
        if self.task == run_folder.TAG:
            return [
                predicting.tagged(_texts(row["words"]), _texts(row["tags"]))
                for row in rows
            ]
        return [
            {
                name: value.decode()
                if name == "answer"
                else predictions.shortest(value)
                if value.dtype == np.float32
                else int(value)
                for name, value in row.items()
            }
            for row in rows
        ]


def _texts(values: np.ndarray) -> list[str]:
    """Decodes texts up to the "" that fill a row up."""
    return [value.decode() for value in values if value]

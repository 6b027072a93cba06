"""Texts asked of a trained model of the user's own task."""

import importlib.util
import inspect
import os
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert.files import paths
from bert.tasks import asking, sentence_pairs, task
from modeling import config as config_lib

if TYPE_CHECKING:
    import keras

    from vocab import graph_tokenizer


def find(path: str, kind: str) -> type[task.Task]:
    """Finds the class of a task in a Python file, which is run.

    Args:
        path: the file.
        kind: the name of the task in task.json.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no class of the task.
    """
    paths.check_readable(path)
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}: must be a Python file, NAME.py.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = {
        value.kind: value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, task.Task)
        and value.__module__ == name
    }
    if kind not in kinds:
        listed = ", ".join(map(repr, kinds)) or "none"
        raise ValueError(
            f"{path} must define the task of the model, {kind!r}, a class with "
            f"this kind; its tasks are: {listed}."
        )
    return kinds[kind]


class OwnTask(asking.Asking[None]):
    """The `fields` of a task, which its `encode` and `answer` convert.

    Args:
        model: the model.
        task_class: its task.

    Raises:
        ValueError: the task is not asked for texts.
    """

    def __init__(self, model: asking.ServedModel, task_class: type[task.Task]):
        super().__init__(model)
        if not task_class.fields:
            raise ValueError(
                f"{task_class.__name__} needs fields, encode and answer to be "
                "asked; see docs/adding_a_task.md."
            )
        self.kind = task_class.kind
        # The flags of the model; no step runs, so that no file is read.
        options = types.SimpleNamespace(
            **{
                **model.description.to_json(),
                "max_seq_length": model.max_seq_length,
                "needed_splits": (),
            }
        )
        self._task = task_class(options, model.tokenizer, model.folder)

    @property
    def fields(self) -> tuple[str, ...]:
        return self._task.fields

    def make_network(self, config: config_lib.BertConfig) -> "keras.Model":
        self._objective = self._task.make_objective(config)
        return self._objective.model

    def outputs(
        self, network: "keras.Model", rows: asking.Tensors
    ) -> asking.Tensors:
        """Returns the `predictions` of the objective of the task."""
        return self._objective.predictions(rows)

    def encode(
        self,
        example: asking.Example,
        counts: sentence_pairs.TruncationCounts,
    ) -> list[asking.Row[None]]:
        records = self._task.encode(example)
        return [asking.Row.of(record, None) for record in records]

    def decode(
        self,
        example: asking.Example,
        rows: Sequence[asking.Row[None]],
        outputs: asking.Outputs,
    ) -> asking.Answer:
        return self._task.answer(example, outputs)

    def lines(
        self, example: asking.Example, answer: asking.Answer
    ) -> list[str]:
        return [f"  {name}: {value}" for name, value in answer.items()]

    def signatures(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        from bert.tasks import signatures

        ids = signatures.of_ids(compute, self)
        texts = self._task.signatures(compute, tokenizer)
        return {signatures.DEFAULT: ids, **texts, signatures.IDS: ids}

"""The base class of tasks with one label, several labels or a score."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from absl import logging

from bert.tasks import task
from bert.tasks.classification import class_labels, metrics, predictions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """Model outputs for labeled examples.

    Attributes:
        outputs: `[E, K]` float32, probabilities or scores.
        losses: `[E]` float32.
    """

    outputs: np.ndarray
    losses: np.ndarray


class LabeledTask(task.Task[task.Content, Answers]):
    """A task with one label, several labels or a score per example.

    Its objective returns `outputs` and `losses`. A subclass also sets:

    Attributes:
        label_set: the labels.
        metric_names: the metrics; the first one selects checkpoints.
    """

    label_set: class_labels.LabelSet
    metric_names: tuple[str, ...]

    @property
    def metric(self) -> str:
        return self.metric_names[0]

    def decode(
        self,
        data: task.Records[task.Content],
        outputs: Mapping[str, np.ndarray],
    ) -> Answers:
        losses = outputs["losses"][:, np.newaxis]  # [R, 1]
        return Answers(
            outputs=predictions.pool_windows(
                outputs["outputs"], data.rows_per_example
            ),
            losses=predictions.pool_windows(losses, data.rows_per_example)[
                :, 0
            ],
        )

    def metrics(
        self, data: task.Records[task.Content], answers: Answers
    ) -> dict[str, float]:
        rows = self.labeled_rows(data)
        outputs = answers.outputs[rows]
        scores = metrics.evaluate(
            self.metric_names,
            self.label_ids(data)[rows],
            predictions.decide(self.label_set, outputs),
            outputs,
            # Source: GLUE's F1 is that of the label 1.
            positive=self.label_set.ids.get("1", 1),
        )
        return {"loss": float(np.mean(answers.losses[rows])), **scores}

    def results(
        self, data: task.Records[task.Content], answers: Answers
    ) -> dict[str, float]:
        scores = super().results(data, answers)
        if self.label_set.problem_type != task.REGRESSION:
            targets = self.label_ids(data)[self.labeled_rows(data)]
            logging.info(
                "%s: %s",
                data.data_set.name,
                metrics.describe_majority(self.label_set, targets),
            )
        if data.data_set.split != task.EVAL:
            return dict(scores)
        # As released: `loss` is a mean over batches, `eval_loss` over examples.
        loss = mean_of_batch_means(answers.losses, self.options.eval_batch_size)
        return {f"loss{data.data_set.suffix}": loss, **scores}

    def labeled_rows(
        self, data: task.Records[task.Content]
    ) -> np.ndarray | slice:
        """Returns the places of the examples with a label, by default all."""
        return slice(None)

    def label_ids(self, data: task.Records[task.Content]) -> np.ndarray:
        """Returns `[E]` or, for several labels, `[E, K]`."""
        if self.label_set.problem_type == task.MULTI_LABEL:
            return data.label_ids
        return data.label_ids[:, 0]


def mean_of_batch_means(losses: np.ndarray, batch_size: int) -> float:
    """Returns the mean of the mean losses of batches in file order.

    As released: a short last batch has the weight of a full one, so the result
    depends on the batch size.

    Args:
        losses: `[N]` float.
        batch_size: records in a batch.
    """
    starts = range(0, len(losses), batch_size)
    return float(np.mean([np.mean(losses[i : i + batch_size]) for i in starts]))

"""Base class of tasks with labeled examples: texts or multiple choice."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from tasks import task
from tasks.classification import labels, predictions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """Model outputs for labeled examples.

    Attributes:
        outputs: `[E, K]` float32, probabilities or scores.
        losses: `[R]` float32, one per record.
        thresholds: of the labels, as in `labels.LabelSet`.
    """

    outputs: np.ndarray
    losses: np.ndarray
    thresholds: tuple[float, ...] = ()


class LabeledTask(task.Task):
    """A task with one label, several labels or a score per example.

    Its objective returns `outputs` and `losses`. A subclass also sets:

    Attributes:
        label_set: the labels.
        metric_names: the metrics; the first one selects checkpoints.
    """

    label_set: labels.LabelSet
    metric_names: tuple[str, ...]

    @property
    def metric(self) -> str:
        return self.metric_names[0]

    def decode(
        self, data: task.Data, outputs: Mapping[str, np.ndarray]
    ) -> Answers:
        pooled = predictions.pool_windows(
            outputs["outputs"], data.rows_per_example
        )
        return Answers(outputs=pooled, losses=outputs["losses"])

    def metrics(self, data: task.Data, answers: Answers) -> dict[str, float]:
        scores = predictions.evaluate(
            self.decided_by(answers),
            self.metric_names,
            self.label_ids(data),
            answers.outputs,
        )
        return {"loss": float(np.mean(answers.losses)), **scores}

    def results(self, data: task.Data, answers: Answers) -> dict[str, float]:
        # As released: `loss` is a mean over batches, `eval_loss` over examples.
        loss = mean_of_batch_means(answers.losses, self.options.eval_batch_size)
        return {
            f"loss{data.data_set.suffix}": loss,
            **super().results(data, answers),
        }

    def constant_score(self, data: task.Data) -> float:
        return predictions.constant_answer(
            self.label_set, self.metric, self.label_ids(data)
        )

    def decided_by(self, answers: Answers) -> labels.LabelSet:
        """Returns the labels, with the thresholds of the answers."""
        return dataclasses.replace(
            self.label_set, thresholds=answers.thresholds
        )

    def label_ids(self, data: task.Data) -> np.ndarray:
        """Returns `[E]` or, for several labels, `[E, K]`."""
        if self.label_set.problem_type == labels.MULTI_LABEL:
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

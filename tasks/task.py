"""The interface of a fine-tuning task.

A script defines a `Task`; `training.fine_tuning.run` trains, evaluates and
predicts for it, with everything that the flags of `training.flags` ask for.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

TRAIN, EVAL, PREDICT = "train", "eval", "predict"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSet:
    """The examples of a file, and how records are made of them.

    Attributes:
        split: `TRAIN`, `EVAL` or `PREDICT`.
        name: of the records: they are NAME.tf_record in the run's folder.
        suffix: what the names of its results end in.
        kind: of the records, for the file beside them.
        made_from: what the records depend on beside the vocabulary, the casing
            and the length, as JSON: records that were made from the same are
            used again.
        features: what a record holds, `training.records.Feature` each.
        examples: yields the records of each example, any number of them; called
            only where the records are to be made.
        has_labels: whether the right answers are known.
        content: whatever the task needs to judge and write answers.
        examples_of_files: the number of examples of each file, where several
            are gone through one after the other, and an example counts once in
            an epoch however many its records; None to shuffle all records
            together, each counting once.
    """

    split: str
    name: str
    suffix: str = ""
    kind: str
    made_from: Mapping[str, Any]
    features: Sequence[Any]
    examples: Callable[[], Iterable[Sequence[Any]]]
    has_labels: bool = True
    content: Any = None
    examples_of_files: Sequence[int] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """A data set whose records are made.

    Attributes:
        data_set: what it was made from.
        source: the records, R of them, as `training.input_pipeline` reads them;
            None where there is none, and `decode` gets no outputs.
        rows_per_example: `[E]` int64, the records of each example.
        read: returns a feature of all records by its name, `[R, ...]`.
    """

    data_set: DataSet
    source: Any
    rows_per_example: "np.ndarray"
    read: "Callable[[str], np.ndarray]"

    @classmethod
    def without_records(cls, data_set: DataSet) -> "Data":
        """Returns data of whose examples none has a record."""
        import numpy as np

        return cls(
            data_set=data_set,
            source=None,
            rows_per_example=np.zeros(0, np.int64),
            read=lambda _: np.zeros((0, 1)),
        )

    @property
    def content(self) -> Any:
        """What the task keeps of the file."""
        return self.data_set.content

    @functools.cached_property
    def label_ids(self) -> "np.ndarray":
        """The feature `label_ids` of each example, `[E, K]`."""
        import numpy as np

        first = np.cumsum(self.rows_per_example) - self.rows_per_example
        return self.read("label_ids")[first]


class Task:
    """What a fine-tuning run learns, and how it is judged.

    A subclass sets the attributes, and defines the first five methods.

    Args:
        options: of the run, `training.flags.FineTuningOptions`.

    Attributes:
        name: what is learned: a folder in which something else was learned is
            refused.
        metric: the held-out metric by which checkpoints and trials are
            compared; higher is better.
        labels: what the outputs mean, as labels.json holds it; None where there
            is nothing to say.
        writes_everything: write the answers to evaluated data, too, and those
            of every trial.
    """

    name: str
    labels: Mapping[str, object] | None = None
    writes_everything = False

    def __init__(self, options: Any):
        self.options = options

    @property
    def metric(self) -> str:
        raise NotImplementedError

    @property
    def identity(self) -> Mapping[str, Any]:
        """What a run shares with the one it resumes, beside common flags."""
        return getattr(self.options, "ablation", {})

    @property
    def folds(self) -> "Sequence[Task]":
        """The same with the data of each fold, of which each trial has one."""
        return [self]

    def data_sets(self, split: str) -> Sequence[DataSet]:
        """Lists the data to train on, evaluate on or predict.

        Of several to evaluate on, the first decides.

        Args:
            split: `TRAIN`, `EVAL` or `PREDICT`.
        """
        raise NotImplementedError

    def make_objective(self, config: Any) -> Any:
        """Makes a model with new weights, and its loss.

        Args:
            config: the `modeling.config.BertConfig` of the model.

        Returns:
            A `training.objectives.Objective`.
        """
        raise NotImplementedError

    def decode(self, data: Data, outputs: "Mapping[str, np.ndarray]") -> Any:
        """Turns the outputs of all records into answers.

        Args:
            data: N records.
            outputs: what `predictions` of the objective gives, `[N, ...]` each.
        """
        raise NotImplementedError

    def metrics(self, data: Data, answers: Any) -> Mapping[str, float]:
        """Scores answers."""
        raise NotImplementedError

    def write_answers(self, data: Data, answers: Any, output_dir: str) -> None:
        """Writes the files of predicted data."""
        raise NotImplementedError

    def calibrate(self, data: Data, answers: Any, output_dir: str) -> Any:
        """Returns answers with what was chosen on held-out data, if anything.

        Args:
            data: evaluated or predicted.
            answers: what `decode` returned.
            output_dir: of the model.
        """
        del data, output_dir
        return answers

    def write_report(self, data: Data, answers: Any, output_dir: str) -> None:
        """Writes what there is to say of evaluated data beside the metrics."""

    def results(self, data: Data, answers: Any) -> Mapping[str, float]:
        """Returns what the file of results holds of some data."""
        return {
            f"eval_{name}{data.data_set.suffix}": value
            for name, value in self.metrics(data, answers).items()
        }

    def constant_score(self, data: Data) -> float:
        """Returns what the best answer that ignores the text would score."""
        del data
        return 0.0

    def make_data(self, setup: Any, data_set: DataSet) -> Data:
        """Makes the records of a data set, unless they are there.

        Args:
            setup: the `training.fine_tuning.Setup` of the run.
            data_set: one of `data_sets`.
        """
        return setup.make_data(data_set)

    @property
    def init_checkpoint(self) -> str | None:
        """The weights that training starts from."""
        return self.options.init_checkpoint

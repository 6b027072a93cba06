"""The interface of a fine-tuning task.

A script defines a `Task`; `bert.training.fine_tuning.run` trains, evaluates and
predicts with it according to the flags of `bert.training.options`.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from absl import logging

from bert.files import paths
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.records import schema
from vocab import tokenization

if TYPE_CHECKING:
    import numpy as np
    from numpy import typing as npt

TRAIN, EVAL, PREDICT = "train", "eval", "predict"
# A labeled example has one class, several or none, or a score.
SINGLE_LABEL, MULTI_LABEL = "single_label", "multi_label"
REGRESSION = "regression"
PROBLEM_TYPES = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
# The logit of padding that was removed, below that of any token.
PADDING_LOGIT = -1e9
# Names of result files begin with these.
RESULTS_PREFIX = {EVAL: "eval", PREDICT: "test"}
# The ends of the names of files with scores.
_SCORES = (
    "results.txt",
    "report*.txt",
    "confusion_matrix*.png",
    "highest_loss*.jsonl",
)

# The arrays of a record, by feature.
Record: TypeAlias = "Mapping[str, npt.ArrayLike]"
# A task keeps this of its data, for evaluating and writing answers.
Content = TypeVar("Content")
Answers = TypeVar("Answers")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSet(Generic[Content]):
    """Examples of a file, and their conversion to records.

    Attributes:
        split: `TRAIN`, `EVAL` or `PREDICT`.
        suffix: appended to the names of its results.
        name: of the records, which are NAME.tf_record in the run's folder; by
            default the split with the suffix.
        kind: of the records, for their sidecar.
        made_from: what the records depend on, besides vocabulary, casing and
            length, as JSON. Records with equal values are reused.
        features: the schema of a record.
        examples: yields the records of each example, any number of them; called
            only if the records are created.
        has_labels: whether the ground truth is known.
        content: task-specific data for evaluating and writing answers.
        counts_examples: whether an example counts once per epoch, regardless
            of its number of records; otherwise each record counts.
    """

    split: str
    suffix: str = ""
    name: str = ""
    kind: str
    made_from: Mapping[str, object]
    features: Sequence[schema.Feature]
    examples: Callable[[], Iterable[Sequence[Record]]]
    has_labels: bool = True
    content: Content = None  # type: ignore[assignment]
    counts_examples: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.split + self.suffix)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Records(Generic[Content]):
    """The records of a data set.

    Attributes:
        data_set: the examples.
        source: the `R` records, as read by `bert.training.input_pipeline`.
        rows_per_example: `[E]` int64, the number of records per example.
    """

    data_set: DataSet[Content]
    source: Any
    rows_per_example: "np.ndarray"

    @functools.cached_property
    def label_ids(self) -> "np.ndarray":
        """The feature `label_ids` of each example, `[E, K]`."""
        import numpy as np

        first = np.cumsum(self.rows_per_example) - self.rows_per_example
        return self.source.values("label_ids")[first]


def remove_scores(data: DataSet, output_dir: str) -> None:
    """Removes the scores of an earlier file, whose answers are replaced.

    Args:
        data: a data set without labels, whose answers are written.
        output_dir: where the files are.
    """
    for ending in _SCORES:
        name = f"{RESULTS_PREFIX[data.split]}_{ending}"
        for path in paths.matching(output_dir, name):
            paths.remove(path)
            logging.warning(
                "Removed %s, the scores of another file: this one has no "
                "labels.",
                path,
            )


def label_feature(problem_type: str, num_outputs: int) -> schema.Feature:
    """Returns the feature of an example's labels.

    Args:
        problem_type: one of `PROBLEM_TYPES`.
        num_outputs: K, the width of the output layer.
    """
    return schema.Feature(
        name="label_ids",
        shape=(num_outputs if problem_type == MULTI_LABEL else 1,),
        dtype="int64" if problem_type == SINGLE_LABEL else "float32",
    )


# `Any` stands for what `training` defines, which this package cannot import.
class Task(abc.ABC, Generic[Content, Answers]):
    """A fine-tuning task: its data, model, answers and scores.

    Args:
        options: `bert.training.options.FineTuningOptions` of the run.
        tokenizer: of the model.
        trained: the model, if it is not trained now; its description has what
            it was trained with, such as the labels.

    Attributes:
        kind: the name of the task in task.json. A folder with a model of
            another kind is refused.
        metric: the held-out metric, of `metrics`, that compares checkpoints and
            trials; higher is better.
        fields: the names of the texts of an example, if the trained model is
            asked for texts: by `encode`, `answer` and, in an export,
            `signatures`. The options are then the entries of task.json.
    """

    kind: ClassVar[str]
    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        options: Any,
        tokenizer: tokenization.FullTokenizer,
        trained: folder_lib.ModelFolder | None = None,
    ):
        self.options, self.tokenizer = options, tokenizer
        self.trained = trained

    @property
    @abc.abstractmethod
    def metric(self) -> str: ...

    @property
    def description(self) -> description_lib.Description:
        """The entries of task.json that predicting with the model needs.

        `labels` names the outputs, if they have names; a folder with a model of
        other labels is refused. Added are the kind, what all tasks have, such
        as the casing, and the flags of the script's own that are declared with
        `of_model`.
        """
        return description_lib.Description()

    @abc.abstractmethod
    def data_sets(self, split: str) -> Sequence[DataSet[Content]]:
        """Lists the data sets of a split.

        If there are several to evaluate on, the first selects checkpoints.

        Args:
            split: `TRAIN`, `EVAL` or `PREDICT`.
        """

    @abc.abstractmethod
    def make_objective(self, config: Any) -> Any:
        """Creates a model with new weights, and its loss.

        Args:
            config: the `modeling.config.BertConfig` of the model.

        Returns:
            A `bert.tasks.objectives.Objective`.
        """

    @abc.abstractmethod
    def decode(
        self, data: Records[Content], outputs: "Mapping[str, np.ndarray]"
    ) -> Answers:
        """Converts the outputs of all records to answers.

        Args:
            data: N records.
            outputs: results of the objective's `predictions`, `[N, ...]` each;
                none if there are no records.
        """

    @abc.abstractmethod
    def metrics(
        self, data: Records[Content], answers: Answers
    ) -> Mapping[str, float]:
        """Scores answers."""

    @abc.abstractmethod
    def write_answers(
        self, data: Records[Content], answers: Answers, output_dir: str
    ) -> None:
        """Writes the files of evaluated or predicted data."""

    def results(
        self, data: Records[Content], answers: Answers
    ) -> Mapping[str, float]:
        """Returns the entries of a data set in the results file.

        They are the metrics, with `eval_` or `test_` before their names.
        """
        data_set = data.data_set
        return {
            f"{RESULTS_PREFIX[data_set.split]}_{name}{data_set.suffix}": value
            for name, value in self.metrics(data, answers).items()
        }

    def encode(self, example: Mapping[str, str]) -> Sequence[Record]:
        """Converts the texts of an example, by field, to records.

        `input_ids`, `input_mask` and `segment_ids` of each are used.
        """
        raise NotImplementedError

    def answer(
        self,
        example: Mapping[str, str],
        outputs: "Sequence[Mapping[str, np.ndarray]]",
    ) -> dict[str, object]:
        """Returns the answer to an example, as JSON.

        Args:
            example: its texts by field.
            outputs: the objective's `predictions` for each of its records.
        """
        raise NotImplementedError

    def signatures(self, compute: Any, tokenizer: Any) -> dict[str, Any]:
        """Returns the signatures of texts in an export; it always has `ids`.

        Args:
            compute: the objective's `predictions` as a function of ids, by
                name, `[R, T]` each.
            tokenizer: a `vocab.graph_tokenizer.GraphTokenizer`.
        """
        del compute, tokenizer
        return {}

"""The setup of a run: the model, the data and their evaluation."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from bert.models import folder as folder_lib
from bert.records import reading
from bert.tasks import objectives
from bert.training import network as network_lib
from bert.training import resuming

Objective = TypeVar("Objective", bound=objectives.Objective)


class Evaluation(abc.ABC, Generic[Objective]):
    """The evaluation of the current weights."""

    @abc.abstractmethod
    def score(self, objective: Objective) -> Mapping[str, float]:
        """Scores the weights on held-out data, while training."""

    @abc.abstractmethod
    def write_results(
        self,
        objective: Objective,
        output_dir: str,
        step: int,
        splits: Sequence[str],
        metrics: Mapping[str, float] | None,
    ) -> Mapping[str, float]:
        """Answers splits at the end of a run; the chief writes the files.

        Args:
            objective: with the weights.
            output_dir: of the run.
            step: the number of steps of the weights.
            splits: those to evaluate or predict.
            metrics: the result of `score`, if its last call was for these
                weights.

        Returns:
            The contents of the result files.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup(Generic[Objective]):
    """What `bert.training.run` needs of a kind of training.

    Attributes:
        planned: the description and the sizes of the model.
        new_variables: patterns of the variables that `--init_checkpoint` may
            lack, such as the output layer.
        is_pretrained: whether a run is expected to start from one.
        network: shared by the runs of a grid.
        records: the training data, if there is a run that trains.
        training_data: identifies them besides their records, as JSON.
        num_examples: those of an epoch; 0 if the flags count steps.
        row_length: of packed rows; 0 for the length of the longest record.
        num_frozen_layers: number of lowest layers to freeze, with the
            embeddings; 0 to train everything.
        evaluation: of the current weights.
        metric: of the held-out data; it selects the weights in `best/`.
        splits: those to evaluate or predict at the end of a run.
        uses_best: whether `best/` is evaluated instead of the latest weights.
    """

    planned: folder_lib.PlannedModel
    new_variables: Sequence[str]
    is_pretrained: bool
    network: network_lib.Network[Objective]
    records: reading.RecordSource | None
    training_data: Mapping[str, object] = dataclasses.field(
        default_factory=dict
    )
    num_examples: int = 0
    row_length: int = 0
    num_frozen_layers: int = 0
    evaluation: Evaluation[Objective]
    metric: resuming.HeldOutMetric | None
    splits: Sequence[str] = ()
    uses_best: bool = False

    @property
    def needed_records(self) -> reading.RecordSource:
        """The training data of a run that trains."""
        if self.records is None:
            raise RuntimeError("The run has no training data.")
        return self.records

    def data_identity(self) -> dict[str, object]:
        """Identifies the training data, as JSON."""
        return {**self.training_data, **self.needed_records.identity()}

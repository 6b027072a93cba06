"""The plan of a training: its settings in addition to the flags."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from training import devices, optimization, reporting
from training import flags as training_flags

# Options of any run that must stay the same when it resumes.
_IDENTITY = (
    *("random_seed", "train_batch_size", "learning_rate", "lr_schedule"),
    *("adam_bias_correction", "optimizer", "num_accumulation_steps"),
    "max_seq_length",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a training, in addition to its flags.

    Attributes:
        num_train_steps: the step at which the run ends.
        num_warmup_steps: the steps of the learning rate's warm-up.
        identity: the values that must stay the same for an exact resume; saved
            with each checkpoint. Another `objective` is an error.
        new_variables: patterns of variables that may be missing from
            `--init_checkpoint` or have another shape there, such as the output
            layer of a task.
        frozen_variables: patterns of variables that are not trained.
        evaluate: returns held-out metrics; called every `eval_every_steps` and
            at the end. None for no evaluation.
        eval_every_steps: steps between evaluations; 0 for none.
        best_metric: the held-out metric that selects the weights in `best/`;
            None to keep none.
        higher_is_better: False for losses.
        make_sanity_check: creates the check of each report; called if steps
            remain.
    """

    num_train_steps: int
    num_warmup_steps: int = 0
    identity: Mapping[str, object]
    new_variables: Sequence[str] = ()
    frozen_variables: Sequence[str] = ()
    evaluate: Callable[[], Mapping[str, float]] | None = None
    eval_every_steps: int = 0
    best_metric: str | None = None
    higher_is_better: bool = True
    make_sanity_check: Callable[[], reporting.SanityCheck | None] | None = None

    def schedule(
        self, options: training_flags.TrainingOptions
    ) -> optimization.Schedule:
        """Returns the learning-rate schedule."""
        return optimization.Schedule(
            init_lr=options.learning_rate,
            num_train_steps=self.num_train_steps,
            num_warmup_steps=self.num_warmup_steps,
            kind=options.lr_schedule,
        )

    def complete_identity(
        self,
        options: training_flags.TrainingOptions,
        strategy: tf.distribute.Strategy,
    ) -> "Plan":
        """Adds the flags of every training, and the devices, to `identity`."""
        identity = {
            **{name: getattr(options, name) for name in _IDENTITY},
            **self.identity,
            "precision": devices.precision_in_use(),
            "num_replicas": strategy.num_replicas_in_sync,
        }
        return dataclasses.replace(self, identity=identity)

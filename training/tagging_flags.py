"""Flags of taggers: fine-tuned, or on features of a frozen encoder."""

import dataclasses
from typing import TypeVar

from absl import flags

from commands import flag_groups
from modeling import feature_layers
from training import fine_tuning_flags

# What `--features` sets, unless the flag itself is given: a BiLSTM that begins
# at random needs larger steps, and more of them, than a trained encoder. The
# paper does not say which.
FEATURE_BASED = {"learning_rate": 1e-3, "num_train_epochs": 20.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingOptions(fine_tuning_flags.FineTuningOptions):
    """What the flags below hold; see them and --help."""

    features: str | None
    lstm_units: int


_Options = TypeVar("_Options", bound=TaggingOptions)


def define_flags(values: flags.FlagValues) -> None:
    """Defines all flags of `TaggingOptions`; text is cased, windows long."""
    fine_tuning_flags.define_flags(values)
    # Source: Devlin et al. 2019, §5.3: cased, with the maximal document
    # context, and App. A.2: 512 pieces.
    values.set_default("do_lower_case", False)
    values.set_default("max_seq_length", 512)
    _define_feature_flags(values)


@flag_groups.under(flag_groups.Group.MODEL)
def _define_feature_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_enum(
        "features",
        None,
        feature_layers.CHOICES,
        "Train a BiLSTM on these hidden layers of --init_checkpoint, which "
        "stays as it is, instead of fine-tuning. Sets "
        + ", ".join(f"--{name}={x}" for name, x in FEATURE_BASED.items())
        + ", each unless given.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "lstm_units",
        768,
        "Units of the BiLSTM in each direction, with --features.",
        lower_bound=1,
        flag_values=values,
    )


def read_options(options: type[_Options], values: flags.FlagValues) -> _Options:
    """Fills a dataclass from the flags; `--features` changes the defaults."""
    if values["features"].value:
        for name, value in FEATURE_BASED.items():
            if not values[name].present:
                values.set_default(name, value)
    return fine_tuning_flags.read_options(options, values)

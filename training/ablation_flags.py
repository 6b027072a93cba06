"""Flags that make another model of BERT, for Table 5; no TensorFlow.

Source: Devlin et al. 2019, section 5.1.
"""

import dataclasses

from absl import flags

from commands import flag_groups

BIDIRECTIONAL, CAUSAL = ATTENTIONS = ("bidirectional", "causal")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationOptions:
    """What the flags below hold; see them and --help."""

    attention: str = BIDIRECTIONAL
    bilstm_head: bool = False

    @property
    def is_ablated(self) -> bool:
        """Whether the model is not BERT."""
        return self.attention != BIDIRECTIONAL or self.bilstm_head


@flag_groups.under(flag_groups.Group.MODEL)
def define_flags(values: flags.FlagValues) -> None:
    """Defines all flags of `AblationOptions`."""
    default = AblationOptions()
    flags.DEFINE_enum(
        "attention",
        default.attention,
        ATTENTIONS,
        "causal: each token sees those before it alone. For models that "
        "run_pretraining.py trained with --objective=ltr, and no others.",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "bilstm_head",
        default.bilstm_head,
        "Put a BiLSTM, which begins at random, between the encoder and the "
        "output layer.",
        flag_values=values,
    )

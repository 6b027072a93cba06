r"""Fine-tuning of BERT for token classification, such as named entities.

Examples:

  python run_ner.py \
    --data_dir=/data/conll2003 \
    --init_checkpoint=$BERT --output_dir=/data/ner_output \
    --do_train --do_eval --do_predict --num_trials=5

  python run_ner.py --features=concat_last_four ...

The second command freezes BERT and trains a BiLSTM on its hidden layers. Files
have one word and its tag per line, as in CoNLL-2003. After an interruption, run
the same command again: training resumes from the last checkpoint.
"""

import dataclasses

from bert.commands import flags
from bert.tasks.tagging import learning
from bert.tasks.tagging import options as tagging_options
from bert.training import fine_tuning
from bert.training import options as training_options


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_options.AblationOptions,
    tagging_options.FeatureOptions,
    training_options.SequenceOptions,
    tagging_options.TaggingFileOptions,
):
    """The flags of this script; see --help.

    By default text is cased, and windows have 512 pieces.
    Source: Devlin et al. 2019, §5.3, and App. A.2.
    """

    do_lower_case: bool = flags.redeclare(
        training_options.SequenceOptions, "do_lower_case", False
    )
    max_seq_length: int = flags.redeclare(
        training_options.SequenceOptions, "max_seq_length", 512
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features and self.do_train and not self.init_checkpoint:
            raise ValueError(
                "--features are computed by the encoder of --init_checkpoint; "
                "--init_checkpoint must be given."
            )
        if self.features and self.bilstm_head:
            raise ValueError(
                "--features has a BiLSTM of its own; pass no --bilstm_head "
                "with it."
            )


def run(options: Options) -> None:
    """Trains, evaluates and predicts according to the options."""
    fine_tuning.run(learning.TaggingTask, options)


if __name__ == "__main__":
    fine_tuning.main(learning.TaggingTask, Options)

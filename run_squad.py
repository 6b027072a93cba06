r"""Fine-tuning of BERT for extractive question answering: SQuAD 1.1 and 2.0.

Example:

  python run_squad.py \
    --bert_config_file=$BERT/bert_config.json --vocab_file=$BERT/vocab.txt \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/tmp/squad \
    --do_train --train_file=train-v1.1.json \
    --do_predict --do_eval --predict_file=dev-v1.1.json \
    --train_batch_size=12 --learning_rate=3e-5 --num_train_epochs=2.0

For SQuAD 2.0 add --version_2_with_negative; the flag
--null_score_diff_threshold=auto then chooses the best threshold. After an
interruption, run the same command again: training resumes from the last
checkpoint. tools.evaluate_squad scores files of predictions, and combines those
of several runs.
"""

import dataclasses

from bert.tasks.squad import learning
from bert.tasks.squad import options as squad_options
from bert.training import fine_tuning
from bert.training import options as training_options


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_options.AblationOptions,
    training_options.FineTuningOptions,
    squad_options.SquadOptions,
):
    """The flags of this script; see --help."""

    def __post_init__(self) -> None:
        _ = self.windows  # The constructor checks the values.
        super().__post_init__()


def run(options: Options) -> None:
    """Trains, predicts and evaluates according to the options."""
    fine_tuning.run(learning.QuestionAnsweringTask, options)


if __name__ == "__main__":
    fine_tuning.main(learning.QuestionAnsweringTask, Options)

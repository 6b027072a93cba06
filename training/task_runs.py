"""Start of a fine-tuning script: checks first, then TensorFlow."""

from collections.abc import Callable
from typing import Any

from tasks import task as task_lib
from training import flags as training_flags
from training import option_checks, trials


def run(
    make_task: Callable[[Any, Any], task_lib.Task],
    options: training_flags.FineTuningOptions,
    tokenizer: Any,
) -> None:
    """Trains, evaluates and predicts with a task according to the options.

    Args:
        make_task: the class of the task; its constructor checks options and
            data. It does not import TensorFlow, so that errors appear at once.
        options: the flags of the script.
        tokenizer: the tokenizer of the model. Its `vocab` maps every piece to
            an id below its `vocab_size`.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints are incompatible.
    """
    options = trials.with_best_trial(options)
    config = option_checks.check_task(options, tokenizer.vocab_size)
    task = make_task(options, tokenizer)
    option_checks.check_weights(options)
    from training import fine_tuning

    fine_tuning.run(task, config)

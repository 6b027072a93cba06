"""Names of the files in a run's folder, and of the folders of its trials."""

import re

from files import paths

VOCABULARY = "vocab.txt"
TASK = "task.json"  # The description of the model.
TOKENIZER = "tokenizer.json"
LABELS = "labels.json"
RUN_CARD = "run_card.json"
TRIALS = "trials.json"
BEST = "best"  # The folder of the best checkpoint.
BEST_RECORD = "best.json"  # In the folder of the best checkpoint.
_ANY_TRIAL = "trial-[0-9]*"


def trial_name(number: int) -> str:
    """Names the folder of a trial within that of its run."""
    return f"trial-{number}"


def trial_folders(folder: str) -> list[str]:
    """Lists the folders of the trials of a run, local or remote."""
    return paths.matching(folder, _ANY_TRIAL)


def trial_files(folder: str, pattern: str) -> list[str]:
    """Lists the files of all trials of a run that match a glob pattern."""
    return paths.matching(folder, f"{_ANY_TRIAL}/{pattern}")


def checkpoints_in(folder: str, *, in_trials: bool = False) -> list[str]:
    """Lists the `.index` files of checkpoints in a folder, local or remote.

    Args:
        folder: of a run.
        in_trials: lists those in the folders of its trials instead.
    """
    if in_trials:
        return trial_files(folder, "*.index")
    return paths.matching(folder, "*.index")


def are_of_other_weights(step: int, checkpoint: str) -> bool:
    """Returns whether values found at a step are those of another checkpoint.

    Args:
        step: of the weights with which they were found; 0 if unknown.
        checkpoint: the prefix of a checkpoint; without a step in its name, it
            is taken to be the same.
    """
    return 0 not in (step, other := step_of(checkpoint)) and step != other


def step_of(checkpoint: str) -> int:
    """Returns the step in the name of a checkpoint, or 0."""
    match = re.search(r"-(\d+)$", checkpoint)
    return int(match[1]) if match else 0

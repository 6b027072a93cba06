"""Names of the files in a run's folder, and of the folders of its trials."""

from files import paths

VOCABULARY = "vocab.txt"
TASK = "task.json"  # The description of the model.
TOKENIZER = "tokenizer.json"
LABELS = "labels.json"
TRIALS = "trials.json"
BEST = "best"  # The folder of the best checkpoint.
BEST_RECORD = "best.json"  # In the folder of the best checkpoint.
_ANY_TRIAL = "trial-[0-9]*"


def trial_name(number: int) -> str:
    """Names the folder of a trial within that of its run."""
    return f"trial-{number}"


def checkpoints_in(folder: str, *, in_trials: bool = False) -> list[str]:
    """Lists the `.index` files of checkpoints in a folder, local or remote.

    Args:
        folder: of a run.
        in_trials: lists those in the folders of its trials instead.
    """
    if in_trials:
        return paths.matching(folder, f"{_ANY_TRIAL}/*.index")
    return paths.matching(folder, "*.index")

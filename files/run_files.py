"""Names of the files in a run's folder, and of the folders of its trials."""

from files import paths

VOCABULARY = "vocab.txt"
TASK = "task.json"  # The description of the model.
TRIALS = "trials.json"
BEST = "best"  # The folder of the best checkpoint.
BEST_RECORD = "best.json"  # In the folder of the best checkpoint.


def checkpoints_in(folder: str, *, in_trials: bool = False) -> list[str]:
    """Lists the `.index` files of checkpoints in a folder, local or remote.

    Args:
        folder: of a run.
        in_trials: lists those in the folders of its trials instead.
    """
    pattern = "trial-*/*.index" if in_trials else "*.index"
    return paths.matching(folder, pattern)

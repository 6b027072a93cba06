"""How a pre-trained model came to what it is: every checkpoint evaluated.

Source: Devlin et al. 2019, Table 6 ("LM (ppl)") and Figure 5.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from files import json_text, writing
from training import checkpointing, initialization, objectives

RESULTS_FILE = "eval_checkpoints.jsonl"
_LOSS, _PERPLEXITY = "masked_lm_loss", "masked_lm_perplexity"


def evaluate_all(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    output_dir: str,
    evaluate: Callable[[], Mapping[str, float]],
) -> list[dict[str, float]]:
    """Evaluates every checkpoint of a folder, the first one first.

    The model has the weights of the last one afterwards.

    Args:
        strategy: where the variables live.
        objective: its model takes the weights.
        output_dir: the run's folder.
        evaluate: returns held-out metrics, `masked_lm_loss` among them.

    Returns:
        For each checkpoint `step`, the metrics and `masked_lm_perplexity`, the
        exponential of the loss of a predicted word. A checkpoint that cannot
        be read is left out with a warning.
    """
    results = []
    for step in checkpointing.saved_steps(output_dir):
        prefix = checkpointing.prefix_of(output_dir, step)
        try:
            with strategy.scope():
                initialization.load_weights(objective, prefix)
        except (OSError, ValueError) as error:
            logging.warning("%s is not evaluated: %s", prefix, error)
            continue
        metrics = dict(evaluate())
        metrics[_PERPLEXITY] = _exponential(metrics[_LOSS])
        logging.info(
            "Checkpoint of step %d: held-out loss of a predicted word %.4f, "
            "perplexity %.3f",
            step,
            metrics[_LOSS],
            metrics[_PERPLEXITY],
        )
        results.append({"step": step, **metrics})
    return results


def write(output_dir: str, results: Sequence[Mapping[str, float]]) -> None:
    """Writes a line of JSON for each checkpoint; null where not finite."""
    path = os.path.join(output_dir, RESULTS_FILE)
    with writing.whole_file(path) as file:
        file.writelines(
            f"{json.dumps(json_text.finite(line))}\n" for line in results
        )


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf

"""Checks of a checkpoint's attention: bidirectional or causal.

Source: Devlin et al. 2019, §5.1. A left-to-right model has the variables of
BERT, so its weights do not show the attention; the state file of this
project's checkpoints does.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from modeling import checkpoints
from training import checkpointing
from training import flags as training_flags

_LEFT_TO_RIGHT = "ltr"


def check_checkpoints(options: Any) -> None:
    """Checks that checkpoints were trained with the attention of the flags.

    Checks the checkpoint in `output_dir` and `init_checkpoint`. Checkpoints of
    other programs do not record their attention and are not checked.

    Args:
        options: of a run: `output_dir`, `init_checkpoint` and, if the script
            has it, `attention` or `objective`.

    Raises:
        ValueError: a checkpoint has another attention.
    """
    causal_flag = f"--attention={training_flags.CAUSAL}"
    now = getattr(options, "attention", training_flags.BIDIRECTIONAL)
    if hasattr(options, "objective"):
        causal_flag = f"--objective={_LEFT_TO_RIGHT}"
        if options.objective == _LEFT_TO_RIGHT:
            now = training_flags.CAUSAL
    # A run resumes from the latest readable checkpoint.
    found = list(
        itertools.islice(checkpointing.readable_states(options.output_dir), 1)
    )
    origin = _find(options.init_checkpoint)
    if origin is not None:
        found.append((origin, checkpointing.load_state(origin) or {}))
    for prefix, state in found:
        trained = attention_of(state.get("identity", {}))
        if trained is not None and trained != now:
            raise ValueError(
                f"{prefix} was trained with {trained} attention, and this run "
                f"has {now} ({causal_flag}). The attention of a model "
                "cannot be changed; choose the matching flag or checkpoint."
            )


def attention_of(saved: Mapping[str, object]) -> str | None:
    """Returns the attention of a checkpoint; None if unknown.

    Args:
        saved: the identity of the run that wrote it.
    """
    if checkpoints.is_causal(saved):
        return training_flags.CAUSAL
    # Fine-tuned models record only causal attention.
    return training_flags.BIDIRECTIONAL if saved else None


def check_bert(path: str) -> None:
    """Checks that a checkpoint has bidirectional attention.

    For programs without a causal mode. Checkpoints of other programs are not
    checked.

    Args:
        path: a prefix, one of its files, or a folder.

    Raises:
        ValueError: it was trained from left to right.
    """
    prefix = _find(path)
    if prefix is None:
        return
    state = checkpointing.load_state(prefix) or {}
    if checkpoints.is_causal(state.get("identity", {})):
        raise ValueError(
            f"{prefix} was trained from left to right (--objective=ltr, "
            "--attention=causal): each word attends only to earlier words. "
            "This program needs bidirectional attention. Only the fine-tuning "
            "scripts with --attention accept it."
        )


def _find(path: str | None) -> str | None:
    """Finds a checkpoint; a missing one is reported by its reader."""
    try:
        return checkpoints.resolve(path) if path else None
    except (FileNotFoundError, ValueError):
        return None

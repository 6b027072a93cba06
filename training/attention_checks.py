"""The attention that checkpoints were trained with: both ways, or causal.

Source: Devlin et al. 2019, §5.1. A left-to-right model has the variables of
BERT, so nothing in its weights tells them apart; what lies beside a checkpoint
of this project does.
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

    Looks at the one in `output_dir`, and at `init_checkpoint`; of what was
    made elsewhere nothing is known, and nothing checked.

    Args:
        options: of a run: `output_dir`, `init_checkpoint` and, where the script
            has it, `attention` or `objective`.

    Raises:
        ValueError: a checkpoint's attention is another.
    """
    now = _attention(options)
    # A run goes on from the latest checkpoint that can be read.
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
                f"has {now}. A model that was trained from left to right stays "
                f"so ({_flag_of(options)}), others do not become so; choose "
                "the flag or the checkpoint that fits."
            )


def attention_of(saved: Mapping[str, object]) -> str | None:
    """Says with which attention a checkpoint was trained; None if unknown.

    Args:
        saved: the identity of the run that wrote it.
    """
    if checkpoints.is_causal(saved):
        return training_flags.CAUSAL
    # Fine-tuned: only what is not BERT is written down.
    return training_flags.BIDIRECTIONAL if saved else None


def check_bert(path: str) -> None:
    """Checks that a checkpoint is of a model that looks in both directions.

    For programs that know no other. Of what was made elsewhere nothing is
    known, and nothing checked.

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
            "--attention=causal): each word saw only those before it. This "
            "program reads text in both directions, where such a model means "
            "nothing. Only the fine-tuning scripts that have --attention take "
            "it."
        )


def _find(path: str | None) -> str | None:
    """Finds a checkpoint; where there is none, whoever reads it says so."""
    try:
        return checkpoints.resolve(path) if path else None
    except (FileNotFoundError, ValueError):
        return None


def _attention(options: Any) -> str:
    """Says with which attention a run computes; pre-training has a flag too."""
    if getattr(options, "objective", None) == _LEFT_TO_RIGHT:
        return training_flags.CAUSAL
    return getattr(options, "attention", training_flags.BIDIRECTIONAL)


def _flag_of(options: Any) -> str:
    if hasattr(options, "objective"):
        return f"--objective={_LEFT_TO_RIGHT}"
    return f"--attention={training_flags.CAUSAL}"

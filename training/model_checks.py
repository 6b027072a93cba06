"""Checks of a model's attention and vocabulary.

Source: Devlin et al. 2019, §5.1. A left-to-right model has the variables of
BERT, so its weights do not show the attention; the state file of this
project's checkpoints does.
"""

import itertools
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from absl import logging

from files import lines
from modeling import checkpoints
from training import checkpointing
from training import flags as training_flags

_LEFT_TO_RIGHT = "ltr"
_SPECIAL = re.compile(r"\[.*\]|<.*>")
_UNUSED = re.compile(r"\[unused\d+\]")
# Shares of entries that lower-casing and accent stripping would change. They
# change none of the released uncased vocabulary, 30 % of the cased ones, and 2
# of 21,128 of the Chinese one, whose model reads lower-cased text.
_LEAST_SHARE_CASED = 0.02
_MOST_SHARE_UNCASED = 0.001
# A smaller vocabulary does not show its casing.
_LEAST_LETTERED_ENTRIES = 500


def check_attention(options: Any) -> None:
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


def check_bidirectional(path: str) -> None:
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
        return checkpoints.find(path).path if path else None
    except (FileNotFoundError, ValueError):
        return None


def is_vocabulary_lower_case(path: str) -> bool | None:
    """Returns whether a vocabulary is of lower-cased text without accents.

    Returns:
        None if the entries do not show it.

    Raises:
        OSError: a file cannot be opened.
    """
    words = [e for e in _entries(path) if not _SPECIAL.fullmatch(e)]
    lettered = [word for word in words if word.lower() != word.upper()]
    if len(lettered) < _LEAST_LETTERED_ENTRIES:
        return None
    share = sum(_lowered(word) != word for word in words) / len(words)
    if share >= _LEAST_SHARE_CASED:
        return False
    return True if share <= _MOST_SHARE_UNCASED else None


def check_same_vocabulary(ours: str, theirs: str) -> None:
    """Checks that a vocabulary equals that of a model.

    Any word may replace an `[unusedN]` entry of the model's vocabulary, as the
    release suggests.

    Args:
        ours: the file in use.
        theirs: the file of the model.

    Raises:
        OSError: a file cannot be opened.
        ValueError: they differ in size or in an entry; names the first.
    """
    ours_entries, theirs_entries = _entries(ours), _entries(theirs)
    if ours_entries == theirs_entries:
        return
    replaced = 0
    for number, (one, other) in enumerate(
        itertools.zip_longest(ours_entries, theirs_entries), start=1
    ):
        if one == other:
            continue
        if one is not None and other and _UNUSED.fullmatch(other):
            replaced += 1
            continue
        raise ValueError(
            f"The vocabulary must be that of the model: {ours} "
            f"({len(ours_entries)} entries) differs from {theirs} "
            f"({len(theirs_entries)} entries) first in line {number}: "
            f"{_shown(one)}, there {_shown(other)}. Pass "
            f"--vocab_file={theirs}."
        )
    logging.info(
        "%s replaces %d [unusedN] entries of %s.", ours, replaced, theirs
    )


def _entries(path: str) -> list[str]:
    """Lists the entries of a vocabulary file, up to blank lines at its end."""
    entries = [line.strip() for line in lines.read_lines(path)]
    while entries and not entries[-1]:
        entries.pop()
    return entries


def _lowered(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def _shown(entry: str | None) -> str:
    return "the end" if entry is None else repr(entry)

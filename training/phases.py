"""Phases of pre-training: consecutive steps on the same records.

This module does not import TensorFlow.
"""

import dataclasses
import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from commands import flags
from files import paths
from training import flags as training_flags

_STEPS = "steps"
_COUNTS = (
    *("max_seq_length", "max_predictions_per_seq"),
    *("train_batch_size", "num_accumulation_steps"),
)
_KEYS = (_STEPS, "input_file", *_COUNTS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Consecutive steps of pre-training on the same records.

    Source: Devlin et al. 2019, App. A.2: 90% of the steps with sequences of 128
    tokens, the rest with 512, under one learning-rate schedule.

    Attributes:
        options: the options of the run, with those of the phase replaced.
        end: the step after the last one, counted from the start of the run.
    """

    options: training_flags.PretrainingOptions
    end: int

    @property
    def record_files(self) -> list[str]:
        """The files of its records; a ValueError if a pattern has no match."""
        name = flags.needed(self.options.input_file, "input_file")
        return paths.expand(name)


def parse(options: training_flags.PretrainingOptions) -> tuple[Phase, ...]:
    """Lists the phases of a run in order; one if `--phases` is not given.

    Raises:
        ValueError: `--phases` is malformed.
    """
    if not options.phases:
        return (Phase(options=options, end=options.num_train_steps),)
    parts = [_parse_phase(words) for words in words_of(options.phases)]
    ends = _ends([part.pop(_STEPS, "") for part in parts], options)
    phases = []
    for part, end in zip(parts, ends, strict=True):
        changed: dict[str, Any] = {
            name: _count(name, value) if name in _COUNTS else value
            for name, value in part.items()
        }
        replaced = dataclasses.replace(options, **changed)
        if not replaced.input_file:
            raise ValueError(
                "Each of --phases needs an input_file of its own, or "
                "--input_file must be given; got a phase with neither."
            )
        phases.append(Phase(options=replaced, end=end))
    return tuple(phases)


def words_of(phases: str) -> list[list[str]]:
    """Splits the value of `--phases` into the words of each phase.

    Phases are separated by semicolons, and their words by spaces; both may be
    quoted as in a shell.

    Raises:
        ValueError: a quote has no end.
    """
    lexer = shlex.shlex(phases, posix=True, punctuation_chars=";")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        groups = itertools.groupby(lexer, lambda word: set(word) == {";"})
        return [list(words) for is_end, words in groups if not is_end]
    except ValueError as error:
        raise ValueError(
            f"Each quote in --phases must have an end; got {phases!r}."
        ) from error


def _parse_phase(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    found = {key: value for key, _, value in pairs}
    wrong = [key for key, _, value in pairs if key not in _KEYS or not value]
    if wrong or len(found) < len(pairs):
        raise ValueError(
            "Each of --phases must be key=value pairs with the keys "
            f"{', '.join(_KEYS)}, each once; got {' '.join(words)!r}."
        )
    return found


def _ends(
    lengths: list[str], options: training_flags.PretrainingOptions
) -> list[int]:
    """Converts the lengths, such as `90%` or `9000`, to ends in steps."""
    total = options.num_train_steps
    try:
        if all(length.endswith("%") for length in lengths):
            shares = [float(length.removesuffix("%")) for length in lengths]
            sums = itertools.accumulate(shares)
            ends = [round(total * share / 100) for share in sums]
            # Thirds may be rounded to 33.33%.
            is_whole = math.isclose(sum(shares), 100, abs_tol=0.02)
            ends = [*ends[:-1], total] if is_whole else []
        else:
            ends = list(itertools.accumulate(map(int, lengths)))
    except (ValueError, OverflowError):  # Such as inf.
        ends = []
    if not ends or ends[-1] != total or sorted({0, *ends}) != [0, *ends]:
        raise ValueError(
            "The `steps` of --phases must all be numbers that add up to "
            f"--num_train_steps ({total}), or percentages that add up to 100%, "
            f"each at least one step; got {', '.join(lengths) or 'none'}."
        )
    return ends


def _count(name: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(
            f"{name} in --phases must be a positive integer; got {value!r}."
        )
    return int(value)


def identity(
    phases: Sequence[Phase], options: training_flags.PretrainingOptions
) -> Mapping[str, list[Any]]:
    """Returns the values of phases that a resumed run must keep.

    Args:
        phases: of the run.
        options: of the run; the values of a single phase with these are empty
            lists.
    """
    *of_data, accumulation = _COUNTS
    differs = any(
        getattr(phase.options, name) != getattr(options, name)
        for phase in phases
        for name in _COUNTS
    )
    kept = phases if differs or len(phases) > 1 else ()
    return {
        "phases": [
            [phase.end, *(getattr(phase.options, name) for name in of_data)]
            for phase in kept
        ],
        # Earlier versions did not save it.
        "accumulation_of_phases": [
            getattr(phase.options, accumulation) for phase in kept
        ],
    }

"""Headings of --help; every flag is defined under one of them.

A function that defines flags says under which heading they stand:

    @flag_groups.under(Group.DEVICES)
    def define_device_flags(values): ...

Where such functions call each other, the innermost decides.
"""

import enum
import functools
from collections.abc import Callable

from absl import flags

_Define = Callable[..., None]


class Group(enum.Enum):
    """Headings, in the order in which --help shows them."""

    ACTIONS = "What to do"
    FILES = "What is read and written"
    MODEL = "Model"
    TEXT = "How text is read"
    RAW_TEXT = "Raw text"
    OWN_DATA = "Data of your own (--task_name=custom)"
    XNLI = "XNLI"
    COLUMNS = "Columns of the files"
    PAIRS = "Masked pairs"
    VOCABULARY = "Vocabulary"
    ANSWERS = "Answers"
    VECTORS = "Vectors"
    MASKS = "Masked words"
    TRAINING = "Training"
    TRIALS = "Several runs"
    EVALUATION = "Evaluation and prediction"
    CHECKPOINTS = "Checkpoints and reports"
    SPEED = "Speed and memory"
    MEASUREMENT = "Measurement"
    DEVICES = "Devices"
    TPU = "TPU, as in the release"
    DISPLAY = "What is shown"


def under(group: Group) -> Callable[[_Define], _Define]:
    """Puts the flags that a function defines under a heading.

    Args:
        group: the heading. It is kept in the flag values themselves, as a
            "module" of absl's whose key flags are those of the group.

    Returns:
        A decorator of functions that define flags in the `absl.flags.
        FlagValues` of their first argument, by default those of the program.
    """

    def decorate(define: _Define) -> _Define:
        @functools.wraps(define)
        def define_and_group(
            values: flags.FlagValues = flags.FLAGS, *arguments, **named
        ) -> None:
            before = set(values)
            define(values, *arguments, **named)
            elsewhere = {
                flag.name for each in Group for flag in of(values, each)
            }
            for name in values:
                if name not in before | elsewhere:
                    values.register_key_flag_for_module(
                        group.value, values[name]
                    )

        return define_and_group

    return decorate


def of(values: flags.FlagValues, group: Group) -> list[flags.Flag]:
    """Lists the flags under a heading, in the order of their definition."""
    return values.get_key_flags_for_module(group.value)


def grouped(values: flags.FlagValues) -> set[str]:
    """Names the flags that stand under a heading."""
    return {flag.name for group in Group for flag in of(values, group)}


def is_required(flag: flags.Flag) -> bool:
    """Tells whether a program refuses to run without a flag."""
    return any(
        list(validator.get_flags_names()) == [flag.name]
        and not validator.checker(None)
        for validator in flag.validators
    )

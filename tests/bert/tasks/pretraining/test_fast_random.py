import random

import pytest

from bert.tasks.pretraining import fast_random


@pytest.mark.parametrize("size", [*range(0, 70), 127, 128, 129, 1000, 70_000])
def test_shuffle_is_python_s(size):
    ours, python_s = random.Random(size), random.Random(size)
    items, expected = list(range(size)), list(range(size))
    fast_random.shuffle(items, ours)
    python_s.shuffle(expected)
    assert items == expected
    assert ours.getstate() == python_s.getstate()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 33, 64, 125, 128, 500])
@pytest.mark.parametrize("count", [1, 2, 3, 20, 31, 32, 63, 64, 600])
def test_first_of_shuffled_are_python_s(size, count):
    ours, python_s = random.Random(size), random.Random(size)
    expected = list(range(size))
    python_s.shuffle(expected)
    items = list(range(size))
    fast_random.shuffle(items, ours, count)
    assert items[:count] == expected[:count]
    assert ours.getstate() == python_s.getstate()

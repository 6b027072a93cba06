import numpy as np
import pytest

from tasks.masked_lm import spread


def test_numbers_in_a_few_numbers():
    found = spread.of(np.arange(101)[::-1])
    assert found == spread.Spread(
        count=101, mean=50.0, median=50.0, percentile_95=95.0, largest=100.0
    )


@pytest.mark.parametrize("values", [[], np.zeros(0)])
def test_no_numbers_are_zeros(values):
    assert spread.of(values) == spread.Spread(
        count=0, mean=0.0, median=0.0, percentile_95=0.0, largest=0.0
    )

"""Numbers as json.dumps writes them."""

import json

import numpy as np
import pytest

from tasks import decimals


def _expected(values):
    return [
        json.dumps([round(float(value), 6) for value in row])[1:-1]
        for row in values
    ]


def test_worked_by_hand():
    values = np.array(
        [
            [0.5, -0.0, 12.0, -1e-7],
            [100.25, -0.0001, 0.000099, 1.2e-5],
            [-3e-6, 1 / 3, 0.1, 2000.000001],
        ],
        np.float32,
    )
    assert decimals.json_rows(values) == [
        "0.5, -0.0, 12.0, -0.0",
        "100.25, -0.0001, 9.9e-05, 1.2e-05",
        "-3e-06, 0.333333, 0.1, 2000.0",
    ]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("most", [-1, 0, 3])
def test_random_numbers_are_written_as_json_writes_them(dtype, most):
    rng = np.random.default_rng(most + 5)
    sizes = 10.0 ** rng.uniform(-8, most, (400, 30))
    values = (rng.normal(size=sizes.shape) * sizes).astype(dtype)
    assert decimals.json_rows(values) == _expected(values)


def test_ties_are_rounded_to_even():
    # An odd number of 128ths has seven decimals, the last of them a 5.
    values = (2 * np.arange(-5000, 5000, dtype=np.float32) + 1) / 128
    rows = values.reshape(100, 100)
    assert decimals.json_rows(rows) == _expected(rows)


def test_every_small_number_of_millionths():
    values = (np.arange(-1200, 1200) / 1e6).astype(np.float32)[:, np.newaxis]
    assert decimals.json_rows(values) == _expected(values)


def test_large_numbers_are_written_too():
    values = np.array(
        [[2147.4836, -2147.4838], [1e9, -3.4e38], [123456.79, 0.5]], np.float32
    )
    assert decimals.json_rows(values) == _expected(values)
    for row in values:
        assert decimals.json_rows(row[np.newaxis]) == _expected([row])


def test_no_rows_and_single_numbers():
    assert decimals.json_rows(np.zeros((0, 3), np.float32)) == []
    assert decimals.json_rows(np.ones((2, 1), np.float32)) == ["1.0", "1.0"]

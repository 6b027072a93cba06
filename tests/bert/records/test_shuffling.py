import numpy as np
import pytest

from bert.records import shuffling


def _first(order, count):
    """Lists the first records of a stream, one by one."""
    return np.array([order.batch(step, 1)[0] for step in range(count)])


@pytest.fixture
def small_blocks(monkeypatch):
    """Makes blocks of 3 records and windows of 4 blocks, not of thousands."""
    monkeypatch.setattr(shuffling, "RECORDS_PER_BLOCK", 3)
    monkeypatch.setattr(shuffling, "BLOCKS_PER_WINDOW", 4)


# One window; several, with a short last block; several with a full one.
@pytest.mark.parametrize("num_records", [1, 7, 38, 48])
def test_every_epoch_takes_each_record_once(small_blocks, num_records):
    order = shuffling.RecordOrder(num_records, seed=3)
    for epoch in range(3):
        taken = order.batch(epoch, num_records)
        assert sorted(taken) == list(range(num_records))


def test_order_is_that_of_earlier_versions_whose_runs_may_resume(small_blocks):
    order = shuffling.RecordOrder(20, seed=3)
    assert [order.batch(epoch, 20).tolist() for epoch in range(3)] == [
        [8, 13, 0, 6, 4, 7, 1, 12, 2, 14, 3, 5, 10, 16, 9, 11, 19, 18, 15, 17],
        [9, 1, 16, 17, 11, 0, 14, 10, 13, 12, 2, 15, 19, 5, 7, 3, 18, 4, 6, 8],
        [19, 9, 10, 18, 12, 14, 16, 17, 13, 15, 11, 0, 1, 6, 4, 8, 2, 5, 3, 7],
    ]


def _blocks_of_windows(order):
    return [{*(window // 3).tolist()} for window in order.reshape(-1, 12)]


def test_every_epoch_puts_other_blocks_together(small_blocks):
    order = shuffling.RecordOrder(48, seed=3)
    assert _blocks_of_windows(order.batch(0, 48)) != _blocks_of_windows(
        order.batch(1, 48)
    )


def test_order_differs_between_epochs_and_seeds(small_blocks):
    order = shuffling.RecordOrder(38, seed=3)
    first, second = order.batch(0, 38), order.batch(1, 38)
    other = shuffling.RecordOrder(38, seed=4).batch(0, 38)
    again = shuffling.RecordOrder(38, seed=3).batch(0, 38)
    assert (first != second).any()
    assert (first != other).any()
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("size", [1, 5, 38, 50])
def test_order_does_not_depend_on_how_it_is_asked_for(small_blocks, size):
    whole = _first(shuffling.RecordOrder(38, seed=3), 150)
    order = shuffling.RecordOrder(38, seed=3)
    # Backwards, so that what is remembered of other places cannot help.
    for step in reversed(range(150 // size)):
        np.testing.assert_array_equal(
            order.batch(step, size), whole[step * size : (step + 1) * size]
        )


def test_records_of_a_window_stay_together(small_blocks):
    order = shuffling.RecordOrder(48, seed=3).batch(0, 48)
    for window in order.reshape(4, 12):
        blocks = set(window // 3)
        assert len(blocks) == 4
        # Not block by block.
        assert any(len(set(part // 3)) > 1 for part in window.reshape(4, 3))


def test_first_place_is_as_likely_for_any_record():
    firsts = [
        shuffling.RecordOrder(200, seed).batch(0, 1)[0] for seed in range(2000)
    ]
    # Binomial(2000, 1/4): four standard deviations are 78.
    counts = np.histogram(firsts, bins=4, range=(0, 200))[0]
    assert (abs(counts - 500) < 78).all(), counts


def test_blocks_and_windows_are_shuffled_by_different_numbers():
    # Were both drawn from one stream, record 0 would come first too often
    # when its block does: here in 1/128 of all orders.
    firsts = [
        shuffling.RecordOrder(128, seed).batch(0, 2) for seed in range(3000)
    ]
    same_block = np.mean([a // 64 == b // 64 for a, b in firsts])
    assert abs(same_block - 63 / 127) < 4 * 0.5 / np.sqrt(3000)

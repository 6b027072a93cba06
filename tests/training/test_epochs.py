"""Epochs as steps, and the parts of records that files are."""

import numpy as np
import pytest

from training import epochs, record_order


@pytest.mark.parametrize(
    ("args", "steps", "warmup", "per_epoch"),
    [
        # 87599 questions of SQuAD 1.1 with the flags of the README.
        ((87599, 12, 2.0, 0.1), 14599, 1459, 7300),
        ((10, 4, 3.0, 0.1), 7, 0, 3),
        ((10, 4, 0.5, 1.0), 1, 1, 3),
        ((3, 4, 2.0, 0.5), 1, 0, 1),
    ],
)
def test_steps_are_counted_as_released(args, steps, warmup, per_epoch):
    length = epochs.length(*args)
    assert length.num_train_steps == steps
    assert length.num_warmup_steps == warmup
    assert length.steps_per_epoch == per_epoch


def test_a_run_without_a_step_is_refused():
    with pytest.raises(ValueError, match="3 examples in batches of 8 for 2 ep"):
        epochs.length(3, 8, 2.0, 0.1)


def test_files_get_their_share_of_the_stream():
    parts = epochs.parts([2, 3], np.array([1, 2, 0, 4, 1]), 1.5)
    assert parts == (
        record_order.Part(num_records=3, num_taken=3),
        record_order.Part(num_records=5, num_taken=4),
    )


def test_one_part_is_a_shuffled_stream():
    one = record_order.Part(num_records=7, num_taken=0)
    alone = record_order.ConsecutiveOrder([one], seed=3)
    plain = record_order.RecordOrder(7, seed=3)
    assert np.array_equal(alone.indices(5, 20), plain.indices(5, 20))
    assert np.array_equal(alone.batch(2, 4), plain.batch(2, 4))


def test_parts_follow_one_another():
    order = record_order.ConsecutiveOrder(
        [
            record_order.Part(num_records=5, num_taken=10),
            record_order.Part(num_records=0, num_taken=6),
            record_order.Part(num_records=3, num_taken=4),
            record_order.Part(num_records=4, num_taken=1),
        ],
        seed=1,
    )
    stream = order.indices(0, 30).tolist()
    # The first is gone through twice, then four of the next, then the last.
    assert sorted(stream[:5]) == sorted(stream[5:10]) == [0, 1, 2, 3, 4]
    assert sorted(stream[10:13]) == [5, 6, 7]
    assert stream[13] in {5, 6, 7}
    assert sorted(stream[14:18]) == sorted(stream[18:22]) == [8, 9, 10, 11]
    # A batch may begin anywhere, so a resumed run needs nothing before it.
    for start in range(20):
        assert order.indices(start, 7).tolist() == stream[start : start + 7]
    assert order.indices(4, 0).tolist() == []


def test_parts_without_any_record_are_refused():
    empty = record_order.Part(num_records=0, num_taken=4)
    with pytest.raises(ValueError, match="at least one record"):
        record_order.ConsecutiveOrder([empty], seed=1)

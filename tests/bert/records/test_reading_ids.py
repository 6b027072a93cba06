"""Checks of the ids of records, by the setting that limits them."""

import numpy as np
import pytest

from bert.records import reading

_NAMES = ["a record 0", "a record 1"]


@pytest.mark.parametrize(
    ("feature", "setting"),
    [
        ("input_ids", " (the model's vocab_size)"),
        ("masked_lm_ids", " (the model's vocab_size)"),
        ("masked_lm_positions", " (--max_seq_length)"),
        ("segment_ids", " (the model's type_vocab_size)"),
        ("next_sentence_labels", ""),
    ],
)
def test_an_id_out_of_range_names_its_record_and_its_setting(feature, setting):
    batch = {feature: np.array([[0, 4], [5, 4]])}
    reading.check_ids(batch, {feature: 6}, _NAMES)
    with pytest.raises(ValueError) as caught:
        reading.check_ids(batch, {feature: 5}, _NAMES)
    assert str(caught.value) == (
        f"a record 1 does not fit this run: {feature} must be at least 0 and "
        f"less than 5{setting}; got 5."
    )
    batch[feature][0, 0] = -1
    with pytest.raises(ValueError, match=r"a record 0 .*; got -1\.$"):
        reading.check_ids(batch, {feature: 6}, _NAMES)


def test_features_that_a_batch_lacks_are_not_checked():
    batch = {"input_ids": np.array([[9]])}
    reading.check_ids(batch, {"segment_ids": 2}, _NAMES[:1])
    batch["segment_ids"] = np.array([[9]])
    with pytest.raises(ValueError, match="segment_ids must be at least 0"):
        reading.check_ids(batch, {"segment_ids": 2}, _NAMES[:1])

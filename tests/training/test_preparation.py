"""What a run stands on."""

import types

import pytest
import tensorflow as tf

from training import preparation


def _setup(**options):
    return preparation.Setup(
        options=types.SimpleNamespace(
            output_dir="out", max_seq_length=7, **options
        ),
        config=None,
        text={"vocab_sha256": "aa", "do_lower_case": False},
        vocab_size=11,
        strategy=tf.distribute.get_strategy(),
    )


@pytest.mark.parametrize(
    ("do_train", "do_eval", "every_epoch", "every_steps", "expected"),
    [
        (True, False, False, 0, False),
        (True, True, False, 0, True),
        (True, False, True, 0, True),
        (True, False, False, 5, True),
        # Nothing is evaluated while nothing is trained.
        (False, False, True, 5, False),
    ],
)
def test_held_out_data_are_read_where_they_are_scored(
    do_train, do_eval, every_epoch, every_steps, expected
):
    setup = _setup(
        do_train=do_train,
        do_eval=do_eval,
        eval_every_epoch=every_epoch,
        eval_every_steps=every_steps,
    )
    assert setup.needs_held_out is expected


def test_records_say_what_they_depend_on():
    setup = _setup()
    metadata = setup.metadata("tagging", {"data_sha256": "bb"})
    assert metadata.kind == "tagging"
    assert metadata.flags == {"data_sha256": "bb"}
    assert (metadata.max_seq_length, metadata.vocab_size) == (7, 11)
    assert (metadata.vocab_sha256, metadata.do_lower_case) == ("aa", False)
    assert setup.record_path("eval_mm") == "out/eval_mm.tf_record"

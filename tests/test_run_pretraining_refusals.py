"""Error messages of run_pretraining.py."""

import json
import pathlib
import shutil

import pytest
import tensorflow as tf

from tests import toy_pretraining as toy
from training import option_checks, records


def _write_sidecar(path, **changes):
    records.write_metadata(str(path), toy.metadata_of(**changes))


def _refused(folder, match, kind=ValueError, **changes):
    with pytest.raises(kind, match=match):
        toy.run(folder, **changes)
    assert not list((folder / "out").glob("model.ckpt*"))


def test_unmasked_records_without_a_sidecar_are_refused(tmp_path):
    path = toy.write_unmasked_records(tmp_path / "records")
    records.remove_metadata(path)
    _refused(tmp_path, "lacks masked_lm_ids, .* need their .meta.json file")


def test_masked_and_unmasked_records_together_are_refused(tmp_path):
    toy.write_unmasked_records(tmp_path / "b")
    toy.write_records(tmp_path / "a", toy.random_examples())
    _refused(
        tmp_path,
        "must be masked alike",
        input_file=f"{tmp_path}/a,{tmp_path}/b",
    )


@pytest.mark.parametrize("size", [None, 0, "absent"])
def test_an_open_vocab_size_is_that_of_the_records(tmp_path, caplog, size):
    caplog.set_level("INFO")
    flags = toy.flags_of(tmp_path, input_file=f"{tmp_path}/records*")
    config = tmp_path / "config.json"
    values = json.loads(config.read_text()) | {"vocab_size": size}
    if size == "absent":
        del values["vocab_size"]
    config.write_text(json.dumps(values))
    # Without a sidecar nothing says it, and the refusal is that of any config.
    _refused(tmp_path, r"vocab_size.*(got None|got 0|; got attention)")
    _write_sidecar(tmp_path / "records")
    config, _ = option_checks.check_pretraining(toy.parse(flags))
    assert config.vocab_size == 31
    assert "has no vocab_size; using 31" in caplog.text
    shutil.copy(tmp_path / "records", tmp_path / "records.2")
    _write_sidecar(tmp_path / "records.2", vocab_size=40)
    _refused(
        tmp_path,
        "vocabulary of 40 entries, .* vocab_size is 31",
        input_file=f"{tmp_path}/records*",
    )


def test_a_damaged_record_is_named_when_it_is_read(tmp_path):
    path = pathlib.Path(toy.flags_of(tmp_path)["input_file"])
    _write_sidecar(path)
    damaged = bytearray(path.read_bytes())
    damaged[20] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(
        (tf.errors.OpError, ValueError),
        match=r"records, record 0 at byte 0: .* checksum",
    ):
        toy.run(tmp_path, save_checkpoints_steps=100)

"""Checks of pre-training records before training."""

import types

import pytest

from modeling import config
from tests import toy_pretraining
from training import pretraining, sidecars


def _open(paths, held_out=None, vocab_size=31, **changes):
    options = types.SimpleNamespace(
        input_file=",".join(map(str, paths)),
        eval_input_file=held_out and str(held_out),
        **{"max_seq_length": 10, "max_predictions_per_seq": 2} | changes,
    )
    sizes = config.BertConfig(vocab_size=vocab_size)
    return pretraining.open_records(options, sizes)


def _write_metadata(path, **changes):
    metadata = toy_pretraining.metadata_of(num_records=5, **changes)
    sidecars.write_metadata(str(path), metadata)


@pytest.fixture
def made(tmp_path):
    """Two files of five records, without sidecars."""
    paths = [tmp_path / name for name in ("a", "b")]
    for seed, path in enumerate(paths):
        toy_pretraining.write_records(
            path, toy_pretraining.random_examples(5, seed=seed)
        )
    return paths


def test_records_that_fit_are_accepted_with_and_without_sidecars(made, caplog):
    _open(made)
    _write_metadata(made[0])
    _open(made)
    _write_metadata(made[1])
    _open(made)
    assert "vocab" not in caplog.text


def test_an_empty_file_among_others_is_accepted(made, tmp_path):
    (tmp_path / "c").write_bytes(b"")
    source, _ = _open([tmp_path / "c", *made])
    assert len(source.files) == 10


def test_records_of_other_vocabularies_are_refused(made):
    _write_metadata(made[0])
    _write_metadata(made[1], vocab_sha256="1" * 64)
    with pytest.raises(ValueError, match=r"same vocabulary; .*a, .*b"):
        _open(made)
    with pytest.raises(ValueError, match=r"same vocabulary; .*a, .*b"):
        _open(made[:1], made[1])


def test_records_without_a_sidecar_that_do_not_fit_are_named(made, tmp_path):
    for changes in (
        {"max_seq_length": 12},
        {"max_predictions_per_seq": 3},
        {"vocab_size": 9},
    ):
        with pytest.raises(ValueError, match="a record 0 does not fit"):
            _open(made, **changes)
    path = toy_pretraining.write_unmasked_records(tmp_path / "unmasked")
    (tmp_path / "unmasked.meta.json").unlink()
    with pytest.raises(ValueError, match="unmasked record 0 does not fit"):
        _open([path])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "squad"}, "b must hold pre-training records; .* 'squad'"),
        ({"max_seq_length": 12}, "b was created with --max_seq_length=12"),
        (
            {"max_predictions_per_seq": 3},
            "b was created with --max_predictions_per_seq=3",
        ),
        ({"vocab_size": 32}, "b was created with a vocabulary of 32 entries"),
    ],
)
def test_a_sidecar_that_does_not_fit_is_named(made, changes, message):
    _write_metadata(made[0])
    _write_metadata(made[1], **changes)
    with pytest.raises(ValueError, match=message):
        _open(made)

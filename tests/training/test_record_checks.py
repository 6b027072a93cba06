import pytest

from tests import toy_pretraining as toy
from training import record_checks, record_files, records


def _check(paths, **changes):
    record_checks.check_pretraining_records(
        record_files.RecordFiles([str(path) for path in paths]),
        **{
            "max_seq_length": 10,
            "max_predictions_per_seq": 2,
            "vocab_size": 31,
            **changes,
        },
    )


def _metadata(path, **changes):
    values = {
        "kind": "pretraining",
        "max_seq_length": 10,
        "max_predictions_per_seq": 2,
        "vocab_size": 31,
        "vocab_sha256": "a" * 64,
        "do_lower_case": True,
        "num_records": 5,
    }
    records.write_metadata(str(path), records.Metadata(**{**values, **changes}))


@pytest.fixture
def made(tmp_path):
    """Two files of five records, without sidecars."""
    paths = [tmp_path / name for name in ("a", "b")]
    for seed, path in enumerate(paths):
        toy.write_records(path, toy.random_examples(5, seed=seed))
    return paths


def test_records_that_fit_are_accepted_with_and_without_sidecars(made, caplog):
    _check(made)
    _metadata(made[0])
    _check(made)
    _metadata(made[1])
    _check(made)
    assert "vocab" not in caplog.text


def test_an_empty_file_among_others_is_accepted(made, tmp_path):
    (tmp_path / "c").write_bytes(b"")
    _check([tmp_path / "c", *made])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "squad"}, "b must hold pre-training records; .* 'squad'"),
        ({"max_seq_length": 12}, "b was made with --max_seq_length=12"),
        (
            {"max_predictions_per_seq": 3},
            "b was made with --max_predictions_per_seq=3",
        ),
        ({"vocab_size": 32}, "b was made with a vocabulary of 32 entries"),
        ({"vocab_sha256": "b" * 64}, "one vocabulary; .*a, .*b"),
    ],
)
def test_a_sidecar_that_does_not_fit_is_named(made, changes, message):
    _metadata(made[0])
    _metadata(made[1], **changes)
    with pytest.raises(ValueError, match=message):
        _check(made)


def test_a_smaller_vocabulary_is_warned_of(made, caplog):
    _metadata(made[0], vocab_size=29)
    _check(made)
    assert "a vocabulary of 29 entries; the model's vocab_size is 31" in (
        caplog.text
    )
    assert "The last 2 rows" in caplog.text


def test_records_without_a_sidecar_are_looked_into(made):
    with pytest.raises(ValueError, match=r"a, record 0 .*--max_seq_length=10"):
        _check(made, max_seq_length=11)
    with pytest.raises(ValueError, match=r"_per_seq=2, .*_per_seq=1"):
        _check(made, max_predictions_per_seq=1)


def test_the_largest_id_of_any_sampled_record_counts(tmp_path):
    examples = toy.random_examples(6)
    examples["masked_lm_ids"][5, 1] = 500
    path = toy.write_records(tmp_path / "c", examples)
    with pytest.raises(ValueError, match="c holds the word id 500"):
        _check([path])
    _check([path], vocab_size=501)


def test_a_record_of_something_else_is_named(tmp_path, made):
    path = tmp_path / "c"
    path.write_bytes(record_files.frame(b"\xff no example"))
    with pytest.raises(ValueError, match=r"c, record 0: not a tf.train"):
        _check([path])
    features = (records.Feature(name="label_ids", shape=(1,)),)
    records.write_records([str(path)], [{"label_ids": [1]}], features)
    with pytest.raises(
        ValueError,
        match=r"record 0: .* lacks input_ids, masked_lm_ids, "
        "next_sentence_labels and has label_ids",
    ):
        _check([path])


def test_many_files_share_the_sample(made, monkeypatch):
    monkeypatch.setattr(record_checks, "_SAMPLED_RECORDS", 6)
    monkeypatch.setattr(record_checks, "_SAMPLED_RECORDS_PER_FILE", 2)
    read = []
    original = record_files.RecordFiles.read

    def counted(self, indices):
        read.extend(int(i) for i in indices)
        return original(self, indices)

    monkeypatch.setattr(record_files.RecordFiles, "read", counted)
    _check(made)
    # Three of each five, the first and the last among them.
    assert read == [0, 2, 4, 5, 7, 9]

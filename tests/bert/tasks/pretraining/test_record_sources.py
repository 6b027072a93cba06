"""Checks of pre-training records before training."""

import numpy as np
import pytest

from bert.records import framing, sidecars, tfrecords
from bert.tasks.pretraining import record_sources
from bert.training import options as training_options
from modeling import config
from tests.support import toy_pretraining


def _open(paths, held_out=None, vocab_size=31, **changes):
    options = training_options.PretrainingOptions(
        input_file="",
        output_dir="out",
        bert_config_file="",
        do_train=True,
        **{
            "max_seq_length": 10,
            "max_predictions_per_seq": 2,
            "objective": "mlm_nsp",
        }
        | changes,
    )
    sizes = config.BertConfig(vocab_size=vocab_size, type_vocab_size=2)
    training = [*map(str, paths)]
    return record_sources.open_records(
        training,
        str(held_out).split(",") if held_out else training,
        options,
        sizes,
    )


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
    (tmp_path / "d").write_bytes(b"")
    source, _ = _open([tmp_path / "c", *made, tmp_path / "d"])
    assert len(source.files) == 10


@pytest.mark.parametrize(
    "other",
    [
        {"vocab_sha256": "1" * 64},
        {"do_lower_case": False},
        {"strip_accents": False},
    ],
)
def test_records_of_other_vocabularies_or_casings_are_refused(made, other):
    _write_metadata(made[0])
    _write_metadata(made[1], **other)
    with pytest.raises(ValueError, match=r"same vocabulary and .*a, .*b"):
        _open(made)
    with pytest.raises(ValueError, match=r"same vocabulary and .*a, .*b"):
        _open(made[:1], made[1])


def test_accents_follow_the_casing_in_records_too(made):
    _write_metadata(made[0], strip_accents=None)
    _write_metadata(made[1], strip_accents=True)
    _open(made)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"max_seq_length": 12},
            r"input_ids must have 12 values \(--max_seq_length\); got 10\.",
        ),
        (
            {"max_predictions_per_seq": 3},
            r"masked_lm_positions must have 3 values "
            r"\(--max_predictions_per_seq\); got 2\.",
        ),
        (
            {"vocab_size": 9},
            r"input_ids must be at least 0 and less than 9 \(the model's "
            r"vocab_size\); got ",
        ),
    ],
)
def test_record_without_sidecar_that_does_not_fit_is_named(
    made, flags, message
):
    with pytest.raises(
        ValueError, match=f"/a record 0 does not fit this run: {message}"
    ):
        _open(made, **flags)


def _write(path, names=None, **changes):
    """Writes records of another program; a feature of None is left out."""
    examples = toy_pretraining.random_examples(5) | changes
    tfrecords.write_batches(
        [str(path)],
        [
            {
                (names or {}).get(name, name): values
                for name, values in examples.items()
                if values is not None
            }
        ],
    )
    return path


# By the name of what is wrong with the records: what they are, what is said.
_MISFITS = {
    "length": (
        toy_pretraining.random_examples(5, seq_length=14),
        r"input_ids must have 10 values \(--max_seq_length\); got 14\.",
    ),
    "predictions": (
        {"masked_lm_ids": np.ones((5, 3), int)},
        r"masked_lm_ids must have 2 values \(--max_predictions_per_seq\);",
    ),
    "word id": (
        {"input_ids": np.full((5, 10), 77)},
        r"input_ids must be at least 0 and less than 31 .*; got 77, 77",
    ),
    "negative id": (
        {"masked_lm_ids": np.full((5, 2), -1)},
        r"masked_lm_ids must be at least 0 and less than 31 .*; got -1, -1\.",
    ),
    "position": (
        {"masked_lm_positions": np.tile([1, 10], (5, 1))},
        r"masked_lm_positions must be at least 0 and less than 10 .*; got 10\.",
    ),
    "segment": (
        {"segment_ids": np.full((5, 10), 2)},
        r"segment_ids must be at least 0 and less than 2 .*type_vocab_size",
    ),
    "label": (
        {"next_sentence_labels": np.full((5, 1), 5)},
        r"next_sentence_labels must be at least 0 and less than 2; got 5\.",
    ),
    "type": (
        {"input_ids": np.ones((5, 10))},
        r"input_ids must be int64; got float32\.",
    ),
    "no labels": (
        {"next_sentence_labels": None},
        r"it lacks next_sentence_labels\. It has input_ids, .*; needed are "
        r"input_ids, .*, next_sentence_labels\.$",
    ),
    "no masks": (
        {"masked_lm_positions": None, "masked_lm_ids": None},
        r"it lacks masked_lm_positions, masked_lm_ids\. It has .*"
        r"--dynamic_masking need their \.meta\.json file\.",
    ),
}


@pytest.mark.parametrize("misfit", _MISFITS)
@pytest.mark.parametrize("is_held_out", [False, True])
def test_later_file_that_does_not_fit_is_named_before_training(
    made, tmp_path, misfit, is_held_out
):
    changes, message = _MISFITS[misfit]
    path = _write(tmp_path / "c", **changes)
    with pytest.raises(
        ValueError, match=f"/c record 0 does not fit this run: {message}"
    ):
        if is_held_out:
            _open(made, held_out=f"{made[0]},{path}")
        else:
            _open([*made, path])


@pytest.mark.parametrize("number", [1, 255])
def test_one_of_the_first_records_is_named_before_training(
    made, tmp_path, number
):
    ids = toy_pretraining.random_examples(300)["input_ids"]
    ids[number, 3] = 77
    examples = toy_pretraining.random_examples(300) | {"input_ids": ids}
    path = toy_pretraining.write_records(tmp_path / "c", examples)
    message = f"/c record {number} does not fit this run: input_ids"
    with pytest.raises(ValueError, match=message):
        _open([path])
    with pytest.raises(ValueError, match=message):
        _open(made, held_out=path)


def test_records_of_another_message_are_named(tmp_path):
    (tmp_path / "c").write_bytes(framing.frame(b"not an example"))
    message = "/c record 0 does not fit this run: it is not a tf.train.Example"
    with pytest.raises(ValueError, match=message):
        _open([tmp_path / "c"])


def test_unmasked_records_without_their_sidecar_are_named(tmp_path):
    path = toy_pretraining.write_unmasked_records(tmp_path / "unmasked")
    (tmp_path / "unmasked.meta.json").unlink()
    with pytest.raises(ValueError, match=r"need their \.meta\.json file\.$"):
        _open([path])


def test_records_of_the_model_garden_are_read_as_ours(made, tmp_path):
    path = _write(
        tmp_path / "c",
        {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"},
    )
    examples = toy_pretraining.random_examples(5)
    batch = _open([path])[0].read(range(5))
    for name, values in examples.items():
        np.testing.assert_array_equal(batch[name], values)
    with pytest.raises(ValueError, match=r"these differ: .*/a .*, .*/c "):
        _open([*made, path])


def test_whole_numbers_are_read_as_weights(tmp_path):
    path = _write(tmp_path / "c", masked_lm_weights=np.tile([1, 0], (5, 1)))
    weights = _open([path])[0].read(range(5))["masked_lm_weights"]
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights, np.tile([1, 0], (5, 1)))


@pytest.mark.parametrize("objective", ["mlm", "ltr"])
def test_objectives_without_next_sentences_need_no_labels(tmp_path, objective):
    path = _write(tmp_path / "c", next_sentence_labels=None)
    source, _ = _open([path], objective=objective)
    assert "next_sentence_labels" not in source.read(range(5))


def test_a_model_may_have_more_embeddings_than_the_vocabulary_entries(made):
    for path in made:
        _write_metadata(path, vocab_size=30)
    source, _ = _open(made)
    assert source.vocab_size == 31


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

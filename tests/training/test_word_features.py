import dataclasses
import itertools
import types

import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, checkpoints, config
from tasks.tagging import ner
from tests import toy_tagging
from training import flags as training_flags
from training import (
    input_pipeline,
    option_checks,
    record_order,
    records,
    task_data,
    word_features,
    workers,
)

_MADE_FROM = records.Metadata(
    kind="tagging",
    max_seq_length=9,
    vocab_size=11,
    vocab_sha256="x",
    do_lower_case=False,
    num_records=0,
)
_SENTENCES = [
    (np.arange(6, dtype=np.float32).reshape(2, 3), [1, 2]),
    (np.arange(12, dtype=np.float32).reshape(4, 3) / 7, [0, 3, 4, 0]),
    (-np.ones((1, 3), np.float32), [5]),
]


def _source(tmp_path, made_from=_MADE_FROM, sentences=lambda: _SENTENCES):
    path = str(tmp_path / "features.tf_record")
    communicator = workers.Communicator(tf.distribute.get_strategy())
    return word_features.make_source(
        path, 3, made_from, sentences, communicator
    )


def test_batches_are_as_long_as_their_longest_sentence(tmp_path, caplog):
    source = _source(tmp_path)
    assert "reusing" not in caplog.text
    batch = source.parse(tf.constant(source.files.read([0, 1])))
    np.testing.assert_array_equal(
        batch["label_ids"], [[1, 2, 0, 0], [0, 3, 4, 0]]
    )
    np.testing.assert_array_equal(batch["label_mask"], [[1, 1, 0, 0], [1] * 4])
    values = batch["word_features"].numpy()
    np.testing.assert_array_equal(values[0, :2], _SENTENCES[0][0])
    np.testing.assert_array_equal(values[0, 2:], 0)
    np.testing.assert_array_equal(values[1], _SENTENCES[1][0])
    assert source.lengths().tolist() == [2, 4, 1]


def test_batches_pass_through_the_input_pipeline(tmp_path):
    source = _source(tmp_path)
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    dataset = input_pipeline.evaluation_dataset(source, batch_size=2)
    batches = list(strategy.distribute_datasets_from_function(dataset))
    assert [b["word_features"].shape for b in batches] == [(2, 4, 3), (2, 2, 3)]
    np.testing.assert_array_equal(batches[1]["example_weights"], [1, 0])
    phase = input_pipeline.BatchPhase(
        source=source, batch_size=2, order=record_order.RecordOrder(3, seed=1)
    )
    training = input_pipeline.TrainingBatches([phase])
    steps = training.iterator(strategy, 0, 3)
    total = sum(
        float(tf.reduce_sum(next(steps)["label_ids"])) for _ in range(3)
    )
    assert total == 2 * (1 + 2 + 3 + 4 + 5)


def test_a_batch_has_as_many_rows_as_it_has_records(tmp_path):
    source = _source(tmp_path)
    parsed = tf.function(source.parse).get_concrete_function(
        tf.TensorSpec([2], tf.string)
    )
    shapes = {name: v.shape for name, v in parsed.structured_outputs.items()}
    assert [shape[0] for shape in shapes.values()] == [2, 2, 2], shapes


def test_features_are_made_again_for_other_data_alone(tmp_path):
    _source(tmp_path)
    source = _source(tmp_path, sentences=pytest.fail)
    assert source.lengths().tolist() == [2, 4, 1]
    other = dataclasses.replace(_MADE_FROM, flags={"layers": [1]})
    source = _source(tmp_path, other, lambda: _SENTENCES[:1])
    assert source.lengths().tolist() == [2]
    assert records.read_metadata(source.files.paths[0]).num_records == 1


def _encoder(folder, features="sum_all", **changes):
    options = toy_tagging.parse(
        folder, **{"features": features, "predict_batch_size": 2, **changes}
    )
    return word_features.FrozenEncoder(
        task_data.Setup(
            options=options,
            config=config.BertConfig.from_json_file(
                str(folder / "config.json")
            ),
            text={},
            vocab_size=0,
            strategy=tf.distribute.OneDeviceStrategy("/CPU:0"),
        ),
        features,
    )


def _window(input_ids, positions, label_ids):
    return ner.Window(
        input_ids=tuple(input_ids),
        positions=tuple(positions),
        label_ids=tuple(label_ids),
    )


# The second sentence has two windows.
_WINDOWS = [
    [_window([2, 7, 8, 9, 3], [1, 3], [4, 5])],
    [
        _window([2, 10, 11, 3], [1, 2], [1, 2]),
        _window([2, 11, 12, 3], [2], [3]),
    ],
]


def test_vectors_are_those_of_the_encoder(tmp_path):
    toy_tagging.write_model(tmp_path)
    prefix, pooler = str(tmp_path / "bert.ckpt"), ["bert/pooler/.*"]
    weights = checkpoints.read(prefix)
    # No vector depends on the pooler.
    kept = {n: x for n, x in weights.items() if "pooler" not in n}
    checkpoints.save(prefix, kept)
    found = list(_encoder(tmp_path).vectors(iter(_WINDOWS)))
    assert [labels for _, labels in found] == [[4, 5], [1, 2, 3]]
    model = bert.BertModel(
        config.BertConfig.from_json_file(str(tmp_path / "config.json"))
    )
    checkpoints.load(model, prefix, new=pooler)
    vectors = iter(itertools.chain.from_iterable(v for v, _ in found))
    for window in itertools.chain.from_iterable(_WINDOWS):
        outputs = model(np.array([window.input_ids]))
        parts = outputs["all_encoder_layers"]
        expected = np.concatenate(parts, axis=-1)[0]
        for position in window.positions:
            np.testing.assert_allclose(
                next(vectors), expected[position], atol=1e-5
            )


def test_the_vocabulary_must_be_that_of_the_encoder(tmp_path):
    toy_tagging.write_model(tmp_path)
    vocab = (tmp_path / "vocab.txt").read_text().splitlines()
    other = tmp_path / "other.txt"
    other.write_text("\n".join([*vocab[:-2], vocab[-1], vocab[-2]]))
    encoder = _encoder(tmp_path, vocab_file=other)
    with pytest.raises(ValueError, match="must be that of the model"):
        next(encoder.vectors(iter(_WINDOWS)))


def test_the_hash_of_an_encoder_is_that_of_its_weights(tmp_path):
    toy_tagging.write_model(tmp_path)
    path = str(tmp_path / "bert.ckpt")
    first = checkpoints.sha256(path)
    assert checkpoints.sha256(str(tmp_path)) == first
    sizes = config.BertConfig.from_json_file(str(tmp_path / "config.json"))
    model = bert.BertModel(sizes)
    weights = checkpoints.variables_by_name(model)
    checkpoints.save(path, {n: v.value for n, v in weights.items()})
    assert checkpoints.sha256(path) != first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init_checkpoint": None}, "--init_checkpoint must be given"),
        ({"freeze_layers": 1}, "--freeze_layers is for fine-tuning"),
        ({"recompute": True}, "--recompute is for fine-tuning"),
        ({"packing": True}, "--packing is for fine-tuning"),
        ({"features": "sum_last_four"}, "needs at least 4 layers; .* has 2"),
    ],
)
def test_features_need_a_checkpoint_and_its_layers(tmp_path, changes, message):
    toy_tagging.write_model(tmp_path)
    options = toy_tagging.parse(tmp_path, **{"features": "last", **changes})
    with pytest.raises(ValueError, match=message):
        option_checks.check_features(options)
        _encoder(tmp_path, options.features)


@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        ("embeddings", (0,)),
        ("second_to_last", (11,)),
        ("last", (12,)),
        ("sum_last_four", (9, 10, 11, 12)),
        ("concat_last_four", (9, 10, 11, 12)),
        ("sum_all", tuple(range(1, 13))),
    ],
)
def test_layers_of_the_paper(choice, numbers):
    assert word_features.layer_numbers(choice, 12) == numbers


@pytest.mark.parametrize(
    ("choice", "has", "needs"),
    [("second_to_last", 1, 2), ("sum_last_four", 3, 4), ("last", 0, 1)],
)
def test_layers_that_are_not_there(choice, has, needs):
    with pytest.raises(ValueError, match=f"{choice} needs at least {needs} "):
        word_features.layer_numbers(choice, has)


@pytest.mark.parametrize("choice", training_flags.FEATURE_LAYERS)
def test_sums_alone_have_learned_weights(choice):
    options = types.SimpleNamespace(features=choice, lstm_units=2)
    sizes = types.SimpleNamespace(num_hidden_layers=4, hidden_size=6)
    assert word_features.layer_numbers(choice, 4)
    tagger = word_features.make_tagger(sizes, options, 3)
    assert tagger.is_sum == (choice in ("sum_last_four", "sum_all"))

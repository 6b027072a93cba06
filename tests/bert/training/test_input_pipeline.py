import dataclasses
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert.records import reading, schema, shuffling, tfrecords
from bert.training import input_pipeline, padding
from bert.training import options as training_options
from tests.support import toy_pretraining as toy

_FEATURES = schema.pretraining_features(10, 2)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Eleven records in two files, with their numbers."""
    folder = tmp_path_factory.mktemp("records")
    examples = toy.random_examples(11)
    examples["number"] = np.arange(11)[:, np.newaxis]
    paths = []
    for name, part in (("a", slice(0, 4)), ("b", slice(4, 11))):
        paths.append(str(folder / name))
        rows = {key: values[part] for key, values in examples.items()}
        tfrecords.write_batches(paths[-1:], [rows])
    return reading.RecordSource(
        files=tfrecords.RecordFiles(paths),
        features=(*_FEATURES, schema.Feature(name="number", shape=(1,))),
        vocab_size=31,
    )


def _rows(batch):
    return batch["number"].numpy()[:, 0].tolist()


def _context(pipeline=0, pipelines=1, replicas=1):
    return tf.distribute.InputContext(
        num_input_pipelines=pipelines,
        input_pipeline_id=pipeline,
        num_replicas_in_sync=replicas,
    )


def _training_rows(source, batch_size, steps, context=None):
    batches = input_pipeline.TrainingBatches(
        source=source, batch_size=batch_size, seed=5
    )
    return _rows_of_steps(batches, steps, context or _context())


def _rows_of_steps(batches, steps, context):
    first, end = steps
    iterator = batches.iterator(toy.OneWorker(context), first, end)
    per_step = context.num_replicas_in_sync // context.num_input_pipelines
    count = (end - first) * per_step
    rows = [_rows(batch) for batch in itertools.islice(iterator, count)]
    with pytest.raises(tf.errors.FailedPreconditionError):
        next(iterator)
    return rows


def test_step_takes_the_records_of_its_order_wherever_a_run_starts(source):
    order = shuffling.RecordOrder(11, 5)
    for first, end in ((0, 7), (3, 7), (7, 7)):
        rows = _training_rows(source, 4, (first, end))
        steps = range(first, end)
        assert rows == [order.batch(step, 4).tolist() for step in steps]


def test_replicas_share_the_rows_of_each_batch(source):
    whole = _training_rows(source, 8, (0, 3))
    # Two workers of two replicas: each element is one replica's rows.
    parts = [
        _training_rows(source, 8, (0, 3), _context(worker, 2, 4))
        for worker in (0, 1)
    ]
    for step, batch in enumerate(whole):
        dealt = [
            row
            for part in parts
            for element in part[2 * step : 2 * step + 2]
            for row in element
        ]
        assert dealt == batch


def _options(**changes):
    named = {"output_dir": "out", "bert_config_file": "x", "do_eval": True}
    return training_options.FineTuningOptions(**named | changes)


@pytest.mark.parametrize(
    ("num_replicas", "options", "got"),
    [
        (3, {"train_batch_size": 8}, "got 8 and 3 times 1"),
        (4, {"train_batch_size": 24, "num_accumulation_steps": 3}, ""),
        (4, {"train_batch_size": 24, "num_accumulation_steps": 4}, "4 times 4"),
        # The batches of an evaluation are rounded up.
        (3, {"train_batch_size": 8, "do_train": False}, ""),
    ],
)
def test_a_batch_must_divide_among_the_replicas(num_replicas, options, got):
    flags = _options(**{"do_train": True} | options)
    if not got:
        input_pipeline.check_batch_size(flags, num_replicas)
        return
    with pytest.raises(ValueError, match=f"^train_batch_size .*{got}"):
        input_pipeline.check_batch_size(flags, num_replicas)


def test_the_records_of_a_step_are_named(source):
    batches = input_pipeline.TrainingBatches(
        source=source, batch_size=6, seed=5
    )
    names = [source.files.name(i) for i in batches.order.batch(1, 6)]
    assert batches.describe(1) == f"{', '.join(names[:4])} and 2 more"
    few = dataclasses.replace(batches, batch_size=1)
    assert few.describe(0) == source.files.name(few.order.batch(0, 1)[0])
    a, b = source.files.paths
    assert source.files.name(3) == f"{a} record 3"
    assert source.files.name(4) == f"{b} record 0"


def _batches(source, context=None, **options):
    worker = toy.OneWorker(context or _context())
    return input_pipeline.evaluation_batches(worker, source, **options)


def _evaluation(source, context=None, **options):
    return [
        (_rows(batch), batch["example_weights"].numpy().tolist())
        for batch in _batches(source, context, **options)
    ]


def _first_batch(source, batch_size, lengths):
    batches = _batches(source, batch_size=batch_size, lengths=lengths)
    return next(iter(batches))


def test_evaluation_once_fills_the_last_batch_with_rows_of_no_weight(source):
    found = _evaluation(source, batch_size=4, num_batches=0)
    assert found == [
        ([0, 1, 2, 3], [1, 1, 1, 1]),
        ([4, 5, 6, 7], [1, 1, 1, 1]),
        ([8, 9, 10, 10], [1, 1, 1, 0]),
    ]
    # That of so many batches starts over.
    more = _evaluation(source, batch_size=4, num_batches=4)
    assert more[:2] == found[:2]
    assert more[2:] == [([8, 9, 10, 0], [1] * 4), ([1, 2, 3, 4], [1] * 4)]
    # It may follow another order.
    assert _evaluation(source, batch_size=8, order=np.arange(10, -1, -1)) == [
        ([10, 9, 8, 7, 6, 5, 4, 3], [1] * 8),
        ([2, 1, *[0] * 6], [1, 1, 1, 0, 0, 0, 0, 0]),
    ]


def test_an_evaluation_rounds_its_batches_up_to_the_replicas(source):
    # Batches of 4 among 3 replicas are batches of 6.
    found = _evaluation(source, _context(replicas=3), batch_size=4)
    assert [row for rows, _ in found for row in rows] == [*range(11), 10]
    assert [weights for _, weights in found] == [[1, 1]] * 5 + [[1, 0]]


def test_evaluation_rows_are_dealt_to_replicas(source):
    parts = [
        _evaluation(source, _context(worker, 2, 2), batch_size=4)
        for worker in (0, 1)
    ]
    assert parts[0] == [([0, 1], [1, 1]), ([4, 5], [1, 1]), ([8, 9], [1, 1])]
    assert parts[1] == [([2, 3], [1, 1]), ([6, 7], [1, 1]), ([10, 10], [1, 0])]


def _source_with(folder, **changes):
    """Writes four records, of which some features differ."""
    path = str(folder / "records")
    tfrecords.write_batches([path], [toy.random_examples(4) | changes])
    return reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=_FEATURES,
        vocab_size=31,
        type_vocab_size=2,
    )


@pytest.mark.parametrize(
    ("name", "bad", "limit"),
    [
        ("input_ids", 31, 31),
        ("input_ids", -1, 31),
        ("segment_ids", 2, 2),
        ("masked_lm_ids", 40, 31),
        ("masked_lm_positions", 10, 10),
        ("next_sentence_labels", 5, 2),
    ],
)
def test_id_out_of_range_names_its_record(tmp_path, name, bad, limit):
    values = toy.random_examples(4)[name]
    values[2, -1] = bad
    source = _source_with(tmp_path, **{name: values})
    message = (
        f"^{source.files.paths[0]} record 2 does not fit this run: {name} must "
        rf"be at least 0 and less than {limit}.*; got {bad}\.$"
    )
    with (
        pytest.raises(ValueError, match=message),
        reading.errors(),
    ):
        for _ in _batches(source, batch_size=4):
            pass
    with pytest.raises(ValueError, match=message):
        source.read(range(4))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"input_ids": np.ones((1, 9), int)}, r"input_ids, .* 9 but .*\[10\]"),
        ({"masked_lm_weights": np.ones((1, 2), int)}, "masked_lm_weights, .*"),
        ({"masked_lm_ids": None}, "masked_lm_ids .* could not be found"),
    ],
)
def test_record_of_another_form_is_named(tmp_path, wrong, problem):
    source = _source_with(tmp_path)
    path = source.files.paths[0]
    record = toy.random_examples(1) | wrong
    other = str(tmp_path / "other")
    tfrecords.write_batches(
        [other],
        [{name: value for name, value in record.items() if value is not None}],
    )
    files = tfrecords.RecordFiles([path, other])
    source = dataclasses.replace(source, files=files)
    message = f"^{other} record 0 does not fit this run: (Key|Feature): "
    with (
        pytest.raises(ValueError, match=message + problem),
        reading.errors(),
    ):
        for _ in _batches(source, batch_size=5):
            pass
    with pytest.raises(ValueError, match=message + problem):
        source.read(range(5))


class _Seeds(reading.RecordSource):
    """Records of which only the seeds are read."""

    def parse(self, serialized, names, seeds=None):
        return {"seeds": seeds}


def test_each_row_of_a_training_has_its_own_seed(source):
    values = {
        field.name: getattr(source, field.name)
        for field in dataclasses.fields(source)
    }
    batches = input_pipeline.training_batches(
        _Seeds(**values),
        _options(train_batch_size=4, random_seed=2**63 + 5),
        num_replicas=2,
    )
    iterator = batches.iterator(toy.OneWorker(_context(replicas=2)), 1, 3)
    seeds = [next(iterator)["seeds"].numpy().tolist() for _ in range(4)]
    # Both replicas of steps 1 and 2; seeds have 63 bits.
    assert seeds == [[[5, row], [5, row + 1]] for row in (4, 6, 8, 10)]


def test_shared_padding_is_cut_to_the_next_of_the_lengths(tmp_path):
    examples = toy.random_examples(3, seq_length=10)
    examples["input_mask"] = (np.arange(10) < [[2], [4], [5]]).astype(int)
    path = toy.write_records(tmp_path / "records", examples)
    source = reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=_FEATURES,
        vocab_size=31,
    )
    lengths = {}
    for size in (2, 3):
        batch = _first_batch(source, size, [4, 7, 10])
        lengths[size] = batch["input_ids"].shape[1]
        np.testing.assert_array_equal(
            batch["input_ids"],
            examples["input_ids"][:size, : lengths[size]],
        )
        assert batch["masked_lm_ids"].shape[1] == 2
    assert lengths == {2: 4, 3: 7}


def _source_of_texts(folder, lengths, most=10):
    """Writes records of texts of `most` tokens; returns also their masks."""
    masks = (np.arange(most) < lengths[..., np.newaxis]).astype(int)
    features = [
        schema.Feature(name=name, shape=masks.shape[1:])
        for name in ("input_ids", "input_mask")
    ]
    path = str(folder / "records")
    rows = [{"input_ids": 7 * mask, "input_mask": mask} for mask in masks]
    tfrecords.write_rows(path, rows, features)
    source = reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=features,
        vocab_size=31,
    )
    return source, masks


@pytest.mark.parametrize("num_choices", [None, 3])
def test_packed_batches_are_truncated_and_have_their_rows(
    tmp_path, num_choices
):
    lengths = np.array([[2, 1, 3], [1, 5, 2], [6, 4, 1], [3, 3, 4]])
    if num_choices is None:
        lengths = lengths[:, 0]
    source, mask = _source_of_texts(tmp_path, lengths)
    packing = padding.RowPacking(row_length=8, num_parts=2)
    batch = packing.apply(_tensors(source, np.arange(4)))
    np.testing.assert_array_equal(batch["input_ids"], 7 * mask[..., :8])
    np.testing.assert_array_equal(
        batch["packed"], padding.pack(lengths.ravel(), 8, num_parts=2)
    )


def _tensors(source, indices):
    return {k: tf.constant(v) for k, v in source.read(indices).items()}


def _training_batches(source, num_replicas=1, **flags):
    options = {
        "train_batch_size": 16,
        "random_seed": 3,
        "packing": True,
        "num_accumulation_steps": 1,
        **flags,
    }
    return input_pipeline.training_batches(
        source, _options(**options), num_replicas
    )


@pytest.mark.parametrize("num_replicas", [1, 2])
@pytest.mark.parametrize("num_parts", [1, 2])
def test_training_batches_have_few_numbers_of_packed_rows(
    tmp_path, num_parts, num_replicas
):
    lengths = np.random.default_rng(1).permutation(40) + 1
    source, _ = _source_of_texts(tmp_path, lengths, most=64)
    batches = _training_batches(
        source, num_replicas, num_accumulation_steps=num_parts
    )
    packing = batches.packing
    assert packing.row_length == 48
    assert len(packing.row_counts) <= 3
    needed = set()
    for step in range(50):
        rows = batches.order.batch(step, 16)[: 16 // num_replicas]
        packed = packing.apply(_tensors(source, rows))["packed"]
        assert len(packed) / num_parts in packing.row_counts
        needed.add(len(padding.pack(lengths[rows], 48, num_parts)) / num_parts)
    assert len(needed) > len(packing.row_counts)


def test_packed_rows_are_those_of_a_micro_batch_of_a_replica(tmp_path):
    # Each text fills a row.
    source, _ = _source_of_texts(tmp_path, np.full(40, 48), most=48)
    batches = _training_batches(source, 2, num_accumulation_steps=4)
    assert batches.packing.row_counts == [16 // 2 // 4]


def test_packing_of_a_length_that_is_no_multiple_of_16_compiles_few_shapes(
    tmp_path,
):
    # A row of 40 has two texts of 16, one of 48 three.
    lengths = np.random.default_rng(1).choice([16, 40], 3000, p=[0.9, 0.1])
    source, _ = _source_of_texts(tmp_path, lengths, most=40)
    batches = _training_batches(source, train_batch_size=128)
    iterator = batches.iterator(toy.OneWorker(_context()), 0, 60)
    shapes = {next(iterator)["packed"].shape for _ in range(60)}
    assert len(shapes) <= 3


def test_the_runs_of_a_grid_read_the_lengths_of_their_texts_once(tmp_path):
    source, _ = _source_of_texts(tmp_path, np.arange(1, 11).repeat(10))
    first = _training_batches(source, random_seed=3)
    _damage(source.files.paths[0])
    again = _training_batches(source, random_seed=3)
    assert again.packing == first.packing
    assert again.packing.row_counts == first.packing.row_counts
    other = _training_batches(source, random_seed=4, train_batch_size=8)
    assert other.packing.row_length == 10


def _damage(path):
    with open(path, "r+b") as file:
        file.truncate(0)


def test_training_batches_are_not_packed_unless_asked_for(tmp_path):
    source, _ = _source_of_texts(tmp_path, np.array([4, 3]))
    batches = _training_batches(source, packing=False)
    assert batches.packing is None
    assert batches.batch_size == 16


def test_records_of_several_sequences_are_as_long_as_the_longest(tmp_path):
    source, masks = _source_of_texts(tmp_path, np.array([[2, 1, 3], [1, 5, 2]]))
    assert source.lengths().tolist() == [3, 5]
    for size, length in ((1, 4), (2, 8)):
        batch = _first_batch(source, size, [4, 8])
        np.testing.assert_array_equal(
            batch["input_ids"], 7 * masks[:size, :, :length]
        )


_TAKE_FOR_THREE_SECONDS = """
import sys, time
import tensorflow as tf
from bert.records import reading, schema, tfrecords
from bert.training import input_pipeline

source = reading.RecordSource(
    files=tfrecords.RecordFiles(sys.argv[1:]),
    features=schema.pretraining_features(10, 2),
    vocab_size=31,
)
batches = input_pipeline.TrainingBatches(source=source, batch_size=4, seed=5)
strategy = tf.distribute.OneDeviceStrategy("cpu:0")
iterator = batches.iterator(strategy, 0, 15)
for _ in range(15):
    next(iterator)
    time.sleep(0.2)
start = time.monotonic()
del iterator
print(time.monotonic() - start)
"""


@pytest.mark.integration
def test_batches_end_at_once_on_one_thread(source):
    # The thread of tf.data's autotuning wakes 5.1 s after its start, or later.
    made = subprocess.run(
        [sys.executable, "-c", _TAKE_FOR_THREE_SECONDS, *source.files.paths],
        env={
            **os.environ,
            "TF_NUM_INTEROP_THREADS": "1",
            "TF_NUM_INTRAOP_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    # Without it, 2.1 s are left of them.
    assert float(made.stdout) < 1.5

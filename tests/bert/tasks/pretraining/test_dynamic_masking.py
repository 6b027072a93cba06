"""Dynamic masking: equal to the definition, and repeatable."""

import functools
import itertools
import math
import random

import numpy as np
import pytest
import tensorflow as tf

from bert.records import reading, schema, sidecars, tfrecords
from bert.tasks.pretraining import dynamic_masking, instance_options
from bert.training import input_pipeline
from tests.support import plain_masked_pairs, toy_vocabulary
from tests.support import toy_pretraining as toy

_VOCAB = [
    *toy_vocabulary.SPECIAL,
    *(f"w{n}" for n in range(20)),
    "##x",
    "##y",
    "##z",
]
_MASK_ID = 4


def _pair(words_a, words_b):
    return ["[CLS]", *words_a, "[SEP]", *words_b, "[SEP]"]


def _masking(**options):
    options = {"max_seq_length": 24, "max_predictions_per_seq": 4} | options
    return dynamic_masking.DynamicMasking(
        options=instance_options.InstanceOptions(
            **options, dynamic_masking=True
        ),
        vocab_size=len(_VOCAB),
        mask_id=_MASK_ID,
    )


def _features(pairs, options):
    """Makes arrays of unmasked records, as the program writes them."""
    rows = [
        plain_masked_pairs.instance_features(
            plain_masked_pairs.TrainingInstance(
                tokens=tokens,
                segment_ids=[
                    int(place > tokens.index("[SEP]"))
                    for place in range(len(tokens))
                ],
                is_random_next=False,
                masked_lm_positions=[],
                masked_lm_labels=[],
            ),
            lambda tokens: list(map(_VOCAB.index, tokens)),
            options,
        )
        for tokens in pairs
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _apply(masking, pairs, seeds):
    batch = {
        name: tf.constant(values, tf.int32)
        for name, values in _features(pairs, masking.options).items()
    }
    masked = masking.apply(batch, tf.constant(seeds, tf.int64))
    return {name: value.numpy() for name, value in masked.items()}


def _seeds(count, seed=7):
    return [[seed, number] for number in range(count)]


_PAIR = _pair(["w0", "##x", "##y", "w1"], ["##z", "w2", "w3", "##x"])
# Of the tokens above, in the words w0 ##x ##y | w1 ##z | w2 | w3 ##x.
_WORD_OF = [None, 0, 0, 0, 1, None, 1, 2, 3, 3, None]


@pytest.mark.parametrize(
    ("noise", "limit", "words"),
    [
        ([0.1, 0.2, 0.3, 0.4], 3, {0}),
        # A word that does not fit is passed over for a shorter one.
        ([0.2, 0.1, 0.3, 0.4], 3, {1, 2}),
        ([0.2, 0.3, 0.1, 0.4], 3, {2, 1}),
        ([0.1, 0.2, 0.9, 0.4], 4, {0, 2}),
        ([0.1, 0.2, 0.3, 0.4], 1, {2}),
        ([0.4, 0.3, 0.2, 0.1], 20, {0, 1, 2, 3}),
    ],
)
def test_words_are_chosen_in_order_as_far_as_they_fit(noise, limit, words):
    features = _features([_PAIR], _masking(do_whole_word_mask=True).options)
    mask = features["input_mask"]
    maskable = np.zeros(mask.shape, bool)
    maskable[0, [p for p, word in enumerate(_WORD_OF) if word is not None]] = 1
    chosen = dynamic_masking.choose(
        maskable,
        features["word_starts"],
        np.array([noise + [0.0] * 20]),
        [limit],
    )
    expected = [p for p, word in enumerate(_WORD_OF) if word in words]
    assert np.flatnonzero(chosen[0]).tolist() == expected


class _Given(random.Random):
    """Shuffles by given numbers."""

    def __new__(cls, noise):
        return super().__new__(cls)

    def __init__(self, noise):
        super().__init__(1)
        self._noise = noise

    def shuffle(self, x):
        x[:] = [x[n] for n in np.argsort(self._noise[: len(x)])]


def _random_pairs(count, rng, most=10):
    def words():
        return rng.choices(_VOCAB[5:], k=rng.randint(1, most))

    return [_pair(words(), words()) for _ in range(count)]


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_places_are_those_of_the_definition(do_whole_word_mask):
    masking = _masking(
        do_whole_word_mask=do_whole_word_mask, masked_lm_prob=0.25
    )
    pairs, seeds = _random_pairs(200, random.Random(3)), _seeds(200)
    masked = _apply(masking, pairs, seeds)
    noise, _, _ = dynamic_masking.noise(np.array(seeds), 24)
    for row, tokens in enumerate(pairs):
        _, positions, labels = plain_masked_pairs.create_masked_lm_predictions(
            tokens, _VOCAB, masking.options, _Given(noise[row])
        )
        count = len(positions)
        expected = np.zeros((3, 4))
        expected[0, :count] = positions
        expected[1, :count] = list(map(_VOCAB.index, labels))
        expected[2, :count] = 1
        found = ("positions", "ids", "weights")
        np.testing.assert_array_equal(
            [masked[f"masked_lm_{name}"][row] for name in found], expected
        )


def test_only_places_to_predict_are_changed():
    masking = _masking(do_whole_word_mask=True)
    pairs = _random_pairs(100, random.Random(4))
    given = _features(pairs, masking.options)
    masked = _apply(masking, pairs, _seeds(100))
    assert masked.keys() == {
        feature.name for feature in schema.pretraining_features(24, 4)
    }
    rows, columns = np.nonzero(given["input_ids"] != masked["input_ids"])
    for row, column in zip(rows, columns, strict=True):
        assert column in masked["masked_lm_positions"][row]
        assert given["input_ids"][row, column] not in (2, 3)
    for name in ("input_mask", "segment_ids", "next_sentence_labels"):
        np.testing.assert_array_equal(masked[name], given[name])


# Five standard deviations: one test in two million fails by chance.
def _check_share(hits, total, share):
    bound = 5 * math.sqrt(total * share * (1 - share))
    assert abs(hits - total * share) <= bound, (hits, total, share)


@functools.cache
def _drawn(masking):
    """Masks one pair many times."""
    pair = _pair([f"w{n}" for n in range(12)], [f"w{n}" for n in range(7)])
    return pair, _apply(masking, [pair] * 8000, _seeds(8000))


def test_tokens_are_hidden_kept_and_replaced_as_often_as_asked():
    _, masked = _drawn(_masking(masking="70,20,10"))
    assert (masked["masked_lm_weights"].sum(axis=1) == 3).all()
    weights = masked["masked_lm_weights"] > 0
    labels = masked["masked_lm_ids"][weights]
    shown = np.take_along_axis(
        masked["input_ids"], masked["masked_lm_positions"], axis=1
    )[weights]
    total, vocab_size = len(labels), len(_VOCAB)
    # Now and then the random token is [MASK], or the token itself.
    _check_share((shown == _MASK_ID).sum(), total, 0.7 + 0.1 / vocab_size)
    _check_share((shown == labels).sum(), total, 0.2 + 0.1 / vocab_size)
    others = shown[(shown != labels) & (shown != _MASK_ID)]
    for index in set(range(vocab_size)) - {_MASK_ID}:
        here = (labels != index).sum()
        _check_share((others == index).sum(), here, 0.1 / vocab_size)


def test_all_places_are_predicted_equally_often():
    pair, masked = _drawn(_masking(masking="70,20,10"))
    counts = np.bincount(
        masked["masked_lm_positions"][masked["masked_lm_weights"] > 0],
        minlength=24,
    )
    for place, count in enumerate(counts):
        is_word = place < len(pair) and pair[place] not in ("[CLS]", "[SEP]")
        if is_word:
            _check_share(count, 8000, 3 / 19)
        else:
            assert count == 0


def test_words_are_predicted_as_often_as_by_the_definition():
    options = {"do_whole_word_mask": True, "masked_lm_prob": 0.3}
    masking = _masking(**options)
    masked = _apply(masking, [_PAIR] * 4000, _seeds(4000))
    rng = random.Random(1)
    defined = [
        plain_masked_pairs.create_masked_lm_predictions(
            _PAIR, _VOCAB, masking.options, rng
        )[1]
        for _ in range(4000)
    ]
    found = masked["masked_lm_positions"][masked["masked_lm_weights"] > 0]
    ours = np.bincount(found, minlength=24)
    theirs = np.bincount(np.concatenate(defined), minlength=24)
    shares = (ours + theirs) / 8000
    bounds = 5 * np.sqrt(2 * 4000 * shares * (1 - shares))
    assert (np.abs(ours - theirs) <= bounds).all(), (ours, theirs)
    assert theirs.sum() > 4000


@pytest.mark.parametrize(
    ("options", "num_words", "expected"),
    [
        # Of 0.15 * 5 tokens, and of 0.01 * 5: at least one.
        ({}, 2, 1),
        ({"masked_lm_prob": 0.01}, 2, 1),
        ({"masked_lm_prob": 0.0}, 2, 1),
        # A half is rounded to the even number.
        ({"masked_lm_prob": 0.25}, 7, 2),
        ({"masked_lm_prob": 0.25}, 11, 4),
        ({"masked_lm_prob": 1.0}, 9, 4),
        # There are no more places than words.
        ({"masked_lm_prob": 1.0, "max_predictions_per_seq": 30}, 2, 2),
    ],
)
def test_the_number_of_predictions_is_the_release_s(
    options, num_words, expected
):
    masking = _masking(**options)
    pair = _pair(["w1"] * (num_words - 1), ["w2"])
    masked = _apply(masking, [pair] * 3, _seeds(3))
    width = masking.options.max_predictions_per_seq
    weights = masked["masked_lm_weights"]
    assert weights.shape == masked["masked_lm_ids"].shape == (3, width)
    assert weights.tolist() == [[1] * expected + [0] * (width - expected)] * 3
    assert not masked["masked_lm_positions"][weights == 0].any()


def test_a_mask_depends_on_its_seed_alone():
    masking = _masking(do_whole_word_mask=True)
    pairs = _random_pairs(30, random.Random(5))
    seeds = _seeds(30)
    whole = _apply(masking, pairs, seeds)
    chosen = [17, 3, 29]
    part = _apply(
        masking, [pairs[n] for n in chosen], [seeds[n] for n in chosen]
    )
    for name, values in part.items():
        np.testing.assert_array_equal(values, whole[name][chosen], name)
    for others in (_seeds(30, seed=8), [[7, n + 30] for n in range(30)]):
        again = _apply(masking, pairs, others)
        same = (again["input_ids"] == whole["input_ids"]).all(axis=1)
        assert same.mean() < 0.5


_MADE_WITH = {
    "masked_lm_prob": 0.15,
    "do_whole_word_mask": True,
    "masking": [80.0, 10.0, 10.0],
    "dupe_factor": 1,
    sidecars.MASK_ID: _MASK_ID,
}


def _metadata(**changes):
    made_with = {**_MADE_WITH, **changes}
    return sidecars.Metadata(
        kind="pretraining",
        max_seq_length=24,
        max_predictions_per_seq=4,
        vocab_size=len(_VOCAB),
        vocab_sha256="0" * 64,
        do_lower_case=True,
        num_records=20,
        flags={k: v for k, v in made_with.items() if v is not None},
    )


def test_sidecars_say_how_records_are_masked():
    found = dynamic_masking.of_sidecars(
        {"a": _metadata(), "b": _metadata(dupe_factor=3)}
    )
    assert found == dynamic_masking.DynamicMasking(
        options=instance_options.InstanceOptions(
            max_seq_length=24,
            max_predictions_per_seq=4,
            do_whole_word_mask=True,
            masking="80.0,10.0,10.0",
        ),
        vocab_size=len(_VOCAB),
        mask_id=_MASK_ID,
    )
    masked = _metadata(mask_id=None)
    assert dynamic_masking.of_sidecars({"a": masked, "b": None}) is None


@pytest.mark.parametrize(
    "other", [None, _metadata(mask_id=None), _metadata(masked_lm_prob=0.2)]
)
def test_files_to_be_masked_in_different_ways_are_refused(other):
    with pytest.raises(
        ValueError, match=r"masked alike, .* these differ: a, c"
    ):
        dynamic_masking.of_sidecars(
            {"a": _metadata(), "b": _metadata(), "c": other}
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"masked_lm_prob": 0.2},
        {"do_whole_word_mask": True},
        {"masking": "90,5,5"},
    ],
)
def test_identity_has_all_that_determines_the_masks(changes):
    identity = _masking().identity()
    assert identity == [0.15, False, 80.0, 10.0, 10.0]
    assert _masking(**changes).identity() != identity


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("unmasked") / "records")
    masking = dynamic_masking.of_sidecars({"a": _metadata()})
    features = (
        *schema.unmasked_features(24, do_whole_word_mask=True),
        schema.Feature(name="number", shape=(1,)),
    )
    arrays = _features(
        _random_pairs(20, random.Random(6)),
        _masking(do_whole_word_mask=True).options,
    )
    arrays["number"] = np.arange(20)[:, np.newaxis]
    tfrecords.write_rows(
        path,
        ({name: arrays[name][n] for name in arrays} for n in range(20)),
        features,
    )
    return reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=features,
        vocab_size=len(_VOCAB),
        masking=masking,
    )


def _rows(batches):
    """Lists the rows of batches: the record's number, then its arrays."""
    return [
        (
            int(batch["number"][row, 0]),
            batch["input_ids"][row].numpy().tolist(),
            batch["masked_lm_positions"][row].numpy().tolist(),
        )
        for batch in batches
        for row in range(len(batch["input_ids"]))
    ]


def _trained_on(source, steps, worker=0, workers=1, replicas=1, seed=5):
    context = tf.distribute.InputContext(workers, worker, replicas)
    batches = input_pipeline.TrainingBatches(
        source=source, batch_size=8, seed=seed
    )
    iterator = batches.iterator(toy.OneWorker(context), *steps)
    count = (steps[1] - steps[0]) * (replicas // workers)
    return _rows(itertools.islice(iterator, count))


def test_training_masks_each_time_anew_and_always_the_same(source):
    rows = _trained_on(source, (0, 10))
    assert rows[3 * 8 :] == _trained_on(source, (3, 10))
    assert rows != _trained_on(source, (0, 10), seed=6)
    # Four passes over the records.
    different = {(number, *map(tuple, rest)) for number, *rest in rows}
    assert len(different) > 70


def test_masks_do_not_depend_on_the_replicas(source):
    whole = _trained_on(source, (0, 5))
    assert _trained_on(source, (0, 5), replicas=2) == whole
    parts = [
        _trained_on(source, (0, 5), worker, workers=2, replicas=4)
        for worker in (0, 1)
    ]
    by_step = [part[4 * n : 4 * n + 4] for n in range(5) for part in parts]
    assert list(itertools.chain.from_iterable(by_step)) == whole


def test_evaluation_masks_a_record_always_alike(source):
    def evaluated(replicas=1, **options):
        worker = toy.OneWorker(tf.distribute.InputContext(1, 0, replicas))
        batches = input_pipeline.evaluation_batches(worker, source, **options)
        return {number: rest for number, *rest in _rows(batches)}

    once = evaluated(batch_size=8)
    assert sorted(once) == list(range(20))
    backwards = np.arange(20)[::-1]
    assert evaluated(batch_size=4, replicas=2, order=backwards) == once
    # Starting over where the records end.
    assert evaluated(batch_size=8, num_batches=9) == once
    trained = {number: rest for number, *rest in _trained_on(source, (0, 3))}
    assert sum(once[number] == trained[number] for number in trained) < 10

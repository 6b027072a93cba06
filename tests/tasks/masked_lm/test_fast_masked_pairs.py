"""The fast implementation of masked pairs equals the definition."""

import random

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tasks.masked_lm import encoded_corpus, fast_masked_pairs, masked_pairs

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


class _Encoded:
    """What a tokenizer makes of texts whose tokens have spaces between."""

    def __init__(self, vocab, texts):
        rows = [[vocab[token] for token in text.split()] for text in texts]
        self.ids = np.array([i for row in rows for i in row], np.int32)
        self.row_lengths = np.array([len(row) for row in rows])


def _made(documents, vocab, options, rng):
    corpus = encoded_corpus.encode_documents(
        [[" ".join(sentence) for sentence in part] for part in documents],
        lambda texts: _Encoded(vocab, texts),
    )
    return fast_masked_pairs.create_instances(
        corpus, encoded_corpus.vocabulary(vocab), options, rng
    )


def _arrays(instances):
    batches = list(instances.batches())
    return {
        name: np.concatenate([batch[name] for batch in batches])
        for name in batches[0]
    }


def _assert_same(documents, vocab, options, seed):
    rng, defined_rng = random.Random(seed), random.Random(seed)
    instances = _made(documents, vocab, options, rng)
    defined = masked_pairs.create_training_instances(
        documents, list(vocab), options, defined_rng
    )
    assert rng.getstate() == defined_rng.getstate()
    assert len(instances) == len(defined)
    assert instances.num_random_next() == sum(
        instance.is_random_next for instance in defined
    )
    features = [
        masked_pairs.instance_features(
            instance, lambda tokens: [vocab[token] for token in tokens], options
        )
        for instance in defined
    ]
    for name, values in _arrays(instances).items():
        np.testing.assert_array_equal(
            values, [feature[name] for feature in features], name
        )


_WORDS = [*"abcdef", "##g", "##h", "##i"]
_DOCUMENTS = st.lists(
    st.lists(
        st.lists(st.sampled_from(_WORDS), min_size=1, max_size=25),
        min_size=1,
        max_size=9,
    ),
    min_size=1,
    max_size=6,
)
_MASKINGS = ["80,10,10", "100,0,0", "0,0,100", "0,100,0", "80,20,0"]


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(
    _DOCUMENTS,
    st.permutations(_SPECIAL + _WORDS),
    st.builds(
        masked_pairs.InstanceOptions,
        max_seq_length=st.integers(5, 60),
        max_predictions_per_seq=st.integers(1, 12),
        dupe_factor=st.integers(1, 3),
        short_seq_prob=st.floats(0, 1),
        masked_lm_prob=st.floats(0, 1),
        do_whole_word_mask=st.booleans(),
        masking=st.sampled_from(_MASKINGS),
        dynamic_masking=st.booleans(),
    ),
    st.integers(0, 2**40),
)
def test_instances_are_those_of_the_definition(
    documents, tokens, options, seed
):
    # Some lines of a vocabulary may repeat: ids are not always 0, 1, 2 ...
    vocab = {token: 2 * number for number, token in enumerate(tokens)}
    _assert_same(documents, vocab, options, seed)


def test_long_sequences_and_many_instances():
    rng = random.Random(3)
    vocab = {token: n for n, token in enumerate(_SPECIAL + _WORDS)}
    documents = [
        [rng.choices(_WORDS, k=rng.randint(1, 40)) for _ in range(60)]
        for _ in range(40)
    ]
    options = masked_pairs.InstanceOptions(
        max_seq_length=300, max_predictions_per_seq=45, dupe_factor=4
    )
    _assert_same(documents, vocab, options, 1)


def test_progress_goes_to_the_end():
    shares = []
    vocab = {token: n for n, token in enumerate(_SPECIAL + _WORDS)}
    corpus = encoded_corpus.encode_documents(
        [["a b"], ["c"]], lambda texts: _Encoded(vocab, texts)
    )
    fast_masked_pairs.create_instances(
        corpus,
        encoded_corpus.vocabulary(vocab),
        masked_pairs.InstanceOptions(dupe_factor=2),
        random.Random(1),
        shares.append,
    )
    assert shares == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("size", [*range(0, 70), 127, 128, 129, 1000, 70_000])
def test_shuffle_is_python_s(size):
    ours, python_s = random.Random(size), random.Random(size)
    items, expected = list(range(size)), list(range(size))
    fast_masked_pairs.shuffle(items, ours)
    python_s.shuffle(expected)
    assert items == expected
    assert ours.getstate() == python_s.getstate()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 33, 64, 125, 128, 500])
@pytest.mark.parametrize("count", [1, 2, 3, 20, 31, 32, 63, 64, 600])
def test_first_of_shuffled_are_python_s(size, count):
    ours, python_s = random.Random(size), random.Random(size)
    expected = list(range(size))
    python_s.shuffle(expected)
    found = fast_masked_pairs.first_of_shuffled(list(range(size)), count, ours)
    assert found == expected[:count]
    assert ours.getstate() == python_s.getstate()


def test_numbers_below_and_between_are_python_s():
    ours, python_s = random.Random(1), random.Random(1)
    for limit in (1, 2, 3, 7, 8, 9, 30522):
        for _ in range(200):
            expected = python_s.randint(0, limit - 1)
            assert fast_masked_pairs.below(limit, ours) == expected
    for low, high in [(1, 1), (2, 125), (0, 7)] * 50:
        expected = python_s.randint(low, high)
        assert fast_masked_pairs.between(low, high, ours) == expected
    assert ours.getstate() == python_s.getstate()

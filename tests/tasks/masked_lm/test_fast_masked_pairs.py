"""The fast implementation of masked pairs equals the definition."""

import json
import pathlib
import random

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tasks.masked_lm import (
    encoded_corpus,
    fast_masked_pairs,
    masked_pairs,
)
from vocab import word_memory

_GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
_CASES = json.loads((_GOLDEN / "pretraining/cases.json").read_text("utf-8"))
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


@pytest.mark.parametrize("case", sorted(_CASES))
def test_instances_are_the_release_s(case):
    flags = _CASES[case]["flags"]
    tokenizer = word_memory.WordMemory(
        str(_GOLDEN / flags["vocab_file"]), flags["do_lower_case"]
    )
    paths = [str(_GOLDEN / path) for path in flags["input_file"]]
    corpus = encoded_corpus.encode_documents(
        encoded_corpus.read_documents(paths), tokenizer.encode
    )
    rng = random.Random(flags["random_seed"])
    names = ("max_seq_length", "max_predictions_per_seq", "dupe_factor")
    names += ("short_seq_prob", "masked_lm_prob", "do_whole_word_mask")
    instances = fast_masked_pairs.create_instances(
        corpus,
        encoded_corpus.vocabulary(tokenizer.definition.vocab),
        masked_pairs.InstanceOptions(**{name: flags[name] for name in names}),
        rng,
    )
    assert rng.random() == _CASES[case]["next_random_after"]
    assert instances.num_random_next() == _CASES[case]["random_next"]
    num_files = len(_CASES[case]["records"])
    with np.load(_GOLDEN / f"pretraining/{case}.npz") as arrays:
        for name, values in _arrays(instances).items():
            for number in range(num_files):
                prefix = f"file{number}/" if num_files > 1 else ""
                np.testing.assert_array_equal(
                    values[number::num_files], arrays[prefix + name]
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


def test_truncation_shortens_the_longer_at_a_random_end():
    uniforms = [0.49, 0.5, 0.0]

    class Coin(random.Random):
        def random(self):
            return uniforms.pop(0)

    # The front of A, the back of A; then both are equal: the front of B.
    assert fast_masked_pairs.truncate_pair_at_random_ends(
        (10, 14), (30, 32), 3, Coin()
    ) == ((11, 13), (31, 32))


def test_truncation_leaves_a_pair_that_fits():
    assert fast_masked_pairs.truncate_pair_at_random_ends(
        (0, 1), (5, 6), 2, random.Random()
    ) == ((0, 1), (5, 6))


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


def test_pieces_of_words_are_joined():
    assert fast_masked_pairs.whole_words([1, 2, 3, 5], bytes([0, 1, 0, 1])) == [
        [1, 2],
        [3, 5],
    ]
    # B was cut within a word, and there is no word before it.
    assert fast_masked_pairs.whole_words([1, 2], bytes([1, 1])) == [[1, 2]]
    assert fast_masked_pairs.whole_words([], b"") == []


def test_words_that_do_not_fit_are_passed_over():
    for seed in range(20):
        places = fast_masked_pairs.choose_words(
            [[1, 2, 3], [5, 6]], 2, random.Random(seed)
        )
        assert places == [5, 6]


def test_replacements_are_drawn_in_the_order_of_the_release():
    uniforms = [0.79, 0.8, 0.49, 0.99, 0.5]

    class Draws(random.Random):
        def random(self):
            return uniforms.pop(0)

        def getrandbits(self, k):
            assert k == 6
            return 49

    assert fast_masked_pairs.draw_replacements(
        3, 50, (80, 10, 10), Draws()
    ) == [
        fast_masked_pairs.MASK,
        fast_masked_pairs.SAME,
        49,
    ]

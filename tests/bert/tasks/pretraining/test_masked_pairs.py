"""Masked sentence pairs: the release's, and those of the plain definition."""

import dataclasses
import gzip
import json
import math
import random

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from bert.tasks.pretraining import (
    encoded_corpus,
    instance_options,
    masked_pairs,
)
from tests.support import (
    locations,
    plain_masked_pairs,
    toy_files,
    toy_vocabulary,
)
from vocab import tokenization


def test_the_plain_definition_makes_the_instances_of_the_release():
    """Its records are those of tests/test_create_pretraining_data.py."""
    golden = locations.GOLDEN / "pretraining"
    case = toy_files.read_json(golden / "cases.json")["base"]
    flags = case["flags"]
    tokenizer = tokenization.FullTokenizer(
        str(locations.GOLDEN / flags["vocab_file"]), flags["do_lower_case"]
    )
    documents = plain_masked_pairs.tokenize_documents(
        encoded_corpus.read_documents(
            str(locations.GOLDEN / path) for path in flags["input_file"]
        ),
        tokenizer.tokenize,
    )
    fields = dataclasses.fields(instance_options.InstanceOptions)
    options = instance_options.InstanceOptions(
        **{x.name: flags[x.name] for x in fields if x.name in flags}
    )
    rng = random.Random(flags["random_seed"])
    instances = plain_masked_pairs.create_training_instances(
        documents, list(tokenizer.vocab), options, rng
    )
    assert rng.random() == case["next_random_after"]
    with gzip.open(golden / "base_instances.jsonl.gz", "rt") as file:
        expected = [json.loads(line) for line in file]
    for instance, wanted in zip(instances, expected, strict=True):
        for name, value in wanted.items():
            assert getattr(instance, name) == value, name


class _Coin(random.Random):
    """Gives one number after the other from `random`."""

    def __init__(self, *uniforms):
        super().__init__()
        self.uniforms = list(uniforms)

    def random(self):
        return self.uniforms.pop(0)


def test_truncation_shortens_the_longer_at_a_random_end():
    coin = _Coin(0.49, 0.5, 0.0)
    # The front of A, the back of A; then both are equal: the front of B.
    shortened = masked_pairs.truncate_pair_at_random_ends(
        (10, 14), (30, 32), 3, coin
    )
    assert shortened == ((11, 13), (31, 32))
    assert coin.uniforms == []
    spans = (10, 11), (30, 31)
    assert (
        masked_pairs.truncate_pair_at_random_ends(*spans, 2, _Coin()) == spans
    )


_LABELS = [f"word{number}" for number in range(50)]


class _Draws(random.Random):
    """Draws what it is told to, and leaves lists in their order."""

    def __init__(self, uniforms, integers=()):
        super().__init__()
        self.uniforms = list(uniforms)
        self.integers = list(integers)

    def random(self):
        return self.uniforms.pop(0)

    def randint(self, a, b):
        number = self.integers.pop(0)
        assert a <= number <= b
        return number

    def shuffle(self, x):
        pass


def _masked(tokens, rng, **options):
    return plain_masked_pairs.create_masked_lm_predictions(
        tokens, _LABELS, instance_options.InstanceOptions(**options), rng
    )


def test_masks_keeps_and_replaces_by_the_release_draws():
    tokens = ["[CLS]", "a", "b", "[SEP]", "c", "d", "[SEP]"]
    rng = _Draws([0.79, 0.8, 0.49, 0.99, 0.5], [49])
    shown, positions, labels = _masked(tokens, rng, masked_lm_prob=3 / 7)
    assert shown == [
        "[CLS]",
        "[MASK]",
        "b",
        "[SEP]",
        "word49",
        "d",
        "[SEP]",
    ]
    assert positions == [1, 2, 4]
    assert labels == ["a", "b", "c"]
    assert rng.uniforms == rng.integers == []


@pytest.mark.parametrize(
    ("tokens", "draws", "prob", "expected"),
    [
        # Two predictions: the word of three does not fit, the one of two does.
        ("[CLS] un ##aff ##able [SEP] cat ##s [SEP]", 2, 0.25, [5, 6]),
        # A word may leave no room for any prediction.
        ("[CLS] un ##aff [SEP] [SEP]", 0, 0.2, []),
        # The first piece of B joins the last word of A.
        ("[CLS] aa [SEP] ##bb [SEP]", 2, 0.4, [1, 3]),
        # Without whole words pieces are apart.
        ("[CLS] aa ##bb [SEP] c [SEP]", 1, None, [1]),
    ],
)
def test_whole_words_are_predicted_together_or_passed_over(
    tokens, draws, prob, expected
):
    tokens, rng = tokens.split(), _Draws([0.0] * draws)
    options = {"do_whole_word_mask": True, "masked_lm_prob": prob}
    shown, positions, labels = _masked(tokens, rng, **options if prob else {})
    assert positions == expected
    assert labels == [tokens[place] for place in positions]
    assert (shown == tokens) == (not expected)


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
    return masked_pairs.create_instances(corpus, vocab, options, rng)


def _arrays(instances):
    batches = list(instances.batches())
    return {
        name: np.concatenate([batch[name] for batch in batches])
        for name in batches[0]
    }


@pytest.mark.parametrize(
    "masking",
    ["80,10,10", "100,0,0", "80,20,0", "80,0,20", "0,20,80", "0,0,100"],
)
def test_share_of_each_kind_is_as_asked(masking):
    rng = random.Random(7)
    words = [f"w{number}" for number in range(50)]
    vocab = {t: n for n, t in enumerate([*toy_vocabulary.SPECIAL, *words])}
    documents = [
        [rng.choices(words, k=30) for _ in range(9)] for _ in range(40)
    ]
    options = instance_options.InstanceOptions(dupe_factor=3, masking=masking)
    made = _arrays(_made(documents, vocab, options, rng))
    rows, places = np.nonzero(made["masked_lm_weights"])
    shown = made["input_ids"][rows, made["masked_lm_positions"][rows, places]]
    is_same = shown == made["masked_lm_ids"][rows, places]
    is_mask = shown == vocab["[MASK]"]
    total = len(rows)
    assert total > 4000
    masked, kept, replaced = (int(part) / 100 for part in masking.split(","))
    # Now and then the random token is [MASK], or the token itself.
    chance = replaced / len(vocab)
    for found, share in (
        (is_mask, masked + chance),
        (is_same, kept + chance),
        (~is_mask & ~is_same, replaced - 2 * chance),
    ):
        # Five standard deviations of the binomial; none at 0 and 100 percent.
        bound = 5 * math.sqrt(total * share * (1 - share))
        assert abs(found.sum() - total * share) <= bound + 1e-9


def _assert_same(documents, vocab, options, seed):
    rng, defined_rng = random.Random(seed), random.Random(seed)
    instances = _made(documents, vocab, options, rng)
    defined = plain_masked_pairs.create_training_instances(
        documents, list(vocab), options, defined_rng
    )
    assert rng.getstate() == defined_rng.getstate()
    assert len(instances) == len(defined)
    assert instances.num_random_next() == sum(
        instance.is_random_next for instance in defined
    )
    features = [
        plain_masked_pairs.instance_features(
            instance, lambda tokens: [vocab[token] for token in tokens], options
        )
        for instance in defined
    ]
    for name, values in _arrays(instances).items():
        np.testing.assert_array_equal(
            values, [feature[name] for feature in features], name
        )


_WORDS = [*"abcdef", "##g", "##h", "##i"]
_TOKENS = [*toy_vocabulary.SPECIAL, *_WORDS]
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
    st.permutations(_TOKENS),
    st.builds(
        instance_options.InstanceOptions,
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


def test_a_document_alone_is_drawn_as_often_as_in_the_release():
    vocab = {token: n for n, token in enumerate(_TOKENS)}
    options = instance_options.InstanceOptions(
        max_seq_length=9, max_predictions_per_seq=2, dupe_factor=5
    )
    _assert_same([[["a", "b"], ["c", "d", "e"], ["f"]]], vocab, options, 1)


def test_long_sequences_and_many_instances():
    rng = random.Random(3)
    vocab = {token: n for n, token in enumerate(_TOKENS)}
    documents = [
        [rng.choices(_WORDS, k=rng.randint(1, 40)) for _ in range(60)]
        for _ in range(40)
    ]
    options = instance_options.InstanceOptions(
        max_seq_length=300, max_predictions_per_seq=45, dupe_factor=4
    )
    _assert_same(documents, vocab, options, 1)

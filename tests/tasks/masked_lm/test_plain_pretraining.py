"""The definition of instances, against the release's own."""

import gzip
import hashlib
import json
import pathlib
import random

import numpy as np
import pytest

from tasks.masked_lm import pretraining
from tests import plain_pretraining
from vocab import tokenization

_GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
_CASES = json.loads((_GOLDEN / "pretraining/cases.json").read_text("utf-8"))


def _options(flags):
    names = (
        "max_seq_length",
        "max_predictions_per_seq",
        "dupe_factor",
        "short_seq_prob",
        "masked_lm_prob",
        "do_whole_word_mask",
    )
    return pretraining.InstanceOptions(**{name: flags[name] for name in names})


def _instances(case):
    """Returns a case's instances, their features and the generator after."""
    flags = _CASES[case]["flags"]
    tokenizer = tokenization.FullTokenizer(
        str(_GOLDEN / flags["vocab_file"]), do_lower_case=flags["do_lower_case"]
    )
    documents = plain_pretraining.read_documents(
        [str(_GOLDEN / path) for path in flags["input_file"]],
        tokenizer.tokenize,
    )
    rng = random.Random(flags["random_seed"])
    options = _options(flags)
    instances = plain_pretraining.create_training_instances(
        documents, list(tokenizer.vocab), options, rng
    )
    features = [
        plain_pretraining.instance_features(
            instance, tokenizer.convert_tokens_to_ids, options
        )
        for instance in instances
    ]
    return instances, features, rng


def _sha256(records):
    digest = hashlib.sha256()
    for record in records:
        line = json.dumps(record, sort_keys=True, separators=(",", ":"))
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


@pytest.mark.parametrize("case", sorted(_CASES))
def test_instances_are_the_release_s(case):
    expected = _CASES[case]
    instances, features, rng = _instances(case)
    num_files = len(expected["records"])
    for number in range(num_files):
        part = features[number::num_files]
        assert len(part) == expected["records"][number]
        assert _sha256(part) == expected["sha256_of_records"][number]
        with np.load(_GOLDEN / f"pretraining/{case}.npz") as arrays:
            prefix = f"file{number}/" if num_files > 1 else ""
            for name in part[0]:
                np.testing.assert_array_equal(
                    [record[name] for record in part], arrays[prefix + name]
                )
    random_next = sum(instance.is_random_next for instance in instances)
    assert random_next == expected["random_next"]
    assert rng.random() == expected["next_random_after"]


def test_instances_before_serialisation_are_the_release_s():
    instances, _, _ = _instances("base")
    path = _GOLDEN / "pretraining/base_instances.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        expected = [json.loads(line) for line in file]
    assert len(instances) == len(expected)
    for instance, wanted in zip(instances, expected, strict=True):
        for name, value in wanted.items():
            assert getattr(instance, name) == value, name


def _read(folder, *texts):
    input_paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.txt"
        path.write_bytes(text)
        input_paths.append(str(path))
    return plain_pretraining.read_documents(input_paths, str.split)


def test_reads_documents_between_blank_lines(tmp_path):
    text = b"\n a b\nc\n\n \t\n\xe3\x80\x80\nd e\n\n"
    assert _read(tmp_path, text) == [[["a", "b"], ["c"]], [["d", "e"]]]


def test_last_line_needs_no_line_end(tmp_path):
    assert _read(tmp_path, b"a\n\nb") == [[["a"]], [["b"]]]


def test_a_file_ends_no_document(tmp_path):
    assert _read(tmp_path, b"a\n", b"b\n") == [[["a"], ["b"]]]


def test_a_blank_line_at_the_end_of_a_file_ends_the_document(tmp_path):
    assert _read(tmp_path, b"a\n\n", b"", b"b\n") == [[["a"]], [["b"]]]


def test_a_line_without_tokens_ends_no_document(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\n?\nb\n")
    documents = plain_pretraining.read_documents(
        [str(path)], lambda text: [] if text == "?" else [text]
    )
    assert documents == [[["a"], ["b"]]]


@pytest.mark.parametrize("text", [b"", b"\n \n\t\n"])
def test_a_corpus_without_a_sentence_is_an_error(tmp_path, text):
    with pytest.raises(ValueError, match=r"at least one sentence.*0\.txt"):
        _read(tmp_path, text)


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"0\.txt, line 2: not UTF-8"):
        _read(tmp_path, b"a\n\xff\n")


class _Coin(random.Random):
    """Gives one number after the other from `random`."""

    def __init__(self, *uniforms):
        super().__init__()
        self.uniforms = list(uniforms)

    def random(self):
        return self.uniforms.pop(0)


def test_truncation_shortens_the_longer_at_a_random_end():
    coin = _Coin(0.49, 0.5, 0.0)
    tokens_a, tokens_b = list("abcd"), list("xy")
    # The front of A, the back of A; then both are equal: the front of B.
    assert plain_pretraining.truncate_pair_at_random_ends(
        tokens_a, tokens_b, 3, coin
    ) == (["b", "c"], ["y"])
    assert coin.uniforms == []
    assert (tokens_a, tokens_b) == (list("abcd"), list("xy"))


def test_truncation_leaves_a_pair_that_fits():
    assert plain_pretraining.truncate_pair_at_random_ends(
        ["a"], ["b"], 2, _Coin()
    ) == (["a"], ["b"])


def _documents(rng):
    names = (f"t{number}" for number in range(100_000))
    return [
        [
            [next(names) for _ in range(rng.randint(1, 30))]
            for _ in range(rng.randint(1, 12))
        ]
        for _ in range(8)
    ]


@pytest.mark.parametrize("max_seq_length", [5, 6, 17, 64])
@pytest.mark.parametrize("seed", range(5))
def test_instances_keep_their_promises(max_seq_length, seed):
    rng = random.Random(seed)
    documents = _documents(rng)
    place = {
        token: (number, index)
        for number, document in enumerate(documents)
        for index, token in enumerate(
            token for sentence in document for token in sentence
        )
    }
    options = pretraining.InstanceOptions(
        max_seq_length=max_seq_length,
        max_predictions_per_seq=3,
        dupe_factor=2,
        short_seq_prob=0.3,
    )
    instances = plain_pretraining.create_training_instances(
        documents, ["other"], options, rng
    )
    for instance in instances:
        tokens = list(instance.tokens)
        assert 5 <= len(tokens) <= max_seq_length
        assert 1 <= len(instance.masked_lm_positions) <= 3
        for at, label in zip(
            instance.masked_lm_positions,
            instance.masked_lm_labels,
            strict=True,
        ):
            tokens[at] = label
        middle = tokens.index("[SEP]")
        assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
        assert instance.segment_ids == [0] * (middle + 1) + [1] * (
            len(tokens) - middle - 1
        )
        places_a = [place[token] for token in tokens[1:middle]]
        places_b = [place[token] for token in tokens[middle + 1 : -1]]
        for places in (places_a, places_b):
            number, first = places[0]
            assert places == [(number, first + k) for k in range(len(places))]
        if not instance.is_random_next:
            assert places_a[0][0] == places_b[0][0]
            assert places_a[-1] < places_b[0]


def test_same_seed_same_instances_and_documents_stay_as_they_were():
    documents = _documents(random.Random(3))
    before = [list(document) for document in documents]
    options = pretraining.InstanceOptions(dupe_factor=1)
    first, again, other = (
        plain_pretraining.create_training_instances(
            documents, ["x"], options, random.Random(seed)
        )
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert documents == before


def test_a_single_document_pairs_with_itself():
    options = pretraining.InstanceOptions(max_seq_length=8, dupe_factor=1)
    (instance,) = plain_pretraining.create_training_instances(
        [[["a"]]], ["x"], options, random.Random(1)
    )
    assert instance.is_random_next
    assert instance.segment_ids == [0, 0, 0, 1, 1]


def test_features_by_hand():
    ids = {"[CLS]": 4, "[SEP]": 5, "[MASK]": 6, "a": 7, "b": 8, "c": 9}
    instance = plain_pretraining.TrainingInstance(
        tokens=["[CLS]", "a", "[SEP]", "[MASK]", "c", "[SEP]"],
        segment_ids=[0, 0, 0, 1, 1, 1],
        is_random_next=True,
        masked_lm_positions=[3, 4],
        masked_lm_labels=["b", "c"],
    )
    features = plain_pretraining.instance_features(
        instance,
        lambda tokens: [ids[token] for token in tokens],
        pretraining.InstanceOptions(
            max_seq_length=8, max_predictions_per_seq=3
        ),
    )
    assert features == {
        "input_ids": [4, 7, 5, 6, 9, 5, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 1, 1, 1, 0, 0],
        "masked_lm_positions": [3, 4, 0],
        "masked_lm_ids": [8, 9, 0],
        "masked_lm_weights": [1.0, 1.0, 0.0],
        "next_sentence_labels": [1],
    }

import json
import re

import numpy as np
import pytest

from tasks import swag
from tasks.classification import sentence_pairs
from tests import toy_pretraining
from tools import inspect_data
from training import records
from vocab import tokenization

_ENTRIES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s", "sat", "."),
    *(f"w{i}" for i in range(22)),
]


@pytest.fixture
def look(tmp_path, capsys):
    (tmp_path / "vocab.txt").write_text("\n".join(_ENTRIES) + "\n")

    def run(**changes):
        inspect_data.run(
            inspect_data.Options(
                vocab_file=str(tmp_path / "vocab.txt"),
                output_file=str(tmp_path / "out.json"),
                **changes,
            )
        )
        numbers = json.loads((tmp_path / "out.json").read_text())
        return capsys.readouterr().out, numbers

    return run


def _write_text(path, document, num_documents):
    path.write_text("\n".join([document] * num_documents))
    return str(path)


def test_text_is_described_with_the_pairs_made_of_it(look, tmp_path):
    text = _write_text(
        tmp_path / "a.txt",
        "".join(f"Cats w{i} sat.\nw{i} w{i + 1} sat\n" for i in range(20)),
        30,
    )
    shown, numbers = look(input_file=text, max_seq_length=20, num_examples=2)
    assert numbers["text"]["num_documents"] == 30
    assert numbers["text"]["num_sentences"] == 30 * 40
    assert numbers["records"]["num_records"] > 100
    assert numbers["records"]["seq_length"] == 20
    assert "TEXT" in shown and "PAIRS" in shown and "EXAMPLES" in shown
    assert shown.count(" next) [CLS] ") == 2
    assert "[MASK: " in shown
    assert "\x1b" not in shown
    # The same document again and again.
    assert any(
        "repetitions of earlier lines" in text for text in numbers["warnings"]
    )


def test_text_that_is_not_looked_at_is_told(look, tmp_path):
    text = _write_text(tmp_path / "a.txt", "cats sat .\nw1 w2\n", 9)
    shown, _ = look(input_file=text, max_documents=5)
    assert f"TEXT {text} (the first 5 documents)\n" in shown
    for number in (9, 20000):
        shown, _ = look(input_file=text, max_documents=number)
        assert "(the first" not in shown
    shown, _ = look(input_file=text, color="always")
    assert "\x1b[30;42m" in shown
    assert "green: to predict" in shown


def test_documents_of_one_line_and_one_document_are_warned_of(look, tmp_path):
    text = _write_text(tmp_path / "a.txt", "cats sat .\n", 20)
    _, numbers = look(input_file=text, max_seq_length=100)
    warnings = "\n".join(numbers["warnings"])
    assert "20 of 20 documents are one line" in warnings
    assert "100% of the pairs have a random next" in warnings
    text = _write_text(tmp_path / "a.txt", "Dogs ran.\nA pig too.\n", 1)
    shown, numbers = look(input_file=text)
    warnings = "\n".join(numbers["warnings"])
    assert "The corpus is one document" in warnings
    assert "of the words become [UNK]" in warnings
    assert "dogs (1)" in shown


def test_vocabulary_may_lack_pad(look, tmp_path):
    lines = ["<pad>", *_ENTRIES[1:]]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n")
    text = _write_text(tmp_path / "a.txt", "cats sat .\nw1 w2\n", 9)
    _, numbers = look(input_file=text, max_seq_length=16)
    assert numbers["records"]["num_records"] > 0
    assert numbers["records"]["faults"] == {}


def test_lines_without_tokens_are_no_text(look, tmp_path):
    (tmp_path / "a.txt").write_text("\u200b\n\n\x01\n")
    with pytest.raises(ValueError, match="There must be text in "):
        look(input_file=str(tmp_path / "a.txt"))


def test_records_are_described(look, tmp_path):
    examples = toy_pretraining.random_examples(40)
    examples["input_ids"][:, 0] = 2
    examples["input_ids"][:, [1, 3]] = 4
    examples["masked_lm_ids"] = 5 + examples["masked_lm_ids"] % 20
    path = toy_pretraining.write_records(tmp_path / "records", examples)
    shown, numbers = look(record_file=path, max_records=30)
    records = numbers["records"]
    assert records["num_records"] == 30
    assert records["num_predicted"] == records["num_hidden"] == 60
    assert "(30 of 40)" in shown
    assert numbers["warnings"] == []


def test_unmasked_records_are_described(look, tmp_path):
    path = toy_pretraining.write_unmasked_records(tmp_path / "records", 40)
    shown, numbers = look(record_file=path)
    assert re.search("tokens to predict +drawn while training", shown)
    assert "replacements" not in shown and "[MASK:" not in shown
    assert re.search(r"1\. \((random|true) next\) ", shown)
    assert numbers["records"]["num_records"] == 40
    assert numbers["records"]["num_words"] > 0
    assert "nothing to predict" not in "".join(numbers["warnings"])


def test_files_with_sequences_of_two_lengths_are_named(look, tmp_path):
    paths = [
        toy_pretraining.write_records(
            tmp_path / f"r{length}",
            toy_pretraining.random_examples(5, seq_length=length),
        )
        for length in (10, 12)
    ]
    with pytest.raises(ValueError, match="Inspect these files separ") as caught:
        look(record_file=",".join(paths))
    for length, path in zip((10, 12), paths, strict=True):
        names = ("input_ids", "input_mask", "segment_ids")
        sizes = ", ".join(f"{name} [{length}]" for name in names)
        assert f"{path}: {sizes}" in str(caught.value)


def test_records_of_another_vocabulary_are_warned_of(look, tmp_path):
    examples = toy_pretraining.random_examples(10)
    examples["input_ids"] = examples["input_ids"] + 50
    path = toy_pretraining.write_records(tmp_path / "records", examples)
    _, numbers = look(record_file=path)
    warnings = "\n".join(numbers["warnings"])
    assert "10 of 10 records have an id beyond the vocabulary" in warnings
    assert "no [CLS] at the start" in warnings


def test_records_with_labels_are_described(look, tmp_path):
    features = records.classification_features(6)
    rows = [
        {
            "input_ids": np.array([2, 5, 6, 3, 0, 0]),
            "input_mask": np.array([1, 1, 1, 1, 0, 0]),
            "segment_ids": np.zeros(6, int),
            "label_ids": np.array([n % 3]),
            "is_real_example": np.array([1]),
        }
        for n in range(9)
    ]
    path = str(tmp_path / "train.tf_record")
    records.write_records(path, rows, features)
    shown, numbers = look(record_file=path, num_examples=1)
    assert numbers["labels"] == {"0": 3, "1": 3, "2": 3}
    assert "1. (label 0) [CLS] cats [SEP]" in shown


def test_records_of_choices_are_described(look, tmp_path):
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    examples = [
        swag.Example(
            first="w1", second="", endings=("w2", "w3 w4", "w5"), label_id=n % 3
        )
        for n in range(6)
    ]
    truncation = sentence_pairs.Truncation(max_seq_length=6)
    rows = (row for (row,) in swag.records(examples, truncation, tokenizer))
    path = str(tmp_path / "train.tf_record")
    records.write_records(path, rows, records.choice_features(6, num_choices=3))
    records.write_metadata(
        path,
        toy_pretraining.metadata_of(
            kind="multiple choice",
            max_seq_length=6,
            num_records=6,
            vocab_sha256=records.vocab_sha256(tokenizer.vocab),
        ),
    )
    shown, numbers = look(record_file=path, num_examples=1)
    lengths = numbers.pop("lengths")
    assert (lengths["count"], lengths["largest"]) == (18, 6)
    assert numbers == {
        "num_records": 6,
        "seq_length": 6,
        "num_full": 6,
        "labels": {"0": 2, "1": 2, "2": 2},
        "warnings": [],
    }
    assert re.search(r"records +6 +choices: 3 each", shown)
    assert re.search(r"sequences +18 +tokens: .*5.3.*, of 6\n", shown)
    assert re.search(r"without padding +6 +33", shown)
    assert "  1. (label 0)\n" in shown
    for choice, text in enumerate(("w2", "w3 w4", "w5")):
        assert f"    {choice}: [CLS] w1 [SEP] {text} [SEP]\n" in shown


def test_labeled_records_of_another_vocabulary_are_warned_of(look, tmp_path):
    path = str(tmp_path / "dev.tf_record")
    row = {"input_ids": [2, 3], "input_mask": [1, 1]}
    features = [records.Feature(name=name, shape=(2,)) for name in row]
    records.write_records(path, [row], features)
    made_with = toy_pretraining.metadata_of(
        kind="classification", max_seq_length=2, vocab_size=9, num_records=1
    )
    records.write_metadata(path, made_with)
    _, numbers = look(record_file=path)
    assert "was created with another vocabulary" in numbers["warnings"][0]


def test_one_of_text_and_records_is_needed(look, tmp_path):
    with pytest.raises(ValueError, match="Pass one of --input_file"):
        look()
    path = str(tmp_path / "other")
    feature = records.Feature(name="x", shape=(2,))
    records.write_records(path, [{"x": [1, 2]}], [feature])
    with pytest.raises(ValueError, match="it lacks input_ids, input_mask"):
        look(record_file=path)
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(ValueError, match="There must be text in"):
        look(input_file=str(tmp_path / "empty"))

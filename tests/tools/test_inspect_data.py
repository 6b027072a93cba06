"""Tables of text and records."""

import numpy as np
import pytest

from bert.records import schema, tfrecords
from tests.support import toy_files, toy_pretraining, toy_vocabulary
from tools import inspect_data

_ENTRIES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s", "sat", "."),
    *(f"w{i}" for i in range(22)),
]


@pytest.fixture
def look(tmp_path, capsys):
    toy_files.write_lines(tmp_path / "vocab.txt", _ENTRIES)

    def run(**changes):
        values = {"vocab_file": str(tmp_path / "vocab.txt"), **changes}
        inspect_data.run(inspect_data.Options(**values))
        return " ".join(capsys.readouterr().out.split())

    return run


def test_text_is_described(look, tmp_path):
    path = toy_files.write(
        tmp_path / "a.txt", "Cats sat.\ndogs ran w1\n\nw2 w3\nw4\n"
    )
    shown = look(input_file=path, max_seq_length=6)
    for row in (
        "(2 documents)",
        "documents 2",
        "of one sentence 0",
        "sentences (lines) 4",
        "word pieces 10 mean 2.5, longest 4",
        "of over 3 pieces 1 25 %",
        "words 9 1.11 pieces each",
        "unknown, [UNK] 2 22.2 %",
        "dogs (1), ran (1)",
        "22.2% of the words become [UNK]",
    ):
        assert row in shown


def test_shares_are_of_what_they_are_counted_among(look, tmp_path):
    path = toy_files.write(
        tmp_path / "a.txt", "Cats sat.\ndogs ran w1\n\nw2 w3\n"
    )
    assert "of one sentence 1 50 %" in look(input_file=path)
    examples = toy_pretraining.random_examples(4)
    examples["next_sentence_labels"][:, 0] = [1, 0, 0, 0]
    examples["masked_lm_weights"][0, 1] = 0  # The rest is padding.
    path = toy_pretraining.write_records(tmp_path / "records", examples)
    shown = look(record_file=path)
    assert "random next sentence 1 25 %" in shown
    num_tokens = int(examples["input_mask"].sum())
    assert f"tokens {num_tokens} mean {num_tokens / 4:.1f}," in shown
    assert f"tokens to predict 7 {700 / num_tokens:.3g} %" in shown


def test_accents_stay_if_the_vocabulary_has_them(look, tmp_path):
    vocab_file = tmp_path / "accents.txt"
    words = [*toy_vocabulary.SPECIAL, "caf\xe9"]
    vocab_file.write_text("\n".join(words), encoding="utf-8")
    (tmp_path / "a.txt").write_text("Caf\xe9 caf\xe9\n", encoding="utf-8")
    for strip, num_unknown in ((False, 0), (None, 2)):
        shown = look(
            vocab_file=str(vocab_file),
            input_file=str(tmp_path / "a.txt"),
            strip_accents=strip,
        )
        assert f"unknown, [UNK] {num_unknown} " in shown


def test_warnings_of_the_casing_are_beside_those_of_the_text(look, tmp_path):
    words = [
        f"{a}{b}{c}"
        for a in "abcdefghi"
        for b in "klmnopqr"
        for c in "stuvwxyz"
    ]
    (tmp_path / "vocab.txt").write_text("\n".join([*_ENTRIES, *words]))
    path = toy_files.write(tmp_path / "a.txt", "cat sat .\nw1 w2\n")
    shown = look(input_file=path, do_lower_case=False)
    assert "do_lower_case is False, but no entry" in shown
    assert "The corpus is one document" in shown
    # Accents follow the casing.
    assert look(input_file=path).count("!") == 1


def test_records_are_read_from_the_first_to_the_last(
    look, tmp_path, monkeypatch
):
    # Few, so that some are left out.
    monkeypatch.setattr(inspect_data, "_MAX_RECORDS", 3)
    features = [
        schema.Feature(name=name, shape=(2,))
        for name in ("input_ids", "input_mask")
    ]
    rows = [{"input_ids": [2, n], "input_mask": [1, 1]} for n in range(9, 16)]
    for name, part in (("a", rows[:3]), ("b", rows[3:])):
        tfrecords.write_rows(str(tmp_path / name), part, features)
    shown = look(record_file=f"{tmp_path}/a,{tmp_path}/b")
    assert "(3 of 7)" in shown
    assert "1. [CLS] w0 2. [CLS] w3 3. [CLS] w6" in shown


def test_documents_of_one_line_and_one_document_are_warned_of(look, tmp_path):
    path = toy_files.write(tmp_path / "a.txt", "cats sat .\n\n" * 20)
    assert "20 of 20 documents are one line" in look(input_file=path)
    # A line of a control character is no sentence.
    path = toy_files.write(tmp_path / "a.txt", "cats sat .\n\u200b\n\n" * 20)
    assert "20 of 20 documents are one line" in look(input_file=path)
    path = toy_files.write(tmp_path / "a.txt", "cats sat .\nw1 w2\n")
    assert "The corpus is one document" in look(input_file=path)


@pytest.mark.parametrize(
    ("num_single", "num_others", "is_warned"), [(2, 2, False), (3, 2, True)]
)
def test_more_than_half_of_the_documents_may_not_be_one_line(
    look, tmp_path, num_single, num_others, is_warned
):
    text = "cat sat .\n\n" * num_single + "w1\nw2\nw3\n\n" * num_others
    shown = look(input_file=toy_files.write(tmp_path / "a.txt", text))
    assert ("documents are one line" in shown) == is_warned


@pytest.mark.parametrize(("num_unknown", "is_warned"), [(1, False), (2, True)])
def test_more_than_one_of_a_hundred_words_may_not_be_unknown(
    look, tmp_path, num_unknown, is_warned
):
    # Words, not their pieces, are counted.
    known = "cats " * (100 - num_unknown)
    text = f"w1\n{known}\n" + "ran " * num_unknown + "\n\nw1\n"
    shown = look(input_file=toy_files.write(tmp_path / "a.txt", text))
    assert ("of the words become [UNK]" in shown) == is_warned


def test_records_are_described(look, tmp_path, monkeypatch):
    # Few, so that some are left out.
    monkeypatch.setattr(inspect_data, "_MAX_RECORDS", 30)
    examples = toy_pretraining.random_examples(40)
    examples["input_ids"][:, 0] = 2
    examples["input_ids"][:, [1, 3]] = 4
    examples["masked_lm_ids"] = 5 + examples["masked_lm_ids"] % 20
    path = toy_pretraining.write_records(tmp_path / "records", examples)
    shown = look(record_file=path)
    for row in (
        "(30 of 40)",
        "records 30 of ",
        "tokens to predict 60",
        "shown as [MASK] 60 100 %",
        "3. [CLS] [MASK: ",
    ):
        assert row in shown
    assert "4. [CLS]" not in shown
    assert shown.endswith("WARNINGS none")


def test_records_of_fine_tuning_are_shown(look, tmp_path):
    row = {
        "input_ids": np.array([2, 5, 6, 3, 0, 0]),
        "input_mask": np.array([1, 1, 1, 1, 0, 0]),
    }
    features = [schema.Feature(name=name, shape=(6,)) for name in row]
    path = str(tmp_path / "train.tf_record")
    tfrecords.write_rows(path, [row] * 3, features)
    shown = look(record_file=path)
    assert "records 3 of 6 tokens tokens 12 mean 4.0, longest 4" in shown
    assert "1. [CLS] cats [SEP]" in shown


def test_what_cannot_be_inspected_is_refused(look, tmp_path):
    with pytest.raises(ValueError, match="Pass one of --input_file"):
        look()
    path = str(tmp_path / "other")
    feature = schema.Feature(name="x", shape=(2,))
    tfrecords.write_rows(path, [{"x": [1, 2]}], [feature])
    with pytest.raises(ValueError, match="it lacks input_ids, input_mask"):
        look(record_file=path)
    with pytest.raises(ValueError, match="There must be text with words"):
        look(input_file=toy_files.write(tmp_path / "empty", "\u200b\n\n\x01\n"))
    (tmp_path / "vocab.txt").write_text("\n".join(_ENTRIES[:4]))
    with pytest.raises(ValueError, match=r"\[MASK\]"):
        look(input_file=toy_files.write(tmp_path / "a.txt", "w1\n"))


_TOKENS = dict(
    enumerate(
        ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "run", "##ning", "a", "##b"]
    )
)


def _shown(**record):
    arrays = {name: np.array(values) for name, values in record.items()}
    return inspect_data.as_text(arrays, _TOKENS)


def test_what_is_masked_is_told_apart():
    assert (
        _shown(
            input_ids=[1, 3, 5, 6, 4, 2, 0],
            input_mask=[1, 1, 1, 1, 1, 1, 0],
            masked_lm_positions=[1, 3, 4, 0],
            masked_lm_ids=[4, 6, 7, 0],
            masked_lm_weights=[1.0, 1.0, 1.0, 0.0],
        )
        == "[CLS] [MASK: run]ning [same: a][run: b] [SEP]"
    )


def test_a_text_shows_where_it_begins_and_what_is_no_token():
    text = _shown(input_ids=[1, 5, 2, 7, 5, 2], input_mask=[1] * 6)
    assert text == "[CLS] ##ning [SEP] ##bning [SEP]"
    assert _shown(input_ids=[6, 99], input_mask=[1, 1]) == "a [id 99]"

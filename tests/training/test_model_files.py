"""Files beside a model of any origin, and contradictions between them."""

import dataclasses
import json
import os
import pathlib
import re
import shutil

import pytest
import tensorflow as tf

from training import checkpointing, model_files
from training import flags as training_flags

_INPUTS = pathlib.Path(__file__).parents[1] / "golden/inputs"
_SHARED = pathlib.Path(__file__).parents[3] / "shared/data/vocab"


def _put(folder, name, values):
    (folder / name).write_text(json.dumps(values))


def _vocabulary(folder, name="vocab.txt"):
    shutil.copyfile(_INPUTS / name, folder / "vocab.txt")


def _entries(path, entries):
    path.write_text("".join(f"{e}\n" for e in entries), encoding="utf-8")
    return str(path)


def test_casing_is_read_from_the_first_file_that_says(tmp_path):
    folder = str(tmp_path)
    assert model_files.casing(folder) is None
    _vocabulary(tmp_path)
    found = model_files.casing(folder)
    assert found.do_lower_case and "no entries" in found.reason
    _put(tmp_path, "tokenizer.json", {"normalizer": {"lowercase": False}})
    assert model_files.casing(folder).do_lower_case is False
    _put(tmp_path, "tokenizer_config.json", {"do_lower_case": True})
    found = model_files.casing(folder)
    assert found.do_lower_case and "states it" in found.reason
    _put(tmp_path, "tokenizer.json", {"do_lower_case": False})
    assert model_files.casing(folder).do_lower_case is False


def test_casing_that_a_file_contradicts_is_refused(tmp_path):
    _put(tmp_path, "tokenizer_config.json", {"do_lower_case": False})
    model_files.check_casing(str(tmp_path), False)
    with pytest.raises(
        ValueError, match=r"tokenizer_config.json states it. Pass --do_low"
    ):
        model_files.check_text(str(tmp_path), {"do_lower_case": True})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("tokenizer.json", {"normalizer": {"lowercase": False}}),
    ],
)
def test_a_lower_case_vocabulary_may_be_lower_cased(
    tmp_path, caplog, name, values
):
    # As in Hugging Face's bert-base-chinese.
    folder = str(tmp_path)
    _vocabulary(tmp_path)
    _put(tmp_path, name, values)
    model_files.check_casing(folder, False)
    assert not caplog.records
    model_files.check_casing(folder, True)
    assert re.search(
        rf"do_lower_case is True, .*vocab.txt suggest.* its {name}", caplog.text
    )
    # Unless a flag says otherwise, the model reads text as the file states.
    assert model_files.casing(folder).do_lower_case is False
    # The record of the run that trained the model decides.
    _put(tmp_path, "tokenizer.json", {"do_lower_case": False})
    with pytest.raises(ValueError, match="must be False for the model"):
        model_files.check_casing(folder, True)


def test_casing_that_the_vocabulary_contradicts_is_refused(tmp_path):
    _vocabulary(tmp_path, "vocab_cased.txt")
    with pytest.raises(
        ValueError,
        match=r"must be False .*many entries of its vocab.txt have capitals.*"
        r"\"do_lower_case\": true",
    ):
        model_files.check_casing(str(tmp_path), True)
    # As the message says.
    _put(tmp_path, "tokenizer.json", {"do_lower_case": True})
    model_files.check_casing(str(tmp_path), True)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tokenizer_config.json", {"strip_accents": False}),
        ("tokenizer_config.json", {"tokenize_chinese_chars": False}),
        ("tokenizer_config.json", {"do_basic_tokenize": False}),
        ("tokenizer.json", {"normalizer": {"handle_chinese_chars": False}}),
    ],
)
def test_a_tokenizer_that_splits_otherwise_is_refused(tmp_path, name, values):
    _put(tmp_path, name, values)
    with pytest.raises(ValueError, match=rf"must be True in .*{name}"):
        model_files.check_text(str(tmp_path), {"do_lower_case": True})
    _put(tmp_path, name, {"strip_accents": None, "clean_text": True})
    model_files.check_text(str(tmp_path), {"do_lower_case": True})


def test_a_run_is_compared_with_what_it_starts_from(tmp_path):
    origin, vocab_file = str(tmp_path), str(_INPUTS / "vocab.txt")
    _vocabulary(tmp_path)
    lower = {"do_lower_case": True, "vocab_sha256": "a"}
    model_files.check_text(origin, lower, vocab_file)
    cased = {"do_lower_case": False, "vocab_sha256": "a"}
    with pytest.raises(ValueError, match="do_lower_case must be True"):
        model_files.check_text(origin, cased, vocab_file)
    _put(tmp_path, "tokenizer.json", {"do_lower_case": False})
    other = str(_INPUTS / "vocab_cased.txt")
    with pytest.raises(ValueError, match="must be that of the model"):
        model_files.check_text(origin, cased, other)


def test_labels_are_ours_or_hugging_face_s(tmp_path):
    folder = str(tmp_path)
    ours = {"problem_type": "single_label", "labels": ["no", "yes"]}
    assert model_files.labels(folder) is None
    assert not model_files.answers_differ(folder, ours)
    _put(tmp_path, "config.json", {"id2label": {"1": "yes", "0": "no"}})
    assert model_files.labels(folder) == ours
    assert not model_files.answers_differ(folder, ours)
    _put(tmp_path, "labels.json", {**ours, "labels": ["yes", "no"]})
    assert model_files.answers_differ(folder, ours)
    for text, message in (("{", "JSON"), ("[]", "a JSON object")):
        (tmp_path / "labels.json").write_text(text)
        with pytest.raises(ValueError, match=rf"labels\.json.* be {message}"):
            model_files.labels(folder)


def _labels(*names, problem_type="single_label"):
    return {"problem_type": problem_type, "labels": list(names)}


@pytest.mark.parametrize(
    ("held", "now", "order"),
    [
        (_labels("a", "b"), _labels("a", "b"), None),
        (_labels("c", "a", "b"), _labels("a", "b", "c"), [1, 2, 0]),
        # Hugging Face's names where nobody gave any.
        (_labels("LABEL_0", "LABEL_1"), _labels("a", "b"), None),
        (
            _labels(problem_type="regression"),
            _labels(problem_type="regression"),
            None,
        ),
    ],
)
def test_outputs_are_found_by_their_names(tmp_path, held, now, order):
    _put(tmp_path, "labels.json", held)
    assert model_files.output_order(str(tmp_path), now) == order


@pytest.mark.parametrize(
    ("held", "now"),
    [
        (_labels("a", "b"), _labels("a", "c")),
        (_labels("a", "b"), _labels("a", "b", "c")),
        (_labels("a", "b"), _labels("a", "b", problem_type="multi_label")),
        (_labels("a", "b"), _labels(problem_type="regression")),
        (_labels("LABEL_0", "LABEL_1"), _labels("a", "b", "c")),
        ({"problem_type": "single_label"}, _labels("a", "b")),
    ],
)
def test_outputs_of_other_labels_are_refused(tmp_path, held, now):
    _put(tmp_path, "labels.json", held)
    with pytest.raises(ValueError, match=r"has labels .*; this run needs"):
        model_files.output_order(str(tmp_path), now)


def test_the_folder_of_a_foreign_model_is_not_renamed(tmp_path):
    _put(tmp_path, "config.json", {"id2label": {"0": "b", "1": "a"}})
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="was trained for other labels"):
        model_files.validate_output_dir(
            str(tmp_path),
            {},
            vocab_file=str(_INPUTS / "vocab.txt"),
            text={"do_lower_case": True},
            labels=_labels("a", "b"),
        )
    assert not (tmp_path / "labels.json").exists()


def _save(folder):
    checkpointing.save(str(folder), 1, {"w": tf.Variable(1.0)}, {}, keep=1)


def test_a_folder_belongs_to_one_model(tmp_path):
    folder = str(tmp_path / "new")
    model_files.validate_output_dir(folder, {"hidden_size": 8, "vocab_size": 9})
    config = tmp_path / "new" / "bert_config.json"
    assert json.loads(config.read_text())["hidden_size"] == 8
    # Nothing is saved yet: the folder may change its model.
    model_files.validate_output_dir(folder, {"hidden_size": 4, "vocab_size": 9})
    _save(tmp_path / "new")
    model_files.validate_output_dir(folder, {"hidden_size": 4, "vocab_size": 9})
    with pytest.raises(ValueError, match="hidden_size was 4 and is 8"):
        model_files.validate_output_dir(
            folder, {"hidden_size": 8, "vocab_size": 9}
        )
    assert json.loads(config.read_text())["hidden_size"] == 4
    # One that the release wrote gets its configuration.
    config.unlink()
    model_files.validate_output_dir(folder, {"hidden_size": 8})
    assert config.exists()


def test_dropout_and_initialization_may_change(tmp_path, caplog):
    folder, path = str(tmp_path), tmp_path / "bert_config.json"
    held = {"hidden_size": 4, "hidden_dropout_prob": 0.0}
    model_files.validate_output_dir(folder, held)
    _save(tmp_path)
    now = {**held, "hidden_dropout_prob": 0.1}
    model_files.validate_output_dir(folder, now)
    assert not caplog.records
    # It says how the model was trained.
    assert json.loads(path.read_text()) == held
    model_files.validate_output_dir(folder, now, is_training=True)
    assert "hidden_dropout_prob was 0.0 and is 0.1" in caplog.text
    assert json.loads(path.read_text()) == now
    with pytest.raises(ValueError, match="another model: hidden_size was 4"):
        model_files.validate_output_dir(folder, {**held, "hidden_size": 8})


@pytest.fixture
def model(tmp_path):
    """The folder of a model, and its description."""
    (tmp_path / "words.txt").write_bytes(b"[UNK]\r\nword\n")
    described = {
        "config": {"hidden_size": 8},
        "vocab_file": str(tmp_path / "words.txt"),
        "text": {"vocab_sha256": "a", "do_lower_case": True},
        "labels": {"problem_type": "single_label", "labels": ["no", "yes"]},
    }
    folder = str(tmp_path / "model")
    model_files.validate_output_dir(folder, **described)
    weights = {"w": tf.Variable(1.0)}
    checkpointing.save(folder, 1, weights, state={}, keep=1)
    return folder, described


def test_vocabulary_is_copied_to_the_folder_byte_for_byte(model):
    folder, described = model
    model_files.validate_output_dir(folder, **described)
    with open(f"{folder}/vocab.txt", "rb") as file:
        assert file.read() == b"[UNK]\r\nword\n"
    described["vocab_file"] = f"{folder}/vocab.txt"
    model_files.validate_output_dir(folder, **described)
    assert os.path.getsize(f"{folder}/vocab.txt") == 12


def test_a_blank_line_at_the_end_is_no_other_vocabulary(model, tmp_path):
    folder, described = model
    blank, other = tmp_path / "blank.txt", tmp_path / "other.txt"
    blank.write_text("[UNK]\nword\n\n")
    other.write_text("[UNK]\nother\n")
    described["text"] = {"vocab_sha256": "b", "do_lower_case": True}
    described["vocab_file"] = str(other)
    with pytest.raises(ValueError, match="line 2: 'other', there 'word'"):
        model_files.validate_output_dir(folder, **described)
    described["vocab_file"] = str(blank)
    model_files.validate_output_dir(folder, **described)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("config", {"hidden_size": 9}, "hidden_size was 8 and is 9"),
        ("text", {"do_lower_case": False}, "do_lower_case was True"),
        ("labels", {"labels": ["a"]}, "other labels"),
    ],
)
def test_a_folder_of_another_model_is_refused(model, field, value, message):
    folder, described = model
    with pytest.raises(ValueError, match=message):
        model_files.validate_output_dir(folder, **described | {field: value})


def test_capitals_and_accents_show_the_casing(tmp_path):
    casing = model_files.is_vocabulary_lower_case
    assert casing(str(_INPUTS / "vocab.txt")) is True
    assert casing(str(_INPUTS / "vocab_cased.txt")) is False
    words = [f"word{i}" for i in range(600)]
    assert casing(_entries(tmp_path / "v", words)) is True
    words += [f"caf\u00e9{i}" for i in range(100)]
    assert casing(_entries(tmp_path / "v", words)) is False


@pytest.mark.parametrize(
    "entries",
    [
        ["[PAD]", "a", "b"],
        [chr(0x4E00 + i) for i in range(2000)],
        [*(f"word{i}" for i in range(600)), *(f"W{i}" for i in range(5))],
    ],
    ids=["few", "without letters", "between"],
)
def test_ambiguous_vocabularies_have_no_casing(tmp_path, entries):
    path = _entries(tmp_path / "v", entries)
    assert model_files.is_vocabulary_lower_case(path) is None


@pytest.mark.shared
@pytest.mark.skipif(not _SHARED.exists(), reason="needs ../shared")
@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("uncased", True),
        ("chinese", True),
        ("cased", False),
        ("multilingual_cased", False),
    ],
)
def test_released_vocabularies_show_their_casing(name, want):
    path = str(_SHARED / f"{name}.txt")
    assert model_files.is_vocabulary_lower_case(path) is want


def test_the_first_difference_is_named(tmp_path):
    folder = str(tmp_path)
    same = _entries(tmp_path / "same", ["[PAD]", "a", " b\r", "", " "])
    model_files.check_vocabulary(folder, same)
    _entries(tmp_path / "vocab.txt", ["[PAD]", "a", "b"])
    model_files.check_vocabulary(folder, same)
    for entries, message in (
        (["[PAD]", "c", "d"], r"first in line 2: 'c', there 'a'"),
        (["[PAD]", "a"], r"\(2 entries\).*line 3: the end, there 'b'"),
        (["[PAD]", "a", "b", "c"], "line 4: 'c', there the end"),
    ):
        ours = _entries(tmp_path / "ours", entries)
        with pytest.raises(ValueError, match=message):
            model_files.check_vocabulary(folder, ours)


def test_unused_entries_may_be_words(tmp_path, caplog):
    words = ["[PAD]", "covid", "[unused1]"]
    unused = ["[PAD]", "[unused0]", "[unused1]"]
    _entries(tmp_path / "vocab.txt", unused)
    with caplog.at_level("INFO"):
        model_files.check_vocabulary(
            str(tmp_path), _entries(tmp_path / "words", words)
        )
    assert "replaces 1 [unusedN] entries" in caplog.text
    _entries(tmp_path / "vocab.txt", words)
    with pytest.raises(ValueError, match=r"there 'covid'"):
        model_files.check_vocabulary(
            str(tmp_path), _entries(tmp_path / "unused", unused)
        )


def test_unused_entries_of_a_run_s_vocabulary_may_be_words(tmp_path):
    folder = str(tmp_path)
    _entries(tmp_path / "vocab.txt", ["[PAD]", "[unused0]", "a"])
    _put(
        tmp_path, "tokenizer.json", {"vocab_sha256": "1", "do_lower_case": True}
    )
    now = {"vocab_sha256": "2", "do_lower_case": True}
    words = _entries(tmp_path / "words", ["[PAD]", "covid", "a"])
    model_files.check_text(folder, now, words)
    other = _entries(tmp_path / "other", ["[PAD]", "covid", "b"])
    with pytest.raises(ValueError, match="line 3: 'b', there 'a'"):
        model_files.check_text(folder, now, other)
    # The weights of a run that resumes were trained with its own vocabulary.
    with pytest.raises(ValueError, match="line 2: 'covid', there"):
        model_files.check_text(folder, now, words, may_replace_unused=False)
    # Without a vocabulary there, the hashes are compared.
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="vocab_sha256 was '1' and is '2'"):
        model_files.check_text(folder, now, words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options(training_flags.AblationOptions, training_flags.TrainingOptions):
    """Those of a script with ablated models."""


def _attention_options(folder, **changes):
    return _Options(
        output_dir=str(folder / "out"),
        bert_config_file="config.json",
        **changes,
    )


def _write_checkpoint(folder, identity, step=7):
    """Writes what a folder looks like that holds a checkpoint."""
    folder.mkdir()
    prefix = folder / f"model.ckpt-{step}"
    for ending in (".index", ".data-00000-of-00001"):
        prefix.with_name(prefix.name + ending).write_bytes(b"")
    state = prefix.with_name(f"{prefix.name}.state.json")
    state.write_text(json.dumps({"identity": identity}))
    return str(prefix)


@pytest.mark.parametrize(
    ("identity", "attention"),
    [
        ({"objective": "ltr"}, "causal"),
        ({"objective": "mlm_nsp"}, "bidirectional"),
        ({"objective": "mlm"}, "bidirectional"),
        ({"objective": "MRPC, single_label"}, "bidirectional"),
        ({"objective": "squad", "attention": "causal"}, "causal"),
        ({}, None),
    ],
)
def test_attention_of_a_checkpoint(identity, attention):
    assert model_files.attention_of(identity) == attention


@pytest.mark.parametrize(
    ("identity", "folder", "given", "trained_with"),
    [
        ({"objective": "ltr"}, "start", "bidirectional", "causal"),
        ({"objective": "mlm_nsp"}, "start", "causal", "bidirectional"),
        # The folder of the run itself.
        ({"attention": "causal"}, "out", "bidirectional", "causal"),
    ],
)
def test_a_run_attends_as_the_checkpoint_that_it_starts_from(
    tmp_path, identity, folder, given, trained_with
):
    prefix = _write_checkpoint(tmp_path / folder, identity)
    start = {} if folder == "out" else {"init_checkpoint": prefix}
    options = _attention_options(tmp_path, attention=given, **start)
    with pytest.raises(
        ValueError,
        match=rf"with {trained_with} .* has {given} \(--attention=causal\)",
    ):
        model_files.check_attention(options)
    options = _attention_options(tmp_path, attention=trained_with, **start)
    model_files.check_attention(options)


def test_a_damaged_checkpoint_leaves_it_to_the_one_before(tmp_path, caplog):
    # Nothing is said of checkpoints that are not there.
    absent = {"init_checkpoint": str(tmp_path / "none")}
    model_files.check_attention(_attention_options(tmp_path, **absent))
    assert not caplog.records
    _write_checkpoint(tmp_path / "out", {"objective": "ltr"}, step=7)
    state = tmp_path / "out" / "model.ckpt-8.state.json"
    for part in (".index", ".data-00000-of-00001"):
        (tmp_path / "out" / f"model.ckpt-8{part}").write_bytes(b"")
    state.write_text('{"identity": {"obj')
    # What goes on from them passes over the damaged one, too.
    with pytest.raises(ValueError, match=r"model\.ckpt-7 was trained with"):
        model_files.check_attention(_attention_options(tmp_path))
    model_files.check_attention(
        _attention_options(tmp_path, attention="causal")
    )

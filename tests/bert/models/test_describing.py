"""Comparison of a run's model with its folder and its start."""

import dataclasses
import json
import re
import shutil

import pytest

from bert.models import compatibility, describing
from bert.models import folder as folder_lib
from tests.bert.models import toy_folders
from tests.support import locations

_INPUTS = locations.GOLDEN / "inputs"
_open = folder_lib.ModelFolder.open


def _planned(config=toy_folders.CONFIG, **description):
    return describing.PlannedModel(
        config=config,
        description=dataclasses.replace(toy_folders.TAGGER, **description),
    )


def _check(folder, *, is_training=True, **planned):
    describing.check(
        _open(str(folder), is_folder=True),
        _planned(**planned),
        is_training=is_training,
    )


def _write(folder, **planned):
    describing.write(_open(str(folder), is_folder=True), _planned(**planned))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"task": "classification"}, "'tagging' there and 'classification'"),
        ({"labels": ("B-PER", "O")}, "labels is ['O', 'B-PER'] there and ['B"),
        ({"do_lower_case": True}, "do_lower_case is False there and True"),
        ({"vocab_sha256": "b"}, "' there and 'b' here"),
        ({"attention": "causal"}, "attention is 'bidirectional' there"),
    ],
)
def test_training_in_the_folder_of_another_model_is_refused(
    tmp_path, other, message
):
    toy_folders.trained(tmp_path)
    with pytest.raises(ValueError, match=re.escape(message)):
        _check(tmp_path, **other)
    assert toy_folders.described(tmp_path) == toy_folders.TAGGER.to_json()


@pytest.mark.parametrize(
    ("entry", "there", "here"),
    [
        ("strip_accents", False, True),
        ("name", "rte", "mrpc"),
        ("problem_type", "single_label", "multi_label"),
        ("objective", "mlm", "ltr"),
        ("bilstm_head", False, True),
        ("features", "last", "sum_last_four"),
    ],
)
def test_what_the_weights_depend_on_is_compared(tmp_path, entry, there, here):
    toy_folders.trained(tmp_path, **{entry: there})
    _check(tmp_path, **{entry: there})
    message = f"{entry} is {there!r} there and {here!r} here"
    with pytest.raises(ValueError, match=message):
        _check(tmp_path, **{entry: here})


def test_the_vocabulary_of_another_program_s_folder_is_compared(tmp_path):
    toy_folders.put_entries(tmp_path / "vocab.txt", ["a", "b"])
    other = toy_folders.put_entries(tmp_path / "other.txt", ["b", "a"])
    (tmp_path / "model.ckpt-3.index").touch()
    with pytest.raises(ValueError, match=r"must be that of the model: .*other"):
        describing.check(
            _open(str(tmp_path)),
            describing.PlannedModel(
                config=toy_folders.CONFIG,
                description=toy_folders.TAGGER,
                vocab_file=other,
            ),
            is_training=True,
        )


def test_a_network_of_other_sizes_is_refused_and_other_dropout_is_not(tmp_path):
    toy_folders.trained(tmp_path)
    small = dataclasses.replace(toy_folders.CONFIG, hidden_size=4)
    with pytest.raises(ValueError, match="hidden_size is 8 there and 4 here"):
        _check(tmp_path, config=small)
    # One of 0.1 would not be written.
    first = dataclasses.replace(toy_folders.CONFIG, classifier_dropout_prob=0.5)
    _write(tmp_path, config=first)
    before = (tmp_path / "bert_config.json").read_text()
    now = dataclasses.replace(
        toy_folders.CONFIG,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        initializer_range=0.5,
    )
    _check(tmp_path, config=now)
    assert (tmp_path / "bert_config.json").read_text() == before
    _write(tmp_path, config=now)
    written = json.loads((tmp_path / "bert_config.json").read_text())
    assert written == now.to_dict()


def test_a_folder_without_a_checkpoint_may_become_another_model(tmp_path):
    _write(tmp_path)
    _check(tmp_path, labels=("O",))
    _write(tmp_path, labels=("O",))
    assert toy_folders.described(tmp_path)["labels"] == ["O"]


@pytest.mark.parametrize("name", ["run [v2]", r"a\b"])
def test_folders_whose_checkpoints_cannot_be_read_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"must not contain \[ or a backslash"):
        _check(tmp_path / name)
    # An evaluation of other weights writes no checkpoint there.
    _check(tmp_path / name, is_training=False)


def test_a_check_changes_nothing(tmp_path):
    toy_folders.trained(tmp_path)
    _check(tmp_path, is_training=False, max_seq_length=512)
    assert toy_folders.described(tmp_path)["max_seq_length"] == 128
    _check(tmp_path / "empty")
    assert not (tmp_path / "empty").exists()


def test_a_stale_vocabulary_is_not_that_of_records_without_one(tmp_path):
    toy_folders.put_entries(tmp_path / "vocab.txt", ["[PAD]", "b"])
    with pytest.raises(ValueError, match=r"vocab\.txt is not the vocabulary"):
        _check(tmp_path)
    toy_folders.put_entries(tmp_path / "vocab.txt", ["[PAD]", "a"])
    _check(tmp_path)


# ----------------------------------------------------------------------- Start


def _check_start(folder, *, with_outputs=False, **description):
    compatibility.check_start(
        _open(f"{folder}/model.ckpt-3"),
        dataclasses.replace(toy_folders.TAGGER, **description),
        with_outputs=with_outputs,
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"do_lower_case": True}, "do_lower_case is False there and True here"),
        ({"strip_accents": True}, "strip_accents is False there and True here"),
        ({"vocab_sha256": "b"}, "' there and 'b' here"),
        ({"attention": "causal"}, "attention is 'bidirectional' there"),
    ],
)
def test_weights_of_another_text_or_attention_are_refused(
    tmp_path, other, message
):
    toy_folders.trained(tmp_path, task="pretraining")
    with pytest.raises(ValueError, match=message):
        _check_start(tmp_path, **other)


def test_an_output_layer_of_other_labels_is_not_evaluated(tmp_path):
    model = toy_folders.trained(tmp_path)
    _check_start(tmp_path, with_outputs=True)
    _check_start(tmp_path, labels=("O",))
    with pytest.raises(ValueError, match=re.escape("labels is ['O', 'B-PER']")):
        _check_start(tmp_path, with_outputs=True, labels=("O",))
    other = dataclasses.replace(toy_folders.TAGGER, labels=("O",))
    assert compatibility.outputs_differ(model.description, other)
    nothing = type(other)()
    assert not compatibility.outputs_differ(nothing, toy_folders.TAGGER)


def test_labels_in_other_capitals_are_the_same_outputs():
    tagger = dataclasses.replace(toy_folders.TAGGER, labels=("o", "b-per"))
    upper = ("O", "B-PER")
    assert not compatibility.outputs_differ(
        tagger, dataclasses.replace(tagger, labels=upper)
    )
    assert compatibility.outputs_differ(
        tagger, dataclasses.replace(tagger, labels=upper[::-1])
    )


def test_lower_casing_fits_the_chinese_vocabulary_of_hugging_face(tmp_path):
    (tmp_path / "model.ckpt-3.index").touch()
    shutil.copyfile(_INPUTS / "vocab.txt", tmp_path / "vocab.txt")
    toy_folders.put(tmp_path, "tokenizer_config.json", {"do_lower_case": False})
    lowered = {"do_lower_case": True, "strip_accents": True}
    _check_start(tmp_path, **lowered)
    # Accents that the files state are another statement.
    stated = {"do_lower_case": False, "strip_accents": False}
    toy_folders.put(tmp_path, "tokenizer_config.json", stated)
    with pytest.raises(ValueError, match="strip_accents is False there"):
        _check_start(tmp_path, **lowered)
    toy_folders.put(tmp_path, "tokenizer_config.json", {"do_lower_case": False})
    # The vocabulary decides only for a run that lower-cases.
    toy_folders.put(tmp_path, "tokenizer_config.json", {"do_lower_case": True})
    with pytest.raises(ValueError, match="do_lower_case is True there"):
        _check_start(tmp_path, do_lower_case=False, strip_accents=True)
    # Our own statement is that of the training.
    toy_folders.put(tmp_path, "task.json", {"do_lower_case": False})
    with pytest.raises(ValueError, match="do_lower_case is False there"):
        _check_start(tmp_path, **lowered)
    (tmp_path / "task.json").unlink()
    toy_folders.put(tmp_path, "tokenizer_config.json", {"do_lower_case": False})
    # The statement is true of a vocabulary with capital letters.
    shutil.copyfile(_INPUTS / "vocab_cased.txt", tmp_path / "vocab.txt")
    with pytest.raises(ValueError, match="do_lower_case is False there"):
        _check_start(tmp_path, **lowered)


def test_words_in_unused_entries_change_the_hash_and_fit(tmp_path):
    toy_folders.put_entries(tmp_path / "vocab.txt", ["[PAD]", "[unused0]"])
    start = toy_folders.trained(tmp_path)
    new = toy_folders.put_entries(tmp_path / "new.txt", ["[PAD]", "word"])
    other = dataclasses.replace(toy_folders.TAGGER, vocab_sha256="b")
    compatibility.check_text(start, new, other)
    new = toy_folders.put_entries(tmp_path / "new.txt", ["[UNK]", "word"])
    with pytest.raises(ValueError, match="line 1"):
        compatibility.check_text(start, new, other)


def test_words_may_replace_unused_entries(tmp_path):
    toy_folders.put_entries(
        tmp_path / "vocab.txt", ["[PAD]", "[unused0]", "a", "", ""]
    )
    model = _open(str(tmp_path))
    check = compatibility.check_vocabulary
    check(model, "new.txt", ["[PAD]", "word", "a"])
    for entries, message in (
        (["[PAD]", "word", "b"], "line 3: 'b', there 'a'"),
        (["[PAD]", "word"], r"\(3 entries\) first in line 3: the end"),
        (["[PAD]", "word", "a", "b"], "line 4: 'b', there the end"),
    ):
        with pytest.raises(ValueError, match=message):
            check(model, "other.txt", entries)

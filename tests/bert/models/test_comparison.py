"""Comparison of a run's model with its folder and its start."""

import dataclasses
import json
import re
import shutil

import pytest

from bert.models import comparison
from bert.models import folder as folder_lib
from tests.bert.models import toy_folders
from tests.support import locations

_INPUTS = locations.GOLDEN / "inputs"
_open = folder_lib.ModelFolder.open


def _planned(config=toy_folders.CONFIG, **description):
    return folder_lib.PlannedModel(
        config=config,
        description=dataclasses.replace(toy_folders.TAGGER, **description),
    )


def _check(folder, **planned):
    comparison.check_run(
        _open(str(folder), is_folder=True), _planned(**planned)
    )


def _write(folder, **planned):
    _planned(**planned).write(_open(str(folder), is_folder=True))


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
        comparison.check_run(
            _open(str(tmp_path)),
            folder_lib.PlannedModel(
                config=toy_folders.CONFIG,
                description=toy_folders.TAGGER,
                vocab_file=other,
            ),
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


def test_a_check_changes_nothing(tmp_path):
    toy_folders.trained(tmp_path)
    _check(tmp_path, max_seq_length=512)
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
    comparison.check_init(
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
    assert comparison.have_other_outputs(model.description, other)
    nothing = type(other)()
    assert not comparison.have_other_outputs(nothing, toy_folders.TAGGER)


def test_labels_in_other_capitals_are_the_same_outputs():
    tagger = dataclasses.replace(toy_folders.TAGGER, labels=("o", "b-per"))
    upper = ("O", "B-PER")
    assert not comparison.have_other_outputs(
        tagger, dataclasses.replace(tagger, labels=upper)
    )
    assert comparison.have_other_outputs(
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
    comparison.check_init(start, other, new)
    for entries, place in ((["[UNK]", "word"], 1), (["[PAD]"], 2)):
        new = toy_folders.put_entries(tmp_path / "new.txt", entries)
        with pytest.raises(ValueError, match=f"first in line {place}"):
            comparison.check_init(start, other, new)


def test_words_may_replace_unused_entries(tmp_path):
    toy_folders.put_entries(
        tmp_path / "vocab.txt", ["[PAD]", "[unused0]", "a", "", ""]
    )
    model = _open(str(tmp_path))
    new = tmp_path / "new.txt"
    for entries, message in (
        (["[PAD]", "word", "a"], None),
        (["[PAD]", "word", "b"], "line 3: 'b', there 'a'"),
        (["[PAD]", "word"], r"\(3 entries\) first in line 3: the end"),
        (["[PAD]", "word", "a", "b"], "line 4: 'b', there the end"),
    ):
        path = toy_folders.put_entries(new, entries)
        if message is None:
            comparison.check_vocabulary(model, path)
            continue
        with pytest.raises(ValueError, match=message):
            comparison.check_vocabulary(model, path)

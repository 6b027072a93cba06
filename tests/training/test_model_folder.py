"""Folders that describe their models, and models of other programs."""

import dataclasses
import json
import pathlib
import re
import shutil

import pytest

from training import flags as training_flags
from training import model_folder

_INPUTS = pathlib.Path(__file__).parents[1] / "golden/inputs"
_SHARED = pathlib.Path(__file__).parents[3] / "shared/data/vocab"
_CONFIG = {"hidden_size": 8, "hidden_dropout_prob": 0.1}
_TAGGER = {
    "task": model_folder.TAGGING,
    "labels": ["O", "B-PER"],
    "do_lower_case": False,
    "strip_accents": False,
    "vocab_sha256": "a",
    "attention": "bidirectional",
    "max_seq_length": 128,
    "context": "sentence",
}


def _put(folder, name, values):
    (folder / name).write_text(json.dumps(values))


def _entries(path, entries):
    path.write_text("".join(f"{e}\n" for e in entries), encoding="utf-8")
    return str(path)


def _trained(folder, program="this", **description):
    """Writes a described folder with files like those of a checkpoint."""
    model_folder.describe(
        str(folder), _CONFIG, {**_TAGGER, **description}, is_training=True
    )
    (folder / "model.ckpt-3.index").touch()
    if program == "this":
        (folder / "model.ckpt-3.state.json").write_text("{}")


def _described(folder):
    return json.loads((folder / "task.json").read_text())


# --------------------------------------------------------------------- Reading


def test_a_described_folder_is_read_as_it_was_written(tmp_path):
    words = _entries(tmp_path / "words.txt", ["[PAD]", "a"])
    threshold = {"null_score_diff_threshold": float("-inf")}
    run = tmp_path / "run"
    model_folder.describe(
        str(run), _CONFIG, _TAGGER | threshold, words, is_training=True
    )
    assert model_folder.read(str(run)) == _TAGGER | {
        "null_score_diff_threshold": "-inf"
    }
    assert (run / "vocab.txt").read_text() == "[PAD]\na\n"
    assert json.loads((run / "bert_config.json").read_text()) == _CONFIG


def test_folders_of_other_programs_are_read_as_far_as_they_say(tmp_path):
    folder = str(tmp_path)
    assert model_folder.read(folder) == {}
    shutil.copyfile(_INPUTS / "vocab.txt", tmp_path / "vocab.txt")
    assert model_folder.read(folder) == {"do_lower_case": True}
    _put(tmp_path, "tokenizer.json", {"normalizer": {"lowercase": False}})
    assert model_folder.read(folder) == {"do_lower_case": False}
    _put(
        tmp_path,
        "tokenizer_config.json",
        {"do_lower_case": True, "strip_accents": False},
    )
    _put(
        tmp_path,
        "config.json",
        {
            "architectures": ["BertForTokenClassification"],
            "id2label": {"0": "O", "1": "B-X"},
        },
    )
    assert model_folder.read(folder) == {
        "task": "tagging",
        "labels": ["O", "B-X"],
        "problem_type": "single_label",
        "do_lower_case": True,
        "strip_accents": False,
    }
    kind = {"problem_type": "multi_label_classification"}
    _put(tmp_path, "config.json", {"id2label": {"0": "LABEL_0"}, **kind})
    assert "labels" not in model_folder.read(folder)
    assert model_folder.read(folder)["problem_type"] == "multi_label"
    _put(tmp_path, "config.json", {"problem_type": "regression"})
    assert model_folder.read(folder)["labels"] == []


def test_another_tokenization_is_refused(tmp_path):
    _put(tmp_path, "tokenizer_config.json", {"tokenize_chinese_chars": False})
    with pytest.raises(ValueError, match="tokenize_chinese_chars must be true"):
        model_folder.read(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "lower"),
    [("cased_30522.txt", False), ("uncased_30522.txt", True)],
)
@pytest.mark.shared
def test_released_vocabularies_show_their_casing(name, lower):
    if not (_SHARED / name).exists():
        pytest.skip(f"no {name}")
    assert model_folder.is_vocabulary_lower_case(str(_SHARED / name)) is lower


def test_small_vocabularies_do_not_show_their_casing(tmp_path):
    path = _entries(tmp_path / "vocab.txt", ["[PAD]", *"abcdef"])
    assert model_folder.is_vocabulary_lower_case(path) is None


# ------------------------------------------------------------------- Comparing


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"task": "classification"}, "'tagging' there and 'classification'"),
        ({"labels": ["B-PER", "O"]}, "labels is ['O', 'B-PER'] there and ['B"),
        ({"do_lower_case": True}, "do_lower_case is False there and True"),
        ({"vocab_sha256": "b"}, "vocab_sha256 is 'a' there and 'b' here"),
        ({"attention": "causal"}, "attention is 'bidirectional' there"),
    ],
)
def test_training_in_the_folder_of_another_model_is_refused(
    tmp_path, other, message
):
    _trained(tmp_path)
    with pytest.raises(ValueError, match=re.escape(message)):
        model_folder.describe(
            str(tmp_path), _CONFIG, _TAGGER | other, is_training=True
        )
    assert _described(tmp_path) == _TAGGER


def test_a_network_of_other_sizes_is_refused_and_other_dropout_is_not(tmp_path):
    _trained(tmp_path)
    folder, small = str(tmp_path), {**_CONFIG, "hidden_size": 4}
    with pytest.raises(ValueError, match="hidden_size is 8 there and 4 here"):
        model_folder.describe(folder, small, _TAGGER, is_training=True)
    now = {**_CONFIG, "hidden_dropout_prob": 0.0}
    model_folder.describe(folder, now, _TAGGER, is_training=False)
    assert json.loads((tmp_path / "bert_config.json").read_text()) == _CONFIG
    model_folder.describe(folder, now, _TAGGER, is_training=True)
    assert json.loads((tmp_path / "bert_config.json").read_text()) == now


def test_a_folder_without_a_checkpoint_may_become_another_model(tmp_path):
    folder, other = str(tmp_path), _TAGGER | {"labels": ["O"]}
    model_folder.describe(folder, _CONFIG, _TAGGER, is_training=True)
    model_folder.describe(folder, _CONFIG, other, is_training=True)
    assert _described(tmp_path) == other


@pytest.mark.parametrize("name", ["run [v2]", r"a\b"])
def test_folders_whose_checkpoints_cannot_be_read_are_refused(tmp_path, name):
    folder = str(tmp_path / name)
    with pytest.raises(ValueError, match=r"must not contain \[ or a backslash"):
        model_folder.describe(folder, _CONFIG, _TAGGER, is_training=True)


def test_without_training_nothing_is_written_into_our_folders(tmp_path):
    _trained(tmp_path)
    longer = _TAGGER | {"max_seq_length": 512}
    model_folder.describe(str(tmp_path), _CONFIG, longer, is_training=False)
    assert _described(tmp_path) == _TAGGER
    empty = tmp_path / "empty"
    model_folder.describe(str(empty), _CONFIG, longer, is_training=False)
    assert not empty.exists()


def test_a_run_describes_the_folder_of_another_program(tmp_path, caplog):
    caplog.set_level("WARNING")
    (tmp_path / "model.ckpt-3.index").touch()
    folder, names = str(tmp_path), {"labels": ["B-PER", "O"]}
    model_folder.describe(folder, _CONFIG, _TAGGER | names, is_training=False)
    assert _described(tmp_path) == _TAGGER | names and not caplog.text
    # The labels were wrong: the corrected command corrects the description.
    model_folder.describe(folder, _CONFIG, _TAGGER, is_training=False)
    assert _described(tmp_path) == _TAGGER


# ------------------------------------------------------------------- Beginning


def _start(folder, vocab_file=None, with_outputs=False, **description):
    return model_folder.check_start(
        f"{folder}/model.ckpt-3",
        _TAGGER | description,
        vocab_file,
        with_outputs=with_outputs,
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"do_lower_case": True}, "do_lower_case is False there and True here"),
        ({"strip_accents": True}, "strip_accents is False there and True here"),
        ({"vocab_sha256": "b"}, "vocab_sha256 is 'a' there and 'b' here"),
        ({"attention": "causal"}, "attention is 'bidirectional' there"),
    ],
)
def test_weights_of_another_text_or_attention_are_refused(
    tmp_path, other, message
):
    _trained(tmp_path, task="pretraining")
    with pytest.raises(ValueError, match=message):
        _start(tmp_path, **other)


def test_an_output_layer_of_other_labels_is_not_evaluated(tmp_path):
    _trained(tmp_path)
    labels = {"labels": ["O"]}
    _start(tmp_path, with_outputs=True)
    _start(tmp_path, **labels)
    with pytest.raises(ValueError, match=re.escape("labels is ['O', 'B-PER']")):
        _start(tmp_path, with_outputs=True, **labels)
    assert model_folder.outputs_differ(_TAGGER, _TAGGER | labels)
    assert not model_folder.outputs_differ({}, _TAGGER)


def test_labels_in_other_capitals_are_the_same_outputs():
    upper = {"labels": [label.upper() for label in _TAGGER["labels"]]}
    assert not model_folder.outputs_differ(_TAGGER, _TAGGER | upper)
    backwards = {"labels": upper["labels"][::-1]}
    assert model_folder.outputs_differ(_TAGGER, _TAGGER | backwards)


def test_lower_casing_fits_the_chinese_vocabulary_of_hugging_face(tmp_path):
    shutil.copyfile(_INPUTS / "vocab.txt", tmp_path / "vocab.txt")
    _put(tmp_path, "tokenizer_config.json", {"do_lower_case": False})
    lowered = {"do_lower_case": True, "strip_accents": True}
    _start(tmp_path, **lowered)
    # The statement is true of a vocabulary with capital letters.
    shutil.copyfile(_INPUTS / "vocab_cased.txt", tmp_path / "vocab.txt")
    with pytest.raises(ValueError, match="do_lower_case is False there"):
        _start(tmp_path, **lowered)


def test_words_may_replace_unused_entries(tmp_path):
    _trained(tmp_path)
    _entries(tmp_path / "vocab.txt", ["[PAD]", "[unused0]", "a", "", ""])
    new = _entries(tmp_path / "new.txt", ["[PAD]", "word", "a"])
    _start(tmp_path, new, vocab_sha256="b")
    for entries, message in (
        (["[PAD]", "word", "b"], "line 3: 'b', there 'a'"),
        (["[PAD]", "word"], r"\(3 entries\) first in line 3: the end"),
        (["[PAD]", "word", "a", "b"], "line 4: 'b', there the end"),
    ):
        other = _entries(tmp_path / "other.txt", entries)
        with pytest.raises(ValueError, match=message):
            _start(tmp_path, other)


# ------------------------------------------------------------------- Following


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options(training_flags.TaggingOptions):
    context: str = "document"


def _options(folder, **values):
    required = {"bert_config_file": "", "vocab_file": "", "do_eval": True}
    return _Options(output_dir=str(folder), **required, **values)


def test_a_run_without_training_follows_the_folder(tmp_path, caplog):
    caplog.set_level("INFO")
    _trained(tmp_path)
    found = model_folder.follow(_options(tmp_path), "tagging", ())
    assert (found.max_seq_length, found.context) == (128, "sentence")
    assert "--max_seq_length=128" in caplog.text
    # Also beside --init_checkpoint, if the own folder has no checkpoint.
    away = _options(tmp_path / "out", init_checkpoint=f"{tmp_path}/x")
    assert model_folder.follow(away, "tagging", ()).max_seq_length == 128


def test_several_trials_are_evaluated_as_they_were_trained(tmp_path):
    _trained(tmp_path / "trial-lr1-seed3")
    found = model_folder.follow(_options(tmp_path, num_trials=2), "tagging", ())
    assert (found.max_seq_length, found.context) == (128, "sentence")


def test_given_flags_that_differ_are_named_with_both_values(tmp_path, caplog):
    _trained(tmp_path)
    options = _options(tmp_path, max_seq_length=64)
    found = model_folder.follow(options, "tagging", {"context"})
    assert found == dataclasses.replace(options, strip_accents=False)
    for message in (
        "--max_seq_length=64 is not the value of the model in",
        "which is 128.",
        "--context=document is not the value",
    ):
        assert message in caplog.text


def test_training_and_models_of_other_tasks_are_not_followed(tmp_path):
    _trained(tmp_path)
    options = _options(tmp_path)
    assert model_folder.follow(options, "classification", ()) == options
    options = dataclasses.replace(options, do_train=True)
    assert model_folder.follow(options, "tagging", ()) == options

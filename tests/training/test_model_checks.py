"""Attention and vocabulary of models: recognized, and refused."""

import json
import pathlib
import types

import pytest

from training import flags as training_flags
from training import model_checks

_INPUTS = pathlib.Path(__file__).parents[1] / "golden/inputs"
_SHARED = pathlib.Path(__file__).parents[3] / "shared/data/vocab"


def _vocabulary(path, entries):
    path.write_text("".join(f"{e}\n" for e in entries), encoding="utf-8")
    return str(path)


def _options(folder, **changes):
    given = {"output_dir": str(folder / "out"), "init_checkpoint": None}
    return types.SimpleNamespace(**given | changes)


def _write_checkpoint(folder, identity, step=7):
    """Writes what a folder looks like that holds a checkpoint."""
    folder.mkdir()
    prefix = folder / f"model.ckpt-{step}"
    for ending in (".index", ".data-00000-of-00001"):
        prefix.with_name(prefix.name + ending).write_bytes(b"")
    state = prefix.with_name(f"{prefix.name}.state.json")
    state.write_text(json.dumps({"identity": identity}))
    return str(prefix)


def test_bert_adds_nothing_to_what_a_run_is():
    # So that runs which were begun before there were ablations go on.
    options = training_flags.AblationOptions()
    assert options.ablation == {}
    assert not any(options.head_arguments.values())


def test_an_ablation_is_part_of_what_a_run_is():
    options = training_flags.AblationOptions(
        attention="causal", bilstm_head=True
    )
    assert options.head_arguments == {
        "causal": True,
        "bilstm_head": True,
    }
    assert options.ablation == {
        "attention": "causal",
        "bilstm_head": True,
    }


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
    assert model_checks.attention_of(identity) == attention


def test_a_left_to_right_model_must_stay_one(tmp_path):
    prefix = _write_checkpoint(tmp_path / "ltr", {"objective": "ltr"})
    options = _options(tmp_path, init_checkpoint=prefix)
    with pytest.raises(ValueError, match="trained with causal attention"):
        model_checks.check_attention(options)
    options = _options(
        tmp_path, init_checkpoint=prefix, attention=training_flags.CAUSAL
    )
    model_checks.check_attention(options)


def test_a_model_that_looks_both_ways_does_not_become_one(tmp_path):
    prefix = _write_checkpoint(tmp_path / "mlm", {"objective": "mlm_nsp"})
    options = _options(
        tmp_path, init_checkpoint=prefix, attention=training_flags.CAUSAL
    )
    with pytest.raises(ValueError, match="with bidirectional attention"):
        model_checks.check_attention(options)


def test_a_folder_is_not_gone_on_with_in_another_way(tmp_path):
    identity = {"objective": "squad", "attention": "causal"}
    _write_checkpoint(tmp_path / "out", identity)
    with pytest.raises(ValueError, match="trained with causal attention"):
        model_checks.check_attention(_options(tmp_path))


def test_a_damaged_checkpoint_leaves_it_to_the_one_before(tmp_path):
    _write_checkpoint(tmp_path / "out", {"objective": "ltr"}, step=7)
    state = tmp_path / "out" / "model.ckpt-8.state.json"
    for part in (".index", ".data-00000-of-00001"):
        (tmp_path / "out" / f"model.ckpt-8{part}").write_bytes(b"")
    state.write_text('{"identity": {"obj')
    # What goes on from them passes over the damaged one, too.
    with pytest.raises(
        ValueError, match=r"model\.ckpt-7 was trained with caus"
    ):
        model_checks.check_attention(_options(tmp_path))
    model_checks.check_attention(_options(tmp_path, attention="causal"))


def test_nothing_is_said_of_checkpoints_that_are_not_there(tmp_path, caplog):
    options = _options(tmp_path, init_checkpoint=str(tmp_path / "none"))
    model_checks.check_attention(options)
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "want"), [("vocab.txt", True), ("vocab_cased.txt", False)]
)
def test_capitals_show_the_casing(name, want):
    assert model_checks.is_vocabulary_lower_case(str(_INPUTS / name)) is want


def test_accents_show_the_casing(tmp_path):
    words = [f"word{i}" for i in range(600)]
    path = tmp_path / "v"
    assert (
        model_checks.is_vocabulary_lower_case(_vocabulary(path, words)) is True
    )
    words += [f"caf\u00e9{i}" for i in range(100)]
    assert (
        model_checks.is_vocabulary_lower_case(_vocabulary(path, words)) is False
    )


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
    path = _vocabulary(tmp_path / "v", entries)
    assert model_checks.is_vocabulary_lower_case(path) is None


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
    assert model_checks.is_vocabulary_lower_case(path) is want


def test_the_first_difference_is_named(tmp_path):
    theirs = _vocabulary(tmp_path / "theirs", ["[PAD]", "a", "b"])
    same = _vocabulary(tmp_path / "same", ["[PAD]", "a", " b\r", "", " "])
    model_checks.check_same_vocabulary(same, theirs)
    for entries, message in (
        (["[PAD]", "c", "d"], r"first in line 2: 'c', there 'a'"),
        (["[PAD]", "a"], r"\(2 entries\).*line 3: the end, there 'b'"),
        (["[PAD]", "a", "b", "c"], "line 4: 'c', there the end"),
    ):
        ours = _vocabulary(tmp_path / "ours", entries)
        with pytest.raises(ValueError, match=message):
            model_checks.check_same_vocabulary(ours, theirs)


def test_unused_entries_may_be_words(tmp_path, caplog):
    theirs = _vocabulary(tmp_path / "t", ["[PAD]", "[unused0]", "[unused1]"])
    ours = _vocabulary(tmp_path / "o", ["[PAD]", "covid", "[unused1]"])
    with caplog.at_level("INFO"):
        model_checks.check_same_vocabulary(ours, theirs)
    assert "replaces 1 [unusedN] entries" in caplog.text
    with pytest.raises(ValueError, match=r"there 'covid'"):
        model_checks.check_same_vocabulary(theirs, ours)

"""Folders of runs, used again by commands that differ."""

import shutil

import pytest

from bert.training import resuming
from tests.support import toy_files, toy_pretraining, toy_sentences

_STAGES = {"do_train": True, "do_eval": True, "num_train_epochs": 0.1}
_GRID = {"learning_rates": "1e-3,2e-3"}


def _refused(folder, **flags):
    """Returns the message of a run, which must change no file."""
    before = toy_files.contents(folder)
    with pytest.raises(ValueError) as refusal:
        toy_sentences.run(folder, **_STAGES | flags)
    assert toy_files.contents(folder) == before
    return str(refusal.value)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """Makes a run that is complete; returns the folder above its own."""
    folder = tmp_path_factory.mktemp("single")
    toy_sentences.run(folder, **_STAGES)
    return folder


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Makes a grid of two trials."""
    folder = tmp_path_factory.mktemp("grid")
    toy_sentences.run(folder, **_STAGES | _GRID)
    return folder


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("learning_rate", 1e-4, "learning_rate was 0.001 and is 0.0001"),
        ("max_seq_length", 16, "max_seq_length was 24 and is 16"),
        ("optimizer", "lamb", "optimizer was 'adamw' and is 'lamb'"),
        ("weight_decay", 0.1, "weight_decay was 0.01 and is 0.1"),
        ("num_train_epochs", 0.05, "num_train_epochs was 0.1 and is 0.05"),
        # It changes the records alone.
        ("long_text", "head_tail", "long_text was 'head' and is 'head_tail'"),
    ],
)
def test_a_complete_run_is_not_that_of_other_flags(
    single, flag, value, message
):
    assert message in _refused(single, **{flag: value})


def test_a_complete_run_is_not_that_of_other_data(single):
    toy_sentences.write_tsv(
        single / "data/train.tsv", toy_sentences.sentences(320, seed=7)
    )
    message = _refused(single)
    toy_sentences.write_data(single / "data")
    assert "data_sha256 was" in message


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("weight_decay", 0.1, "weight_decay was 0.01 and is 0.1"),
        ("max_seq_length", 16, "max_seq_length was 24 and is 16"),
        ("optimizer", "lamb", "optimizer was 'adamw' and is 'lamb'"),
    ],
)
def test_a_complete_grid_is_not_that_of_other_flags(grid, flag, value, message):
    found = _refused(grid, **_GRID, **{flag: value})
    assert message in found and "/trial-lr0.001-bs16-ep0.1-seed12345" in found


def test_the_same_command_gives_the_same_results_again(single, caplog):
    out = single / "out"
    results = (out / "eval_results.txt").read_bytes()
    described = (out / "task.json").read_bytes()
    caplog.set_level("INFO")
    toy_sentences.run(single, **_STAGES)
    assert "already complete" in caplog.text
    assert (out / "eval_results.txt").read_bytes() == results
    assert (out / "task.json").read_bytes() == described


def test_the_precision_of_a_complete_run_is_that_of_its_device(
    single, tmp_path, caplog
):
    shutil.copytree(single, tmp_path / "copy")
    caplog.set_level("INFO")
    toy_sentences.run(tmp_path / "copy", **_STAGES, precision="auto")
    assert "already complete" in caplog.text


def test_more_epochs_train_further_with_one_line(single, tmp_path, caplog):
    shutil.copytree(single, tmp_path / "copy")
    toy_sentences.run(tmp_path / "copy", **_STAGES | {"num_train_epochs": 0.2})
    assert (tmp_path / "copy/out/model.ckpt-4.index").exists()
    lines = [m for m in caplog.messages if "with other settings" in m]
    assert len(lines) == 1 and "num_train_epochs was 0.1 and is 0.2" in lines[0]


def test_a_state_of_an_earlier_version_is_compared_too(single, tmp_path):
    """Those states have neither the number of examples nor the data."""
    shutil.copytree(single, tmp_path / "copy")
    path = tmp_path / "copy/out/model.ckpt-2.state.json"
    state = toy_files.read_json(path)
    del state["num_examples"]
    data = ("num_records", "records_fingerprint", "masking", "num_replicas")
    state["data"] = {name: state["data"][name] for name in data}
    toy_files.write_json(path, state)
    message = _refused(tmp_path / "copy", optimizer="lamb")
    assert "optimizer was 'adamw' and is 'lamb'" in message


# ---------------------------------------------------------------- Pre-training

_EVALUATED = {
    "num_train_steps": 4,
    "num_warmup_steps": 1,
    "eval_every_steps": 2,
    "max_eval_steps": 3,
}


def _pretraining(folder, **flags):
    """Runs a pre-training that evaluates on records of its own."""
    folder.mkdir(exist_ok=True)
    held_out = folder / "held_out"
    if not held_out.exists():
        examples = toy_pretraining.random_examples(seed=3)
        toy_pretraining.write_records(held_out, examples)
    return toy_pretraining.run(
        folder, **{"eval_input_file": str(held_out), **_EVALUATED, **flags}
    )


def _best(out):
    return resuming.read_best(str(out))


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Makes a pre-training with `best/`; returns the folder above its own."""
    folder = tmp_path_factory.mktemp("pretrained")
    _pretraining(folder)
    return folder


def _copy(pretrained, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(pretrained, folder)
    # The paths of records are not those of the run.
    return folder


def test_a_complete_pre_training_is_not_that_of_other_flags_or_records(
    pretrained,
):
    before = toy_files.contents(pretrained / "out")
    with pytest.raises(
        ValueError, match=r"learning_rate was 0\.01 and is 0\.02"
    ):
        _pretraining(pretrained, learning_rate=0.02)
    with pytest.raises(ValueError, match="num_train_steps was 4 and is 3"):
        _pretraining(pretrained, num_train_steps=3)
    with pytest.raises(ValueError, match="records_fingerprint was"):
        _pretraining(pretrained, input_file=str(pretrained / "held_out"))
    assert toy_files.contents(pretrained / "out") == before


def test_the_best_weights_alone_are_not_replaced(pretrained, tmp_path):
    folder = _copy(pretrained, tmp_path)
    out = folder / "out"
    for path in (*out.glob("model.ckpt*"), out / "checkpoint"):
        path.unlink()
    before = toy_files.contents(out)
    with pytest.raises(ValueError, match=r"best has the weights of step \d"):
        _pretraining(folder)
    assert toy_files.contents(out) == before


def test_a_metric_of_other_held_out_data_is_not_compared(
    pretrained, tmp_path, caplog
):
    folder = _copy(pretrained, tmp_path)
    out = folder / "out"
    # A loss that no evaluation reaches.
    path = out / "best/best.json"
    record = toy_files.read_json(path)
    toy_files.write_json(path, {**record, "value": 1e-9})
    # Of a complete run, the weights stay.
    _pretraining(folder, max_eval_steps=2)
    assert _best(out).value == 1e-9
    assert "max_eval_steps was 3 and is 2" in caplog.text
    # The same data are compared, also after more steps.
    caplog.clear()
    _pretraining(folder, num_train_steps=6)
    assert _best(out).value == 1e-9
    assert "The next evaluation replaces" not in caplog.text
    _pretraining(folder, num_train_steps=8, max_eval_steps=2)
    assert _best(out).step == 8 and _best(out).value > 1
    assert _best(out).held_out["max_eval_steps"] == 2
    assert [path.name for path in (out / "best").glob("*.index")] == [
        "model.ckpt-8.index"
    ]

"""What the export refuses."""

import json
import pathlib

import pytest

from tests import serving_client
from tools import export_model

_ROOT = pathlib.Path(__file__).parents[2]
_GOLDEN = _ROOT / "tests/golden"
_FILES = {
    "bert_config_file": str(_GOLDEN / "inputs/bert_config.json"),
    "vocab_file": str(_GOLDEN / "inputs/vocab.txt"),
    "init_checkpoint": str(_GOLDEN / "model/tiny.ckpt"),
}


def _refused(match, **options):
    folder = pathlib.Path(__file__).with_name("served")
    with pytest.raises(ValueError, match=match):
        export_model.run(
            export_model.Options(export_dir=str(folder), **options)
        )
    assert not folder.exists()


def test_folder_without_a_model_is_refused(tmp_path):
    _refused(
        "must be the --output_dir.*is not a folder",
        model_dir=str(tmp_path / "absent"),
    )
    _refused("contains no checkpoint", model_dir=str(tmp_path))
    (tmp_path / "trials.json").write_text("{}")
    _refused("several trials. Pass the folder of one", model_dir=str(tmp_path))
    _refused("--model_dir, or a checkpoint, --init_checkpoint; got neither")


def test_model_of_another_task_is_refused():
    _refused("--task=score .* task is answer", task="score", **_FILES)
    _refused("--task=tag .* task is answer", task="tag", **_FILES)


def test_what_is_missing_is_named():
    for name in ("bert_config_file", "vocab_file"):
        files = {key: path for key, path in _FILES.items() if key != name}
        _refused(f"--{name} must be given; or a folder", **files)


@pytest.mark.slow
def test_vocabulary_of_another_model_is_refused(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text((_GOLDEN / "inputs/vocab.txt").read_text() + "more\n")
    _refused("1201 entries", **_FILES | {"vocab_file": str(vocab)})


def test_sequence_longer_than_the_model_reads_is_refused():
    _refused("Cannot use sequence length 161", max_seq_length=161, **_FILES)


@pytest.mark.slow
def test_layers_that_the_model_lacks_and_windows_are_refused():
    _refused("no layer -3", task="embed", layers="-3", **_FILES)
    _refused("must have one row", task="embed", long_text="windows", **_FILES)


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"labels.json": ["1", "0"]}, "the labels are in another order"),
        ({"labels.json": ["a", "b"]}, "this run needs"),
        ({"tokenizer.json": False}, "do_lower_case was False and is True"),
        (
            {"state.json": "tags, fine-tuned: 0 1"},
            "--task=classify .* task is tag",
        ),
    ],
)
def test_a_checkpoint_is_compared_with_the_run_it_is_exported_as(
    tmp_path, beside, message
):
    run, other = (
        serving_client.golden_classifier(tmp_path / name)
        for name in ("run", "other")
    )
    for name in ("vocab.txt", "bert_config.json"):
        (other / name).unlink()
    labels = json.loads((other / "labels.json").read_text())
    labels["labels"] = beside.get("labels.json", labels["labels"])
    (other / "labels.json").write_text(json.dumps(labels))
    lower = {"do_lower_case": beside.get("tokenizer.json", True)}
    (other / "tokenizer.json").write_text(json.dumps(lower))
    if "state.json" in beside:
        identity = {"identity": {"objective": beside["state.json"]}}
        state = other / "mrpc.ckpt-24.state.json"
        state.write_text(json.dumps(identity))
    _refused(
        message,
        model_dir=str(run),
        task="classify",
        init_checkpoint=str(other),
    )

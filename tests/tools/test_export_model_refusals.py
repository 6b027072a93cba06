"""Error messages and flags of tools.export_model."""

import pathlib

import pytest

from tests import programs
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
    _refused("--task=score .* made for answer", task="score", **_FILES)
    _refused("--task=tag .* made for answer", task="tag", **_FILES)


def test_missing_files_are_named():
    for name in ("bert_config_file", "vocab_file"):
        files = {key: path for key, path in _FILES.items() if key != name}
        _refused(f"--{name} must be given, or a folder", **files)


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


def test_defaults_of_options_are_those_of_the_flags():
    read = programs.parse(export_model.Options, export_dir="y")
    assert read == export_model.Options(export_dir="y")

"""Bidirectional programs refuse a left-to-right model."""

import shutil

import pytest

from modeling import checkpoints
from tests.support import locations, programs


@pytest.fixture
def model(tmp_path):
    """Names a checkpoint whose folder says that it reads left to right."""
    for path in (locations.GOLDEN / "model").glob("tiny.ckpt*"):
        shutil.copy(path, tmp_path)
    (tmp_path / "task.json").write_text('{"attention": "causal"}')
    return str(tmp_path / "tiny.ckpt")


# Commands, of which {0} is the folder of the model.
_CONFIG = f"--bert_config_file={locations.CONFIG_FILE}"
_VOCAB = locations.VOCAB_FILE
_FILES = f"{_CONFIG} --vocab_file={_VOCAB} --init_checkpoint={{0}}/tiny.ckpt"
_CONVERT = (
    "tools.convert_checkpoint --input={0}/tiny.ckpt --output={0}/out "
    f"{_CONFIG} --output_format=huggingface"
)
_COMMANDS = [
    f"extract_features {_FILES} --input_file={_VOCAB} --layers=-1 "
    "--output_file={0}/out",
    f"tools.plot_attention {_FILES} --text=word --output_file={{0}}/out",
]


def _refusal(command, folder):
    name, *arguments = command.format(folder).split()
    return programs.refusal(name, arguments)


@pytest.mark.parametrize("command", _COMMANDS, ids=lambda c: c.split()[0])
def test_a_left_to_right_model_is_refused(tmp_path, model, command):
    (tmp_path / "words.txt").write_text("newword\n")
    message = _refusal(command, tmp_path)
    assert "attention is 'causal' there and 'bidirectional' here" in message
    assert not (tmp_path / "out").exists()


def test_programs_without_a_bilstm_refuse_a_model_that_has_one(tmp_path):
    values = checkpoints.read(str(locations.CHECKPOINT))
    values |= {"bilstm/forward/kernel": values["bert/pooler/dense/bias"]}
    prefix = str(tmp_path / "tiny.ckpt")
    checkpoints.save(prefix, values)
    assert "nor a BiLSTM" in _refusal(_CONVERT, tmp_path)

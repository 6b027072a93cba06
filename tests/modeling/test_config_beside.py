"""The configuration beside a checkpoint, found and compared."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

from modeling import bert, checkpoints, config_beside
from modeling import config as config_lib

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_CONFIG = config_lib.BertConfig.from_json_file(
    str(_GOLDEN / "inputs/bert_config.json")
)


@pytest.fixture
def prefix(tmp_path):
    for file in (_GOLDEN / "model").glob("tiny.ckpt.*"):
        shutil.copyfile(file, tmp_path / file.name)
    return str(tmp_path / "tiny.ckpt")


def _put(prefix, name="bert_config.json", **changes):
    values = {**_CONFIG.to_dict(), **changes}
    (pathlib.Path(prefix).parent / name).write_text(json.dumps(values))


def test_either_file_is_read_from_prefix_or_folder(prefix):
    with pytest.raises(FileNotFoundError, match="must be a bert_config"):
        config_beside.read(prefix)
    _put(prefix, "config.json", model_type="bert", hidden_act="gelu_new")
    assert config_beside.read(prefix) == _CONFIG
    _put(prefix, hidden_act="relu")
    want = dataclasses.replace(_CONFIG, hidden_act="relu")
    assert config_beside.read(str(pathlib.Path(prefix).parent)) == want


def test_a_file_of_that_name_that_is_no_model_s_is_left_alone(prefix):
    path = pathlib.Path(prefix).parent / "config.json"
    path.write_text('{"editor": "dark"}')
    assert config_beside.find(prefix) is None


def test_other_attention_heads_are_refused(prefix):
    _put(prefix, num_attention_heads=8)
    with pytest.raises(
        ValueError, match=r"num_attention_heads must be .* 4 in the model and 8"
    ):
        checkpoints.load(bert.BertModel(_CONFIG), prefix)


def test_another_activation_is_reported(prefix):
    _put(prefix, hidden_act="relu")
    report = checkpoints.load(bert.BertModel(_CONFIG), prefix)
    assert "hidden_act is gelu here and relu in" in str(report)
    _put(prefix, hidden_act="GELU", hidden_dropout_prob=0.5)
    assert checkpoints.load(bert.BertModel(_CONFIG), prefix).notes == ()


def test_three_lines_are_enough(prefix):
    _put(prefix)
    model = bert.BertModel(config_beside.read(prefix))
    checkpoints.load(model, prefix)
    outputs = model(np.array([[3, 5, 7]]))
    assert outputs["sequence_output"].shape == (1, 3, 32)

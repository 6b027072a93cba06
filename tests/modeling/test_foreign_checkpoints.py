"""Checkpoints that other programs wrote give the outputs that those computed.

`tests/golden/foreign` holds one of each form; the peer tests write all anew, by
the programs in `tests/foreign`, with interpreters that variables of the
environment name.
"""

import json
import os
import subprocess

import numpy as np
import pytest

from modeling import bert, checkpoints, heads
from modeling import config as config_lib
from tests.support import locations

_TESTS = locations.ROOT / "tests"
_GOLDEN = _TESTS / "golden/foreign"
_POOLER = "bert/pooler/.*"


def _model(config, case):
    if case["class"] == "BertModel":
        return bert.BertModel(config)
    is_labeler = case["class"] in (
        "BertForSequenceClassification",
        "BertForTokenClassification",
    )
    options = {"num_labels": case["num_labels"]} if is_labeler else {}
    return getattr(heads, case["class"])(config, **options)


def _check_outputs(folder, checkpoint=None):
    """Loads a checkpoint and compares its outputs with those beside it."""
    case = json.loads((folder / "case.json").read_text())
    config = config_lib.BertConfig.from_checkpoint(str(folder))
    model = _model(config, case)
    # Classes of Hugging Face's that use no pooler have none.
    unused = case["class"] in (
        "BertForQuestionAnswering",
        "BertForTokenClassification",
    )
    report = checkpoints.load(
        model, str(checkpoint or folder), new=[_POOLER] if unused else []
    )
    strange = [n for n in report.unexpected if n.startswith(("bert/", "cls/"))]
    assert not strange
    with np.load(folder / "case.npz") as file:
        arrays = dict(file)
    inputs = ["input_ids", "input_mask", "segment_ids"]
    if case["class"] == "BertForPreTraining":
        inputs.append("masked_lm_positions")
    outputs = model(*(arrays[name].astype(np.int32) for name in inputs))
    is_real = arrays["input_mask"] == 1
    names = [n.removeprefix("out/") for n in arrays if n.startswith("out/")]
    assert names
    for name in names:
        got, want = np.asarray(outputs[name]), arrays[f"out/{name}"]
        if case["class"] == "BertForMultipleChoice":
            # Theirs has a bias, which moves all choices alike.
            got, want = got - got[:, :1], want - want[:, :1]
        if want.shape[: is_real.ndim] == is_real.shape:
            got, want = got[is_real], want[is_real]
        np.testing.assert_allclose(got, want, atol=2e-5, rtol=0, err_msg=name)


@pytest.mark.parametrize(
    "name", sorted(path.name for path in _GOLDEN.iterdir() if path.is_dir())
)
def test_a_foreign_checkpoint_gives_its_program_s_outputs(name):
    _check_outputs(_GOLDEN / name)


_PEERS = {
    "model_garden": "BERT_PEER_MODEL_GARDEN",
    "transformers": "BERT_PEER_TRANSFORMERS_4",
}

_COPY = """
import sys
from modeling import checkpoints

from tests.support import locations
checkpoints.save(sys.argv[2], checkpoints.read(sys.argv[1]))
"""


def _run(python, *arguments, **environment):
    done = subprocess.run(
        [python, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=_TESTS.parent,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.peer
@pytest.mark.parametrize("program", _PEERS)
def test_what_a_program_writes_anew_gives_its_outputs(tmp_path, program):
    python = os.environ.get(_PEERS[program])
    if not python:
        pytest.skip(f"{_PEERS[program]} must name a Python with {program}")
    writer = f"tests.foreign.write_{program}"
    _run(python, "-m", writer, tmp_path, TF_USE_LEGACY_KERAS="1")
    cases = sorted(path.parent for path in tmp_path.rglob("case.json"))
    assert len(cases) > 2
    for folder in cases:
        checkpoint = folder
        if list(folder.glob("pytorch_model*.bin")):
            # Read where torch is, and written as the release does.
            checkpoint = folder / "release/bert_model.ckpt"
            _run(python, "-c", _COPY, folder, checkpoint)
        _check_outputs(folder, checkpoint)

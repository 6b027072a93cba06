"""A folder written here in Hugging Face's format, read by keras-hub.

Needs an interpreter with keras-hub, named by BERT_PEER_PYTHON.
"""

import re
import shutil
import subprocess

import numpy as np

from modeling import bert, checkpoints, config
from tests.support import locations, peer, programs

pytestmark = peer.MARKS

_LENGTH = 9
_READ = """
import sys
import numpy as np
import keras_hub
folder, path = sys.argv[1:]
encoder = keras_hub.models.BertBackbone.from_preset(folder)
encoder.save_to_preset("preset")
outputs = encoder(dict(np.load(path)))
np.savez(path + ".out.npz", **{k: np.array(v) for k, v in outputs.items()})
"""


def _run(folder, *arguments):
    """Runs a program of keras-hub, which may import this project."""
    subprocess.run(
        [peer.PYTHON, "-c", *arguments],
        check=True,
        cwd=folder,
        env={
            "KERAS_BACKEND": "tensorflow",
            "PYTHONPATH": str(locations.ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "2",
        },
    )


def test_keras_hub_computes_the_same_and_its_weights_come_back(tmp_path):
    release = tmp_path / "release"
    release.mkdir()
    for path in (locations.GOLDEN / "model").glob("tiny.ckpt.*"):
        name = path.name.replace("tiny.ckpt", "bert_model.ckpt")
        shutil.copyfile(path, release / name)
    for name in ("bert_config_4layers.json", "vocab.txt"):
        target = release / name.replace("_4layers", "")
        shutil.copyfile(locations.GOLDEN / "inputs" / name, target)
    refused = programs.refusal(
        "tools.convert_checkpoint",
        [
            f"--input={release}",
            f"--output={tmp_path / 'for_keras_hub'}",
            "--output_format=huggingface",
        ],
    )
    assert refused is None
    encoder = bert.BertModel(config.BertConfig.from_checkpoint(str(release)))
    checkpoints.load(encoder, str(release))
    ids = np.arange(5, 5 + 2 * _LENGTH, dtype=np.int32).reshape(2, _LENGTH)
    mask = np.ones_like(ids)
    mask[1, 6:] = 0
    segments = (np.arange(_LENGTH) > 4).astype(np.int32) * mask
    arrays = str(tmp_path / "inputs.npz")
    np.savez(arrays, token_ids=ids, padding_mask=mask, segment_ids=segments)
    _run(tmp_path, _READ, "for_keras_hub", arrays)
    theirs = np.load(f"{arrays}.out.npz")
    ours = encoder(ids, mask, segments)
    for name in ("sequence_output", "pooled_output"):
        kept = mask.astype(bool) if name == "sequence_output" else slice(None)
        np.testing.assert_allclose(
            theirs[name][kept], ours[name].numpy()[kept], atol=1e-5
        )
    page = (locations.ROOT / "docs/keras.md").read_text("utf-8")
    _, back = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "from_keras_hub").mkdir()
    _run(tmp_path, back)
    copied = bert.BertModel(encoder.config)
    checkpoints.load(copied, str(tmp_path / "from_keras_hub"))
    for first, second in zip(encoder.weights, copied.weights, strict=True):
        np.testing.assert_array_equal(first, second)

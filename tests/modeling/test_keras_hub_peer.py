"""A folder written here in Hugging Face's format, read by keras-hub.

Needs an interpreter with keras-hub, named by BERT_PEER_PYTHON.
"""

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
outputs = keras_hub.models.BertBackbone.from_preset(folder)(
    dict(np.load(path)))
np.savez(path + ".out.npz", **{k: np.array(v) for k, v in outputs.items()})
"""


def test_keras_hub_computes_the_same(tmp_path):
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
            f"--output={tmp_path / 'written'}",
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
    subprocess.run(
        [peer.PYTHON, "-c", _READ, str(tmp_path / "written"), arrays],
        check=True,
        env={"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    theirs = np.load(f"{arrays}.out.npz")
    ours = encoder(ids, mask, segments)
    for name in ("sequence_output", "pooled_output"):
        kept = mask.astype(bool) if name == "sequence_output" else slice(None)
        np.testing.assert_allclose(
            theirs[name][kept], ours[name].numpy()[kept], atol=1e-5
        )

"""Where our scores are not those that MTEB published, transformers has ours."""

import os
import subprocess

import numpy as np
import pytest

from benchmarks import published_scores
from tests.support import locations, peer, toy_files

_DATA = locations.DATA / "sts/STS16.jsonl.xz"
_MODEL = os.environ.get("BERT_PEER_MODEL")

pytestmark = [
    *peer.MARKS,
    pytest.mark.shared,
    pytest.mark.skipif(not _DATA.exists(), reason="needs the shared data"),
    pytest.mark.skipif(not _MODEL, reason="needs BERT_PEER_MODEL"),
]

# Writes the mean of the last layer of each line, tokenized by transformers.
_EMBED = """
import pathlib, sys
import numpy as np, torch, transformers
folder, texts, output = sys.argv[1:]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = transformers.AutoModel.from_pretrained(folder).eval()
texts = pathlib.Path(texts).read_text("utf-8").split("\\n")[:-1]
vectors = []
for start in range(0, len(texts), 32):
    inputs = tokenizer(
        texts[start : start + 32], padding=True, truncation=True,
        max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None].float()
    vectors.append(((hidden * mask).sum(1) / mask.sum(1)).numpy())
np.save(output, np.concatenate(vectors))
"""


def test_transformers_has_our_score_on_our_file(tmp_path):
    pairs = published_scores.read_pairs(str(_DATA))
    texts = [text for pair in pairs for text in (pair.text_a, pair.text_b)]
    ours = published_scores.embed(texts, _MODEL)
    toy_files.write_lines(tmp_path / "texts", ours)
    subprocess.run(
        [
            *(peer.PYTHON, "-c", _EMBED),
            *(_MODEL, str(tmp_path / "texts"), str(tmp_path / "vectors.npy")),
        ],
        check=True,
    )
    vectors = np.load(tmp_path / "vectors.npy")
    theirs = dict(zip(ours, vectors, strict=True))
    for text, vector in ours.items():
        np.testing.assert_allclose(vector, theirs[text], atol=1e-5)
    here, there = (
        published_scores.correlations(pairs, vectors)
        for vectors in (ours, theirs)
    )
    # Cosines in float32 differ by up to 1e-6, with either sign; MTEB's
    # correlations differ by 4e-5.
    assert here.pearson == pytest.approx(there.pearson, abs=3e-8)
    assert here.spearman == pytest.approx(there.spearman, abs=1e-6)

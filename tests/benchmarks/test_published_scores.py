"""Scores that MTEB published: the table, and two of its sets."""

import json
import lzma
import os

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import published_scores
from tests.support import locations
from tools import export_model

_DATA = locations.DATA / "sts"
_MODEL = os.environ.get("BERT_PEER_MODEL", "data/all-MiniLM-L6-v2")


def _pairs(*rows):
    return [
        published_scores.Pair(text_a=a, text_b=b, score=score)
        for a, b, score in rows
    ]


def test_correlations_are_those_of_the_cosine_by_hand():
    # Cosines 1, 0.6, -1 and 0 of lengths that must not count.
    vectors = {
        "a": np.array([2, 0], np.float32),
        "b": np.array([3, 4], np.float32),
        "c": np.array([-9, 0], np.float32),
        "d": np.array([0, 5], np.float32),
    }
    pairs = _pairs(("a", "a", 4), ("a", "b", 5), ("a", "c", 1), ("a", "d", 2))
    got = published_scores.correlations(pairs, vectors)
    # Ranks 4 3 1 2 and 3 4 1 2: 1 - 6 * 2 / (4 * 15).
    assert got.spearman == pytest.approx(0.8)
    cosines, scores = [1, 0.6, -1, 0], [4, 5, 1, 2]
    assert got.pearson == pytest.approx(np.corrcoef(cosines, scores)[0, 1])


def test_equal_texts_tie():
    rng = np.random.default_rng(2)
    vectors = {str(i): rng.normal(size=7).astype(np.float32) for i in range(90)}
    pairs = _pairs(*((text, text, int(text) % 5) for text in vectors))
    pairs += _pairs(("1", "2", 0))
    got = published_scores.correlations(pairs, vectors)
    # The rank of the last pair is 1, that of all others is the same.
    targets = [pair.score for pair in pairs]
    assert got.pearson == pytest.approx(
        np.corrcoef([1] * 90 + [0], targets)[0, 1]
    )
    ranks = [sum(s < t for s in targets) for t in targets]
    middle = [
        r + (targets.count(t) - 1) / 2
        for r, t in zip(ranks, targets, strict=True)
    ]
    assert got.spearman == pytest.approx(
        np.corrcoef([1] * 90 + [0], middle)[0, 1]
    )


@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_pairs_are_read_plain_or_compressed(tmp_path, suffix):
    lines = [{"text_a": "é", "text_b": "b\u2028c", "score": 4.5}] * 2
    content = "".join(
        json.dumps(line, ensure_ascii=False) + "\n" for line in lines
    ).encode()
    path = tmp_path / f"STSB.jsonl{suffix}"
    path.write_bytes(lzma.compress(content) if suffix else content)
    (pair, _) = published_scores.read_pairs(str(path))
    assert (pair.text_a, pair.text_b, pair.score) == ("é", "b\u2028c", 4.5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text_a": "a", "score": 1}, "line 2 must have text_a, text_b and sc"),
        ({"text_a": "a\nb", "text_b": "c", "score": 1}, "must be one line"),
        ({"text_a": "a ||| b", "text_b": "c", "score": 1}, "must be one line"),
    ],
)
def test_a_line_of_another_form_is_named(tmp_path, line, message):
    path = tmp_path / "STSB.jsonl"
    first = {"text_a": "a", "text_b": "b", "score": 0}
    path.write_text(f"{json.dumps(first)}\n{json.dumps(line)}\n")
    with pytest.raises(ValueError, match=message):
        published_scores.read_pairs(str(path))


def test_a_row_has_both_numbers_and_their_difference():
    measured = published_scores.Correlations(spearman=0.82, pearson=0.8274064)
    assert published_scores.row("STSB", 1379, measured) == (
        "| STSB | 1,379 | 0.8200000 | 0.8203247 | -3.2e-04 "
        "| 0.8274064 | 0.8274064 | -2.4e-08 |"
    )


def test_a_folder_without_a_set_is_refused(tmp_path):
    options = published_scores.Options(
        model="data/model", data_dir=str(tmp_path)
    )
    with pytest.raises(FileNotFoundError, match=r"a file such as STSB\.jsonl"):
        published_scores.run(options)


def _set(name):
    pairs = published_scores.read_pairs(str(_DATA / f"{name}.jsonl.xz"))
    return pairs, [
        text for pair in pairs for text in (pair.text_a, pair.text_b)
    ]


def _of_real_data(test):
    """Marks a test that needs the sets and the model."""
    for mark in (
        pytest.mark.slow,
        pytest.mark.shared,
        pytest.mark.skipif(not _DATA.exists(), reason="needs the shared data"),
        pytest.mark.skipif(
            not os.path.isdir(_MODEL),
            reason="BERT_PEER_MODEL must name a folder of all-MiniLM-L6-v2",
        ),
    ):
        test = mark(test)
    return test


@_of_real_data
@pytest.mark.parametrize(
    ("name", "spearman"),
    [
        # One swap of neighbours in 1,379 ranks changes it by 5e-9; some pairs
        # have cosines that float32 does not tell apart.
        ("STSB", 3e-7),
        # 8 pairs of equal texts: their order in MTEB's ranks is float32's.
        ("STS15", 2e-6),
    ],
)
def test_scores_are_those_that_mteb_published(name, spearman):
    pairs, texts = _set(name)
    vectors = published_scores.embed(texts, _MODEL)
    got = published_scores.correlations(pairs, vectors)
    published = published_scores.PUBLISHED[name]
    # Cosines in float32 differ by up to 1e-6, with either sign.
    assert got.pearson == pytest.approx(published.pearson, abs=3e-8)
    assert got.spearman == pytest.approx(published.spearman, abs=spearman)


@_of_real_data
def test_the_exported_model_has_the_same_vectors(tmp_path):
    folder = export_model.run(
        export_model.Options(model_dir=_MODEL, export_dir=str(tmp_path / "m"))
    )
    embed = tf.saved_model.load(folder).signatures["serving_default"]
    pairs, texts = _set("STSB")
    exported = {}
    for start in range(0, len(texts), 64):
        batch = texts[start : start + 64]
        rows = embed(text_a=tf.constant(batch))["embedding"].numpy()
        exported |= dict(zip(batch, rows, strict=True))
    for text, mean in published_scores.embed(texts, _MODEL).items():
        # modules.json states the length 1.
        vector = mean / np.linalg.norm(mean)
        np.testing.assert_allclose(exported[text], vector, atol=1e-6)
    got = published_scores.correlations(pairs, exported)
    published = published_scores.PUBLISHED["STSB"]
    assert got.spearman == pytest.approx(published.spearman, abs=3e-7)

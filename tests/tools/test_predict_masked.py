"""The tool that fills masks, on a small checkpoint of random weights."""

import contextlib
import io
import json
import pathlib
import shutil
import unittest.mock

import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, checkpoints
from modeling import config as config_lib
from tests import programs
from tools import predict_masked
from vocab import tokenization

_ROOT = pathlib.Path(__file__).parents[2]
_GOLDEN = _ROOT / "tests/golden"
_VOCAB = _GOLDEN / "inputs/vocab.txt"
_FILES = {
    "bert_config_file": str(_GOLDEN / "inputs/bert_config.json"),
    "vocab_file": str(_VOCAB),
    "init_checkpoint": str(_GOLDEN / "model/tiny.ckpt"),
}
_TOKENIZER = tokenization.FullTokenizer(str(_VOCAB))
_CLS, _SEP, _MASK = 4, 10, 8


def _run(standard_input=b"", **options):
    stream = io.TextIOWrapper(io.BytesIO(standard_input))
    with (
        unittest.mock.patch("sys.stdin", stream),
        contextlib.redirect_stdout(io.StringIO()) as output,
    ):
        predict_masked.run(predict_masked.Options(**(_FILES | options)))
    return output.getvalue()


def _records(tmp_path, **options):
    path = tmp_path / "out.jsonl"
    assert _run(output_file=str(path), **options) == ""
    return [json.loads(line) for line in path.read_text().splitlines()]


def _probs_by_hand(ids, segment_ids, position):
    """Recomputes `[V]` with the encoder and numpy alone."""
    config = config_lib.BertConfig.from_json_file(_FILES["bert_config_file"])
    model = bert.BertModel(config)
    checkpoints.load(model, _FILES["init_checkpoint"])
    stored = checkpoints.read(_FILES["init_checkpoint"])
    hidden = model(
        np.array([ids], np.int32), segment_ids=np.array([segment_ids], np.int32)
    )["sequence_output"][0, position].numpy()
    scope = "cls/predictions/transform"
    x = hidden @ stored[f"{scope}/dense/kernel"] + stored[f"{scope}/dense/bias"]
    x = 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    x = (x - x.mean()) / x.std()
    x = x * stored[f"{scope}/LayerNorm/gamma"]
    x = x + stored[f"{scope}/LayerNorm/beta"]
    logits = x @ stored["bert/embeddings/word_embeddings"].T
    return tf.nn.softmax(logits + stored["cls/predictions/output_bias"]).numpy()


def test_masks_are_kept_and_the_rest_is_tokenized():
    got = predict_masked.prepare("a [MASK]b", _TOKENIZER, 9)
    a, b = _TOKENIZER.convert_tokens_to_ids(["a", "b"])
    assert got.input_ids == (_CLS, a, _MASK, b, _SEP)
    assert got.segment_ids == (0,) * 5
    assert got.positions == (2,)
    # A pair is split at the last separator.
    got = predict_masked.prepare("[MASK] ||| a ||| [MASK]", _TOKENIZER, 20)
    assert got.segment_ids[-2:] == (1, 1)
    assert sum(got.segment_ids) == 2
    assert got.positions == (1, len(got.input_ids) - 2)
    # The longest text passes, and one more piece does not.
    assert len(predict_masked.prepare("[MASK] a", _TOKENIZER, 4).input_ids) == 4
    with pytest.raises(ValueError, match=r"at most 4 .* got 5: '\[MASK\] a a'"):
        predict_masked.prepare("[MASK] a a", _TOKENIZER, 4)


def test_text_without_a_mask_is_refused_with_its_place(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("[MASK] a\n[mask] b\n")
    with pytest.raises(
        ValueError, match=r"in\.txt, line 2: .* have a \[MASK\]"
    ):
        _run(input_file=str(path))
    with pytest.raises(ValueError, match="--text: The text must have a"):
        _run(text="a")
    with pytest.raises(ValueError, match="standard input, line 1: "):
        _run(b"a\n", input_file="-")
    with pytest.raises(ValueError, match="--text or --input_file"):
        _run()


def test_probabilities_are_the_model_s(tmp_path):
    (record,) = _records(tmp_path, text="a [MASK] ||| b [MASK]", top_k=3)
    a, b = _TOKENIZER.convert_tokens_to_ids(["a", "b"])
    ids = [_CLS, a, _MASK, _SEP, b, _MASK, _SEP]
    for mask, position in zip(record["masks"], (2, 5), strict=True):
        probs = _probs_by_hand(ids, [0, 0, 0, 0, 1, 1, 1], position)
        best = np.argsort(-probs)[:3]
        assert [c["token"] for c in mask] == [
            _TOKENIZER.inv_vocab[i] for i in best
        ]
        np.testing.assert_allclose(
            [c["probability"] for c in mask], probs[best], atol=1e-5
        )


def test_texts_do_not_depend_on_their_batch(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("[MASK] a b a b\na [MASK]\n[MASK] [MASK] b\n")
    alone, together = (
        _records(tmp_path, input_file=str(path), batch_size=size)
        for size in (1, 2)
    )
    assert [r["text"] for r in alone] == path.read_text().splitlines()
    assert [len(r["masks"]) for r in alone] == [1, 1, 2]
    for one, other in zip(alone, together, strict=True):
        for a, b in zip(one["masks"], other["masks"], strict=True):
            assert [c["token"] for c in a] == [c["token"] for c in b]
            np.testing.assert_allclose(
                [c["probability"] for c in a],
                [c["probability"] for c in b],
                atol=1e-5,
            )


def test_table_names_the_text_each_mask_and_its_candidates():
    got = _run(b"a [MASK]\n", input_file="-", text="b [MASK] [MASK]", top_k=2)
    first, second = got.removesuffix("\n\n").split("\n\n")
    assert [len(x.splitlines()) for x in (first, second)] == [7, 4]
    assert first.startswith("b [MASK] [MASK]\n  [MASK] 1\n    ")
    assert second.startswith("a [MASK]\n  [MASK] 1\n    ")


def test_probabilities_of_the_whole_vocabulary_sum_to_one(tmp_path):
    (record,) = _records(tmp_path, text="[MASK]", top_k=9999)
    probs = [c["probability"] for c in record["masks"][0]]
    assert len(probs) == 1200
    assert probs == sorted(probs, reverse=True)
    np.testing.assert_allclose(sum(probs), 1, atol=1e-5)


@pytest.mark.parametrize("chosen", ["input_file", "text"])
def test_bytes_that_are_not_utf8_are_named(chosen):
    text = {chosen: "-" if chosen == "input_file" else "\udcff [MASK]"}
    expected = "standard input, line 2: not UTF-8|--text must be UTF-8"
    with pytest.raises(ValueError, match=expected):
        _run(b"[MASK]\r\n\xff [MASK]\n", **text)


def test_command_line_answers_and_options_have_the_documented_defaults():
    given = {**_FILES, "text": "[MASK]"}
    read = programs.parse(predict_masked.Options, **given)
    assert read == predict_masked.Options(**given)
    assert predict_masked.Options(**_FILES).top_k == 5
    assert predict_masked.Options(**_FILES).do_lower_case


def test_vocabulary_and_casing_must_be_the_model_s(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(_GOLDEN / "model", folder)
    (folder / "tokenizer.json").write_text('{"do_lower_case": false}')
    with pytest.raises(ValueError, match="do_lower_case must be False"):
        _run(init_checkpoint=str(folder / "tiny.ckpt"), text="[MASK]")
    vocab = tmp_path / "vocab.txt"
    vocab.write_text(_VOCAB.read_text() + "another\n")
    expected = "1201 entries, but the model's vocab_size is 1200"
    with pytest.raises(ValueError, match=expected):
        _run(vocab_file=str(vocab), text="[MASK]")


def test_weights_that_are_not_finite_are_refused(tmp_path):
    weights = checkpoints.read(_FILES["init_checkpoint"])
    weights["bert/embeddings/LayerNorm/beta"][0] = np.nan
    checkpoints.save(str(tmp_path / "x.ckpt"), weights)
    with pytest.raises(ValueError, match=r"must be finite.*LayerNorm/beta"):
        _run(init_checkpoint=str(tmp_path / "x.ckpt"), text="[MASK]")

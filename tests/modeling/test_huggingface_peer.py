"""Folders written here, read by Hugging Face's own library, and back.

Needs an interpreter with transformers and torch, named by BERT_PEER_PYTHON;
one test needs a folder of real weights too, named by BERT_PEER_MODEL.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

from modeling import bert, checkpoints, heads
from modeling import config as config_lib
from tests.support import locations, peer
from tools import convert_checkpoint

_CONFIG_FILE = str(locations.GOLDEN / "inputs/bert_config.json")
_VOCABULARY = str(locations.GOLDEN / "inputs/vocab.txt")
# A folder of Hugging Face's, of real weights.
_MODEL = os.environ.get("BERT_PEER_MODEL")
_NUM_TEXTS = 50

pytestmark = peer.MARKS

# Reads a folder with one class, runs it on arrays, writes all outputs.
_RUN = """
import json, sys
import numpy as np, torch, transformers
folder, class_name, arrays = sys.argv[1:]
model, info = getattr(transformers, class_name).from_pretrained(
    folder, output_loading_info=True)
model.eval()
inputs = {k: torch.tensor(v).long() for k, v in np.load(arrays).items()}
with torch.no_grad():
    outputs = model(**inputs)
values = {k: v.numpy() for k, v in outputs.items() if torch.is_tensor(v)}
np.savez(arrays + ".out.npz", **values)
print(json.dumps({k: sorted(map(str, info[k]))
                  for k in ("missing_keys", "unexpected_keys")}))
"""
# Makes a model of one class with random weights, and runs it.
_MAKE = """
import sys
import numpy as np, torch, transformers
folder, class_name, config, arrays = sys.argv[1:]
torch.manual_seed(1)
config = transformers.BertConfig.from_json_file(config)
model = getattr(transformers, class_name)(config)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape) * 0.1)
model.eval()
inputs = {k: torch.tensor(v).long() for k, v in np.load(arrays).items()}
with torch.no_grad():
    outputs = model(**inputs)
model.save_pretrained(folder)
np.savez(arrays + ".out.npz",
         **{k: v.numpy() for k, v in outputs.items() if torch.is_tensor(v)})
"""
# Runs a folder's encoder, writes what every layer gives.
_HIDDEN_STATES = """
import sys
import numpy as np, torch, transformers
folder, arrays = sys.argv[1:]
model = transformers.BertModel.from_pretrained(folder).eval()
inputs = {k: torch.tensor(v).long() for k, v in np.load(arrays).items()}
with torch.no_grad():
    layers = model(**inputs, output_hidden_states=True).hidden_states
np.save(arrays + ".out.npy", np.stack([layer.numpy() for layer in layers]))
"""
_TOKENIZE = """
import json, sys
import transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps([tokenizer.tokenize(sys.argv[2]), tokenizer.model_max_length]))
"""


def _peer(program, *arguments):
    # Its imports must not see this checkout, nor its environment.
    done = subprocess.run(
        [peer.PYTHON, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=pathlib.Path(arguments[0]).parent,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _config():
    return config_lib.BertConfig.from_json_file(_CONFIG_FILE)


def _inputs(path, shape=(3, 11)):
    rng = np.random.default_rng(3)
    ids = rng.integers(1, 1200, shape)
    mask = np.ones(shape, np.int64)
    mask[..., -4:] = rng.integers(0, 2, (*shape[:-1], 4))
    segments = np.zeros(shape, np.int64)
    segments[..., 6:] = 1
    np.savez(path, input_ids=ids, attention_mask=mask, token_type_ids=segments)
    return [a.astype(np.int32) for a in (ids, mask, segments)]


def _convert(source, target, output_format="huggingface", **options):
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(source),
            output=str(target),
            output_format=output_format,
            **options,
        )
    )


def _saved(folder, model):
    folder.mkdir()
    prefix = str(folder / "model.ckpt-3")
    checkpoints.save(prefix, checkpoints.variables_by_name(model))
    (folder / "bert_config.json").write_text(json.dumps(model.config.to_dict()))
    return prefix


@pytest.mark.parametrize("batch", ["padded", "defaults"])
def test_their_pretraining_model_computes_the_release_s_outputs(
    tmp_path, batch
):
    folder = tmp_path / "hf"
    _convert(
        locations.GOLDEN / "model/tiny.ckpt",
        folder,
        bert_config_file=_CONFIG_FILE,
        vocab_file=_VOCABULARY,
    )
    golden = np.load(locations.GOLDEN / "model/forward_gelu.npz")
    names = {
        "input_ids": "input_ids",
        "input_mask": "attention_mask",
        "segment_ids": "token_type_ids",
    }
    arrays = tmp_path / "inputs.npz"
    inputs = {
        theirs: golden[f"{batch}/in/{ours}"]
        for ours, theirs in names.items()
        if f"{batch}/in/{ours}" in golden
    }
    np.savez(arrays, **inputs)
    info = json.loads(_peer(_RUN, folder, "BertForPreTraining", arrays))
    assert info["missing_keys"] == []
    # The golden checkpoint also holds the output layer of SQuAD.
    assert info["unexpected_keys"] == ["qa_outputs.bias", "qa_outputs.weight"]
    got = np.load(f"{arrays}.out.npz")
    positions = golden[f"{batch}/in/masked_lm_positions"]
    picked = np.take_along_axis(
        got["prediction_logits"], positions[..., None], axis=1
    )  # [B, P, V]
    for logits, want in (
        (picked, golden[f"{batch}/out/masked_lm_log_probs"]),
        (
            got["seq_relationship_logits"],
            golden[f"{batch}/out/next_sentence_log_probs"],
        ),
    ):
        rows = logits.reshape(want.shape).astype(np.float64)
        log_probs = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
        np.testing.assert_allclose(log_probs, want, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("make", "architecture", "shape"),
    [
        (
            lambda config: heads.BertForSequenceClassification(
                config, num_labels=3
            ),
            "BertForSequenceClassification",
            (3, 11),
        ),
        (
            lambda config: heads.BertForTokenClassification(
                config, num_labels=5
            ),
            "BertForTokenClassification",
            (3, 11),
        ),
        (heads.BertForQuestionAnswering, "BertForQuestionAnswering", (3, 11)),
        (
            heads.BertForMultipleChoice,
            "BertForMultipleChoice",
            (3, 4, 11),
        ),
    ],
    ids=["classification", "tagging", "answers", "choice"],
)
def test_their_fine_tuned_models_compute_what_ours_do(
    tmp_path, make, architecture, shape
):
    model = make(_config())
    for number, variable in enumerate(model.weights):
        rng = np.random.default_rng(number)
        noise = rng.normal(0, 0.1, variable.shape).astype(np.float32)
        variable.assign(np.asarray(variable) + noise)
    is_tagger = architecture == "BertForTokenClassification"
    _convert(
        _saved(tmp_path / "ours", model),
        tmp_path / "hf",
        task="tagging" if is_tagger else None,
    )
    config = json.loads((tmp_path / "hf/config.json").read_text())
    assert config["architectures"] == [architecture]
    arrays = tmp_path / "inputs.npz"
    outputs = model(*_inputs(arrays, shape))
    info = json.loads(_peer(_RUN, tmp_path / "hf", architecture, arrays))
    assert info["missing_keys"] == []
    assert set(info["unexpected_keys"]) <= {
        "bert.pooler.dense.bias",
        "bert.pooler.dense.weight",
    }
    got = np.load(f"{arrays}.out.npz")
    assert set(outputs) == set(got.files)
    for name, want in outputs.items():
        np.testing.assert_allclose(got[name], want, atol=1e-5, rtol=0)


def test_a_folder_that_they_wrote_loads_here(tmp_path):
    config = json.loads(pathlib.Path(_CONFIG_FILE).read_text())
    config |= {"hidden_act": "gelu_pytorch_tanh", "num_labels": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    arrays = tmp_path / "inputs.npz"
    inputs = _inputs(arrays)
    _peer(
        _MAKE,
        tmp_path / "hf",
        "BertForSequenceClassification",
        tmp_path / "config.json",
        arrays,
    )
    model = heads.BertForSequenceClassification(_config(), num_labels=3)
    report = checkpoints.load(model, str(tmp_path / "hf"))
    assert report.missing == report.unexpected == ()
    want = np.load(f"{arrays}.out.npz")["logits"]
    np.testing.assert_allclose(
        model(*inputs)["logits"], want, atol=1e-5, rtol=0
    )


def test_their_weights_return_bit_for_bit(tmp_path):
    arrays = tmp_path / "inputs.npz"
    _inputs(arrays)
    (tmp_path / "config.json").write_text(
        pathlib.Path(_CONFIG_FILE).read_text()
    )
    first, back = tmp_path / "hf", tmp_path / "back"
    _peer(
        *(_MAKE, first, "BertForPreTraining", tmp_path / "config.json", arrays)
    )
    _convert(first, tmp_path / "r", "release")
    _convert(tmp_path / "r", back)
    one, other = checkpoints.read(str(first)), checkpoints.read(str(back))
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes(), name
    info = json.loads(_peer(_RUN, back, "BertForPreTraining", arrays))
    assert info == {"missing_keys": [], "unexpected_keys": []}


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_their_tokenizer_reads_the_folder(tmp_path, do_lower_case):
    name = "vocab.txt" if do_lower_case else "vocab_cased.txt"
    config = _config().to_dict() | {"vocab_size": 1250}
    (tmp_path / "bert_config.json").write_text(json.dumps(config))
    model = heads.BertForPreTraining(
        config_lib.BertConfig.from_dict(config), objective="mlm_nsp"
    )
    _convert(
        _saved(tmp_path / "ours", model),
        tmp_path / "hf",
        vocab_file=str(locations.GOLDEN / "inputs" / name),
        do_lower_case=do_lower_case,
    )
    from vocab import tokenization

    text = "The Café of Zürich, 北京: it was closed."
    tokenizer = tokenization.FullTokenizer(
        str(locations.GOLDEN / "inputs" / name), do_lower_case
    )
    tokens, longest = json.loads(_peer(_TOKENIZE, tmp_path / "hf", text))
    assert tokens == tokenizer.tokenize(text)
    assert longest == 160


def _text_arrays(path, vocab_file):
    """Writes a batch of texts, padded; returns what our models read of it."""
    from vocab import tokenization

    tokenizer = tokenization.FullTokenizer(str(vocab_file), True)
    lines = (
        (locations.GOLDEN / "inputs/text_a.txt").read_text("utf-8").splitlines()
    )
    texts = [line for line in lines if line.strip()][:_NUM_TEXTS]
    assert len(texts) == _NUM_TEXTS
    rows = [["[CLS]", *tokenizer.tokenize(t)[:126], "[SEP]"] for t in texts]
    longest = max(map(len, rows))
    ids = np.zeros([_NUM_TEXTS, longest], np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = tokenizer.convert_tokens_to_ids(row)
        mask[number, : len(row)] = 1
    np.savez(
        path,
        input_ids=ids,
        attention_mask=mask,
        token_type_ids=np.zeros_like(ids),
    )
    return ids.astype(np.int32), mask.astype(np.int32)


@pytest.mark.skipif(not _MODEL, reason="BERT_PEER_MODEL must name a folder")
def test_real_weights_give_their_hidden_states(tmp_path):
    arrays = tmp_path / "inputs.npz"
    ids, mask = _text_arrays(arrays, f"{_MODEL}/vocab.txt")
    _peer(_HIDDEN_STATES, pathlib.Path(_MODEL).resolve(), arrays)
    want = np.load(f"{arrays}.out.npy")  # [L + 1, B, T, D]
    model = bert.BertModel(config_lib.BertConfig.from_checkpoint(_MODEL))
    report = checkpoints.load(model, _MODEL, new=["bert/pooler/.*"])
    assert report.unexpected == ()
    outputs = model(ids, mask)
    got = [outputs["embedding_output"], *outputs["all_encoder_layers"]]
    assert len(got) == len(want)
    is_real = mask == 1
    for layer, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(
            np.asarray(layer)[is_real], theirs[is_real], atol=2e-5, rtol=0
        )

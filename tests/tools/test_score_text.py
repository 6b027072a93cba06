"""Scores of texts against the definition, and against transformers."""

import io
import json
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints, config, heads
from tests.support import golden_models, locations, peer, tool_runs
from tools import score_text
from vocab import tokenization

_TEXTS = (
    "it rained all day long",
    "no",
    "the rain fell on the town, and it fell all night!",
    "it is dry . " * 12,
    "rain",
    "the old man walked to the river in the morning " * 4,
)
# Reads a folder, masks each piece in turn, one row at a time.
_PEER = """
import json, sys
import torch, transformers
folder, texts = sys.argv[1], json.loads(sys.argv[2])
tokenizer = transformers.BertTokenizer(folder + "/vocab.txt")
model = transformers.BertForMaskedLM.from_pretrained(folder).eval()
scores = []
for text in texts:
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    total = 0.0
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(masked).logits[0, place].double()
        total += logits.log_softmax(-1)[ids[0, place]].item()
    scores.append(total)
print(json.dumps(scores))
"""


def _printed(model, *texts, given=b"", **options):
    output = io.StringIO()
    score_text.run(
        score_text.Options(model=str(model), **options),
        texts,
        io.BytesIO(given),
        output,
    )
    return output.getvalue()


def _scored(model, *texts, **options):
    lines = _printed(model, *texts, format="json", **options).splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module", name="masked")
def _masked(made_once):
    return made_once(golden_models.bert, task="pretraining")


@pytest.fixture(scope="module", name="causal")
def _causal(made_once):
    return made_once(golden_models.bert, task="pretraining", attention="causal")


def _definition(folder, objective):
    """Returns a function: ids of a text to the sum of log-probabilities."""
    sizes = config.BertConfig.from_json_file(str(folder / "bert_config.json"))
    network = heads.BertForPreTraining(sizes, objective=objective)
    checkpoints.load(network, str(folder / "tiny.ckpt"))
    names = tokenization.load_vocab(str(folder / "vocab.txt"))

    def log_probability(ids, place, of):
        row = tf.constant([ids])
        logits = network(
            row, tf.ones_like(row), tf.zeros_like(row), tf.constant([[place]])
        )["masked_lm_logits"][0, 0].numpy()
        logits = logits.astype(np.float64)
        return logits[of] - np.log(np.sum(np.exp(logits)))

    def total(pieces):
        ids = [names[name] for name in ("[CLS]", *pieces, "[SEP]")]
        found = 0.0
        for place in range(1, len(ids) - 1):
            if objective == "ltr":
                found += log_probability(ids[:place], place - 1, ids[place])
            else:
                masked = [*ids]
                masked[place] = names["[MASK]"]
                found += log_probability(masked, place, ids[place])
        return found

    return total


@pytest.mark.parametrize(
    ("kind", "objective"), [("masked", "mlm"), ("causal", "ltr")]
)
def test_scores_are_those_of_a_loop_over_the_pieces(kind, objective, request):
    folder = request.getfixturevalue(kind)
    tokenizer = tokenization.FullTokenizer(str(folder / "vocab.txt"))
    total = _definition(folder, objective)
    rows = _scored(folder, *_TEXTS)
    assert [row["text"] for row in rows] == [*_TEXTS]
    for row in rows:
        pieces = tokenizer.tokenize(row["text"])
        assert row["num_pieces"] == len(pieces)
        mean = total(pieces) / len(pieces)
        assert row["score"] == pytest.approx(
            mean * len(pieces), abs=1e-5 * len(pieces)
        )
        assert row["pseudo_perplexity"] == pytest.approx(np.exp(-mean))


def test_lines_of_a_file_are_scored_in_order(masked, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("it rained\nno\n")
    alone = [_scored(masked, text)[0] for text in ("it rained", "no")]
    given = path.read_bytes()
    for rows in (
        _scored(masked, input_file=str(path)),
        _scored(masked, given=given),
        _scored(masked, given=given, input_file="-"),
    ):
        assert [row["text"] for row in rows] == ["it rained", "no"]
        for row, other in zip(rows, alone, strict=True):
            assert row["score"] == pytest.approx(other["score"], abs=1e-4)
    header, first, second = _printed(masked, input_file=str(path)).splitlines()
    assert header.split() == [*("score", "pieces", "pseudo-perplexity", "text")]
    assert first.split()[1] == "3" and first.endswith("  it rained")
    score, _, perplexity, _ = second.split()
    assert float(score) == pytest.approx(alone[1]["score"], abs=1e-3)
    assert float(perplexity) == pytest.approx(
        alone[1]["pseudo_perplexity"], rel=1e-3
    )


def test_a_text_without_pieces_or_too_long_is_named(masked, tmp_path):
    (tmp_path / "lines.txt").write_text("no\n\n")
    path = str(tmp_path / "lines.txt")
    with pytest.raises(
        ValueError, match=r"lines\.txt, line 2: The text has no"
    ):
        _printed(masked, input_file=path)
    with pytest.raises(
        ValueError,
        match="text 2: The text has 159 word pieces, and the model at most 158",
    ):
        _printed(masked, "rain", "rain " * 159)
    assert _scored(masked, "rain " * 158)[0]["num_pieces"] == 158


def test_a_model_without_probabilities_of_words_is_refused(tmp_path):
    model = golden_models.classifier(tmp_path / "run")
    with pytest.raises(ValueError, match="no output layer for masked words"):
        _printed(model, "it rained")


class TestPeer:
    pytestmark = peer.MARKS

    def test_scores_are_those_of_transformers(self, masked, tmp_path):
        tool_runs.converted(masked, tmp_path / "converted", "huggingface")
        done = subprocess.run(
            [
                *(peer.PYTHON, "-c", _PEER, str(tmp_path / "converted")),
                json.dumps(_TEXTS),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=locations.ROOT.parent,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        expected = json.loads(done.stdout.splitlines()[-1])
        for folder in (masked, tmp_path / "converted"):
            rows = _scored(folder, *_TEXTS)
            for row, other in zip(rows, expected, strict=True):
                assert row["score"] == pytest.approx(
                    other, abs=1e-4 * row["num_pieces"]
                )

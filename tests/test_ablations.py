"""Fine-tuning from left to right and below a BiLSTM, from start to end."""

import json

import pytest

from modeling import checkpoints
from tests.support import toy_sentences as toy


@pytest.mark.integration
def test_a_left_to_right_model_with_a_bilstm_learns(tmp_path):
    given = {"attention": "causal", "bilstm_head": True}
    toy.run(tmp_path, do_train=True, do_eval=True, num_train_epochs=2, **given)
    out = tmp_path / "out"
    # The word that tells may stand anywhere; guessing scores half.
    assert toy.results(out)["eval_accuracy"] > 0.8

    held = checkpoints.list_variables(str(out))
    assert held["output_weights"][0] == (2, 64)  # Twice the width of 32.
    assert "bert/pooler/dense/kernel" in held
    there = json.loads((out / "task.json").read_text())
    assert there["attention"] == "causal" and there["bilstm_head"]
    # It is used in this way afterwards.
    toy.run(tmp_path, do_predict=True)
    with pytest.raises(ValueError, match="attention is 'causal' there and"):
        toy.run(tmp_path, do_train=True)

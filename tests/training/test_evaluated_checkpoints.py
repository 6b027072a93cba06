"""Every checkpoint of a pre-training run, evaluated."""

import json
import math
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints
from tests import toy_pretraining as toy
from training import pretraining


@pytest.mark.slow
def test_every_checkpoint_is_evaluated_with_its_own_weights(tmp_path):
    toy.run(
        tmp_path,
        do_eval=True,
        eval_all_checkpoints=True,
        max_eval_steps=0,
        eval_batch_size=10,
        keep_checkpoint_max=0,
    )
    out = tmp_path / "out"
    text = (out / pretraining.CHECKPOINT_RESULTS_FILE).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    # One every five steps, and the last.
    assert [line["step"] for line in lines][-3:] == [5, 10, 13]
    losses = [line["masked_lm_loss"] for line in lines]
    assert len(set(losses)) == len(losses)
    for line in lines:
        assert line["masked_lm_perplexity"] == pytest.approx(
            math.exp(line["masked_lm_loss"])
        )
    # The last one is what the run was evaluated with at its end.
    results = dict(
        line.split(" = ")
        for line in (out / "eval_results.txt").read_text().splitlines()
    )
    assert float(results["masked_lm_loss"]) == pytest.approx(losses[-1], 1e-5)
    # Nothing is added to the file of the release.
    assert "masked_lm_perplexity" not in results


def test_broken_and_stray_checkpoints_are_left_out(
    tmp_path, monkeypatch, caplog
):
    for step in (1, 2, 3):
        prefix = tmp_path / f"model.ckpt-{step}"
        checkpoints.save(str(prefix), {"w": np.float32(step)})
    pathlib.Path(f"{prefix}.data-00000-of-00001").write_bytes(b"\0" * 4)
    shutil.copy(f"{prefix}.index", tmp_path / "model.ckpt-best.index")
    loaded = []

    def load(model, prefix):
        loaded.append(float(checkpoints.read(prefix)["w"]))

    monkeypatch.setattr(pretraining.initialization, "load_weights", load)
    losses = iter([2.0, 1000.0])
    found = pretraining.evaluate_checkpoints(
        tf.distribute.get_strategy(),
        None,
        str(tmp_path),
        lambda: {"masked_lm_loss": next(losses)},
    )
    assert loaded == [1.0, 2.0]
    assert [line["step"] for line in found] == [1, 2]
    assert f"Skipping checkpoint {tmp_path}/model.ckpt-3: " in caplog.text
    # The exponential of 1000 is no floating-point number.
    text = (tmp_path / pretraining.CHECKPOINT_RESULTS_FILE).read_text()
    perplexities = [
        json.loads(line, parse_constant=pytest.fail)["masked_lm_perplexity"]
        for line in text.splitlines()
    ]
    assert perplexities == [pytest.approx(math.exp(2.0)), None]


def test_a_folder_without_checkpoints_is_named(tmp_path, caplog):
    assert not pretraining.evaluate_checkpoints(
        tf.distribute.get_strategy(), None, str(tmp_path), pytest.fail
    )
    assert f"No checkpoint in {tmp_path} could be evaluated" in caplog.text


def test_there_is_nothing_to_evaluate_without_evaluation(tmp_path):
    with pytest.raises(ValueError, match="needs --do_eval"):
        toy.run(tmp_path, eval_all_checkpoints=True)

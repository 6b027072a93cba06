"""Trials, early stopping, frozen layers and new heads of run_classifier.py."""

import json
import shutil

import numpy as np
import pytest

from modeling import checkpoints
from tests import toy_sentences as toy
from training import checkpointing


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model that tells the toy sentences apart."""
    folder = tmp_path_factory.mktemp("toy")
    toy.run(
        folder,
        do_train=True,
    )
    return folder


def test_a_folder_of_trials_predicts_with_the_best_one(trained, tmp_path):
    out = tmp_path / "trials"
    shutil.copytree(trained / "out", out / "trial-2")
    (out / "trials.json").write_text('{"best_trial": "trial-2"}')
    toy.run(trained, output_dir=out, do_predict=True)
    best = (out / "trial-2/predictions.jsonl").read_text()
    toy.run(trained, do_predict=True)
    assert best == (trained / "out/predictions.jsonl").read_text()


@pytest.mark.slow
def test_trials_of_a_grid(trained, tmp_path):
    out = tmp_path / "trials"
    toy.run(
        trained,
        output_dir=out,
        do_train=True,
        do_eval=True,
        do_predict=True,
        num_trials=2,
        learning_rates="1e-3,1e-9",
        num_train_epochs=2,
        random_seed=12345,
    )
    summary = json.loads((out / "trials.json").read_text())
    assert summary["best_trial"] in ("trial-1", "trial-2")
    rates = [trial["learning_rate"] for trial in summary["trials"]]
    assert rates == [1e-3, 1e-3, 1e-9, 1e-9]
    assert [t["random_seed"] for t in summary["trials"]] == [12345, 12346] * 2
    # At a rate of nearly nothing, nothing is learnt.
    assert summary["by_learning_rate"][1]["median"] < summary["best"]
    best = out / summary["best_trial"]
    assert summary["best"] == pytest.approx(toy.results(best)["eval_accuracy"])
    assert len((best / "predictions.jsonl").read_text().splitlines()) == 11
    assert not (out / "trial-3/predictions.jsonl").exists()
    # Trials share a network, and are as if each were alone.
    toy.run(
        trained,
        output_dir=tmp_path / "alone",
        do_train=True,
        do_eval=True,
        learning_rate=1e-9,
        num_train_epochs=2,
        random_seed=12346,
    )
    alone, fourth = (
        checkpoints.read(checkpointing.latest(str(folder)))
        for folder in (tmp_path / "alone", out / "trial-4")
    )
    assert alone.keys() == fourth.keys()
    for name, value in alone.items():
        np.testing.assert_array_equal(fourth[name], value, err_msg=name)
    assert toy.results(tmp_path / "alone") == toy.results(out / "trial-4")


@pytest.mark.slow
def test_folds_of_a_grid(trained, tmp_path):
    out = tmp_path / "folds"
    toy.run(
        trained,
        output_dir=out,
        do_train=True,
        do_eval=True,
        num_folds=3,
        train_batch_sizes="16,32",
        train_epochs="0.5,2",
        class_weights="balanced",
    )
    summary = json.loads((out / "trials.json").read_text())
    trials = summary["trials"]
    assert len(trials) == 2 * 2 * 3
    assert [trial["fold"] for trial in trials[:4]] == [1, 2, 3, 1]
    first = summary["by_setting"][0]
    assert (first["train_batch_size"], first["num_train_epochs"]) == (16, 0.5)
    scores = [trial["eval_accuracy"] for trial in trials[:3]]
    assert first["mean"] == pytest.approx(np.mean(scores))
    assert first["standard_deviation"] == pytest.approx(np.std(scores, ddof=1))
    best = summary["best_setting"]
    assert best["mean"] == max(each["mean"] for each in summary["by_setting"])
    # Each row of the training file is held out once.
    rows = []
    for fold in (1, 2, 3):
        held_out = out / f"eval-fold-{fold}.tf_record.meta.json"
        rows += json.loads(held_out.read_text())["flags"]["held_out_rows"]
    assert sorted(rows) == list(range(320))
    # A trial of another length is as if it were alone.
    assert toy.results(out / "trial-12")["global_step"] == int(213 / 32 * 2)


def test_stops_early_and_uses_the_best(trained, tmp_path):
    out = tmp_path / "early"
    toy.run(
        trained,
        output_dir=out,
        do_train=True,
        do_eval=True,
        learning_rate=1e-12,
        eval_every_steps=3,
        early_stopping_patience=2,
        use_best_checkpoint=True,
    )
    assert toy.results(out)["global_step"] == 3
    assert (out / "model.ckpt-9.index").exists()

    # The best one holds no moments: nothing resumes there.
    with pytest.raises(ValueError, match=r"has weights only.* --output_dir"):
        toy.run(trained, output_dir=out / "best", do_train=True)

    # Without checkpoints it is a new run, to which the best one is foreign.
    for path in out.glob("model.ckpt-*"):
        path.unlink()
    (out / "checkpoint").unlink()
    with pytest.raises(ValueError, match=r"a new run in .* replaces"):
        toy.run(
            trained,
            output_dir=out,
            do_train=True,
            init_checkpoint=out / "best/model.ckpt-3",
        )
    toy.run(trained, output_dir=out, do_train=True, num_train_epochs=0.15)
    assert (out / "model.ckpt-3.index").exists()
    assert not list((out / "best").glob("*.index"))
    assert not (out / "best/best.json").exists()
    with pytest.raises(ValueError, match="has no best checkpoint"):
        toy.run(
            trained, output_dir=out, do_predict=True, use_best_checkpoint=True
        )


def test_frozen_layers_stay_and_others_learn(trained, tmp_path):
    start = trained / "out/model.ckpt-60"
    out = tmp_path / "frozen"
    toy.run(
        trained,
        output_dir=out,
        do_train=True,
        init_checkpoint=start,
        freeze_layers=1,
        num_train_epochs=0.15,
    )
    before = checkpoints.read(str(start))
    after = checkpoints.read(str(out / "model.ckpt-3"))
    weights = [n for n in after if "adam" not in n and n != "global_step"]
    for name in weights:
        is_frozen = "embeddings" in name or "layer_0" in name
        same = np.array_equal(before[name], after[name])
        # The exact gradient of a key's bias is 0.
        if not name.endswith("key/bias"):
            assert same == is_frozen, name
    assert not any("layer_0" in name for name in after if "adam" in name)


@pytest.mark.parametrize("labels", ["yes,no", "a,no,yes"])
@pytest.mark.slow
def test_head_of_another_task_is_new(trained, tmp_path, labels):
    start = trained / "out/model.ckpt-60"
    out = tmp_path / "other"
    toy.run(
        trained,
        output_dir=out,
        do_train=True,
        init_checkpoint=start,
        label_names=labels,
        learning_rate=0.0,
        num_train_epochs=0.05,
    )
    before = checkpoints.read(str(start))
    after = checkpoints.read(str(out / "model.ckpt-1"))
    pooler = "bert/pooler/dense/kernel"
    np.testing.assert_array_equal(after[pooler], before[pooler])
    assert after["output_weights"].shape[0] == labels.count(",") + 1
    assert not np.array_equal(
        after["output_weights"][-1], before["output_weights"][-1]
    )

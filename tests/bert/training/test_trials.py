"""Trials, their names, their summary, and the choice of one of them."""

import pytest

from bert.training import options as training_options
from bert.training import trials
from tests.support import programs, toy_files, toy_sentences


def _options(**changes):
    return training_options.FineTuningOptions(
        **{
            "output_dir": "out",
            "bert_config_file": "config.json",
            "vocab_file": "vocab.txt",
            "random_seed": 7,
            "do_eval": True,
            **changes,
        }
    )


def test_each_rate_gets_each_seed_and_a_folder_named_after_them():
    options = _options(learning_rates=(5e-5, 2e-5), num_trials=2)
    planned = trials.plan(options)
    assert planned == {
        f"trial-lr{rate:g}-bs32-ep3-seed{seed}": {
            "random_seed": seed,
            "train_batch_size": 32,
            "learning_rate": rate,
        }
        for rate in (5e-5, 2e-5)
        for seed in (7, 8)
    }
    assert "trial-lr5e-05-bs32-ep3-seed7" in planned
    # A single run takes the whole folder.
    assert trials.plan(_options(learning_rate=3e-5)) == {}


def test_batch_sizes_are_in_the_names_of_trials():
    planned = trials.plan(_options(train_batch_sizes=(16, 8)))
    sizes = {name: trial["train_batch_size"] for name, trial in planned.items()}
    assert sizes == {
        "trial-lr5e-05-bs16-ep3-seed7": 16,
        "trial-lr5e-05-bs8-ep3-seed7": 8,
    }


@pytest.mark.parametrize(
    ("rate", "name"),
    [
        (2e-5, "lr2e-05"),
        (5e-5, "lr5e-05"),
        (1e-3, "lr0.001"),
        (1.0, "lr1"),
        (1e30, "lr1e+30"),
        (2.0000001e-5, "lr2.0000001e-05"),
        (0.12345678, "lr0.12345678"),
    ],
)
def test_a_rate_has_its_shortest_name(rate, name):
    options = _options(learning_rates=(rate, 9.0))
    assert next(iter(trials.plan(options))) == f"trial-{name}-bs32-ep3-seed7"


def test_rates_that_differ_in_any_digit_are_two_trials():
    rates = (2e-5, 2.0000001e-5, 2.00000001e-5)
    assert len(trials.plan(_options(learning_rates=rates))) == 3
    epochs = [
        [*trials.plan(_options(num_trials=2, num_train_epochs=x))]
        for x in (3.0, 3.0000001)
    ]
    assert not {*epochs[0]} & {*epochs[1]}


def test_a_larger_grid_has_the_trials_of_a_smaller_one():
    small = {"learning_rates": (5e-5, 2e-5), "num_trials": 3}
    before = trials.plan(_options(**small))
    after = trials.plan(_options(**small | {"num_trials": 5}))
    assert len(after) == 10 and before.items() <= after.items()


def test_table_of_trials_worked_by_hand():
    names = [f"trial-lr{r}-seed{s}" for r in ("1", "2") for s in (7, 8, 9)]
    scores = [0.5, None, 0.75, 0.9, 0.8, 0.7]
    lines = [
        {"name": name, "metrics": {} if score is None else {"f1": score}}
        for name, score in zip(names, scores, strict=True)
    ]
    summary = {"metric": "f1", "best_trial": names[3], "trials": lines}
    assert [
        " ".join(line.split())
        for line in trials.table(summary, "f1").splitlines()
    ] == [
        "f1",
        "0.5000 trial-lr1-seed7",
        "failed trial-lr1-seed8",
        "0.7500 trial-lr1-seed9",
        "0.9000 trial-lr2-seed7 best",
        "0.8000 trial-lr2-seed8",
        "0.7000 trial-lr2-seed9",
        # Deviations: 0.125 times the root of 2, and 0.1.
        "0.6250 trial-lr1: mean ± 0.1768 of 2",
        "0.8000 trial-lr2: mean ± 0.1000 of 3",
    ]


def _folder_of_trials(tmp_path):
    for name in ("trial-1", "trial-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.ckpt-3.index").touch()
    (tmp_path / "trials.json").write_text('{"best_trial": "trial-2"}')
    return str(tmp_path)


@pytest.mark.parametrize(
    ("changes", "best"),
    [
        ({"do_predict": True}, "trial-2"),
        ({"do_predict": True, "init_checkpoint": "absent"}, "trial-2"),
        ({"do_train": True}, None),
        ({"num_trials": 2}, None),
        ({"learning_rates": (1.0, 2.0)}, None),
    ],
)
def test_prediction_uses_the_best_trial(tmp_path, changes, best):
    folder = _folder_of_trials(tmp_path)
    options = _options(output_dir=folder, **changes)
    assert trials.find_best(options) == (best and f"{folder}/{best}")


def test_a_damaged_summary_is_named(tmp_path):
    (tmp_path / "trials.json").write_text("{}")
    options = _options(output_dir=str(tmp_path), do_predict=True)
    with pytest.raises(ValueError, match=r"trials.json must name the best"):
        trials.find_best(options)


def test_a_folder_without_trials_is_read_itself(tmp_path):
    options = _options(output_dir=str(tmp_path), do_predict=True)
    assert trials.find_best(options) is None


@pytest.mark.integration
def test_a_grown_grid_trains_only_its_new_trials(tmp_path, caplog):
    caplog.set_level("INFO")
    grid = {"learning_rates": "1e-3,2e-4", "num_trials": 3}
    stages = {"do_train": True, "do_eval": True, "num_train_epochs": 0.05}
    out = toy_sentences.run(tmp_path, **stages, **grid)
    first = toy_files.read_json(out / "trials.json")
    assert len(first["trials"]) == 6
    assert first["metric"] == "eval_accuracy"
    assert {"learning_rate", "random_seed"} < first["trials"][0]["flags"].keys()
    caplog.clear()
    toy_sentences.run(tmp_path, **stages, **grid | {"num_trials": 5})
    assert caplog.text.count("Training is already complete") == 6
    assert caplog.text.count("the whole model starts from random") == 4
    second = toy_files.read_json(out / "trials.json")
    assert len(second["trials"]) == 10
    for trial in first["trials"]:
        assert trial in second["trials"]
    best = out / second["best_trial"]
    score = programs.results(best / "eval_results.txt")["eval_accuracy"]
    scores = [trial["metrics"]["eval_accuracy"] for trial in second["trials"]]
    assert score == pytest.approx(max(scores))
    # Of equal ones, the first.
    names = [trial["name"] for trial in second["trials"]]
    assert second["best_trial"] == names[scores.index(max(scores))]

"""Fine-tuning runs: their data and folders, trials and their summaries."""

import dataclasses
import json
import os
import types
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import config
from tasks import task
from tests import toy_data
from training import fine_tuning, task_data, task_models
from training import flags as training_flags

_LABELS = {"problem_type": "single_label", "labels": ["no", "yes"]}


def _setup(tmp_path, **options):
    (tmp_path / "words.txt").write_text("[UNK]\nword\n")
    return task_data.Setup(
        options=types.SimpleNamespace(
            output_dir=str(tmp_path / "out"),
            vocab_file=str(tmp_path / "words.txt"),
            random_seed=3,
            deterministic=False,
            do_train=True,
            max_seq_length=8,
            is_causal=False,
            ablation={},
            **{"init_checkpoint": None, **options},
        ),
        config=config.BertConfig(vocab_size=2),
        text={"vocab_sha256": "aa", "do_lower_case": True},
        vocab_size=2,
        strategy=tf.distribute.get_strategy(),
    )


def _make(setup, folder, labels=_LABELS):
    options = types.SimpleNamespace(
        **{**vars(setup.options), "output_dir": str(folder)}
    )
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    learnt = types.SimpleNamespace(
        labels=labels,
        description={"task": "toy"},
        make_objective=lambda _: types.SimpleNamespace(
            model=model, predictions=None
        ),
    )
    task_models.FineTuner(learnt, setup).start(options)


def test_a_trial_and_the_run_hold_what_it_takes_to_use_the_model(tmp_path):
    _make(_setup(tmp_path), tmp_path / "out" / "trial-2")
    for folder in (tmp_path / "out", tmp_path / "out" / "trial-2"):
        assert (folder / "vocab.txt").read_text() == "[UNK]\nword\n"
        assert json.loads((folder / "labels.json").read_text()) == _LABELS
        text = json.loads((folder / "tokenizer.json").read_text())
        assert text == {"vocab_sha256": "aa", "do_lower_case": True}
    # Answers without names leave no labels.
    _make(_setup(tmp_path), tmp_path / "other", labels=None)
    assert (tmp_path / "other" / "vocab.txt").exists()
    assert not (tmp_path / "other" / "labels.json").exists()


def test_trials_hold_one_model_in_memory(tmp_path):
    setup, made = _setup(tmp_path), []

    def make_objective(_):
        layers = [keras.Input((1,)), keras.layers.Dense(1)]
        network = keras.Sequential(layers)
        made.append(weakref.ref(network))
        return types.SimpleNamespace(model=network, predictions=None)

    learnt = types.SimpleNamespace(
        labels=None,
        description={"task": "toy"},
        make_objective=make_objective,
    )
    fine_tuner = task_models.FineTuner(learnt, setup)
    for _ in range(3):
        fine_tuner.start(setup.options)
        assert [reference() is not None for reference in made] == [
            True,
            *[False] * (len(made) - 1),
        ]


def _data_set(**more):
    return task.DataSet(
        split=task.EVAL,
        name="eval_mm",
        kind="tagging",
        made_from={"data_sha256": "bb"},
        features=(),
        examples=lambda: [],
        **more,
    )


@pytest.mark.parametrize(
    ("names", "tables"),
    # SQuAD's results have no prefix; run_ner.py scores two files.
    [(("f1",), 1), (("eval_f1",), 1), (("eval_f1", "test_f1"), 2)],
)
def test_trials_are_summarized_once_for_each_file(
    tmp_path, monkeypatch, names, tables
):
    logged = []
    monkeypatch.setattr(fine_tuning, "table", logged.append)
    runs = [
        fine_tuning.Trial(
            name=f"trial-{number}",
            setting={"learning_rate": 1e-3},
            options=types.SimpleNamespace(random_seed=number),
        )
        for number in (1, 2, 3)
    ]
    learnt = types.SimpleNamespace(
        metric="f1", options=_setup(tmp_path).options
    )
    best = fine_tuning._summarize(
        learnt,
        runs,
        [{}, *(dict.fromkeys(names, value) for value in (0.5, 0.75))],
    )
    assert best is runs[2].options
    assert len(logged) == tables


def test_records_say_what_they_depend_on():
    text = {"vocab_sha256": "aa", "do_lower_case": False}
    setup = toy_data.setup(
        "out", {"max_seq_length": 7, "vocab_size": 11, **text}
    )
    metadata = setup.metadata(_data_set())
    assert metadata.kind == "tagging"
    assert metadata.flags == {"data_sha256": "bb"}
    assert (metadata.max_seq_length, metadata.vocab_size) == (7, 11)
    assert (metadata.vocab_sha256, metadata.do_lower_case) == ("aa", False)
    assert setup.record_path("eval_mm") == "out/eval_mm.tf_record"


def _length(num_examples, batch_size, num_epochs, warmup_proportion):
    options = _trial_options(
        train_batch_size=batch_size,
        num_train_epochs=num_epochs,
        warmup_proportion=warmup_proportion,
    )
    return task_data.length(num_examples, options)


@pytest.mark.parametrize(
    ("args", "steps", "warmup", "per_epoch"),
    [
        # 87599 questions of SQuAD 1.1 with the flags of the README.
        ((87599, 12, 2.0, 0.1), 14599, 1459, 7300),
        ((10, 4, 3.0, 0.1), 7, 0, 3),
        ((10, 4, 0.5, 1.0), 1, 1, 3),
        ((3, 4, 2.0, 0.5), 1, 0, 1),
    ],
)
def test_steps_are_counted_as_released(args, steps, warmup, per_epoch):
    length = _length(*args)
    assert length.num_train_steps == steps
    assert length.num_warmup_steps == warmup
    assert length.steps_per_epoch == per_epoch
    with pytest.raises(ValueError, match="3 examples in batches of 8 for 2 ep"):
        _length(3, 8, 2.0, 0.1)
    with pytest.raises(ValueError, match="64-bit integer"):
        _length(30, 8, 1e308, 0.1)


@dataclasses.dataclass(frozen=True)
class _Records:
    files: range = range(40)
    length_step: int = 0
    packed_length: int = 0
    num_parts: int = 1

    def lengths(self):
        return np.random.default_rng(1).permutation(40) + 1


@pytest.mark.parametrize("packing", [False, True])
def test_batches_to_train_on_may_have_packed_rows(packing):
    options = _trial_options(train_batch_size=4, packing=packing)
    batches = task_data.training_batches(_Records(), options)
    assert len(batches.order.batch(3, 4)) == batches.batch_size == 4
    assert batches.source.packed_length == (48 if packing else 0)


def _trial_options(**changes):
    return training_flags.FineTuningOptions(
        **{
            "output_dir": "out",
            "bert_config_file": "config.json",
            "vocab_file": "vocab.txt",
            "random_seed": 7,
            **changes,
        }
    )


def _plan(rates=(5e-5, 2e-5), num_trials=2):
    options = _trial_options(learning_rates=rates, num_trials=num_trials)
    return fine_tuning.plan_run(options)


def test_each_rate_gets_each_seed_and_a_folder():
    runs = _plan()
    assert [
        (r.setting["learning_rate"], r.options.random_seed) for r in runs
    ] == [
        *((5e-5, 7), (5e-5, 8)),
        *((2e-5, 7), (2e-5, 8)),
    ]
    assert [run.options.output_dir for run in runs] == [
        os.path.join("out", f"trial-{n}") for n in (1, 2, 3, 4)
    ]
    # A single run takes the whole folder.
    (run,) = _plan(rates=(1e-3,), num_trials=1)
    assert (run.options.output_dir, run.name) == ("out", "")


def test_each_run_has_options_of_its_own():
    options = _trial_options(learning_rates=(5e-5, 2e-5))
    runs = fine_tuning.plan_run(options)
    assert [run.name for run in runs] == ["trial-1", "trial-2"]
    assert [run.options for run in runs] == [
        dataclasses.replace(
            options,
            output_dir=os.path.join("out", f"trial-{n}"),
            learning_rate=r,
        )
        for n, r in ((1, 5e-5), (2, 2e-5))
    ]
    alone = _trial_options(learning_rate=3e-5)
    assert fine_tuning.plan_run(alone)[0].options == alone


def test_summary_of_runs_worked_by_hand():
    values = [0.5, 0.9, 0.8, 0.6]
    results = [{"f1": value, "loss": 1.0} for value in values]
    summary = fine_tuning.summarize(_plan(), results, "f1")
    assert summary["best_trial"] == "trial-2"
    assert summary["best"] == 0.9
    assert summary["median"] == pytest.approx(0.7)
    assert summary["mean"] == pytest.approx(0.7)
    # Squares of 0.2, 0.2, 0.1, 0.1 over 3.
    assert summary["standard_deviation"] == pytest.approx((0.1 / 3) ** 0.5)
    assert [
        (row["learning_rate"], row["median"])
        for row in summary["by_learning_rate"]
    ] == [(5e-5, 0.7), (2e-5, pytest.approx(0.7))]
    # Of equal runs the first is the best.
    equal = fine_tuning.summarize(_plan(), 2 * results[:2], "f1")
    assert equal["best_trial"] == "trial-2"
    assert "best 0.9000 (trial-2)" in fine_tuning.table(equal)


def test_a_run_without_a_score_is_left_out():
    runs = _plan(rates=(1.0, 5e-5, 2e-5))
    scores = (None, None, 0.9, None, 0.7, 0.8)
    results = [{} if x is None else {"f1": x} for x in scores]
    summary = fine_tuning.summarize(runs, results, "f1")
    assert summary["best_trial"] == "trial-3"
    assert (summary["mean"], summary["median"]) == pytest.approx((0.8, 0.8))
    assert summary["standard_deviation"] == pytest.approx(0.1)
    assert (summary["num_trials"], summary["num_scored"]) == (6, 3)
    assert ["f1" in t for t in summary["trials"]] == [0, 0, 1, 0, 1, 1]
    first, second, third = summary["by_setting"]
    assert first == {**runs[0].setting, "num_trials": 2, "num_scored": 0}
    assert (second["mean"], second["standard_deviation"]) == (0.9, 0.0)
    assert third["mean"] == pytest.approx(0.75)
    assert summary["best_setting"] == second
    lines = [
        " ".join(line.split()[1:])
        for line in fine_tuning.table(summary).splitlines()
    ]
    assert lines[1] == "1.0e+00 32 3 7 -"
    assert lines[3] == "5.0e-05 32 3 7 0.9000 best"
    assert lines[7] == "1.0e+00 32 3 - 0 of 2 runs"
    assert lines[8] == "5.0e-05 32 3 0.9000 ± 0.0000 1 of 2 runs best"
    assert lines[9] == "2.0e-05 32 3 0.7500 ± 0.0707"
    assert lines[10].endswith("best 0.9000 (trial-3), 3 of 6 failed")


def _folder_of_trials(
    tmp_path, summary=None, *, checkpoints=("trial-1", "trial-2")
):
    for name in checkpoints:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "model.ckpt-3.index").touch()
    if summary is not None:
        (tmp_path / "trials.json").write_text(json.dumps(summary))
    return _trial_options(output_dir=str(tmp_path))


@pytest.mark.parametrize(
    "summary",
    [
        {"best_trial": "trial-2"},
        {"eval": {"best_trial": "trial-2"}, "test": {}},
    ],
)
@pytest.mark.parametrize("start", [None, "bert_model.ckpt"])
def test_prediction_uses_the_best_trial(tmp_path, summary, start):
    options = _folder_of_trials(tmp_path, summary)
    options = dataclasses.replace(options, init_checkpoint=start)
    best = fine_tuning.with_best_trial(options)
    assert best == dataclasses.replace(
        options, output_dir=os.path.join(options.output_dir, "trial-2")
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"do_train": True},
        {"num_trials": 2},
        {"learning_rates": (1.0, 2.0)},
        {"train_batch_sizes": (8, 16)},
        {"train_epochs": (1.0, 2.0)},
    ],
)
def test_other_runs_keep_their_folder(tmp_path, changes):
    options = _folder_of_trials(tmp_path, {"best_trial": "trial-2"})
    options = dataclasses.replace(options, **changes)
    assert fine_tuning.with_best_trial(options) is options


def test_a_checkpoint_of_the_folder_goes_before_its_trials(tmp_path):
    options = _folder_of_trials(
        tmp_path, {"best_trial": "trial-2"}, checkpoints=["."]
    )
    assert fine_tuning.with_best_trial(options) is options
    (tmp_path / "empty").mkdir()
    options = dataclasses.replace(options, output_dir=str(tmp_path / "empty"))
    assert fine_tuning.with_best_trial(options) is options


@pytest.mark.parametrize(
    "summary", [None, {}, [], {"best_trial": 3}, {"best_trial": "trial-9"}]
)
def test_trials_without_a_best_one_are_named(tmp_path, summary):
    options = _folder_of_trials(tmp_path, summary)
    with pytest.raises(
        ValueError, match=r"trial-1, trial-2.*Pass --output_dir=\S+/trial-1"
    ):
        fine_tuning.with_best_trial(options)

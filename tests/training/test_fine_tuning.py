"""Fine-tuning runs: their length, their data, the folders of their models."""

import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import config
from tasks import task
from tests import toy_data
from training import (
    fine_tuning,
    record_order,
    task_data,
    task_models,
    workers,
)

_LABELS = {"problem_type": "single_label", "labels": ["no", "yes"]}


def _setup(tmp_path, **options):
    (tmp_path / "words.txt").write_text("[UNK]\nword\n")
    return task_data.Setup(
        options=types.SimpleNamespace(
            output_dir=str(tmp_path / "out"),
            vocab_file=str(tmp_path / "words.txt"),
            random_seed=3,
            deterministic=False,
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
        make_objective=lambda _: types.SimpleNamespace(
            model=model, predictions=None
        ),
    )
    task_models.Model(setup).start(learnt, options)


def test_a_trial_and_the_run_hold_what_it_takes_to_use_the_model(tmp_path):
    _make(_setup(tmp_path), tmp_path / "out" / "trial-2")
    for folder in (tmp_path / "out", tmp_path / "out" / "trial-2"):
        assert (folder / "vocab.txt").read_text() == "[UNK]\nword\n"
        assert json.loads((folder / "labels.json").read_text()) == _LABELS
        text = json.loads((folder / "tokenizer.json").read_text())
        assert text == {"vocab_sha256": "aa", "do_lower_case": True}


def test_answers_without_names_leave_no_labels(tmp_path):
    _make(_setup(tmp_path), tmp_path / "out", labels=None)
    assert (tmp_path / "out" / "vocab.txt").exists()
    assert not (tmp_path / "out" / "labels.json").exists()


@pytest.mark.parametrize("is_chief", [True, False])
def test_all_workers_stop_where_the_chief_refuses_a_folder(
    tmp_path, monkeypatch, is_chief
):
    given = tmp_path / "given"
    given.mkdir()
    (given / "tokenizer.json").write_text('{"do_lower_case": false}')
    setup = _setup(tmp_path, init_checkpoint=str(given / "model.ckpt-9"))

    class Communicator:
        def __init__(self, strategy):
            self.is_chief = is_chief

        def all_reduce_max(self, number):
            assert number == int(is_chief)
            return 1

    monkeypatch.setattr(workers, "Communicator", Communicator)
    match = "do_lower_case was" if is_chief else "refused"
    with pytest.raises(ValueError, match=match):
        _make(setup, tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
            fold=0,
            options=types.SimpleNamespace(random_seed=number),
        )
        for number in (1, 2)
    ]
    learnt = types.SimpleNamespace(
        metric="f1", writes_everything=False, options=_setup(tmp_path).options
    )
    best = fine_tuning._summarize(
        learnt,
        runs,
        [dict.fromkeys(names, value) for value in (0.5, 0.75)],
        constant=0.25,
    )
    assert best is runs[1].options
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
    length = task_data.length(*args)
    assert length.num_train_steps == steps
    assert length.num_warmup_steps == warmup
    assert length.steps_per_epoch == per_epoch


def test_a_run_without_a_step_is_refused():
    with pytest.raises(ValueError, match="3 examples in batches of 8 for 2 ep"):
        task_data.length(3, 8, 2.0, 0.1)


def test_files_get_their_share_of_the_stream():
    data = task.Data(
        data_set=_data_set(examples_of_files=[2, 3]),
        source=None,
        rows_per_example=np.array([1, 2, 0, 4, 1]),
        read=None,
    )
    assert task_data.parts(data, 1.5) == (
        record_order.Part(num_records=3, num_taken=3),
        record_order.Part(num_records=5, num_taken=4),
    )

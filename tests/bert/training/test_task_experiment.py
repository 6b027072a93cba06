"""The runs of a task: their steps, their memory and failing outputs."""

import types
import weakref

import keras
import numpy as np
import pytest

from bert.models import describing
from bert.models import description as description_lib
from bert.tasks import task
from bert.training import failures, task_experiment
from bert.training import options as training_options
from modeling import config


class _Toy(task.Task):
    """A task of which the network is one layer."""

    kind, metric = "toy", "f1"
    make_objective = decode = metrics = write_answers = None

    def data_sets(self, split):
        return []


def _options(folder, **changes):
    values = {
        "output_dir": str(folder),
        "bert_config_file": "config.json",
        "vocab_file": "words.txt",
        "do_predict": True,
        "max_seq_length": 5,
        **changes,
    }
    return training_options.SequenceOptions(**values)


def _experiment(folder, **changes):
    tokenizer = types.SimpleNamespace(vocab_sha256="0", vocab_size=9)
    toy = _Toy(_options(folder, **changes), tokenizer)
    model = describing.PlannedModel(
        config=config.BertConfig(vocab_size=2),
        description=description_lib.Description(),
    )
    return task_experiment.TaskExperiment(toy, model)


def _data(num_records, **data_set):
    values = {"counts_examples": False, "split": "eval", "name": "eval"}
    return types.SimpleNamespace(
        data_set=types.SimpleNamespace(**values | data_set),
        source=types.SimpleNamespace(files=range(num_records)),
        rows_per_example=np.ones(5, np.int64),
    )


def test_trials_hold_one_model_in_memory(tmp_path):
    experiment = _experiment(tmp_path)
    created = []

    def make_objective(_):
        layers = [keras.Input((1,)), keras.layers.Dense(1)]
        network = keras.Sequential(layers)
        created.append(weakref.ref(network))
        return types.SimpleNamespace(model=network)

    experiment._task.make_objective = make_objective
    for _ in range(3):
        experiment.start()
        assert [reference() is not None for reference in created] == [
            True,
            *[False] * (len(created) - 1),
        ]


@pytest.mark.parametrize(("split", "size"), [("eval", 3), ("predict", 5)])
@pytest.mark.parametrize("packing", [False, True])
def test_each_split_has_its_batch_size(tmp_path, split, size, packing):
    options = {"eval_batch_size": 3, "predict_batch_size": 5}
    experiment = _experiment(tmp_path, packing=packing, **options)
    experiment._task.decode = lambda data, outputs: outputs
    calls = []

    def predict(source, **values):
        calls.append(values)
        return {"logits": np.zeros(2, np.float32)}

    experiment._predictor = types.SimpleNamespace(predict=predict)
    experiment._answer(_data(2, split=split))
    assert calls == [{"batch_size": size, "by_length": packing}]


def test_a_data_set_without_records_needs_no_network(tmp_path):
    experiment = _experiment(tmp_path)
    experiment._task.decode = lambda data, outputs: (data, outputs)
    empty = _data(0)
    assert experiment._answer(empty) == (empty, {})


def test_predictions_are_compiled_as_the_flag_says(tmp_path, monkeypatch):
    chosen = []

    def choose(strategy, jit_compile):
        chosen.append(jit_compile)
        return "mode"

    def predictor(strategy, objective, mode):
        assert (objective, mode) == ("objective", "mode")
        scores = {"logits": np.zeros(2, np.float32)}
        return types.SimpleNamespace(predict=lambda *_, **__: scores)

    experiment = _experiment(tmp_path, jit_compile="false")
    experiment._task.decode = lambda data, outputs: outputs
    experiment._objective = "objective"
    monkeypatch.setattr(task_experiment.devices, "execution_mode", choose)
    monkeypatch.setattr(task_experiment.prediction, "Predictor", predictor)
    for _ in range(2):
        experiment._answer(_data(2))
    assert chosen == ["false"]


def test_each_batch_size_of_a_grid_must_divide(tmp_path):
    options = {
        "do_train": True,
        "do_eval": True,
        "num_accumulation_steps": 2,
        "train_batch_size": 4,
    }
    with pytest.raises(ValueError, match="got 3 and 1 times 2"):
        _experiment(tmp_path, train_batch_sizes=(4, 3), **options)


def test_the_first_held_out_data_set_is_scored_while_training(tmp_path):
    experiment = _experiment(tmp_path)
    first, second = _data(1), _data(2)
    experiment.data = {"eval": [first, second]}
    experiment._answer = lambda data: len(data.source.files)
    experiment._task.metrics = lambda data, answers: {"f1": answers}
    assert experiment.evaluate() == {"f1": 1}


def test_labeled_data_alone_have_results(tmp_path):
    experiment = _experiment(tmp_path)
    experiment.splits = ("eval", "predict")
    experiment.data = {
        "eval": [
            _data(1, name="eval", has_labels=True),
            _data(2, name="eval_other", has_labels=True),
        ],
        "predict": [_data(3, name="predict", has_labels=False)],
    }
    written = []
    experiment._answer = lambda data: len(data.source.files)
    experiment._task.write_answers = lambda data, answers, folder: (
        written.append((data.data_set.name, answers, folder))
    )
    experiment._task.results = lambda data, answers: {
        data.data_set.name: float(answers)
    }
    results = experiment.write_results(str(tmp_path), 7, None)
    assert results == {"eval": 1.0, "eval_other": 2.0}
    folder = str(tmp_path)
    assert written == [
        ("eval", 1, folder),
        ("eval_other", 2, folder),
        ("predict", 3, folder),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["eval_results.txt"]
    text = (tmp_path / "eval_results.txt").read_text()
    assert text == "eval = 1.0\neval_other = 2.0\nglobal_step = 7\n"


def test_outputs_that_are_not_finite_are_an_error_of_the_run(tmp_path):
    experiment = _experiment(tmp_path)
    experiment._task.decode = lambda data, outputs: outputs["logits"].tolist()
    experiment._predictor = types.SimpleNamespace(
        predict=lambda *_, **__: scores
    )
    for name in ("logits", "losses"):
        scores = {
            "logits": np.array([0.5, 2.0], np.float32),
            "losses": np.array([0.5, 2.0], np.float32),
        }
        assert experiment._answer(_data(2)) == [0.5, 2.0]
        scores[name][1] = np.inf
        with pytest.raises(
            failures.NonFiniteOutputError, match=f"{name} is not, for eval"
        ):
            experiment._answer(_data(2))

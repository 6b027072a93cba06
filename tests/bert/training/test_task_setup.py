"""The setup of a task's runs, and its answers."""

import dataclasses
import types

import numpy as np
import pytest

from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.records import reading, tfrecords
from bert.tasks import task
from bert.training import failures, task_setup
from bert.training import options as training_options
from modeling import config


class _Toy(task.Task):
    """A task whose answers are its outputs."""

    kind, metric = "toy", "f1"
    make_objective = metrics = None

    def data_sets(self, split):
        return []

    def decode(self, data, outputs):
        return outputs or data.data_set.name

    def write_answers(self, data, answers, output_dir):
        with open(f"{output_dir}/answers.txt", "a") as file:
            file.write(f"{data.data_set.name} {answers}\n")

    def results(self, data, answers):
        return {f"length_of_{answers}": float(len(answers))}


def _toy(folder, **changes):
    values = {
        "output_dir": str(folder),
        "bert_config_file": "config.json",
        "vocab_file": "words.txt",
        "do_predict": True,
        "max_seq_length": 5,
        **changes,
    }
    return _Toy(training_options.SequenceOptions(**values), None)


_NO_RECORDS = reading.RecordSource(
    files=tfrecords.RecordFiles([], may_be_empty=True),
    features=(),
    vocab_size=1,
)


def _data(name, source=_NO_RECORDS, *, has_labels=True):
    data_set = task.DataSet(
        split=name.partition("_")[0],
        name=name,
        kind="toy",
        made_from={},
        features=(),
        examples=list,
        has_labels=has_labels,
    )
    return task.Records(
        data_set=data_set, source=source, rows_per_example=np.ones(5, np.int64)
    )


def test_each_batch_size_of_a_grid_must_divide(tmp_path):
    toy = _toy(
        tmp_path,
        do_train=True,
        do_eval=True,
        num_accumulation_steps=2,
        train_batch_size=4,
        train_batch_sizes=(4, 3),
    )
    planned = folder_lib.PlannedModel(
        config=config.BertConfig(vocab_size=2),
        description=description_lib.Description(),
    )
    with pytest.raises(ValueError, match="got 3 and 1 times 2"):
        task_setup.setup(toy, planned)


def test_labeled_data_alone_have_results(tmp_path):
    """The data sets have no records, and so need no network."""
    data = {
        "eval": [_data("eval"), _data("eval_other")],
        "predict": [_data("predict", has_labels=False)],
    }
    answering = task_setup.Answering(None, _toy(tmp_path), data)
    results = answering.write_results(
        None, str(tmp_path), 7, ("eval", "predict"), None
    )
    assert results == {"length_of_eval": 4.0, "length_of_eval_other": 10.0}
    text = (tmp_path / "answers.txt").read_text()
    assert text == "eval eval\neval_other eval_other\npredict predict\n"
    text = (tmp_path / "eval_results.txt").read_text()
    assert text == (
        "global_step = 7\nlength_of_eval = 4.0\nlength_of_eval_other = 10.0\n"
    )
    assert not (tmp_path / "test_results.txt").exists()


def test_outputs_that_are_not_finite_are_an_error_of_the_run(tmp_path):
    """Training ends at such a loss, so no run shows it."""
    answering = task_setup.Answering(None, _toy(tmp_path), {})
    scores = {
        "logits": np.array([0.5, 2.0], np.float32),
        "losses": np.array([0.5, np.inf], np.float32),
    }
    answering._predictor = types.SimpleNamespace(
        predict=lambda *_, **__: scores
    )
    path = str(tmp_path / "records")
    tfrecords.write_batches([path], [{"x": np.zeros((2, 1), int)}])
    source = dataclasses.replace(
        _NO_RECORDS, files=tfrecords.RecordFiles([path])
    )
    with pytest.raises(
        failures.NonFiniteOutputError, match="losses is not, for eval"
    ):
        answering._answer(None, _data("eval", source))

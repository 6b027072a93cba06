"""The runs of a task: their steps, their memory and failing outputs."""

import types

import pytest

from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import task
from bert.training import options as training_options
from bert.training import task_experiment
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
    model = folder_lib.PlannedModel(
        config=config.BertConfig(vocab_size=2),
        description=description_lib.Description(),
    )
    return task_experiment.TaskExperiment(toy, model)


def test_each_batch_size_of_a_grid_must_divide(tmp_path):
    options = {
        "do_train": True,
        "do_eval": True,
        "num_accumulation_steps": 2,
        "train_batch_size": 4,
    }
    with pytest.raises(ValueError, match="got 3 and 1 times 2"):
        _experiment(tmp_path, train_batch_sizes=(4, 3), **options)

"""The speed comparison: order of the runs, table rows, counted operations."""

import dataclasses
import json
import math

import numpy as np
import pytest

from benchmarks import contenders, ours, speed
from tests import programs, toy_config

_SIZES = toy_config.sizes(num_hidden_layers=3)


def _job(**others):
    values = {
        "kind": "pretraining",
        "sizes": _SIZES,
        "batch_size": 4,
        "max_seq_length": 6,
        "max_predictions_per_seq": 2,
    }
    return contenders.Job(**{**values, **others})


def test_order_is_the_file_s_or_by_falling_length():
    job = _job(lengths=[3, 7, 5, 7], batch_size=3)
    assert job.batches() == [[3, 7, 5], [7]]
    job = dataclasses.replace(job, by_length=True)
    assert job.batches() == [[7, 7, 5], [3]]


def _operations(job):
    return sum(
        count * 2 * math.prod(product)
        for product, count in ours.products_of(job).items()
    )


def _layers(num_rows, length, count=3):
    """Counts the operations of layers, forward."""
    return count * (
        2 * num_rows * length * (4 * 12 * 12 + 2 * 12 * 17)  # Dense.
        + 2 * 2 * num_rows * length * length * 12  # Two of heads.
    )


def _classifier(num_rows, length):
    """Counts those of three layers, of which the last is read at [CLS]."""
    last = (
        2 * num_rows * length * 12 * 24  # Keys and values.
        + 2 * num_rows * (2 * 12 * 12 + 2 * 12 * 17)
        + 2 * 2 * num_rows * length * 12
    )
    return _layers(num_rows, length, count=2) + last


def test_products_count_every_multiplication_three_times():
    vocabulary = 2 * (4 * 2) * 12 * 31
    assert _operations(_job()) == 3 * (_layers(4, 6) + vocabulary)
    assert _operations(_job(kind="fine_tuning")) == 3 * _classifier(4, 6)
    # Those of prediction are of the longest text of each batch.
    job = _job(kind="prediction", lengths=[3, 5, 2, 2, 4], by_length=True)
    assert job.batches() == [[5, 4, 3, 2], [2]]
    assert _operations(job) == _classifier(4, 5) + _classifier(1, 2)


class _Fake:
    def __init__(self, seconds, turns, absent=None):
        self.absent = absent
        self._seconds, self._turns = iter(seconds), turns

    def turn(self):
        self._turns.append(self)
        return next(self._seconds)


def test_contenders_alternate_and_medians_are_compared():
    turns = []
    first, second = _Fake([1, 9, 2], turns), _Fake([4, 4, 7], turns)
    third = _Fake([], turns, absent="not installed")
    running = {"a": first, "b": second, "c": third}
    assert contenders.alternate(running, 3) == {"a": 2, "b": 4}
    assert turns == [first, second] * 3


def test_row_has_our_time_and_ratios_to_it():
    medians = {"this project": 0.5, "Hugging Face": 1.0, "floor": 0.375}
    assert speed.row("step", medians) == [
        *("step", "500.0 ms", "2.00", "", "", "", "0.75")
    ]
    assert speed.row("run", {"this project": 12.345})[1] == "12.35 s"
    with pytest.raises(ValueError, match=r"must be one of .*; got 'sleep'"):
        speed.main(speed.Options(measurements=("help", "sleep")))


def test_text_is_cut_after_a_document(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("one\ntwo\n\nthree\n\nfour\n")
    speed._cut(str(source), str(target), 18)
    assert target.read_text() == "one\ntwo\n\nthree\n\n"
    speed._cut(str(source), str(target), 6)
    assert target.read_text() == "one\ntw"


def test_a_command_is_timed_and_its_failure_shown():
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    command = contenders.Command(lambda _: ["-c", spin], of_processor=True)
    assert 0.2 < command.turn() < 30
    wrong = contenders.Command(lambda _: ["-c", "raise KeyError('here')"])
    with pytest.raises(RuntimeError, match="KeyError: 'here'"):
        wrong.turn()


@pytest.mark.slow
def test_table_has_a_row_for_each_measurement(tmp_path, capsys):
    text_file = tmp_path / "text.txt"
    text_file.write_text("A dog barked.\nIt ran.\n\nA cat sat.\n\n" * 20)
    config_file = tmp_path / "bert.json"
    config_file.write_text(
        json.dumps(
            _SIZES | {"vocab_size": 30522, "max_position_embeddings": 128}
        )
    )
    speed.main(
        speed.Options(
            text_file=str(text_file),
            bert_config_file=str(config_file),
            batch_size=4,
            num_texts=6,
            rounds=1,
        )
    )
    text = capsys.readouterr().out
    rows = [line.split(" | ") for line in text.splitlines()[4:-1]]
    assert [row[0].strip("| ") for row in rows] == list(speed.MEASUREMENTS)
    assert all(float(row[1].split()[0]) > 0 for row in rows)


def test_rows_are_a_batch_of_the_models_features():
    rows = _job().rows()
    assert {name: row.shape for name, row in rows.items()} == {
        "input_ids": (4, 6),
        "input_mask": (4, 6),
        "segment_ids": (4, 6),
        "masked_lm_positions": (4, 2),
        "masked_lm_ids": (4, 2),
        "masked_lm_weights": (4, 2),
        "next_sentence_labels": (4, 1),
    }
    assert rows["masked_lm_weights"].dtype == np.float32
    assert set(_job(kind="fine_tuning").rows()) == {
        *("input_ids", "input_mask", "segment_ids", "label_ids")
    }


def test_a_peer_that_is_not_installed_says_so():
    script = (
        "import sys; sys.modules['torch'] = None; "
        "from benchmarks import contenders; "
        "contenders.serve('peers.hugging_face', sys.argv[1])"
    )
    job = json.dumps({"kind": "pretraining", "sizes": {}, "batch_size": 1})
    done = programs.python("-c", script, job, check=True)
    assert done.stdout.startswith("absent ")
    assert "torch" in done.stdout


@pytest.mark.slow
def test_a_contender_that_fails_shows_why():
    with pytest.raises(RuntimeError, match="KeyError"):
        contenders.Contender("ours.floor", _job(kind="pretraining", sizes={}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["pretraining", "fine_tuning", "span_extraction", "prediction"]
)
def test_this_project_does_every_job(kind):
    contender = contenders.Contender(
        "ours.this_project", _job(kind=kind, lengths=[3, 5, 2])
    )
    assert contender.turn() > 0
    contender.close()


@pytest.mark.slow
def test_a_step_on_jax_lowers_its_loss(tmp_path):
    pytest.importorskip("jax")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(_SIZES))
    script = (
        "from benchmarks import jax_step; "
        "losses = jax_step.measure(jax_step.Options(batch_size=4, "
        "max_seq_length=6, max_predictions_per_seq=2, rounds=200, "
        f"bert_config_file={str(path)!r}, precision='float32')); "
        "assert losses[-1] < losses[0] - 0.05, losses"
    )
    done = programs.python(
        "-c", script, env={"KERAS_BACKEND": "jax", "PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, done.stderr[-2000:]

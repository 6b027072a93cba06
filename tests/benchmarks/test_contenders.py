"""The speed comparison: order of the runs, table rows, counted operations."""

import dataclasses
import json
import math

import pytest

from benchmarks import contenders, ours, speed
from tests.support import locations, programs, toy_config, toy_files

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


def test_products_are_those_of_the_models_graph():
    import tensorflow as tf

    from modeling import config, heads

    model = heads.BertForPreTraining(config.BertConfig(**_SIZES))
    rows = tf.TensorSpec([4, 6], tf.int32)
    function = tf.function(model.call, autograph=False).get_concrete_function(
        rows, rows, rows, tf.TensorSpec([4, 2], tf.int32)
    )
    counted = 0
    for op in function.graph.get_operations():
        if op.type in ("MatMul", "BatchMatMulV2"):
            left = op.inputs[0].shape
            side = "transpose_a" if op.type == "MatMul" else "adj_x"
            inner = left[-2 if op.get_attr(side) else -1]
            counted += inner * math.prod(op.outputs[0].shape)
    num_heads = 4 * (12 * 12 + 2 * 12)  # Pooler and next sentence.
    more = num_heads + 4 * 2 * 12 * 12  # The transform of the words.
    segments = 4 * 6 * 2 * 12
    products = sum(map(math.prod, ours.products_of(_job())))
    assert products == 3 * (counted - more - segments)


class _Fake:
    def __init__(self, seconds, turns):
        self._seconds, self._turns = iter(seconds), turns

    def turn(self):
        self._turns.append(self)
        seconds = next(self._seconds)
        return contenders.Cost(seconds, 2 * seconds)


def test_contenders_alternate_and_medians_are_compared():
    turns = []
    first, second = _Fake([1, 9, 2], turns), _Fake([4, 4, 7], turns)
    medians = contenders.alternate({"a": first, "b": second}, 3)
    assert medians == {"a": (2, 4), "b": (4, 8)}
    assert turns == [first, second] * 3


def test_row_has_our_time_and_ratios_to_it():
    medians = {
        "this project": contenders.Cost(0.5, 0.8),
        "Hugging Face": contenders.Cost(1.0, 1.2),
    }
    row = speed.row("step", medians)
    assert row[:2] == ["step", "0.500 / 0.800 s"]
    assert row[4] == "2.00 / 1.50"
    assert not any(row[5:])


def test_text_is_cut_after_a_document(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("one\ntwo\n\nthree\n\nfour\n")
    speed.cut(str(source), str(target), 18)
    assert target.read_text() == "one\ntwo\n\nthree\n\n"
    speed.cut(str(source), str(target), 6)
    assert target.read_text() == "one\ntw"


@pytest.mark.slow
def test_table_has_a_row_for_each_measurement(tmp_path, capsys, monkeypatch):
    # Smaller, so that it takes seconds.
    for name, value in {
        "_BATCH_SIZE": 4,
        "_NUM_TEXTS": 6,
        "_ROUNDS": 1,
    }.items():
        monkeypatch.setattr(speed, name, value)
    text_file = tmp_path / "text.txt"
    text_file.write_text("A dog barked.\nIt ran.\n\nA cat sat.\n\n" * 5000)
    config_file = tmp_path / "bert.json"
    toy_files.write_json(
        config_file,
        _SIZES | {"vocab_size": 30522, "max_position_embeddings": 128},
    )
    speed.main(
        speed.Options(
            text_file=str(text_file),
            bert_config_file=str(config_file),
        )
    )
    rows = _rows(capsys)
    assert [row[0].strip("| ") for row in rows] == list(speed.MEASUREMENTS)
    assert all(float(row[1].split()[0]) > 0 for row in rows)
    # Some of them, and another version in another column.
    speed.main(
        speed.Options(
            text_file=str(text_file),
            measurements=("tokenization",),
            other_clone=str(locations.ROOT),
        )
    )
    (row,) = _rows(capsys)
    column = 1 + list(speed.COLUMNS).index("other clone")
    assert row[0].strip("| ") == "tokenization"
    assert all(float(ratio) > 0 for ratio in row[column].split(" / "))


def _rows(capsys):
    text = capsys.readouterr().out
    return [line.split(" | ") for line in text.splitlines()[4:]]


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


def test_a_contender_without_memory_says_what_to_leave_out(tmp_path):
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    with pytest.raises(
        contenders.OutOfMemoryError,
        match=r"benchmarks\.ours\.floor was killed, .* leave out --peers",
    ):
        contenders.Contender("ours.floor", _job(), python=str(killed))


@pytest.mark.slow
def test_a_contender_that_fails_shows_why():
    with pytest.raises(RuntimeError, match="KeyError"):
        contenders.Contender("ours.floor", _job(kind="pretraining", sizes={}))


_EARLIER = """
import json, sys

assert json.loads(sys.argv[2]) == {"kind": "tokenization"}
print("ready", flush=True)
for _ in sys.stdin:
    print("done", flush=True)
"""


def test_an_earlier_version_may_know_fewer_fields(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/contenders.py").write_text(_EARLIER)
    contender = contenders.Contender(
        "ours.this_project",
        contenders.Job(kind="tokenization"),
        clone=tmp_path,
    )
    assert contender.absent is None
    assert contender.turn().seconds > 0
    contender.close()

"""Turns, tables and counted products of the benchmarks of speed."""

import json
import pathlib
import subprocess
import sys

import pytest

from benchmarks import contenders, machine

_ROOT = pathlib.Path(__file__).parents[2]
_SIZES = {
    "vocab_size": 50,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}


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
    lengths = [3, 7, 5, 7]
    assert _job(lengths=lengths).order() == [0, 1, 2, 3]
    assert _job(lengths=lengths, by_length=True).order() == [1, 3, 2, 0]


def test_products_count_every_multiplication_three_times():
    forward = 3 * (
        2 * 24 * (8 * 24 + 8 * 8 + 2 * 8 * 16)  # Dense, of 24 rows.
        + 2 * 2 * 8 * 6 * 6 * 4  # Two of heads of 4, 4 x 2 groups.
    )
    vocabulary = 2 * (4 * 2) * 8 * 50
    products = machine.products_of(_job())
    assert sum(p.operations for p in products) == 3 * (forward + vocabulary)
    shorter = machine.products_of(_job(kind="fine_tuning"))
    assert sum(p.operations for p in shorter) == 3 * forward


class _Fake:
    def __init__(self, seconds, turns, absent=None):
        self.absent = absent
        self._seconds, self._turns = iter(seconds), turns

    def turn(self):
        self._turns.append(self)
        return next(self._seconds)


def test_contenders_take_turns_and_medians_count():
    turns = []
    first, second = _Fake([1, 9, 2], turns), _Fake([4, 4, 7], turns)
    third = _Fake([], turns, absent="not installed")
    running = {"a": first, "b": second, "c": third}
    assert contenders.alternate(running, 3) == {"a": 2, "b": 4}
    assert turns == [first, second] * 3


def test_table_compares_with_ours():
    lines = contenders.table({"a": 0.5, "b": 1.0}, "tokens", 1000, "a")
    assert lines[0] == "| | ms | tokens/s | time, ours = 1 |"
    assert lines[2:] == [
        "| a | 500.0 | 2,000 | 1.00 |",
        "| b | 1000.0 | 1,000 | 2.00 |",
    ]


def test_a_peer_that_is_not_installed_says_so():
    script = (
        "import sys; sys.modules['torch'] = None; "
        "from benchmarks import contenders, huggingface; "
        "contenders.serve(huggingface.prepare)"
    )
    job = json.dumps({"kind": "pretraining", "sizes": {}, "batch_size": 1})
    done = subprocess.run(
        [sys.executable, "-c", script, job],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("absent ")
    assert "torch" in done.stdout


@pytest.mark.slow
def test_a_contender_that_fails_shows_why():
    with pytest.raises(RuntimeError, match="KeyError"):
        contenders.Contender("machine", _job(kind="pretraining", sizes={}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pretraining", "fine_tuning", "prediction"])
def test_this_project_does_every_job(kind):
    contender = contenders.Contender("ours", _job(kind=kind, lengths=[3, 5, 2]))
    assert contender.turn() > 0
    contender.close()


@pytest.mark.slow
def test_a_step_on_jax_lowers_its_loss(tmp_path):
    pytest.importorskip("jax")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(_SIZES))
    script = (
        "from absl import flags; from benchmarks import jax_step; "
        "jax_step.define_flags(); flags.FLAGS(['x', '--batch_size=4', "
        "'--max_seq_length=6', '--max_predictions_per_seq=2', "
        f"'--bert_config_file={path}', '--rounds=200', "
        "'--precision=float32']); "
        "losses = jax_step.measure(flags.FLAGS); "
        "assert losses[-1] < losses[0] - 0.05, losses"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=_ROOT,
        env={"KERAS_BACKEND": "jax", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]

import dataclasses
import hashlib
import json
import os
import signal
import socket
import sys
import threading

import pytest

from files import writing
from tests import programs
from training import run_card, workers


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options:
    output_dir: str
    input_file: str | None = None
    phases: str | None = None
    vocab_file: str | None = None
    data_dir: str | None = None
    init_checkpoint: str | None = None
    learning_rate: float = 0.5


def _report(folder, step=4):
    """Does what a run does: reports and results."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text(
        json.dumps({"step": step, "loss": 2.0, "examples_per_second": 8.0})
        + "\n"
    )
    (folder / "eval_results.txt").write_text("loss = 2.5\nglobal_step = 4\n")


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/here/run_x.py", "--learning_rate=0.5"])
    return tmp_path / "out"


def _card(folder):
    return run_card.read(str(folder / "run_card.json"))


def test_a_card_describes_its_run(out, tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("a\nb\n")
    options = _Options(output_dir=str(out), vocab_file=str(vocab))
    run_card.record(lambda options: _report(out), options)
    card = _card(out)
    assert card["program"] == "run_x.py"
    assert card["ended"] == "finished"
    assert card["flags"]["learning_rate"] == 0.5
    assert card["inputs"] == {
        "vocab_file": [
            {
                "path": str(vocab),
                "bytes": 4,
                "sha256": hashlib.sha256(b"a\nb\n").hexdigest(),
            }
        ]
    }
    assert card["results"] == {
        "eval_results.txt": {"loss": 2.5, "global_step": 4}
    }
    assert card["training"]["examples_per_second"] == 8.0
    assert set(card["written"]) == {"eval_results.txt", "metrics.jsonl"}
    assert card["memory"]["host"] > 10**7
    assert card["environment"]["packages"]["keras"]
    assert card["earlier"] == []


def test_a_card_keeps_earlier_runs_of_its_folder(out):
    options = _Options(output_dir=str(out))
    run_card.record(lambda options: _report(out), options)
    first = _card(out)
    run_card.record(lambda options: _report(out, 9), options)
    second = _card(out)
    assert second["training"]["last_step"] == 9
    (earlier,) = second["earlier"]
    assert earlier["started"] == first["started"]
    assert earlier["command"] == ["/here/run_x.py", "--learning_rate=0.5"]
    run_card.record(lambda options: _report(out, 10), options)
    assert len(_card(out)["earlier"]) == 2


def test_a_card_has_the_results_of_its_own_run_alone(out):
    options = _Options(output_dir=str(out))
    run_card.record(lambda options: _report(out), options)
    os.utime(out / "eval_results.txt", (1e9, 1e9))
    run_card.record(lambda options: None, options)
    assert _card(out)["results"] == {}


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (SystemExit(143), "interrupted"),
        (ValueError("too bad"), "failed: ValueError: too bad"),
    ],
)
def test_a_run_that_ends_early_leaves_a_card_and_its_error(
    out, error, ended, monkeypatch, caplog
):
    def run(options):
        _report(out)
        raise error

    with pytest.raises(type(error)):
        run_card.record(run, _Options(output_dir=str(out)))
    assert _card(out)["ended"] == ended

    # A card that cannot be written does not replace the error.
    def refuse(path, value):
        raise OSError("no space")

    monkeypatch.setattr(writing, "write_json", refuse)
    with pytest.raises(type(error), match=str(error)):
        run_card.record(run, _Options(output_dir=str(out)))
    assert "run_card.json could not be written: no space" in caplog.text


_TERMINATED = """
import dataclasses, os, pathlib, signal
from commands import flags, program
from training import run_card
@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    output_dir: str = flags.Group.FILES.required("Written.")
def run(options):
    import tensorflow
    folder = pathlib.Path(options.output_dir)
    assert (folder / ".lock").exists()
    (folder / "metrics.jsonl").write_text('{"step": 4, "loss": 2.0}\\n')
    os.kill(os.getpid(), signal.SIGTERM)
if __name__ == "__main__":
    program.start(Options, lambda options: run_card.record(run, options))
"""


def test_a_terminated_run_leaves_a_card_and_no_lock(tmp_path):
    script, folder = tmp_path / "run_x.py", tmp_path / "out"
    script.write_text(_TERMINATED)
    done = programs.python(
        *(str(script), f"--output_dir={folder}", "--verbosity=-1"),
        env=os.environ | {"PYTHONPATH": str(programs.ROOT)},
    )
    assert done.stderr == "run_x: terminated.\n"
    assert done.returncode == 128 + signal.SIGTERM
    assert _card(folder)["ended"] == "interrupted"
    assert not (folder / ".lock").exists()


def test_a_refused_run_leaves_the_card_of_the_run_before(out):
    options = _Options(output_dir=str(out))
    run_card.record(lambda options: _report(out), options)
    before = (out / "run_card.json").read_bytes()
    # As if that run had ended a while ago.
    for path in out.iterdir():
        os.utime(path, (1e9, 1e9))

    def refuse(options):
        raise ValueError("another model's folder")

    with pytest.raises(ValueError, match="another model's"):
        run_card.record(refuse, options)
    assert (out / "run_card.json").read_bytes() == before


def test_a_run_that_ends_after_its_evaluation_leaves_a_card(out):
    def evaluate(options):
        (out / "eval_results.txt").write_text("loss = 3.5\n")
        raise SystemExit

    options = _Options(output_dir=str(out))
    run_card.record(lambda options: _report(out), options)
    os.utime(out / "metrics.jsonl", (1e9, 1e9))
    with pytest.raises(SystemExit):
        run_card.record(evaluate, options)
    card = _card(out)
    assert card["ended"] == "interrupted"
    assert card["results"]["eval_results.txt"] == {"loss": 3.5}


def test_a_run_refused_at_once_imports_nothing_for_a_card(out, monkeypatch):
    _report(out)

    def refuse(options):
        raise ValueError("no such file")

    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    with pytest.raises(ValueError, match="no such file"):
        run_card.record(refuse, _Options(output_dir=str(out)))
    assert "tensorflow" not in sys.modules
    assert not (out / "run_card.json").exists()


def test_a_damaged_card_is_refused_before_the_run(out):
    out.mkdir()
    (out / "run_card.json").write_text('{"format": 1, "program": ')
    with pytest.raises(ValueError, match=r"run_card\.json.*must be JSON"):
        run_card.record(pytest.fail, _Options(output_dir=str(out)))
    (out / "run_card.json").write_text('{"format": 7}')
    with pytest.raises(ValueError, match="must be a run card of format 1"):
        _card(out)


def test_a_card_stands_in_the_folder_that_there_is(tmp_path):
    options = _Options(output_dir=str(tmp_path / "none"))
    run_card.record(lambda options: None, options)
    assert list(tmp_path.iterdir()) == []
    folder = tmp_path / "1,2"  # No list of folders.
    options = _Options(output_dir=str(folder))
    run_card.record(lambda options: _report(folder), options)
    assert list(_card(folder)["results"]) == ["eval_results.txt"]


def test_trials_are_told_apart(out):
    def run(options):
        _report(out / "trial-1", 3)
        _report(out / "trial-2", 5)
        (out / "metrics.jsonl").unlink(missing_ok=True)

    run_card.record(run, _Options(output_dir=str(out)))
    training = _card(out)["training"]
    assert {k: v["last_step"] for k, v in training.items()} == {
        "trial-1": 3,
        "trial-2": 5,
    }


def test_trials_that_end_early_leave_a_card_beside_that_of_a_single_run(out):
    options = _Options(output_dir=str(out))
    run_card.record(lambda options: _report(out), options)
    os.utime(out / "metrics.jsonl", (1e9, 1e9))

    def run(options):
        _report(out / "trial-1", 3)
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        run_card.record(run, options)
    assert _card(out)["training"]["trial-1"]["last_step"] == 3


def test_results_that_are_no_json_numbers_stay_text(out):
    out.mkdir()
    (out / "eval_results.txt").write_text("loss = nan\nbest = -inf\nf1 = 2\n")
    assert run_card.results(str(out)) == {
        "eval_results.txt": {"loss": "nan", "best": "-inf", "f1": 2}
    }


def test_records_are_listed_with_their_sidecars_and_of_all_phases(tmp_path):
    for name in ("a1.tfrecord", "a2.tfrecord", "b.tfrecord"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "a1.tfrecord.meta.json").write_text('{"num_records": 7}')
    described = run_card.describe_inputs(
        _Options(
            output_dir="",
            input_file=f"{tmp_path}/a*",
            phases=f"steps=90%; steps=1 input_file={tmp_path}/b.tfrecord",
        )
    )
    entries = described["input_file"]
    assert [entry["path"] for entry in entries] == [
        f"{tmp_path}/{name}"
        for name in ("a1.tfrecord", "a2.tfrecord", "b.tfrecord")
    ]
    assert entries[0]["made"] == {"num_records": 7}
    assert "made" not in entries[1]


def test_much_data_is_not_hashed(tmp_path, monkeypatch):
    monkeypatch.setattr(run_card, "_MAX_HASHED_BYTES", 5)
    for name, text in (("a", "abc"), ("b", "abc"), ("c", "ab")):
        (tmp_path / name).write_text(text)
    entries = run_card.describe_inputs(
        _Options(output_dir="", data_dir=str(tmp_path))
    )["data_dir"]
    assert [entry["bytes"] for entry in entries] == [3, 3, 2]
    assert [not entry["sha256"] for entry in entries] == [False, True, False]
    # Unreadable files are listed as such.
    described = run_card.describe_inputs(
        _Options(output_dir="", vocab_file=str(tmp_path / "none"))
    )
    (entry,) = described["vocab_file"]
    assert "none" in entry["error"]


def _be_second(monkeypatch, chief):
    cluster = {"worker": [chief, "localhost:2"]}
    task = {"type": "worker", "index": 1}
    config = {"cluster": cluster, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_others_stay_until_the_chief_has_written_its_card(out, monkeypatch):
    run_card.record(lambda options: _report(out), _Options(output_dir=str(out)))
    card = out / "run_card.json"
    with socket.create_server(("localhost", 0)) as server:
        _be_second(monkeypatch, f"localhost:{server.getsockname()[1]}")
        other = threading.Thread(
            target=run_card.record,
            args=(lambda options: None, _Options(output_dir=str(out))),
        )
        other.start()
        other.join(0.5)
        assert other.is_alive()
        card.write_text("of this run")
        other.join(60)
        assert not other.is_alive()


def test_others_do_not_stay_for_a_chief_that_is_gone(out, monkeypatch, caplog):
    monkeypatch.setattr(workers, "_LOOK_EVERY_SECONDS", 0.001)
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
    _be_second(monkeypatch, address)
    run_card.record(lambda options: None, _Options(output_dir=str(out)))
    assert "which was to write" in caplog.text
    assert not out.exists()


_CARD = {
    "program": "run_x.py",
    "started": "2026-01-02T03:04:05+00:00",
    "seconds": 306.2,
    "ended": "finished",
    "memory": {"host": 1_500_000_000},
    "model": {"num_parameters": 4433468},
    "training": {
        "last_step": 20,
        "examples_per_second": 12.34,
        "input_wait": 1.26,
        "last_training": {"step": 20, "loss": 6.54321, "learning_rate": 0.0},
        "last_evaluation": {"step": 10, "eval_loss": 7.0},
    },
    "results": {"eval_results.txt": {"loss": 6.9, "global_step": 20}},
    "written": {
        "metrics.jsonl": 1_000,
        "model.ckpt-20.index": 400_000,
        "model.ckpt-20.data-00000-of-00001": 53_000_000,
        "best/model.ckpt-10.index": 100_000,
        "events.out.tfevents.1.a.2.0.v2": 100_000,
        "events.out.tfevents.2.a.2.0.v2": 100_000,
    },
}


def test_a_card_in_lines():
    assert run_card.summary_lines(_CARD) == [
        "  run                run_x.py finished in 5m 06s, started "
        "2026-01-02T03:04:05+00:00, peak memory",
        f"{' ' * 21}1,500.0 MB, 12.3 examples/s, input wait 1.3 %",
        "  model              4,433,468 parameters",
        "  training, step 20  loss 6.543",
        "  held out, step 10  loss 7",
        "  eval_results.txt   loss 6.9  global_step 20",
        "  wrote              metrics.jsonl (1.0 kB), "
        "model.ckpt-20.* (53.4 MB), best/model.ckpt-10.*",
        "                     (100.0 kB), events.out.tfevents.* (200.0 kB)",
    ]
    # A run without training shows no speed of it.
    card = {**_CARD, "written": {"predictions.jsonl": 5_000}}
    text = run_card.run_text(card)
    assert text.endswith("peak memory 1,500.0 MB")
    unknown = {"examples_per_second": None, "input_wait": None}
    assert run_card.run_text({**_CARD, "training": unknown}) == text


def test_many_files_are_counted():
    card = {
        **_CARD,
        "training": {"trial-1": {"last_training": {"step": 3, "f1": 0.5}}},
        "written": {f"{n:02}.txt": 10**6 for n in range(15)},
    }
    lines = run_card.summary_lines(card)

    text = " ".join(" ".join(lines).split())
    assert "trial-1, training, step 3" in text
    assert text.endswith("11.txt (1.0 MB), 3 more")


def test_tensorboard_shows_the_summary(tmp_path):
    from tensorboard.backend.event_processing import (
        plugin_event_accumulator as event_accumulator,
    )

    card = {**_CARD, "flags": {"learning_rate": 0.5}}
    run_card.write_to_tensorboard(str(tmp_path), card)
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    (event,) = events.Tensors("run")
    assert event.step == 20
    text = event.tensor_proto.string_val[0].decode()
    assert "--learning_rate=0.5" in text
    assert "4,433,468 parameters" in text

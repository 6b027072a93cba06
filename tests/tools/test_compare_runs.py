import contextlib
import dataclasses
import io
import json
import pathlib

import pytest

from files import run_files
from tools import compare_runs
from training import run_card


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options:
    output_dir: str
    vocab_file: str
    learning_rate: float
    train_batch_size: int = 32


def _make_run(folder, *, learning_rate, loss, vocab="a\n"):
    vocab_file = folder.parent / f"{folder.name}_vocab.txt"
    vocab_file.write_text(vocab)

    def run(options):
        folder.mkdir(exist_ok=True)
        reports = [
            {"step": 1, "loss": 9.0, "learning_rate": learning_rate},
            {"step": 2, "loss": loss, "examples_per_second": 40.0},
            {"step": 2, "eval_loss": loss + 1},
        ]
        lines = [f"{json.dumps(report)}\n" for report in reports]
        (folder / "metrics.jsonl").write_text("".join(lines))
        (folder / "eval_results.txt").write_text(f"accuracy = {loss / 10}\n")

    run_card.record(
        run,
        _Options(
            output_dir=str(folder),
            vocab_file=str(vocab_file),
            learning_rate=learning_rate,
        ),
    )
    return str(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"program": None},
        {"seconds": "long"},
        {"inputs": []},
        {"inputs": {"vocab_file": ["v.txt"]}},
        {"environment": {"packages": []}},
        {"memory": 3},
        {"model": {"config": "large"}},
        {"training": {"last_training": 3}},
        {"training": {"last_step": 2, "last_training": {}}},
        {"results": {"eval_results.txt": [1]}},
        {"written": {"a": "b"}},
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_cards_of_another_shape_are_named(runs, changes, alone):
    path = pathlib.Path(runs[0]) / run_files.RUN_CARD
    card = json.loads(path.read_text())
    path.write_text(json.dumps(card | changes))
    (name,) = changes
    with pytest.raises(
        ValueError, match=rf"a/run_card\.json: '{name}' is miss"
    ):
        _output(runs[:1] if alone else runs)


@pytest.fixture
def runs(tmp_path):
    return [
        _make_run(tmp_path / "a", learning_rate=0.1, loss=2.0),
        _make_run(tmp_path / "b", learning_rate=0.2, loss=1.5, vocab="b\n"),
    ]


def _output(folders, plot=None):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        compare_runs.run(compare_runs.Options(plot=plot), folders)
    return output.getvalue()


def _row(text, name):
    return next(
        line.split() for line in text.splitlines() if line.split()[:1] == [name]
    )


def test_the_folders_of_trials_are_named(runs, tmp_path):
    folder = pathlib.Path(runs[0])
    trial = folder / "trial-1"
    trial.mkdir()
    for name in ("metrics.jsonl", "eval_results.txt"):
        (folder / name).rename(trial / name)
    assert f"pass these, such as {trial}, to compare" in _output(runs)
    assert "pass these" not in _output([str(trial), runs[1]])
    picture = str(tmp_path / "curves.png")
    with pytest.raises(ValueError, match=r"plot=.*curves\.png needs a metrics"):
        _output(runs[:1], picture)


def test_two_runs_are_side_by_side(runs, tmp_path):
    text = _output(runs, str(tmp_path / "curves.png"))
    # Of flags, what differs.
    assert _row(text, "learning_rate") == ["learning_rate", "0.1", "0.2"]
    assert "train_batch_size" not in text
    assert "output_dir" not in text
    # The flag itself differs first; its files are told apart below.
    lines = [x for x in text.splitlines() if "vocab_file" in x]
    assert len(lines) == 2
    assert "a_vocab.txt 87428fc5" in lines[1]
    assert _row(text, "loss") == ["loss", "2", "1.5", "-0.5"]
    assert _row(text, "eval_loss") == ["eval_loss", "3", "2.5", "-0.5"]
    assert _row(text, "accuracy") == ["accuracy", "0.2", "0.15", "-0.05"]
    assert _row(text, "examples/s") == ["examples/s", "40", "40"]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_three_runs_have_no_change_and_one_is_summarized(runs):
    text = _output([*runs, runs[0]])
    assert _row(text, "loss") == ["loss", "2", "1.5", "2"]
    assert "C = " in text
    text = _output(runs[:1])
    assert text.splitlines()[0] == runs[0]
    assert "finished" in text
    assert "held out, step 2" in text


def test_values_that_differ_do_not_look_alike(tmp_path):
    rates = (1.00001e-5, 1.00002e-5)
    text = _output(
        [
            _make_run(tmp_path / f"run{i}", learning_rate=rate, loss=2.0)
            for i, rate in enumerate(rates)
        ]
    )
    row = ["learning_rate", "1.00001e-05", "1.00002e-05"]
    assert _row(text, "learning_rate") == row


def test_a_run_without_a_card_is_compared_as_far_as_it_goes(runs, tmp_path):
    (tmp_path / "b" / "run_card.json").unlink()
    text = _output(runs)
    assert _row(text, "loss") == ["loss", "2", "1.5", "-0.5"]
    assert f"No run_card.json in {runs[1]}" in text
    assert "FLAGS" not in text


def test_a_card_may_lack_the_model_and_the_versions(runs):
    path = pathlib.Path(runs[0]) / run_files.RUN_CARD
    card = json.loads(path.read_text())
    card["environment"] |= {"packages": None, "code": None}
    card["model"] = {"config": None, "num_parameters": 5}
    path.write_text(json.dumps(card))
    text = _output(runs)
    assert _row(text, "keras")[1] == "-"
    assert _row(text, "loss") == ["loss", "2", "1.5", "-0.5"]


def test_a_folder_must_be_of_a_run(tmp_path):
    with pytest.raises(ValueError, match="must be the --output_dir of a run"):
        _output([str(tmp_path)])
    with pytest.raises(ValueError, match="Pass the folders"):
        _output([])

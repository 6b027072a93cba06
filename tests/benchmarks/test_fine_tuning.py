"""The comparison of fine-tuning with Hugging Face's Trainer: its report."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import safetensors.numpy

from benchmarks import fine_tuning
from files import locking


def _run(program, seed, score, **others):
    return {
        "task": "MRPC",
        "program": program,
        "learning_rate": "2e-5",
        "seed": str(seed),
        "num_train_epochs": 3.0,
        "batch_size": 32,
        "metrics": {"f1": score},
        "seconds": 10.0 * seed,
        "processor_seconds": 30.0,
        "peak_megabytes": 1000,
        **others,
    }


def test_report_compares_means_in_standard_errors():
    rows = [_run("ours", seed, 0.87 + 0.01 * seed) for seed in (1, 2, 3)]
    rows += [_run("peer", s, 0.85 + 0.01 * s, seconds=40.0) for s in (1, 2, 3)]
    rows.append(_run("peer", 1, 0.5, learning_rate="1e-4"))  # Of the search.
    line = fine_tuning.report(rows).splitlines()[2]
    # The deviation of both is 1, the error of a mean 1 / sqrt(3), that of the
    # difference sqrt(2 / 3): 2 points are 2.4 of it.
    assert line == (
        "| MRPC, 3 epochs at 2e-5, float32 | 3, 3 | f1 | 89.0 ± 1.0 "
        "| 87.0 ± 1.0 | +2.4 | 20 / 40 = 0.50 | 30 / 30 = 1.00 "
        "| 1000 / 1000 = 1.00 |"
    )
    assert len(fine_tuning.report(rows).splitlines()) == 4


@pytest.mark.parametrize("programs", [[], ["ours"], ["peer", "ours_bfloat16"]])
def test_a_report_without_runs_of_both_is_refused(programs):
    rows = [_run(program, 1, 0.8) for program in programs]
    with pytest.raises(ValueError, match=f"contains {len(rows)} runs. Run the"):
        fine_tuning.report(rows)


@pytest.fixture(name="made")
def _made(monkeypatch):
    """Replaces the programs; lists the runs that were made."""
    made = []

    def measure(command, log):
        del log
        (folder,) = (
            part.partition("=")[2] or str(pathlib.Path(part).parent)
            for part in command
            if "--output_dir" in part or part.endswith("job.json")
        )
        made.append(command)
        start = pathlib.Path(folder, "start")
        weights = safetensors.numpy.load_file(start / "model.safetensors")
        kernel = weights["qa_outputs.weight"]
        assert kernel.shape == (2, 400)
        assert kernel.std() == pytest.approx(0.02, rel=0.1)
        assert np.all(weights["bert.pooler.dense.bias"] == 3)
        config = json.loads((start / "config.json").read_text())
        assert config["architectures"] == ["BertForQuestionAnswering"]
        job = pathlib.Path(folder, "job.json")
        text = job.read_text() if job.exists() else ""
        assert str(start) in (text or " ".join(command))
        answers = dict.fromkeys(("q1", "q2", "q3"), "Saint Bernadette")
        if '"learning_rate": 5e-05' in text:
            answers["q1"] = "wrong"
        pathlib.Path(folder, "predictions.json").write_text(json.dumps(answers))
        return {"seconds": 1.0, "processor_seconds": 2.0, "peak_megabytes": 3}

    monkeypatch.setattr(fine_tuning, "_measure", measure)
    return made


def _write_model(folder):
    """Writes what is read of a pre-trained model; returns its folder."""
    folder.mkdir()
    bias = {"pooler.dense.bias": np.full(400, 3, np.float32)}
    safetensors.numpy.save_file(bias, folder / "model.safetensors")
    config = {"hidden_size": 400, "initializer_range": 0.02}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def _options(tmp_path):
    return fine_tuning.Options(
        task="SQuAD",
        model=_write_model(tmp_path / "model"),
        train_file=str(tmp_path / "dev.json"),
        predict_file=str(tmp_path / "dev.json"),
        output_dir=str(tmp_path / "out"),
        peer_python="python",
        seeds=("1", "2"),
        learning_rates=("5e-5", "2e-5"),
    )


def _write_questions(tmp_path):
    questions = [
        {
            "id": f"q{number}",
            "question": "Who?",
            "answers": [{"text": "Saint Bernadette", "answer_start": 0}],
        }
        for number in (1, 2, 3)
    ]
    paragraph = {"context": "Saint Bernadette came.", "qas": questions}
    data = [{"title": "t", "paragraphs": [paragraph]}]
    text = json.dumps({"version": "1.1", "data": data})
    (tmp_path / "dev.json").write_text(text)


@pytest.mark.parametrize("suffix", ["", "_bfloat16"])
def test_rate_is_the_peer_s_best_and_no_run_is_made_twice(
    suffix, tmp_path, made
):
    _write_questions(tmp_path)
    ours, peer = f"ours{suffix}", f"peer{suffix}"
    options = dataclasses.replace(_options(tmp_path), programs=(ours, peer))
    fine_tuning.run(options)
    assert len(made) == 5
    rows = fine_tuning.read_rows(options.output_dir)
    assert [(r["program"], r["learning_rate"], r["seed"]) for r in rows] == [
        (peer, "5e-5", "1"),
        (peer, "2e-5", "1"),
        (ours, "2e-5", "1"),
        (ours, "2e-5", "2"),
        (peer, "2e-5", "2"),
    ]
    assert rows[1]["metrics"] == {"f1": 100.0, "exact_match": 100.0}
    fine_tuning.run(options)
    assert len(made) == 5


def test_runs_of_another_model_or_data_set_are_not_reused(tmp_path, made):
    _write_questions(tmp_path)
    options = dataclasses.replace(
        _options(tmp_path),
        learning_rates=("5e-5",),
        seeds=("1",),
        programs=("ours",),
    )
    other_file = str(tmp_path / "other.json")
    shutil.copy(options.predict_file, other_file)
    model = _write_model(tmp_path / "other")
    for changes in ({}, {"model": model}, {"train_file": other_file}):
        changed = dataclasses.replace(options, **changes)
        fine_tuning.run(changed)
        fine_tuning.run(changed)
    assert len(made) == 3
    # The report keeps their runs apart.
    (row, *_) = fine_tuning.read_rows(options.output_dir)
    rows = [row, {**row, "program": "peer", "model": model}]
    with pytest.raises(ValueError, match="with the same settings"):
        fine_tuning.report(rows)


def test_two_comparisons_do_not_share_a_folder(tmp_path, made):
    _write_questions(tmp_path)
    options = _options(tmp_path)
    refused = pytest.raises(locking.LockedError, match="--output_dir=")
    with locking.lock_folder(options.output_dir, "it"), refused:
        fine_tuning.run(options)
    assert made == []


def test_one_rate_needs_no_selection(tmp_path, made):
    _write_questions(tmp_path)
    fine_tuning.run(
        dataclasses.replace(
            _options(tmp_path),
            learning_rates=("5e-5",),
            seeds=("1",),
            programs=("ours_bfloat16",),
        )
    )
    assert len(made) == 1


@pytest.mark.parametrize("rates", [("5e-5",), ("5e-5", "2e-5")])
def test_a_missing_peer_is_refused_before_the_first_run(tmp_path, made, rates):
    _write_questions(tmp_path)
    options = dataclasses.replace(_options(tmp_path), learning_rates=rates)
    without = dataclasses.replace(options, peer_python=None)
    with pytest.raises(ValueError, match="--peer_python must be given"):
        fine_tuning.run(without)
    assert made == []
    assert not pathlib.Path(options.output_dir).exists()


def test_unknown_program_is_refused(tmp_path):
    options = dataclasses.replace(_options(tmp_path), programs=("mine",))
    with pytest.raises(ValueError, match="peer_bfloat16; got 'mine'"):
        fine_tuning.run(options)

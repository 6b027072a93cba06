"""run_pretraining.py from flags to files, stopped and resumed."""

import json
import re
import shutil
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

import run_pretraining
from bert.records import sidecars
from bert.training import (
    failures,
    steps,
)
from modeling import checkpoints
from tests.support import locations, toy_config, toy_files
from tests.support import toy_pretraining as toy

# More steps than every interval.
_FLAGS = {
    "do_eval": True,
    "max_eval_steps": 0,
    "eval_batch_size": 7,
    "eval_every_steps": 4,
    "log_every_steps": 2,
    "save_checkpoints_steps": 5,
    "keep_checkpoint_max": 2,
    "num_train_steps": 13,
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Makes a run without interruption; returns its folder."""
    folder = tmp_path_factory.mktemp("unbroken")
    toy.run(folder, **_FLAGS)
    return folder


def test_a_run_writes_what_the_manual_says(unbroken):
    out = unbroken / "out"
    names = {path.name for path in out.iterdir()}
    assert {name for name in names if name.endswith(".index")} == {
        "model.ckpt-12.index",
        "model.ckpt-13.index",
    }
    assert {"bert_config.json", "loss.png", "checkpoint"} <= names
    assert "run.jsonl" in names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert not [name for name in names if "partial" in name]
    assert tf.train.latest_checkpoint(str(out)) == str(out / "model.ckpt-13")
    lines = toy.metrics(unbroken)
    training = [line["step"] for line in lines if "loss" in line]
    held_out = [line["step"] for line in lines if "eval_loss" in line]
    assert training == [2, 4, 6, 8, 10, 12, 13]
    assert held_out == [4, 8, 12, 13]
    best = toy_files.read_json(out / "best/best.json")
    losses = [line["eval_loss"] for line in lines if "eval_loss" in line]
    assert best["value"] == pytest.approx(min(losses), rel=1e-6)
    assert min(losses) < max(losses)
    # A resumed run keeps this choice of `--jit_compile=auto`.
    state = toy_files.read_json(out / "model.ckpt-13.state.json")
    assert state["execution"] == {
        "device": "CPU",
        "execution_mode": "fused",
    }


def test_results_have_the_layout_of_the_release(unbroken):
    text = (unbroken / "out" / "eval_results.txt").read_text()
    pairs = [line.split(" = ") for line in text.splitlines()]
    assert [name for name, _ in pairs] == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
    ]
    values = dict(pairs)
    assert values["global_step"] == "13"
    last = toy.metrics(unbroken)[-1]
    for name, value in pairs[1:]:
        assert value == str(np.float32(value))
        assert float(value) == pytest.approx(last[f"eval_{name}"], rel=1e-6)


@pytest.mark.parametrize(
    ("step", "event"),
    [
        (4, "report_training"),
        pytest.param(8, "report_evaluation", marks=pytest.mark.integration),
        pytest.param(13, "report_evaluation", marks=pytest.mark.integration),
    ],
)
def test_sigterm_then_the_same_command_gives_the_same_run(
    tmp_path, unbroken, step, event
):
    toy.stop(tmp_path, step, event, **_FLAGS)
    # A signal is obeyed after the step or the evaluation in which it comes.
    saved = checkpoints.find(str(tmp_path / "out"))
    assert checkpoints.read(saved)["global_step"] == step
    toy.resume(step, tmp_path, **_FLAGS)
    toy.check_same_run(tmp_path, unbroken, 13)


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes",
    [
        {"num_accumulation_steps": 2},
        {"jit_compile": "true"},
        {"objective": "ltr"},
        {"masked": False},
        {"num_cpu_devices": 2},
    ],
)
def test_packed_pairs_make_the_same_updates(tmp_path, caplog, changes):
    toy.write_config(tmp_path / "bert_config.json", **toy_config.NO_DROPOUT)
    if not changes.get("masked", True):
        toy.write_unmasked_records(tmp_path / "records")
    flags = {name: x for name, x in changes.items() if name != "masked"}
    flags |= {"train_batch_size": 16, "learning_rate": 1e-3}
    program = toy.start if "num_cpu_devices" in changes else toy.run
    reports, weights = [], []
    for packing in (False, True):
        made = program(tmp_path, **flags, packing=packing)
        assert program is toy.run or made.wait() == 0
        reports.append(toy.metrics(tmp_path))
        weights.append(toy.weights(tmp_path, 13))
        (tmp_path / "out").rename(tmp_path / f"out-{packing}")
    for ours, theirs in zip(*reports, strict=True):
        assert ours == pytest.approx(theirs, abs=2e-5), ours["step"]
    for name, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][name], atol=2e-5)


@pytest.mark.integration
def test_masks_drawn_in_training_are_the_same_after_a_stop(tmp_path, caplog):
    names = ("whole", "stopped")
    for name in names:
        (tmp_path / name).mkdir()
        toy.write_unmasked_records(tmp_path / name / "records")
    whole, stopped = (tmp_path / name for name in names)
    toy.run(whole, **_FLAGS)
    toy.stop(stopped, 4, **_FLAGS)
    toy.resume(4, stopped, **_FLAGS)
    toy.check_same_run(stopped, whole, 13)
    assert "other settings" not in caplog.text
    toy.write_unmasked_records(whole / "records", masked_lm_prob=0.4)
    with pytest.raises(ValueError, match=r"masking was \[0\.15, False, "):
        toy.run(whole, **_FLAGS)


@pytest.mark.integration
def test_kill_then_the_same_command_gives_the_same_run(tmp_path, unbroken):
    # The evaluation of step 8 saves first.
    killed = toy.start(tmp_path, until="model.ckpt-8.index", **_FLAGS)
    assert killed.wait() == -signal.SIGKILL
    assert toy.metrics(tmp_path)[-1]["step"] == 8
    (tmp_path / "out" / ".model.ckpt-5.1.partial.index").write_text("half")
    toy.resume(5, tmp_path, **_FLAGS)
    toy.check_same_run(tmp_path, unbroken, 13)
    assert not list((tmp_path / "out").glob(".*partial*"))


@pytest.mark.integration
def test_the_lowest_held_out_loss_is_kept_and_ends_a_run(tmp_path):
    # At this rate the loss soon rises.
    toy.run(
        tmp_path,
        **{**_FLAGS, "eval_every_steps": 2, "learning_rate": 0.3},
        early_stopping_patience=2,
    )
    out = tmp_path / "out"
    losses = {
        line["step"]: line["eval_loss"]
        for line in toy.metrics(tmp_path)
        if "eval_loss" in line
    }
    best = toy_files.read_json(out / "best" / "best.json")
    assert losses[best["step"]] == min(losses.values())
    assert best["value"] == pytest.approx(min(losses.values()), rel=1e-6)
    assert (out / "best" / f"model.ckpt-{best['step']}.index").exists()
    last = best["step"] + 4
    assert max(losses) == last < 13
    results = (out / "eval_results.txt").read_text()
    assert f"global_step = {last}\n" in results


def test_a_finished_run_trains_no_more(tmp_path, unbroken, caplog):
    shutil.copytree(unbroken / "out", tmp_path / "out")
    with caplog.at_level("INFO"):
        toy.run(tmp_path, **{**_FLAGS, "do_eval": False})
    assert "Training is already complete: step 13." in caplog.text
    assert "results are those of step 13" not in caplog.text
    toy.check_same_run(tmp_path, unbroken, 13)
    # Fewer steps than were made, by a run of another program.
    (tmp_path / "out/model.ckpt-13.state.json").unlink()
    toy.run(tmp_path, **_FLAGS | {"num_train_steps": 9})
    assert caplog.text.count("The results are those of step 13,") == 1
    assert caplog.text.count("this command is for 9 steps") == 1


@pytest.mark.integration
@pytest.mark.parametrize(
    ("objective", "precision"),
    [
        ("mlm", "mixed_bfloat16"),
        ("ltr", "float32"),
        ("mlm_nsp", "mixed_float16"),
    ],
)
def test_every_objective_and_precision_learns(tmp_path, objective, precision):
    toy.write_config(tmp_path / "bert_config.json", **toy_config.NO_DROPOUT)
    toy.run(
        tmp_path,
        objective=objective,
        precision=precision,
        num_train_steps=40,
        train_batch_size=16,
        log_every_steps=11,
        learning_rate=0.02,
        lr_schedule="continuous",
        adam_bias_correction=True,
    )
    lines = toy.metrics(tmp_path)
    assert lines[-1]["masked_lm_loss"] < lines[0]["masked_lm_loss"]
    has_pairs = "next_sentence_loss" in lines[-1]
    assert has_pairs == (objective == "mlm_nsp")
    weights = toy.weights(tmp_path, 40)
    assert weights["bert/pooler/dense/kernel"].dtype == np.float32


def test_a_resumed_run_compares_the_flags_of_its_optimizer(
    tmp_path, unbroken, caplog
):
    shutil.copytree(unbroken / "out", tmp_path / "out")
    values = {
        "weight_decay": 0.5,
        "adam_beta_1": 0.8,
        "adam_beta_2": 0.98,
        "adam_epsilon": 0.1,
        "adam_bias_correction": True,
        "max_grad_norm": 0.0,
        "num_train_steps": 14,
    }
    with caplog.at_level("INFO"):
        toy.run(tmp_path, **_FLAGS | {"do_eval": False, **values})
    assert "falling to 0 at step 14" in caplog.text
    for name, value in values.items():
        assert re.search(f"{name} was .* and is {value}", caplog.text), name


@pytest.mark.integration
def test_skipped_steps_are_left_out_of_means_and_told_of(
    tmp_path, monkeypatch, caplog
):
    # Of the first scales, halved with each step, all are too large.
    monkeypatch.setattr(steps, "_INITIAL_LOSS_SCALE", 2.0**23)
    toy.run(tmp_path, precision="mixed_float16", log_every_steps=2)
    path = tmp_path / "out" / "metrics.jsonl"
    lines = [
        json.loads(line, parse_constant=pytest.fail)
        for line in path.read_text().splitlines()
    ]
    skipped = [line.get("skipped_steps", 0) for line in lines]
    assert skipped[0] == 2 and 1 in skipped and skipped[-1] == 0
    for line, num_skipped in zip(lines, skipped, strict=True):
        # The last report is of one step.
        none_made = num_skipped == (2 if line["step"] % 2 == 0 else 1)
        assert ("gradient_norm" not in line) == none_made
        assert (
            f"step {line['step']}: all 2 steps since the last report were "
            "skipped" in caplog.text
        ) == none_made
    made = [line["gradient_norm"] for line in lines if "gradient_norm" in line]
    # Half of the mean of two steps would be that of one.
    assert max(made) < 1.9 * min(made)


def _run_to_infinity(folder, **changes):
    """Runs at a far too high rate; returns the message of the error."""
    toy.write_config(folder / "bert_config.json", **toy_config.NO_DROPOUT)
    with pytest.raises(failures.NonFiniteLossError) as caught:
        toy.run(
            folder,
            learning_rate=1e30,
            num_warmup_steps=1,
            log_every_steps=100,
            **changes,
        )
    return str(caught.value)


@pytest.mark.integration
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    message = _run_to_infinity(tmp_path, save_checkpoints_steps=1)
    step = int(message.split("step ")[1].split(",", maxsplit=1)[0])
    assert f"{tmp_path / 'records'} record " in message
    last = checkpoints.find(str(tmp_path / "out"))
    assert checkpoints.read(last)["global_step"] <= step
    for name, value in checkpoints.read(last).items():
        assert np.isfinite(value).all(), name


@pytest.mark.parametrize("case", ["once", "repeat", "train12"])
def test_evaluation_gives_the_results_of_the_release(tmp_path, case):
    golden = toy_files.read_json(
        locations.GOLDEN / "run_pretraining" / "eval_results.json"
    )[case]
    toy.write_records(tmp_path / "ab", toy.golden_examples())
    named = {
        **golden["flags"],
        "input_file": tmp_path / "ab",
        "output_dir": tmp_path / "out",
        "bert_config_file": toy.CONFIG,
        "init_checkpoint": locations.GOLDEN
        / golden["flags"]["init_checkpoint"],
    }
    run_pretraining.run(toy.parse(named))
    text = (tmp_path / "out" / "eval_results.txt").read_text()
    found = dict(line.split(" = ") for line in text.splitlines())
    expected = dict(
        line.split(" = ") for line in golden["eval_results_txt"].splitlines()
    )
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(float(value), abs=1e-5)


@pytest.mark.integration
def test_training_of_an_encoder_starts_with_new_heads(
    tmp_path, unbroken, caplog
):
    toy.write_config(tmp_path / "bert_config.json", **toy_config.NO_DROPOUT)
    encoder = str(tmp_path / "encoder.ckpt")
    held = toy.weights(unbroken, 13)
    checkpoints.save(
        encoder, {n: v for n, v in held.items() if n.startswith("bert/")}
    )
    toy.run(
        tmp_path, init_checkpoint=encoder, num_train_steps=1, learning_rate=0
    )
    log = " ".join(caplog.text.split())
    assert "7 new, as initialized: cls/predictions/output_bias" in log
    found = toy.weights(tmp_path, 1)
    name = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(found[name], held[name])
    # Nothing trains them in an evaluation.
    with pytest.raises(ValueError, match="of the model; 7 missing: cls/"):
        toy.run(
            tmp_path,
            init_checkpoint=encoder,
            output_dir=tmp_path / "evaluation",
            do_train=False,
            do_eval=True,
        )


@pytest.mark.integration
def test_a_record_file_that_is_named_twice_is_read_once(tmp_path, caplog):
    (tmp_path / "again").mkdir()
    named = toy.flags_of(tmp_path)["input_file"]
    twice = f"{named},{tmp_path}/again/../records"
    toy.run(tmp_path, input_file=twice, num_train_steps=1)
    assert "50 records in 1 file(s)" in caplog.text
    assert "records is named twice and read once" in caplog.text
    assert "Baselines: masked-LM loss" in caplog.text
    # The start of the log names the devices and the size of the model.
    assert "OneDevice, 1 replica(s) on CPU" in caplog.text
    assert re.search(r"\d,\d{3} parameters", caplog.text)


@pytest.mark.integration
def test_a_run_of_the_release_resumes_at_once_at_a_high_step(tmp_path):
    values = checkpoints.read(
        str(locations.GOLDEN / "optimizer" / "train12.ckpt")
    )
    values["global_step"] = np.int64(1_000_000)
    out = tmp_path / "out"
    out.mkdir()
    checkpoints.save(str(out / "model.ckpt-1000000"), values)
    sizes = toy_files.read_json(toy.CONFIG) | toy_config.NO_DROPOUT
    toy.write_config(tmp_path / "bert_config.json", **sizes)
    start = time.process_time()
    toy.run(tmp_path, num_train_steps=1_000_003)
    # Replaying a million batches would take minutes of processor time. The wall
    # time of the test depends on the other processes of the suite.
    assert time.process_time() - start < 60
    found = [line["step"] for line in toy.metrics(tmp_path)]
    assert found == [1_000_001, 1_000_002, 1_000_003]


@pytest.mark.integration
def test_a_resumed_run_says_that_its_steps_are_compiled_in_another_way(
    tmp_path, caplog
):
    toy.run(tmp_path, num_train_steps=2)
    toy.run(tmp_path, num_train_steps=2)
    assert "other settings" not in caplog.text
    toy.run(tmp_path, num_train_steps=3, jit_compile="true")
    assert "execution_mode was 'fused' and is 'xla'" in caplog.text
    toy.run(tmp_path, num_train_steps=4)
    assert caplog.text.count("execution_mode was") == 1
    toy.run(tmp_path, num_train_steps=5, jit_compile="false")
    assert "execution_mode was 'xla' and is 'plain'" in caplog.text


def test_held_out_records_are_checked_before_training(tmp_path, caplog):
    toy.flags_of(tmp_path)
    toy.write_records(tmp_path / "other", toy.random_examples(seed=2))

    def check(**changes):
        """Runs up to the check of the records, which are shorter."""
        caplog.clear()
        options = toy.parse(
            toy.flags_of(tmp_path, max_seq_length=11, **changes)
        )
        with pytest.raises(ValueError, match="--max_seq_length"):
            run_pretraining.run(options)
        return [m for m in caplog.messages if "use training data" in m]

    records = str(tmp_path / "records")
    assert check() == []
    assert check(eval_input_file=str(tmp_path / "other")) == []
    same = check(eval_input_file=f"{tmp_path}/../{tmp_path.name}/records")
    assert [records in message for message in same] == [True]
    # Without held-out records they are those of the training.
    assert len(check(eval_every_steps=2, early_stopping_patience=1)) == 1
    # An evaluation alone may be of any records.
    evaluating = {
        "do_train": False,
        "do_eval": True,
        "init_checkpoint": str(toy.CHECKPOINT),
    }
    assert check(eval_input_file=records, **evaluating) == []
    with pytest.raises(ValueError, match=r"No file matches .*missing"):
        toy.run(tmp_path, eval_input_file=str(tmp_path / "missing"))


@pytest.mark.integration
def test_a_run_that_is_set_back_to_step_0_makes_the_same_steps(
    tmp_path, caplog
):
    caplog.set_level("INFO")
    keep = _FLAGS | {
        "keep_checkpoint_every_n_steps": 6,
        "keep_checkpoint_max": 1,
    }
    out = toy.run(tmp_path, **keep)
    found = toy.weights(tmp_path, 13)
    names = {path.name for path in out.glob("model.ckpt-*.index")}
    assert names == {f"model.ckpt-{step}.index" for step in (0, 6, 12, 13)}
    (out / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')
    for path in out.glob("model.ckpt-1*"):
        path.unlink()
    toy.run(tmp_path, **keep)
    assert "model.ckpt-0 at step 0" in caplog.text
    np.testing.assert_equal(toy.weights(tmp_path, 13), found)


@pytest.mark.parametrize(
    ("name", "there", "here"),
    [
        ("vocab_sha256", "1" * 8, "0" * 64),
        ("do_lower_case", False, True),
        ("strip_accents", False, True),
    ],
)
def test_a_start_from_a_model_of_another_text_is_refused(
    tmp_path, name, there, here
):
    flags = toy.flags_of(tmp_path)
    sidecars.write_metadata(flags["input_file"], toy.metadata_of())
    folder = tmp_path / "pretrained"
    shutil.copytree(toy.CHECKPOINT.parent, folder)
    described = {
        "task": "pretraining",
        "vocab_sha256": "0" * 64,
        "do_lower_case": True,
        "strip_accents": True,
    }
    toy_files.write_json(folder / "task.json", described | {name: there})
    (folder / "vocab.txt").unlink(missing_ok=True)
    with pytest.raises(ValueError) as refused:
        run_pretraining.run(
            toy.parse({**flags, "init_checkpoint": str(folder)})
        )
    message = str(refused.value)
    assert f"The model of {folder}" in message
    assert f"{name} is {there!r} there and {here!r} here" in message
    assert not (tmp_path / "out/task.json").exists()


def test_masked_lm_starts_from_a_left_to_right_model(tmp_path, caplog):
    caplog.set_level("INFO")
    causal = {"objective": "ltr", "num_train_steps": 3, "num_warmup_steps": 1}
    toy.run(tmp_path / "ltr", **causal)
    start = toy.weights(tmp_path / "ltr", 3)
    toy.run(
        tmp_path / "mlm",
        **{**causal, "objective": "mlm"},
        init_checkpoint=str(tmp_path / "ltr/out"),
        keep_checkpoint_every_n_steps=3,
    )
    changed = "attention is 'causal' there and 'bidirectional' here"
    assert changed in caplog.text
    loaded = toy.weights(tmp_path / "mlm", 0)
    weights = [name for name in start if "adam" not in name]
    for name in set(weights) - {"global_step"}:
        np.testing.assert_array_equal(loaded[name], start[name], err_msg=name)
    described = toy_files.read_json(tmp_path / "mlm/out/task.json")
    assert described["attention"] == "bidirectional"

"""run_squad.py against the release, and from start to end on toy questions."""

import contextlib
import itertools
import re
import shutil

import numpy as np
import pytest
from absl import logging

import run_squad
from bert.records import reading, tfrecords
from bert.tasks import task
from bert.tasks.squad import window_features
from modeling import checkpoints
from tests.support import locations, programs, toy_files, toy_squad
from vocab import tokenization

_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_SHARED = locations.DATA


def _run_golden(case, folder, **changes):
    named = {
        name: str(locations.GOLDEN / value) if isinstance(value, str) else value
        for name, value in case["flags"].items()
    }
    named |= {"output_dir": str(folder), **changes}
    run_squad.run(toy_squad.parse(named))


@pytest.fixture(scope="module", params=["v1.1", "v2.0"])
def golden(request, tmp_path_factory):
    """A golden case and the folder in which it was answered."""
    path = locations.GOLDEN / "squad/cli_predictions.json.gz"
    case = toy_files.read_json(path)[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    _run_golden(case, folder)
    return case, folder


def test_answers_are_the_release_s(golden):
    case, folder = golden
    written = {path.name for path in folder.glob("*.json")}
    assert set(case["files"]) <= written
    assert ("null_odds.json" in written) == ("null_odds.json" in case["files"])
    for name, expected in case["files"].items():
        text = (folder / name).read_text()
        # Keys, texts, order and layout; numbers by value.
        assert _NUMBER.sub("#", text) == _NUMBER.sub("#", expected), name
        np.testing.assert_allclose(
            [float(number) for number in _NUMBER.findall(text)],
            [float(number) for number in _NUMBER.findall(expected)],
            rtol=0,
            atol=1e-5,
            err_msg=name,
        )


def test_records_to_predict_are_those_of_the_release(golden):
    case, folder = golden
    files = tfrecords.RecordFiles([str(folder / "eval.tf_record")])
    features = window_features.record_features(
        case["flags"]["max_seq_length"], is_training=False
    )
    batch = reading.parse(files.read(range(len(files))), features)
    assert batch["unique_ids"][:, 0].numpy().tolist() == list(
        range(1000000000, 1000000000 + len(files))
    )


@pytest.mark.integration
def test_answers_without_padding_do_not_depend_on_the_batch(golden, tmp_path):
    case, _ = golden
    answers = []
    for batch_size in (3, 8):
        _run_golden(
            case,
            tmp_path,
            packing=True,
            predict_batch_size=batch_size,
        )
        text = (tmp_path / "nbest_predictions.json").read_text()
        answers.append(_NUMBER.sub("#", text))
    assert answers[0] == answers[1]


_TRAINING = {
    "num_train_epochs": 4,
    "eval_every_steps": 9,
    "packing": True,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A toy run of SQuAD 1.1, trained, evaluated as it went."""
    folder = tmp_path_factory.mktemp("toy")
    toy_squad.run(folder, **programs.STAGES, **_TRAINING)
    return folder


@pytest.fixture
def out(trained, tmp_path):
    """A copy of what was trained, to be changed."""
    return shutil.copytree(trained / "out", tmp_path / "out")


def test_a_small_model_learns_to_answer(trained):
    results = toy_squad.results(trained / "out")
    assert list(results) == ["exact_match", "f1", "global_step"]
    assert results["f1"] > 95
    # 40 questions in 64 windows: steps count questions, as released.
    assert results["global_step"] == 40
    losses = toy_squad.losses(trained / "out")
    assert len(losses) == 40
    assert losses[0] > 10 * losses[-1]
    # The pooler learns nothing.
    last = checkpoints.read(str(trained / "out"))
    first = checkpoints.read(str(trained / "out" / "best"))
    name = "bert/pooler/dense/kernel"
    assert np.array_equal(last[name], first[name])
    assert not np.any(last[f"{name}/adam_m"])
    head = "cls/squad/output_weights"
    assert not np.array_equal(last[head], first[head])


def test_evaluations_keep_the_best_checkpoint_which_can_predict(trained):
    best = toy_files.read_json(trained / "out" / "best" / "best.json")
    assert best["metric"] == "f1"
    evaluations = [
        (record["step"], record["eval_f1"])
        for record in toy_files.read_json_lines(trained / "out/metrics.jsonl")
        if "eval_f1" in record
    ]
    assert [step for step, _ in evaluations] == [9, 18, 27, 36, 40]
    assert best["value"] == max(f1 for _, f1 in evaluations)
    toy_squad.run(
        trained, do_predict=True, do_eval=True, use_best_checkpoint=True
    )
    results = toy_squad.results(trained / "out")
    assert results["global_step"] == best["step"]
    assert results["f1"] == pytest.approx(best["value"], abs=1e-4)


def test_scores_by_another_measure_are_not_compared(trained, out, caplog):
    changes = {**_TRAINING, "num_train_epochs": 4.2, "output_dir": out}
    changes |= {"scoring": "korquad", "do_predict": False}
    toy_squad.run(trained, **{**programs.STAGES, **changes})
    assert "scoring was 'squad' and is 'korquad'" in caplog.text
    best = toy_files.read_json(out / "best" / "best.json")
    assert best["step"] > 40
    assert best["held_out"]["scoring"] == "korquad"


def test_evaluation_alone_scores_the_model_and_writes_no_answers(trained, out):
    (out / "eval_results.txt").unlink()
    (out / "predictions.json").unlink()
    toy_squad.run(trained, do_eval=True, output_dir=out)
    results = toy_squad.results(out)
    assert results["global_step"] == 40
    assert results["f1"] > 95
    assert not (out / "predictions.json").exists()


def test_windows_of_other_lengths_are_made_again(trained, out):
    def count(**changes):
        toy_squad.run(trained, do_predict=True, output_dir=out, **changes)
        return len(tfrecords.RecordFiles([str(out / "eval.tf_record")]))

    assert count(doc_stride=1) > count(doc_stride=3)


def test_cut_questions_are_counted(trained, out, caplog):
    toy_squad.run(trained, do_predict=True, max_query_length=2, output_dir=out)
    assert (
        "eval questions: 9 of 9 examples are longer than 2 word pieces and are "
        "cut: 9 of 27 pieces (33.3%) are dropped. See --max_query_length"
        in caplog.text
    )


def _answering(folder, **changes):
    """Makes the task of toy questions, and outputs for all of its windows.

    The start and the end of an answer are likeliest at its first word, but less
    than at padding.
    """
    options = toy_squad.parse(
        toy_squad.flags_of(folder, do_predict=True, **changes)
    )
    answering = run_squad.learning.QuestionAnsweringTask(
        options, tokenization.open_tokenizer(options)
    )
    # The network of a test would answer at random.
    windows = list(itertools.chain.from_iterable(answering._features))
    logits = np.zeros([len(windows), 12], np.float32)
    logits[:, 5] = 1  # After [CLS] which place ? [SEP].
    logits[:, -1] = 2
    return answering, {
        "unique_ids": np.array([window.unique_id for window in windows]),
        "start_logits": logits,
        "end_logits": logits,
    }


@pytest.mark.parametrize("packing", [False, True])
def test_padding_competes_for_answers_without_packing_alone(tmp_path, packing):
    answering, outputs = _answering(tmp_path, packing=packing, n_best_size=1)
    answers = answering.decode(None, outputs)
    are_empty = [answer.prediction() == "empty" for answer in answers]
    assert all(are_empty) != packing


def test_records_to_train_on_are_of_a_version_and_an_alignment(tmp_path):
    # Both versions read it.
    train = toy_squad.dataset(6)
    for paragraph in train["data"][0]["paragraphs"]:
        paragraph["qas"][0]["is_impossible"] = False
    toy_files.write_json(tmp_path / "train.json", train)
    toy_files.write_json(tmp_path / "dev.json", train)
    changes = (
        {},
        {"answer_alignment": "offset"},
        {"version_2_with_negative": True},
    )
    plain, *others = (
        _answering(tmp_path, **change)[0].data_sets("train")[0].made_from
        for change in changes
    )
    assert all(plain != made_from for made_from in others)


def test_cut_questions_are_counted_by_their_use(tmp_path, caplog):
    answering, _ = _answering(tmp_path, max_query_length=2)
    assert "eval questions: 9 of 9 examples" in caplog.text
    assert "train questions" not in caplog.text
    (data_set,) = answering.data_sets("train")
    count = len([*data_set.examples()])
    assert f"train questions: {count} of {count} examples" in caplog.text


def test_steps_are_counted_in_questions_however_many_windows_they_have(
    tmp_path,
):
    task, _ = _answering(tmp_path)
    for split in ("train", "predict"):
        (data_set,) = task.data_sets(split)
        assert data_set.counts_examples


def test_verbose_logging_logs_all_that_there_is(tmp_path):
    for verbose, level in ((False, logging.INFO), (True, logging.DEBUG)):
        _answering(tmp_path, verbose_logging=verbose)
        assert logging.get_verbosity() == level


@pytest.mark.parametrize("use_best_checkpoint", [False, True])
def test_the_chosen_threshold_is_that_of_the_checkpoint_that_answered(
    tmp_path, use_best_checkpoint
):
    answering, outputs = _answering(
        tmp_path,
        version_2_with_negative=True,
        null_score_diff_threshold="auto",
        use_best_checkpoint=use_best_checkpoint,
    )
    folders = [tmp_path / "out", tmp_path / "out" / "best"]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        toy_files.write_json(folder / "task.json", {"task": "x"})
    (data_set,) = answering.data_sets("predict")
    records_to_predict = task.Records(
        data_set=data_set, source=None, rows_per_example=None
    )
    answering.write_answers(
        records_to_predict,
        answering.decode(records_to_predict, outputs),
        str(tmp_path / "out"),
    )
    assert [
        "null_score_diff_threshold" in toy_files.read_json(path / "task.json")
        for path in folders
    ] == [not use_best_checkpoint, use_best_checkpoint]


def _about_empty_paragraphs(version_2):
    """Two questions on two paragraphs without a word."""
    answers = (
        {"answers": [], "is_impossible": True}
        if version_2
        else {"answers": [{"text": "paris", "answer_start": 0}]}
    )
    paragraphs = [
        {
            "context": context,
            "qas": [{"id": name, "question": "which place ?", **answers}],
        }
        for name, context in (("a", ""), ("b", " \u200b\n"))
    ]
    return {"data": [{"title": "", "paragraphs": paragraphs}]}


@pytest.mark.parametrize(
    ("version_2", "answer", "score"), [(False, "empty", 0), (True, "", 100)]
)
def test_questions_on_empty_paragraphs_alone_are_answered(
    trained, out, caplog, version_2, answer, score
):
    path = toy_files.write_json(
        out.parent / "empty.json", _about_empty_paragraphs(version_2)
    )
    for _ in range(2):
        toy_squad.run(
            trained,
            do_predict=True,
            do_eval=True,
            predict_file=path,
            version_2_with_negative=version_2,
            output_dir=out,
        )
        answers = toy_files.read_json(out / "predictions.json")
        assert answers == {"a": answer, "b": answer}
        assert toy_squad.results(out)["f1"] == score
    assert "damaged" not in caplog.text
    assert "reusing 0 records" in caplog.text


def test_training_on_empty_paragraphs_alone_is_refused(tmp_path):
    path = toy_files.write_json(
        tmp_path / "empty.json", _about_empty_paragraphs(True)
    )
    for _ in range(2):
        with pytest.raises(ValueError, match="none of 2 examples has a record"):
            toy_squad.run(
                tmp_path,
                do_train=True,
                train_file=path,
                version_2_with_negative=True,
            )


@pytest.mark.integration
def test_a_resumed_run_is_the_unbroken_one(trained, out):
    whole = trained / "out"
    for step in (35, 40):
        for path in out.glob(f"model.ckpt-{step}.*"):
            path.unlink()
    (out / "checkpoint").unlink()
    toy_squad.resume(36, trained, do_train=True, output_dir=out, **_TRAINING)
    assert toy_squad.losses(out) == toy_squad.losses(whole)
    np.testing.assert_equal(
        checkpoints.read(str(out)), checkpoints.read(str(whole))
    )


@pytest.mark.parametrize(
    ("changes", "is_read"),
    [
        ({"do_predict": True}, False),
        ({"do_predict": True, "null_score_diff_threshold": "auto"}, True),
        ({"do_eval": True}, True),
    ],
)
def test_the_ground_truth_is_read_for_scores_and_the_best_threshold(
    tmp_path, changes, is_read
):
    named = toy_squad.flags_of(
        tmp_path, version_2_with_negative=True, **changes
    )
    content = toy_squad.dataset(5)
    for paragraph in content["data"][0]["paragraphs"]:
        del paragraph["qas"][0]["answers"]
    toy_files.write_json(named["predict_file"], content)
    refused = pytest.raises(ValueError, match="answers")
    with refused if is_read else contextlib.nullcontext():
        run_squad.learning.QuestionAnsweringTask(toy_squad.parse(named), None)


@pytest.mark.integration
def test_the_best_threshold_is_found_and_used(tmp_path):
    out = toy_squad.run(
        tmp_path,
        **programs.STAGES,
        version_2_with_negative=True,
        null_score_diff_threshold="auto",
    )
    results = toy_squad.results(out)
    odds = toy_files.read_json(out / "null_odds.json")
    answers = toy_files.read_json(out / "predictions.json")
    threshold = results["null_score_diff_threshold"]
    assert {k for k, text in answers.items() if not text} == {
        k for k, value in odds.items() if value > threshold
    }
    assert results["f1"] >= results["NoAns_total"] / results["total"] * 100
    # As the official script finds it, for answers chosen at the threshold.
    assert results["best_f1"] == pytest.approx(results["f1"], abs=1e-4)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_the_development_set_runs_to_the_end(version, tmp_path):
    toy_squad.write_config(
        tmp_path / "bert_config.json",
        vocab_size=30522,
        max_position_embeddings=384,
    )
    train = toy_files.read_json(_SHARED / "squad" / "train-subset-4000q.json")
    if version == "v2.0":
        for article in train["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    question["is_impossible"] = False
    toy_files.write_json(tmp_path / "train.json", train)
    out = toy_squad.run(
        tmp_path,
        vocab_file=_SHARED / "vocab" / "uncased.txt",
        train_file=tmp_path / "train.json",
        predict_file=_SHARED / "squad" / f"dev-{version}.json",
        **programs.STAGES,
        num_train_epochs=0.01,
        max_seq_length=384,
        max_query_length=64,
        doc_stride=128,
        predict_batch_size=32,
        version_2_with_negative=version == "v2.0",
    )
    assert len(toy_files.read_json(out / "predictions.json")) > 10000


def test_names_and_defaults_are_the_release_s():
    values = programs.defined(run_squad.Options)
    released = {
        "bert_config_file": None,
        "vocab_file": None,
        "output_dir": None,
        "train_file": None,
        "predict_file": None,
        "init_checkpoint": None,
        "do_lower_case": True,
        "max_seq_length": 384,
        "doc_stride": 128,
        "max_query_length": 64,
        "do_train": False,
        "do_predict": False,
        "train_batch_size": 32,
        "predict_batch_size": 8,
        "learning_rate": 5e-5,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
        "save_checkpoints_steps": 1000,
        "iterations_per_loop": 1000,
        "n_best_size": 20,
        "max_answer_length": 30,
        **programs.TPU_DEFAULTS,
        "verbose_logging": False,
        "version_2_with_negative": False,
        "null_score_diff_threshold": 0.0,
    }
    assert {name: values[name].default for name in released} == released

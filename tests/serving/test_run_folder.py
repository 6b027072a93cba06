"""The description of a model in the folder of its run."""

import json
import math

import pytest
import tensorflow as tf

from serving import run_folder
from tests import serving_client


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        ({"objective": "squad", "max_seq_length": 64}, 64),
        # A pre-trained model is not bound to the length of its records.
        (
            {
                "objective": "mlm",
                "max_seq_length": 64,
                "max_predictions_per_seq": 9,
            },
            None,
        ),
    ],
)
def test_the_length_of_texts_is_that_of_fine_tuning(
    tmp_path, identity, expected
):
    (tmp_path / "model.ckpt-3.index").write_bytes(b"")
    state = tmp_path / "model.ckpt-3.state.json"
    state.write_text(json.dumps({"identity": identity}))
    assert run_folder.read(str(tmp_path)).get("max_seq_length") == expected


def test_a_selected_checkpoint_states_the_length_beside_others(tmp_path):
    run = serving_client.golden_classifier(tmp_path / "run")
    (run / "copy.weights.h5").write_bytes(b"")
    best = serving_client.golden_classifier(run / "best")
    prefixes = [str(folder / "mrpc.ckpt-24") for folder in (run, best)]
    for prefix, length in zip(prefixes, (64, 32), strict=True):
        identity = {"objective": "labels", "max_seq_length": length}
        with open(f"{prefix}.state.json", "w") as file:
            json.dump({"identity": identity}, file)
    found = run_folder.find(str(run), prefixes[0])
    assert found.values["max_seq_length"] == 64
    found = run_folder.find(str(run), best=True)
    assert (found.checkpoint, found.values["max_seq_length"]) == (
        prefixes[1],
        32,
    )
    with pytest.raises(ValueError, match="must contain one checkpoint"):
        run_folder.find(str(run))


def test_the_casing_of_a_converted_model_is_that_of_its_tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("[UNK]\nA\n")
    stated = {"do_lower_case": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    assert run_folder.read(str(tmp_path))["do_lower_case"] is False


def _write_card(folder, threshold, *written):
    search = {"n_best_size": 7, "max_answer_length": 9}
    flags = {**search, "null_score_diff_threshold": threshold}
    card = {"flags": flags, "written": dict.fromkeys(written, 1)}
    (folder / "run_card.json").write_text(json.dumps(card))
    return search


@pytest.mark.parametrize(
    ("held", "threshold"), [(0.5, 0.5), ("inf", math.inf), ("-inf", -math.inf)]
)
def test_the_search_for_answers_is_that_of_the_run_card(
    tmp_path, held, threshold
):
    search = _write_card(tmp_path, held)
    assert run_folder.read(str(tmp_path)) == {
        **search,
        "null_score_diff_threshold": threshold,
    }


def test_texts_are_read_as_the_run_card_states_without_records(tmp_path):
    flags = {"long_text": "windows", "window_stride": 3, "doc_stride": 7}
    (tmp_path / "run_card.json").write_text(json.dumps({"flags": flags}))
    assert run_folder.read(str(tmp_path)) == flags
    sidecar = {"flags": {"doc_stride": 9}}
    (tmp_path / "train.tf_record.meta.json").write_text(json.dumps(sidecar))
    values = run_folder.read(str(tmp_path))
    assert values == {**flags, "doc_stride": 9, "is_tagger": False}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, False),
        ({"packing": False, "bucket_by_length": False}, False),
        ({"packing": True, "bucket_by_length": False}, True),
        ({"packing": False, "bucket_by_length": True}, True),
    ],
)
def test_padding_is_removed_as_in_the_last_program(tmp_path, flags, expected):
    (tmp_path / "run_card.json").write_text(json.dumps({"flags": flags}))
    values = run_folder.read(str(tmp_path))
    reading = run_folder.reading_of(values, max_seq_length=128)
    assert reading.removes_padding is expected


def test_a_card_of_another_form_is_refused(tmp_path):
    (tmp_path / "run_card.json").write_text('{"flags": ["n_best_size"]}')
    with pytest.raises(ValueError, match=r"run_card\.json: flags must be of"):
        run_folder.read(str(tmp_path))


def test_a_chosen_threshold_is_that_of_the_results_of_the_trial(tmp_path):
    search = _write_card(tmp_path, "auto", "trial-2/eval_results.txt")
    (tmp_path / "trials.json").write_text("{}")
    trial = tmp_path / "trial-2"
    trial.mkdir()
    # As the official script, which scores the answers that were chosen, gives
    # 0 as the best threshold where none of them has text.
    (trial / "eval_results.txt").write_text(
        "best_f1_thresh = 0.0\nnull_score_diff_threshold = -1.25\n"
    )
    assert run_folder.read(str(trial)) == {
        **search,
        "null_score_diff_threshold": -1.25,
    }


def test_a_chosen_threshold_is_not_that_of_an_earlier_evaluation(tmp_path):
    search = _write_card(tmp_path, "auto", "predictions.json")
    earlier = "null_score_diff_threshold = 0.0\n"
    (tmp_path / "eval_results.txt").write_text(earlier)
    values = run_folder.read(str(tmp_path))
    assert values == {**search, "null_score_diff_threshold": "auto"}
    with pytest.raises(ValueError, match=r"again with --do_predict --do_eval"):
        run_folder.reading_of(values, max_seq_length=128)
    # A program that predicts nothing leaves both.
    _write_card(tmp_path, "auto", "model.ckpt-7.index")
    values = run_folder.read(str(tmp_path))
    assert values == {**search, "null_score_diff_threshold": 0.0}


@pytest.mark.parametrize(
    ("checkpoint", "threshold"),
    [
        ("model.ckpt-10", 1.97),
        ("best/model.ckpt-4", "auto"),
        ("model.ckpt-30", "auto"),
        ("bert_model.ckpt", 1.97),
    ],
)
def test_a_chosen_threshold_is_not_that_of_other_weights(
    tmp_path, checkpoint, threshold
):
    search = _write_card(tmp_path, "auto", "eval_results.txt")
    (tmp_path / "eval_results.txt").write_text(
        "global_step = 10\nnull_score_diff_threshold = 1.97\n"
    )
    values = run_folder.read(str(tmp_path), str(tmp_path / checkpoint))
    assert values == {**search, "null_score_diff_threshold": threshold}


def test_the_run_card_of_a_trial_replaces_that_of_its_run(tmp_path):
    _write_card(tmp_path, 0.0)
    (tmp_path / "trials.json").write_text("{}")
    trial = tmp_path / "trial-1"
    trial.mkdir()
    card = {"flags": {"n_best_size": 5, "null_score_diff_threshold": -2.5}}
    (trial / "run_card.json").write_text(json.dumps(card))
    assert run_folder.read(str(trial)) == {
        "n_best_size": 5,
        "max_answer_length": 9,
        "null_score_diff_threshold": -2.5,
    }


def test_the_best_checkpoint_of_a_trial_has_the_settings_of_its_run(tmp_path):
    (tmp_path / "trials.json").write_text("{}")
    sidecar = {"flags": {"doc_stride": 9}}
    (tmp_path / "train.tf_record.meta.json").write_text(json.dumps(sidecar))
    trial = tmp_path / "trial-1"
    (trial / "best").mkdir(parents=True)
    search = _write_card(trial, "auto", "eval_results.txt")
    (trial / "eval_results.txt").write_text("null_score_diff_threshold = -2\n")
    (trial / "best/best.json").write_text("{}")
    for folder in (trial, trial / "best"):
        assert run_folder.read(str(folder)) == {
            **search,
            "null_score_diff_threshold": -2,
            "doc_stride": 9,
            "is_tagger": False,
        }


def test_a_remote_trial_has_the_records_and_the_card_of_its_run():
    run = "ram://run_folder/run"
    tf.io.gfile.makedirs(f"{run}/trial-1")
    for name, values in (
        ("trials.json", {}),
        ("run_card.json", {"flags": {"n_best_size": 5}}),
        ("train.tf_record.meta.json", {"max_seq_length": 256}),
    ):
        with tf.io.gfile.GFile(f"{run}/{name}", "w") as file:
            file.write(json.dumps(values))
    for trial in (f"{run}/trial-1", f"{run}/trial-1/"):
        found = run_folder.read(trial)
        assert (found["n_best_size"], found["max_seq_length"]) == (5, 256)


def test_a_chosen_threshold_that_was_not_written_must_be_given(tmp_path):
    _write_card(tmp_path, "auto")
    values = run_folder.read(str(tmp_path)) | {"version_2_with_negative": True}
    with pytest.raises(ValueError, match="--null_score_diff_threshold=auto"):
        run_folder.reading_of(values, max_seq_length=128)
    values["null_score_diff_threshold"] = -2.5
    assert run_folder.reading_of(values, max_seq_length=128).threshold == -2.5


def test_the_encoder_below_a_tagger_is_that_of_the_run_card(tmp_path):
    flags = {"features": "last", "init_checkpoint": "bert.ckpt"}
    (tmp_path / "run_card.json").write_text(json.dumps({"flags": flags}))
    made = {"kind": "tagging", "flags": {"layers": [2], "encoder_sha256": "a"}}
    sidecar = tmp_path / "eval_features.tf_record.meta.json"
    sidecar.write_text(json.dumps(made))
    found = run_folder.read(str(tmp_path))
    assert found == {
        "encoder": "bert.ckpt",
        "encoder_layers": [2],
        "encoder_sha256": "a",
        "is_tagger": True,
    }

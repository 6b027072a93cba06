"""What the folder of a run says of its model."""

import json

import pytest

from serving import run_folder


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


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0.5, 0.5), ("auto", -1.25)]
)
def test_the_search_for_answers_is_that_of_the_run_card(
    tmp_path, threshold, expected
):
    card = {
        "flags": {
            "n_best_size": 7,
            "max_answer_length": 9,
            "null_score_diff_threshold": threshold,
        },
        "results": {"eval_results.txt": {"best_f1_thresh": -1.25}},
    }
    (tmp_path / "run_card.json").write_text(json.dumps(card))
    assert run_folder.read(str(tmp_path)) == {
        "n_best_size": 7,
        "max_answer_length": 9,
        "null_score_diff_threshold": expected,
    }


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

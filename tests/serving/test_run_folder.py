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

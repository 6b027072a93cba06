"""Runs as on a GPU: XLA compiles whole steps, and arithmetic of any size."""

import json

import pytest

import run_swag
from tests import (
    programs,
    toy_pretraining,
    toy_sentences,
    toy_squad,
    toy_swag,
    toy_tagging,
)

pytestmark = pytest.mark.slow

_STAGES = {**programs.STAGES, "log_every_steps": 1}
_SHORT = {**_STAGES, "num_train_epochs": 0.5}


def _tag(folder, **changes):
    if not (folder / "train.txt").exists():
        toy_tagging.write_all(folder, num_sentences=80)
    toy_tagging.run(folder, **changes)


def _choose(folder, **changes):
    for seed, name in enumerate(("train.csv", "val.csv", "test.csv")):
        toy_swag.write(folder / name, toy_swag.copying(24, seed))
    named = {
        "data_dir": folder,
        "output_dir": folder / "out",
        "max_seq_length": 8,
        "train_batch_size": 8,
        **toy_swag.write_model(folder),
        **changes,
    }
    run_swag.run(programs.parse(run_swag.Options, **named))


@pytest.mark.parametrize(
    ("run", "flags"),
    [
        (toy_pretraining.run, {}),
        (toy_pretraining.run, {"objective": "ltr", "optimizer": "lamb"}),
        (toy_pretraining.run, {"precision": "mixed_float16"}),
        (
            toy_pretraining.run,
            {
                "recompute": True,
                "num_accumulation_steps": 2,
            },
        ),
        (
            toy_sentences.run,
            {**_SHORT, "packing": True, "num_accumulation_steps": 2},
        ),
        (
            toy_sentences.run,
            {**_SHORT, "bilstm_head": True, "packing": True},
        ),
        (
            toy_sentences.run,
            {
                **_SHORT,
                "long_text": "windows",
                "max_seq_length": 5,
                "recompute": True,
            },
        ),
        (toy_squad.run, {**_STAGES, "num_train_epochs": 1, "packing": True}),
        (_choose, {**_STAGES, "num_train_epochs": 1, "packing": True}),
        (_tag, {**_SHORT, "packing": True}),
        (_tag, {**_SHORT, "features": "last"}),
    ],
)
def test_steps_compiled_as_a_whole_have_the_same_losses(
    tmp_path, monkeypatch, run, flags
):
    def losses(**changes):
        out = tmp_path / f"out-{len(changes)}"
        run(tmp_path, **flags, **changes, output_dir=out)
        lines = (out / "metrics.jsonl").read_text().splitlines()
        reports = [json.loads(line) for line in lines]
        return [each["loss"] for each in reports if "loss" in each]

    plain = losses()
    assert len(plain) > 1
    assert losses(jit_compile="true") == pytest.approx(plain, abs=1e-3)

"""Runs in every execution mode, such as that of GPUs."""

import pytest

from tests.support import (
    programs,
    toy_files,
    toy_pretraining,
    toy_sentences,
    toy_squad,
    toy_swag,
    toy_tagging,
)

pytestmark = pytest.mark.integration

_STAGES = {**programs.STAGES, "log_every_steps": 1}
_SHORT = {**_STAGES, "num_train_epochs": 0.5}


@pytest.mark.parametrize(
    ("run", "flags"),
    [
        (
            toy_pretraining.run,
            {
                "precision": "mixed_float16",
                "recompute": True,
                "num_accumulation_steps": 2,
            },
        ),
        (
            toy_sentences.run,
            {**_SHORT, "packing": True, "num_accumulation_steps": 2},
        ),
        # Each objective is compiled in tests/bert/training/test_tpu.py.
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (
                    toy_pretraining.run,
                    {"objective": "ltr", "optimizer": "lamb"},
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
                (
                    toy_squad.run,
                    {**_STAGES, "num_train_epochs": 1, "packing": True},
                ),
                (toy_swag.run, {**_STAGES, "packing": True}),
                (toy_tagging.run, {**_SHORT, "packing": True}),
                (toy_tagging.run, {**_SHORT, "features": "last"}),
            )
        ),
    ],
)
def test_steps_that_xla_compiles_have_the_same_losses(tmp_path, run, flags):
    def losses(**changes):
        out = tmp_path / f"out-{len(changes)}"
        run(tmp_path, **flags, **changes, output_dir=out)
        state = toy_files.read_json(next(out.glob("*.state.json")))
        mode = state["execution"]["execution_mode"]
        assert mode == ("xla" if changes else "fused")
        return programs.losses(out)

    plain = losses()
    assert len(plain) > 1
    assert losses(jit_compile="true") == pytest.approx(plain, abs=1e-3)


_WITHOUT_XLA = """
import os, pathlib, sys
folder, choice = pathlib.Path(sys.argv[1]), sys.argv[2]
os.environ["XLA_FLAGS"] = f"--xla_dump_to={folder / 'xla'}"
from modeling import compilation
from tests.support import toy_pretraining, toy_sentences
compilation._WORTH_COMPILING = 0
common = {"precision": "mixed_bfloat16", "jit_compile": choice}
toy_pretraining.run(
    folder / "pretraining", do_eval=True, num_train_steps=2, **common)
toy_sentences.run(
    folder / "sentences", do_train=True, do_eval=True, do_predict=True,
    num_train_epochs=0.2, **common)
"""


@pytest.mark.parametrize(("choice", "uses_xla"), [("false", 0), ("auto", 1)])
def test_xla_can_be_switched_off_altogether(choice, uses_xla, tmp_path):
    done = programs.invoke("-c", _WITHOUT_XLA, str(tmp_path), choice)
    assert done.exit_code == 0, done.stderr[-3000:]
    for name in ("pretraining", "sentences"):
        assert list((tmp_path / name / "out").glob("*eval_results.txt"))
    compiled = list((tmp_path / "xla").glob("*"))
    assert bool(compiled) == uses_xla

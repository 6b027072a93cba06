"""run_classifier.py against the release."""

import shutil

import numpy as np
import pytest

from tests.support import locations, programs, toy_files
from tests.support import toy_sentences as toy

_RELEASED = toy_files.read_json(
    locations.GOLDEN / "classifier/mrpc_results.json"
)
_TOLERANCE = 1e-5  # Source: tests/golden/README.md, "Tolerances".


def _lines(text):
    return [line.split(" = ") for line in text.splitlines()]


@pytest.mark.parametrize(("batch_size", "bucketed"), [(8, False), (4, True)])
def test_evaluation_is_the_release_s(tmp_path, batch_size, bucketed):
    toy.run(
        tmp_path,
        **toy.golden_flags(
            tmp_path / "mrpc",
            do_eval=True,
            eval_batch_size=batch_size,
            packing=bucketed,
        ),
    )
    golden = _RELEASED[f"eval_batch{batch_size}"]["eval_results_txt"]
    text = (tmp_path / "mrpc/eval_results.txt").read_text()
    assert text.endswith("\n")
    added = [line for line in _lines(text) if line[0] == "eval_f1"]
    ours = [line for line in _lines(text) if line not in added]
    assert len(added) == 1
    for (key, value), (golden_key, golden_value) in zip(
        ours, _lines(golden), strict=True
    ):
        assert key == golden_key
        assert float(value) == pytest.approx(
            float(golden_value), abs=_TOLERANCE
        )
    assert ["global_step", "24"] in ours


@pytest.mark.parametrize("batch_size", [8, 5])
def test_predictions_are_the_release_s(tmp_path, batch_size):
    toy.run(
        tmp_path,
        **toy.golden_flags(
            tmp_path / "mrpc",
            do_predict=True,
            predict_batch_size=batch_size,
        ),
    )
    golden = _RELEASED["predict"]["test_results_tsv"].splitlines()
    text = (tmp_path / "mrpc/test_results.tsv").read_text()
    assert text.endswith("\n")
    for line, golden_line in zip(text.splitlines(), golden, strict=True):
        values = [float(cell) for cell in line.split("\t")]
        wanted = [float(cell) for cell in golden_line.split("\t")]
        np.testing.assert_allclose(values, wanted, atol=_TOLERANCE)
        # The shortest spelling of a float32, as the release prints it.
        assert line == "\t".join(str(np.float32(value)) for value in values)
    answers = (tmp_path / "mrpc/MRPC.tsv").read_text().splitlines()
    assert answers[:4] == ["index\tprediction", "0\t1", "1\t1", "2\t0"]
    assert len(answers) == 1 + len(golden)


@pytest.mark.integration
def test_mnli_answers_for_all_its_sets(tmp_path):
    data = tmp_path / "MNLI"
    shutil.copytree(locations.INPUTS / "MNLI", data)
    shutil.copy(data / "dev_matched.tsv", data / "dev_mismatched.tsv")
    shutil.copy(data / "test_matched.tsv", data / "test_mismatched.tsv")
    out = tmp_path / "out"
    toy.run(
        tmp_path,
        task_name="mnli",
        data_dir=data,
        text_a_column="",
        label_column="",
        vocab_file=locations.INPUTS / "vocab.txt",
        bert_config_file=locations.INPUTS / "bert_config.json",
        init_checkpoint=locations.CHECKPOINT,
        output_dir=out,
        **programs.STAGES,
        train_batch_size=4,
        num_train_epochs=0.5,
    )
    results = toy.results(out)
    assert results["eval_accuracy"] == results["eval_accuracy_mismatched"]
    for first, second in (
        ("test_results.tsv", "test_results_mismatched.tsv"),
        ("predictions.jsonl", "predictions_mismatched.jsonl"),
        ("MNLI-m.tsv", "MNLI-mm.tsv"),
    ):
        assert (out / first).read_text() == (out / second).read_text() != ""
    assert not (out / "AX.tsv").exists()

"""The report on an accelerator, made on a CPU with tiny sizes."""

import pytest

from benchmarks import accelerator
from tests.support import programs, toy_config


@pytest.mark.integration
def test_a_report_has_every_section(tmp_path):
    config = toy_config.write(tmp_path / "toy.json", max_position_embeddings=32)
    report = tmp_path / "report.md"
    options = programs.parse(
        accelerator.Options,
        output_file=report,
        bert_config_files=config,
        lengths=24,
        precisions="float32",
        batch_size=4,
        num_steps=2,
        largest_batch=2,
    )
    accelerator.main(options)
    text = report.read_text()
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Machine",
        "## GPU tests",
        "## Resuming in a second process",
        "## Time of a step",
        "## Largest batches",
    ]
    assert "TensorFlow" in text and "replica(s) on CPU" in text
    assert "skipped" in text  # This machine has no GPU.
    assert "- float32: weights and moments have the same bits." in text
    rows = [line.split(" | ") for line in text.splitlines() if "toy, " in line]
    times, largest = rows[:2], rows[2:]
    assert [row[0] for row in times] == [
        "| toy, pretraining, 24, float32",
        "| toy, fine_tuning, 24, float32",
    ]
    for row in times:
        milliseconds, rows_per_second, tokens, share = map(float, row[1:5])
        assert rows_per_second == pytest.approx(4e3 / milliseconds, rel=0.1)
        assert tokens == pytest.approx(24 * rows_per_second, rel=0.1)
        assert 0 <= share < 1
    assert [[cell.strip(" |") for cell in row[1:]] for row in largest] == [
        ["2", "2"],
        ["2", "2"],
    ]

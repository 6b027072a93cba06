"""The report on an accelerator, made on a CPU with tiny sizes."""

import time

import numpy as np
import pytest

from benchmarks import accelerator, contenders, ours
from tests.support import programs, toy_config


@pytest.mark.slow
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
        largest_batch=1,
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
        ["1", "1"],
        ["1", "1"],
    ]


@pytest.mark.integration
def test_the_time_of_a_step_is_that_of_one_step():
    job = contenders.Job(
        kind="fine_tuning",
        sizes=toy_config.sizes(max_position_embeddings=32),
        batch_size=4,
        max_seq_length=24,
        precision="float32",
        num_steps=100,
    )
    measured = accelerator.steps(job)()
    trainer, batches = ours.training(job)
    for count in (1, job.num_steps):  # The first one compiles.
        start = time.perf_counter()
        for step in range(count):
            trainer.run(batches, step, np.float32(1e-4), seed=1)
        seconds = (time.perf_counter() - start) / count
    # A busy machine is several times slower; all steps take a hundred times.
    assert 1 / 8 < measured["seconds"] / seconds < 8
    assert measured["first_seconds"] > measured["seconds"]


@pytest.mark.parametrize(
    ("most_that_fits", "most", "largest"),
    [(0, 8, 0), (1, 8, 1), (5, 8, 4), (100, 8, 8), (100, 7, 4)],
)
def test_the_largest_batch_is_a_power_of_two(most_that_fits, most, largest):
    job = contenders.Job(kind="fine_tuning")
    found = accelerator.largest_batch(
        job, most, lambda tried: tried.batch_size <= most_that_fits
    )
    assert found == largest

"""The release's fine-tuning steps on answer spans, on fixed batches."""

import gzip
import json

import numpy as np
import pytest

from modeling import checkpoints, heads
from tests import golden_steps
from training import objectives

# Suggested by the golden README for losses and norms, relative.
_TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def golden():
    return golden_steps.read("squad")


def _batches(golden):
    """Yields the batches that the release was given, in order."""
    with gzip.open(
        golden_steps.GOLDEN / "squad/features.json.gz", "rt"
    ) as file:
        features = json.load(file)[golden["features"]]
    indexes, size = golden["feature_indexes"], golden["batch_size"]
    for step in range(golden["steps"]):
        rows = [features[i] for i in indexes[step * size : (step + 1) * size]]
        batch = {
            name: np.array([row[name] for row in rows], np.int32)
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        for place in ("start", "end"):
            positions = [[row[f"{place}_position"]] for row in rows]
            batch[f"{place}_positions"] = np.array(positions, np.int32)
        batch["unique_ids"] = np.arange(size, dtype=np.int32)[:, None]
        yield batch


@pytest.fixture(scope="module")
def trained(golden):
    model = golden_steps.model(golden, heads.BertForQuestionAnswering)
    objective = objectives.SpanExtraction(model)
    return golden_steps.train(golden, objective, list(_batches(golden)))


def test_steps_are_the_release_s(golden, trained):
    golden_steps.check(golden, trained, _TOLERANCE, rtol=0, atol=1e-5)


def test_the_pooler_is_left_as_it_was(golden, trained):
    untouched = golden_steps.run(golden)["no_gradient"]
    assert untouched
    _, weights = trained
    start = str(golden_steps.GOLDEN / golden["init_checkpoint"])
    before = checkpoints.read(start)
    for name in untouched:
        assert np.array_equal(weights[name], before[name]), name


@pytest.mark.parametrize("row", [0, 3])
def test_filler_rows_weigh_nothing(golden, row):
    model = golden_steps.model(golden, heads.BertForQuestionAnswering)
    objective = objectives.SpanExtraction(model)
    golden_steps.check_filler_rows(objective, next(_batches(golden)), row)

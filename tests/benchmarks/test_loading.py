"""Loading takes little more memory than the model itself."""

import pathlib

import pytest

from benchmarks import loading


@pytest.mark.slow
def test_loading_bert_base_needs_at_most_two_and_a_half_times_its_size(
    tmp_path,
):
    if not pathlib.Path("/proc/self/status").exists():
        pytest.skip("memory is read from Linux' /proc")
    loading.make_checkpoints(str(tmp_path), ["release"])
    cost = loading.measure_apart(str(tmp_path / "bert_model.ckpt"))
    assert cost.weights_mb == pytest.approx(110_106_428 * 4 / 2**20)
    # Less than the weights would mean that nothing was loaded.
    assert 1 <= cost.peak_mb / cost.weights_mb <= 2.5
    assert 0 < cost.load_seconds < cost.seconds

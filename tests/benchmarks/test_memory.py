"""The largest batches, worked by hand."""

import pytest

from benchmarks import memory, scaling
from modeling import costs
from tests import programs

_BASE = scaling.read_config("bert_base_uncased")


def _need(length=128, kind="fine_tuning", **method):
    return memory.computed_need(
        _BASE, memory.shape_of(length, kind), costs.Method(**method)
    )


def test_fixed_part_is_weights_moments_and_two_copies_of_gradients():
    count = costs.pretraining_parameters(_BASE)
    assert _need().fixed == (4 + 8 + 8) * count
    assert _need(num_parts=2).fixed == (4 + 8 + 12) * count
    assert _need(precision="mixed_bfloat16").fixed == (6 + 8 + 8) * count


def test_need_of_rows_is_that_of_the_formulas():
    shape = memory.shape_of(256, "pretraining")
    need = _need(256, "pretraining")
    whole = costs.memory(_BASE, shape, 7, costs.Method())
    assert need.fixed + 7 * need.per_example == whole.total


def test_fine_tuning_has_no_logits_of_the_vocabulary():
    difference = _need(kind="pretraining").per_example - _need().per_example
    assert difference == 20 * _BASE.vocab_size * 2 * 4  # P V, kept twice.


def test_recomputing_keeps_a_fraction_of_each_layer():
    assert _need(recompute=True).per_example < _need().per_example / 4
    assert _need(recompute=True).fixed == _need().fixed


def test_line_is_fitted_to_peaks():
    need = memory.fitted_need({1: 110, 2: 120, 4: 140})
    assert need.fixed == pytest.approx(100)
    assert need.per_example == pytest.approx(10)
    need = memory.fitted_need({1: 1, 2: 3, 3: 2})  # By hand: 1 + x / 2.
    assert need.fixed == pytest.approx(1)
    assert need.per_example == pytest.approx(0.5)


def test_a_fit_needs_two_batch_sizes():
    with pytest.raises(ValueError, match=r"two batch sizes .* got \[8\]"):
        memory.fitted_need({8: 5})


@pytest.mark.parametrize(
    ("fixed", "expected"),
    [(0, 90), (1e9, 80), (8.9e9, 1), (8.95e9, 0), (20e9, 0)],
)
def test_largest_batch_leaves_a_tenth_of_the_memory(fixed, expected):
    need = memory.Need(fixed=fixed, per_example=1e8)
    assert scaling.USABLE_MEMORY == 0.9
    assert memory.largest_batch(need, 10) == expected


def test_largest_batch_fits_and_one_more_does_not():
    need = _need(384, recompute=True)
    rows = memory.largest_batch(need, 12)
    room = scaling.USABLE_MEMORY * 12e9
    assert need.fixed + rows * need.per_example <= room
    assert need.fixed + (rows + 1) * need.per_example > room


def test_case_is_read_with_its_batches():
    case = memory.read_case("bert_tiny:64:8+16:recompute", "float32")
    assert case.config.hidden_size == 128
    assert (case.length, case.batch_sizes) == (64, (8, 16))
    assert case.method == costs.Method(recompute=True)
    case = memory.read_case("bert_tiny:128:8:4", "mixed_bfloat16")
    assert case.method == costs.Method(precision="mixed_bfloat16", num_parts=4)


@pytest.mark.parametrize(
    "text",
    ["bert_tiny", "bert_tiny:64", "bert_tiny:a:8", "bert_tiny:128:4:fast"],
)
def test_case_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="CONFIG:LENGTH:BATCH"):
        memory.read_case(text, "float32")


def test_table_has_a_row_for_each_memory_and_a_column_for_each_length():
    options = programs.parse(
        memory.Options, "--lengths=64,512", "--memory_gb=8,80"
    )
    lines = memory.network_table(
        "bert_mini", options, in_parts=False
    ).splitlines()
    assert lines[0] == "| bert_mini, length | 64 | 512 |"
    assert [line.split(" | ")[0] for line in lines[2:4]] == [
        "| 8 GB",
        "| 80 GB",
    ]
    plain, recompute = lines[2].split(" | ")[1].split(" / ")
    assert 0 < int(plain) < int(recompute)


def test_released_table_holds_the_releases_numbers():
    lines = memory.released_table().splitlines()
    assert lines[3].startswith("| 128 | 32 | ")
    assert len(lines) == 2 + len(memory.RELEASED) + 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fine_tuning", "pretraining"])
def test_more_rows_take_more_memory(kind):
    case = memory.read_case("bert_tiny:128:8+128", "float32")
    peaks = [memory.peak_bytes(case, rows, kind) for rows in case.batch_sizes]
    shape = memory.shape_of(case.length, kind)
    need = memory.computed_need(case.config, shape, case.method)
    measured = (peaks[1] - peaks[0]) / 120
    assert 0.7 < measured / need.per_example < 1.3

"""The phases of a pre-training run."""

import pytest

from tests import toy_pretraining
from training import phases as phases_lib


def _options(tmp_path, **changes):
    return toy_pretraining.parse(
        toy_pretraining.flags_of(
            tmp_path, **{"num_train_steps": 1000, **changes}
        )
    )


def _phases(tmp_path, **changes):
    return phases_lib.parse(_options(tmp_path, **changes))


def test_without_phases_a_run_is_one(tmp_path):
    (phase,) = _phases(tmp_path)
    assert phase.end == 1000
    assert phase.options.max_seq_length == 10
    assert _identity(tmp_path) == ([], [])


def _identity(tmp_path, **changes):
    options = _options(tmp_path, **changes)
    found = phases_lib.identity(phases_lib.parse(options), options)
    return found["phases"], found["accumulation_of_phases"]


def test_a_value_of_a_phase_must_stay_the_same(tmp_path):
    assert _identity(tmp_path, phases="steps=1000") == ([], [])
    assert _identity(tmp_path, phases="steps=100% train_batch_size=8") == (
        [[1000, 10, 2, 8]],
        [1],
    )
    assert _identity(
        tmp_path, phases="steps=300; steps=700 num_accumulation_steps=2"
    ) == ([[300, 10, 2, 4], [1000, 10, 2, 4]], [1, 2])


def test_phases_change_what_they_name(tmp_path):
    first, second = _phases(
        tmp_path,
        phases="steps=90%; steps=10% max_seq_length=12 train_batch_size=2 "
        "max_predictions_per_seq=3 num_accumulation_steps=2 "
        "input_file='long; records,more'",
    )
    assert (first.end, second.end) == (900, 1000)
    assert first.options.input_file == str(tmp_path / "records")
    assert first.options.train_batch_size == 4
    assert second.options.input_file == "long; records,more"
    assert second.options.max_seq_length == 12
    assert second.options.max_predictions_per_seq == 3
    assert second.options.train_batch_size == 2
    assert second.options.num_accumulation_steps == 2
    # The schedule is that of the whole run.
    assert second.options.num_train_steps == 1000


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("steps=300;steps=700", [300, 1000]),
        ("steps=33.33%;steps=33.33%;steps=33.34%;", [333, 667, 1000]),
    ],
)
def test_steps_are_numbers_or_shares(tmp_path, text, ends):
    assert [phase.end for phase in _phases(tmp_path, phases=text)] == ends


def test_rounded_shares_end_with_the_run(tmp_path):
    phases = _phases(
        tmp_path,
        phases="steps=33.33%;steps=33.33%;steps=33.33%",
        num_train_steps=1_000_000,
    )
    assert [phase.end for phase in phases] == [333_300, 666_600, 1_000_000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps=300;steps=600", r"add up to --num_train_steps \(1000\)"),
        ("steps=90%;steps=9%", "got 90%, 9%"),
        ("steps=90%;steps=10.04%", "got 90%, 10.04%"),
        ("steps=90%;steps=100", "or percentages"),
        ("steps=inf%;steps=9%", "got inf%, 9%"),
        ("steps=1000;steps=0", "at least one step"),
        ("steps=99.99%;steps=0.01%", "at least one step"),
        ("max_seq_length=9", "add up"),
        (";", "got none"),
        ("steps=1000 seq=9", "keys steps, input_file"),
        ("steps=1000 steps=1000", "each once"),
        ("steps=1000 train_batch_size=", "key=value"),
        ("steps=1000 train_batch_size=0", "train_batch_size in --phases"),
        ("steps=1000 max_seq_length=x", "positive integer; got 'x'"),
        ("steps=1000 input_file='a b", "quote in --phases must have an end"),
    ],
)
def test_invalid_phases_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        _phases(tmp_path, phases=text)
    text = "steps=1 input_file=a;steps=999"
    with pytest.raises(ValueError, match="needs an input_file"):
        _phases(tmp_path, input_file="", phases=text)

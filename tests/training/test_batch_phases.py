import pytest

from training import batch_phases


class _Batches:
    """Batches that say for which steps they were asked."""

    def __init__(self, name, batch_size):
        self._name = name
        self._batch_size = batch_size

    def phase(self, step):
        return batch_phases.Phase(
            batch_size=self._batch_size, num_accumulation_steps=3
        )

    def iterator(self, strategy, first_step, num_steps):
        return self._name, first_step, num_steps

    def describe(self, step):
        return f"{self._name} {step}"


@pytest.fixture
def phased():
    return batch_phases.PhasedBatches(
        [_Batches("short", 8), _Batches("long", 2)], [5, 7]
    )


def test_each_phase_counts_its_own_steps(phased):
    assert [phased.describe(step) for step in (0, 4, 5, 6)] == [
        "short 0",
        "short 4",
        "long 0",
        "long 1",
    ]
    assert phased.iterator(None, 2, 5) == ("short", 2, 5)
    assert phased.iterator(None, 6, 7) == ("long", 1, 2)


def test_a_phase_says_its_shape_and_where_it_ends(phased):
    assert phased.phase(4) == batch_phases.Phase(
        batch_size=8, num_accumulation_steps=3, end=5
    )
    assert phased.phase(5).batch_size == 2
    assert phased.phase(5).end == phased.phase(7).end == 7


def test_an_iterator_does_not_cross_phases(phased):
    with pytest.raises(ValueError, match="steps 4 to 5, and the phase ends"):
        phased.iterator(None, 4, 6)

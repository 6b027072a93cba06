"""How numbers spread, in a few numbers."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread:
    """What is shown of many numbers.

    Attributes:
        count: how many there are.
        mean: 0 if there are none, as are the rest.
        median: half are no more.
        percentile_95: 95 of 100 are no more.
        largest: the largest one.
    """

    count: int
    mean: float
    median: float
    percentile_95: float
    largest: float


def of(values: np.ndarray) -> Spread:
    """Describes `[N]` numbers."""
    values = np.asarray(values)
    if not values.size:
        values = np.zeros(1)
        return dataclasses.replace(of(values), count=0)
    median, high = np.percentile(values, [50, 95])
    return Spread(
        count=int(values.size),
        mean=float(values.mean()),
        median=float(median),
        percentile_95=float(high),
        largest=float(values.max()),
    )

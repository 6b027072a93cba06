"""Time and memory of a piece of work."""

import contextlib
import resource
import sys
import time
from collections.abc import Iterator

from absl import logging


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Logs the seconds that a piece of work took and the memory so far."""
    started = time.monotonic()
    yield
    logging.info(
        "%s took %.1f s; at most %s MB of memory so far",
        name,
        time.monotonic() - started,
        f"{_peak_megabytes():,.0f}",
    )


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes, but on macOS bytes.
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)

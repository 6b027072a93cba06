"""Time and memory of phases."""

import re

from absl import logging

from training import phases


def test_a_phase_logs_its_seconds_and_memory(caplog):
    logging.set_verbosity(logging.INFO)
    with phases.phase("Cutting windows"):
        pass
    (line,) = (record.getMessage() for record in caplog.records)
    match = re.fullmatch(
        r"Cutting windows took 0\.0 s; at most ([\d,]+) MB of memory so far",
        line,
    )
    assert int(match.group(1).replace(",", "")) > 10

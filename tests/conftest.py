"""What every test starts from."""

import pytest
from absl import logging


@pytest.fixture(autouse=True)
def _absl_reports_as_the_scripts_do():
    """Lets `caplog` see what is logged, whichever tests ran before."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    yield
    logging.set_verbosity(before)

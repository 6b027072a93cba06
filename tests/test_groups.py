"""Groups of tests, and the commands that run them."""

import os

import pytest

from tests.support import locations, programs


@pytest.mark.parametrize("command", ["./quickstart.sh", "./run_tests.sh"])
def test_the_readme_has_the_commands_that_set_up_a_clone(command):
    text = (locations.ROOT / "README.md").read_text()
    assert f"\n```\n{command}\n```\n" in text
    assert os.access(locations.ROOT / command, os.X_OK)


def test_continuous_integration_runs_all():
    assert (
        "\nexec ./run_tests.sh --all\n"
        in (locations.ROOT / ".ci/run").read_text()
    )


_TESTS = """
import time, pytest, hypothesis, hypothesis.strategies

@hypothesis.given(hypothesis.strategies.integers())
def test_draws(number):
    print("drawn", number)

def test_is_skipped():
    pytest.skip("no reason")

@pytest.mark.timeout(0.1)
def test_does_not_end():
    while True:
        time.sleep(0.01)
"""


@pytest.mark.integration
def test_runs_draw_the_same_end_and_may_refuse_to_skip(tmp_path):
    """Each of the four promises is seen to be broken without its option."""
    path = tmp_path / "test_new.py"
    path.write_text(_TESTS)
    own = ["-p", "tests.conftest", "-o", "addopts=", "-p", "no:cacheprovider"]

    def run(name, *options):
        done = programs.python(
            *("-m", "pytest", "-q", "-s", *own, f"{path}::{name}", *options)
        )
        drawn = [x for x in done.stdout.splitlines() if x.startswith("drawn")]
        return done.returncode, drawn, done.stdout

    code, drawn, text = run("test_draws")
    assert code == 0 and len(drawn) > 50
    assert "--hypothesis-seed=0" in text
    assert run("test_draws")[1] == drawn
    assert run("test_draws", "--hypothesis-seed=1")[1] != drawn
    assert run("test_is_skipped")[0] == 0
    assert run("test_is_skipped", "--no-skips")[0] == 1
    assert "Timeout" in run("test_does_not_end")[2]

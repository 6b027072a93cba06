"""The shell scripts that set up a clone, with stand-ins for their programs."""

import os
import shutil
import subprocess

import pytest

from tests.support import locations

# Notes its arguments. Files that it is asked to write are written, but not
# the results of a training, which was interrupted.
_STAND_IN = """#!/bin/bash
command="$(basename "$0") $*"
echo "$command" >> log
case $command in *"${FAILING:-nothing}"*) exit 1;; esac
for argument; do
  case $argument in --output_file=*) touch "${argument#*=}";; esac
done
"""


@pytest.fixture
def clone(tmp_path):
    """A folder with the scripts, whose environment has stand-ins."""
    for name in ("quickstart.sh", "run_tests.sh", "tools/environment.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(locations.ROOT / name, tmp_path / name)
    shutil.copytree(locations.ROOT / "requirements", tmp_path / "requirements")
    for name in ("python", "ruff", "mypy"):
        _write_program(tmp_path / ".venv/bin" / name, _STAND_IN)
    return tmp_path


def _write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _run(folder, *command, **variables):
    """Returns the exit code, what it says, and the commands it ran."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    ran = log.read_text().splitlines() if log.exists() else []
    return done.returncode, done.stdout + done.stderr, ran


def _installed(commands):
    """Returns the files of requirements that were installed."""
    pip = [line.split() for line in commands if "pip install" in line]
    assert all("requirements/lock.txt" in words for words in pip)
    return [words[-1] for words in pip]


def test_packages_are_installed_once_and_again_when_a_file_changes(clone):
    _, _, ran = _run(clone, "./run_tests.sh")
    assert _installed(ran) == ["requirements/dev.txt"]
    assert _installed(_run(clone, "./run_tests.sh")[2]) == []
    # quickstart.sh needs another file, and keeps its own account.
    assert _installed(_run(clone, "./quickstart.sh")[2]) == [
        "requirements/base.txt"
    ]
    with open(clone / "requirements/lock.txt", "a") as file:
        file.write("# Another version.\n")
    for command, name in (("run_tests", "dev"), ("quickstart", "base")):
        ran = _run(clone, f"./{command}.sh")[2]
        assert _installed(ran) == [f"requirements/{name}.txt"]


def test_packages_that_were_not_installed_are_so_the_next_time(clone):
    code, _, _ = _run(clone, "./run_tests.sh", FAILING="pip install")
    assert code == 1
    _, _, ran = _run(clone, "./run_tests.sh")
    assert _installed(ran) == ["requirements/dev.txt"]


@pytest.mark.parametrize(
    ("present", "variables", "found"),
    [
        ({"python3.12": 0, "python3": 0}, {}, "python3.12"),
        # Too new, or without venv.
        ({"python3.13": 1, "python3": 0}, {}, "python3"),
        ({"python3.13": 0, "mine": 0}, {"PYTHON": "mine"}, "mine"),
        ({"python3.13": 0, "mine": 1}, {"PYTHON": "mine"}, "python3.13"),
        ({"python3": 1}, {}, None),
    ],
)
def test_the_newest_python_that_fits_is_chosen(
    clone, present, variables, found
):
    for name, code in present.items():
        _write_program(clone / "bin" / name, f"#!/bin/bash\nexit {code}\n")
    (clone / "bin/cat").symlink_to(shutil.which("cat"))
    code, text, _ = _run(
        clone,
        shutil.which("bash"),
        "-c",
        "source tools/environment.sh; find_python",
        PATH=str(clone / "bin"),
        **variables,
    )
    if found:
        assert (code, text) == (0, f"{found}\n")
    else:
        assert code == 1
        assert "No Python 3.11, 3.12 or 3.13 with its venv module" in text


def _steps(commands):
    """Returns the programs of the project that ran."""
    words = [line.removeprefix("python -m ").split() for line in commands]
    names = [x[0] if x[0] != "python" else x[1] for x in words]
    return [name for name in names if name not in ("-c", "pip")]


def test_the_quick_start_skips_what_is_there_and_resumes_its_training(clone):
    _, text, ran = _run(clone, "./quickstart.sh")
    assert _steps(ran) == [
        "tools.python_docs",
        "tools.prepare_corpus",
        "tools.learn_vocab",
        "create_pretraining_data.py",
        "create_pretraining_data.py",
        "run_pretraining.py",
        "tools.predict",
        "run_classifier.py",
    ]
    assert "Skipped" not in text
    # The commands that are shown are those that ran.
    shown = text.replace(" \\\n      ", "")
    for line in ran:
        if not line.startswith(("python -c", "python -m pip")):
            assert f"   .venv/bin/{line}\n" in shown
    # Of the first step now there is output; of the trainings there is none.
    (clone / "quickstart/docs").mkdir()
    (clone / "quickstart/docs/docs.jsonl").touch()
    _, text, ran = _run(clone, "./quickstart.sh")
    assert _steps(ran) == [
        "run_pretraining.py",
        "tools.predict",
        "run_classifier.py",
    ]
    assert text.count("Skipped: ") == 5
    assert "Skipped: quickstart/text.txt exists." in text


def test_a_failed_step_ends_the_quick_start(clone):
    code, text, ran = _run(clone, "./quickstart.sh", FAILING="learn_vocab")
    assert code == 1
    assert "tools.learn_vocab" in ran[-1]
    assert "== Done" not in text


@pytest.mark.parametrize(
    ("arguments", "with_fast", "rest"),
    [
        ([], True, ""),
        (["--all"], False, ""),
        (["-m", "slow"], False, " -m slow"),
        (["tests/vocab", "-x"], True, " tests/vocab -x"),
    ],
)
def test_arguments_of_the_tests_go_to_pytest(clone, arguments, with_fast, rest):
    code, text, ran = _run(clone, "./run_tests.sh", *arguments)
    assert code == 0
    assert {"ruff check .", "ruff format --check .", "mypy "} <= {*ran}
    (tests,) = [line for line in ran if "-m pytest" in line]
    assert tests.endswith(f"{' --fast' if with_fast else ''}{rest}")
    assert ("--fast" in tests) == with_fast
    assert ("These were the fast tests" in text) == with_fast


@pytest.mark.parametrize(
    "failing", ["ruff check", "ruff format", "mypy", "python -m pytest"]
)
def test_a_failed_check_fails_the_tests(clone, failing):
    assert _run(clone, "./run_tests.sh", FAILING=failing)[0] == 1

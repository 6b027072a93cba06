"""Every command that the manual or a docstring shows is one that works."""

import json
import re
import subprocess

import pytest

from tests.support import documented_commands as documented

# Programs of others, with which a line of the manual may begin, and modules
# that have no flags of this project.
_ELSEWHERE = {
    "cd",
    "cp",
    "curl",
    "dask",
    "docker",
    "git",
    "hf",
    "pip",
    "source",
}
_OTHER_MODULES = {
    "benchmarks.serving",
    "pytest",
    "tests.mutation.run",
}
# Files that are run, without flags of this project.
_SCRIPTS = {".ci/manual.py", "./quickstart.sh", "./run_tests.sh"}
_PROGRAMS = sorted(documented.programs())


def _faults(commands):
    """Says, of each command that its program would refuse, where and why."""
    found = []
    for command in commands:
        program, _ = documented.parted(command)
        if program in documented.programs():
            message = documented.fault(command)
        elif program in _SCRIPTS:
            message = None if (documented.ROOT / program).is_file() else "gone"
        elif program in _OTHER_MODULES | _ELSEWHERE:
            message = None
        elif program.endswith(".NAME") and not command.is_whole:
            message = None  # Any program of that room.
        else:
            message = f"there is no program {program}"
        if message:
            found.append(f"{command.where}: {program}: {message}")
    return found


def test_programs_and_commands_are_found():
    assert {"run_squad.py", "tools.download", "paper.reproduce"} < set(
        _PROGRAMS
    )
    counts = [len(documented.commands_of_page(p)) for p in documented.PAGES]
    assert sum(counts) > 50
    readme = documented.commands_of_page("README.md")
    assert sum(command.is_whole for command in readme) > 5


@pytest.mark.parametrize("page", documented.PAGES)
def test_commands_of_the_manual_are_accepted(page):
    faults = _faults(documented.commands_of_page(page))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("recipe", documented.RECIPES)
def test_commands_of_recipes_are_accepted(recipe):
    commands = documented.commands_of_recipe(recipe)
    assert f"--flagfile={recipe}" in commands[-1].words
    assert _faults(commands) == []


@pytest.mark.parametrize("program", _PROGRAMS)
def test_examples_of_programs_are_accepted(program):
    commands = documented.commands_of_docstring(program)
    assert commands, f"{program} has no example in its docstring"
    assert _faults(commands) == []
    assert program in {documented.parted(command)[0] for command in commands}


@pytest.mark.parametrize("page", documented.PAGES)
def test_flags_that_the_manual_names_exist(page):
    wrong = [
        f"{where}: {word}: {message}"
        for where, word in documented.flags_of_page(page)
        if (message := documented.fault_of_flag(word))
    ]
    assert wrong == []


# Replacements of SLURM's programs, and a `python` that prints its TF_CONFIG.
_SLURM = """
scontrol() { printf 'node1\\nnode2\\n'; }
srun() { "$@"; }
python() { printf '%s' "$TF_CONFIG"; }
export -f python
export SLURM_PROCID=1 SLURM_JOB_NODELIST=node[1-2]
"""


def test_slurm_recipe_makes_a_valid_cluster():
    page = documented.ROOT / "docs" / "distributed_training.md"
    text = page.read_text(encoding="utf-8")
    recipe = re.search(r"^#SBATCH.*?^```$", text, re.MULTILINE | re.DOTALL)
    script = _SLURM + recipe.group().removesuffix("```")
    printed = subprocess.run(
        ["bash", "-c", script], check=True, capture_output=True
    ).stdout
    assert json.loads(printed) == {
        "cluster": {"worker": ["node1:2222", "node2:2222"]},
        "task": {"type": "worker", "index": 1},
    }

import pathlib
import resource
import subprocess
import sys

import pytest

from tests import documented_commands as documented

_ROOT = pathlib.Path(__file__).parents[2]
_MOST_SECONDS_OF_HELP = 0.5
_PROGRAM = '''"""Does what --task says.

Example:

  python made.py --task=refuse
"""

import sys

from absl import flags, logging

from commands import flag_groups, program
from files import paths


@flag_groups.under(flag_groups.Group.ACTIONS)
def define_flags(values=flags.FLAGS):
    flags.DEFINE_string(
        "task", None, "What.", required=True, flag_values=values)
    flags.DEFINE_boolean("quick", False, "Be quick.", flag_values=values)


def main(argv):
    logging.info("Working")
    task = flags.FLAGS.task
    if task == "refuse":
        paths.expand("nothing*")
    if task == "fail":
        return len(None)
    if task == "convert":
        return int("many")
    if task == "interrupt":
        raise KeyboardInterrupt
    if task == "fill":
        for _ in range(100_000):
            print("line")
    print(argv[1:])
    return 3


if __name__ == "__main__":
    program.start(define_flags, main, arguments=ARGUMENTS)
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns what runs a small program, and a shell's line with it."""
    folder = tmp_path_factory.mktemp("program")
    path = folder / "made.py"
    text = _PROGRAM.replace("ARGUMENTS", "None")
    path.write_text(text)
    taking = folder / "taking.py"
    taking.write_text(_PROGRAM.replace("ARGUMENTS", '"FOLDER ..."'))

    def run(*arguments, file=path):
        return subprocess.run(
            [sys.executable, str(file), *arguments],
            cwd=folder,
            env={"PYTHONPATH": str(_ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    run.taking, run.path = taking, path
    return run


def test_refusals_are_one_line_and_faults_have_a_traceback(made):
    refused = made("--task=refuse", "--verbosity=-1")
    assert refused.stderr == "made: No file matches 'nothing*'.\n"
    assert refused.returncode == 1
    shown = made("--task=refuse", "--traceback")
    assert "Traceback" in shown.stderr and "in main" in shown.stderr
    for fault, words in (("fail", "TypeError"), ("convert", "'many'")):
        failed = made(f"--task={fault}")
        assert "Traceback" in failed.stderr and words in failed.stderr
        assert failed.returncode == 1
    stopped = made("--task=interrupt", "--verbosity=-1")
    assert stopped.stderr == "made: interrupted.\n"
    assert stopped.returncode == 130


def test_flags_are_refused_in_one_line(made):
    assert made().stderr == (
        "made: --task must be given. python made.py --help says more.\n"
    )
    assert made("--quik").stderr == (
        "made: there is no flag --quik; did you mean --quick? python made.py "
        "--help says more.\n"
    )
    spaced = made("--task=x", "--quick", "False")
    assert spaced.stderr == (
        "made: must be given flags alone, --NAME=VALUE with the equals sign; "
        "got False.\n"
    )
    assert spaced.returncode == 1


def test_other_arguments_exit_codes_and_flag_files(made, tmp_path):
    (tmp_path / "flags").write_text("--task=x\n")
    done = made(f"--flagfile={tmp_path / 'flags'}", "a", file=made.taking)
    assert done.stdout == "['a']\n"
    assert done.returncode == 3
    assert "Working" in done.stderr


def test_help_is_a_page_and_full_help_is_absls(made):
    for flag in ("--help", "--helpshort", "-?"):
        shown = made(flag, file=made.taking)
        assert shown.returncode == 0
        assert shown.stdout.startswith("Does what --task says.\n\nUsage: ")
        assert "python taking.py [--FLAG=VALUE ...] FOLDER ..." in shown.stdout
        assert shown.stdout.endswith("python made.py --task=refuse\n")
    full = made("--helpfull").stdout
    assert "--task: What." in full
    assert "--flagfile" in full


def test_a_script_behind_a_link_refuses_in_one_line(tmp_path):
    link = tmp_path / "link.py"
    link.symlink_to(_ROOT / "create_pretraining_data.py")
    flags = ("--input_file=a", "--output_file=b", "--vocab_file=c")
    done = subprocess.run(
        [sys.executable, str(link), *flags, "stray"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("link: Only flags,")
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe_ends_a_program_in_silence(made):
    done = subprocess.run(
        f"{sys.executable} {made.path} --task=fill --verbosity=-1 | head -1",
        env={"PYTHONPATH": str(_ROOT)},
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("line\n", "")


def test_no_program_imports_tensorflow_for_its_help():
    names = sorted(documented.programs().values())
    code = f"import sys, {', '.join(names)}\n"
    code += "print({'tensorflow', 'keras', 'jax'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(documented.programs()))
def test_help_is_there_at_once(name):
    module = documented.programs()[name]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = [name] if name.endswith(".py") else ["-m", module]
    done = subprocess.run(
        [sys.executable, *run, "--help"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert f"Usage: python {' '.join(run)}" in done.stdout
    # Of the processor, which does not depend on what else runs.
    seconds = after.ru_utime + after.ru_stime
    assert seconds - before.ru_utime - before.ru_stime < _MOST_SECONDS_OF_HELP

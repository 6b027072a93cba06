"""Programs: their start, error messages and help."""

import dataclasses
import errno
import functools
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys

import pytest
from absl import flags

from commands import flags as flags_lib
from commands import program
from tests import documented_commands as documented
from tests import programs

_ROOT = pathlib.Path(__file__).parents[2]
_MOST_SECONDS_OF_HELP = 0.5
_PROGRAM = '''"""Does what --task says.

Example:

  python made.py --task=refuse
"""

import dataclasses
import os
import signal

from absl import logging

from commands import flags, program
from files import paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    task: str = flags.Group.ACTIONS.required("What.")
    quick: bool = flags.Group.ACTIONS.flag(False, "Be quick.")


def main(options, arguments=()):
    logging.info("Working")
    task = options.task
    if task == "refuse":
        paths.expand("nothing*")
    if task == "fail":
        return len(None)
    if task == "convert":
        return int("many")
    if task == "interrupt":
        raise KeyboardInterrupt
    if task == "terminate":
        terminate(options.quick)
    if task == "fill":
        for _ in range(100_000):
            print("line")
    if task == "describe":
        return "done"
    print(arguments)
    return 3


def terminate(is_repeated):
    child = os.fork()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        _, status = os.waitpid(child, 0)
        print("The child ended with", status, flush=True)
        if is_repeated:
            os.kill(os.getpid(), signal.SIGTERM)
        print("Cleaned up")


if __name__ == "__main__":
    program.start(Options, main, arguments=ARGUMENTS)
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

    def run(*arguments, file=path, env=()):
        env = {"PYTHONPATH": str(_ROOT), **dict(env)}
        return programs.python(str(file), *arguments, cwd=folder, env=env)

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


def test_sigterm_ends_a_program_after_its_cleanup(made):
    # A fork is killed, and cleans nothing up.
    ended = f"The child ended with {signal.SIGTERM}\n"
    stopped = made("--task=terminate", "--verbosity=-1")
    assert stopped.stderr == "made: terminated.\n"
    assert stopped.stdout == f"{ended}Cleaned up\n"
    assert stopped.returncode == 128 + signal.SIGTERM
    shown = made("--task=terminate", "--traceback")
    assert "in terminate" in shown.stderr
    assert shown.returncode == 128 + signal.SIGTERM
    # A second one, and one in a process that may wait for other machines.
    repeated = made("--task=terminate", "--quick")
    assert (repeated.stdout, repeated.returncode) == (ended, -signal.SIGTERM)
    waiting = made("--task=terminate", env={"TF_CONFIG": "{}"})
    assert (waiting.stdout, waiting.returncode) == ("", -signal.SIGTERM)


def test_flags_are_refused_in_one_line(made):
    assert made().stderr == (
        "made: --task must be given. See python made.py --help.\n"
    )
    format_ = made("--task=x", "--log_format=shrt")
    assert format_.stderr == (
        "made: --log_format must be one of short, full; got shrt. Did you mean "
        "short? See python made.py --help.\n"
    )
    assert made("--quik").stderr == (
        "made: there is no flag --quik; did you mean --quick? See python "
        "made.py --help.\n"
    )
    spaced = made("--task=x", "--quick", "False")
    assert spaced.stderr == (
        "made: takes only flags, written as --NAME=VALUE; got False.\n"
    )
    assert spaced.returncode == 1


def test_other_arguments_exit_codes_and_flag_files(made, tmp_path):
    (tmp_path / "flags").write_text("--task=x\n")
    done = made(f"--flagfile={tmp_path / 'flags'}", "a", file=made.taking)
    assert done.stdout == "['a']\n"
    assert done.returncode == 3
    assert "Working" in done.stderr


def test_a_result_that_is_not_a_number_is_no_exit_code(made):
    done = made("--task=describe", "--verbosity=-1")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


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
    given = ("--input_file=a", "--output_file=b", "--vocab_file=c")
    done = programs.python(str(link), *given, "stray")
    assert done.returncode == 1
    assert done.stderr.startswith("link: Only flags are expected")
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
    code = f"""
import sys, {", ".join(names)}
from tests import programs
for module in ({", ".join(names)}):
    programs.defined(module.Options)
print({{"tensorflow", "keras", "jax"}} & set(sys.modules))
"""
    assert programs.python("-c", code).stdout == "set()\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(documented.programs()))
def test_help_is_there_at_once(name):
    module = documented.programs()[name]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = [name] if name.endswith(".py") else ["-m", module]
    done = programs.python(*run, "--help", check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert f"Usage: python {' '.join(run)}" in done.stdout
    # Of the processor, which does not depend on what else runs.
    seconds = after.ru_utime + after.ru_stime
    assert seconds - before.ru_utime - before.ru_stime < _MOST_SECONDS_OF_HELP


def _values(**given):
    values = flags.FlagValues()
    for name, value in given.items():
        flags.DEFINE_string(name, value, "About it.", flag_values=values)
    values.mark_as_parsed()
    return values


def _words(run, values=None):
    """Returns what the user is told of what a function raises."""
    try:
        run()
    except Exception as error:  # noqa: BLE001
        return program.error_message(error, values or _values())
    raise AssertionError("Nothing was raised.")


def _refuse():
    raise ValueError("x must be 1; got 2.")


def _refuse_a_file():
    raise FileNotFoundError("There is no checkpoint in x.")


class _OutOfRoomError(RuntimeError):
    """As those of `training.failures`."""


def _explain():
    raise _OutOfRoomError("Make room.")


def test_errors_of_this_project_are_shown_in_one_line():
    def wrapped():
        try:
            int("many")
        except ValueError as error:
            raise ValueError("--count must be a number.") from error

    def fill():
        raise OSError(errno.ENOSPC, "No space left on device")

    assert _words(_explain) == "Make room."
    assert _words(_refuse) == "x must be 1; got 2."
    assert _words(_refuse_a_file) == "There is no checkpoint in x."
    assert _words(wrapped) == "--count must be a number."
    assert _words(fill) == "No space left on device."


def test_faults_keep_their_traceback():
    assert _words(lambda: int("many")) is None
    assert _words(b"\xff".decode) is None
    assert _words(lambda: json.loads("{")) is None  # Raised by a library.
    assert _words(lambda: {}["x"]) is None

    def wrong_type():
        raise TypeError("A list came.")

    assert _words(wrong_type) is None
    assert program.error_message(ValueError("Never raised."), _values()) is None


def test_refused_files_are_shown_with_their_flag(tmp_path):
    missing = str(tmp_path / "train.tsv")
    values = _values(data_dir=str(tmp_path), other="", none=None)
    assert _words(functools.partial(open, missing), values) == (
        f"{missing}: No such file or directory (--data_dir={tmp_path})."
    )
    listed = _values(input_file=f"a.txt,{missing}")
    assert _words(functools.partial(open, missing), listed).endswith(
        f"(--input_file=a.txt,{missing})."
    )
    assert (
        _words(functools.partial(open, tmp_path))
        == f"{tmp_path}: Is a directory."
    )
    # Raised in the library, but about the file all the same.
    assert _words(lambda: pathlib.Path(missing).read_text()) == (
        f"{missing}: No such file or directory."
    )
    # Of two files the target is shown.
    (tmp_path / "part").touch()
    (tmp_path / "folder").mkdir()
    target = str(tmp_path / "folder")
    values = _values(out=target, parent=str(tmp_path))
    moved = functools.partial(os.replace, tmp_path / "part", target)
    assert _words(moved, values) == (
        f"{target}: Is a directory (--out={target})."
    )


def _from_a_process(file, line):
    """An error as `concurrent.futures` brings it from another process."""
    remote = type("_RemoteTraceback", (Exception,), {})
    text = (
        '"""\nTraceback (most recent call last):\n'
        '  File "/usr/lib/process.py", line 5, in work\n    run()\n'
        f'  File "{file}", line 9, in read\n    {line}\nValueError: Told.\n"""'
    )
    error = ValueError("Told.")
    error.__cause__ = remote(text)
    return error


def test_errors_of_another_process_are_judged_by_their_place_there():
    def raised(*place):
        def run():
            json.loads  # noqa: B018
            raise _from_a_process(*place)

        return _words(run)

    here = str(pathlib.Path(program.__file__).parents[1] / "files/lines.py")
    assert raised(here, "raise ValueError(") == "Told."
    assert raised(here, 'int("x")') is None
    assert raised("/usr/lib/python3/json.py", "raise ValueError(") is None
    assert raised(f"/x/.venv/site-packages{here}", "raise ValueError(") is None


Group = flags_lib.Group
_NAME = re.compile(r"^  --(?:\[no\])?(\w+)  \(", re.MULTILINE)
# What absl and `program` define beside a program's own.
_COMMON = {"flagfile", "verbosity", "log_format", "traceback", "helpfull"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Shown:
    precision: str = Group.SPEED.flag(
        "low", "Of numbers.", choices=("low", "high")
    )
    source: str = Group.FILES.required("Read.")
    out: str | None = Group.FILES.flag(None, "Written.")
    part: str = Group.FILES.flag("", "Of it.")
    names: tuple[str, ...] = Group.FILES.flag(("a", "b"), "Of it.")
    fast: bool = Group.FILES.flag(True, "Hurry.")
    count: int = Group.FILES.flag(3, "How many\n  there are.", lower_bound=1)


def test_a_page():
    values = flags.FlagValues()
    flags_lib.define(_Shown, values)
    page = program.help_page(
        values, "Does it.\n\nExample:\n\n  python x.py\n", "python x.py", 50
    )
    assert (
        page
        == """Does it.

Usage: python x.py

Input and output:
  --source  (required)
      Read.
  --out  (no default)
      Written.
  --part  (default "")
      Of it.
  --names  (a comma separated list; default a,b)
      Of it.
  --[no]fast  (default true)
      Hurry.
  --count  (a positive integer; default 3)
      How many there are.

Speed and memory:
  --precision  (one of low, high; default low)
      Of numbers.

--flagfile=FILE reads flags from a file, one per
line. --verbosity=-1 logs only warnings,
--log_format=full uses the log format of absl.
--traceback shows the traceback of error messages.
--helpfull lists these and other absl flags.

Example:

  python x.py
"""
    )


def _page(name):
    values = flags.FlagValues()
    module = documented.module(name)
    flags_lib.define(module.Options, values)
    return values, program.help_page(values, module.__doc__, "python x.py", 200)


@pytest.mark.parametrize("program", sorted(documented.programs()))
def test_pages_fit_a_terminal_and_show_every_flag_then_an_example(program):
    values, page = _page(program)
    assert sorted(_NAME.findall(page)) == sorted(values)
    # A word may be longer than a line.
    lines = [line for line in page.split("\n") if " " in line.strip()]
    assert [line for line in lines if len(line) > 80] == []
    assert re.match(r"[A-Z][^\n]+[.?]\n", page)
    after_flags = page[page.index("--flagfile=FILE") :]
    assert re.search(r"^  (\w+=\w+ )?python ", after_flags, re.MULTILINE)


def test_help_names_flags_that_there_are():
    every = _COMMON.union(*documented.flag_names().values())
    wrong = [
        f"{program} --{flag}: {name}"
        for program in documented.programs()
        for values in [_page(program)[0]]
        for flag in values
        for name in re.findall(r"(?<![\w-])--(\w+)", values[flag].help)
        if name not in every
    ]
    assert wrong == []


# Stands in for TensorFlow, whose import takes seconds.
_MODULE = """
import os
class config:
    @staticmethod
    def list_physical_devices():
        os.write(2, b"E0000 00:00:1 x.cc:1] failed call to cuInit: no\\n")
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is\\n")
os.write(2, b"I0000 00:00:1 port.cc:153] oneDNN custom operations are on.\\n")
os.write(2, b"F0000 00:00:1 cpu.cc:2] This CPU lacks AVX.\\n")
if "ABORT" in os.environ:
    os.abort()
"""
_USE = """
from commands import program
program.prepare_imports()
import os, sys
import tensorflow
print(os.environ["TF_CPP_MIN_LOG_LEVEL"], file=sys.stderr)
"""
_FATAL = "F0000 00:00:1 cpu.cc:2] This CPU lacks AVX."


@pytest.fixture
def shown(tmp_path):
    (tmp_path / "tensorflow.py").write_text(_MODULE)

    def run(**environment):
        path = os.pathsep.join([str(tmp_path), str(_ROOT)])
        return programs.python(
            "-c",
            _USE,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": path,
                **environment,
            },
        ).stderr.splitlines()

    return run


@pytest.mark.skipif(
    any(pathlib.Path("/dev").glob("nvidia[0-9]*")), reason="has a GPU"
)
def test_errors_alone_are_shown(shown):
    assert shown() == [_FATAL, "2"]
    assert shown(TF_CPP_MIN_LOG_LEVEL="1") == [_FATAL, "1"]


def test_an_import_that_aborts_and_the_log_level_of_the_user_show_more(shown):
    assert shown(ABORT="1")[0] == _FATAL
    assert len(shown(TF_CPP_MIN_LOG_LEVEL="0")) == 4


_KERAS = """
import os
found = []
for name in ("jax", "matplotlib", "sklearn"):
    try:
        __import__(name)
    except ImportError:
        continue
    found.append(name)
print(os.environ["KERAS_BACKEND"], *found)
"""
_USE_KERAS = """
from commands import program
program.prepare_imports()
import keras, jax, matplotlib, sklearn
"""


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, ["tensorflow"]),
        ({"KERAS_BACKEND": ""}, ["tensorflow"]),
        # This backend imports JAX too.
        ({"KERAS_BACKEND": "numpy"}, ["numpy", "jax", "matplotlib", "sklearn"]),
    ],
)
def test_keras_imports_no_package_that_only_we_need(
    tmp_path, environment, found
):
    (tmp_path / "keras.py").write_text(_KERAS)
    for name in ("jax", "matplotlib", "sklearn"):
        (tmp_path / f"{name}.py").touch()
    path = os.pathsep.join([str(tmp_path), str(_ROOT)])
    done = programs.python(
        "-c", _USE_KERAS, env={"PYTHONPATH": path, **environment}
    )
    assert done.stdout.split() == found


_USE_THAT_COUNTS = """
import gc
from commands import program
program.prepare_imports()
import keras
print(gc.isenabled(), gc.get_freeze_count())
"""


def test_garbage_is_collected_after_the_imports_but_not_from_them(tmp_path):
    (tmp_path / "keras.py").write_text(
        "import gc\nprint(gc.isenabled())\nmodules = [[] for _ in range(10**6)]"
    )
    path = os.pathsep.join([str(tmp_path), str(_ROOT)])
    done = programs.python("-c", _USE_THAT_COUNTS, env={"PYTHONPATH": path})
    during, after, frozen = done.stdout.split()
    assert (during, after) == ("False", "True")
    assert int(frozen) > 10**6


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_output_to_closed_streams_is_discarded(tmp_path, closed):
    (tmp_path / "text").write_text("the tide .\nthe sea .\n\na cat .\n")
    command = (
        f"{sys.executable} create_pretraining_data.py "
        f"--vocab_file=tests/golden/inputs/vocab.txt "
        f"--input_file={tmp_path}/text --output_file={tmp_path}/out {closed}"
    )
    done = subprocess.run(
        command, shell=True, cwd=_ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "out").exists()


def test_a_flag_file_must_be_utf8(tmp_path):
    (tmp_path / "flags").write_bytes(b"\xff\xfe-\x00")
    done = programs.python(
        "create_pretraining_data.py", f"--flagfile={tmp_path / 'flags'}"
    )
    assert done.returncode == 1
    assert "The file of --flagfile must be UTF-8" in done.stderr
    assert "Traceback" not in done.stderr

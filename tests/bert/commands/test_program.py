"""Programs: their start, error messages and help."""

import dataclasses
import gc
import os
import re
import signal
import subprocess
import sys

import pytest
from absl import flags

from bert.commands import flags as flags_lib
from bert.commands import program
from tests.support import documented_commands as documented
from tests.support import locations, programs

_PROGRAM = '''"""Does what --task says.

Example:

  python made.py --task=refuse
"""

import dataclasses
import os
import signal

from absl import logging

from bert.commands import flags, program
from bert.files import paths


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
    if task == "interrupt":
        raise KeyboardInterrupt
    if task.startswith("SIG"):
        kill(getattr(signal, task), options.quick)
    if task == "fill":
        for _ in range(100_000):
            print("line")
    if task == "describe":
        return "done"
    if task == "letters":
        print("caf\u00e9 \u574f \U0001f600")
        return 0
    if task == "socket":
        raise BrokenPipeError(32, "Broken pipe", "the socket")
    if task == "keras":
        import keras

        print(keras.config.floatx(), keras.config.epsilon())
        print(keras.config.image_data_format(), keras.config.backend())
        return 0
    print(arguments)
    return 3


def kill(number, is_repeated):
    try:
        os.kill(os.getpid(), number)
    finally:
        if is_repeated:
            os.kill(os.getpid(), number)
        print("Over", flush=True)


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

    def run(*arguments, file=path, env=(), **options):
        env = {"PYTHONPATH": str(locations.ROOT), **dict(env)}
        return programs.python(
            str(file), *arguments, cwd=folder, env=env, **options
        )

    run.taking, run.path = taking, path
    return run


def test_errors_for_users_are_one_line_and_others_have_a_traceback(made):
    refused = made("--task=refuse", "--verbosity=-1")
    assert refused.stderr == "made: No file matches 'nothing*'.\n"
    assert refused.returncode == 1
    shown = made("--task=refuse", "--traceback")
    assert "Traceback" in shown.stderr and "in main" in shown.stderr
    failed = made("--task=fail")
    assert "Traceback" in failed.stderr and "TypeError" in failed.stderr
    assert failed.returncode == 1
    stopped = made("--task=interrupt", "--verbosity=-1")
    assert stopped.stderr == "made: ended by SIGINT\n"
    assert stopped.returncode == 130


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", r"caf\u00e9 \u574f \ud83d\ude00"),
        ("latin-1", r"café \u574f \ud83d\ude00"),
        ("utf-8", "café \u574f \U0001f600"),
    ],
)
def test_letters_that_the_console_lacks_are_escaped_as_in_json(
    made, encoding, shown
):
    done = made("--task=letters", env={"PYTHONIOENCODING": encoding}, text=None)
    assert done.returncode == 0
    assert done.stdout.decode(encoding) == f"{shown}\n"


def test_another_pipe_than_that_of_the_output_has_a_message(made):
    done = made("--task=socket", "--verbosity=-1")
    assert done.stderr == "made: the socket: Broken pipe.\n"
    assert done.returncode == 1


def test_settings_of_keras_in_the_home_folder_have_no_effect(made, tmp_path):
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras/keras.json").write_text(
        '{"floatx": "float64", "backend": "jax", "epsilon": 0.1, '
        '"image_data_format": "channels_first"}'
    )
    done = made("--task=keras", env={"HOME": str(tmp_path)})
    assert done.stdout == "float32 1e-07\nchannels_last tensorflow\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_program_after_its_cleanup(made, name):
    number = getattr(signal, name)
    stopped = made(f"--task={name}", "--verbosity=-1")
    assert stopped.stderr == f"made: ended by {name}\n"
    assert (stopped.stdout, stopped.returncode) == ("Over\n", 128 + number)
    shown = made(f"--task={name}", "--traceback")
    assert "in kill" in shown.stderr
    # A second one, and one in a process that may wait for other machines.
    repeated = made(f"--task={name}", "--quick")
    assert (repeated.stdout, repeated.returncode) == ("", -number)
    waiting = made(f"--task={name}", env={"TF_CONFIG": "{}"})
    assert (waiting.stdout, waiting.returncode) == ("", -number)


def test_a_hangup_that_is_ignored_as_by_nohup_ends_nothing(made):
    done = subprocess.run(
        ["nohup", sys.executable, made.path, "--task=SIGHUP"],
        env={"PYTHONPATH": str(locations.ROOT), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("Over\n()\n", 3)


def test_other_arguments_exit_codes_and_flag_files(made, tmp_path):
    (tmp_path / "flags").write_text("--task=x\n")
    done = made(f"--flagfile={tmp_path / 'flags'}", "a", file=made.taking)
    assert done.stdout == "['a']\n"
    assert done.returncode == 3
    assert "Working" in done.stderr


def test_a_flag_file_that_is_no_text_is_an_error_of_one_line(made, tmp_path):
    (tmp_path / "flags").write_bytes(b"--task=\xff\n")
    refused = made(f"--flagfile={tmp_path / 'flags'}")
    assert "byte 0xff" in refused.stderr
    assert refused.stderr.startswith("made: ")
    assert refused.stderr.endswith("(see python made.py --help)\n")
    assert refused.stderr.count("\n") == refused.returncode == 1


def test_a_result_that_is_no_number_is_success_in_silence(made):
    done = made("--task=describe", "--verbosity=-1")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_help_is_a_page_and_full_help_is_absls(made):
    for flag in ("--help", "-?", "--help=all"):
        shown = made(flag, file=made.taking)
        assert shown.returncode == 0
        assert shown.stdout.startswith("Does what --task says.\n\nUsage: ")
        assert "python taking.py [--FLAG=VALUE ...] FOLDER ..." in shown.stdout
        assert "python made.py --task=refuse\n" in shown.stdout
    full = made("--helpfull").stdout
    assert "--task: What." in full
    assert "--flagfile" in full


def test_a_closed_pipe_ends_a_program_in_silence(made):
    command = f"{sys.executable} {made.path} --task=fill --verbosity=-1"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        env={"PYTHONPATH": str(locations.ROOT), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    # Its work is not complete.
    assert (done.stdout, done.stderr, done.returncode) == ("line\n", "", 1)


def test_a_reader_that_ended_before_the_last_line_causes_no_message(made):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        # The line stays in the buffer until the end.
        [sys.executable, made.path, "--task=x", "--verbosity=-1"],
        env={"PYTHONPATH": str(locations.ROOT)},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 1)


def test_no_program_imports_tensorflow_for_its_help():
    names = sorted(documented.programs().values())
    code = f"""
import sys, {", ".join(names)}
from tests.support import programs
for module in ({", ".join(names)}):
    programs.defined(module.Options)
print({{"tensorflow", "keras", "jax"}} & set(sys.modules))
"""
    assert programs.python("-c", code).stdout == "set()\n"


def test_a_message_of_the_system_names_the_file_first(tmp_path):
    def told(run, *arguments):
        with pytest.raises(OSError) as caught:
            run(*arguments)
        return program.error_message(caught.value)

    missing = str(tmp_path / "train.tsv")
    assert told(open, missing) == f"{missing}: No such file or directory."
    (tmp_path / "part").touch()
    target = tmp_path / "folder"
    target.mkdir()
    moved = told(os.replace, tmp_path / "part", target)
    assert moved == f"{target}: Is a directory."
    assert program.error_message(OSError("Full.")) == "Full."


Group = flags_lib.Group
_NAME = re.compile(r"^  --(?:\[no\])?(\w+)  \(", re.MULTILINE)
# What absl and `program` define beside a program's own.
_COMMON = {"flagfile", "verbosity", "traceback", "helpfull"}


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
    page = program.help_page(
        _Shown, "Does it.\n\nExample:\n\n  python x.py\n", "python x.py"
    )
    assert (
        page
        == """Does it.

Usage: python x.py

Example:

  python x.py

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

--flagfile=FILE reads flags from a file, one per line. --verbosity=-1 logs only
warnings. --traceback shows the traceback of error messages. --helpfull lists
these and other absl flags.
"""
    )


def _page(name):
    values = flags.FlagValues()
    module = documented.module(name)
    flags_lib.define(module.Options, values)
    return values, program.help_page(
        module.Options, module.__doc__, "python x.py"
    )


@pytest.mark.parametrize("program", sorted(documented.programs()))
def test_pages_fit_a_terminal_and_show_an_example_then_every_flag(program):
    values, page = _page(program)
    assert sorted(_NAME.findall(page)) == sorted(values)
    # A word may be longer than a line.
    lines = [line for line in page.split("\n") if " " in line.strip()]
    assert [line for line in lines if len(line) > 80] == []
    assert re.match(r"[A-Z][^\n]+[.?]\n", page)
    before_flags = page[: _NAME.search(page).start()]
    assert re.search(r"^  (\w+=\w+ )?python ", before_flags, re.MULTILINE)


_ShownOfMany = dataclasses.make_dataclass(
    "_ShownOfMany",
    [(f"more_{i}", int, Group.SPEED.flag(i, "More.")) for i in range(20)],
    bases=(_Shown,),
    frozen=True,
    kw_only=True,
)


def test_a_page_of_many_flags_begins_with_those_of_the_examples():
    about = "Does it.\n\nExample:\n\n  python x.py --count=4 --more_7=1\n"
    page, whole = (
        program.help_page(_ShownOfMany, about, "x", is_complete=is_complete)
        for is_complete in (False, True)
    )
    assert _NAME.findall(page) == ["source", "count", "more_7"]
    assert "\n--help=all shows 24 more flags. --flagfile=FILE" in page
    assert len(_NAME.findall(whole)) == 27
    assert "--help=all" not in whole


def test_help_names_flags_that_there_are():
    every = _COMMON.union(*documented.flag_names().values())
    wrong = [
        f"{program} --{flag}: {name}"
        for program in documented.programs()
        for values in [_page(program)[0]]
        for flag in values
        for name in re.findall(r"(?<![\w-])--(?:no)?(\w+)", values[flag].help)
        if not every & {name, f"no{name}"}
    ]
    assert wrong == []


def test_imports_are_prepared_but_what_the_user_set_stays(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    before = gc.get_threshold()
    try:
        gc.set_threshold(700)
        program.prepare_imports()
        assert gc.get_threshold()[0] >= 10_000
    finally:
        gc.set_threshold(*before)
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
    # There is no other network.
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    program.prepare_imports()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "2"

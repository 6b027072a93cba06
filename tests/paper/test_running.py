"""Commands as data, and the runner with small scripts in their place."""

import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from paper import plans, running, scales

_FOLDERS = running.Folders("the data", "runs")
_SCRIPT = """
    import os, pathlib, signal, sys, time
    given = dict(a[2:].split("=", 1) for a in sys.argv[1:])
    out = pathlib.Path(given["output_dir"])
    def save(*_):
        (out / "saved").write_text("")
        sys.exit(1)
    if "sleep" in given:
        signal.signal(signal.SIGTERM, save)
    runs = out / "runs"
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    print("says", given.get("word"), "in", sys.executable)
    if given.get("fail") == "once" and runs.read_text() == "x":
        sys.exit(3)
    if "needs" in given:
        assert pathlib.Path(given["needs"], "runs").exists()
    if "sleep" in given:
        time.sleep(float(given["sleep"]))
"""


@pytest.fixture(name="folders")
def fixture_folders(tmp_path, monkeypatch):
    """Makes commands of a small script run, and folders for them."""
    (tmp_path / "script.py").write_text(textwrap.dedent(_SCRIPT))
    monkeypatch.setattr(running, "ROOT", tmp_path)
    return running.Folders(str(tmp_path / "data"), str(tmp_path / "work"))


def _command(name="a task", **flags):
    plan = plans.Plan(scales.SMALL)
    return plan.add(name, "script.py", output_dir=running.OUT, **flags)


def _num_runs(folders, command):
    with open(os.path.join(folders.fill(command.output), "runs")) as file:
        return len(file.read())


def test_a_folder_is_named_by_the_command_and_by_what_it_reads():
    first, same, other = (_command(rate=rate) for rate in (1, 1, 2))
    assert first.folder == same.folder != other.folder
    assert first.folder.startswith("a-task-")
    after = [_command(a=each.output) for each in (first, other)]
    assert after[0].folder != after[1].folder


def test_the_shown_command_is_the_one_that_runs():
    before = _command("before")
    command = _command(
        data_dir=f"{running.DATA}/it's",
        init_checkpoint=f"{before.output}/model.ckpt-7",
        input_file=("a", f"{running.DATA}/b*"),
        do_train=True,
        learning_rate=3e-5,
    )
    argv = command.argv(_FOLDERS)
    assert argv == [
        "script.py",
        f"--output_dir=runs/{command.folder}/out",
        "--data_dir=the data/it's",
        f"--init_checkpoint=runs/{before.folder}/out/model.ckpt-7",
        "--input_file=a,the data/b*",
        "--do_train",
        "--learning_rate=3e-05",
    ]
    typed = running.shell_text(command, _FOLDERS).replace("\\\n", " ")
    assert shlex.split(typed) == ["python", *argv]
    module = running.Command("x", running.words_of("tools.learn_vocab", {}), "")
    assert running.shell_text(module, _FOLDERS) == "python -m tools.learn_vocab"


def test_a_plan_has_each_command_once():
    plan = plans.Plan(scales.SMALL)
    given = [("a", 1), ("b", 1), ("a", 1), ("a", 2)]
    added = [plan.add(name, "x.py", rate=rate) for name, rate in given]
    assert plan.commands == [added[0], added[1], added[3]]


def test_what_is_done_is_skipped_and_what_lost_its_output_is_not(folders):
    first = _command("first", word="one")
    second = _command("second", needs=first.output)
    for _ in range(2):
        running.run([first, second], folders)
        assert [_num_runs(folders, c) for c in (first, second)] == [1, 1]
    log = os.path.join(folders.work_dir, first.folder, "log.txt")
    with open(log) as file:
        assert file.read() == f"says one in {sys.executable}\n"
    output = folders.fill(first.output)
    os.rename(output, output + ".moved")
    assert [c.is_done(folders) for c in (first, second)] == [False, True]


def test_a_failed_command_stops_the_run_and_is_tried_again(folders):
    failing, other = _command("failing", fail="once"), _command("other")
    with pytest.raises(RuntimeError, match=r"failing failed with code 3; .*"):
        running.run([failing, other], folders)
    assert not os.path.exists(folders.fill(other.output))
    running.run([failing, other], folders)
    assert [_num_runs(folders, c) for c in (failing, other)] == [2, 1]


def test_a_failure_shows_the_end_of_a_log_that_keeps_every_try(folders):
    word = "\n".join(f"line {number}" for number in range(30))
    failing = _command("failing", fail="once", word=word)
    with pytest.raises(RuntimeError) as caught:
        running.run([failing], folders)
    _, *shown = str(caught.value).splitlines()
    path = os.path.join(folders.work_dir, failing.folder, "log.txt")
    with open(path) as file:
        lines = file.read().splitlines()
    assert (len(lines), shown) == (30, lines[-15:])
    running.run([failing], folders)
    with open(path) as file:
        assert file.read().splitlines() == lines * 2


def test_every_path_of_a_list_is_looked_for(folders):
    files = [f"{running.DATA}/{name}" for name in ("a", "b", "c")]
    command = _command("listed", input_file=(*files, "elsewhere"))
    os.makedirs(os.path.join(folders.data_dir, "b"))
    assert running.missing_data([command, command], folders) == [
        f"{folders.data_dir}/a",
        f"{folders.data_dir}/c",
    ]


def test_commands_without_their_data_are_left_out(folders, caplog):
    first = _command("first")
    second = _command(
        "second",
        data_dir=f"{running.DATA}/glue/MRPC",
        model=f"{running.DATA}/bert/model.ckpt",
    )
    third = _command("third", needs=f"{second.output}/model")
    os.makedirs(os.path.join(folders.data_dir, "bert"))
    checkpoint = os.path.join(folders.data_dir, "bert", "model.ckpt.index")
    with open(checkpoint, "w"):
        pass
    message = f"Missing data: {folders.data_dir}/glue/MRPC. docs"
    with pytest.raises(FileNotFoundError, match=message):
        running.run([second, third], folders)
    assert not os.path.exists(folders.work_dir)
    with caplog.at_level("WARNING"):
        running.run([first, second, third], folders)
    assert message in caplog.text
    assert "Left out: second, third." in caplog.text
    assert [c.is_done(folders) for c in (first, second, third)] == [
        True,
        False,
        False,
    ]


def test_an_interruption_reaches_the_command_once(folders, tmp_path):
    command = _command("long", sleep=60)
    code = (
        "from paper import running\n"
        "import pathlib, signal\n"
        # Ignored if the tests run in the background of a shell.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"running.ROOT = pathlib.Path({str(tmp_path)!r})\n"
        f"running.run([running.{command}], running.{folders})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True
    )
    output = folders.fill(command.output)
    while not os.path.exists(os.path.join(output, "runs")):
        time.sleep(0.05)
    # A terminal sends it to all processes of the group.
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) != 0
    assert os.path.exists(os.path.join(output, "saved"))
    assert not command.is_done(folders)

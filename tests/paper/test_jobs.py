"""Commands as data, and the runner with small scripts in their place."""

import dataclasses
import json
import os
import shlex
import signal
import sys
import textwrap
import threading
import time

import pytest
from absl import logging

from files import locking
from paper import jobs

_FOLDERS = jobs.Folders("the data", "runs")


def _job(name="a task", **flags):
    return jobs.Job(name=name, program="run_classifier.py", flags=flags)


def test_a_folder_is_named_by_the_command_and_by_what_it_reads():
    first = _job(learning_rate=1e-4)
    same = _job(learning_rate=1e-4)
    other = _job(learning_rate=2e-4)
    assert first.folder == same.folder != other.folder
    assert first.folder.startswith("a-task-")
    after_first = _job(init_checkpoint=jobs.Output(job=first))
    after_other = _job(init_checkpoint=jobs.Output(job=other))
    assert after_first.folder != after_other.folder
    assert after_first.needs == [first]
    records = jobs.Output(job=first, path="records")
    assert _job(phases=({"input_file": records},)).needs == [first]
    # It does not depend on where things lie nor on the cost.
    job = _job(data_dir=jobs.Given(path="glue/MRPC"))
    dear = dataclasses.replace(job, seconds=1000.0)
    assert job.folder == dear.folder
    assert job == dear
    assert len({job, dear}) == 1


def test_arguments_name_places():
    before = _job("before", learning_rate=1e-4)
    job = _job(
        data_dir=jobs.Given(path="glue/MRPC"),
        output_dir=jobs.Output(),
        init_checkpoint=jobs.Output(job=before, path="model.ckpt-7"),
        input_file=("a", jobs.Given(path="b*")),
        do_train=True,
        learning_rate=3e-5,
    )
    own = f"runs/jobs/{job.folder}/out"
    assert jobs.arguments(job, _FOLDERS) == [
        "run_classifier.py",
        "--data_dir=the data/glue/MRPC",
        f"--output_dir={own}",
        f"--init_checkpoint=runs/jobs/{before.folder}/out/model.ckpt-7",
        "--input_file=a,the data/b*",
        "--do_train",
        "--learning_rate=3e-05",
    ]
    assert [given.path for given in job.given] == ["glue/MRPC", "b*"]


def test_the_shown_command_is_the_one_that_runs():
    phase = {"steps": 3, "input_file": jobs.Given(path="x*.tfrecord")}
    job = _job(phases=(phase, phase), data_dir=jobs.Given(path="it's"))
    typed = jobs.command(job, _FOLDERS).replace("\\\n", " ")
    assert shlex.split(typed) == ["python", *jobs.arguments(job, _FOLDERS)]
    assert jobs.arguments(job, _FOLDERS)[1] == (
        "--phases=steps=3 input_file='the data/x*.tfrecord'; "
        "steps=3 input_file='the data/x*.tfrecord'"
    )
    # A module is run as one.
    job = jobs.Job(name="x", program="tools.learn_vocab", flags={})
    assert jobs.command(job, _FOLDERS) == "python -m tools.learn_vocab"


def test_jobs_in_order_are_each_once_and_after_what_they_need():
    root = _job("root")
    left = _job("left", a=jobs.Output(job=root))
    right = _job("right", b=jobs.Output(job=root))
    top = _job("top", c=(jobs.Output(job=right), jobs.Output(job=left)))
    assert jobs.in_order([top, left]) == [root, right, left, top]


_SCRIPT = """
    import os, pathlib, sys, time
    given = dict(a[2:].split("=", 1) for a in sys.argv[1:])
    out = pathlib.Path(given["output_dir"])
    runs = out / "runs"
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    if "needs" in given:
        assert pathlib.Path(given["needs"], "result").exists()
    print("says", given.get("word"), "in", sys.executable)
    if given.get("fail") == "once" and runs.read_text() == "x":
        sys.exit(3)
    if given.get("fail") == "always":
        sys.exit(3)
    time.sleep(float(given.get("sleep", 0)))
    (out / "result").write_text(given.get("word", ""))
"""


@pytest.fixture(name="folders")
def fixture_folders(tmp_path, monkeypatch):
    """Makes jobs of a small script, and folders for them."""
    (tmp_path / "script.py").write_text(textwrap.dedent(_SCRIPT))
    # Commands run in the clone, whatever the current folder is.
    monkeypatch.setattr(jobs, "ROOT", tmp_path)
    return jobs.Folders(str(tmp_path / "data"), str(tmp_path / "work"))


def _made(name, seconds=1.0, **flags):
    return jobs.Job(
        name=name,
        program="script.py",
        flags={"output_dir": jobs.Output(), **flags},
        seconds=seconds,
    )


def _run(folders, wanted, **options):
    runner = jobs.Runner(folders, poll_seconds=0.01, **options)
    return runner.run(wanted), runner


def _num_runs(folders, job):
    path = os.path.join(folders.output(job), "runs")
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as file:
        return len(file.read())


def test_jobs_run_after_what_they_need_and_once(folders):
    first = _made("first", word="one")
    second = _made("second", needs=jobs.Output(job=first))
    assert _run(folders, [second])[0]
    assert _run(folders, [second])[0]
    assert [_num_runs(folders, job) for job in (first, second)] == [1, 1]
    state = jobs.read_state(first, folders)
    assert state.state == jobs.DONE
    assert state.command == jobs.command(first, folders)
    told = jobs.log_tail(first, folders, 5)
    assert f"says one in {sys.executable}" in told


def test_a_failure_leaves_out_what_needs_it_and_the_rest_goes_on(
    folders, caplog
):
    bad = _made("bad", fail="once", word="before it fell")
    after = _made("after", needs=jobs.Output(job=bad))
    good = _made("good")
    logging.set_verbosity(logging.INFO)
    with caplog.at_level("INFO", logger="absl"):
        is_complete, runner = _run(folders, [after, good])
    assert runner.failed == [bad]
    assert runner.skipped == {after: "'bad' is not done"}
    assert not is_complete
    assert jobs.is_done(good, folders)
    assert "Failed with code 3: bad" in caplog.text
    assert "says before it fell" in caplog.text

    # The next time it is tried again, and what is done is not.
    assert _run(folders, [after, good])[0]
    assert [_num_runs(folders, job) for job in (bad, after, good)] == [2, 1, 1]


def test_missing_inputs_are_named(folders):
    job = _made("needy", data=jobs.Given(path="glue/MRPC"))
    _, runner = _run(folders, [job])
    assert runner.skipped[job].endswith("data/glue/MRPC is missing")
    os.makedirs(os.path.join(folders.data_dir, "glue", "MRPC"))
    assert _run(folders, [job])[0]
    # A checkpoint is there if files begin with its name.
    given = jobs.Given(path="glue/bert_model.ckpt", is_prefix=True)
    job = _made("needy", init_checkpoint=given)
    assert len(jobs.missing_files(job, folders)) == 1
    path = os.path.join(folders.data_dir, "glue", "bert_model.ckpt.index")
    with open(path, "w", encoding="utf-8"):
        pass
    assert jobs.missing_files(job, folders) == []


def test_several_jobs_at_a_time(folders):
    wanted = [_made(f"job {n}", word=f"{n}") for n in "abc"]
    assert _run(folders, wanted, num_parallel=3)[0]
    assert all(jobs.is_done(job, folders) for job in wanted)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_commands_and_the_next_run_goes_on(
    folders, caplog, number
):
    slow, later = _made("slow", sleep=30), _made("later")

    def stop():
        deadline = time.monotonic() + 20
        while not _num_runs(folders, slow) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    thread = threading.Thread(target=stop)
    thread.start()
    started = time.monotonic()
    with caplog.at_level("INFO"):
        is_complete, runner = _run(folders, [slow, later])
    thread.join()
    assert "slow. 0 done, 2 left" in caplog.text
    assert runner.stopped
    assert not is_complete
    assert time.monotonic() - started < 25
    assert jobs.read_state(slow, folders).state == jobs.STOPPED
    assert _num_runs(folders, later) == 0
    assert signal.getsignal(number) is before


def test_an_error_of_the_runner_stops_the_commands(folders, monkeypatch):
    slow, broken = _made("slow", sleep=30), _made("broken")
    os.makedirs(os.path.dirname(folders.job_folder(broken)))
    with open(folders.job_folder(broken), "w", encoding="utf-8"):
        pass  # A file in the place of the folder.
    started = []
    start = jobs.subprocess.Popen

    def popen(*args, **kwargs):
        started.append(start(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(jobs.subprocess, "Popen", popen)
    with pytest.raises(OSError, match="broken"):
        _run(folders, [slow, broken], num_parallel=2)
    (process,) = started
    assert process.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    "content",
    [
        {"state": "done", "seconds": 1.0},
        {"state": "done", "seconds": 1.0, "command": "x", "more": 1},
        {"state": "done", "seconds": "1", "command": "x"},
    ],
)
def test_a_damaged_state_is_named(folders, content):
    job = _made("x")
    path = os.path.join(folders.job_folder(job), "state.json")
    os.makedirs(folders.job_folder(job))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    with pytest.raises(ValueError, match=r"state\.json must have the fields"):
        jobs.read_state(job, folders)


def test_two_runners_do_not_share_a_folder(folders):
    refused = pytest.raises(locking.LockedError, match="--work_dir=")
    with locking.lock_folder(folders.work_dir, "it"), refused:
        _run(folders, [_made("x")])
    assert _run(folders, [_made("x")])[0]


def test_time_left_is_corrected_by_what_jobs_have_taken():
    def state(seconds):
        return jobs.State(state=jobs.DONE, seconds=seconds, command="")

    todo = [_made("a", seconds=100.0), _made("b", seconds=50.0)]
    assert jobs.seconds_left(todo, [], 1) == 150.0
    # Twice as slow as estimated, and two at a time.
    done = [(_made("c", seconds=10.0), state(20.0))]
    assert jobs.seconds_left(todo, done, 1) == 300.0
    assert jobs.seconds_left(todo, done, 2) == 150.0

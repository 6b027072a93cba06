import errno
import fcntl
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import threading

import pytest

import create_pretraining_data
from files import locking
from tools import prepare_corpus

_ROOT = pathlib.Path(__file__).parents[2]

_HOLD = (
    "import sys\n"
    "from files import locking\n"
    "with locking.lock(sys.argv[1], 'The folder', group='a'):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / ".lock")


@pytest.fixture
def holder(path):
    """Another process, which holds the lock until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.communicate("")


def test_the_process_that_holds_a_lock_is_named(path, holder):
    with (
        pytest.raises(
            locking.LockedError,
            match=f"^The zip is in use by process {holder.pid} on "
            f"{platform.node()} ",
        ),
        locking.lock(path, "The zip"),
    ):
        pass


def test_a_lock_whose_process_was_killed_is_taken_over(path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert os.path.exists(path)
    with locking.lock(path, "The zip"):
        assert f'"process": {os.getpid()},' in pathlib.Path(path).read_text()
    assert not os.path.exists(path)


def test_a_lock_waited_for_names_the_process_that_takes_it(path, holder):
    threading.Timer(0.3, holder.kill).start()
    with locking.lock(path, "The zip", wait=True):
        held = json.loads(pathlib.Path(path).read_text())
    assert held["process"] == os.getpid()


def test_a_folder_is_shared_by_a_group(path, holder, tmp_path):
    locking.check_folder(str(tmp_path), "The run", "a")
    with pytest.raises(
        locking.LockedError, match=f"The run is in use by process {holder.pid} "
    ):
        locking.check_folder(str(tmp_path), "The run", "b")
    holder.kill()
    holder.wait()
    locking.check_folder(str(tmp_path), "The run", "b")
    os.remove(path)
    locking.check_folder(str(tmp_path), "The run", "b")


def test_a_folder_may_be_locked_by_the_group_meanwhile(
    path, holder, tmp_path, monkeypatch
):
    text = pathlib.Path(path).read_text()
    # What a killed process of another group left there.
    pathlib.Path(path).write_text(text.replace('"a"', '"b"'))
    monkeypatch.setattr(
        locking.time, "sleep", lambda _: pathlib.Path(path).write_text(text)
    )
    locking.check_folder(str(tmp_path), "The run", "a")
    assert pathlib.Path(path).read_text() == text


def test_a_held_lock_is_waited_for(path, holder):
    threading.Timer(0.3, holder.stdin.close).start()
    with locking.lock(path, "The zip", wait=True):
        # It has ended, for it frees the lock as the last thing it does.
        assert holder.wait(10) == 0


def test_a_lock_ends_with_its_body(path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), locking.lock(path, "The zip"):
            _ = 1 / 0
        assert not os.path.exists(path)


def test_one_process_cannot_hold_a_lock_twice(path):
    with (
        locking.lock(path, "The zip"),
        pytest.raises(locking.LockedError, match=f"process {os.getpid()} "),
        locking.lock(path, "The zip"),
    ):
        pass


def test_threads_add_up_under_a_lock(path, tmp_path):
    total = tmp_path / "total"
    total.write_text("0")

    def add():
        for _ in range(20):
            with locking.lock(path, "The total", wait=True):
                total.write_text(str(int(total.read_text()) + 1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.read_text() == "80"


def test_a_file_system_without_locks_is_warned_of(path, monkeypatch, caplog):
    def flock(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locking.lock(path, "The zip"):
        pass
    assert "The zip is not locked" in caplog.text


def test_a_remote_store_is_not_locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locking.lock("gs://bucket/.lock", "The zip"):
        assert not list(tmp_path.iterdir())


def test_a_folder_that_gets_no_file_is_removed_again(tmp_path):
    folder = tmp_path / "a/b"
    with locking.lock_folder(str(folder), "The folder"):
        assert folder.is_dir()
    assert not list(tmp_path.iterdir())
    with locking.lock_folder(str(folder), "The folder"):
        (folder / "model").write_text("x")
    assert [path.name for path in folder.iterdir()] == ["model"]


def test_a_file_is_not_locked_as_a_folder(tmp_path):
    (tmp_path / "a").write_text("x")
    with (
        pytest.raises(NotADirectoryError, match="must be a folder"),
        locking.lock_folder(str(tmp_path / "a"), "The folder"),
    ):
        pass


def test_outputs_are_written_by_one_program_at_a_time(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("A good day .\nThe match was long .\n\nRain , rain .\n")
    out = tmp_path / "new" / "out"
    vocab = _ROOT / "tests/golden/inputs/vocab.txt"
    runs = {
        prepare_corpus: prepare_corpus.Options(
            input_file=str(text), output_file=str(out), input_format="book"
        ),
        create_pretraining_data: create_pretraining_data.Options(
            input_file=str(text), output_file=str(out), vocab_file=str(vocab)
        ),
    }
    for program, options in runs.items():
        with (
            locking.lock_outputs([str(out)]),
            pytest.raises(locking.LockedError, match=f"--output_file={out} is"),
        ):
            program.run(options)
        assert not out.exists()
        program.run(options)
        assert sorted(out.parent.glob("*.lock")) == []
        out.unlink()


def test_a_pipe_is_not_locked():
    with locking.lock_outputs([os.devnull]):
        assert not os.path.exists(f"{os.devnull}.lock")

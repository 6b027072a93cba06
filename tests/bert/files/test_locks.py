import os
import signal
import subprocess
import sys

import filelock
import pytest

import create_pretraining_data
from bert.files import locks
from tests.support import locations
from tools import prepare_corpus

_HOLD = (
    "import sys\n"
    "from bert.files import locks\n"
    "with locks.lock(sys.argv[1], 'The folder'):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / ".lock")


def test_a_lock_is_held_until_its_process_is_killed(path):
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, path],
        cwd=locations.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        used = pytest.raises(OSError, match="The zip is in use by")
        with used, locks.lock(path, "The zip"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert os.path.exists(path)
    with locks.lock(path, "The zip"):
        pass
    assert not os.path.exists(path)


def test_a_lock_ends_with_its_body_and_is_held_once(path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), locks.lock(path, "The zip"):
            with (
                pytest.raises(OSError),
                locks.lock(path, "The zip"),
            ):
                pass
            _ = 1 / 0
        assert not os.path.exists(path)


def test_the_file_of_a_lock_is_removed_while_it_is_held(path, monkeypatch):
    # Removed later, it might be that of another process, and a third one could
    # lock the same folder. Nothing else shows that moment.
    remove = os.remove

    def remove_a_held_one(name):
        with pytest.raises(filelock.Timeout):
            filelock.FileLock(path).acquire(blocking=False)
        remove(name)

    monkeypatch.setattr(os, "remove", remove_a_held_one)
    with locks.lock(path, "The zip"):
        pass
    assert not os.path.exists(path)


def test_a_file_system_without_locks_is_warned_of(path, monkeypatch, caplog):
    def acquire(self, *, blocking):
        raise OSError(37, "No locks available")

    # Few machines have a file system without locks.
    monkeypatch.setattr(filelock.FileLock, "acquire", acquire)
    with locks.lock(path, "The zip"):
        pass
    assert "The zip is not locked: No locks available." in caplog.text


def test_a_remote_store_is_not_locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locks.lock("gs://bucket/.lock", "The zip"):
        assert not list(tmp_path.iterdir())


def test_a_folder_that_gets_no_file_is_removed_again(tmp_path):
    folder = tmp_path / "b"
    with locks.lock_folder(str(folder), "The folder"):
        assert folder.is_dir()
    assert not list(tmp_path.iterdir())
    with locks.lock_folder(str(folder), "The folder"):
        (folder / "model").write_text("x")
    assert [path.name for path in folder.iterdir()] == ["model"]
    # A folder that was there stays, even without a file.
    (folder / "model").unlink()
    with locks.lock_folder(str(folder), "The folder"):
        pass
    assert folder.is_dir()


def test_a_file_is_no_folder_to_lock(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with (
            pytest.raises(NotADirectoryError, match="file must be a folder"),
            locks.lock_folder(str(path), "The folder"),
        ):
            pass


def test_outputs_are_written_by_one_program_at_a_time(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("A good day .\nThe match was long .\n\nRain , rain .\n")
    out = tmp_path / "new" / "out"
    vocab = locations.ROOT / "tests/golden/inputs/vocab.txt"
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
            locks.lock_outputs([str(out)]),
            pytest.raises(OSError, match=f"--output_file={out} is"),
        ):
            program.run(options)
        assert not out.exists()
        program.run(options)
        assert sorted(out.parent.glob("*.lock")) == []
        out.unlink()


def test_a_pipe_is_not_locked():
    with locks.lock_outputs([os.devnull]):
        assert not os.path.exists(f"{os.devnull}.lock")

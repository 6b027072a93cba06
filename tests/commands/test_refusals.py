import errno
import functools
import json
import os
import pathlib

from absl import flags

from commands import refusals


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
        return refusals.in_words(error, values or _values())
    raise AssertionError("Nothing was raised.")


def _refuse():
    raise ValueError("x must be 1; got 2.")


def _refuse_a_file():
    raise FileNotFoundError("There is no checkpoint in x.")


class _OutOfRoomError(RuntimeError):
    """As those of `training.failures`."""


def _explain():
    raise _OutOfRoomError("Make room.")


def test_what_is_raised_here_is_told():
    assert _words(_explain) == "Make room."
    assert _words(_refuse) == "x must be 1; got 2."
    assert _words(_refuse_a_file) == "There is no checkpoint in x."


def test_what_is_raised_on_account_of_something_else_is_told():
    def wrapped():
        try:
            int("many")
        except ValueError as error:
            raise ValueError("--count must be a number.") from error

    assert _words(wrapped) == "--count must be a number."


def test_faults_are_not():
    assert _words(lambda: int("many")) is None
    assert _words(b"\xff".decode) is None
    assert _words(lambda: json.loads("{")) is None  # Raised by a library.
    assert _words(lambda: {}["x"]) is None

    def wrong_type():
        raise TypeError("A list came.")

    assert _words(wrong_type) is None
    assert refusals.in_words(ValueError("Never raised."), _values()) is None


def test_files_that_the_system_refuses_are_told_with_their_flag(tmp_path):
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


def test_of_two_files_the_one_that_was_to_be_is_told(tmp_path):
    (tmp_path / "part").touch()
    (tmp_path / "folder").mkdir()
    target = str(tmp_path / "folder")
    values = _values(out=target, parent=str(tmp_path))
    moved = functools.partial(os.replace, tmp_path / "part", target)
    assert (
        _words(moved, values) == f"{target}: Is a directory (--out={target})."
    )


def test_a_full_disk_is_told():
    def fill():
        raise OSError(errno.ENOSPC, "No space left on device")

    assert _words(fill) == "No space left on device."


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


def test_what_another_process_raised_is_judged_by_its_place_there():
    def raised(*place):
        def run():
            json.loads  # noqa: B018
            raise _from_a_process(*place)

        return _words(run)

    here = str(pathlib.Path(refusals.__file__).parents[1] / "files/lines.py")
    assert raised(here, "raise ValueError(") == "Told."
    assert raised(here, 'int("x")') is None
    assert raised("/usr/lib/python3/json.py", "raise ValueError(") is None
    assert raised(f"/x/.venv/site-packages{here}", "raise ValueError(") is None

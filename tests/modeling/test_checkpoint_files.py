"""The checkpoint of a path, by the names of its files alone."""

import pytest

from modeling import checkpoint_files


def _put(folder, *names, latest=None):
    """Makes empty files, and the file that names the latest checkpoint."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
    if latest is not None:
        (folder / "checkpoint").write_text(
            f'model_checkpoint_path: "{latest}"\n'
        )
    return str(folder)


def _named(folder, *names, **attributes):
    """Returns the location of the first name, with earlier ones."""
    found = tuple(
        checkpoint_files.TrainingCheckpoint(
            f"{folder}/{name}", checkpoint_files.step_of(name)
        )
        for name in names
    )
    return checkpoint_files.Location(
        path=found[0].prefix, training_checkpoints=found, **attributes
    )


def _stray(folder, name):
    return checkpoint_files.Location(path=f"{folder}/{name}")


def test_earlier_checkpoints_follow_the_latest_and_later_ones_do_not(tmp_path):
    folder = _put(
        tmp_path,
        *("model.ckpt-2.index", "model.ckpt-10.index", "model.ckpt-9.index"),
        *("model.ckpt-30.index", "model.ckpt-2.state.json"),
        latest="model.ckpt-10",
    )
    names = ("model.ckpt-10", "model.ckpt-9", "model.ckpt-2")
    assert checkpoint_files.in_folder(folder) == _named(
        folder, *names, is_ours=True
    )


def test_what_a_killed_program_left_is_no_checkpoint(tmp_path):
    folder = _put(tmp_path, ".x.31.partial.index", "x.index")
    assert checkpoint_files.in_folder(folder) == _stray(folder, "x")


def test_the_latest_may_have_any_name_and_the_older_format(tmp_path):
    folder = _put(tmp_path, "best.index", "old.ckpt", latest="old.ckpt")
    assert checkpoint_files.in_folder(folder) == _named(folder, "old.ckpt")
    _put(tmp_path, latest="best")
    assert checkpoint_files.in_folder(folder) == _named(folder, "best")


def test_the_name_of_the_latest_is_written_as_by_tensorflow(tmp_path):
    # UTF-8 in octal, and quotation marks behind a backslash.
    folder = _put(tmp_path, 'caf\xe9 "2".index', latest=r"caf\303\251 \"2\"")
    assert checkpoint_files.in_folder(folder) == _named(folder, 'caf\xe9 "2"')


def test_the_files_of_a_copied_folder_come_before_those_of_its_origin(
    tmp_path,
):
    origin = _put(tmp_path / "origin", "model.ckpt-3.index")
    copied = _put(tmp_path / "copy", latest=f"{origin}/model.ckpt-3")
    location = checkpoint_files.in_folder(copied)
    assert location.path == f"{origin}/model.ckpt-3"
    _put(tmp_path / "copy", "model.ckpt-3.index")
    assert checkpoint_files.in_folder(copied) == _named(copied, "model.ckpt-3")
    # Of the older format, which has no index.
    _put(tmp_path / "origin", "old.ckpt")
    _put(tmp_path / "copy", latest=f"{origin}/old.ckpt")
    location = checkpoint_files.in_folder(copied)
    assert location.path == f"{origin}/old.ckpt"


def test_a_number_that_no_run_writes_is_no_step(tmp_path):
    folder = _put(tmp_path, "model.ckpt-007.index")
    location = checkpoint_files.in_folder(folder)
    assert location == _stray(folder, "model.ckpt-007")


def test_the_highest_of_numbered_checkpoints_is_that_of_a_folder(tmp_path):
    folder = _put(tmp_path, "x.ckpt-9.index", "x.ckpt-10.index")
    assert checkpoint_files.in_folder(folder) == _stray(folder, "x.ckpt-10")
    _put(tmp_path, "other.index")
    with pytest.raises(ValueError, match="must contain one checkpoint, or onl"):
        checkpoint_files.in_folder(folder)


def test_weights_of_hugging_face_are_found_in_the_order_of_preference(tmp_path):
    folder = _put(tmp_path, "pytorch_model.bin")
    for name in ("pytorch_model.bin", "tf_model.h5", "model.safetensors"):
        _put(tmp_path, name)
        found = _stray(folder, name)
        assert checkpoint_files.in_folder(folder) == found
        assert checkpoint_files.locate(found.path) == found
    _put(tmp_path, "x.index")
    assert checkpoint_files.in_folder(folder) == _stray(folder, "x")
    # A file may be named all the same.
    assert checkpoint_files.locate(found.path) == found


@pytest.mark.parametrize(
    "ending", ["", ".index", ".meta", ".data-00000-of-00001"]
)
def test_each_file_of_a_checkpoint_names_it(tmp_path, ending):
    folder = _put(tmp_path, "x.ckpt.index", f"x.ckpt{ending or '.meta'}")
    location = checkpoint_files.locate(f"{folder}/x.ckpt{ending}")
    assert location == _stray(folder, "x.ckpt")
    assert checkpoint_files.locate(f"{folder}/y{ending}") is None


def test_the_file_that_names_the_latest_checkpoint_is_that_of_its_folder(
    tmp_path, monkeypatch
):
    folder = _put(tmp_path, "model.ckpt-7.index", latest="model.ckpt-7")
    found = checkpoint_files.locate(f"{folder}/checkpoint")
    assert found == checkpoint_files.in_folder(folder)
    monkeypatch.chdir(tmp_path)
    assert checkpoint_files.locate("checkpoint").path == "./model.ckpt-7"

import pytest

from bert.tasks.tagging import options
from tests.support import programs


def _options(**named):
    return programs.parse(options.TaggingFileOptions, **named)


def test_files_of_a_folder_are_found_by_name(tmp_path):
    with pytest.raises(ValueError, match="Pass --eval_file or --data_dir"):
        options.find_file(_options(), "eval")
    with pytest.raises(ValueError, match=r"contain one of eng.testa, valid"):
        options.find_file(_options(data_dir=tmp_path), "eval")
    for name in ("eng.train", "valid.txt", "test.txt", "eng.testb"):
        (tmp_path / name).write_text("a O\n")
    given = _options(data_dir=tmp_path, train_file="other.txt")
    assert options.find_file(given, "train") == "other.txt"
    assert options.find_file(given, "eval") == str(tmp_path / "valid.txt")
    assert options.find_file(given, "predict") == str(tmp_path / "eng.testb")


@pytest.mark.parametrize(
    ("split", "names"),
    [
        ("train", "eng.train train.txt train.conll"),
        ("eval", "eng.testa valid.txt dev.txt dev.conll"),
        ("predict", "eng.testb test.txt test.conll"),
    ],
)
def test_the_names_of_files_have_an_order(tmp_path, split, names):
    for name in names.split():
        (tmp_path / name).touch()
    given = _options(data_dir=tmp_path)
    for name in names.split():
        assert options.find_file(given, split) == str(tmp_path / name)
        (tmp_path / name).unlink()

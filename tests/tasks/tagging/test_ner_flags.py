import logging

import pytest
from absl import flags

from commands import flags as flags_lib
from tasks.tagging import ner_flags


def _options(**named):
    values = flags.FlagValues()
    flags_lib.define(ner_flags.NerOptions, values)
    values(["prog", *(f"--{name}={value}" for name, value in named.items())])
    return flags_lib.read(ner_flags.NerOptions, values)


def test_files_of_a_folder_are_found_by_name(tmp_path):
    for name in ("eng.train", "valid.txt", "test.txt", "eng.testb"):
        (tmp_path / name).write_text("a O\n")
    options = _options(data_dir=tmp_path, train_file="other.txt")
    assert ner_flags.find_file(options, "train") == "other.txt"
    assert ner_flags.find_file(options, "eval") == str(tmp_path / "valid.txt")
    assert ner_flags.find_file(options, "predict") == str(
        tmp_path / "eng.testb"
    )
    assert ner_flags.read(options, "predict").num_words() == 1


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="Pass --eval_file or --data_dir"):
        ner_flags.find_file(_options(), "eval")
    with pytest.raises(ValueError, match=r"must hold one of eng.testa, valid"):
        ner_flags.find_file(_options(data_dir=tmp_path), "eval")


def test_files_without_documents_are_named(tmp_path, caplog):
    (tmp_path / "train.txt").write_text("a O\n\nb O\n")
    with caplog.at_level(logging.WARNING):
        ner_flags.read(_options(data_dir=tmp_path, context="sentence"), "train")
        assert not caplog.text
        ner_flags.read(_options(data_dir=tmp_path), "train")
    assert "train.txt has no -DOCSTART- line" in caplog.text

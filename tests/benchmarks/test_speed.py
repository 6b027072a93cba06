"""The comparison of speeds: the files that it reads."""

import os

from benchmarks import speed


def test_default_files_are_those_of_the_clone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = speed.absolute(speed.Options())
    assert os.path.isfile(options.bert_config_file)
    assert os.path.isfile(options.vocab_file)
    # Other paths are relative to the current folder.
    options = speed.absolute(speed.Options(vocab_file="my/vocab.txt"))
    assert options.vocab_file == str(tmp_path / "my" / "vocab.txt")

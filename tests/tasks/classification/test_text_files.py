"""The files of a task that are there, and the files of answers."""

import numpy as np
import pytest

from tasks.classification import (
    custom,
    glue,
    labels,
    result_files,
    sentence_pairs,
    text_files,
)

_PACKING = sentence_pairs.Packing(max_seq_length=8)


class _Tokenizer:
    def tokenize(self, text):
        return text.split()

    def convert_tokens_to_ids(self, tokens):
        return [len(token) for token in tokens]


def _write_mnli(folder, *names):
    row = "\t".join("01234567") + "\ta b\tc\tneutral\n"
    for name in names:
        (folder / name).write_text("header\n" + row)


def test_finds_what_is_there_and_leaves_out_what_need_not_be(tmp_path):
    task = glue.find_task("MNLI")
    _write_mnli(tmp_path, "test_matched.tsv", "test_mismatched.tsv")
    files = text_files.find(task, task.test, str(tmp_path), _PACKING)
    assert [file.suffix for file in files] == ["", "_mismatched"]


def test_a_missing_required_file_is_an_error(tmp_path):
    task = glue.find_task("RTE")
    with pytest.raises(FileNotFoundError, match=r"No dev\.tsv of RTE"):
        text_files.find(task, task.dev, str(tmp_path), _PACKING)


def test_records_are_those_of_the_rows(tmp_path):
    task = glue.find_task("MNLI")
    _write_mnli(tmp_path, "train.tsv")
    (file,) = text_files.find(task, [task.train], str(tmp_path), _PACKING)
    ((record,),) = file.records(_Tokenizer(), with_labels=True)
    assert record["input_ids"] == [5, 1, 1, 5, 1, 5, 0, 0]
    assert record["segment_ids"] == [0, 0, 0, 0, 1, 1, 0, 0]
    assert record["label_ids"] == [2]


def test_origin_changes_with_data_and_packing(tmp_path):
    task = glue.find_task("MNLI")
    _write_mnli(tmp_path, "train.tsv")

    def origin(packing=_PACKING):
        (file,) = text_files.find(task, [task.train], str(tmp_path), packing)
        return file.origin()

    first = origin()
    assert origin() == first
    longer = sentence_pairs.Packing(max_seq_length=9)
    assert origin(longer) != first
    with open(tmp_path / "train.tsv", "a") as file:
        file.write("\n")
    assert origin() != first


_OUTPUTS = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)


def test_files_of_a_glue_task():
    task = glue.find_task("MRPC")
    files = result_files.result_files(task, task.test[0], "", _OUTPUTS)
    assert list(files["test_results.tsv"]) == ["0.25\t0.75\n", "0.5\t0.5\n"]
    wanted = "index\tprediction\n0\t1\n1\t0\n"
    assert "".join(files["MRPC.tsv"]) == wanted
    assert result_files.submitted(task.test[0], files) == {"MRPC": wanted}
    assert result_files.PREDICTIONS_FILE not in files


def test_files_of_the_user_s_own_data(tmp_path):
    data = custom.Data(data_dir=str(tmp_path), text_a_column="0")
    task = custom.make_task(data, labels.LabelSet(names=("a", "b")))
    files = result_files.result_files(task, task.test[0], "", _OUTPUTS)
    assert sorted(files) == ["predictions.jsonl", "test_results.tsv"]
    assert '"label": "b"' in next(iter(files["predictions.jsonl"]))
    assert result_files.submitted(task.test[0], files) == {}

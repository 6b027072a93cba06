"""The task made from Python's own documentation."""

import csv

import pytest

from bert.corpus import python_docs
from tools import python_docs_task


def test_rows_are_labeled_and_held_out_by_document(tmp_path, monkeypatch):
    # Of the first, no paragraph is left: it does not count.
    documents = (
        [(python_docs.REFERENCE, [])]
        + [
            (python_docs.REFERENCE, [f"reference {i} a.", f"reference {i} b."])
            for i in range(15)
        ]
        + [(python_docs.LIBRARY, [f"module {i}\tsays."]) for i in range(80)]
    )
    monkeypatch.setattr(python_docs, "read_documents", lambda: documents)
    monkeypatch.setattr(python_docs, "paragraphs", lambda texts, counts: texts)
    python_docs_task.run(python_docs_task.Options(output_dir=str(tmp_path)))

    def rows(name):
        with open(tmp_path / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file, delimiter="\t"))

    train, dev = rows("train.tsv"), rows("dev.tsv")
    # The tenth document, and every tenth after it.
    assert [row["text"] for row in dev if row["label"] == "reference"] == [
        "reference 9 a.",
        "reference 9 b.",
    ]
    assert len(train) + len(dev) == 2 * 15 + 80 // 8
    assert {row["label"] for row in train} == {"reference", "library"}
    # A tab would start another column.
    assert "module 7 says." in [row["text"] for row in train + dev]


def test_a_folder_that_is_a_file_is_refused_before_anything_is_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(python_docs, "read_documents", pytest.fail)
    (tmp_path / "task").touch()
    with pytest.raises(NotADirectoryError, match="task must be a folder"):
        python_docs_task.run(
            python_docs_task.Options(output_dir=str(tmp_path / "task"))
        )

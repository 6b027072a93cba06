"""Output files."""

import pytest

from corpus import shards


def test_output_paths():
    assert shards.output_paths("a/out.txt", 1) == ["a/out.txt"]
    assert shards.output_paths("out.txt", 2) == [
        "out-00000.txt",
        "out-00001.txt",
    ]
    assert shards.output_paths("o.%03d", 2) == ["o.000", "o.001"]


@pytest.mark.parametrize(
    ("name", "num_files", "message"),
    [("a-%d-%d", 2, "2 places"), ("a", 0, "must be 1 or more; got 0")],
)
def test_output_paths_errors(name, num_files, message):
    with pytest.raises(ValueError, match=message):
        shards.output_paths(name, num_files)


def test_documents_go_round_and_every_third_is_held_out(tmp_path):
    paths = [str(tmp_path / name) for name in ("a", "b")]
    held_out = str(tmp_path / "h")
    documents = [f"{i}\n" for i in range(7)]
    assert shards.write_documents(documents, paths, held_out, 3) == 2
    assert [(tmp_path / name).read_text() for name in "abh"] == [
        "0\n\n3\n\n6\n\n",
        "1\n\n4\n\n",
        "2\n\n5\n\n",
    ]


@pytest.mark.parametrize("documents", [[], ["a\n"]])
def test_file_that_would_be_empty_is_an_error_and_nothing_is_written(
    tmp_path, documents
):
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with pytest.raises(ValueError, match=r"documents are too few.*b"):
        shards.write_documents(documents, paths)
    assert list(tmp_path.iterdir()) == []

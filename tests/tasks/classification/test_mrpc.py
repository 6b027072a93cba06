import pathlib
import shutil

import pytest

from tasks.classification import glue
from tests.tasks.classification import reading

_SHARED = pathlib.Path(__file__).parents[4] / "shared/data/glue/MRPC"
_HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"


def _write(folder, name, rows):
    # Microsoft's files have Windows' line ends.
    text = "\r\n".join([_HEADER, *("\t".join(row) for row in rows)]) + "\r\n"
    (folder / name).write_text(text, encoding="utf-8", newline="")


def _sources(folder):
    _write(
        folder,
        glue.MRPC_TRAIN_SOURCE,
        [
            ("1", "11", "12", 'He said "no', "He said no"),
            ("0", "21", "22", "A", "B"),
            ("1", "12", "11", "C", "D"),
        ],
    )
    _write(folder, glue.MRPC_TEST_SOURCE, [("1", "31", "32", "E", "F")] * 2)
    (folder / glue.MRPC_DEV_IDS).write_text("21\t22\n")


def test_pairs_held_back_become_dev(tmp_path):
    _sources(tmp_path)
    counts = glue.prepare_mrpc(str(tmp_path))
    assert counts == {"train.tsv": 2, "dev.tsv": 1, "test.tsv": 2}
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    assert (tmp_path / "train.tsv").read_text() == (
        header + '1\t11\t12\tHe said "no\tHe said no\n1\t12\t11\tC\tD\n'
    )
    assert (tmp_path / "dev.tsv").read_text() == header + "0\t21\t22\tA\tB\n"
    assert (tmp_path / "test.tsv").read_text() == (
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        "0\t31\t32\tE\tF\n1\t31\t32\tE\tF\n"
    )


def test_classifier_reads_what_was_made(tmp_path):
    _sources(tmp_path)
    glue.prepare_mrpc(str(tmp_path))
    info = glue.find_dataset("MRPC")
    examples = reading.read_split(
        info, info.train, str(tmp_path), with_labels=True
    )
    assert [example.text_b for example in examples] == ["He said no", "D"]


def test_list_of_another_corpus_is_named(tmp_path):
    _sources(tmp_path)
    (tmp_path / glue.MRPC_DEV_IDS).write_text("21\t22\n99\t98\n")
    with pytest.raises(ValueError, match=r"all of its 2 pairs .* 1 are"):
        glue.prepare_mrpc(str(tmp_path))
    assert not (tmp_path / "train.tsv").exists()


def test_row_with_other_columns_is_named(tmp_path):
    _sources(tmp_path)
    _write(tmp_path, glue.MRPC_TEST_SOURCE, [("1", "31", "32", "E")])
    with pytest.raises(ValueError, match="line 2: must have 5 columns; got 4"):
        glue.prepare_mrpc(str(tmp_path))


@pytest.mark.shared
def test_real_corpus_gives_glues_own_files(tmp_path):
    if not _SHARED.is_dir():
        pytest.skip("no shared data beside the checkout")
    shutil.copy(_SHARED / glue.MRPC_TRAIN_SOURCE, tmp_path)
    shutil.copy(_SHARED / glue.MRPC_TEST_SOURCE, tmp_path)
    shutil.copy(_SHARED / "dev_ids.tsv", tmp_path / glue.MRPC_DEV_IDS)
    counts = glue.prepare_mrpc(str(tmp_path))
    assert counts == {"train.tsv": 3668, "dev.tsv": 408, "test.tsv": 1725}
    for name in glue.MRPC_OUTPUTS:
        made = (tmp_path / name).read_text(encoding="utf-8")
        released = (_SHARED / name).read_text(encoding="utf-8-sig")
        assert made == released

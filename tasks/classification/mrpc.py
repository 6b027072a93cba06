"""Conversion of Microsoft's MRPC corpus to the files of GLUE.

GLUE cannot redistribute the corpus. GLUE holds out some of its training pairs
as the dev set, by a list of their two numbers.
"""

import os

from files import lines, messages, writing
from tasks import tables

TRAIN_SOURCE = "msr_paraphrase_train.txt"
TEST_SOURCE = "msr_paraphrase_test.txt"
DEV_IDS = "mrpc_dev_ids.tsv"
SOURCES = (TRAIN_SOURCE, TEST_SOURCE, DEV_IDS)
OUTPUTS = ("train.tsv", "dev.tsv", "test.tsv")

_COLUMNS = 5
_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
_TEST_HEADER = "index\t#1 ID\t#2 ID\t#1 String\t#2 String"


def prepare(folder: str) -> dict[str, int]:
    """Writes `OUTPUTS` from `SOURCES` of the same folder.

    The order of rows is kept. Differs: GLUE's own dev.tsv begins with a
    byte-order mark, which has no use. As in GLUE, the test file has numbers
    in place of its labels.

    Returns:
        The number of rows of each file.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a row has the wrong columns, or held-out pairs are missing
            from the training pairs.
    """
    ids_path = os.path.join(folder, DEV_IDS)
    ids = {
        tuple(line.split("\t")) for line in lines.read_lines(ids_path) if line
    }
    rows = _rows(os.path.join(folder, TRAIN_SOURCE))
    dev = [row for row in rows if tuple(row[1:3]) in ids]
    train = [row for row in rows if tuple(row[1:3]) not in ids]
    if len(dev) != len(ids):
        raise ValueError(
            f"{ids_path}: all of its {len(ids)} pairs must be in "
            f"{TRAIN_SOURCE}; {len(dev)} are. One of the two files is not that "
            "of GLUE."
        )
    test = [
        [str(number), *row[1:]]
        for number, row in enumerate(_rows(os.path.join(folder, TEST_SOURCE)))
    ]
    headers = (_HEADER, _HEADER, _TEST_HEADER)
    parts = (train, dev, test)
    for name, header, part in zip(OUTPUTS, headers, parts, strict=True):
        with writing.whole_file(os.path.join(folder, name)) as file:
            file.write(f"{header}\n")
            file.writelines("\t".join(row) + "\n" for row in part)
    return {name: len(part) for name, part in zip(OUTPUTS, parts, strict=True)}


def _rows(path: str) -> list[list[str]]:
    rows = list(tables.open_table(path, tables.TSV, has_header=True).rows)
    for row in rows:
        if len(row.cells) != _COLUMNS:
            raise ValueError(
                f"{path}, line {row.line}: must have {_COLUMNS} columns; got "
                f"{len(row.cells)}: {messages.short(row.cells)}."
            )
    return [list(row.cells) for row in rows]

"""Which tagged files a run is about, and how they are read: its flags."""

import dataclasses
import os

from absl import logging

from commands import flags
from files import paths
from tasks.tagging import conll, entities, ner

# The names of CoNLL-2003, and others that are common, the first that is there.
_NAMES = {
    "train": ("eng.train", "train.txt", "train.conll"),
    "eval": ("eng.testa", "valid.txt", "dev.txt", "dev.conll"),
    "predict": ("eng.testb", "test.txt", "test.conll"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerOptions:
    """Which tagged files a run reads, and how."""

    data_dir: str | None = flags.flag(
        None,
        "Folder with eng.train, eng.testa and eng.testb of CoNLL-2003, or "
        "train.txt, valid.txt (or dev.txt) and test.txt.",
        flags.Group.FILES,
    )
    train_file: str | None = flags.flag(
        None,
        "Column file that is trained on, in place of one in --data_dir.",
        flags.Group.FILES,
    )
    eval_file: str | None = flags.flag(
        None,
        "Column file that is evaluated on, in place of one in --data_dir.",
        flags.Group.FILES,
    )
    predict_file: str | None = flags.flag(
        None,
        "Column file that is tagged, in place of one in --data_dir.",
        flags.Group.FILES,
    )
    columns: str = flags.flag(
        "word:0,tag:-1",
        "Where words and tags are: 0 is the first column, -1 the last. "
        "Without a tag, as in word:0, files can only be tagged.",
        flags.Group.COLUMNS,
    )
    scheme: str = flags.flag(
        entities.AUTO,
        "How the tags of the files mark entities; auto looks at them. raw: "
        "each run of equal names is one. Inside, and in what is written, it "
        "is IOB2.",
        flags.Group.COLUMNS,
        choices=entities.SCHEMES,
    )
    context: str = flags.flag(
        ner.DOCUMENT,
        "document: each sentence is read with as much of its document "
        "around it as fits; sentence: by itself.",
        flags.Group.TEXT,
        choices=ner.CONTEXTS,
    )


def find_file(options: NerOptions, name: str) -> str:
    """Finds the file of "train", "eval" or "predict".

    Raises:
        ValueError: neither its flag nor `data_dir` names it.
    """
    given = getattr(options, f"{name}_file")
    if given:
        return given
    if not options.data_dir:
        raise ValueError(f"Pass --{name}_file or --data_dir; got neither.")
    for file in _NAMES[name]:
        path = os.path.join(options.data_dir, file)
        if paths.exists(path):
            return path
    raise ValueError(
        f"{options.data_dir} must hold one of {', '.join(_NAMES[name])}; it "
        f"holds none. Pass --{name}_file if it has another name."
    )


def read(options: NerOptions, name: str) -> conll.ColumnFile:
    """Reads the file of "train", "eval" or "predict".

    Raises:
        OSError: it cannot be opened.
        ValueError: it is not named, or not a column file.
    """
    columns = conll.parse_columns(options.columns)
    file = conll.read(find_file(options, name), columns)
    if options.context == ner.DOCUMENT and not file.has_documents:
        logging.warning(
            "%s has no %s line: every sentence is read by itself.",
            file.path,
            conll.DOCUMENT_START,
        )
    return file


def origin(options: NerOptions, path: str) -> dict[str, str]:
    """Names what records depend on: a file, and how it is read."""
    return {
        "data_sha256": paths.sha256(path),
        "columns": options.columns,
        "scheme": options.scheme,
        "context": options.context,
    }

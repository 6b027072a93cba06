"""Prepared documents -> text files that create_pretraining_data.py reads."""

import contextlib
import os
import re
from collections.abc import Iterable

from files import paths, writing

_PLACE = re.compile(r"%0?\d*d")


def output_paths(output_file: str, num_files: int) -> list[str]:
    """Names the output files.

    `OUT-%05d.txt` says where the number goes; without it, two files or more
    are named `OUT-00000.txt`, `OUT-00001.txt` and so on.

    Raises:
        ValueError: fewer than one file, or two places for the number.
    """
    if num_files < 1:
        raise ValueError(f"num_output_files must be 1 or more; got {num_files}")
    places = len(_PLACE.findall(output_file))
    if places > 1:
        raise ValueError(
            f"output_file has {places} places for its number; one is needed: "
            f"{output_file!r}."
        )
    if places == 0:
        if num_files == 1:
            return [output_file]
        stem, suffix = os.path.splitext(output_file)
        output_file = f"{stem}-%05d{suffix}"
    return [
        _PLACE.sub(lambda place, i=i: place.group() % i, output_file)
        for i in range(num_files)
    ]


def others(output_file: str, written: Iterable[str]) -> list[str]:
    """Lists the numbered output files that were not written, on local disks."""
    place = _PLACE.search(output_file)
    if place:
        digits = int(place.group()[1:-1] or 0)
        before, after = output_file[: place.start()], output_file[place.end() :]
    else:
        digits = 5
        stem, after = os.path.splitext(output_file)
        before = f"{stem}-"
    found = paths.numbered(before, after, digits)
    return sorted(set(found).difference(written))


def write_documents(
    documents: Iterable[str],
    names: list[str],
    holdout_path: str | None = None,
    holdout_every: int = 0,
) -> int:
    """Writes documents in turn to the files of `names`.

    Files are whole or not there: they take their names when all are written.

    Args:
        documents: the sentences of each, one a line, with a final line end.
        names: the files; an empty line follows each document.
        holdout_path: takes every `holdout_every`-th document instead.
        holdout_every: 2 or more; 0 where nothing is held out.

    Returns:
        The number of documents held out.

    Raises:
        ValueError: a file would stay empty.
    """
    written = dict.fromkeys([*names, holdout_path or ""], 0)
    with contextlib.ExitStack() as stack:
        files = {
            path: stack.enter_context(writing.whole_file(path))
            for path in written
            if path
        }
        turn = 0
        for number, document in enumerate(documents, start=1):
            if holdout_path and number % holdout_every == 0:
                path = holdout_path
            else:
                path = names[turn % len(names)]
                turn += 1
            files[path].write(document + "\n")
            written[path] += 1
        empty = [path for path in files if not written[path]]
        if empty:
            raise ValueError(
                f"{sum(written.values())} documents are too few: nothing "
                f"would be in {', '.join(empty)}. Look at the counts of what "
                "was dropped, at --num_output_files and --holdout_every."
            )
    return written[holdout_path or ""]

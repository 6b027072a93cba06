"""Creates a small classification task from the documentation of this Python.

The label of a paragraph is its origin: the language reference, or the
docstrings of the library. The tool writes train.tsv and dev.tsv, with the
columns `text` and `label`:

  python -m tools.python_docs_task --output_dir=task
"""

import collections
import dataclasses
import os
from collections.abc import Iterator

from absl import logging

from bert.commands import flags, program
from bert.corpus import python_docs
from bert.files import writing

# Every tenth document is held out, as in quickstart.sh's pre-training text.
_HOLDOUT_EVERY = 10
# The library has eight times the paragraphs of the reference.
_LIBRARY_EVERY = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    output_dir: flags.Path = flags.Group.FILES.required(
        "Folder for train.tsv and dev.tsv."
    )


def run(options: Options) -> None:
    """Writes the files of the task."""
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "dev": []}
    outputs = {
        name: os.path.join(options.output_dir, f"{name}.tsv") for name in rows
    }
    writing.check_files(outputs.values())
    for number, labeled in enumerate(_labeled_documents(), start=1):
        rows["train" if number % _HOLDOUT_EVERY else "dev"] += labeled
    for name, lines in rows.items():
        with writing.whole_file(outputs[name]) as file:
            file.write("text\tlabel\n")
            file.writelines(f"{text}\t{label}\n" for text, label in lines)
    logging.info(
        "Wrote %d paragraphs to train.tsv and %d to dev.tsv in %s",
        *map(len, rows.values()),
        options.output_dir,
    )


def _labeled_documents() -> Iterator[list[tuple[str, str]]]:
    seen = 0
    for label, texts in python_docs.read_documents():
        document = list(python_docs.paragraphs(texts, collections.Counter()))
        if not document:
            continue
        kept = []
        for paragraph in document:
            if label == python_docs.LIBRARY:
                seen += 1
                if seen % _LIBRARY_EVERY:
                    continue
            kept.append((" ".join(paragraph.split()), label))
        yield kept


if __name__ == "__main__":
    program.start(Options, run)

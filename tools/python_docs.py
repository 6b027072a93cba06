"""Writes the documentation of this Python as text and as a small task.

The text is docs.jsonl, a document for each help topic of the language reference
and each library module, read from the docstrings in its source: nothing is
imported or run. `tools.prepare_corpus --input_format=jsonl` reads it. The task
is to tell paragraphs of the reference from those of the library: train.tsv and
dev.tsv have the columns `text` and `label`.

  python -m tools.python_docs --output_dir=docs
"""

import ast
import collections
import dataclasses
import importlib
import inspect
import itertools
import json
import os
import pathlib
import re
import sysconfig
import textwrap
import warnings
from collections.abc import Iterable, Iterator

from absl import logging

from bert.commands import flags, program
from bert.files import writing

# Installed packages, tests and generated tables: not documentation of Python.
_NOT_LIBRARY = {
    "__pycache__", "dist-packages", "encodings", "idle_test", "lib2to3",
    "pydoc_data", "site-packages", "test", "tests",
}  # fmt: skip
_MIN_WORDS = 5
_MIN_LETTERS = 0.75  # Share of all characters; code has fewer letters.

_ROLE = re.compile(r":[a-z:]+:`[~!]?([^`<]*?)(?:\s*<[^`>]*>)?`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`__?")
_MARKED = re.compile(r"(``|`|\*\*|\*)(?=\S)(.+?)(?<=\S)\1_{0,2}(?!\w)")
_ITEM = re.compile(r"(?:[-*•+]|\(?(?:\d+|[a-z])[.)])\s+")
_CODE = re.compile(r">>>|\.\.\.|\$ |@|\.\. |:\w|\||\+[-=]|[=~^\"#*-]{3,}")
_SENTENCES = re.compile(r"[A-Z\"'(].*[.!?][\"')\]]*", re.DOTALL)


REFERENCE, LIBRARY = "reference", "library"
# Every tenth document is held out, as in quickstart.sh's pre-training text.
_HOLDOUT_EVERY = 10
# The library has eight times the paragraphs of the reference.
_LIBRARY_EVERY = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    output_dir: flags.Path = flags.Group.FILES.required(
        "Folder for docs.jsonl, train.tsv and dev.tsv."
    )


def run(options: Options) -> None:
    """Writes the text and the task."""
    outputs = [
        os.path.join(options.output_dir, name)
        for name in ("docs.jsonl", "train.tsv", "dev.tsv")
    ]
    writing.check_files(outputs)
    dropped = collections.Counter[str]()
    documents = [
        (label, [" ".join(paragraph.split()) for paragraph in prose])
        for label, texts in read_documents()
        if (prose := list(paragraphs(texts, dropped)))
    ]
    with writing.whole_files(outputs) as (text, train, dev):
        text.writelines(
            json.dumps({"text": "\n".join(prose)}) + "\n"
            for _, prose in documents
        )
        for file in (train, dev):
            file.write("text\tlabel\n")
        numbers = {label: itertools.count(1) for label in (REFERENCE, LIBRARY)}
        for place, (label, prose) in enumerate(documents, start=1):
            file = train if place % _HOLDOUT_EVERY else dev
            for paragraph, number in zip(prose, numbers[label], strict=False):
                if label == REFERENCE or number % _LIBRARY_EVERY == 0:
                    file.write(f"{paragraph}\t{label}\n")
    logging.info(
        "Wrote %d documents to %s; dropped %s.",
        len(documents),
        options.output_dir,
        ", ".join(f"{count} {name}" for name, count in dropped.items()),
    )


def read_documents() -> Iterator[tuple[str, list[str]]]:
    """Yields each help topic, and each library module that has docstrings.

    Order and content depend only on the version of Python. A paragraph of
    several texts, such as a section that is in several help topics, is in the
    first of them alone: held-out documents have no paragraph of the others.

    Returns:
        Pairs of `REFERENCE` (a help topic) or `LIBRARY` (a module), and the
        text: the topic, or the docstrings.
    """
    seen: set[str] = set()
    for label, texts in itertools.chain(
        ((REFERENCE, [topic]) for topic in _topics()),
        ((LIBRARY, list(docstrings(path))) for path in _module_files()),
    ):
        new = [_without_repeats(text, seen) for text in texts]
        if any(new):
            yield label, list(filter(None, new))


def _without_repeats(text: str, seen: set[str]) -> str:
    """Removes the paragraphs that were seen before; adds the others."""
    blocks = []
    for block in _blocks(text):
        words = " ".join(block.split())
        if words not in seen:
            seen.add(words)
            blocks.append(block)
    return "\n\n".join(blocks)


def _blocks(text: str) -> list[str]:
    return re.split(r"\n\s*\n", inspect.cleandoc(text))


def _topics() -> list[str]:
    topics = importlib.import_module("pydoc_data.topics").topics
    return [topics[name] for name in sorted(topics)]


def _module_files() -> Iterator[pathlib.Path]:
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if not _NOT_LIBRARY.intersection(path.relative_to(root).parts):
            yield path


def docstrings(path: pathlib.Path) -> Iterator[str]:
    """Yields the docstrings of a module, without running it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(path.read_bytes())
    yield from _docstrings_within(tree)


def _docstrings_within(node: ast.AST) -> Iterator[str]:
    documented = (
        ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef,
    )  # fmt: skip
    if isinstance(node, documented) and (text := ast.get_docstring(node)):
        yield text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from _docstrings_within(child)


def paragraphs(
    texts: Iterable[str], counts: collections.Counter[str]
) -> Iterator[str]:
    """Yields the paragraphs of reStructuredText that are sentences.

    Literal and doctest blocks, tables, titles, directives, field lists,
    signatures and fragments are dropped. Inline markup is removed, and its
    text is kept.

    Args:
        texts: docstrings or help topics.
        counts: incremented by the dropped code blocks and fragments.

    Yields:
        Paragraphs of at least five words that begin and end like sentences,
        each without line breaks.
    """
    for text in texts:
        literal_indent = None
        for block in _blocks(text):
            first = block.lstrip("\n")
            indent = len(first) - len(first.lstrip())
            if literal_indent is not None and indent > literal_indent:
                counts["blocks of code"] += 1
                continue
            literal_indent = indent if block.rstrip().endswith("::") else None
            paragraphs = _paragraphs_of_block(textwrap.dedent(first))
            counts["blocks of code"] += not paragraphs
            for paragraph in paragraphs:
                plain = _without_marks(" ".join(paragraph.split()))
                if _is_prose(plain):
                    yield plain
                else:
                    counts["paragraphs that are not sentences"] += 1


def _paragraphs_of_block(block: str) -> list[str]:
    """Splits a block at its list items; joins the lines of each."""
    lines = block.splitlines()
    if any(_CODE.match(line.lstrip()) for line in lines):
        return []
    paragraphs: list[str] = []
    for line in lines:
        stripped = line.strip()
        item = _ITEM.match(stripped)
        if item or not paragraphs:
            paragraphs.append(stripped[item.end() :] if item else stripped)
        else:
            paragraphs[-1] += " " + stripped
    return paragraphs


def _without_marks(text: str) -> str:
    text = _LINK.sub(r"\1", _ROLE.sub(r"\1", text))
    text = _MARKED.sub(r"\2", text)
    # "as follows::" introduces a literal block, which was removed.
    return re.sub(r"\s*::$", ".", text)


def _is_prose(text: str) -> bool:
    letters = sum(c.isalpha() or c == " " for c in text)
    return (
        len(text.split()) >= _MIN_WORDS
        and letters >= _MIN_LETTERS * len(text)
        and _SENTENCES.fullmatch(text) is not None
    )


if __name__ == "__main__":
    program.start(Options, run)

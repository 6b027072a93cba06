"""The documentation of Python as prose."""

import collections
import csv
import json
import textwrap

import pytest

from bert.corpus import formats, preparation
from tools import python_docs


def _prose(text, counts=None):
    counts = collections.Counter() if counts is None else counts
    return list(python_docs.paragraphs([text], counts))


def test_prose_keeps_sentences_and_drops_the_rest():
    text = textwrap.dedent("""\
        frobnicate(a, b) -> int

        Return the *number* of items in :class:`~module.Thing`, or in
        ``other`` if **both** are `given`_.

        For example::

            >>> frobnicate(1, 2)
            This is code that looks like a sentence.

        Title of a section
        ------------------

        - The first item of the list is long enough.
        - short
        - The third item of it goes on
          over two lines here.

        ===== =====
        A     table with some words in it.
        ===== =====

        :param a: What the first argument has to be.

        This one ends without a stop
        """)
    counts = collections.Counter()
    assert _prose(text, counts) == [
        "Return the number of items in module.Thing, or in other if both "
        "are given.",
        "The first item of the list is long enough.",
        "The third item of it goes on over two lines here.",
    ]
    assert counts == {
        "blocks of code": 4,
        "paragraphs that are not sentences": 4,
    }


def test_a_sentence_has_five_words_and_a_colon_begins_no_code():
    counts = collections.Counter()
    text = "Return the number of items:\n\n    That is all there is.\n\n"
    assert _prose(f"{text}Four words are few.", counts) == [
        "That is all there is."
    ]
    assert counts == {
        "paragraphs that are not sentences": 2,
        "blocks of code": 0,
    }


def test_paragraphs_of_code_are_dropped_and_names_are_not_marks():
    assert _prose("X = {1: 2, 3: [4, 5]}; y += f(x)[0] ** 2.") == []
    text = "The result of a * b * c is in snake_case and dunder __init__ names."
    assert _prose(text) == [text]


def test_docstrings_come_without_running_the_source(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""Module text."""\nraise SystemExit\n'
        'class A:\n    """Class text."""\n'
        '    async def f(self):\n        """Method text."""\n'
        'if True:\n    def g():\n        """Function text."""\n'
    )
    assert list(python_docs.docstrings(path)) == [
        "Module text.",
        "Class text.",
        "Method text.",
        "Function text.",
    ]


@pytest.mark.integration
def test_text_and_task_are_held_out_by_document(tmp_path):
    folder = tmp_path / "docs"
    python_docs.run(python_docs.Options(output_dir=str(folder)))
    lines = (folder / "docs.jsonl").read_text().splitlines()
    documents = [json.loads(line)["text"].splitlines() for line in lines]
    rows = {}
    for name in ("train", "dev"):
        with open(folder / f"{name}.tsv", newline="") as file:
            rows[name] = list(
                csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            )
    assert len(documents) > 300 and all(documents)
    assert sum(len(p) for d in documents for p in d) > 1_000_000
    held_out = {p for text in documents[9::10] for p in text}
    trained = {p for text in documents for p in text} - held_out
    assert {row["text"] for row in rows["dev"]} <= held_out
    assert {row["text"] for row in rows["train"]} <= trained
    labels = collections.Counter(
        row["label"] for part in rows.values() for row in part
    )
    assert set(labels) == {python_docs.REFERENCE, python_docs.LIBRARY}
    assert max(labels.values()) < 3 * min(labels.values())
    # What prepare_corpus makes of it has the same documents.
    rules = preparation.RawTextOptions().rules("jsonl")
    source = formats.read_documents([str(folder / "docs.jsonl")], rules)
    prepared = list(preparation.prepare(source, rules, num_workers=1))
    assert sum(len(batch.texts) for batch in prepared) == len(documents)


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "docs").touch()
    options = python_docs.Options(output_dir=str(tmp_path / "docs"))
    with pytest.raises(NotADirectoryError, match="docs must be a folder"):
        python_docs.run(options)

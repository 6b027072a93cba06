"""The documentation of Python as prose."""

import collections
import textwrap

import pytest

from bert.corpus import python_docs


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
    assert list(python_docs._docstrings(path)) == [
        "Module text.",
        "Class text.",
        "Method text.",
        "Function text.",
    ]


def test_a_paragraph_of_several_texts_is_in_the_first_alone(monkeypatch):
    section = "A section of\n  several topics."
    monkeypatch.setattr(
        python_docs, "_topics", lambda: [f"One.\n\n{section}", section]
    )
    monkeypatch.setattr(python_docs, "_module_files", lambda: ["module"])
    indented = "Own text.\n\n    A section of several topics.\n\n    More."
    monkeypatch.setattr(
        python_docs, "_docstrings", lambda _: [indented, "One."]
    )
    assert list(python_docs.read_documents()) == [
        (python_docs.REFERENCE, [f"One.\n\n{section}"]),
        (python_docs.LIBRARY, ["Own text.\n\nMore."]),
    ]


@pytest.mark.slow
def test_the_installed_python_has_enough_text():
    documents = [
        document
        for _, texts in python_docs.read_documents()
        if (
            document := list(
                python_docs.paragraphs(texts, collections.Counter())
            )
        )
    ]
    assert len(documents) > 300
    assert sum(len(p) for d in documents for p in d) > 1_000_000

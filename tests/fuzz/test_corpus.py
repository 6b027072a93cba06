"""Damaged raw text: documents in all formats, and compressed."""

import bz2
import collections
import gzip
import io
import itertools
import lzma

import pyarrow
import pytest
from pyarrow import parquet

from bert.corpus import cleaning, formats
from tests.fuzz import harness, mutations


def _parquet() -> bytes:
    file = io.BytesIO()
    rows = {"title": ["Ada", None], "text": ["She wrote.\n\nIt ran.", ""]}
    parquet.write_table(pyarrow.table(rows), file)
    return file.getvalue()


_TEXT = b"One sentence.\nAnother.\n\nA second document.\n"
_GOODS = {
    "text": _TEXT,
    "wikiextractor": (
        b'<doc id="1" url="x" title="Ada "Lady" >">\nAda "Lady" >\n\n'
        b"She wrote.\nIt ran.\n</doc>\n<doc id='2'>\nB\n\nText.\n</doc>\n"
    ),
    "jsonl": b'{"title": "Ada", "text": "Ada\\n\\nShe wrote."}\n{"text": ""}\n',
    "csv": b'title,text\nAda,"Ada\n\n""She"", wrote."\nB,\n',
    "parquet": _parquet(),
    "mediawiki": b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">'
    b"<siteinfo><namespace key='6'>Datei</namespace></siteinfo><page><ns>0</ns>"
    b"<revision><text>'''Ada''' [[wrote|did]].&lt;ref>x&lt;/ref>\n\n{{x}}\n* "
    b"It ran.</text></revision></page></mediawiki>",
    "book": b"CHAPTER I.\n\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\n"
    b"It was a dark\nnight.\n\n  *** END OF THIS PROJECT GUTENBERG",
}
# What patterns of text might take long for.
_LONG = tuple(
    start + piece * (20_000 // len(piece))
    for start in (b"<doc ", b'<doc title="', b"", b'{"text":"')
    for piece in (b" ", b'title="', b"<a", b"&", b"*** ", b".'", b"( ", b'"')
)


def _read(kind):
    def read(path):
        counts = collections.Counter()
        return [
            list(
                formats.FORMATS[kind].paragraphs(
                    cleaning.without_title(each.lines, each.title, counts),
                    counts,
                )
            )
            for each in formats.read_documents(
                [path], formats.Rules(input_format=kind)
            )
        ]

    return read


def _is_text(documents, content):
    return all(
        isinstance(paragraph, str) and paragraph.strip()
        for document in documents
        for paragraph in document
    )


@pytest.mark.parametrize("kind", sorted(_GOODS))
def test_documents_are_text_or_an_error(check, tmp_path, kind):
    words = (
        *mutations.TEXT_WORDS,
        *(b"<doc ", b"</doc>\n", b'title="', b"[[", b"{{", b"<text>"),
    )
    cases = mutations.endless(11, [_GOODS[kind]], words)
    path = tmp_path / "corpus.txt"
    check(_read(kind), path.name, cases, _is_text)
    harness.read_all(_read(kind), path, _LONG, _is_text)


def test_a_header_of_three_bytes_is_named(tmp_path):
    path = tmp_path / "corpus.gz"
    path.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(ValueError, match=r"corpus\.gz: damaged or truncated"):
        _read("text")(str(path))


_PACKED = {
    ".gz": gzip.compress(_TEXT),
    ".bz2": bz2.compress(_TEXT),
    ".xz": lzma.compress(_TEXT),
}


@pytest.mark.parametrize("suffix", _PACKED)
def test_packed_text_is_read_or_an_error(tmp_path, suffix, num_cases):
    words = mutations.BINARY_WORDS
    cases = mutations.endless(12, [_PACKED[suffix]], words)
    outcome = harness.read_all(
        _read("text"),
        tmp_path / f"corpus{suffix}",
        itertools.islice(cases, num_cases),
        _is_text,
    )
    assert outcome.num_refused

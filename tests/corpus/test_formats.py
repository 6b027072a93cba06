"""The input formats."""

import io
import json

import pytest

from corpus import formats, sources

_OPTIONS = formats.ReadOptions()


def _read(name, text, options=_OPTIONS):
    source = sources.Source(name="in.txt", file=io.BytesIO(text.encode()))
    return list(formats.FORMATS[name].read(source, options))


_ARTICLES = """\
<doc id="12" url="http://x/?curid=12" title="Anarchism">
Anarchism

Anarchism is a philosophy.
History.
It began early.
</doc>
<doc id="13" url="http://x/?curid=13" title="S&amp;M "live"">
S&amp;M "live"

An album.
</doc>
<doc id="14" url="http://x/?curid=14" title="Empty">
Empty

</doc>
"""


def test_wikiextractor_gives_articles_without_titles():
    assert _read("wikiextractor", _ARTICLES) == [
        ["Anarchism is a philosophy.", "History.", "It began early."],
        ["An album."],
        [],
    ]


def test_wikiextractor_keeps_a_first_paragraph_that_is_no_title():
    text = '<doc id="1" title="Moss">\nMoss is green.\nIt grows.\n</doc>\n'
    assert _read("wikiextractor", text) == [["Moss is green.", "It grows."]]


@pytest.mark.parametrize("following", ["", '<doc id="2" title="B">\nB\n</doc>'])
def test_article_without_end_names_the_line_where_it_began(following):
    text = '\n<doc id="1" title="A">\nA\n\nText.\n' + following
    with pytest.raises(ValueError, match=r"in\.txt, line 2: <doc> without"):
        _read("wikiextractor", text)


def test_text_outside_articles_is_an_error():
    with pytest.raises(ValueError, match=r"line 1: expected <doc \.\.\.>"):
        _read("wikiextractor", "Just some text.\n")


def test_wiki_paragraphs_lose_tags_references_and_markup():
    clean = formats.clean_wiki_paragraph
    assert clean(" AT&amp;T <br>and <ref name='a'>x</ref> y").split() == [
        "AT&T", "and", "x", "y",
    ]  # fmt: skip
    assert clean("| date = 1815") == ""
    assert clean("1 < 2 and 3 > 2") == "1 < 2 and 3 > 2"


def test_json_lines_give_one_document_each():
    lines = [
        json.dumps({"title": "Moss", "text": "Moss\n\nIt is green.\n"}),
        "",
        json.dumps({"text": "One.\nTwo."}),
        json.dumps({"text": ""}),
    ]
    assert _read("jsonl", "\n".join(lines)) == [
        ["It is green."],
        ["One.", "Two."],
        [],
    ]


def test_json_field_is_chosen_by_name():
    options = formats.ReadOptions(text_field="body")
    assert _read("jsonl", '{"body": "One."}', options) == [["One."]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', r"line 2: not JSON .* at column"),
        ('["a"]', "line 2: every line must be a JSON object"),
        ('{"id": 1, "body": "a"}', r"field 'text'; got None.*: 'body', 'id'"),
        ('{"text": 3}', "must be a string in the field 'text'; got 3"),
    ],
)
def test_malformed_json_names_file_and_line(line, message):
    with pytest.raises(ValueError, match=message):
        _read("jsonl", '{"text": "a"}\n' + line + "\n")


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("", []),
        ("\n \n\n", []),
        ("a\nb\n\nc", [["a", "b"], ["c"]]),
        ("\n\na\n\n\n\nb\n\n", [["a"], ["b"]]),
    ],
)
def test_text_splits_documents_at_empty_lines(text, documents):
    assert _read("text", text) == documents


def test_each_book_is_one_document():
    assert _read("book", "\ufeffIt was\r\nlate.\r\n\r\nHe left.") == [
        ["It was late.", "He left."]
    ]


def test_documents_of_several_files_do_not_run_together(tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    paths[0].write_text("a")
    paths[1].write_text("b")
    documents = formats.read_documents(
        "text", [str(path) for path in paths], _OPTIONS
    )
    assert list(documents) == [["a"], ["b"]]

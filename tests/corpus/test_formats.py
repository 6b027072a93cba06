"""The input formats."""

import io
import json

import pytest

from corpus import cleaning, formats, sources

_OPTIONS = formats.ReadOptions()


def _read(name, text, options=_OPTIONS, counts=None):
    """Reads documents, and gives their paragraphs without the title."""
    source = sources.Source(name="in.txt", file=io.BytesIO(text.encode()))
    counts = counts or cleaning.Counts()
    form = formats.FORMATS[name]
    return [
        list(
            form.paragraphs(
                cleaning.without_title(document.lines, document.title, counts),
                counts,
            )
        )
        for document in form.read(source, options)
    ]


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


def test_wiki_paragraph_without_title_is_kept_where_it_is_all():
    text = '<doc id="1" title="Moss">\nMoss is green.\n</doc>\n'
    assert _read("wikiextractor", text) == [["Moss is green."]]


def test_json_of_wikiextractor_is_cleaned_as_its_other_layout():
    lines = [
        json.dumps({"id": "1", "title": "Moss", "text": "It is <i>green.\n|x"}),
        "",
        json.dumps({"id": "2", "title": "AT&T", "text": "AT&amp;T\n\nA firm."}),
    ]
    counts = cleaning.Counts()
    read = _read("wikiextractor", "\n" + "\n".join(lines), counts=counts)
    assert read == [["It is  green."], ["A firm."]]
    assert (counts.tags, counts.markup_paragraphs, counts.titles) == (1, 1, 1)


def test_json_of_wikiextractor_that_is_damaged_names_the_line():
    with pytest.raises(ValueError, match=r"in\.txt, line 3: not JSON"):
        _read("wikiextractor", '\n{"text": "a"}\n{"text')


def test_wiki_paragraphs_lose_tags_references_and_markup():
    def clean(line):
        counts = cleaning.Counts()
        return list(cleaning.wiki_paragraphs([line], counts)), counts

    (paragraph,), counts = clean(" AT&amp;T <br>and <ref name='a'>x</ref> y")
    assert paragraph.split() == ["AT&T", "and", "x", "y"]
    assert counts == cleaning.Counts(tags=3)
    assert clean("| date = 1815") == ([], cleaning.Counts(markup_paragraphs=1))
    assert clean("<br>") == ([], cleaning.Counts(tags=1, empty_paragraphs=1))
    assert clean("1 < 2 and 3 > 2")[0] == ["1 < 2 and 3 > 2"]


def test_json_lines_give_one_document_each():
    lines = [
        json.dumps({"title": "Moss", "text": "Moss\n\nIt is green.\n"}),
        "",
        json.dumps({"text": "One.\nTwo."}),
        json.dumps({"text": ""}),
        "",
    ]
    assert _read("jsonl", "\n".join(lines)) == [
        ["It is green."],
        ["One.", "Two."],
        [],
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Moss is green.",
        "Moss is green.\n\nIt grows.",
        "A summary.\n \nAnd the rest.",
        "# A heading\n! an exclamation\n<a tag\n| a | table |\n[[x]]\n{}",
        "if a <b and c> d, then &lt;e&gt;",
    ],
)
def test_text_of_json_lines_with_a_title_is_kept(text):
    counts = cleaning.Counts()
    line = json.dumps({"title": "Moss", "text": text})
    assert _read("jsonl", line, counts=counts) == [
        [line for line in text.split("\n") if line.strip()]
    ]
    assert counts == cleaning.Counts()


def test_title_is_dropped_where_it_is_the_first_line_and_counted():
    counts = cleaning.Counts()
    line = json.dumps({"title": "Moss", "text": " Moss \nMoss\nMoss is green."})
    assert _read("jsonl", line, counts=counts) == [["Moss", "Moss is green."]]
    assert counts == cleaning.Counts(titles=1)


def test_half_a_character_is_replaced_and_counted():
    counts = cleaning.Counts()
    line = '{"text": "One \\ud83d two.\\nThree \\ud83d\\ude00 four."}'
    (document,) = _read("jsonl", line, counts=counts)
    assert document == ["One \ufffd two.", "Three \U0001f600 four."]
    assert counts == cleaning.Counts(half_characters=1)


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
    assert [document.lines for document in documents] == [["a"], ["b"]]

"""The input formats."""

import bz2
import gzip
import io
import json
import re
import tarfile

import pyarrow
import pytest
from pyarrow import parquet

from corpus import cleaning, formats, sources


def _read(name, text, counts=None, **rules):
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
        for document in form.read(
            source, formats.Rules(input_format=name, **rules)
        )
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
    # A first paragraph that is no title stays.
    text = '<doc id="1" title="Moss">\nMoss is green.\nIt grows.\n</doc>\n'
    assert _read("wikiextractor", text) == [["Moss is green.", "It grows."]]


@pytest.mark.parametrize("following", ["", '<doc id="2" title="B">\nB\n</doc>'])
def test_article_without_end_names_the_line_where_it_began(following):
    text = '\n<doc id="1" title="A">\nA\n\nText.\n' + following
    with pytest.raises(ValueError, match=r"in\.txt, line 2: <doc> without"):
        _read("wikiextractor", text)


def test_text_outside_articles_and_damaged_json_name_the_line():
    with pytest.raises(ValueError, match=r"line 1: expected <doc \.\.\.>"):
        _read("wikiextractor", "Just some text.\n")
    with pytest.raises(ValueError, match=r"in\.txt, line 3: must be JSON"):
        _read("wikiextractor", '\n{"text": "a"}\n{"text')


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
        'One.\u2028"Two."\r\nThree.',
    ],
)
def test_text_of_json_lines_with_a_title_is_kept(text):
    counts = cleaning.Counts()
    line = json.dumps({"title": "Moss", "text": text})
    assert _read("jsonl", line, counts=counts) == [
        [line for line in text.splitlines() if line.strip()]
    ]
    assert counts == cleaning.Counts()


def test_title_is_dropped_where_it_is_the_first_line_and_counted():
    counts = cleaning.Counts()
    line = json.dumps({"title": "Moss", "text": " Moss \nMoss\nMoss is green."})
    assert _read("jsonl", line, counts=counts) == [["Moss", "Moss is green."]]
    assert counts == cleaning.Counts(titles=1)


def test_invalid_utf8_is_counted_and_a_json_field_chosen_by_name():
    counts = cleaning.Counts()
    line = '{"text": "One \\ud83d two.\\nThree \\ud83d\\ude00 four."}'
    (document,) = _read("jsonl", line, counts=counts)
    assert document == ["One \ufffd two.", "Three \U0001f600 four."]
    assert counts == cleaning.Counts(half_characters=1)
    assert _read("jsonl", '{"body": "One."}', text_field="body") == [["One."]]
    # The text is then no title of itself.
    assert _read("jsonl", '{"title": "One."}', text_field="title") == [["One."]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', r"line 2: must be JSON .* column"),
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


def test_documents_of_several_files_do_not_run_together(tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    paths[0].write_text("a")
    paths[1].write_text("b")
    documents = formats.read_documents(
        [str(path) for path in paths], formats.Rules(input_format="text")
    )
    assert [document.lines for document in documents] == [["a"], ["b"]]
    # Each book is one document.
    assert _read("book", "\ufeffIt was\r\nlate.\r\n\r\nHe left.") == [
        ["It was late.", "He left."]
    ]


def _written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return str(path)


def _documents(name, path, **rules):
    read = formats.read_documents(
        [path], formats.Rules(input_format=name, **rules)
    )
    return [(document.title, document.lines) for document in read]


def _parquet(tmp_path, columns, name="rows.parquet", **options):
    path = str(tmp_path / name)
    parquet.write_table(pyarrow.table(columns), path, **options)
    return path


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_rows_of_parquet_are_documents_of_their_lines(tmp_path, compression):
    rows = [f"Moss {number}.\n\nIt is green." for number in range(150)]
    path = _parquet(
        tmp_path,
        {"id": range(150), "text": rows, "title": [None, *"a" * 149]},
        compression=compression,
        row_group_size=70,
    )
    found = _documents("parquet", path)
    assert found[0] == (None, ["Moss 0.", "It is green."])
    assert found[149] == ("a", ["Moss 149.", "It is green."])
    assert len(found) == 150
    assert _documents("parquet", f"file://{path}") == found


def test_column_of_parquet_is_chosen_by_name(tmp_path):
    path = _parquet(tmp_path, {"text": [1], "body": ["One."], "b": ["Two."]})
    assert _documents("parquet", path, text_field="b") == [(None, ["Two."])]
    message = r"no text column 'text'. Text columns: 'body', 'b' \(choose"
    with pytest.raises(ValueError, match=message):
        _documents("parquet", path)
    # A row without text is named.
    path = _parquet(tmp_path, {"text": ["a", "b", None]})
    with pytest.raises(ValueError, match=r"rows\.parquet, row 3: .* got None"):
        _documents("parquet", path)


def test_files_that_are_no_whole_parquet_are_named(tmp_path):
    whole = _parquet(tmp_path, {"text": ["One.", "Two."] * 999})
    with open(whole, "rb") as file:
        content = file.read()
    damaged = content[:4] + b"\xff" * 99 + content[103:]
    for broken in (content[:-9], damaged, b"", b"text"):
        path = _written(tmp_path, "cut.parquet", broken)
        with pytest.raises(ValueError, match=r"cut\.parquet: not Parquet, or"):
            _documents("parquet", path)
    archive = str(tmp_path / "rows.tar")
    with tarfile.open(archive, "w") as file:
        file.add(whole, "rows.parquet")
    compressed = _written(tmp_path, "rows.gz", gzip.compress(content))
    for path in (archive, compressed):
        with pytest.raises(
            ValueError, match=r"needs random access; decompress"
        ):
            _documents("parquet", path)
    with pytest.raises(ValueError, match="pass --input_format=parquet"):
        _documents("jsonl", whole)


@pytest.mark.parametrize(
    ("text", "field", "documents"),
    [
        (
            '[{"text": "A\\n\\nb"}, {"id": 1, "text": ""}]',
            "text",
            [["A", "b"], []],
        ),
        ('{"text": "A"}\n{"text":\n"b"}', "text", [["A"], ["b"]]),
        ('{"data": [{"t": {"x": "A"}}]}', "data.item.t.x", [["A"]]),
        ('[{"n": 1, "body": "\\u00e9"}]', "body", [["\xe9"]]),
    ],
)
def test_strings_of_one_name_in_json_are_documents(text, field, documents):
    assert _read("json", text, text_field=field) == documents


def test_half_characters_of_json_are_replaced_in_any_chunks(
    monkeypatch, caplog
):
    text = (
        r'[{"text": "a\ud83d. \uDC00 \\ud83d \\\ud83d \ud83d\ud83d\ude00 '
        r'\ud83d\ude00\ude00 \u00e9 \ud83d"}]'
    )
    want = json.loads(text)[0]["text"]
    want = re.sub("[\ud800-\udfff]", "\ufffd", want)
    assert want.count("\ufffd") == 6
    for size in range(1, 40):
        monkeypatch.setattr(formats, "_JSON_BUFFER_BYTES", size)
        assert _read("json", text) == [[want]]
        assert "replaced 6 lone surrogates by U+FFFD" in caplog.text
        caplog.clear()


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        *(("utf-8", ""), ("utf-8-sig", ""), ("utf-16", ""), ("cp1252", "")),
        ("utf-16-le", "\ufeff"),
    ],
)
def test_json_is_read_in_its_encoding(tmp_path, encoding, mark):
    content = f'{mark}[{{"text": "\xe9t\xe9"}}]'.encode(encoding)
    path = _written(tmp_path, "x.json", content)
    told = encoding.removesuffix("-sig")
    documents = _documents("json", path, encoding=told)
    assert documents == [(None, ["\xe9t\xe9"])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"text": "a"}, {"text": 3}]', "document 2: .* string; got number"),
        ('[{"text": "a"}, {"text": {}}]', "document 2: .*; got start_map"),
        ('[{"text": "a"}, {"te', r"in\.txt, after document 1: not JSON \("),
        (
            '[{"a": {"b": "c"}}]',
            "no text in 'text'. Fields here: 'item.a', 'it",
        ),
        ("", "not JSON|Fields here: none"),
        ("[" * 99_999, "after document 0: not JSON .nested too deep"),
        ('{"n": ' + "9" * 5000, "not JSON .parse error: integer overflow"),
        ('{"t\xed": "', "after document 0: not JSON"),
        ("<text>", "after document 0: not JSON"),
    ],
)
def test_json_without_such_strings_names_file_and_place(text, message):
    with pytest.raises(ValueError, match=message):
        _read("json", text)


def test_an_empty_array_of_json_has_no_documents():
    assert _read("json", " []\n") == []


def _cirrus(*pages):
    lines = []
    for number, page in enumerate(pages):
        lines.append(json.dumps({"index": {"_id": str(number)}}))
        lines.append(json.dumps(page))
    return "\n".join(lines) + "\n"


def test_pages_of_a_cirrussearch_dump_are_its_articles(tmp_path, caplog):
    caplog.set_level("INFO")
    text = _cirrus(
        {"namespace": 0, "title": "Moss", "text": "Moss is green. It grows."},
        {"namespace": 4, "title": "Help", "text": "Not read."},
        {"title": "Fern", "text": "Fern is green."},
    )
    path = _written(tmp_path, "x.json.gz", gzip.compress(text.encode()))
    assert _documents("cirrussearch", path) == [
        ("Moss", ["Moss is green. It grows."]),
        ("Fern", ["Fern is green."]),
    ]
    assert "skipped 1 pages that are not articles" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a"}', 'line 1: expected {"index": ...}; got .*=jsonl'),
        ('{"index": {}}\n{"index": {}}', "line 2: expected a page; got"),
        ('{"index": {}}\n{"title": "a"}', "line 2: the text must be a string"),
        ('{"index": {}}\n{"tex', "line 2: must be JSON"),
    ],
)
def test_other_lines_than_those_of_cirrussearch_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        _read("cirrussearch", text)


def _wet(*texts, kind="conversion"):
    records = [("warcinfo", "software: a test"), *((kind, t) for t in texts)]
    return b"".join(
        gzip.compress(
            f"WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Length: "
            f"{len(text.encode())}\r\n\r\n{text}\r\n\r\n".encode()
        )
        for kind, text in records
    )


def test_conversions_of_wet_are_documents(tmp_path):
    content = _wet("Menu\n\nA t\xe9xt.", "", "WARC/1.0")
    path = _written(tmp_path, "x.warc.wet.gz", content)
    assert [lines for _, lines in _documents("wet", path)] == [
        ["Menu", "A t\xe9xt."],
        [],
        ["WARC/1.0"],
    ]


def test_files_that_are_not_wet_are_refused(tmp_path):
    warc = _written(tmp_path, "x.warc.gz", _wet("<p>", kind="response"))
    with pytest.raises(ValueError, match=r"record 2: .*got 'response'. Is it"):
        _documents("wet", warc)
    with pytest.raises(ValueError, match=r"record 1: expected WARC/1\.0, got"):
        _read("wet", "Just some text.\n")
    whole = gzip.decompress(_wet("One."))
    for content in (_wet("One.")[:-20], whole[:-6], whole[:-20]):
        path = _written(tmp_path, "cut.wet", content)
        with pytest.raises(ValueError, match=r"cut\.wet: damaged or truncated"):
            _documents("wet", path)


_DUMP = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="de">
<siteinfo><namespaces><namespace key="0" /><namespace key="6">Datei</namespace>
<namespace key="14">Kategorie</namespace></namespaces></siteinfo>
<page><title>Moos</title><ns>0</ns><id>1</id>
<revision><id>8</id><text>Alt.</text></revision>
<revision><id>9</id><model>wikitext</model>
<text>'''Moos''' ist [[Farbe|gr\xfcn]].

[[Kategorie:Pflanze]][[Datei:x.jpg|mini|Ein [[Moos]]]]</text></revision></page>
<page><title>Farn</title><ns>0</ns><redirect title="Moos" />
<revision><text>#REDIRECT [[Moos]]</text></revision></page>
<page><title>Hilfe:A</title><ns>12</ns><revision><text>B</text></revision></page>
<page><title>C</title><ns>0</ns>
<revision><model>json</model><text>{}</text></revision></page>
</mediawiki>
"""


def test_articles_of_a_mediawiki_dump_are_documents(tmp_path, caplog):
    caplog.set_level("INFO")
    path = _written(tmp_path, "x.xml.bz2", bz2.compress(_DUMP.encode()))
    rules = formats.Rules(input_format="mediawiki")
    (moss, data) = formats.read_documents([path], rules)
    assert (moss.title, data.title, data.lines) == ("Moos", "C", [])
    paragraphs = formats.FORMATS["mediawiki"].paragraphs
    assert list(paragraphs(moss.lines, cleaning.Counts())) == [
        "Moos ist gr\xfcn."
    ]
    assert "skipped 2 redirects and pages that are not" in caplog.text


def test_incomplete_dumps_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"in\.txt: expected <mediawiki>, got"):
        _read("mediawiki", "<html></html>")
    with pytest.raises(ValueError, match=r"got <x{57}\.\.\.>\. Is this"):
        _read("mediawiki", f"<{'x' * 5000}></{'x' * 5000}>")
    with pytest.raises(
        ValueError, match=r"in\.txt, line 14: not XML .* truncated"
    ):
        _read("mediawiki", _DUMP[:-60])
    with pytest.raises(ValueError, match=r"in\.txt, line 1: not XML"):
        _read("mediawiki", "")
    cut = bz2.compress(_DUMP.encode())[:-20]
    path = _written(tmp_path, "cut.xml.bz2", cut)
    with pytest.raises(
        ValueError, match=r"cut\.xml\.bz2: damaged or truncated"
    ):
        _documents("mediawiki", path)

import gzip
import os

import pytest

from bert.corpus import format_checks

_SENTENCES = (
    "The bridge is old.\nIt has three arches.\n\nA new one is planned.\n"
)
_CONTENTS = {
    "wikiextractor": '<doc id="1" url="" title="a > b">\na\n\nText.\n</doc>\n',
    "jsonl": '{"text": "One."}\n\n{ "id": 1, "text": "Two."}\n',
    "mediawiki": '<mediawiki xml:lang="en">\n<page>\n',
    "csv": 'id,text\n1,"One, or\n\ntwo."\n2,Three.\n',
    "paragraphs": (
        "Bridges\nThe bridge is old. It has three arches. It is long.\n\n"
        "A new one is planned. It will be short. Nobody wants it.\n"
    ),
}


def _warnings(folder, *contents, language="en"):
    paths = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.txt"
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        paths.append(str(path))
    return format_checks.warnings(paths, language)


@pytest.mark.parametrize("name", _CONTENTS)
def test_file_of_another_format_is_a_warning_with_the_flag(tmp_path, name):
    (warning,) = _warnings(tmp_path, _SENTENCES, _CONTENTS[name])
    assert f"in {tmp_path}/1.txt " in warning
    assert warning.endswith(f"Pass --input_format={name}.")


def test_files_of_one_format_share_a_warning(tmp_path):
    (warning,) = _warnings(tmp_path, *[_CONTENTS["jsonl"]] * 10)
    assert f"{tmp_path}/7.txt and 2 more the lines are JSON" in warning
    assert len(_warnings(tmp_path, *_CONTENTS.values())) == len(_CONTENTS)


def test_compressed_file_is_read(tmp_path):
    path = tmp_path / "wiki.gz"
    path.write_bytes(gzip.compress(_CONTENTS["wikiextractor"].encode()))
    assert len(format_checks.warnings([str(path)], "en")) == 1


def test_pipe_is_left_to_its_reader(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert format_checks.warnings([str(tmp_path / "pipe")], "en") == []


@pytest.mark.parametrize("length", [70_000, 40_000])
@pytest.mark.parametrize(
    ("line", "name"),
    [('{{"text": "{}"}}', "jsonl"), ("{} End. The end.", "paragraphs")],
)
def test_long_lines_are_known_by_their_beginning(tmp_path, length, line, name):
    text = "\ufeff" + line.format("A sentence here. " * (length // 17))
    (warning,) = _warnings(tmp_path, f"{text}\n{text}\n")
    assert warning.endswith(f"--input_format={name}.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\n",
        _SENTENCES,
        _SENTENCES.replace("\n", "\r\n"),
        "Bridges\n",
        "In C, {\nopens a block.\n} closes it.\n",
        'The tag <doc> opens a document. </doc> ends it.\n"a": 1\n',
        "\udcff\udcfe\n",
        '{"a": 1}\nThe last line has no end.',
        # A quotation is a sentence within a sentence.
        _SENTENCES * 5 + '"Stop. Go." he said.\n',
        "望月桥是一座三孔石拱桥。\n全长四十二米。\n",
        "The bridge, which is long and\nwhich is old, was\nbuilt. It is red.\n",
    ],
)
def test_file_of_sentences_is_no_warning(tmp_path, text):
    assert _warnings(tmp_path, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "text\nOne.\nTwo.\n",  # Of one column nothing is seen.
        "Mary, her mother\nJohn, his father\n",  # Few rows may be sentences.
        "Mary, hers.\nJohn, his.\nEve, theirs.\n",  # Names have no period.
        "Mary, hers\nJohn, his\nEve and theirs\nJane, hers\n",
        "One, two\nThree, four, five\nSix\n",
        '1, "two\nthree',
        "Mary, hers\rJohn, his\nEve, theirs\nJane, hers\n",
    ],
)
def test_sentences_with_commas_are_no_table(tmp_path, text):
    assert _warnings(tmp_path, text) == []


def test_the_last_row_of_a_long_table_may_be_cut(tmp_path):
    text = "id,text\n" + "1,Some words of a sentence\n" * 150
    (warning,) = _warnings(tmp_path, text + "2\n")
    assert warning.endswith("--input_format=csv.")


def test_paragraphs_of_other_languages_are_recognized(tmp_path):
    text = "望月桥是一座三孔石拱桥。全长四十二米。宽五米。\n"
    (warning,) = _warnings(tmp_path, text, language="zh")
    assert warning.endswith("--input_format=paragraphs.")

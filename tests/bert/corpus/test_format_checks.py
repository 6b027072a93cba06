import gzip
import json
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
}


def _warnings(folder, *contents):
    paths = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.txt"
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        paths.append(str(path))
    return format_checks.warnings(paths)


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
    assert len(format_checks.warnings([str(path)])) == 1


def test_pipe_is_left_to_its_reader(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert format_checks.warnings([str(tmp_path / "pipe")]) == []


@pytest.mark.parametrize("length", [70_000, 40_000])
def test_long_lines_are_known_by_their_beginning(tmp_path, length):
    text = "\ufeff" + json.dumps({"text": "A sentence. " * (length // 12)})
    (warning,) = _warnings(tmp_path, f"{text}\n{text}\n")
    assert warning.endswith("--input_format=jsonl.")


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

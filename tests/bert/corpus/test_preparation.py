"""Rules, counts and worker processes."""

import collections

import hypothesis
import pytest
from hypothesis import strategies

from bert.corpus import formats, preparation
from tests.support import programs


def _prepare(documents, num_workers=1, **rules):
    rules = formats.Rules(**({"input_format": "jsonl"} | rules))
    documents = [formats.Document(lines=lines) for lines in documents]
    total = preparation.Prepared()
    for batch in preparation.prepare(documents, rules, num_workers):
        total.texts += batch.texts
        total.num_documents += batch.num_documents
        total.dropped.update(batch.dropped)
    return total


def test_documents_become_one_sentence_a_line():
    assert _prepare(
        [["One here. Two  here.", "* * *", "Three.", "12."], []]
    ) == preparation.Prepared(
        texts=["One here.\nTwo here.\nThree.\n"],
        num_documents=2,
        dropped=collections.Counter(
            {"sentences without a letter": 2, "documents without text": 1}
        ),
    )


def test_reason_of_every_document_left_out_is_counted():
    rules = formats.Rules(
        input_format="wikiextractor",
        min_paragraph_words=2,
    )
    documents = [
        formats.Document(title="A", lines=["A", "One here. Two here."]),
        formats.Document(title="B", lines=["B"]),
        formats.Document(title="C", lines=["C", "| x", "Short.", "<br>"]),
    ]
    batch = preparation.prepare_batch(rules, documents)
    assert batch.texts == ["One here.\nTwo here.\n"]
    assert batch.num_documents == 3
    told = preparation.describe_dropped(batch.dropped)
    assert told == (
        "Left out: documents without text after cleaning: 1; documents without "
        "text: 1; paragraphs of fewer than 2 words: 1; paragraphs of left-over "
        "markup: 1; paragraphs without text: 1; tags: 1; titles: 3."
    )
    batch = preparation.prepare_batch(rules, [formats.Document(lines=[" "])])
    assert +batch.dropped == {"documents without text": 1}
    nothing = preparation.describe_dropped({"titles": 0})
    assert nothing == "Left out: nothing."


@pytest.mark.parametrize(
    ("input_format", "number", "least"),
    [
        ("wikiextractor", None, 8),
        ("mediawiki", None, 8),
        ("jsonl", None, 0),
        ("wikiextractor", 0, 0),
        ("book", 3, 3),
    ],
)
def test_a_format_has_a_least_length_unless_a_number_is_passed(
    input_format, number, least
):
    options = preparation.RawTextOptions(
        language="de", text_field="body", min_paragraph_words=number
    )
    assert options.rules(input_format) == formats.Rules(
        input_format=input_format,
        language="de",
        text_field="body",
        min_paragraph_words=least,
    )


@pytest.mark.parametrize("input_format", ["wikiextractor", "jsonl"])
def test_paragraph_without_spaces_is_kept(input_format):
    rules = formats.Rules(input_format=input_format, min_paragraph_words=8)
    bridge = "望月桥是一座三孔石拱桥，全长四十二米。"
    batch = preparation.prepare_batch(
        rules, [formats.Document(lines=["参考文献", bridge])]
    )
    assert batch.texts == [f"{bridge}\n"]
    assert +batch.dropped == {"paragraphs of fewer than 8 words": 1}


def test_text_is_not_split_again():
    prepared = _prepare([["One.  Two\ta.", " 3 "]], input_format="text")
    assert prepared.texts == ["One. Two a.\n3\n"]


def test_workers_change_nothing(monkeypatch):
    # Small, so that a worker gets several batches.
    monkeypatch.setattr(preparation, "_BATCH_CHARACTERS", 40)
    documents = [[f"Document {i} is here. It ends."] for i in range(40)]
    assert _prepare([]) == preparation.Prepared()
    one = _prepare(documents, 1)
    assert one == _prepare(documents, 2)
    assert len(one.texts) == 40


@hypothesis.given(
    strategies.lists(strategies.lists(strategies.text(max_size=40), max_size=5))
)
def test_output_is_what_the_reader_of_text_gives_back(documents):
    prepared = _prepare(documents)
    lost = sum(
        prepared.dropped[f"documents without text{when}"]
        for when in ("", " after cleaning")
    )
    assert len(prepared.texts) + lost == len(documents)
    again = _prepare(
        [text.splitlines() for text in prepared.texts], input_format="text"
    )
    assert again.texts == prepared.texts


def test_output_paths():
    paths = preparation.output_paths
    assert paths("a/out.txt", 1) == ["a/out.txt"]
    assert paths("out.txt", 2) == ["out-00000.txt", "out-00001.txt"]
    assert paths("o.%03d", 2) == ["o.000", "o.001"]
    assert paths("%d/o%d", 2) == ["%d/o0", "%d/o1"]
    assert paths("50%d/o", 1) == ["50%d/o"]
    assert paths("o%5d", 2) == ["o%5d-00000", "o%5d-00001"]


def test_documents_go_round_and_every_third_is_held_out(tmp_path):
    paths = [str(tmp_path / name) for name in ("a", "b")]
    held_out = str(tmp_path / "h")
    documents = [f"{i}\n" for i in range(6)] + ["One two.\nThree.\n"]
    assert preparation.write_documents(documents, paths, held_out, 3) == 7
    assert [(tmp_path / name).read_text() for name in "abh"] == [
        "0\n\n3\n\nOne two.\nThree.\n\n",
        "1\n\n4\n\n",
        "2\n\n5\n\n",
    ]


@pytest.mark.parametrize("documents", [[], ["a\n"]])
def test_file_that_would_be_empty_is_an_error_and_nothing_is_written(
    tmp_path, documents
):
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with pytest.raises(
        ValueError, match=r"too few.*b.*smaller .*--holdout_every"
    ):
        preparation.write_documents(documents, paths)
    assert list(tmp_path.iterdir()) == []


_WITH_A_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 300))
from bert.corpus import preparation
names = [f"{sys.argv[1]}/{n}" for n in range(int(sys.argv[2]))]
preparation.write_documents((f"{n}\\n" for n in range(1000)), names)
"""


def test_more_files_than_the_soft_limit_are_written_at_once(tmp_path):
    command = ("-c", _WITH_A_LIMIT, str(tmp_path))
    programs.python(*command, "100", check=True)
    assert (tmp_path / "99").read_text() == "".join(
        f"{n}\n\n" for n in range(99, 1000, 100)
    )
    assert (
        "ValueError: Writing 200 files at once needs 328 open files; the "
        "system allows 300 (ulimit -Hn). Write fewer files."
    ) in programs.python(*command, "200").stderr
    assert len([*tmp_path.iterdir()]) == 100

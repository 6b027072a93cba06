"""Rules, counts and worker processes."""

import dataclasses
import random

import hypothesis
import pytest
from hypothesis import strategies

from corpus import cleaning, formats, preparation


def _prepare(documents, num_workers=1, **rules):
    rules = formats.Rules(**({"input_format": "jsonl"} | rules))
    documents = [formats.Document(lines=lines) for lines in documents]
    total = cleaning.Counts()
    texts = []
    for batch, counts in preparation.prepare(documents, rules, num_workers):
        texts += batch
        total.add(counts)
    return texts, total


def test_documents_become_one_sentence_a_line():
    texts, counts = _prepare([["One here. Two  here.", "* * *", "Three."], []])
    assert texts == ["One here.\nTwo here.\nThree.\n"]
    assert counts == cleaning.Counts(
        characters_read=21 + 6 + 7,
        documents_read=2,
        letterless_sentences=1,
        empty_documents=1,
    )


def test_reason_of_every_document_left_out_is_counted():
    rules = formats.Rules(
        input_format="wikiextractor",
        min_paragraph_words=2,
        min_document_sentences=2,
    )
    documents = [
        formats.Document(title="A", lines=["A", "One here. Two here."]),
        formats.Document(title="B", lines=["B"]),
        formats.Document(title="C", lines=["C", "| x", "Short.", "<br>"]),
        formats.Document(title="D", lines=["One sentence."]),
    ]
    texts, counts = preparation.prepare_batch(rules, documents)
    assert texts == ["One here.\nTwo here.\n"]
    assert counts.documents_read == 4
    assert (counts.empty_documents, counts.emptied_documents) == (1, 1)
    assert (counts.short_documents, counts.short_document_sentences) == (1, 1)
    told = preparation.describe_dropped(counts, rules)
    assert told == (
        "Left out: titles: 3; tags: 1; paragraphs of left-over markup: 1; "
        "paragraphs without text: 1; paragraphs of fewer than 2 words: 1; "
        "documents without text: 1; documents without text after cleaning: 1; "
        "documents of fewer than 2 sentences or 0 characters: 1; "
        "sentences in these: 1."
    )
    nothing = preparation.describe_dropped(cleaning.Counts(), rules)
    assert nothing == "Left out: nothing."


def test_every_count_but_of_what_is_read_has_its_reason():
    fields = dataclasses.fields(cleaning.Counts)
    counts = cleaning.Counts(**{field.name: 7 for field in fields})
    rules = formats.Rules(input_format="text", min_paragraph_words=3)
    told = preparation.describe_dropped(counts, rules)
    assert told.count(": 7") == len(fields) - len(
        {"characters_read", "documents_read"}
    )
    assert "paragraphs of fewer than 3 words: 7" in told


def test_text_is_not_split_again():
    texts, _ = _prepare([["One. Two.", " 3 "]], input_format="text")
    assert texts == ["One. Two.\n3\n"]


def test_limits_drop_paragraphs_and_documents_and_count_them():
    documents = [["History.", "It began early on."], ["One.", "Two was good."]]
    texts, counts = _prepare(
        [*documents, ["Alone it stands."]],
        min_paragraph_words=2,
        min_document_characters=16,
        input_format="wikiextractor",
    )
    assert texts == ["It began early on.\n", "Alone it stands.\n"]
    assert counts.short_paragraphs == 2
    assert counts.short_documents == 1
    texts, counts = _prepare(documents, min_document_sentences=3)
    assert texts == []
    assert (counts.short_documents, counts.short_document_sentences) == (2, 4)


def test_workers_change_nothing(monkeypatch):
    monkeypatch.setattr(preparation, "_BATCH_CHARACTERS", 40)
    documents = [[f"Document {i} is here. It ends."] for i in range(40)]
    assert _prepare([]) == ([], cleaning.Counts())
    one = _prepare(documents, 1)
    assert one == _prepare(documents, 2)
    assert len(one[0]) == 40


@hypothesis.given(
    strategies.lists(strategies.lists(strategies.text(max_size=40), max_size=5))
)
def test_output_is_what_the_reader_of_text_gives_back(documents):
    texts, counts = _prepare(documents)
    lost = counts.empty_documents + counts.emptied_documents
    assert len(texts) + lost == len(documents) == counts.documents_read
    again, _ = _prepare(
        [text.splitlines() for text in texts], input_format="text"
    )
    assert again == texts


def test_output_paths():
    paths = preparation.output_paths
    assert paths("a/out.txt", 1) == ["a/out.txt"]
    assert paths("out.txt", 2) == ["out-00000.txt", "out-00001.txt"]
    assert paths("o.%03d", 2) == ["o.000", "o.001"]
    assert paths("%d/o%d", 2) == ["%d/o0", "%d/o1"]
    assert paths("50%d/o", 1) == ["50%d/o"]
    assert paths("o%5d", 2) == ["o%5d-00000", "o%5d-00001"]
    with pytest.raises(ValueError, match="one number; has 2"):
        paths("a-%d-%d", 2)
    with pytest.raises(ValueError, match="must be 1 or more; got 0"):
        paths("a", 0)


def test_documents_go_round_and_every_third_is_held_out(tmp_path):
    paths = [str(tmp_path / name) for name in ("a", "b")]
    held_out = str(tmp_path / "h")
    documents = [f"{i}\n" for i in range(6)] + ["One two.\nThree.\n"]
    written = preparation.write_documents(
        preparation.sample(lambda _: documents, 1, 3, random.Random(1)),
        paths,
        held_out,
    )
    assert written == preparation.Written(
        documents=7, held_out=2, sentences=8, words=9
    )
    assert [(tmp_path / name).read_text() for name in "abh"] == [
        "0\n\n3\n\nOne two.\nThree.\n\n",
        "1\n\n4\n\n",
        "2\n\n5\n\n",
    ]


def test_text_is_taken_whole_times_and_a_part():
    documents = [str(number) for number in range(1000)]
    reads = []

    def read(is_first):
        reads.append(is_first)
        return documents

    def sample(copies, every=0):
        rng = random.Random(7)
        return list(preparation.sample(read, copies, every, rng))

    assert sample(1 + 1e-12) == [(document, False) for document in documents]
    taken = [document for document, _ in sample(2.3)]
    assert taken[:2000] == documents * 2
    # Drawn with probability 0.3: within four standard deviations.
    assert 240 < len(taken) - 2000 < 360
    assert taken[2000:] == sorted(set(taken[2000:]), key=int)
    assert reads == [True, True, False, False]
    assert sample(2.3) == sample(2.3)
    part = sample(0.5, every=10)
    held_out = [document for document, is_held_out in part if is_held_out]
    assert held_out == documents[9::10]
    assert 390 < len(part) - 100 < 510
    repeated = sample(3, every=10)
    kept = [document for document, is_held_out in repeated if not is_held_out]
    assert not set(kept) & set(held_out)
    assert len(repeated) == 3 * 900 + 100


@pytest.mark.parametrize("documents", [[], [("a\n", False)]])
def test_file_that_would_be_empty_is_an_error_and_nothing_is_written(
    tmp_path, documents
):
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with pytest.raises(ValueError, match=r"documents are too few.*b"):
        preparation.write_documents(documents, paths)
    assert list(tmp_path.iterdir()) == []

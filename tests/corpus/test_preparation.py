"""Rules, counts and worker processes."""

import dataclasses

import hypothesis
from hypothesis import strategies

from corpus import preparation


def _prepare(documents, num_workers=1, **rules):
    rules = preparation.Rules(**({"input_format": "book"} | rules))
    total = preparation.Counts()
    texts = []
    for batch, counts in preparation.prepare(documents, rules, num_workers):
        texts += batch
        total.add(counts)
    return texts, total


def test_documents_become_one_sentence_a_line():
    texts, counts = _prepare([["One here. Two  here.", "* * *", "Three."], []])
    assert texts == ["One here.\nTwo here.\nThree.\n"]
    assert dataclasses.asdict(counts) == {
        "characters_read": 21 + 6 + 7,
        "documents": 1,
        "sentences": 3,
        "words": 5,
        "empty_paragraphs": 0,
        "short_paragraphs": 0,
        "letterless_sentences": 1,
        "short_documents": 1,
    }


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
    assert counts.short_documents == 2


def test_no_documents_are_no_batches():
    assert _prepare([]) == ([], preparation.Counts())


def test_workers_change_nothing(monkeypatch):
    monkeypatch.setattr(preparation, "_BATCH_CHARACTERS", 40)
    documents = [[f"Document {i} is here. It ends."] for i in range(40)]
    one = _prepare(documents, 1)
    assert one == _prepare(documents, 2)
    assert len(one[0]) == 40


@hypothesis.settings(deadline=None)
@hypothesis.given(
    strategies.lists(strategies.lists(strategies.text(max_size=40), max_size=5))
)
def test_output_is_what_the_reader_of_text_gives_back(documents):
    texts, counts = _prepare(documents)
    assert len(texts) == counts.documents
    assert len(texts) + counts.short_documents == len(documents)
    assert sum(text.count("\n") for text in texts) == counts.sentences
    again, _ = _prepare(
        [text.splitlines() for text in texts], input_format="text"
    )
    assert again == texts

import logging

import pytest

from bert.tasks.tagging import options, tagged_files
from tests.support import programs


def _read(folder, texts, **named):
    """Reads files that no model was trained for, by their texts."""
    for split, text in texts.items():
        (folder / f"{split}.txt").write_text(text)
        named[f"{split}_file"] = folder / f"{split}.txt"
    flags = programs.parse(options.TaggingFileOptions, **named)
    return tagged_files.read(flags, [*texts], None)


def test_tags_of_entities_are_in_iob2(tmp_path):
    files = _read(tmp_path, {"train": "a I-A\nb I-A\n\nc O\nd S-B\n"})
    assert files.scheme == "iob"
    assert files.labels.names == ("O", "B-A", "I-A", "B-B", "I-B")
    assert files.by_split["train"].tags == [("B-A", "I-A"), ("O", "B-B")]


def test_tags_of_words_are_as_in_the_file(tmp_path):
    files = _read(tmp_path, {"train": "a B\nb C\nc C\n\nd A\n"})
    assert files.scheme == "words"
    assert files.labels.names == ("A", "B", "C")
    assert files.by_split["train"].tags == [("B", "C", "C"), ("A",)]


@pytest.mark.parametrize(
    ("scheme", "labels"),
    [
        ("iob", ["O", "B", "I"]),
        ("raw", ["O", "B-B", "I-B", "B-I", "I-I"]),
        ("words", ["B", "I", "O"]),
    ],
)
def test_a_stated_scheme_decides_nothing_by_the_tags(tmp_path, scheme, labels):
    text = "a B\nb I\n\nc O\n"
    files = _read(tmp_path, {"train": text}, scheme=scheme)
    assert files.scheme == scheme
    assert [*files.labels.names] == labels


def test_training_file_decides_the_scheme_alone(tmp_path):
    dev = "a B\nb I\nc I\nd O\n"
    files = _read(tmp_path, {"train": "a I\nb A\n\nc O\n", "eval": dev})
    assert files.by_split["train"].tags == [("B-I", "B-A"), ("O",)]
    assert files.by_split["eval"].tags == [("B-B", "B-I", "I-I", "O")]


def test_a_tag_of_another_scheme_names_file_and_line(tmp_path):
    texts = {"train": "a B-A\n\nb O\n", "eval": "a O\n\nb NN\n"}
    message = r"eval.txt, line 3: 'NN' is not a tag of --scheme=iob"
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, texts)


@pytest.mark.parametrize("split", ["train", "eval"])
def test_files_to_train_on_and_to_score_need_tags(tmp_path, split):
    texts = {"train": "a B\n\nb O\n", split: "Ann\nfell\n"}
    message = rf"{split}\.txt: must have a column of tags; .*--columns"
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, texts)


def test_unknown_types_and_tags_are_counted(tmp_path, caplog):
    texts = {"train": "a B-A\n\nb O\n", "eval": "a B-X\nb B-A\nc I\n"}
    _read(tmp_path, texts)
    assert "eval.txt: 2 of 3 entities are of types that" in caplog.text
    assert "('ENTITY', 'X'). They count as missed. It knows 'A'." in caplog.text
    texts = {"train": "a A\n\nb B\n", "eval": "a B\nb C\nc C\n"}
    _read(tmp_path, texts)
    assert "eval.txt: 2 of 3 words have tags that" in caplog.text
    assert "('C'). They count as missed. It knows 'A', 'B'." in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("it O\n\nit O\n", "expected at least one entity"),
        ("it 0]\n\nit 0]\n", "or two tags of words; every tag is 0]. Check"),
    ],
)
def test_a_training_file_without_two_labels_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError) as caught:
        _read(tmp_path, {"train": text})
    assert message in str(caught.value)


def test_numbers_of_words_are_no_words_to_train_on(tmp_path, caplog):
    text = "1 Ann B-PER\n2 fell O\n\n1 She O\n2-3 was O\n"
    message = "none of these has a letter: '1', '2', '2-3'"
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(ValueError, match=message),
    ):
        _read(tmp_path, {"train": text})
    assert "words and tags 1 B-PER, 2 O." in caplog.text


def test_a_header_is_warned_of(tmp_path, caplog):
    _read(tmp_path, {"train": "word tag\n\nAnn NN\nBob NN\n"})
    assert "train.txt, line 1: no other word has the tag 'tag'" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "the/DT dog/NN\na/DT cat/NN\n",
        '{"words": ["a"], "tags": ["O"]}\n{"words": ["b"], "tags": ["P"]}\n',
        "Ann NN\nfell VB\nShe PRP\n",
    ],
)
def test_a_training_file_of_one_sentence_is_refused(tmp_path, text):
    """It has a sentence or a record a line, or its empty lines were lost."""
    message = r"train\.txt: must have an empty line after each sentence; it is "
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, {"train": text})


def test_files_without_documents_are_named(tmp_path, caplog):
    texts = {"train": "a A\n\nb B\nc A\n"}
    assert _read(tmp_path, texts, context="sentence").context == "sentence"
    assert "WARNING" not in caplog.text
    # The model learns no context, and says so.
    assert _read(tmp_path, texts).context == "sentence"
    assert "train.txt has no -DOCSTART- line" in caplog.text
    texts["train"] = f"-DOCSTART- O\n\n{texts['train']}"
    assert _read(tmp_path, texts).context == "document"

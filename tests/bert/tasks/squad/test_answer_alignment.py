"""Labels of answers by their words, as released, and by their offsets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert.tasks.squad import question_files, window_features
from tests.support import toy_files, toy_vocabulary
from vocab import tokenization

_SPECIAL = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "?"
_ALIGNMENTS = question_files.ALIGNMENTS
_OPTIONS = window_features.WindowOptions(max_seq_length=256, max_query_length=4)


def _read(folder, questions, answer_alignment):
    """Reads (paragraph, answer, offset) triples as questions to train on."""
    paragraphs = [
        {
            "context": context,
            "qas": [
                {
                    "id": str(number),
                    "question": "?",
                    "answers": [{"text": text, "answer_start": offset}],
                }
            ],
        }
        for number, (context, text, offset) in enumerate(questions)
    ]
    path = folder / "train.json"
    toy_files.write_json(path, {"data": [{"paragraphs": paragraphs}]})
    examples = question_files.read_training_examples(
        str(path),
        version_2_with_negative=False,
        answer_alignment=answer_alignment,
    )
    return sorted(examples, key=lambda example: int(example.qas_id))


def _labels(examples, tokenizer):
    """Returns the number of characters before each label, and its text."""
    labels = []
    for windows in window_features.convert_examples_to_features(
        examples, tokenizer, _OPTIONS
    ):
        if not windows:  # The paragraph has no pieces.
            labels.append((0, ""))
            continue
        (window,) = windows
        begin = window.num_query_tokens + 2
        start, end = window.start_position, window.end_position + 1
        before, answer = (
            "".join(piece.removeprefix("##") for piece in pieces)
            for pieces in (
                window.tokens[begin:start],
                window.tokens[start:end],
            )
        )
        labels.append((len(before), answer))
    return labels


def _by_characters(folder, *texts, do_lower_case=False):
    """Makes a tokenizer whose pieces are the characters of texts."""
    letters = sorted({c for text in texts for c in text if not c.isspace()})
    lines = [*letters, *("##" + c for c in letters)]
    return toy_vocabulary.tokenizer(
        folder, [*_SPECIAL, *lines], do_lower_case=do_lower_case
    )


@pytest.mark.parametrize(
    ("context", "answer", "occurrence"),
    [
        # Ideographs are words by themselves.
        (
            "李明在北京出生，后来去上海。他在上海工作，一九九八年回北京。",
            "北京",
            1,
        ),
        (
            "王在南京，父亲在广州。他又回到南京，一九九八年在南京认识了王。",
            "南京",
            2,
        ),
        # Kana are not: their pieces begin with "##" within a word.
        ("東京タワーは高い。大阪タワーも高い。タワーはまだある。", "タワー", 1),
        ("ひらがなとかたかなとひらがなである", "ひらがな", 1),
        ("กรุงเทพเป็นเมืองหลวงของไทยและกรุงเทพใหญ่", "กรุงเทพ", 1),
        ("ภาษาไทยง่าย ภาษาไทยยากภาษาไทยสวย", "ภาษาไทย", 2),
        ("ໂຮງຮຽນໃຫຍ່ຢູ່ໂຮງຮຽນນ້ອຍ", "ໂຮງຮຽນ", 1),
        # Mixed: Latin words and numbers between ideographs.
        ("IBM在北京，微软也在北京，2008年IBM在北京。", "北京", 2),
        ("于1998年和2008年，1998年再次，共1998次。", "1998", 2),
        # Words with hyphens and slashes, without spaces too.
        ("from 5/5-5/7 on", "5", 2),
        # Overlapping occurrences.
        ("在哈哈哈哈中", "哈哈", 2),
    ],
)
def test_the_label_is_the_occurrence_at_the_offset(
    tmp_path, context, answer, occurrence
):
    offset = -1
    for _ in range(occurrence + 1):
        offset = context.index(answer, offset + 1)
    tokenizer = _by_characters(tmp_path, context)
    examples = _read(tmp_path, [(context, answer, offset)], "offset")
    before = len("".join(context[:offset].split()))
    assert _labels(examples, tokenizer) == [(before, answer)]


def test_accents_and_removed_characters_do_not_move_the_label(tmp_path):
    # "é" is one character or two, a zero-width space is removed, a Hangul
    # syllable is decomposed to two or three characters.
    context = "中é\u200b가é中e\u0301\u00ad中ÉÉ中"
    tokenizer = _by_characters(tmp_path, "中e\u1100\u1161", do_lower_case=True)
    places = [place for place, char in enumerate(context) if char == "中"]
    examples = _read(
        tmp_path, [(context, "中", place) for place in places], "offset"
    )
    # 中 e ga e 中 e 中 e e 中
    assert _labels(examples, tokenizer) == [
        (before, "中") for before in (0, 5, 7, 10)
    ]
    (example,) = _read(tmp_path, [(context, "ÉÉ", 10)], "offset")
    assert _labels([example], tokenizer) == [(8, "ee")]


def test_an_unknown_word_has_its_length_before_an_answer(tmp_path):
    context = "中文abc中文abc中文"
    tokenizer = _by_characters(tmp_path, "中文a")  # abc is [UNK].
    examples = _read(tmp_path, [(context, "中文", 10)], "offset")
    assert _labels(examples, tokenizer) == [(4 + 2 * len("[UNK]"), "中文")]


def test_a_part_of_a_word_is_labeled_by_the_pieces_that_contain_it(tmp_path):
    tokenizer = toy_vocabulary.tokenizer(
        tmp_path, [*_SPECIAL, "un", "##aff", "##able", "x"]
    )
    question = ("x unaffable x", "affa", 4)
    (by_word,) = _read(tmp_path, [question], "word")
    assert _labels([by_word], tokenizer) == [(1, "unaffable")]
    (by_offset,) = _read(tmp_path, [question], "offset")
    assert _labels([by_offset], tokenizer) == [(3, "affable")]


def test_an_answer_without_pieces_is_labeled_as_released(tmp_path):
    tokenizer = toy_vocabulary.tokenizer(tmp_path, [*_SPECIAL, "a", "b", "##b"])
    question = ("b a\u200bb b", "\u200b", 3)
    labels = [
        _labels(_read(tmp_path, [question], alignment), tokenizer)
        for alignment in _ALIGNMENTS
    ]
    assert labels[0] == labels[1]


_TWICE = "李明在北京出生，后来去上海。一九九八年回北京。"


@pytest.mark.parametrize(
    ("context", "answer", "offset"),
    [
        (_TWICE, "北京", 8),
        (_TWICE, "北京", _TWICE.index("京")),
        ("ไปไทยแล้วกลับไทย", "ไทย", 3),
        ("The mill of 1895.", "895", 12),
    ],
)
def test_an_answer_beside_its_offset_is_dropped_with_offset_alone(
    tmp_path, caplog, context, answer, offset
):
    questions = [(context, answer, offset), ("ab", "ab", 0)]
    assert len(_read(tmp_path, questions, "word")) == 2
    assert "dropped" not in caplog.text
    (kept,) = _read(tmp_path, questions, "offset")
    assert kept.qas_id == "1"
    assert (
        "1 questions dropped: the answer is not at its offset: '0'"
        in caplog.text
    )


@pytest.mark.parametrize(
    ("context", "answer", "offset"),
    [
        ("a  mill  stood", "mill stood", 3),  # Single spaces in the answer.
        ("a mill stood", " mill ", 1),  # Spaces around it.
        (" mill", "mill", 1),  # The first word.
        (" mill", "mill", 0),
        ("a \xa0mill", "\xa0mill", 2),
        ("a mill stood", "mill", 2),
        ("a (mill) stood", "mill", 3),
        ("the\u202fmill", "mill", 4),
    ],
)
def test_white_space_at_an_offset_is_accepted_as_released(
    tmp_path, context, answer, offset
):
    tokenizer = _by_characters(tmp_path, context, answer)
    examples = _read(tmp_path, [(context, answer, offset)], "offset")
    ((_, label),) = _labels(examples, tokenizer)
    assert label == "".join(answer.split())


def test_answers_that_occur_more_than_once_in_their_words_are_counted(
    tmp_path, caplog
):
    questions = [
        (_TWICE, "北京", 3),
        ("one mill, another mill", "mill", 4),  # In two words.
        (_TWICE, "上海", _TWICE.index("上海")),
        ("哈哈哈", "哈哈", 0),
    ]
    _read(tmp_path, questions, "word")
    assert (
        "train.json: 2 answers occur more than once in their words, so that "
        "the label may be another occurrence (see --answer_alignment): '0', "
        "'3'." in caplog.text
    )
    caplog.clear()
    _read(tmp_path, questions, "offset")
    assert "more than once" not in caplog.text


_LETTERS = "aeé中文ไทかな(-.'5İß\u200b"
_WORDS = st.lists(
    st.text(_LETTERS, min_size=1, max_size=5), min_size=1, max_size=8
)


def _occurrences(part, sequence):
    starts = range(len(sequence) - len(part) + 1)
    return [i for i in starts if sequence[i : i + len(part)] == part]


@settings(max_examples=300)
@given(data=st.data(), words=_WORDS, do_lower_case=st.booleans())
def test_both_labels_are_equal_if_the_answer_occurs_once_in_its_words(
    tmp_path_factory, data, words, do_lower_case
):
    context = " ".join(words)
    begin = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(begin + 1, len(context)))
    question = context, context[begin:end], begin
    folder = tmp_path_factory.getbasetemp()
    tokenizer = _by_characters(
        folder,
        tokenization.without_accents(context.lower()),
        context,
        do_lower_case=do_lower_case,
    )
    try:
        (by_word,) = _read(folder, [question], "word")
    except ValueError:  # Such as an answer of spaces.
        return
    answer = by_word.orig_answer_text
    first, last = by_word.start_position, by_word.end_position
    text = " ".join(by_word.doc_tokens[first : last + 1])
    basic = tokenizer.basic_tokenizer
    if all(
        len(_occurrences(*map(tokenize, (answer, text)))) == 1
        for tokenize in (
            tokenizer.tokenize,
            lambda text: "".join(basic.tokenize(text)),
        )
    ):
        by_offset = _read(folder, [question], "offset")
        assert _labels(by_offset, tokenizer) == _labels([by_word], tokenizer)

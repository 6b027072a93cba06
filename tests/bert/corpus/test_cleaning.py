"""Text that each format removes, and splitting into sentences."""

import collections
import time

import hypothesis
import pytest
from hypothesis import strategies

from bert.corpus import cleaning


def _paragraphs(lines, counts=None):
    counts = collections.Counter() if counts is None else counts
    return list(cleaning.book_paragraphs(lines, counts))


def test_a_first_line_is_dropped_if_it_is_the_title_alone():
    counts = collections.Counter()
    for lines, title in (
        (["Tom & Jerry", "Text."], "Tom &amp; Jerry"),
        ([" Tom &amp; Jerry ", "Text."], "Tom & Jerry"),
    ):
        assert cleaning.without_title(lines, title, counts) == ["Text."]
    assert counts == {"titles": 2}
    for lines, title in (
        (["", "Text."], None),
        (["", "Text."], " "),
        (["Title", "Text."], "Title 2"),
        ([], "Title"),
    ):
        assert cleaning.without_title(lines, title, counts) == lines
    assert counts == {"titles": 2}


def _wiki(*lines):
    counts = collections.Counter()
    paragraphs = list(cleaning.wiki_paragraphs(lines, counts))
    assert all(text == text.strip() for text in paragraphs)
    return [" ".join(text.split()) for text in paragraphs], counts


def test_tags_separate_words_and_hide_no_markup_that_is_left():
    assert _wiki(
        "<b>One</b>two<br>three &lt;i&gt;",
        " <small> | a cell </small>",
        "<p></p>",
        " AT&amp;T <br>and <ref name='a'>x</ref> y",
    ) == (
        ["One two three", "AT&T and x y"],
        {
            "tags": 11,
            "paragraphs of left-over markup": 1,
            "paragraphs without text": 1,
        },
    )
    for text in ("1 < 2 and 3 > 2", "x<y and y>z", "a <b, c and d> e"):
        escaped = text.replace("<", "&lt;").replace(">", "&gt;")
        assert _wiki(text)[0] == _wiki(escaped)[0] == [text]
    for tag in ('<span style="a">', "<ref name=a />", "</div >", "<br />"):
        assert _wiki(f"A {tag}b")[0] == ["A b"]


def test_lines_join_to_paragraphs_at_empty_lines():
    lines = ["It was", "late.", "", " ", "He", "left."]
    assert _paragraphs(lines) == ["It was late.", "He left."]
    assert _paragraphs([]) == _paragraphs(["", " "]) == []


def test_one_mark_of_a_license_cuts_its_side_only():
    start = "***START OF THIS PROJECT GUTENBERG EBOOK EMMA***"
    end = "*** END OF THIS PROJECT GUTENBERG EBOOK EMMA ***"
    assert _paragraphs(["x", start, "Emma."]) == ["Emma."]
    assert _paragraphs(["Emma.", end, "x"]) == ["Emma."]
    # Some licenses repeat the last mark.
    assert _paragraphs(["Emma.", end, "x", "", end, "x"]) == ["Emma."]


def test_short_line_that_ends_a_sentence_ends_its_paragraph():
    lines = [
        "It was a long line that fills the width of the page",
        "and then ended.",
        '"Who is there?" he said, to nobody in the empty room',
        "of the house.",
    ]
    assert _paragraphs(lines) == [
        " ".join(lines[:2]),
        " ".join(lines[2:]),
    ]


# The page is 20 wide: there was room for a space and a word of four letters.
@pytest.mark.parametrize(
    ("next_line", "num_paragraphs"),
    [("Then it all ended ok", 2), ("There it ended in it", 1)],
)
def test_word_that_just_fits_begins_a_paragraph(next_line, num_paragraphs):
    lines = ["It was so good.", next_line]
    assert [len(line) for line in lines] == [15, 20]
    assert len(_paragraphs(lines)) == num_paragraphs


def test_a_few_longer_lines_do_not_make_a_page_wider():
    # A table has the longest line. The next word had no room.
    lines = [*["Words that fill a line"] * 98, "A line that ends here."]
    assert len(_paragraphs([*lines, "Next it goes on", "x" * 60])) == 1
    # A short line ends a paragraph.
    lines[-1] = "It ends here."
    assert len(_paragraphs([*lines, "Next it goes on", "x" * 60])) == 2


@pytest.mark.parametrize(("num_lines", "is_mark"), [(4, True), (5, False)])
def test_a_mark_of_a_license_spans_up_to_four_lines(num_lines, is_mark):
    lines = ["License.", "*** START OF THE PROJECT GUTENBERG EBOOK OF"]
    lines += ["a long"] * (num_lines - 2) + ["title ***", "", "Text."]
    paragraphs = _paragraphs(lines)
    assert (paragraphs == ["Text."]) == is_mark
    assert paragraphs[-1] == "Text."
    assert "License." not in paragraphs


def test_a_mark_of_a_license_that_never_closes_is_one_line():
    mark = "*** START OF THE PROJECT GUTENBERG EBOOK EMMA"
    assert _paragraphs(["x", mark, "Emma.", *["", "One."] * 3]) == [
        *("Emma.", "One.", "One.", "One.")
    ]


def test_a_paragraph_goes_on_where_the_next_word_had_no_room():
    lines = ["This line ends in a full stop here.", "Next it goes on with it."]
    assert _paragraphs(lines) == [" ".join(lines)]
    # An indented line begins another.
    lines = ["This line fills the width of a page.", "  And this begins one."]
    assert _paragraphs(lines) == [line.strip() for line in lines]


def test_lines_of_verse_stay_in_one_paragraph():
    lines = ["  The curfew tolls", "  the knell of parting day", "  and so on."]
    assert len(_paragraphs(lines)) == 1


def test_form_feed_and_lone_carriage_return_end_lines():
    assert _paragraphs(["one\ftwo\rthree"]) == ["one two three"]


def test_license_is_cut_around_each_book_of_a_file_and_counted():
    start = "*** START OF THE PROJECT GUTENBERG EBOOK {} ***"
    end = "*** END OF THE PROJECT GUTENBERG EBOOK {} ***"
    lines = []
    for title in ("EMMA", "PERSUASION"):
        lines += ["About it.", "", start.format(f"{title}, A VERY LONG")[:-4]]
        lines += ["TITLE INDEED ***", f"Text of {title}."]
        lines += ["", end.format(title), "License.", ""]
    counts = collections.Counter()
    assert _paragraphs(lines, counts) == [
        "Text of EMMA.",
        "Text of PERSUASION.",
    ]
    assert counts["lines of a license"] == 10


@pytest.mark.parametrize("end", ["。", "।", "؟", "۔", "።", "！」", "។", "།"])
def test_marks_of_other_scripts_end_sentences(end):
    lines = ["x" * 30 + end, "  y" + "z" * 30, "and on."]
    assert _paragraphs(lines) == [lines[0], f"{lines[1].strip()} and on."]


def test_time_grows_with_the_length_of_a_book_without_full_stops():
    seconds = []
    for num_lines in (20_000, 80_000):
        start = time.process_time()
        (paragraph,) = _paragraphs(["a line without an end"] * num_lines)
        seconds.append(time.process_time() - start)
        assert len(paragraph) == 22 * num_lines - 1
    assert seconds[1] < 10 * max(seconds[0], 0.02)


@pytest.mark.parametrize(
    ("language", "paragraph", "expected"),
    [
        (
            "en",
            "Mr. Smith met Dr. J. R. Brown at 5 p.m. They spoke, e.g. of the "
            "U.S. budget.\nIt cost $3.50.",
            [
                "Mr. Smith met Dr. J. R. Brown at 5 p.m.",
                "They spoke, e.g. of the U.S. budget.",
                "It cost $3.50.",
            ],
        ),
        ("en", '"Really?" she said. "Yes!"', ['"Really?" she said.', '"Yes!"']),
        (
            "de",
            "Das ist z.B. so. Am 3. Mai.",
            ["Das ist z.B. so.", "Am 3. Mai."],
        ),
        ("zh", "他说。然后走了！", ["他说。", "然后走了！"]),
        ("hi", "वह गया।वह आया। अंत॥", ["वह गया।", "वह आया।", "अंत॥"]),
        ("ar", "هل ذهبت؟ نعم ذهبت.", ["هل ذهبت؟", "نعم ذهبت."]),
        ("ur", "وہ گیا۔ وہ آیا۔", ["وہ گیا۔", "وہ آیا۔"]),
        ("am", "ሄደ። መጣ፧ አዎ", ["ሄደ።", "መጣ፧", "አዎ"]),
        ("km", "ទៅ។ មក៕ «បាទ។» ទៅ", ["ទៅ។", "មក៕", "«បាទ។»", "ទៅ"]),
        ("bo", "བོད། ། ཡིག། ཡིག།", ["བོད། །", "ཡིག།", "ཡིག།"]),
        ("en", "It is སེང་གེ།་གཙང in Tibetan.", ["It is སེང་གེ།་གཙང in Tibetan."]),
        ("en", "", []),
        ("en", " \u00a0\n ", []),
        ("en", "no end", ["no end"]),
        ("en", " a \t\u2028 b\u00a0c. ", ["a b c."]),
    ],
)
def test_splits_at_the_ends_of_sentences(language, paragraph, expected):
    assert cleaning.split_paragraph(paragraph, language) == expected


def test_sentences_of_a_long_quotation_are_split_before_opening_marks():
    middle = ["He came in and sat down."] * 25
    end = ["(He stood up.", "He left.)", 'He sat."', "Then no more."]
    sentences = ['"Come in.', *middle, *end]
    assert cleaning.split_paragraph(" ".join(sentences), "en") == sentences


@hypothesis.given(
    strategies.text(alphabet="aB. !?\"'“”()\n\u00a0é。།។।", max_size=1500)
)
def test_words_and_their_order_are_kept(paragraph):
    split = cleaning.split_paragraph(paragraph, "en")
    assert "".join("".join(split).split()) == "".join(paragraph.split())
    assert all(s and s == " ".join(s.split()) for s in split)


@pytest.mark.parametrize("end", ".!?:…‼։؟।。！？｡﹗")
def test_every_mark_that_ends_a_line_ends_a_sentence(end):
    assert cleaning.ends_sentence(f"ab{end}»")
    if end not in ":…":  # They may stand within a sentence.
        expected = [f"ab cd{end}", "ef gh"]
        assert cleaning.split_paragraph(" ".join(expected), "en") == expected
    assert not cleaning.ends_sentence(f"ab{end}c")
    assert not cleaning.ends_sentence("")


def test_time_grows_with_the_length_of_a_text_without_ends():
    seconds = []
    for length in (20_000, 640_000):
        text = "word " * length
        start = time.process_time()
        assert cleaning.split_paragraph(text, "en") == [text.strip()]
        seconds.append(time.process_time() - start)
    # 32 times the text; at its square, it would be a thousand times the time.
    assert seconds[1] < 200 * max(seconds[0], 0.001)


_SENTENCES = {
    "Chinese": "望月桥是一座三孔石拱桥，全长四十二米。",
    "Japanese": "この橋は村の石工によって二年で建てられた。",
    "Thai": "สะพานนี้สร้างโดยช่างหินของหมู่บ้านภายในสองปี",
    "Lao": "ຂົວນີ້ສ້າງໂດຍຊ່າງຫີນຂອງບ້ານພາຍໃນສອງປີ",
    "Khmer": "ស្ពាននេះត្រូវបានសាងសង់ដោយជាងថ្មក្នុងភូមិ។",
    "Burmese": "ဤတံတားကို ရွာမှ ပန်းရန်ဆရာများက နှစ်နှစ်အတွင်း ဆောက်ခဲ့သည်။",
    "Tibetan": "ཟམ་པ་འདི་གྲོང་པའི་རྡོ་བཟོ་བས་ལོ་གཉིས་ནང་བརྒྱབ་པ་རེད།",
    "Korean": "이 다리는 마을의 석공들이 이 년 만에 지었다고 합니다.",
    "English": "The masons of the village built this bridge.",
    "mixed": "夜间节目介绍 The Beatles 、 Pink Floyd 等乐队的歌曲。",
    "compounds": "Donaudampfschifffahrtsgesellschaft und Elbschlepper",
}
_HEADINGS = {
    "Chinese": "参考文献",
    "Japanese": "ギャラリーと参考文献",
    "Thai": "อ้างอิงและแหล่งข้อมูลอื่น",
    "Lao": "ແຫຼ່ງຂໍ້ມູນອື່ນ",
    "Khmer": "ឯកសារយោង",
    "Burmese": "ပြင်ပလင့်ခ်များ",
    "Korean": "같이 보기",
    "English": "Stone bridges of the eighteenth century",
    "mixed": "The Beatles 的唱片目录",
    "numbers": "1901-1902-1903-1904-1905, 1906-1907-1908 (1909)",
}


@pytest.mark.parametrize("script", _SENTENCES)
def test_sentence_of_any_script_is_not_short(script):
    assert not cleaning.is_short(_SENTENCES[script], 8)


@pytest.mark.parametrize("script", _HEADINGS)
def test_heading_of_any_script_is_short(script):
    assert cleaning.is_short(_HEADINGS[script], 8)


@pytest.mark.parametrize("text", ["", "1.", "a", "字"])
def test_nothing_is_short_without_a_limit(text):
    assert not cleaning.is_short(text, 0)


def test_short_paragraph_has_no_more_letters_than_short_english():
    # Two words of five letters.
    assert cleaning.is_short("a" * 10, 3)
    assert not cleaning.is_short("a" * 11, 3)
    assert not cleaning.is_short("a b c", 3)
    assert cleaning.is_short("字" * 3, 3)
    assert not cleaning.is_short("字" * 4, 3)
    assert cleaning.is_short("か" * 5, 3)
    assert not cleaning.is_short("か" * 6, 3)

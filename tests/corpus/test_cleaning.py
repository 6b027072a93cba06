"""Text that each format removes, and its counts."""

import time

import pytest

from corpus import cleaning


def _paragraphs(lines, counts=None):
    counts = counts or cleaning.Counts()
    return list(cleaning.book_paragraphs(lines, counts))


def test_lines_join_to_paragraphs_at_empty_lines():
    lines = ["It was", "late.", "", " ", "He", "left."]
    assert _paragraphs(lines) == ["It was late.", "He left."]


def test_no_lines_are_no_paragraphs():
    assert _paragraphs([]) == []
    assert _paragraphs(["", " "]) == []


def test_license_is_cut_at_its_marks():
    lines = [
        "Title: Emma",
        "*** START OF THE PROJECT GUTENBERG EBOOK EMMA, A VERY LONG",
        "TITLE INDEED ***",
        "Emma was handsome.",
        "*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***",
        "License.",
    ]
    assert _paragraphs(lines) == ["Emma was handsome."]


def test_one_mark_cuts_its_side_only():
    start = "***START OF THIS PROJECT GUTENBERG EBOOK EMMA***"
    end = "*** END OF THIS PROJECT GUTENBERG EBOOK EMMA ***"
    assert _paragraphs(["x", start, "Emma."]) == ["Emma."]
    assert _paragraphs(["Emma.", end, "x"]) == ["Emma."]


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


def test_line_without_room_for_the_next_word_goes_on():
    lines = ["This line ends in a full stop here.", "Next it goes on with it."]
    assert _paragraphs(lines) == [" ".join(lines)]


def test_indented_line_after_a_sentence_begins_a_paragraph():
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
        lines += ["About it.", "", start.format(title), f"Text of {title}."]
        lines += ["", end.format(title), "License.", ""]
    counts = cleaning.Counts()
    assert _paragraphs(lines, counts) == [
        "Text of EMMA.",
        "Text of PERSUASION.",
    ]
    assert counts.license_lines == 8


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

"""Hard-wrapped lines of books."""

from corpus import books


def test_lines_join_to_paragraphs_at_empty_lines():
    lines = ["It was", "late.", "", " ", "He", "left."]
    assert books.paragraphs(lines) == ["It was late.", "He left."]


def test_no_lines_are_no_paragraphs():
    assert books.paragraphs([]) == []
    assert books.paragraphs(["", " "]) == []


def test_licence_is_cut_at_its_marks():
    lines = [
        "Title: Emma",
        "*** START OF THE PROJECT GUTENBERG EBOOK EMMA, A VERY LONG",
        "TITLE INDEED ***",
        "Emma was handsome.",
        "*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***",
        "Licence.",
    ]
    assert books.paragraphs(lines) == ["Emma was handsome."]


def test_one_mark_cuts_its_side_only():
    start = "***START OF THIS PROJECT GUTENBERG EBOOK EMMA***"
    end = "*** END OF THIS PROJECT GUTENBERG EBOOK EMMA ***"
    assert books.paragraphs(["x", start, "Emma."]) == ["Emma."]
    assert books.paragraphs(["Emma.", end, "x"]) == ["Emma."]


def test_short_line_that_ends_a_sentence_ends_its_paragraph():
    lines = [
        "It was a long line that fills the width of the page",
        "and then ended.",
        '"Who is there?" he said, to nobody in the empty room',
        "of the house.",
    ]
    assert books.paragraphs(lines) == [
        " ".join(lines[:2]),
        " ".join(lines[2:]),
    ]


def test_line_without_room_for_the_next_word_goes_on():
    lines = ["This line ends in a full stop here.", "Next it goes on with it."]
    assert books.paragraphs(lines) == [" ".join(lines)]


def test_indented_line_after_a_sentence_begins_a_paragraph():
    lines = ["This line fills the width of a page.", "  And this begins one."]
    assert books.paragraphs(lines) == [line.strip() for line in lines]


def test_verse_is_not_torn_where_no_sentence_ends():
    lines = ["  The curfew tolls", "  the knell of parting day", "  and so on."]
    assert len(books.paragraphs(lines)) == 1


def test_form_feed_and_lone_carriage_return_end_lines():
    assert books.paragraphs(["one\ftwo\rthree"]) == ["one two three"]

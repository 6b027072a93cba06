"""The prose in wiki markup."""

import collections
import time

import pytest

from bert.corpus import mediawiki


def _paragraphs(markup):
    return list(mediawiki.paragraphs(markup.split("\n"), collections.Counter()))


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("'''Moss''' is ''green''.", "Moss is green."),
        ("A [[Moss]] and a [[Fern (plant)|fern]].", "A Moss and a fern."),
        ("A [[:Category:Moss]] a.", "A Category:Moss a."),
        ('It<ref name=x>A [[b]].</ref> grows.<ref name="y" />', "It grows."),
        ("Moss ({{lang|la|muscus}}; old) is.", "Moss (old) is."),
        ("Moss ({{lang|la|muscus}}) is.", "Moss is."),
        ("Moss (old: {{IPA|x}}, {{IPA|y}}) is.", "Moss (old) is."),
        ("A&nbsp;b &amp; c &lt; d.", "A b & c < d."),
        ("[http://x the site] and [http://y].", "the site and ."),
        ("One<br />two. <!-- no -->__NOTOC__", "One two."),
        (
            "The <small>little</small> <nowiki>[[x]]</nowiki>.",
            "The little [[x]].",
        ),
        ("One <math>x^2</math>two.", "One two."),
        ("Of [[Star Wars: Episode IV|it]].", "Of it."),
        ("One\nline.", "One line."),
        ("The ''Iliad'''s end.", "The Iliad's end."),
        ("'''Moss''' in l'''Avenir''.", "Moss in l'Avenir."),
        ("''A'', [[A|''B'']]'s, [[A|''C'']]'s.", "A, B's, C's."),
        ("''A'' of '''''B''''' of '''C'''.", "A of B of C."),
        # Only an odd number of both has an apostrophe.
        ("'''A''' b'''c.", "A bc."),
        ("''A'' b''c.", "A bc."),
        ("''A'''s b'''c''' d.", "A's bc d."),
        # Languages have names of two or three small letters.
        ("A [[on writing: A|book]] of [[als:Moos]]it.", "A book of it."),
    ],
)
def test_paragraph_reads_as_on_its_page(markup, text):
    assert _paragraphs(markup) == [text]


@pytest.mark.parametrize(
    "markup",
    [
        "== Head ==",
        "* an item\n** another\n# a third\n: indented\n; term : what it is",
        "{| class=x\n! a\n|-\n| b || [[c]]\n|}",
        "<table><tr><td>a</td></tr></table><ul><li>a</li></ul>",
        "{{Infobox|a={{b}}|c=[[d]]}}",
        "[[File:x.jpg|thumb|A [[moss]] in\nthe woods]]",
        "[[image:x.jpg]] [[Category:Moss]] [[de:Moos]]",
        "[[Bild:x.jpg|mini|hochkant|Ein Moos]]",
        "<gallery>\nFile:x.jpg|A moss\n</gallery>",
    ],
)
def test_lists_tables_headers_and_pictures_are_left_out(markup):
    assert _paragraphs(f"One.\n\n{markup}\n\nTwo.") == ["One.", "Two."]


def test_header_and_quotation_end_a_paragraph():
    markup = "One.\n== A ==\nTwo.\n<blockquote>Three.</blockquote>Four."
    assert _paragraphs(markup) == ["One.", "Two.", "Three.", "Four."]


@pytest.mark.parametrize(
    "markup",
    [
        "{{a|''b}}",
        "<ref>{{cite|''b|c}}</ref>",
        "{|\n| '''b\n|-\n| c\n|}",
        "<ref>''b</ref>",
    ],
)
def test_italics_left_open_in_a_note_or_table_end_there(markup):
    page = f"One ''two'' three.\n\n{markup}\n\nFour ''five'' six."
    assert _paragraphs(page) == ["One two three.", "Four five six."]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("opening", ["{{", "[[", "<ref>", "'''", "{|\n"])
def test_markup_that_is_never_closed_ends(opening):
    assert "One." in " ".join(_paragraphs(f"One.\n\n{opening * 200}"))


def test_long_runs_of_separators_take_linear_time():
    begun = time.process_time()
    assert _paragraphs("One" + " ;" * 30_000 + "x") == [
        "One" + " ;" * 30_000 + "x"
    ]
    assert time.process_time() - begun < 1

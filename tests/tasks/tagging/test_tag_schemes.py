import dataclasses

import hypothesis
import pytest
from hypothesis import strategies

from tasks.tagging import conll, entities, tag_schemes


@pytest.mark.parametrize(
    ("scheme", "tags", "iob2"),
    [
        # Two entities of a type side by side, and one that follows another.
        ("iob", "I-A I-A B-A O I-B", "B-A I-A B-A O B-B"),
        ("iob", "I-A I-B B-B", "B-A B-B B-B"),
        ("iob", "B-A I-A B-A O B-B", "B-A I-A B-A O B-B"),
        ("iob", "I-A I-A O I-B I-A", "B-A I-A O B-B B-A"),
        ("iob", "B-A I-A E-A S-A S-A O", "B-A I-A I-A B-A B-A O"),
        ("iob", "B-A E-A B-A E-A", "B-A I-A B-A I-A"),
        ("iob", "B-A I-A L-A U-A U-B", "B-A I-A I-A B-A B-B"),
        ("iob", "B-A M-A E-A W-A O", "B-A I-A I-A B-A O"),
        ("iob", "B-A M-A E-A S-A", "B-A I-A I-A B-A"),
        ("raw", "A A O B A", "B-A I-A O B-B B-A"),
        # Penn tags of brackets begin and end with a hyphen.
        ("raw", "-LRB- NN NN -RRB-", "B--LRB- B-NN I-NN B--RRB-"),
        ("raw", "- -- B-", "B-- B--- B-B-"),
        ("raw", "B_A I_A", "B-B_A B-I_A"),
        # Underscores in place of hyphens.
        ("iob", "B_A I_A B_B-C I_B-C", "B-A I-A B-B-C I-B-C"),
        ("iob", "B_A E-A S_B_C", "B-A I-A B-B_C"),
        # Without types.
        ("iob", "B I O B", "B I O B"),
        # Ill-formed: an end, or an inside, without a beginning.
        ("iob", "O I-A I-B", "O B-A B-B"),
        ("iob", "E-A E-A I-A O", "B-A B-A B-A O"),
        ("iob", "U-A I-A L-A L-A", "B-A B-A I-A B-A"),
        # Types may hold hyphens.
        ("iob", "B-a-b I-a-b", "B-a-b I-a-b"),
    ],
)
def test_conversion_by_hand(scheme, tags, iob2):
    assert tag_schemes.to_iob2(tags.split(), scheme) == tuple(iob2.split())


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O B-A I-A", "iob"),
        ("I-A", "iob"),
        ("B-A E-A S-A O", "iob"),
        ("B_A I_A-B E_A S_A_B", "iob"),
        ("PER LOC O", "raw"),
        ("O", "raw"),
        # Letters without types are no scheme.
        ("I E O", "raw"),
        ("S M", "raw"),
        ("B I O", "raw"),
        ("NN -LRB-", "raw"),
    ],
)
def test_detected_scheme(tags, scheme):
    assert tag_schemes.detect(_file(tags)) == scheme


def test_tags_of_two_kinds_are_refused():
    for tags in ("B-A X-A", "B-A NN", "B_A Q_A"):
        with pytest.raises(ValueError, match=r"f.txt: all tags .*--scheme=raw"):
            tag_schemes.detect(_file(tags))
    # A tag of any length makes no long message.
    with pytest.raises(ValueError, match="all tags but O") as caught:
        tag_schemes.detect(_file("B-PER O" + "x" * 100_000))
    assert len(str(caught.value)) < 500


def test_labels_have_both_letters_of_every_type():
    found = tag_schemes.labels_of([("O", "B-Z"), ("B-A", "I-A")])
    assert found == ("O", "B-A", "I-A", "B-Z", "I-Z")


def _file(*sentences):
    return conll.ColumnFile(
        path="f.txt",
        has_documents=True,
        sentences=tuple(
            conll.Sentence(
                words=tuple("wxyz"[: len(tags.split())]),
                tags=tuple(tags.split()),
                lines=tuple(range(7, 7 + len(tags.split()))),
                document=1,
            )
            for tags in sentences
        ),
    )


def test_wrong_tag_names_file_and_line():
    file = _file("S-A B-A E-A", "B-A I-A E-A")
    assert tag_schemes.convert_file(file, "iob").tags == [
        ("B-A", "B-A", "I-A"),
        ("B-A", "I-A", "I-A"),
    ]
    for tag in ("B-", "B_", "Q-A", "NN"):
        with pytest.raises(ValueError, match=f"f.txt, line 7: '{tag}' is not"):
            tag_schemes.convert_file(_file(f"{tag} I-A"), "iob")
    message = r"f.txt, line 9: the tag 'I-C' of 'y' .*O, B-A, I-A"
    with pytest.raises(ValueError, match=message):
        tag_schemes.convert_file(_file("O I-A I-C"), "iob", ("O", "B-A", "I-A"))
    sentence = conll.Sentence(words=("a",), tags=None, lines=(1,), document=1)
    file = dataclasses.replace(_file(), sentences=(sentence,))
    with pytest.raises(ValueError, match=r"f.txt: must have a column of tags"):
        tag_schemes.convert_file(file, "iob")


_tags = strategies.lists(
    strategies.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "B", "I"]),
    max_size=9,
)


@hypothesis.given(_tags)
def test_conversion_keeps_the_entities_and_is_well_formed(tags):
    converted = tag_schemes.to_iob2(tags)
    assert list(entities.find_entities(converted)) == list(
        entities.find_entities(tags)
    )
    assert tag_schemes.to_iob2(converted) == converted
    previous = "O"
    for tag in converted:
        if tag.startswith("I"):
            assert previous[1:] == tag[1:] and previous != "O"
        previous = tag


def _iobes(tags):
    """Writes well-formed IOB2 tags as IOBES."""
    for tag, after in zip(tags, [*tags, "O"][1:], strict=True):
        goes_on = after.startswith("I")
        letter = {"B": "BS", "I": "IE", "O": "OO"}[tag[0]][not goes_on]
        yield letter + tag[1:]


@hypothesis.given(_tags)
def test_iobes_comes_back(tags):
    iob2 = tag_schemes.to_iob2(tags)
    assert tag_schemes.to_iob2(list(_iobes(iob2))) == iob2

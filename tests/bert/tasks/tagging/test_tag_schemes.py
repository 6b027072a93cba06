import logging

import hypothesis
import pytest
from hypothesis import strategies

from bert.tasks.tagging import entities, tag_schemes, tagger_labels


def _decide(tags):
    return tag_schemes.decide(set(tags.split()), source="f.txt")


def _iob2(tags, scheme="iob"):
    return " ".join(tag_schemes.to_iob2(tags.split(), scheme))


@pytest.mark.parametrize(
    ("tags", "iob2"),
    [
        # Two entities of a type side by side, and one that follows another.
        ("I-A I-A B-A O I-B", "B-A I-A B-A O B-B"),
        ("I-A I-B B-B", "B-A B-B B-B"),
        ("B-A I-A B-A O B-B", "B-A I-A B-A O B-B"),
        ("I-A I-A O I-B I-A", "B-A I-A O B-B B-A"),
        ("B-A I-A E-A S-A S-A O", "B-A I-A I-A B-A B-A O"),
        ("B-A E-A B-A E-A", "B-A I-A B-A I-A"),
        ("B-A I-A L-A U-A U-B", "B-A I-A I-A B-A B-B"),
        ("B-A M-A E-A W-A O", "B-A I-A I-A B-A O"),
        ("B-A M-A E-A S-A", "B-A I-A I-A B-A"),
        # Underscores in place of hyphens; types may hold both.
        ("B_A I_A B_B-C I_B-C", "B-A I-A B-B-C I-B-C"),
        ("B_A E-A S_B_C", "B-A I-A B-B_C"),
        ("B-a-b I-a-b", "B-a-b I-a-b"),
        ("B-WORK_OF_ART I-WORK_OF_ART", "B-WORK_OF_ART I-WORK_OF_ART"),
        ("O B-O-RING I-O-RING", "O B-O-RING I-O-RING"),
        # Types whose names are letters of schemes.
        ("B-S I-S S-S", "B-S I-S B-S"),
        ("B-L I-L B-E I-E", "B-L I-L B-E I-E"),
        ("B-B I-B B-I I-I", "B-B I-B B-I I-I"),
        # Without types.
        ("B I I O B B I", "B I I O B B I"),
        ("O I I O I", "O B I O B"),
        ("B I E S O", "B I I B O"),
        ("B I L U U", "B I I B B"),
        ("B E S B M E", "B I B B I I"),
        ("B M E W", "B I I B"),
        ("O I E", "O B I"),
        # Ill-formed: an end, or an inside, without a beginning.
        ("O I-A I-B", "O B-A B-B"),
        ("E-A E-A I-A O", "B-A B-A B-A O"),
        ("U-A I-A L-A L-A", "B-A B-A I-A B-A"),
        # A word alone within an entity ends it, and nothing continues it.
        ("B-A S-A I-A E-A", "B-A B-A B-A I-A"),
        ("B-A U-A I-A L-A", "B-A B-A B-A I-A"),
        ("B-A W-A M-A E-A", "B-A B-A B-A I-A"),
        # Signs for no entity.
        ("B-A 0 I-A", "B-A O B-A"),
        ("B-A _ - NONE None", "B-A O O O O"),
    ],
)
def test_letters_of_a_scheme_are_converted_to_iob2(tags, iob2):
    assert _decide(tags) == "iob"
    assert _iob2(tags) == iob2


@pytest.mark.parametrize(
    ("tags", "iob2"),
    [
        ("A A O B A", "B-A I-A O B-B B-A"),
        ("O S M", "O B-S B-M"),
        ("B A O", "B-B B-A O"),
        ("O-RING O PER", "B-O-RING O B-PER"),
        ("O O", "O O"),
        # A dev file may have signs that the training file lacks.
        ("O PER 0 -", "O B-PER O O"),
    ],
)
def test_types_beside_o_are_entities(tags, iob2):
    assert _decide(tags) == "raw"
    assert _iob2(tags, "raw") == iob2


@pytest.mark.parametrize(
    "tags",
    [
        "DET NOUN NOUN VERB X PUNCT",
        "NN NNP -LRB- , . : PRP$ `` # $",
        "B A C",
        "A",
        "12 4 7",
    ],
)
def test_tags_without_o_are_of_single_words(tags):
    assert _decide(tags) == "words"
    for tag in tags.split():
        assert tag_schemes.split(tag, "words") == ("I", tag)


@pytest.mark.parametrize(
    ("tags", "shown"),
    [
        # Of several schemes, or only some with a letter.
        ("B-A X-A", "'X-A' beside 'B-A'"),
        ("B-A NN O", "'NN' beside 'B-A'"),
        ("O O-A B-A", "'O-A' beside 'B-A'"),
        ("B-A L-A E-A", "'B-A', 'E-A', 'L-A'"),
        ("B-A i-A", "'i-A' beside 'B-A'"),
        ("O B-A I-A X [CLS] [PAD]", "'X', '[CLS]', '[PAD]' beside"),
        # In forms that are not read.
        ("O PER-B PER-I", "'PER-B', 'PER-I'"),
        ("O b-per i-per", "'b-per', 'i-per'"),
        ("PER_B O", "'PER_B'"),
        ("B:PER I:PER O", "'B:PER', 'I:PER'"),
        ("HEPATITIS_B HEPATITIS_C O", "'HEPATITIS_B', 'HEPATITIS_C'"),
        ("E-MAIL S-BAHN O", "'E-MAIL', 'S-BAHN'"),
    ],
)
def test_tags_of_several_schemes_or_forms_are_refused(tags, shown):
    with pytest.raises(ValueError, match=r"f.txt: every tag but O") as caught:
        _decide(tags)
    assert f"got {shown}" in str(caught.value)
    for scheme in ("iob", "raw", "words"):
        assert f"--scheme={scheme} " in str(caught.value)


def test_a_letter_apart_from_its_type_is_refused():
    with pytest.raises(ValueError, match="'B PER', 'I PER'"):
        tag_schemes.decide({"B PER", "I PER", "O"}, source="f.txt")


@pytest.mark.parametrize("sign", ["0", "o", "_", "-", "NONE"])
def test_a_sign_that_may_be_a_tag_is_refused(sign):
    with pytest.raises(ValueError, match=f"'{sign}' may stand for no entity"):
        _decide(f"PER LOC {sign}")


def test_messages_stay_short():
    with pytest.raises(ValueError, match="every tag but O") as caught:
        _decide("B-PER O" + "x" * 100_000)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        ("B I O", "the tags ('O', 'B', 'I') are letters of words of entities"),
        ("PER O", "are types; each run of equal tags is an entity (--scheme="),
        ("NN VB", "labels of single words, as none is O (--scheme=words)."),
    ],
)
def test_decision_is_one_line_of_the_log(tags, line, caplog):
    with caplog.at_level(logging.INFO):
        _decide(tags)
    (record,) = caplog.records
    assert line in record.message
    assert record.message.startswith("f.txt: ")


@pytest.mark.parametrize("tag", ["B-", "B_", "Q-A", "NN", "PER-B", "b-PER"])
def test_a_tag_of_another_scheme_is_named(tag):
    with pytest.raises(ValueError, match=f"'{tag}' is not a tag of --scheme="):
        tag_schemes.to_iob2(["I-A", tag])


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


@hypothesis.given(
    strategies.sets(
        strategies.text(alphabet="BISEo-_0XaPER[]", max_size=4), min_size=1
    )
)
def test_labels_of_our_models_are_iob2(types):
    tags = [tag_schemes.join("B", kind) for kind in types]
    names = tagger_labels.of_tags([tags], "iob").names
    assert tag_schemes.decide(names, source="f.txt") == "iob"
    assert tag_schemes.to_iob2(tags) == tuple(tags)

import dataclasses
import logging

import hypothesis
import pytest
from hypothesis import strategies

from bert.tasks.tagging import conll, entities, tag_schemes, tagger_labels


def _decide(tags, scheme="auto"):
    return tag_schemes.decide(tags.split(), scheme, source="f.txt")


def _iob2(tags, scheme="auto"):
    """Converts tags in the scheme that they show."""
    return " ".join(_decide(tags, scheme).to_iob2(tags.split()))


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
        # Letters after the type, and small ones.
        ("PER-B PER-I O LOC-B", "B-PER I-PER O B-LOC"),
        ("A_B_B A_B_I B_B", "B-A_B I-A_B B-B"),
        ("PER_S LOC_B LOC_E", "B-PER B-LOC I-LOC"),
        ("LOC-I PER-I PER-I", "B-LOC B-PER I-PER"),
        ("o b-per i-per b-loc", "O B-per I-per B-loc"),
        ("b_per i_per O", "B-per I-per O"),
        ("per-b per-i o", "B-per I-per O"),
        ("b-a e-a s-a O", "B-a I-a B-a O"),
        ("o b-a", "O B-a"),
        # Types whose names are letters of schemes.
        ("B-S I-S S-S", "B-S I-S B-S"),
        ("S-B S-I O", "B-S I-S O"),
        ("B-L I-L B-E I-E", "B-L I-L B-E I-E"),
        ("B-B I-B B-I I-I", "B-B I-B B-I I-I"),
        # Without types.
        ("B I I O B B I", "B I I O B B I"),
        ("O I I O I", "O B I O B"),
        ("B I E S O", "B I I B O"),
        ("B I L U U", "B I I B B"),
        ("B E S B M E", "B I B B I I"),
        ("B M E W", "B I I B"),
        ("o b i i", "O B I I"),
        ("B I S O", "B I B O"),
        ("B I M", "B-B B-I B-M"),
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
        ("B-A _ - NONE None nan", "B-A O O O O O"),
        ("PER PER 0 PER LOC", "B-PER I-PER O B-PER B-LOC"),
        ("PER _ PER", "B-PER O B-PER"),
        ("PER - LOC", "B-PER O B-LOC"),
        ("PER NONE LOC NONE", "B-PER O B-LOC O"),
        ("o per per o", "O B-per I-per O"),
        # Types, of which runs are entities.
        ("A A O B A", "B-A I-A O B-B B-A"),
        ("DET NOUN NOUN VERB", "B-DET B-NOUN I-NOUN B-VERB"),
        ("I E O", "B-I B-E O"),
        ("S M", "B-S B-M"),
        ("B A C B B", "B-B B-A B-C B-B I-B"),
        ("B E O", "B-B B-E O"),
        # An o among single letters is one of them, as in Chinese tag sets.
        ("n v o", "B-n B-v B-o"),
        # Penn tags of brackets begin and end with a hyphen.
        ("-LRB- NN NN -RRB-", "B--LRB- B-NN I-NN B--RRB-"),
        # Names that begin or end as tags do.
        ("e-mail e-mail phone O", "B-e-mail I-e-mail B-phone O"),
        ("e-mail o", "B-e-mail O"),
        ("HEPATITIS_B HEPATITIS_C", "B-HEPATITIS_B B-HEPATITIS_C"),
        ("GRADE_S GRADE_E", "B-GRADE_S B-GRADE_E"),
        ("GRADE_S CLASS_E", "B-GRADE_S B-CLASS_E"),
        ("b-flat b-sharp O", "B-b-flat B-b-sharp O"),
        ("O-RING O PER", "B-O-RING O B-PER"),
        # One tag alone.
        ("O O", "O O"),
        ("0", "O"),
        ("I-A I-A", "B-A I-A"),
        ("S-A S-A", "B-A B-A"),
        ("NOUN NOUN", "B-NOUN I-NOUN"),
        ("B B", "B B"),
        # Labels of taggers for positions that are no words.
        ("[CLS] B-A X I-A [SEP] [PAD]", "O B-A O B-A O O"),
        ("[PAD] B I O X [CLS] [SEP]", "O B I O O O O"),
    ],
)
def test_scheme_is_decided_by_the_set_of_tags(tags, iob2):
    assert _iob2(tags) == iob2


@pytest.mark.parametrize(
    ("scheme", "tags", "iob2"),
    [
        # The flag decides where the tags would say otherwise.
        ("raw", "B_A I_A", "B-B_A B-I_A"),
        ("raw", "B I I", "B-B B-I I-I"),
        ("raw", "- NN NN", "O B-NN I-NN"),
        ("raw", "O - O", "O B-- O"),
        ("iob", "I E O", "B I O"),
        ("iob", "B E B E", "B I B I"),
        ("iob", "e-mail o", "B-mail O"),
        ("iob", "HEPATITIS_B O", "B-HEPATITIS O"),
        ("iob", "S-B S-I O", "B-S I-S O"),
        ("iob", "B B-A I", "B B-A B"),
    ],
)
def test_flag_decides_the_scheme(scheme, tags, iob2):
    assert _iob2(tags, scheme) == iob2


@pytest.mark.parametrize(
    ("tags", "doubt"),
    [
        ("B O", "B may be the name of a type"),
        ("B E O", "single letters are read as names of types"),
        ("I E O", "single letters"),
        ("0 O B-A", "'0', 'O' are all read as no entity"),
        ("O 0 PER", "'0' may mean no entity"),
        ("OTHER PER", "'OTHER' may mean no entity"),
        ("E-MAIL S-BAHN", "no tag has the letter B or I, as in B-TYPE"),
        ("B-A L-A E-A", "no scheme has the letters B, E, L"),
        ("B I B-A I-A M-A", "no scheme has the letters B, I, M"),
        ("B I B-A I-A E-A", "some letters have a type and others not"),
        ("VITAMIN_B VITAMIN_E", "the last letters may be parts of names"),
        ("PER-B LOC-B", "the last letters may be parts of names"),
        ("B-B I-B B-I I-I S-B", "the letter may be before or after the type"),
        ("PER_B O", "all of the tag is read as the name of a type"),
        ("B:PER I:PER", "all of the tag is read"),
        ("b-per O", "all of the tag is read"),
        ("1 2 10 0", "numbers are read as names of types"),
        ("(PER* * *)", "brackets are read as names of types"),
    ],
)
def test_doubtful_scheme_is_a_warning_that_names_the_flag(tags, doubt, caplog):
    with caplog.at_level(logging.WARNING):
        scheme = _decide(tags).name
        (record,) = caplog.records
        assert doubt in record.message
        assert "f.txt: the scheme of the tags" in record.message
        assert "--scheme=iob" in record.message
        assert "--scheme=raw" in record.message
        caplog.clear()
        # Passed, the flag is no doubt.
        _decide(tags, scheme)
        assert not caplog.records


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        ("B I O", "tags are letters without types ('B', 'I'); outside of"),
        ("O I-A B-A", "tags are like B-TYPE ('B-A', 'I-A'); outside of"),
        ("0 A-I A-B", "TYPE-B ('A-B', 'A-I'); outside of entities: '0'."),
        ("NN VB", "types ('NN', 'VB'), each run of equal tags an entity"),
        ("NN VB", "outside of entities: none."),
    ],
)
def test_decision_is_one_line_of_the_log(tags, line, caplog):
    with caplog.at_level(logging.INFO):
        _decide(tags)
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert line in record.message


def test_tags_of_two_kinds_are_refused():
    mixed = ("B-A X-A", "B-A NN", "B_A Q_A", "A-B A-I NN", "b-A i-A C")
    for tags in (*mixed, "B-A i-A", "O O-A B-A", "B-A X O"):
        with pytest.raises(ValueError, match=r"f.txt: all tags .*--scheme=raw"):
            _decide(tags)
    # A tag of any length makes no long message.
    with pytest.raises(ValueError, match="all tags but O") as caught:
        _decide("B-PER O" + "x" * 100_000)
    assert len(str(caught.value)) < 500


def test_scheme_of_a_file_reads_the_signs_of_another():
    # A dev file may have signs that the training file lacks.
    scheme = _decide("0 PER LOC")
    assert scheme.to_iob2(["O", "PER", "0"]) == ("O", "B-PER", "O")
    scheme = _decide("O B-A")
    assert scheme.to_iob2(["0", "S-A", "none"]) == ("O", "B-A", "O")


def test_name_is_the_flag_and_the_form_is_shown():
    shown = [
        (scheme.name, str(scheme))
        for scheme in map(
            _decide, ("B-A I-A", "A-B A-I", "b-A i-A", "A", "B I")
        )
    ]
    assert shown == [
        ("iob", "B-TYPE"),
        ("iob", "TYPE-B"),
        ("iob", "b-TYPE"),
        ("raw", "TYPE"),
        ("iob", "B-TYPE"),
    ]


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
    assert tag_schemes.convert_file(file, tag_schemes.IOB2).tags == [
        ("B-A", "B-A", "I-A"),
        ("B-A", "I-A", "I-A"),
    ]
    for tag in ("B-", "B_", "Q-A", "NN"):
        message = f"f.txt, line 7: '{tag}' is not a tag of --scheme=iob"
        tags = f"{tag} I-A"
        with pytest.raises(ValueError, match=message):
            tag_schemes.convert_file(_file(tags), _decide(tags, "iob"))
    sentence = conll.Sentence(words=("a",), tags=None, lines=(1,), document=1)
    file = dataclasses.replace(_file(), sentences=(sentence,))
    with pytest.raises(ValueError, match=r"f.txt: must have a column of tags"):
        tag_schemes.convert_file(file, tag_schemes.IOB2)


_tags = strategies.lists(
    strategies.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "B", "I"]),
    max_size=9,
)


@hypothesis.given(_tags)
def test_conversion_keeps_the_entities_and_is_well_formed(tags):
    converted = tag_schemes.IOB2.to_iob2(tags)
    assert list(entities.find_entities(converted)) == list(
        entities.find_entities(tags)
    )
    assert tag_schemes.IOB2.to_iob2(converted) == converted
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
    iob2 = tag_schemes.IOB2.to_iob2(tags)
    assert tag_schemes.IOB2.to_iob2(list(_iobes(iob2))) == iob2


@hypothesis.given(
    strategies.sets(
        strategies.text(alphabet="BISEo-_0XaPER[]", max_size=4), min_size=1
    )
)
def test_labels_of_our_models_are_iob2_without_a_doubt(types):
    names = tagger_labels.of_tags(
        [[tag_schemes.join("B", kind)] for kind in types]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tag_schemes.logging, "warning", pytest.fail)
        scheme = tag_schemes.decide(names.names, source="f.txt")
    assert scheme.form == tag_schemes.IOB2.form
    for name in names.names:
        assert scheme.split(name) == tag_schemes.split(name)

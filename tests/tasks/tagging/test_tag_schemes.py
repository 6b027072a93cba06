import hypothesis
import pytest
from hypothesis import strategies

from tasks.tagging import conll, entities, tag_schemes


@pytest.mark.parametrize(
    ("scheme", "tags", "iob2"),
    [
        # Two entities of a type side by side, and one that follows another.
        ("iob1", "I-A I-A B-A O I-B", "B-A I-A B-A O B-B"),
        ("iob1", "I-A I-B B-B", "B-A B-B B-B"),
        ("iob2", "B-A I-A B-A O B-B", "B-A I-A B-A O B-B"),
        ("io", "I-A I-A O I-B I-A", "B-A I-A O B-B B-A"),
        ("iobes", "B-A I-A E-A S-A S-A O", "B-A I-A I-A B-A B-A O"),
        ("bioes", "B-A E-A B-A E-A", "B-A I-A B-A I-A"),
        ("bilou", "B-A I-A L-A U-A U-B", "B-A I-A I-A B-A B-B"),
        ("bmewo", "B-A M-A E-A W-A O", "B-A I-A I-A B-A O"),
        ("bmeso", "B-A M-A E-A S-A", "B-A I-A I-A B-A"),
        ("raw", "A A O B A", "B-A I-A O B-B B-A"),
        # Penn tags of brackets begin and end with a hyphen.
        ("raw", "-LRB- NN NN -RRB-", "B--LRB- B-NN I-NN B--RRB-"),
        ("raw", "- -- B-", "B-- B--- B-B-"),
        ("raw", "B_A I_A", "B-B_A B-I_A"),
        # Underscores in place of hyphens.
        ("iob2", "B_A I_A B_B-C I_B-C", "B-A I-A B-B-C I-B-C"),
        ("iobes", "B_A E-A S_B_C", "B-A I-A B-B_C"),
        # Without types.
        ("iob2", "B I O B", "B I O B"),
        # Ill-formed: an end, or an inside, without a beginning.
        ("iob2", "O I-A I-B", "O B-A B-B"),
        ("iobes", "E-A E-A I-A O", "B-A B-A B-A O"),
        ("bilou", "U-A I-A L-A L-A", "B-A B-A I-A B-A"),
        # Types may hold hyphens.
        ("iob2", "B-a-b I-a-b", "B-a-b I-a-b"),
    ],
)
def test_conversion_by_hand(scheme, tags, iob2):
    assert tag_schemes.to_iob2(tags.split(), scheme) == tuple(iob2.split())


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("", "iob"),
        ("O", "iob"),
        ("O B-A I-A", "iob"),
        ("I-A", "iob"),
        ("B-A E-A S-A", "iobes"),
        ("U-A O B-A L-A", "bilou"),
        ("W-A M-A E-A", "bmewo"),
        ("S-A M-A E-A", "bmeso"),
        ("B_A I_A O", "iob"),
        ("B_A I_A-B E_A S_A_B", "iobes"),
        ("PER LOC O", "raw"),
        ("A_PER A_LOC B_ORG", "raw"),
        ("B:PER LOC", "raw"),
    ],
)
def test_detected_scheme(tags, scheme):
    assert tag_schemes.detect(tags.split()) == scheme


@pytest.mark.parametrize(
    "tags", ["B:PER I:PER O", "b_per i_per", "O PER-B PER-I", "PER_B", "I/LOC"]
)
def test_letters_written_otherwise_are_refused_not_taken_for_names(tags):
    with pytest.raises(ValueError, match=r"as B-TYPE .*--scheme=raw"):
        tag_schemes.detect(tags.split())


def test_letters_of_no_scheme_are_refused():
    with pytest.raises(ValueError, match=r"one scheme.*X-A.*--scheme=raw"):
        tag_schemes.detect(["B-A", "X-A"])
    with pytest.raises(ValueError, match=r"one scheme"):
        tag_schemes.detect(["U-A", "S-A"])


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


def test_file_is_converted_by_one_scheme():
    # Alone, the second sentence would pass for IOB1.
    file = _file("S-A B-A E-A", "B-A I-A E-A")
    assert tag_schemes.convert_file(file) == [
        ("B-A", "B-A", "I-A"),
        ("B-A", "I-A", "I-A"),
    ]


def test_wrong_tag_names_file_and_line():
    with pytest.raises(ValueError, match=r"f.txt, line 8: 'E-A' is not .*iob"):
        tag_schemes.convert_file(_file("B-A E-A"), "iob2")
    for tag in ("B-", "B_"):
        with pytest.raises(ValueError, match=f"f.txt, line 7: '{tag}' is not"):
            tag_schemes.convert_file(_file(f"{tag} I-A"))
    with pytest.raises(ValueError, match=r"f.txt: the tags must be"):
        tag_schemes.convert_file(_file("B-A Q-A"))


def test_unknown_tag_names_file_line_word_and_known_ones():
    ids = {"O": 0, "B-A": 1, "I-A": 2}
    with pytest.raises(
        ValueError, match=r"f.txt, line 9: the tag 'I-C' of 'y' .*O, B-A, I-A"
    ):
        tag_schemes.convert_file(_file("O I-A I-C"), ids=ids)


def test_file_without_tags_is_refused():
    sentence = conll.Sentence(words=("a",), tags=None, lines=(1,), document=1)
    file = conll.ColumnFile(
        path="f.txt", has_documents=True, sentences=(sentence,)
    )
    with pytest.raises(ValueError, match=r"f.txt: must have a column of tags"):
        tag_schemes.convert_file(file)


_tags = strategies.lists(
    strategies.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "B", "I"]),
    max_size=9,
)


@hypothesis.given(_tags)
def test_conversion_keeps_the_entities_and_is_well_formed(tags):
    converted = tag_schemes.to_iob2(tags, "iob1")
    assert list(entities.find_entities(converted)) == list(
        entities.find_entities(tags)
    )
    assert tag_schemes.to_iob2(converted, "iob2") == converted
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
    iob2 = tag_schemes.to_iob2(tags, "iob2")
    assert tag_schemes.to_iob2(list(_iobes(iob2)), "iobes") == iob2


def test_a_tag_of_any_length_makes_no_long_message():
    with pytest.raises(ValueError, match="of one scheme") as caught:
        tag_schemes.detect(["B-PER", "O" + "x" * 100_000])
    assert len(str(caught.value)) < 500

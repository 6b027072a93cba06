import pytest

from bert.tasks.tagging import tagger_labels

_IOB2 = "O B-A I-A B-B I-B"


def _model(names, scheme=None):
    return tagger_labels.of_model(tuple(names.split()), "folder", scheme)


def _encoded(names, tags):
    model = _model(names)
    return " ".join(model.names[i] for i in model.encode(tags.split()))


def test_labels_have_both_letters_of_every_type():
    model = tagger_labels.of_tags([("O", "B-Z"), ("B-A", "I-A")], "raw")
    assert model.names == ("O", "B-A", "I-A", "B-Z", "I-Z")
    assert model.types == {"A", "Z"}
    many = tagger_labels.of_tags([[f"B-{kind}" for kind in "GCEADFB"]], "iob")
    assert "".join(name[2:] for name in many.names) == "AABBCCDDEEFFGG"
    untyped = tagger_labels.of_tags([("O", "B"), ("O",)], "iob")
    assert untyped.names == ("O", "B", "I")
    assert untyped.types == {""}


@pytest.mark.parametrize(
    ("names", "predicted", "iob2"),
    [
        (_IOB2, "B-A I-A O I-B", "B-A I-A O B-B"),
        # BILOU, IOBES and BMES, also where a last word is predicted alone.
        (
            "O B-A I-A L-A U-A B-B L-B",
            "B-A I-A L-A U-A L-B O B-A L-A",
            "B-A I-A I-A B-A B-B O B-A I-A",
        ),
        ("O B-A I-A E-A S-A", "S-A B-A E-A O", "B-A B-A I-A O"),
        ("O I-A I-B", "I-A I-A I-B O", "B-A I-A B-B O"),
        ("O A B", "A A B O A", "B-A I-A B-B O B-A"),
        ("B I", "B I B", "B I B"),
        ("_ B-a I-a O", "B-a I-a _ O", "B-a I-a O O"),
    ],
)
def test_predicted_labels_are_converted_to_iob2(names, predicted, iob2):
    assert " ".join(_model(names).decode(predicted.split())) == iob2


@pytest.mark.parametrize(
    ("names", "tags", "encoded"),
    [
        (_IOB2, "B-A I-A I-A B-A O B-B", "B-A I-A I-A B-A O B-B"),
        (
            "O B-A I-A L-A U-A",
            "B-A I-A I-A B-A B-A I-A O",
            "B-A I-A L-A U-A B-A L-A O",
        ),
        (
            "O B-A I-A E-A S-A B-B I-B E-B S-B",
            "B-A B-B I-B O B-A I-A",
            "S-A B-B E-B O B-A E-A",
        ),
        ("O B-A M-A E-A W-A", "B-A I-A I-A B-A", "B-A M-A E-A W-A"),
        ("O I-A I-B", "B-A I-A B-B", "I-A I-A I-B"),
        ("O B-A M-A", "B-A I-A I-A", "B-A M-A M-A"),
        ("O B I", "O B I O", "O B I O"),
        ("O A B", "B-A I-A O B-B", "A A O B"),
        # A type that the labels lack is outside, as far as there is one.
        (_IOB2, "B-C I-C B-A", "O O B-A"),
        (_IOB2, "B I B-A", "O O B-A"),
        ("O A B", "B-C O B-A", "O O A"),
        ("B-A I-A", "O B-A", "B-A B-A"),
        # Of several labels outside, the first.
        ("B-A - O I-A", "O B-A I-A", "- B-A I-A"),
    ],
)
def test_tags_are_encoded_in_the_scheme_of_the_labels(names, tags, encoded):
    assert _encoded(names, tags) == encoded


def test_labels_of_single_words_are_the_tags():
    for model in (
        tagger_labels.of_tags([("VB", "NN"), ("NN", ".")], "words"),
        _model(". NN VB"),
        # O is a pronoun, for example.
        _model("O NN B-X VB", "words"),
    ):
        assert not model.have_entities
        assert model.types == {*model.names}
        ids = model.encode(["VB", "NN", "NN", "unknown"])
        names = tuple(model.names[number] for number in ids)
        assert names == ("VB", "NN", "NN", model.names[0])
        assert model.decode(names) == names
    assert tagger_labels.of_tags([("VB", "NN", "A")], "words").names == (
        "A",
        "NN",
        "VB",
    )


@pytest.mark.parametrize("names", ["O B-A I-A C", "O B-A I-A X [CLS]"])
def test_labels_of_no_scheme_are_refused_with_the_cure(names):
    with pytest.raises(ValueError, match="The labels of folder: ") as caught:
        _model(names)
    assert 'write "labels" in IOB2' in str(caught.value)
    assert '"scheme": "words"' in str(caught.value)
    assert "--scheme" not in str(caught.value)

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert.tasks.squad import (
    question_files,
    window_features,
)
from tests.support import locations, plain_squad, toy_files, toy_squad

_SIZES = {
    "seq96_stride32_query16": (96, 32, 16),
    "seq384_stride128_query64": (384, 128, 64),
}


@pytest.fixture(scope="module")
def released():
    return toy_files.read_json(locations.GOLDEN / "squad/features.json.gz")


def _examples(name):
    return toy_squad.read_examples(
        str(locations.INPUTS / "squad" / f"{name}.json"),
        is_training=name.startswith("train"),
        version_2_with_negative=name.endswith("2.0"),
    )


def _options(length, stride, query):
    return window_features.WindowOptions(
        max_seq_length=length, doc_stride=stride, max_query_length=query
    )


def _plain(examples):
    """Says the same as the release of the windows of examples."""
    return [
        {
            "example_index": example_index,
            "doc_span_index": doc_span_index,
            **_plain_window(window),
        }
        for example_index, windows in enumerate(examples)
        for doc_span_index, window in enumerate(windows)
    ]


def _plain_window(feature):
    # Maps for tokens of the paragraph only.
    words = feature.token_to_orig_map.tolist()
    is_max_context = feature.token_is_max_context.tolist()
    document = [i for i, word in enumerate(words) if word >= 0]
    return {
        "unique_id": feature.unique_id,
        "tokens": list(feature.tokens),
        "token_to_orig_map": {i: words[i] for i in document},
        "token_is_max_context": {i: is_max_context[i] for i in document},
        "input_ids": feature.input_ids.tolist(),
        "input_mask": feature.input_mask.tolist(),
        "segment_ids": feature.segment_ids.tolist(),
        "start_position": feature.start_position,
        "end_position": feature.end_position,
        "is_impossible": feature.is_impossible,
    }


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize(
    "name", ["train-v1.1", "dev-v1.1", "train-v2.0", "dev-v2.0"]
)
def test_features_are_those_of_the_release(tokenizer, released, name, size):
    features = window_features.convert_examples_to_features(
        _examples(name), tokenizer, _options(*_SIZES[size])
    )
    ours = json.loads(json.dumps(_plain(features)))
    assert ours == released[f"{name}/{size}"]


def test_improved_spans_are_those_of_the_release(tokenizer):
    functions = toy_files.read_json(
        locations.GOLDEN / "squad" / "functions.json"
    )
    for case in functions["improve_answer_span"]:
        ours = window_features.improve_answer_span(
            case["tokens"],
            (case["start"], case["end"]),
            tokenizer.tokenize(case["answer"]),
        )
        assert list(ours) == case["result"]
    # The last pieces of the words are searched too.
    span = window_features.improve_answer_span(
        ["a", "(", "18", "95"], (1, 3), ["18", "95"]
    )
    assert span == (2, 3)
    # An answer without pieces leaves its span.
    span = window_features.improve_answer_span(["a", "b", "c"], (1, 2), [])
    assert span == (1, 2)


@pytest.mark.parametrize(
    ("words", "tokens"),
    [((), []), (("wind",), [("[CLS]", "[SEP]", "wind", "[SEP]")])],
)
def test_empty_question_and_paragraph(tokenizer, words, tokens):
    example = question_files.SquadExample(
        qas_id="q", question_text="", doc_tokens=words
    )
    (features,) = window_features.convert_examples_to_features(
        [example], tokenizer, _options(10, 3, 4)
    )
    assert [feature.tokens for feature in features] == tokens
    for feature in features:
        assert feature.segment_ids.tolist() == [0, 0, 1, 1, *[0] * 6]


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ((0, 2), [(3, 5), (0, 0)]),  # All of the first window.
        ((2, 3), [(0, 0), (0, 0)]),  # Cut by its end.
        ((3, 3), [(0, 0), (3, 3)]),
        ((5, 5), [(0, 0), (5, 5)]),
    ],
)
def test_only_a_window_with_all_of_an_answer_is_labeled(
    tokenizer, answer, labels
):
    words = ("the", "wind", "the", "water", "the", "sun")
    first, last = answer
    example = question_files.SquadExample(
        qas_id="q",
        question_text="wind",
        doc_tokens=words,
        orig_answer_text=" ".join(words[first : last + 1]),
        start_position=first,
        end_position=last,
    )
    (windows,) = window_features.convert_examples_to_features(
        [example], tokenizer, _options(7, 3, 1)
    )
    assert [(w.start_position, w.end_position) for w in windows] == labels


def test_records_have_the_names_of_the_release(tokenizer):
    train, dev = (
        next(
            window_features.convert_examples_to_features(
                _examples(name), tokenizer, _options(96, 32, 16)
            )
        )[0].record()
        for name in ("train-v2.0", "dev-v2.0")
    )
    inputs = ["unique_ids", "input_ids", "input_mask", "segment_ids"]
    assert list(dev) == inputs
    answers = ["start_positions", "end_positions", "is_impossible"]
    assert list(train) == inputs + answers
    assert train["unique_ids"] == [1000000000]
    assert train["is_impossible"] == [0]


def test_progress_ends_with_all_windows(tokenizer):
    phases = {}
    windows = window_features.convert_examples_to_features(
        _examples("train-v1.1"),
        tokenizer,
        _options(96, 32, 16),
        progress=lambda phase, *done: phases.update({phase: done}),
    )
    assert len(list(windows)) == 29
    assert phases == {"windows": (29, 29)}


@settings(max_examples=50)
@given(
    words=st.lists(st.text(min_size=1, max_size=9), max_size=40),
    question=st.text(max_size=30),
    length=st.integers(12, 30),
    stride=st.integers(1, 20),
)
def test_saving_changes_nothing(tokenizer, words, question, length, stride):
    examples = [
        question_files.SquadExample(
            qas_id=str(i),
            question_text=question[i:],
            doc_tokens=question_files.find_words(
                " ".join(words[: len(words) - i])
            ),
        )
        for i in range(3)
    ]
    options = _options(length, stride, 8)
    ours = window_features.convert_examples_to_features(
        examples, tokenizer, options
    )
    plain = plain_squad.plain_features(examples, tokenizer, options)
    for feature, expected in itertools.zip_longest(_plain(ours), plain):
        assert feature | expected == feature


def test_max_context_is_that_of_the_release():
    functions = toy_files.read_json(
        locations.GOLDEN / "squad" / "functions.json"
    )
    for case in functions["check_is_max_context"]:
        num_pieces = max(map(sum, case["spans"]))
        best = window_features.max_context_spans(case["spans"], num_pieces)
        ours = [
            [span, position, bool(best[position] == span)]
            for span, position, _ in case["values"]
        ]
        assert ours == case["values"]
    # The first of equals: position 4 is an end of both parts.
    best = window_features.max_context_spans([(0, 5), (4, 5)], 9)
    np.testing.assert_array_equal(best, [0, 0, 0, 0, 0, 1, 1, 1, 1])
    # The longer part on equal sides.
    best = window_features.max_context_spans([(0, 3), (2, 4)], 6)
    np.testing.assert_array_equal(best, [0, 0, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("num_pieces", "max_pieces", "stride", "spans"),
    [
        (0, 5, 2, []),
        (5, 5, 2, [(0, 5)]),
        (6, 5, 2, [(0, 5), (2, 4)]),
        (11, 5, 3, [(0, 5), (3, 5), (6, 5)]),
        (3, 1, 1, [(0, 1), (1, 1), (2, 1)]),
        # A stride past the end of the part is cut to its length.
        (11, 5, 9, [(0, 5), (5, 5), (10, 1)]),
    ],
)
def test_parts_cover_the_paragraph(num_pieces, max_pieces, stride, spans):
    ours = window_features.document_spans(num_pieces, max_pieces, stride)
    assert ours == spans


def test_question_must_leave_room_for_the_paragraph():
    window_features.WindowOptions(max_seq_length=68, max_query_length=64)
    with pytest.raises(ValueError, match=r"max_query_length \+ 3.*67 and 64"):
        window_features.WindowOptions(max_seq_length=67, max_query_length=64)

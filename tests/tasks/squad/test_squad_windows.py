import json
import pathlib

import numpy as np
import pytest

from tasks.squad import squad_windows

_GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "squad"


def test_max_context_is_that_of_the_release():
    functions = json.loads((_GOLDEN / "functions.json").read_text())
    for case in functions["check_is_max_context"]:
        num_pieces = max(map(sum, case["spans"]))
        best = squad_windows.max_context_spans(case["spans"], num_pieces)
        ours = [
            [span, position, bool(best[position] == span)]
            for span, position, _ in case["values"]
        ]
        assert ours == case["values"]


def test_first_of_equal_contexts_wins():
    # Position 4 is an end of both parts.
    best = squad_windows.max_context_spans([(0, 5), (4, 5)], 9)
    np.testing.assert_array_equal(best, [0, 0, 0, 0, 0, 1, 1, 1, 1])


def test_longer_part_wins_on_equal_sides():
    best = squad_windows.max_context_spans([(0, 3), (2, 4)], 6)
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
    ours = squad_windows.document_spans(num_pieces, max_pieces, stride)
    assert ours == spans


def test_question_must_leave_room_for_the_paragraph():
    squad_windows.WindowOptions(max_seq_length=68, max_query_length=64)
    with pytest.raises(ValueError, match=r"max_query_length \+ 3.*67 and 64"):
        squad_windows.WindowOptions(max_seq_length=67, max_query_length=64)


def test_windows_must_move_on():
    with pytest.raises(ValueError, match="doc_stride must be at least 1"):
        squad_windows.WindowOptions(doc_stride=0)

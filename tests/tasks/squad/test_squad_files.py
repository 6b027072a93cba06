import json

import pytest

from tasks.squad import squad_files

_QA = {"id": "q1", "question": "What stands?", "answers": []}


def _write(folder, *qas):
    path = folder / "squad.json"
    paragraph = {"context": "The mill stands.", "qas": qas}
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    return path


def _read(folder, *qas):
    return squad_files.read_dataset(str(_write(folder, *qas)))


def test_fields_that_are_not_there_are_none(tmp_path):
    (question,) = _read(tmp_path, {"id": "q1", "question": "?"}).questions
    assert question.answers is None
    assert question.is_impossible is None
    assert question.context == "The mill stands."
    assert question.where.endswith("data[0].paragraphs[0].qas[0]")


def test_answers_are_read_in_order(tmp_path):
    answers = [
        {"text": "mill", "answer_start": 4},
        {"text": "The mill", "answer_start": 0},
    ]
    qa = {**_QA, "answers": answers, "is_impossible": False}
    (question,) = _read(tmp_path, qa).questions
    assert question.answers == (
        squad_files.Answer(text="mill", start=4),
        squad_files.Answer(text="The mill", start=0),
    )
    assert question.is_impossible is False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": [\n  1,,]}', r"line 2, column 5: must be JSON"),
        (b'{"data": "\xff"}', r"must be UTF-8; byte 10"),
        (b"[]", r"\$ must be an object; got list"),
        (b"{}", r"\$\.data is missing"),
        (b'{"data": {}}', r"\$\.data must be a list; got \{\}"),
        (b'{"data": []}', "at least one question"),
        (b'{"data": [{}]}', r"data\[0\]\.paragraphs is missing"),
        (
            b'{"data": [{"paragraphs": [{"context": 3}]}]}',
            r"data\[0\]\.paragraphs\[0\]\.context must be a string; got 3",
        ),
    ],
)
def test_wrong_file_is_named_with_the_place(tmp_path, content, message):
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"wrong\.json.*{message}"):
        squad_files.read_dataset(str(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, r"qas\[0\]\.id must be a string or a whole number"),
        ({"question": 1}, r"qas\[0\]\.question must be a string; got 1"),
        ({"answers": {}}, r"qas\[0\]\.answers must be a list"),
        (
            {"answers": [{"text": "x"}]},
            r"answers\[0\]\.answer_start is missing",
        ),
        ({"is_impossible": "no"}, r"is_impossible must be true or false"),
    ],
)
def test_wrong_question_is_named_with_the_place(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, {**_QA, **change})


def test_byte_order_mark_is_allowed(tmp_path):
    path = _write(tmp_path, _QA)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(squad_files.read_dataset(str(path)).questions) == 1

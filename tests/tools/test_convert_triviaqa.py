"""Questions of TriviaQA as a file of SQuAD."""

import pytest

from tests.support import toy_files, toy_squad
from tools import convert_triviaqa

_PAGE = (
    "\n Stockholm is the capital of Sweden.\n\nThe  city of\nKing "
    "Gustav Vasa has a palace."
)


def _question(question_id, value, aliases=(), pages=("Stockholm.txt",)):
    return {
        "QuestionId": question_id,
        "Question": f"Question {question_id}?",
        "Answer": {"Value": value, "Aliases": list(aliases)},
        "EntityPages": [{"Filename": page} for page in pages],
    }


def _write(tmp_path, questions, pages=None):
    path = tmp_path / "wikipedia-train.json"
    toy_files.write_json(path, {"Data": questions})
    for name, text in (pages or {"Stockholm.txt": _PAGE}).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return str(path)


def _convert(tmp_path, *questions, pages=None):
    path = _write(tmp_path, questions, pages)
    return convert_triviaqa.convert(path, str(tmp_path))


def _answers(dataset):
    return {
        qa["id"]: qa["answers"][0]["text"]
        for entry in dataset["data"]
        for paragraph in entry["paragraphs"]
        for qa in paragraph["qas"]
    }


def test_paragraph_is_the_first_words_as_they_stand(tmp_path):
    words = "\n" + "a  b\n" * 199 + "c\td Sweden.\nlate"
    dataset = _convert(
        tmp_path, _question("tc_1", "d"), pages={"Stockholm.txt": words}
    )
    (entry,) = dataset["data"]
    (paragraph,) = entry["paragraphs"]
    assert paragraph["context"] == words.strip()[: -len(" Sweden.\nlate")]
    assert entry["title"] == "Stockholm"


def test_answer_is_the_first_whole_words_in_any_case(tmp_path):
    dataset = _convert(
        tmp_path,
        _question("capital", "CAPITAL", ["palace"]),
        _question("longest", "king", ["King Gustav", "Gustav Vasa"]),
        # Spaces stand for any white space; "Stock" is part of a word.
        _question("broken line", "city of king", ["Stock"]),
        _question("full stop", "Sweden."),
    )
    assert _answers(dataset) == {
        "capital--Stockholm.txt": "capital",
        "longest--Stockholm.txt": "King Gustav",
        "broken line--Stockholm.txt": "city of\nKing",
        "full stop--Stockholm.txt": "Sweden.",
    }


def test_the_longest_answer_at_a_place_is_taken_whatever_its_letters(tmp_path):
    dataset = _convert(
        tmp_path,
        _question("short first", "King", ["King Gustav"]),
        _question("long first", "King Gustav", ["King"]),
    )
    assert {*_answers(dataset).values()} == {"King Gustav"}


def test_marks_in_an_answer_stand_for_themselves(tmp_path):
    dataset = _convert(
        tmp_path,
        _question("dot", "a.c"),
        _question("plus", "C++ (1998)"),
        pages={"Stockholm.txt": "An abc, an a.c and C++ (1998)."},
    )
    assert [*_answers(dataset).values()] == ["a.c", "C++ (1998)"]


def test_what_has_no_answer_is_left_out_and_counted(tmp_path, caplog):
    caplog.set_level("INFO")
    dataset = _convert(
        tmp_path,
        _question("q1", "Oslo", ["", "stock"]),
        _question("q2", "", pages=["Stockholm.txt"]),
        _question("q3", "palace", pages=["Stockholm.txt", "Oslo.txt"]),
        _question("q4", "palace", pages=["Bergen.txt"]),
    )
    assert list(_answers(dataset)) == ["q3--Stockholm.txt"]
    assert "2 of 3 pages are missing" in caplog.text
    assert "2 questions have no answer in a page." in caplog.text


def test_page_answers_all_of_its_questions_once(tmp_path):
    dataset = _convert(
        tmp_path,
        _question("q1", "palace", pages=["A.txt", "B.txt"]),
        _question("q2", "king", pages=["B.txt"]),
        pages={"A.txt": "A palace.", "B.txt": "A king. A palace."},
    )
    assert [len(e["paragraphs"][0]["qas"]) for e in dataset["data"]] == [1, 2]


def _run(tmp_path, *questions):
    """Runs the tool; returns the path of its output."""
    _write(tmp_path, questions)
    options = convert_triviaqa.Options(
        input_file=str(tmp_path / "wikipedia-train.json"),
        evidence_dir=str(tmp_path),
        output_file=str(tmp_path / "out" / "triviaqa.json"),
    )
    convert_triviaqa.run(options)
    return options.output_file


def test_result_is_a_squad_file_to_train_on(tmp_path, caplog):
    path = _run(
        tmp_path,
        _question("q1", "palace"),
        _question("q2", "king", ["the city of king"]),
    )
    assert f"Wrote 2 questions on 1 pages to {path}." in caplog.text
    caplog.clear()
    examples = toy_squad.read_examples(
        path, is_training=True, version_2_with_negative=False
    )
    assert [e.orig_answer_text for e in examples] == [
        "palace",
        "The  city of\nKing",
    ]
    assert examples[0].qas_id == "q1--Stockholm.txt"
    assert examples[0].doc_tokens[examples[0].end_position] == "palace."
    assert caplog.text == ""


def test_nothing_is_written_where_nothing_can_be_kept(tmp_path):
    _write(tmp_path, [])
    (tmp_path / "Far.txt").write_text("word " * 400 + "palace")
    with pytest.raises(ValueError, match=r"one of 1 pages .* first 400 words"):
        _run(tmp_path, _question("q1", "palace", pages=["Far.txt"]))
    assert not (tmp_path / "out").exists()

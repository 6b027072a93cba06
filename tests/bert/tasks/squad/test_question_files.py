import dataclasses
import json

import pytest

from bert.tasks.squad import question_files
from tests.support import locations, toy_files, toy_squad

_CONTEXT = "The mill (built 1895) stands\u00a0still by the\u202fold weir."


def _answer(text, start=None):
    start = _CONTEXT.index(text) if start is None else start
    return {"text": text, "answer_start": start}


def _qa(qas_id="q1", answers=(), **more):
    return {
        "id": qas_id,
        "question": "What stands?",
        "answers": list(answers),
        **more,
    }


def _write(folder, qas, *, context=_CONTEXT, version="1.1"):
    path = folder / "squad.json"
    paragraph = {"context": context, "qas": qas}
    dataset = {"version": version, "data": [{"paragraphs": [paragraph]}]}
    toy_files.write_json(path, dataset)
    return str(path)


def _train(folder, *qas, version_2=False, **more):
    return toy_squad.read_examples(
        _write(folder, qas, **more),
        is_training=True,
        version_2_with_negative=version_2,
    )


def _predict(folder, *qas, version_2=False, **more):
    return toy_squad.read_examples(
        _write(folder, qas, **more),
        is_training=False,
        version_2_with_negative=version_2,
    )


@pytest.mark.parametrize(
    "name", ["train-v1.1", "dev-v1.1", "train-v2.0", "dev-v2.0"]
)
def test_examples_are_those_of_the_release(name):
    path = locations.GOLDEN / "squad/examples.json.gz"
    released = toy_files.read_json(path)[name]
    examples = toy_squad.read_examples(
        str(locations.INPUTS / "squad" / f"{name}.json"),
        is_training=name.startswith("train"),
        version_2_with_negative=name.endswith("2.0"),
    )
    ours = [dataclasses.asdict(example) for example in examples]
    # The release has no place of an answer within its words.
    assert {example.pop("answer_characters") for example in ours} == {None}
    assert json.loads(json.dumps(ours)) == released


def test_words_end_at_five_characters_only():
    text = "a\tb\r\nc\u202fd e\u00a0f\u3000g\u2028h\x0bi"
    words = ("a", "b", "c", "d", "e\u00a0f\u3000g\u2028h\x0bi")
    assert question_files.find_words(text) == words
    assert question_files.find_words(" \n") == ()


def test_training_leaves_out_and_counts_answers_that_are_elsewhere(
    tmp_path, caplog
):
    last = _CONTEXT.rsplit(maxsplit=1)[-1]
    examples = _train(
        tmp_path,
        _qa("kept", [_answer("mill")]),
        _qa("near", [_answer("895", _CONTEXT.index("1895"))]),
        _qa("moved", [_answer("weir", 0)]),
        _qa("nbsp", [_answer("stands\u00a0still")]),
        _qa("outside", [_answer("weir", 5000)]),
        _qa("before", [_answer("weir", -1)]),
        _qa("blank", [_answer(" ", 3)]),
        _qa("past", [_answer(last + " ", len(_CONTEXT) - len(last))]),
    )
    assert [example.qas_id for example in examples] == ["kept", "near"]
    assert "6 questions dropped" in caplog.text
    assert "'moved', 'nbsp', 'outside', 'before', 'blank'" in caplog.text


def test_a_negative_offset_is_not_counted_from_the_end(tmp_path):
    qa = _qa(answers=[_answer("mill", -1)])
    with pytest.raises(ValueError, match="no question has its answer"):
        _train(tmp_path, qa, context="mill")


@pytest.mark.parametrize("answers", [[], [_answer("mill"), _answer("weir")]])
def test_training_needs_exactly_one_answer(tmp_path, answers):
    with pytest.raises(ValueError, match=r"qas\[0\]\.answers .* exactly 1"):
        _train(tmp_path, _qa(answers=answers))


def test_training_on_version_2_needs_every_is_impossible(tmp_path):
    with pytest.raises(ValueError, match=r"qas\[1\]\.is_impossible is missing"):
        _train(
            tmp_path,
            _qa("q1", is_impossible=True),
            _qa("q2", [_answer("mill")]),
            version_2=True,
        )


@pytest.mark.parametrize("read", [_train, _predict])
def test_version_2_file_needs_its_flag(tmp_path, read):
    with pytest.raises(ValueError, match="needs --version_2_with_negative"):
        read(tmp_path, _qa(is_impossible=True))
    # A part of a file of version 2, in which every question has an answer.
    qa = _qa(answers=[_answer("mill")], is_impossible=False)
    assert len(read(tmp_path, qa, version="v2.0")) == 1


def test_prediction_needs_no_offsets(tmp_path):
    qas = [
        {"id": "q1", "question": "What?", "answers": [{"text": "mill"}]},
        {"id": "q2", "question": "What?", "answers": None},
    ]
    assert len(_predict(tmp_path, *qas)) == 2
    with pytest.raises(ValueError, match=r"qas\[0\]\.answers\[0\]\.answer_st"):
        _train(tmp_path, *qas)


def test_gold_answers_are_all_given_texts(tmp_path):
    answers = [_answer("mill"), _answer("The mill")]
    path = _write(tmp_path, [_qa("q1", answers), _qa("q2")])

    def gold(path, version_2=True):
        return question_files.read_questions(
            path, version_2_with_negative=version_2, with_gold=True
        )[1]

    assert gold(path) == {"q1": ("mill", "The mill"), "q2": ()}
    with pytest.raises(ValueError, match=r"qas\[1\]\.answers must have an ans"):
        gold(path, version_2=False)
    path = _write(tmp_path, [{"id": "q1", "question": "?"}])
    with pytest.raises(ValueError, match=r"qas\[0\]\.answers is missing"):
        gold(path)


def test_a_number_is_the_id_that_predictions_have_as_their_key(tmp_path):
    (example,) = _predict(tmp_path, _qa(7))
    assert example.qas_id == "7"
    with pytest.raises(ValueError, match="'7' is also the id of"):
        _predict(tmp_path, _qa(7), _qa("7"))


def test_prediction_refuses_one_id_for_two_questions(tmp_path):
    with pytest.raises(
        ValueError, match=r"qas\[1\]: .* 'q1' is also .*qas\[0\]"
    ):
        _predict(tmp_path, _qa("q1"), _qa("q1"))


def test_empty_texts_are_read(tmp_path):
    qa = {"id": "q1", "question": " "}
    (example,) = _predict(tmp_path, qa, context="\n")
    assert example.doc_tokens == ()


def test_questions_on_one_paragraph_share_its_words(tmp_path):
    first, second = _predict(tmp_path, _qa("q1"), _qa("q2"))
    assert first.doc_tokens is second.doc_tokens


def test_a_training_file_is_shuffled_as_the_release_does(tmp_path):
    answers = [_answer("mill")]
    qas = [_qa(f"a{number}", answers) for number in range(5)]
    examples = question_files.read_training_examples(
        _write(tmp_path, qas), version_2_with_negative=False
    )
    assert [example.qas_id for example in examples] == [
        f"a{number}" for number in (4, 2, 1, 0, 3)
    ]


def test_training_needs_an_example(tmp_path):
    path = _write(tmp_path, [_qa(answers=[_answer("weir", 0)])])
    with pytest.raises(ValueError, match="no question has its answer"):
        question_files.read_training_examples(
            path, version_2_with_negative=False
        )


_QA = {"id": "q1", "question": "What stands?", "answers": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": [\n  1,,]}', r"must be JSON .*line 2 column 5"),
        (b'{"data": "\xff"}', r"line 1: not UTF-8 .byte 0xff"),
        (b"[]", r'format of SQuAD, \{"data".*"answer_start".*; got list\.$'),
        (b"{}", r"format of SQuAD, .*; got dict\.$"),
        (
            b'{"version": 1, "paragraphs": []}',
            r"format of SQuAD, .*; got 'version', 'paragraphs'\.$",
        ),
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
        question_files.read_questions(str(path), version_2_with_negative=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, r"qas\[0\]\.id must be a string or a whole number"),
        ({"question": 1}, r"qas\[0\]\.question must be a string; got 1"),
        ({"answers": {}}, r"qas\[0\]\.answers must be a list"),
        ({"answers": [{"text": 1}]}, r"answers\[0\]\.text must be a string"),
        ({"is_impossible": "no"}, r"is_impossible must be true or false"),
    ],
)
def test_wrong_question_is_named_with_the_place(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        _predict(tmp_path, {**_QA, **change})

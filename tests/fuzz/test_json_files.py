"""Damaged files of JSON: questions, answers, labels, evidence."""

import json
import math

import pytest

from bert.tasks.squad import (
    answer_files,
    ensembles,
    question_files,
)
from tests.fuzz import mutations
from tests.support import toy_squad
from tools import convert_triviaqa

_CONTEXT = "Ada wrote the first program in 1843. Babbage built no engine."
_QUESTIONS = [
    {
        "id": "q1",
        "question": "Who wrote it?",
        "answers": [{"text": "Ada", "answer_start": 0}],
        "is_impossible": False,
    },
    {
        "id": 2,
        "question": "When?",
        "answers": [{"text": "1843", "answer_start": 31}],
        "is_impossible": False,
    },
    {"id": "q3", "question": "Why?", "answers": [], "is_impossible": True},
]
_SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Ada",
            "paragraphs": [{"context": _CONTEXT, "qas": _QUESTIONS}],
        }
    ],
}
_NBEST = {
    "q1": [
        {
            "text": text,
            "probability": 0.5,
            "start_logit": 1.5,
            "end_logit": -2,
        }
        for text in ("Ada", "")
    ],
}
_TRIVIA = {
    "Data": [
        {
            "QuestionId": "t1",
            "Question": "Who wrote it?",
            "Answer": {"Value": "Ada", "Aliases": ["Lady Ada", "Lovelace"]},
            "EntityPages": [{"Filename": "Ada.txt"}],
        }
    ]
}


def _parsed(content: bytes):
    return json.loads(content.decode("utf-8-sig"))


def test_questions_are_those_of_the_file_or_an_error(check):
    def read(path):
        return question_files.read_questions(
            path, version_2_with_negative=True, with_gold=True
        )

    def is_right(found, content):
        examples, gold = found
        held = [
            qa
            for entry in _parsed(content)["data"]
            for paragraph in entry["paragraphs"]
            for qa in paragraph["qas"]
        ]
        return all(
            (example.question_text, example.qas_id)
            == (qa["question"], str(qa["id"]))
            and list(gold[example.qas_id]) == [a["text"] for a in qa["answers"]]
            for example, qa in zip(examples, held, strict=True)
        )

    check(read, "dev.json", mutations.of_json(3, _SQUAD), is_right)


@pytest.mark.parametrize("is_training", [True, False])
def test_examples_point_into_their_words_or_an_error(check, is_training):
    def read(path):
        return toy_squad.read_examples(
            path, is_training=is_training, version_2_with_negative=True
        )

    def is_right(found, content):
        return all(
            example.is_impossible
            or not is_training
            or " ".join(example.orig_answer_text.split())
            in " ".join(
                example.doc_tokens[
                    example.start_position : example.end_position + 1
                ]
            )
            for example in found
        )

    cases = mutations.of_json(3, _SQUAD)
    check(read, "x.json", cases, is_right)


def test_nbest_files_hold_texts_and_numbers_or_an_error(check):
    def is_right(found, content):
        (combined, *_) = ensembles.combine_nbest(
            [found, found],
            list(found),
            n_best_size=20,
            version_2_with_negative=False,
        )
        return math.isfinite(combined.nbest[0].probability) and {
            qas_id: [vars(candidate) for candidate in nbest]
            for qas_id, nbest in found.items()
        } == {
            qas_id: [{key: e[key] for key in _NBEST["q1"][0]} for e in nbest]
            for qas_id, nbest in _parsed(content).items()
        }

    check(
        ensembles.read_nbest,
        "nbest_predictions.json",
        (c for c in mutations.of_json(3, _NBEST) if c.strip() != b"{}"),
        is_right,
    )


@pytest.mark.parametrize("name", ["predictions", "null_odds"])
def test_answers_are_those_of_the_file_or_an_error(check, tmp_path, name):
    goods = {
        "predictions": {"q1": "Ada", "2": ""},
        "null_odds": {"q1": -1.5, "2": 3},
    }
    for other, values in goods.items():
        (tmp_path / f"{other}.json").write_text(json.dumps(values))

    def read(_):
        return answer_files.read(
            str(tmp_path / "predictions.json"), version_2_with_negative=True
        )

    def is_right(found, content):
        values = {"predictions": found.texts, "null_odds": found.null_odds}
        kind = type(goods[name]["q1"])
        return values[name] == _parsed(content) and all(
            kind(value) == value for value in values[name].values()
        )

    cases = mutations.of_json(3, goods[name])
    check(read, tmp_path / f"{name}.json", cases, is_right)


def test_evidence_stays_in_its_folder_or_an_error(check, tmp_path):
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    (evidence / "Ada.txt").write_text("Long ago Ada, or Lady Ada, wrote it.")

    def is_right(found, content):
        return all(
            context[answer["answer_start"] :].startswith(answer["text"])
            for entry in found["data"]
            for context in [entry["paragraphs"][0]["context"]]
            for qa in entry["paragraphs"][0]["qas"]
            for answer in qa["answers"]
        )

    check(
        lambda path: convert_triviaqa.convert(path, str(evidence)),
        "train.json",
        mutations.of_json(3, _TRIVIA),
        is_right,
    )

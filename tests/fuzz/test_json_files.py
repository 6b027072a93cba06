"""Damaged files of JSON: questions, answers, labels, evidence."""

import io
import json
import math

import numpy as np
import pytest

from tasks.classification import labels
from tasks.squad import (
    squad_answers,
    squad_ensemble,
    squad_examples,
    squad_results,
)
from tests import toy_squad
from tests.fuzz import mutations
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
_LABELS = {"problem_type": "single_label", "labels": ["no", "yes"]}
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
    def is_right(dataset, content):
        held = [
            (paragraph["context"], qa)
            for entry in _parsed(content)["data"]
            for paragraph in entry["paragraphs"]
            for qa in paragraph["qas"]
        ]
        return len(held) == len(dataset.questions) and all(
            (found.context, found.text, found.qas_id, found.is_impossible)
            == (context, qa["question"], str(qa["id"]), qa.get("is_impossible"))
            and [
                {"text": a.text, "answer_start": a.start}
                for a in found.answers or ()
            ]
            == [
                {key: a.get(key) for key in ("text", "answer_start")}
                for a in qa.get("answers") or ()
            ]
            for found, (context, qa) in zip(
                dataset.questions, held, strict=True
            )
        )

    check(
        squad_examples.read_dataset,
        "dev.json",
        mutations.of_json(3, _SQUAD),
        is_right,
    )


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
        (combined, *_) = squad_ensemble.combine_nbest(
            [found, found], list(found), squad_answers.AnswerOptions()
        )
        return math.isfinite(combined.nbest[0].probability) and {
            qas_id: [vars(candidate) for candidate in nbest]
            for qas_id, nbest in found.items()
        } == {
            qas_id: [{key: e[key] for key in _NBEST["q1"][0]} for e in nbest]
            for qas_id, nbest in _parsed(content).items()
        }

    check(
        squad_ensemble.read_nbest,
        "nbest_predictions.json",
        (c for c in mutations.of_json(3, _NBEST) if c.strip() != b"{}"),
        is_right,
    )


@pytest.mark.parametrize(
    ("read", "good"),
    [
        (squad_results.read_predictions, {"q1": "Ada", "2": ""}),
        (squad_results.read_null_odds, {"q1": -1.5, "2": 3}),
    ],
    ids=["texts", "odds"],
)
def test_answers_are_those_of_the_file_or_an_error(check, read, good):
    kind = type(good["q1"])
    check(
        read,
        "answers.json",
        mutations.of_json(3, good),
        lambda found, content: (
            found == _parsed(content)
            and all(isinstance(v, str) or kind(v) == v for v in found.values())
        ),
    )


def test_labels_are_those_of_the_file_or_an_error(check):
    check(
        labels.load,
        "labels.json",
        mutations.of_json(3, _LABELS),
        lambda found, content: (
            found.to_dict()
            == {
                key: _parsed(content)[key] for key in ("problem_type", "labels")
            }
        ),
    )


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


def test_logits_are_those_written_or_an_error(check, tmp_path):
    path = tmp_path / "logits.npz"
    places = np.arange(3, dtype=np.float32)
    given = squad_answers.Logits(
        unique_ids=np.array([1000, 1001]),
        values=np.array([[places + n, -places] for n in (1000, 1001)]),
    )
    squad_ensemble.write_logits(str(path), given)
    content = path.read_bytes()
    file = io.BytesIO()
    np.savez(file, unique_ids=np.array([1]), logits=np.zeros([1, 2, 3]))
    goods = [content, file.getvalue()]

    def is_right(found, content):
        return (
            found.unique_ids.dtype.kind in "iu"
            and found.values.dtype.kind == "f"
            and found.values.shape[:2] == (len(found.unique_ids), 2)
        )

    cases = mutations.endless(4, goods, mutations.BINARY_WORDS)
    check(squad_ensemble.read_logits, path, cases, is_right)


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "a/../../b"])
def test_pages_outside_of_the_evidence_are_refused(tmp_path, name):
    path = tmp_path / "train.json"
    (record,) = _TRIVIA["Data"]
    record = {**record, "EntityPages": [{"Filename": name}]}
    path.write_text(json.dumps({"Data": [record]}))
    with pytest.raises(ValueError, match=r"EntityPages\[0\]\.Filename must"):
        convert_triviaqa.convert(str(path), str(tmp_path / "evidence"))


def test_a_boolean_offset_is_refused(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(_SQUAD).replace("31", "true"))
    with pytest.raises(ValueError, match=r"answer_start must be a whole"):
        squad_examples.read_dataset(str(path))

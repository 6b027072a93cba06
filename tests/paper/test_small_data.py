"""What the small tables make their data with."""

import json

import pytest

from paper import name_task, squad_part


def _words(text):
    return text.split()


def test_names_are_what_a_capital_would_begin():
    usual = frozenset({"london"})
    words = _words("Yesterday Anna Smith went to London , and I to Rome .")
    assert name_task.tag_names(words, usual) == [
        *("O", "B-NAME", "I-NAME", "O", "O", "B-NAME", "O", "O", "O", "O"),
        *("B-NAME", "O"),
    ]


def test_where_every_word_has_a_capital_the_usual_decides():
    usual = frozenset({"london"})
    words = _words("London said : The end .")
    assert name_task.tag_names(words, usual) == ["B-NAME", *["O"] * 5]


def test_usual_capitals_are_counted_within_sentences():
    sentences = [
        _words("The man saw London ."),
        _words("London saw the man ."),
        _words("Then the King came ; a king left , as a king ."),
    ]
    assert name_task.capitalised_words(sentences) == {"london"}


def test_the_task_is_lower_case_and_documents_are_held_out_whole(tmp_path):
    documents = [
        f'Here number{n} met Anna today.\n"The end," said number{n} to Bob.\n'
        "Short.\n"
        for n in range(16)
    ]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(documents))
    name_task.run(
        name_task.Options(
            input_file=str(text), output_dir=str(tmp_path / "out")
        )
    )
    train = (tmp_path / "out/train.txt").read_text()
    dev = (tmp_path / "out/dev.txt").read_text()
    # Documents 8 and 16 of two sentences each; those too short are left out.
    assert dev.count("\n\n") == 4
    assert train.count("\n\n") == 28
    assert dev.startswith(
        "here O\nnumber7 O\nmet O\nanna B-NAME\ntoday O\n. O\n\n"
    )
    assert "number7 " not in train
    words = [line.split(" ")[0] for line in train.splitlines()]
    assert words == [word.lower() for word in words]


def test_sentences_are_taken_evenly(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(
        "\n\n".join(f"this is sentence number {n} ." for n in range(32)) + "\n"
    )
    name_task.run(
        name_task.Options(
            input_file=str(text),
            output_dir=str(tmp_path),
            num_train=4,
            num_dev=2,
        )
    )
    train = (tmp_path / "train.txt").read_text()
    assert train.count("\n\n") == 4
    assert [n for n in range(32) if f"\n{n} O" in train] == [0, 8, 16, 24]


def test_no_sentence_is_an_error(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("too short\n")
    with pytest.raises(ValueError, match=r"found none for train\.txt"):
        name_task.run(
            name_task.Options(input_file=str(text), output_dir=str(tmp_path))
        )


def _squad(path, num_articles, num_paragraphs=4):
    data = [
        {
            "title": f"article {a}",
            "paragraphs": [
                {
                    "context": "one two",
                    "qas": [
                        {
                            "id": f"{a}-{p}",
                            "question": "which?",
                            "answers": [
                                {"text": "one", "answer_start": 0},
                                {"text": "two", "answer_start": 4},
                            ],
                        }
                    ],
                }
                for p in range(num_paragraphs)
            ],
        }
        for a in range(num_articles)
    ]
    path.write_text(json.dumps({"version": "1.1", "data": data}))
    return str(path)


def _ids(path):
    content = json.loads(path.read_text())
    assert content["version"] == "1.1"
    return [
        qa["id"]
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def test_articles_are_held_out_whole(tmp_path):
    out, held_out = tmp_path / "train.json", tmp_path / "held_out.json"
    squad_part.run(
        squad_part.Options(
            input_file=_squad(tmp_path / "x.json", num_articles=6),
            output_file=str(out),
            holdout_every=3,
            holdout_file=str(held_out),
        )
    )
    assert {name.split("-")[0] for name in _ids(held_out)} == {"2", "5"}
    assert {name.split("-")[0] for name in _ids(out)} == set("0134")
    # Training takes one answer; the held-out questions keep theirs.
    text = out.read_text()
    assert '"one"' in text
    assert '"two"' not in text
    assert '"two"' in held_out.read_text()


def test_a_part_is_taken_evenly(tmp_path):
    out = tmp_path / "train.json"
    squad_part.run(
        squad_part.Options(
            input_file=_squad(tmp_path / "x.json", num_articles=4),
            output_file=str(out),
            num_questions=8,
        )
    )
    found = _ids(out)
    assert len(found) == 8
    assert {name.split("-")[0] for name in found} == set("0123")


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="go together"):
        squad_part.Options(input_file="x", output_file="y", holdout_every=3)
    path = tmp_path / "x.json"
    for content, words in (
        ("[]", "must hold a JSON object"),
        ('{"data": {}}', "must be a SQuAD file"),
        ('{"data": [],}', "line 1, column 13: must be JSON"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=words):
            squad_part.run(
                squad_part.Options(input_file=str(path), output_file="y")
            )
    options = squad_part.Options(
        input_file=_squad(path, num_articles=1),
        output_file=str(tmp_path / "y"),
        holdout_every=2,
        holdout_file=str(tmp_path / "z"),
    )
    with pytest.raises(ValueError, match="nothing is left for"):
        squad_part.run(options)

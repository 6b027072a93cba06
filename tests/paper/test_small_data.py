"""Programs that make the data of the small tables."""

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
    assert name_task.capitalized_words(sentences) == {"london"}


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
    # One document, which is for training.
    text.write_text("this one is long enough\n")
    with pytest.raises(ValueError, match=r"found none for dev\.txt"):
        name_task.run(
            name_task.Options(input_file=str(text), output_dir=str(tmp_path))
        )
    assert not (tmp_path / "train.txt").exists()


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


def _one_question(qa):
    paragraph = f'{{"context": "a b", "qas": [{qa}]}}'
    return f'{{"data": [{{"paragraphs": [{paragraph}]}}]}}'


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="must be used together"):
        squad_part.Options(input_file="x", output_file="y", holdout_every=3)
    path = tmp_path / "x.json"
    for content, words in (
        ("[]", "must be a JSON object"),
        ('{"data": {}}', "must be a SQuAD file"),
        ('{"data": [{"title": "t"}]}', "must be a SQuAD file"),
        (_one_question('{"question": "?"}'), "must be a SQuAD file"),
        (_one_question('{"id": 7, "answers": []}'), "must be a SQuAD file"),
        (
            _one_question('{"id": "q", "answers": [{"text": "a"}]}'),
            "must be a SQuAD file",
        ),
        ('{"data": [}', "line 1, column 11: must be JSON"),
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
    assert not (tmp_path / "y").exists()


def _article(*answers, context="a b  cc dd e f g h", name="q"):
    answers = [
        {"text": text, "answer_start": context.index(text)} for text in answers
    ]
    qas = [{"id": name, "question": "?", "answers": answers}]
    return {"title": "t", "paragraphs": [{"context": context, "qas": qas}]}


def _shortened(article, num_words):
    (paragraph,) = squad_part.shorten(article, num_words)["paragraphs"]
    (qa,) = paragraph["qas"]
    context = paragraph["context"]
    return context, [
        context[start : start + len(answer["text"])]
        for answer in qa["answers"]
        for start in [answer["answer_start"]]
    ]


def test_a_short_context_holds_its_answer_at_any_place():
    seen = set()
    for number in range(60):
        article = _article("dd", "a b", name=str(number))
        context, answers = _shortened(article, 3)
        assert answers[0] == "dd"
        assert ("a b" in answers) == ("a b" in context)
        assert (context, answers) == _shortened(article, 3)
        seen.add(context)
    assert seen == {"b  cc dd", "cc dd e", "dd e f"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("a b", {"a b  cc"}),
        ("h", {"f g h"}),
        ("b  cc dd e", {"b  cc dd e"}),  # Longer than what is kept.
        ("c d", {"b  cc dd", "cc dd e"}),  # Parts of two words.
    ],
)
def test_a_short_context_does_not_run_over_an_end(answer, expected):
    contexts = {
        _shortened(_article(answer, name=str(number)), 3)[0]
        for number in range(40)
    }
    assert contexts == expected


def test_a_question_without_answer_has_any_words_of_its_context():
    contexts = {
        _shortened(_article(name=str(number)), 7)[0] for number in range(40)
    }
    assert contexts == {"a b  cc dd e f g", "b  cc dd e f g h"}
    assert _shortened(_article(context="a b"), 7) == ("a b", [])
    assert _shortened(_article(context=" "), 7) == ("", [])


def test_an_answer_outside_its_context_is_refused():
    article = _article("dd", name="q7")
    article["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 90
    with pytest.raises(ValueError, match=r"q7.*'dd'.*starts at 90 of 18"):
        squad_part.shorten(article, 3)


def test_each_question_of_a_part_gets_its_own_short_context(tmp_path):
    source, train, dev = (
        tmp_path / name for name in ("in.json", "train.json", "dev.json")
    )
    article = _article("a b", "dd")
    article["paragraphs"][0]["qas"] *= 2
    source.write_text(json.dumps({"version": "1.1", "data": [article]}))
    for path, all_answers in ((train, False), (dev, True)):
        squad_part.run(
            squad_part.Options(
                input_file=str(source),
                output_file=str(path),
                context_words=6,
                all_answers=all_answers,
            )
        )
    for path, texts in ((train, ["a b"]), (dev, ["a b", "dd"])):
        (written,) = json.loads(path.read_text())["data"]
        assert len(written["paragraphs"]) == 2
        for paragraph in written["paragraphs"]:
            (qa,) = paragraph["qas"]
            assert [answer["text"] for answer in qa["answers"]] == texts

"""Answers to texts as the scripts give them with --do_predict."""

import io
import json
import types

import pytest

from serving import predicting
from tests import serving_client
from tools import predict

# float32, with and without what is compiled.
_TOLERANCE = 2e-5


def _ask(model, *texts, given=b"", **options):
    """Returns what the tool prints, as objects."""
    output = io.StringIO()
    predict.run(
        predict.Options(model=str(model), format="json", **options),
        texts,
        io.BytesIO(given),
        output,
    )
    return [json.loads(line) for line in output.getvalue().splitlines()]


def _close(got, expected):
    assert got == pytest.approx(expected, abs=_TOLERANCE)


@pytest.fixture(scope="module", name="classifier")
def _classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden") / "run"
    return serving_client.golden_classifier(folder)


def test_answers_depend_on_neither_neighbors_nor_place(classifier, tmp_path):
    texts = ["it rained . ||| rain fell .", "no", "it rained all day long", ""]
    together = _ask(classifier, *texts)
    assert [row["text_a"] for row in together] == [
        text.split(" ||| ")[0] for text in texts
    ]
    lines = "".join(f"{text}\n" for text in texts)
    (tmp_path / "lines.txt").write_text(lines)
    alone = [row for text in texts for row in _ask(classifier, text)]
    for others in (
        alone,
        _ask(classifier, given=lines.encode(), batch_size=2),
        _ask(classifier, input_file=str(tmp_path / "lines.txt")),
    ):
        for row, other in zip(together, others, strict=True):
            _close(row["probabilities"], other["probabilities"])
            assert row["label"] == other["label"]


def test_people_read_the_most_probable_first(classifier):
    output = io.StringIO()
    options = predict.Options(model=str(classifier))
    predict.run(options, ["a good match"], io.BytesIO(), output)
    first, *rows, end = output.getvalue().split("\n")[:-1]
    assert (first, end) == ("a good match", "")
    found = [float(row.split()[0]) for row in rows]
    assert found == sorted(found, reverse=True)
    assert {row.split()[1] for row in rows} == {"0", "1"}


def test_a_wrong_line_at_the_prompt_ends_nothing(
    classifier, monkeypatch, capsys
):
    typed = iter(["a ||| b ||| c", "", "a good match"])

    def line(prompt):
        assert prompt == "> "
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", line)
    terminal = types.SimpleNamespace(isatty=lambda: True)
    output = io.StringIO()
    options = predict.Options(model=str(classifier))
    predict.run(options, [], terminal, output)
    wrong, *answer, end = output.getvalue().splitlines()
    hint = "Type text_a ||| text_b. Ctrl-D exits.\n"
    assert capsys.readouterr().err.endswith(hint)
    assert wrong.startswith("An example of this model is text_a ||| text_b;")
    # The text is not repeated.
    assert {row.split()[1] for row in answer[:2]} == {"0", "1"}
    assert (answer[2:], end) == ([""], "")


def test_what_cannot_be_asked_is_refused(classifier, tmp_path):
    with pytest.raises(ValueError, match="got both"):
        _ask(classifier, "a", input_file="-")
    with pytest.raises(ValueError, match="is not a folder"):
        _ask(tmp_path / "absent", "a")
    with pytest.raises(ValueError, match="contains no checkpoint"):
        _ask(tmp_path, "a")
    (tmp_path / "paragraph.txt").write_text("one")
    with pytest.raises(ValueError, match="of this one is classify"):
        _ask(classifier, "a", context_file=str(tmp_path / "paragraph.txt"))


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("classify", "a ||| b ||| c"),
        ("answer", "a"),
        ("tag", "a ||| b"),
        ("choose", "a ||| b ||| c"),
    ],
)
def test_an_example_has_the_parts_of_its_task(task, line):
    fields = predicting.FIELDS[task]
    with pytest.raises(ValueError, match=f"is {fields[0]}.*; got '{line[0]}"):
        predicting.example(task, line.split(" ||| "))


def test_choices_are_written_as_the_texts_before_and_the_endings():
    assert predicting.example("choose", ["a", "", "c", "d", "e"]) == {
        "first": "a",
        "second": "",
        "endings": ["c", "d", "e"],
    }


def test_equal_endings_have_a_row_each():
    example = predicting.example("choose", ["a", "", "c", "c"])
    answer = {"choice": 1, "ending": "c", "probabilities": [0.25, 0.75]}
    text = predict.table(example, answer, has_texts=False)
    assert text == "  0.7500  c\n  0.2500  c\n"


def test_with_a_context_file_an_example_is_a_question(tmp_path):
    (tmp_path / "context.txt").write_text("a b\n\nc\n")
    options = predict.Options(
        model="x", context_file=str(tmp_path / "context.txt")
    )
    form, read = predict._reader(options, "answer")
    assert form == "question"
    assert read("who?") == {"question": "who?", "context": "a b\n\nc"}
    with pytest.raises(
        ValueError, match=r"is question; got .who\? \|\|\| what"
    ):
        read("who? ||| what")

"""Answers to texts as the scripts give them with --do_predict."""

import io
import json
import shutil

import numpy as np
import pytest

import extract_features
from modeling import checkpoints
from tests.support import (
    asked_models,
    golden_models,
    programs,
    tool_runs,
    toy_files,
)
from tools import predict

# float32, with and without what is compiled.
_TOLERANCE = 2e-5
_printed, _ask = tool_runs.predicted, tool_runs.answers


@pytest.fixture(scope="module", name="classifier")
def _classifier(made_once):
    return made_once(golden_models.classifier)


@pytest.fixture(scope="module", name="masks")
def _masks(made_once):
    return made_once(golden_models.bert, task="pretraining")


@pytest.fixture(scope="module", name="answerer")
def _answerer(made_once):
    """A model that answers every question."""
    return made_once(golden_models.answerer)


def test_answers_depend_on_neither_neighbors_nor_place(classifier, tmp_path):
    texts = ["it rained . ||| rain fell .", "no", "it rained all day long"]
    together = _ask(classifier, *texts)
    assert [row["text_a"] for row in together] == [
        text.split(" ||| ")[0] for text in texts
    ]
    path = toy_files.write_lines(tmp_path / "lines.txt", texts)
    given = (tmp_path / "lines.txt").read_bytes()
    for others in (
        [row for text in texts for row in _ask(classifier, text)],
        _ask(classifier, given=given),
        _ask(classifier, given=given, input_file="-"),
        _ask(classifier, input_file=path),
    ):
        for row, other in zip(together, others, strict=True):
            assert row["probabilities"] == pytest.approx(
                other["probabilities"], abs=_TOLERANCE
            )
            assert row["label"] == other["label"]


def test_a_blank_line_is_answered_with_one(classifier, answerer):
    for times in (1, 20):
        given = b"it rained\n\n \t\nit is dry\n" * times
        rows = _ask(classifier, given=given)
        assert [row and row["text_a"] for row in rows] == [
            *("it rained", None, None, "it is dry") * times
        ]
    rows = _ask(answerer, given=b"who ? ||| it rained\n\nwho ? ||| it is dry\n")
    assert [row and row["context"] for row in rows] == [
        *("it rained", None, "it is dry")
    ]


class _Flushed(io.StringIO):
    """A text output that knows what was flushed."""

    flushed = ""

    def flush(self):
        self.flushed = self.getvalue()


def test_the_lines_of_a_pipe_are_answered_batch_by_batch(masks):
    output, num_answers = _Flushed(), []

    class Pipe:
        def isatty(self):
            return False

        def __iter__(self):
            for _ in range(70):
                num_answers.append(output.flushed.count("[MASK] 1"))
                yield b"a [MASK]\n"

    predict.run(predict.Options(model=str(masks)), [], Pipe(), output)
    # Batches of 32.
    assert num_answers == [0] * 32 + [32] * 32 + [64] * 6


class _Terminal(io.BytesIO):
    def isatty(self):
        return True


def test_a_wrong_line_in_a_terminal_ends_nothing(masks, capsys):
    typed, output = _Terminal(b"no mask\n\na [MASK]\n"), io.StringIO()
    predict.run(predict.Options(model=str(masks)), [], typed, output)
    wrong, blank, *answer = output.getvalue().splitlines()
    assert capsys.readouterr().err.endswith("Type text. Ctrl-D exits.\n")
    assert wrong.startswith("The text must have a [MASK]; got 'no mask'")
    assert (blank, answer[:2]) == ("", ["a [MASK]", "  [MASK] 1"])


def test_what_cannot_be_asked_is_refused(classifier, masks, tmp_path):
    one, absent = tmp_path / "one", str(tmp_path / "absent.txt")
    one.write_text("one")
    for model, texts, files, message in (
        # Before the model is read.
        ("no model", [], {"input_file": absent}, r"absent\.txt"),
        ("no model", ["a"], {"context_file": absent}, r"absent\.txt"),
        (classifier, ["a"], {"input_file": "-"}, "got both"),
        (
            classifier,
            ["a"],
            {"context_file": str(one)},
            "one is classification",
        ),
        (masks, ["[MASK] " + "a " * 158], {}, "at most 160 word pieces"),
        (masks, ["[MASK]", "none"], {}, "^text 2: The text must have"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            _printed(model, *texts, **files)


@pytest.mark.parametrize("best", [False, True])
def test_the_best_checkpoint_answers_on_request(tmp_path, best):
    run = golden_models.classifier(tmp_path / "run")
    golden_models.classifier(run / "best", labels=["no", "yes"])
    (row,) = _ask(run, "it rained", use_best_checkpoint=best)
    names = {"no", "yes"} if best else {"0", "1"}
    assert row["probabilities"].keys() == names


def test_a_paragraph_keeps_its_lines_and_is_that_of_every_question(
    answerer, tmp_path, capsys
):
    (tmp_path / "paragraph.txt").write_text("it rained\nit is dry\n")
    path = str(tmp_path / "paragraph.txt")
    rows = _ask(answerer, "who ?", "when ?", context_file=path)
    assert [(row["question"], row["context"]) for row in rows] == [
        ("who ?", "it rained\nit is dry"),
        ("when ?", "it rained\nit is dry"),
    ]
    # A terminal asks for questions alone.
    options = predict.Options(model=str(answerer), context_file=path)
    predict.run(options, [], _Terminal(b""), io.StringIO())
    assert capsys.readouterr().err.endswith("Type question. Ctrl-D exits.\n")


def test_a_name_of_the_hub_is_advised_before_anything_is_loaded(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"org/name: there is no .* hf://org/name\."
    ):
        _ask("org/name", "a")
    with pytest.raises(FileNotFoundError, match=r"no such folder\.$"):
        _ask(tmp_path / "a" / "b", "a")


_COLUMNS = {"text_a_column": "t", "text_b_column": "u"}


@pytest.fixture(scope="module", name="one_text")
def _one_text(made_once):
    """A classifier that states its number of texts."""
    return made_once(golden_models.classifier, text_a_column="t")


@pytest.fixture(scope="module", name="two_texts")
def _two_texts(made_once):
    return made_once(golden_models.classifier, **_COLUMNS)


def test_a_model_takes_the_number_of_texts_that_it_states(
    tmp_path, one_text, two_texts
):
    assert _ask(one_text, "it rained")[0].keys() > {"text_a", "label"}
    with pytest.raises(
        ValueError, match=r"is text_a; got 'a \|\|\| b'\. .*\.jsonl file"
    ):
        _ask(one_text, "a ||| b")
    assert _ask(two_texts, "a ||| b")[0].keys() > {"text_a", "text_b", "label"}
    # GLUE's tasks are known by name.
    mrpc = golden_models.classifier(tmp_path / "mrpc", name="MRPC")
    for model, wrong in (
        *((two_texts, text) for text in ("it rained", "a|||b", "a\tb")),
        (mrpc, "it rained"),
    ):
        with pytest.raises(ValueError, match=r"is text_a \|\|\| text_b; got"):
            _ask(model, wrong)


def test_what_json_writes_json_reads(tmp_path, one_text):
    texts = ["it rained ||| it\nis dry", "it rained\r\nall day"]
    path = tmp_path / "in.jsonl"
    toy_files.write_json_lines(path, ({"text_a": t} for t in texts))
    rows = _ask(one_text, input_file=str(path))
    assert [row["text_a"] for row in rows] == texts
    again = toy_files.write_json_lines(tmp_path / "again.jsonl", rows)
    assert _ask(one_text, input_file=again) == rows
    path.write_text('{"text": "it rained"}\n{"text": 1}\n{}\n')
    printed, error = _refused(
        one_text, [], input_file=str(path), text_a_column="text", format="json"
    )
    assert json.loads(printed.splitlines()[0])["text_a"] == "it rained"
    assert error.startswith(f"2 of 3 lines have no answer. The first: {path}")
    assert "line 2: 'text_a' must be a string; got 1." in error


def test_a_table_is_read_by_its_columns_or_refused(
    tmp_path, one_text, two_texts
):
    (tmp_path / "test.csv").write_text(
        'id,t,u\n1,"it rained, all day",it\n2,it,"it\nis dry"\n'
    )
    path = str(tmp_path / "test.csv")
    rows = _ask(two_texts, input_file=path, **_COLUMNS)
    assert [(row["text_a"], row["text_b"]) for row in rows] == [
        ("it rained, all day", "it"),
        ("it", "it\nis dry"),
    ]
    by_number = {"text_a_column": "1", "text_b_column": "-1"}
    rows = _ask(two_texts, input_file=path, **by_number)
    assert (rows[0]["text_a"], rows[0]["text_b"]) == ("t", "u")
    for name in ("x.json", "x.ndjson", "x.txt"):
        (tmp_path / name).write_text("[]\n")
    first = {"text_a_column": "t"}
    for model, name, columns, message in (
        (
            two_texts,
            "test.csv",
            first,
            "must name columns of the table. ",
        ),
        (two_texts, "test.csv", first, "0 columns named 'text_b'; the columns"),
        (two_texts, "x.json", first, "name such a file .jsonl"),
        (two_texts, "x.ndjson", first, "name such a file .jsonl"),
        (two_texts, "x.txt", first, "name columns of a table"),
        (one_text, "test.csv", _COLUMNS, "it has no second one for 'u'"),
    ):
        file = str(tmp_path / name)
        assert message in _refused(model, [], input_file=file, **columns)[1]


def test_a_table_of_questions_has_their_paragraphs_or_one_for_all(
    answerer, tmp_path
):
    path = tmp_path / "questions.jsonl"
    path.write_text('{"question": "who ?", "context": "it\\nrained"}\n')
    (row,) = _ask(answerer, input_file=str(path))
    assert row["context"] == "it\nrained"
    (tmp_path / "context.txt").write_text("it is dry")
    context = str(tmp_path / "context.txt")
    (row,) = _ask(answerer, input_file=str(path), context_file=context)
    assert row["context"] == "it is dry"


def test_json_has_letters_of_every_script_as_they_are(masks):
    assert '"\u4e2d [MASK]"' in _printed(masks, "\u4e2d [MASK]", format="json")
    printed, _ = _refused(masks, ["\xe4"], format="json")
    assert "not UTF-8" in printed
    printed, _ = _refused(masks, [], "\u4e2d", format="json")
    assert "\u4e2d" in printed


# --------------------------------------------------------------- Wrong lines

_LINES = ["a [MASK]", "[MASK] b", "no mask", "", "\xe4 [MASK]", "c [MASK]"]


def _refused(model, lines, *texts, **options):
    """Returns what the tool prints before its error, and the error."""
    output = io.StringIO()
    with pytest.raises(ValueError) as caught:
        predict.run(
            predict.Options(model=str(model), **options),
            texts,
            io.BytesIO("\n".join(lines).encode("latin-1")),
            output,
        )
    return output.getvalue(), str(caught.value)


@pytest.mark.parametrize("before", [0, 29, 30, 31])
def test_the_lines_before_a_wrong_one_are_answered(masks, before):
    lines = [_LINES[0]] * before + _LINES  # A batch has 32.
    printed, error = _refused(masks, lines)
    assert printed == _printed(masks, *lines[: before + 2])
    assert error == (
        f"standard input, line {before + 3}: The text must have a [MASK]; "
        "got 'no mask'."
    )


def test_the_lines_of_a_file_before_a_wrong_one_are_answered(masks, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a [MASK]\n\xe4 [MASK]\nb [MASK]\n")
    printed, error = _refused(masks, [], input_file=str(path))
    assert printed == _printed(masks, "a [MASK]")
    assert error.startswith(f"{path}, line 2: not UTF-8 (byte 0xe4)")


def test_json_has_an_error_for_each_wrong_line_and_goes_on(masks):
    printed, error = _refused(masks, _LINES, format="json")
    rows = [json.loads(line) if line else None for line in printed.split("\n")]
    assert [row and row.get("text") for row in rows] == [
        *("a [MASK]", "[MASK] b", None, None, None, "c [MASK]", None)
    ]
    assert rows[2] == {
        "error": "standard input, line 3: The text must have a [MASK]; got "
        "'no mask'."
    }
    assert rows[4]["error"].startswith("standard input, line 5: not UTF-8")
    assert error == (
        f"2 of 6 lines have no answer. The first: {rows[2]['error']}"
    )


# ----------------------------------------------------------------- Long texts


def _warnings(caplog):
    return [r.message for r in caplog.records if r.levelname == "WARNING"]


def test_one_line_of_a_run_counts_the_texts_that_are_cut(
    tmp_path, answerer, caplog
):
    model = golden_models.classifier(tmp_path / "run", max_seq_length=32)
    long = " ".join(["it rained"] * 20)
    _ask(model, "it rained")
    assert _warnings(caplog) == []
    _ask(model, long, "it rained", f"it rained ||| {long}")
    _ask(answerer, "who ? ||| it rained", "it " * 9 + "||| it rained")
    texts, questions = (w for w in _warnings(caplog) if "pieces" in w)
    assert texts.startswith("texts: 2 of 3 examples are longer than 32 word")
    assert texts.endswith("See max_seq_length in the model's task.json")
    start = "questions: 1 of 2 examples are longer than 8 word"
    assert questions.startswith(start)
    assert questions.endswith("See max_query_length in the model's task.json")


# ------------------------------------------------------------- Parts of lines


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("question_answering", "a"),
        ("multiple_choice", "a ||| b ||| c"),
        ("multiple_choice", "a"),
    ],
)
def test_an_example_has_the_parts_of_its_task(task, line):
    with pytest.raises(ValueError, match=r"is \w+ \|\|\| .*; got 'a"):
        asked_models.asked(task).parse(line)


def test_choices_are_written_as_the_texts_before_and_the_endings():
    line = "a |||  ||| c|||d ||| e"
    assert asked_models.asked("multiple_choice").parse(line) == {
        "first": "a",
        "second": "",
        "endings": ["c|||d", "e"],
    }


def test_equal_endings_have_a_row_each():
    model = asked_models.asked("multiple_choice")
    example = model.parse("a |||  ||| c ||| c")
    answer = {"choice": 1, "ending": "c", "probabilities": [0.25, 0.75]}
    text = model.show(example, answer)
    assert text == "a ||| \n  0.7500  c\n  0.2500  c\n"


@pytest.mark.parametrize(
    ("task", "example", "answer", "rows"),
    [
        (
            "classification",
            {"text_a": "a", "text_b": "b"},
            {"label": "x", "probabilities": {"y": 0.25, "x": 0.75}},
            ["a ||| b", "  0.7500  x", "  0.2500  y"],
        ),
        (
            "classification",
            {"text_a": "a"},
            {"labels": ["x"], "probabilities": {"y": 0.25, "x": 0.75}},
            ["a", " *0.7500  x", "  0.2500  y"],
        ),
        ("classification", {"text_a": "a"}, {"score": 2.5}, ["a", "  2.5000"]),
        (
            "classification",
            {"text_a": "a"},
            {"probabilities": {str(n): n / 100 for n in range(12)}},
            ["a"]
            + [f"  {n / 100:.4f}  {n}" for n in range(11, 1, -1)]
            + ["  and 2 more"],
        ),
        (
            "classification",
            {"text_a": "a"},
            {"probabilities": {str(n): n / 100 for n in range(10)}},
            ["a", *(f"  {n / 100:.4f}  {n}" for n in range(9, -1, -1))],
        ),
        (
            "question_answering",
            {"question": "q", "context": "c d"},
            {"answer": "d", "probability": 0.5, "null_odds": 1.0},
            ["q", "  0.5000  d"],
        ),
        (
            "question_answering",
            {"question": "q", "context": "c d"},
            {"answer": "", "probability": 0.0},
            ["q", "  0.0000  (no answer)"],
        ),
        (
            "tagging",
            {"text": "in Paris"},
            {"tags": [], "entities": [{"type": "LOC", "text": "Paris"}]},
            ["in Paris", "  LOC  Paris"],
        ),
        (
            "tagging",
            {"text": "in it"},
            {"tags": [], "entities": []},
            ["in it", "  (no entity)"],
        ),
    ],
)
def test_an_answer_is_shown_as_its_task_shows_it(task, example, answer, rows):
    shown = asked_models.asked(task).show(example, answer)
    assert shown == "\n".join([*rows, ""])


def test_with_a_context_a_line_is_a_question():
    model = asked_models.asked("question_answering")
    found = model.parse("who? ||| what", "a\nb")
    assert found == {"question": "who? ||| what", "context": "a\nb"}


# ----------------------------------------------------------------- Embeddings


@pytest.fixture(scope="module", name="encoder")
def _encoder(made_once):
    return made_once(golden_models.sentence_encoder)


def test_an_embedding_is_the_pooled_last_layer_of_length_1(encoder, tmp_path):
    text = "it rained all day ."
    (answer,) = _ask(encoder, text)
    assert answer.keys() == {"text_a", "embedding"}
    (tmp_path / "line.txt").write_text(text)
    extract_features.run(
        programs.parse(
            extract_features.Options,
            input_file=tmp_path / "line.txt",
            output_file=tmp_path / "vectors.jsonl",
            init_checkpoint=encoder,
            layers="-1",
            pooling="mean",
        )
    )
    line = toy_files.read_json(tmp_path / "vectors.jsonl")
    mean = np.array(line["layers"][0]["values"])
    np.testing.assert_allclose(
        answer["embedding"], mean / np.linalg.norm(mean), atol=1e-6
    )


def test_a_pair_is_answered_with_its_similarity(encoder):
    texts = ["it rained all day .", "rain fell"]
    pair, first, second = _ask(encoder, " ||| ".join(texts), *texts)
    assert pair.keys() == {"text_a", "text_b", "similarity"}
    cosine = np.dot(first["embedding"], second["embedding"])
    assert pair["similarity"] == pytest.approx(cosine, abs=_TOLERANCE)
    assert abs(cosine) < 0.999
    (same,) = _ask(encoder, " ||| ".join([texts[0]] * 2))
    assert same["similarity"] == pytest.approx(1, abs=1e-6)


def test_texts_to_embed_are_cut_at_the_length_of_the_model(encoder, caplog):
    cut, long = _ask(encoder, "it . it . it . it", "it . it . it . it .")
    assert cut["embedding"] == pytest.approx(long["embedding"], abs=1e-6)
    assert "1 of 2 examples are longer than 9 word pieces" in caplog.text


def test_the_table_of_an_embedding_has_its_size_and_first_numbers(encoder):
    (row,) = _ask(encoder, "rain fell")
    first = " ".join(f"{number:.4f}" for number in row["embedding"][:5])
    text = _printed(encoder, "rain fell", "rain fell ||| rain fell")
    assert text == (
        f"rain fell\n  32 numbers: {first} ...\n\n"
        "rain fell ||| rain fell\n  1.0000\n\n"
    )


def test_a_fine_tuned_model_answers_its_task_whatever_it_was(tmp_path, encoder):
    model = golden_models.classifier(tmp_path / "run")
    shutil.copy(encoder / "modules.json", model)
    (row,) = _ask(model, "it rained")
    assert row["label"] in {"0", "1"}


# --------------------------------------------------------------- Masked words


def test_masks_are_filled_in_any_batch(masks):
    texts = ["a [MASK] b", "[MASK][MASK] the", "it ||| [MASK] rained"]
    together = _ask(masks, *texts)
    alone = [row for text in texts for row in _ask(masks, text)]
    assert [row["text"] for row in together] == texts
    assert [len(row["masks"]) for row in together] == [1, 2, 1]
    for one, other in zip(together, alone, strict=True):
        for first, second in zip(one["masks"], other["masks"], strict=True):
            assert len(first) == 5
            assert [c["token"] for c in first] == [c["token"] for c in second]
            np.testing.assert_allclose(
                [c["probability"] for c in first],
                [c["probability"] for c in second],
                atol=_TOLERANCE,
            )


def test_the_table_names_the_text_each_mask_and_its_candidates(masks):
    shown = _printed(masks, "b [MASK] [MASK]")
    assert len(shown.splitlines()) == 14
    assert shown.startswith("b [MASK] [MASK]\n  [MASK] 1\n    ")


def test_weights_that_are_not_finite_are_refused(masks, tmp_path):
    weights = checkpoints.read(str(masks / "tiny.ckpt"))
    weights["bert/embeddings/LayerNorm/beta"][0] = np.nan
    broken = golden_models.bert(tmp_path / "broken", task="pretraining")
    checkpoints.save(str(broken / "tiny.ckpt"), weights)
    with pytest.raises(ValueError, match=r"must be finite.*LayerNorm/beta"):
        _ask(broken, "[MASK]")

"""Answers to texts as the scripts give them with --do_predict."""

import io
import json
import types

import numpy as np
import pytest

import run_swag
from serving import predicting
from tests import (
    programs,
    serving_client,
    toy_sentences,
    toy_squad,
    toy_swag,
    toy_tagging,
)
from tools import export_model, predict

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


def _json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def _close(got, expected):
    assert got == pytest.approx(expected, abs=_TOLERANCE)


def _export(model, **options):
    return export_model.run(
        export_model.Options(
            model_dir=str(model), export_dir=str(model / "served"), **options
        )
    )


@pytest.fixture(scope="module", name="classifier")
def _classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden") / "run"
    return serving_client.golden_classifier(folder)


def test_answers_depend_on_neither_neighbours_nor_place(classifier, tmp_path):
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"long_text": "windows", "max_seq_length": 6, "window_stride": 1}],
    ids=["head", "windows"],
)
def test_classes_are_those_of_the_script(tmp_path, changes):
    out = toy_sentences.run(
        tmp_path, do_train=True, do_predict=True, num_train_epochs=1, **changes
    )
    texts = (tmp_path / "data/test.tsv").read_text().splitlines()[1:]
    got, expected = _ask(out, *texts), _json_lines(out / "predictions.jsonl")
    assert [row["label"] for row in got] == [row["label"] for row in expected]
    for row, wanted in zip(got, expected, strict=True):
        _close(row["probabilities"], wanted["probabilities"])


def test_people_read_the_most_probable_first(classifier):
    output = io.StringIO()
    options = predict.Options(model=str(classifier))
    predict.run(options, ["a good match"], io.BytesIO(), output)
    first, *rows, end = output.getvalue().split("\n")[:-1]
    assert (first, end) == ("a good match", "")
    found = [float(row.split()[0]) for row in rows]
    assert found == sorted(found, reverse=True)
    assert {row.split()[1] for row in rows} == {"0", "1"}


def test_a_wrong_line_at_the_prompt_ends_nothing(classifier, monkeypatch):
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
    hint, wrong, *answer, end = output.getvalue().splitlines()
    assert hint == "Type text_a ||| text_b. Ctrl-D exits."
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


@pytest.mark.slow
def test_scores_and_several_labels_are_those_of_the_script(tmp_path):
    for kind, values in (
        ("regression", {"no": "0.5", "yes": "4.5"}),
        ("multi_label", {"no": "sad,any", "yes": "any"}),
    ):
        folder = tmp_path / kind
        toy_sentences.write_data(folder / "data")
        for name in ("train", "dev"):
            path = folder / f"data/{name}.tsv"
            text = path.read_text()
            for label, value in values.items():
                text = text.replace(f"\t{label}\n", f"\t{value}\n")
            path.write_text(text)
        out = toy_sentences.run(
            folder, do_train=True, do_predict=True, problem_type=kind
        )
        texts = (folder / "data/test.tsv").read_text().splitlines()[1:]
        expected = _json_lines(out / "predictions.jsonl")
        for got, wanted in zip(_ask(out, *texts), expected, strict=True):
            if kind == "regression":
                assert got["score"] == pytest.approx(wanted["score"], abs=1e-4)
            else:
                assert got["labels"] == wanted["labels"]
                _close(got["probabilities"], wanted["probabilities"])


@pytest.mark.slow
def test_answers_are_those_of_the_script(tmp_path):
    out = toy_squad.run(
        tmp_path, do_train=True, do_predict=True, bucket_by_length=True
    )
    asked = [
        {"id": q["id"], "question": q["question"], "context": p["context"]}
        for p in toy_squad.read_json(tmp_path / "dev.json")["data"][0][
            "paragraphs"
        ]
        for q in p["qas"]
    ]
    ids = [each.pop("id") for each in asked]
    path = tmp_path / "asked.txt"
    path.write_text("".join(" ||| ".join(e.values()) + "\n" for e in asked))
    got = _ask(out, input_file=str(path))
    expected = toy_squad.read_json(out / "nbest_predictions.json")
    for name, row in zip(ids, got, strict=True):
        best = expected[name][0]
        assert row["answer"] == best["text"]
        # Which answers of little weight share it hangs on the padding.
        assert row["probability"] == pytest.approx(
            best["probability"], abs=1e-3
        )
    (tmp_path / "paragraph.txt").write_text(asked[0]["context"])
    (alone,) = _ask(
        out,
        asked[0]["question"],
        context_file=str(tmp_path / "paragraph.txt"),
    )
    assert alone["answer"] == got[0]["answer"]


@pytest.mark.slow
@pytest.mark.parametrize("features", [None, "concat_last_four", "sum_all"])
def test_tags_are_those_of_the_script_and_of_the_export(tmp_path, features):
    toy_tagging.write_all(tmp_path, num_sentences=60, num_layers=4)
    toy_tagging.run(
        tmp_path,
        do_train=True,
        do_predict=True,
        num_train_epochs=2,
        context="sentence",
        max_seq_length=12,
        features=features,
        lstm_units=None if features is None else 6,
    )
    out = tmp_path / "out"
    if features:
        card = {
            "features": features,
            "init_checkpoint": str(tmp_path / "bert.ckpt"),
        }
        (out / "run_card.json").write_text(json.dumps({"flags": card}))
        with pytest.raises(ValueError, match="Export a SavedModel"):
            _export(out, format="onnx")
    blocks = (out / "test_predictions.txt").read_text().split("\n\n")
    rows = [
        [line.split(" ") for line in block.splitlines()]
        for block in blocks
        if block.strip()
    ]
    texts = [" ".join(row[0] for row in sentence) for sentence in rows]
    expected = [[row[-1] for row in sentence] for sentence in rows]
    got = _ask(out, *texts)
    assert [row["tags"] for row in got] == expected
    version = _export(out)
    (exported,) = serving_client.ask(version, {"text": texts})
    tags = [list(filter(None, row)) for row in exported["tags"]]
    assert tags == expected
    assert _ask(out, " \t ")[0]["tags"] == []


@pytest.mark.slow
def test_the_encoder_below_a_tagger_is_the_one_it_was_trained_on(tmp_path):
    toy_tagging.write_all(tmp_path, num_sentences=30)
    toy_tagging.run(
        tmp_path, do_train=True, num_train_epochs=1, features="last"
    )
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="encoder as --encoder_checkpoint"):
        _export(out)
    toy_tagging.write_all(tmp_path / "other", num_sentences=3, num_layers=3)
    other = str(tmp_path / "other/bert.ckpt")
    with pytest.raises(ValueError, match="not the encoder that the tagger"):
        _export(out, encoder_checkpoint=other)
    _export(out, encoder_checkpoint=str(tmp_path / "bert.ckpt"))


@pytest.mark.slow
def test_choices_are_those_of_the_script_and_of_the_export(tmp_path):
    files = toy_swag.write_model(tmp_path)
    train, test = toy_swag.copying(200, seed=1), toy_swag.copying(12, seed=2)
    toy_swag.write(tmp_path / "train.csv", train)
    toy_swag.write(tmp_path / "test.csv", test, with_labels=False)
    out = tmp_path / "out"
    options = programs.parse(
        run_swag.Options,
        data_dir=tmp_path,
        output_dir=out,
        max_seq_length=8,
        num_train_epochs=1,
        do_train=True,
        do_predict=True,
        **files,
    )
    run_swag.run(options)
    expected = np.loadtxt(out / "test_results.tsv")
    texts = [
        " ||| ".join([first, second, *endings])
        for first, second, endings, _ in test
    ]
    version = _export(out)
    columns = list(zip(*test, strict=True))
    (served,) = serving_client.ask(
        version,
        {
            "first": list(columns[0]),
            "second": list(columns[1]),
            "endings": [list(endings) for endings in columns[2]],
        },
    )
    got = _ask(out, *texts)
    for probabilities in (
        [row["probabilities"] for row in got],
        served["probabilities"],
    ):
        np.testing.assert_allclose(probabilities, expected, atol=_TOLERANCE)
    best = list(expected.argmax(axis=1))
    assert [row["choice"] for row in got] == served["choice"] == best
    assert [row["ending"] for row in got] == served["ending"]
    two = "wa ||| then ||| wa ||| wb"
    assert len(_ask(out, texts[0], two)[1]["probabilities"]) == 2

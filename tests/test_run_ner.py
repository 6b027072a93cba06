"""run_ner.py from files to scores, on made sentences."""

import itertools
import json
import re
import shutil

import numpy as np
import pytest

import run_ner
from bert.models import folder as folder_lib
from bert.serving import loading, predicting
from bert.tasks.tagging import conll, entities, tag_schemes
from modeling import checkpoints
from tests.support import programs, tool_runs, toy_files
from tests.support import toy_tagging as toy
from vocab import tokenization

# Enough for more than 95 on sentences that were never seen.
_LEARNING = {
    **programs.STAGES,
    "context": "sentence",
    "max_seq_length": 20,
    # The least of three seeds is 0.963; 8 epochs at 7e-3 have 0.934.
    "learning_rate": 5e-3,
    "num_train_epochs": 10,
    "train_batch_size": 8,
}
_SHORT = {
    **_LEARNING,
    "learning_rate": 1e-2,
    "num_train_epochs": 2,
    "train_batch_size": 16,
}
_FEATURES = {"features": "last"}


@pytest.fixture(scope="module", name="data")
def fixture_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ner")
    toy.write_all(folder, num_layers=1)
    return folder


@pytest.fixture(name="folder")
def fixture_folder(data, tmp_path):
    """A folder of its own for the test, with the same data."""
    for path in data.glob("*.*"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.fixture(scope="module", name="learned")
def fixture_learned(data):
    toy.run(data, **_LEARNING)
    return data / "out"


@pytest.fixture(name="out")
def fixture_out(learned, folder):
    """A copy of what was learned, beside the data."""
    return shutil.copytree(learned, folder / "out")


def _run(folder, *stages, **changes):
    """Runs stages of a model that was trained."""
    named = {**_LEARNING, **dict.fromkeys(programs.STAGES, False)}
    named |= {"init_checkpoint": None, **dict.fromkeys(stages, True)}
    toy.run(folder, **{**named, **changes})


def test_grammar_is_learnt_by_fine_tuning(learned):
    assert programs.results(learned / "eval_results.txt")["eval_f1"] > 0.95
    assert programs.results(learned / "test_results.txt")["test_f1"] > 0.95


@pytest.mark.integration
def test_grammar_is_learnt_from_features(folder):
    changes = {"learning_rate": 1e-2, "num_train_epochs": 8, **_FEATURES}
    toy.run(folder, **{**_LEARNING, **changes})
    results = programs.results(folder / "out" / "test_results.txt")
    assert results["test_f1"] > 0.95


def test_results_are_sorted_and_those_of_the_predictions(data, learned):
    text = (learned / "test_results.txt").read_text()
    names = [line.split(" = ")[0] for line in text.splitlines()]
    assert names == sorted(names)
    assert {"test_f1", "test_precision_PER"} <= set(names)
    assert [n for n in names if n[:5] != "test_"] == ["global_step"]

    written = conll.read(str(learned / "test_predictions.txt"), (0, -1))
    gold = conll.read(str(learned / "test_predictions.txt"), (0, 1))
    given = conll.read(str(data / "test.txt"), conll.WORD_AND_TAG)
    assert [s.words for s in written.sentences] == [
        s.words for s in given.sentences
    ]
    assert [s.tags for s in gold.sentences] == [s.tags for s in given.sentences]
    scores = entities.score(
        [s.tags for s in gold.sentences], [s.tags for s in written.sentences]
    )
    results = programs.results(learned / "test_results.txt")
    assert results["test_f1"] == pytest.approx(scores.overall.f1 / 100)
    report = (learned / "test_report.txt").read_text()
    assert report == scores.report()
    results = programs.results(learned / "eval_results.txt")
    assert 0 < results["eval_loss"] < 0.5


def _by_word(folder):
    """Writes files of a tag for each word; without O, as parts of speech."""
    for name in ("train.txt", "valid.txt", "test.txt"):
        text = (folder / name).read_text()
        text = re.sub(r" O\n", " WORD\n", text.replace(" -X- O\n", "\n"))
        (folder / name).write_text(re.sub(" [BI]-", " NAME-", text))


def test_parts_of_speech_are_labels_of_words_as_they_are(folder):
    _by_word(folder)
    toy.run(folder, **{**_SHORT, "num_train_epochs": 1, "eval_every_steps": 5})
    out = folder / "out"
    description = toy_files.read_json(out / "task.json")
    assert description["labels"] == ["NAME-LOC", "NAME-ORG", "NAME-PER", "WORD"]
    assert description["scheme"] == "words"
    assert checkpoints.read(str(out))["output_bias"].shape == (4,)
    for split, name in (("eval", "valid.txt"), ("test", "test.txt")):
        rows = [
            line.split()
            for line in (out / f"{split}_predictions.txt").open()
            if line != "\n"
        ]
        gold = conll.read(str(folder / name), conll.WORD_AND_TAG)
        assert [row[1] for row in rows] == list(itertools.chain(*gold.tags))
        assert {row[2] for row in rows} <= {*description["labels"]}
        results = programs.results(out / f"{split}_results.txt")
        right = [row[1] == row[2] for row in rows]
        assert 0.3 < np.mean(right) < 1
        assert results[f"{split}_accuracy"] == pytest.approx(np.mean(right))
        assert not [name for name in results if "f1" in name]
        assert not (out / f"{split}_report.txt").exists()
    best = toy_files.read_json(out / "best" / "best.json")
    assert best["metric"] == "accuracy"


def test_a_finished_run_predicts_without_training_data(learned, folder, out):
    before = (learned / "test_predictions.txt").read_text()
    scores = {path.name: path.read_text() for path in out.glob("test_*.txt")}
    for name in ("train.txt", "valid.txt"):
        (folder / name).unlink()
    # Words alone.
    lines = toy_files.read_lines(folder / "test.txt")
    words = [line.split(" ")[0] for line in lines]
    toy_files.write_lines(folder / "new words.txt", words)
    expected = "".join(
        f"{row[0]} {row[2]}\n" if row else "\n"
        for row in map(str.split, before.splitlines())
    )
    # Also in another folder; Hugging Face's config has the tags, too.
    theirs = tool_runs.converted(learned, folder / "theirs", "huggingface")
    for number, start in enumerate((None, learned, theirs)):
        target = folder / f"new-{number}" if start else out
        _run(
            folder,
            "do_predict",
            predict_file=folder / "new words.txt",
            init_checkpoint=start,
            output_dir=target,
        )
        assert (target / "new words_predictions.txt").read_text() == expected
    # The files of the test data with tags stay.
    assert len(scores) == 3
    for name, text in scores.items():
        assert (out / name).read_text() == text


def test_types_that_the_model_lacks_count_as_missed(folder, out, caplog):
    text = "Ann X X B-PER\nis X X O\n\nmade X X B-X\nof X X I-X\nus X X B-Y\n"
    text += "\nby X X B-X\n"
    (folder / "valid.txt").write_text(text)
    with caplog.at_level("WARNING"):
        _run(folder, "do_eval")
    warnings = [
        r.message for r in caplog.records if "entities are" in r.message
    ]
    assert len(warnings) == 1
    assert "valid.txt: 3 of 4 entities are of types" in warnings[0]
    assert "('X', 'Y'). They count as missed." in warnings[0]
    assert warnings[0].endswith(" It knows 'LOC', 'ORG', 'PER'.")
    results = programs.results(folder / "out" / "eval_results.txt")
    assert results["eval_recall"] == pytest.approx(1 / 4)
    assert results["eval_recall_X"] == results["eval_recall_Y"] == 0
    assert np.isfinite(results["eval_loss"])
    written = (folder / "out" / "eval_predictions.txt").read_text().split("\n")
    assert written[3].startswith("made B-X ")


def _with_outputs(source, target, names):
    """Writes a model with the means of outputs of another, by new names."""
    tensors = dict(checkpoints.read(str(source)))
    labels = toy_files.read_json(source / "task.json")["labels"]
    places = [[labels.index(label) for label in names[name]] for name in names]
    tensors = {
        name: np.stack([value[some].mean(axis=0) for some in places])
        if name.startswith("output_")
        else value
        for name, value in tensors.items()
        if "adam" not in name
    }
    target.mkdir()
    checkpoints.save(str(target / "model.ckpt"), tensors)
    for name in ("vocab.txt", "bert_config.json"):
        shutil.copy(source / name, target)
    # As in a folder of another program.
    values = {
        "task": "tagging",
        "do_lower_case": False,
        "max_seq_length": 40,
        "labels": list(names),
    }
    toy_files.write_json(target / "task.json", values)
    return target


def _evaluate(folder, model, **changes):
    scored = folder / "scored"
    _run(folder, "do_eval", init_checkpoint=model, output_dir=scored, **changes)
    return programs.eval_results(scored)


def _entities_of(model, text):
    predictor = predicting.Predictor(loading.read(str(model)), 4)
    (answer,) = predictor.predict([predictor.encode({"text": text})])
    return [(e["type"], e["text"]) for e in answer["entities"]]


def test_the_loss_is_a_mean_over_words(learned, folder):
    labels = toy_files.read_json(learned / "task.json")["labels"]
    alike = dict.fromkeys(labels, labels)
    model = _with_outputs(learned, folder / "alike", alike)
    # Of outputs that are all alike, every word has the loss of a guess.
    loss = _evaluate(folder, model)["eval_loss"]
    assert loss == pytest.approx(np.log(len(labels)), rel=1e-5)


def test_labels_that_are_types_are_scored_and_written_in_iob2(learned, folder):
    names = {"O": ["O"]}
    names |= {t: [f"B-{t}", f"I-{t}"] for t in ("LOC", "ORG", "PER")}
    model = _with_outputs(learned, folder / "types", names)
    results = _evaluate(folder, model)
    assert results["eval_f1"] > 0.5
    written = conll.read(str(folder / "scored/eval_predictions.txt"), (0, -1))
    tags = {tag for sentence in written.tags for tag in sentence}
    assert tags <= {"O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"}
    assert "I-PER" in tags
    # The loss is that of the types, not of other outputs.
    assert results["eval_loss"] < 2
    found = _entities_of(model, "Ann Moss lives in Oslo .")
    assert ("LOC", "Oslo") in found
    assert {kind for kind, _ in found} <= {"LOC", "ORG", "PER"}


@pytest.mark.integration
def test_labels_of_bilou_are_whole_entities(folder):
    for name in ("train.txt", "valid.txt"):
        rows = toy.bilou((folder / name).read_text())
        (folder / f"bilou_{name}").write_text(rows)
    out = folder / "out"
    changes = {"do_eval": False, "do_predict": False, "scheme": "raw"}
    files = {"train_file": folder / "bilou_train.txt"}
    toy.run(folder, **{**_LEARNING, **changes, **files})
    labels = toy_files.read_json(out / "task.json")["labels"]
    names = {n.removeprefix("B-"): [n] for n in labels if n[0] != "I"}
    assert {"O", "U-LOC", "L-PER", "B-ORG"} <= set(names)
    model = _with_outputs(out, folder / "bilou", names)
    for file in ("valid.txt", "bilou_valid.txt"):
        shutil.rmtree(folder / "scored", ignore_errors=True)
        results = _evaluate(folder, model, eval_file=folder / file)
        assert results["eval_f1"] > 0.9
        assert results["eval_accuracy"] > 0.9
        assert results["eval_loss"] < 0.5
    text = (folder / "scored/eval_predictions.txt").read_text()
    assert " I-PER\n" in text
    assert " L-PER\n" not in text and " U-" not in text
    found = _entities_of(model, "Ann Moss lives in New York .")
    assert found == [("PER", "Ann Moss"), ("LOC", "New York")]


def test_letters_without_types_are_one_kind_of_entity(folder):
    for name in ("train.txt", "valid.txt", "test.txt"):
        text = re.sub("([BI])-[A-Z]+", r"\1", (folder / name).read_text())
        (folder / name).write_text(text)
    toy.run(folder, **_SHORT)
    description = toy_files.read_json(folder / "out/task.json")
    assert description["labels"] == ["O", "B", "I"]
    results = programs.results(folder / "out/eval_results.txt")
    assert results["eval_f1"] == results["eval_f1_ENTITY"] > 0.5
    # One entity for each B of the file.
    report = (folder / "out/eval_report.txt").read_text()
    count = (folder / "valid.txt").read_text().count(" B\n")
    assert f"with {count} phrases" in report


def test_columns_and_scheme_are_those_of_the_model(folder, out):
    description = toy_files.read_json(out / "task.json")
    assert description["columns"] == "word:0,tag:-1"
    assert description["scheme"] == "iob"
    toy_files.change_json(
        out / "task.json", columns="word:1,tag:0", scheme="raw"
    )
    (folder / "valid.txt").write_text("PER\tAnn\nO\tfell\n")
    _run(folder, "do_eval")
    written = (out / "eval_predictions.txt").read_text().split("\n")
    assert written[0].startswith("Ann B-PER ")


def _task(options):
    trained = None
    if not options.do_train:
        trained = folder_lib.ModelFolder.open(options.output_dir)
    tokenizer = tokenization.open_tokenizer(options)
    return run_ner.learning.TaggingTask(options, tokenizer, trained)


def test_records_are_made_from_all_that_decides_them(data, learned, tmp_path):
    train = tmp_path / "train.txt"
    train.write_text("Ann X X B-PER\n\nMoss X X I-PER\n")

    def made_from(**changes):
        stages = {"do_train": True, "do_predict": False}
        options = toy.parse(
            toy.flags_of(data, **{**_SHORT, **stages, **changes})
        )
        (data_set,) = _task(options).data_sets("eval")
        return json.dumps(data_set.made_from, sort_keys=True)

    described = made_from()
    assert made_from() == described
    for changes in (
        {"context": "document"},
        {"columns": "word:0,tag:3"},
        {"eval_file": data / "test.txt"},
        # Other labels.
        {"train_file": train},
    ):
        assert made_from(**changes) != described, changes
    # The labels of a trained model are the same with any scheme.
    trained = {"do_train": False, "output_dir": learned}
    schemes = [made_from(**trained, scheme=name) for name in ("iob", "raw")]
    assert schemes[0] == described != schemes[1]


def _tags_of(data, **changes):
    """Reads the files of a run; returns the tags in IOB2 by split."""
    options = toy.parse(toy.flags_of(data, **{**_SHORT, **changes}))
    task = _task(options)
    return {
        split: task.data_sets(split)[0].content.tags
        for split in options.needed_splits
    }


def test_files_without_training_decide_the_scheme_together(
    data, learned, tmp_path
):
    # The tags of the second file alone would be of single words.
    (tmp_path / "dev.txt").write_text("a A\nb O\n")
    (tmp_path / "test.txt").write_text("a A\nb A\n\nc B\n")
    tags = _tags_of(
        data,
        do_train=False,
        output_dir=learned,
        eval_file=tmp_path / "dev.txt",
        predict_file=tmp_path / "test.txt",
    )
    assert tags == {
        "eval": [("B-A", "O")],
        "predict": [("B-A", "I-A"), ("B-B",)],
    }


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("eval.txt", "unlabeled_eval_predictions.txt"),
        ("Eval", "unlabeled_Eval_predictions.txt"),
        ("test.txt", "test_predictions.txt"),
        ("new.words.txt", "new.words_predictions.txt"),
    ],
)
def test_words_without_tags_keep_the_answers_of_the_dev_set(
    folder, out, name, written
):
    before = (out / "eval_predictions.txt").read_bytes()
    (folder / name).write_text("Ann\nfell\n")
    _run(folder, "do_predict", predict_file=folder / name)
    assert (out / "eval_predictions.txt").read_bytes() == before
    answers = (out / written).read_text().split("\n")
    assert [row.split(" ")[0] for row in answers[:2]] == ["Ann", "fell"]
    assert len(answers[0].split(" ")) == 2
    # The scores stay if they are those of the answers beside them.
    replaced = written == "test_predictions.txt"
    for scores in ("test_results.txt", "test_report.txt"):
        assert (out / scores).exists() is not replaced


@pytest.mark.integration
def test_schemes_and_columns_of_files_do_not_matter(folder):
    changes = {**_SHORT, "num_train_epochs": 0.1, "do_eval": False}
    toy.run(folder, **changes)
    for name in ("train.txt", "test.txt"):
        _rewrite_as_iobes(folder / name)
    changes |= {"columns": "tag:0,word:2", "output_dir": folder / "iobes"}
    toy.run(folder, **changes)
    for name in ("train.tf_record", "predict.tf_record"):
        expected = (folder / "out" / name).read_bytes()
        assert (folder / "iobes" / name).read_bytes() == expected


def _rewrite_as_iobes(path):
    rows = [line.split() for line in path.read_text().splitlines()]
    lines = []
    for row, after in zip(rows, [*rows[1:], []], strict=True):
        if not row or row[0] == conll.DOCUMENT_START:
            lines.append("\t".join(reversed(row)))
            continue
        letter, kind = row[3][:1], row[3][1:]
        if letter != "O" and not (after and after[3].startswith("I")):
            letter = {"B": "S", "I": "E"}[letter]
        lines.append(f"{letter}{kind}\tX\t{row[0]}")
    toy_files.write_lines(path, lines)


@pytest.mark.integration
def test_features_train_the_head_alone(folder):
    flags = {"do_eval": True, "do_predict": False, **_FEATURES}
    toy.run(folder, do_train=True, num_train_epochs=0.1, **flags)
    with pytest.raises(ValueError, match="features is 'last' there and"):
        toy.run(folder, do_train=True, **{**flags, "features": "embeddings"})
    before = checkpoints.read(str(folder / "bert.ckpt"))
    after = checkpoints.read(str(folder / "out"))
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)
    moments = {name for name in after if name.endswith("adam_m")}
    assert {name.split("/")[0] for name in moments} == {
        "features",
        "output_weights",
        "output_bias",
    }
    for name in moments:
        assert np.any(after[name]), name


def test_labels_of_words_do_not_mark_the_entities_of_files(learned, folder):
    names = {"NAME": ["B-PER", "B-LOC", "B-ORG"], "WORD": ["O"]}
    model = _with_outputs(learned, folder / "words", names)
    with pytest.raises(ValueError, match=r"words are of single words, and th"):
        _evaluate(folder, model)
    # Its own tags, and words without tags, are answered.
    (folder / "pos.txt").write_text("Ann NAME\n\nfell WORD\nhigh ADV\n")
    results = _evaluate(folder, model, eval_file=folder / "pos.txt")
    assert results["eval_accuracy"] == pytest.approx(2 / 3)
    (folder / "plain.txt").write_text("Ann\nfell\n")
    _run(
        folder,
        "do_predict",
        init_checkpoint=model,
        output_dir=folder / "answered",
        predict_file=folder / "plain.txt",
    )
    written = (folder / "answered/plain_predictions.txt").read_text()
    assert written == "Ann NAME\nfell WORD\n\n"
    asked = loading.read(str(model))
    predictor = predicting.Predictor(asked, 4)
    example = {"text": "Ann fell"}
    answers = predictor.predict([predictor.encode(example)])
    assert answers == [{"words": ["Ann", "fell"], "tags": ["NAME", "WORD"]}]
    lines = asked.show(example, answers[0]).splitlines()
    assert lines == ["Ann fell", "  NAME  Ann", "  WORD  fell"]


@pytest.mark.integration
def test_documents_are_asked_as_they_were_learned(folder, caplog):
    toy.run(folder, **{**_SHORT, "context": "document", "max_seq_length": 40})
    model = loading.read(str(folder / "out"))
    assert "trained on sentences in their documents" in caplog.text
    file = conll.read(str(folder / "out/test_predictions.txt"), (0, -1))
    given = conll.read(str(folder / "test.txt"), conll.WORD_AND_TAG)
    predictor = predicting.Predictor(model, 4)
    for _, group in itertools.groupby(
        zip(given.sentences, file.tags, strict=True), lambda p: p[0].document
    ):
        sentences, tags = zip(*group, strict=True)
        text = "\n".join(" ".join(s.words) for s in sentences)
        (answer,) = predictor.predict([predictor.encode({"text": text})])
        assert answer["words"] == text.split()
        numbers = itertools.accumulate(map(len, tags), initial=0)
        asked = [
            tag_schemes.to_iob2(answer["tags"][start:stop])
            for start, stop in itertools.pairwise(numbers)
        ]
        assert asked == [*tags]

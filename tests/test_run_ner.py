"""run_ner.py from files to scores, on made sentences."""

import json
import os
import shutil

import numpy as np
import pytest

from modeling import checkpoints
from tasks.tagging import conll, entities
from tests import programs
from tests import toy_tagging as toy
from tools import convert_checkpoint

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
    for name in os.listdir(data):
        if (data / name).is_file():
            shutil.copy(data / name, tmp_path)
    return tmp_path


@pytest.fixture(scope="module", name="learned")
def fixture_learned(data):
    toy.run(data, **_LEARNING)
    return data / "out"


def test_grammar_is_learnt_by_fine_tuning(learned):
    assert programs.results(learned / "eval_results.txt")["eval_f1"] > 0.95
    assert programs.results(learned / "test_results.txt")["test_f1"] > 0.95


@pytest.mark.slow
def test_grammar_is_learnt_from_features(folder):
    changes = {"learning_rate": 1e-2, "num_train_epochs": 8, **_FEATURES}
    toy.run(folder, **{**_LEARNING, **changes})
    results = programs.results(folder / "out" / "test_results.txt")
    assert results["test_f1"] > 0.95


def test_results_are_sorted_and_those_of_the_predictions(data, learned):
    text = (learned / "test_results.txt").read_text()
    names = [line.split(" = ")[0] for line in text.splitlines()]
    assert names == sorted(names)
    assert {"test_f1", "test_precision_PER", "global_step"} <= set(names)

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


@pytest.mark.slow
def test_the_training_file_decides_the_scheme_of_all_files(folder):
    # The letters of the dev file alone would be types.
    (folder / "train.txt").write_text("a I-I\nb E-I\n\nc I-E\n")
    (folder / "valid.txt").write_text("a I-I\nb E-I\n\nc O\n")
    (folder / "test.txt").write_text("c I\na E\n")
    toy.run(folder, **{**_SHORT, "do_predict": False, "train_batch_size": 2})
    description = json.loads((folder / "out/task.json").read_text())
    assert description["scheme"] == "iob"
    changes = {"do_train": False, "do_eval": False, "init_checkpoint": None}
    with pytest.raises(ValueError, match="line 1: the tag 'I' of 'c' is not"):
        toy.run(folder, **{**_SHORT, **changes})
    # Raw tags that look like letters stay what they are.
    (folder / "train.txt").write_text("a I\nb E\n\nc E\n")
    (folder / "valid.txt").write_text("a I\nb I\n")
    changes = {"do_predict": False, "output_dir": folder / "raw"}
    toy.run(folder, **{**_SHORT, **changes, "train_batch_size": 2})
    description = json.loads((folder / "raw/task.json").read_text())
    assert description["scheme"] == "raw"
    assert description["labels"] == ["O", "B-E", "I-E", "B-I", "I-I"]


def test_a_finished_run_predicts_without_training_data(learned, folder):
    before = (learned / "test_predictions.txt").read_text()
    shutil.copytree(learned, folder / "out")
    scores = {
        path.name: path.read_text()
        for path in (folder / "out").glob("test_*.txt")
    }
    for name in ("train.txt", "valid.txt"):
        (folder / name).unlink()
    # Words alone.
    lines = (folder / "test.txt").read_text().splitlines()
    words = [f"{line.split(' ')[0]}\n" if line else "\n" for line in lines]
    (folder / "new words.txt").write_text("".join(words))
    changes = {"do_train": False, "do_eval": False, "init_checkpoint": None}
    changes |= {"predict_file": folder / "new words.txt"}
    toy.run(folder, **{**_LEARNING, **changes})
    after = (folder / "out" / "new words_predictions.txt").read_text()
    assert after == "".join(
        f"{row[0]} {row[2]}\n" if row else "\n"
        for row in map(str.split, before.splitlines())
    )
    # Also in another folder.
    other = {"init_checkpoint": learned, "output_dir": folder / "new"}
    toy.run(folder, **{**_LEARNING, **changes, **other})
    assert (folder / "new/new words_predictions.txt").read_text() == after
    # Hugging Face's config has the tags.
    convert_checkpoint.convert(
        programs.parse(
            convert_checkpoint.Options,
            input=learned,
            output=folder / "theirs",
            output_format="huggingface",
        )
    )
    other |= {"init_checkpoint": folder / "theirs", "output_dir": folder / "n2"}
    toy.run(folder, **{**_LEARNING, **changes, **other})
    assert (folder / "n2/new words_predictions.txt").read_text() == after
    # The files of the test data with tags stay.
    assert len(scores) == 3
    for name, text in scores.items():
        assert (folder / "out" / name).read_text() == text
    # An unknown tag is named with its file and line.
    (folder / "new words.txt").write_text("Ann X X B-PER\n\nmade X X B-X\n")
    message = r"new words.txt, line 3: the tag 'B-X' of 'made' .*LOC"
    with pytest.raises(ValueError, match=message):
        toy.run(folder, **{**_LEARNING, **changes})


@pytest.mark.slow
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
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.slow
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


def test_a_file_without_entities_is_refused(folder):
    for name in ("train.txt", "valid.txt", "test.txt"):
        (folder / name).write_text("it O\n")
    with pytest.raises(ValueError, match="expected at least one entity"):
        toy.run(folder, **_SHORT)

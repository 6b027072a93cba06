"""Folders that describe their models keep the settings of training."""

import dataclasses
import re
import shutil

import pytest

import run_classifier
import run_ner
import run_squad
import run_swag
from bert.models import flag_defaults
from bert.models import folder as folder_lib
from bert.records import sidecars
from bert.training import fine_tuning
from tests.support import (
    programs,
    toy_files,
    toy_pretraining,
    toy_sentences,
    toy_squad,
    toy_swag,
    toy_tagging,
)
from vocab import tokenization


def _description(folder):
    return toy_files.read_json(folder / "task.json")


# --------------------------------------------- From pre-training to fine-tuning


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A model that was pre-trained on records of the toy vocabulary."""
    folder = tmp_path_factory.mktemp("pretraining")
    words = toy_sentences.WORDS
    toy_files.write_lines(folder / "words.txt", words)
    toy_pretraining.flags_of(folder)
    made_with = toy_pretraining.metadata_of(
        vocab_sha256=tokenization.vocab_sha256(words),
        flags={"vocab_file": str(folder / "words.txt")},
    )
    sidecars.write_metadata(str(folder / "records"), made_with)
    toy_pretraining.run(folder, num_train_steps=1)
    # As if the folder had been moved to another machine.
    (folder / "words.txt").unlink()
    return folder


def test_pretraining_describes_its_model(pretrained):
    words = toy_sentences.WORDS
    assert _description(pretrained / "out") == {
        "task": "pretraining",
        "objective": "mlm_nsp",
        "attention": "bidirectional",
        "max_seq_length": 10,
        "max_predictions_per_seq": 2,
        "vocab_sha256": tokenization.vocab_sha256(words),
        "do_lower_case": True,
        "strip_accents": True,
    }
    vocab = (pretrained / "out/vocab.txt").read_text()
    assert tuple(vocab.splitlines()) == words


def _fine_tune(pretrained, folder, words=toy_sentences.WORDS, **changes):
    model = toy_sentences.write_model(folder / "model")
    shutil.copy(pretrained / "bert_config.json", model)
    toy_files.write_lines(model / "vocab.txt", words)
    return toy_sentences.run(
        folder,
        do_train=True,
        num_train_epochs=0.1,
        max_seq_length=8,
        init_checkpoint=str(pretrained / "out"),
        **changes,
    )


@pytest.mark.parametrize("has_file", [True, False])
def test_another_vocabulary_than_that_of_pretraining_is_refused(
    pretrained, tmp_path, has_file
):
    start = shutil.copytree(pretrained, tmp_path / "start")
    message = "line 6: 'great', there 'good'"
    if not has_file:  # The records do not name the vocabulary's file.
        (start / "out/vocab.txt").unlink()
        message = "vocab_sha256 is '.*' there and '.*' here"
    words = [*toy_sentences.WORDS]
    words[5:7] = words[6], words[5]
    with pytest.raises(ValueError, match=message):
        _fine_tune(start, tmp_path / "run", words)


def test_a_refused_command_changes_nothing_in_a_folder(pretrained, tmp_path):
    start = shutil.copytree(pretrained / "out", tmp_path / "start")
    before = {p.name: p.read_bytes() for p in start.iterdir()}
    with pytest.raises(ValueError, match="is the folder of --init_checkpoint"):
        toy_sentences.run(
            tmp_path,
            do_train=True,
            init_checkpoint=str(start),
            output_dir=str(start),
        )
    assert {p.name: p.read_bytes() for p in start.iterdir()} == before


def test_another_casing_than_that_of_pretraining_is_refused(
    pretrained, tmp_path
):
    with pytest.raises(ValueError, match="do_lower_case is True there and Fal"):
        _fine_tune(pretrained, tmp_path, do_lower_case=False)


def test_the_text_of_pretraining_fits_fine_tuning(pretrained, tmp_path):
    model = toy_sentences.write_model(tmp_path / "model")
    shutil.copy(pretrained / "bert_config.json", model)
    out = toy_sentences.run(
        tmp_path,
        do_train=True,
        num_train_epochs=0.1,
        max_seq_length=8,
        init_checkpoint=str(pretrained / "out"),
    )
    assert _description(out)["labels"] == ["no", "yes"]


# ---- Evaluation and prediction


def _squad(folder):
    names = ("max_answer_length", "doc_stride", "max_query_length")
    flags = toy_squad.flags_of(
        folder, max_seq_length=80, **dict.fromkeys(names)
    )
    return run_squad, run_squad.learning.QuestionAnsweringTask, flags


def _tagging(folder):
    return run_ner, run_ner.learning.TaggingTask, toy_tagging.flags_of(folder)


def _swag(folder):
    (folder / "train.csv").write_text("label,sent1,sent2,A,B\n1,wa,,wb,wa\n")
    flags = toy_swag.flags_of(folder)
    return run_swag, run_swag.learning.MultipleChoiceTask, flags


def _sentences(folder):
    flags = toy_sentences.flags_of(folder)
    task = run_classifier.learning.ClassificationTask
    return run_classifier, task, flags


def _xnli(folder):
    (folder / "data/multinli").mkdir(parents=True)
    toy_files.write_lines(
        folder / "data/xnli.dev.tsv",
        [
            "language\tgold_label\t\t\t\t\tsentence1\tsentence2",
            "de\tneutral\t\t\t\t\ta\tb",
            "zh\tneutral\t\t\t\t\tc\td",
        ],
    )
    toy_sentences.write_tsv(
        folder / "data/multinli/multinli.train.en.tsv",
        [("a", "b", "neutral")],
        ("premise", "hypo", "label"),
    )
    script, task, flags = _sentences(folder)
    columns = {"text_a_column": "", "label_column": ""}
    return script, task, {**flags, "task_name": "XNLI", **columns}


@pytest.mark.parametrize(
    ("make", "changes", "other"),
    [
        (_squad, {"doc_stride": 5, "packing": True}, 4),
        (_squad, {"n_best_size": 3, "max_answer_length": 6}, 4),
        (_squad, {"max_query_length": 9}, 8),
        (_squad, {"version_2_with_negative": True}, False),
        (_squad, {"null_score_diff_threshold": -1.5}, 0.5),
        (
            _tagging,
            {"context": "sentence", "columns": "word:0,tag:3"},
            "document",
        ),
        (_tagging, {"scheme": "iob", "features": "last"}, "raw"),
        (_swag, {"ending_columns": "A,B"}, "B,A"),
        (_sentences, {"dev_fraction": 0.25}, 0.5),
        (_sentences, {"text_b_column": "label"}, "text"),
        (_sentences, {"long_text": "windows"}, "head_tail"),
        (_xnli, {"xnli_language": "de", "xnli_mode": "zero_shot"}, "fr"),
    ],
)
def test_a_model_that_is_not_trained_keeps_its_flags(
    tmp_path, caplog, make, changes, other
):
    script, task, flags = make(tmp_path)

    def parse(**named):
        return programs.parse(script.Options, **{**flags, **named})

    trained = parse(do_train=True, **changes)
    tokenizer = tokenization.open_tokenizer(trained)
    # The accents follow the casing, so a command without a flag states none.
    description = dataclasses.replace(
        fine_tuning.description_of(task(trained, tokenizer)), strip_accents=None
    )
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.ckpt-1.index").touch()
    toy_files.write_json(out / "task.json", description.to_json())
    model = folder_lib.ModelFolder.open(str(out))
    caplog.set_level("WARNING")
    caplog.clear()
    followed = flag_defaults.fill(parse(do_predict=True), model, ())
    for name in changes:
        assert getattr(followed, name) == getattr(trained, name), name
    assert not caplog.messages
    # A flag of the command is followed, and the difference is named.
    name = next(iter(changes))
    given = parse(do_predict=True, **{name: other})
    followed = flag_defaults.fill(given, model, {name})
    assert getattr(followed, name) == getattr(given, name)
    (warning,) = caplog.messages
    values = [getattr(options, name) for options in (given, trained)]
    message = f"--{name}={values[0]} is not the value of the model in "
    assert warning.startswith(message)
    assert warning.endswith(f"which is {values[1]}.")


@pytest.mark.integration
def test_a_tagger_keeps_its_context_and_length(tmp_path, caplog):
    caplog.set_level("INFO")
    toy_tagging.write_all(tmp_path, num_sentences=60)
    settings = {"context": "sentence", "max_seq_length": 24}
    toy_tagging.run(
        tmp_path, do_train=True, do_eval=True, num_train_epochs=6, **settings
    )
    want = programs.results(tmp_path / "out/eval_results.txt")
    moved = shutil.move(tmp_path / "out", tmp_path / "moved")
    toy_tagging.run(
        tmp_path, output_dir=moved, do_eval=True, max_seq_length=None
    )
    assert programs.results(moved / "eval_results.txt") == want
    assert "--context=sentence" in caplog.text


_LONG_TEXT = {"long_text": "head_tail", "max_seq_length": 8}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A trained model; its data and configuration are beside `out`."""
    folder = tmp_path_factory.mktemp("classifier")
    toy_sentences.run(folder, do_train=True, do_eval=True, **_LONG_TEXT)
    return folder


def test_a_classifier_keeps_its_treatment_of_long_texts(classifier, tmp_path):
    moved = shutil.copytree(classifier / "out", tmp_path / "moved")
    toy_sentences.run(
        classifier, output_dir=moved, do_eval=True, max_seq_length=None
    )
    want = toy_sentences.results(classifier / "out")
    assert toy_sentences.results(moved) == want
    assert _description(moved)["long_text"] == "head_tail"


@pytest.mark.integration
def test_a_multi_label_model_keeps_its_kind(tmp_path):
    multi = {"problem_type": "multi_label"}
    stages = {"do_train": True, "do_predict": True, "num_train_epochs": 0.5}
    out = toy_sentences.run(tmp_path, **stages, **multi)
    want = (out / "predictions.jsonl").read_text()
    moved = shutil.copytree(out, tmp_path / "moved")
    (moved / "predictions.jsonl").unlink()
    toy_sentences.run(tmp_path, output_dir=moved, do_predict=True)
    assert (moved / "predictions.jsonl").read_text() == want


@pytest.mark.integration
@pytest.mark.parametrize("threshold", ["-1.5", "auto"])
def test_a_model_of_squad_2_keeps_its_version_and_threshold(
    tmp_path, threshold
):
    version = {
        "version_2_with_negative": True,
        "null_score_diff_threshold": threshold,
    }
    toy_squad.run(tmp_path, **programs.STAGES, **version)
    want = toy_files.read_json(tmp_path / "out/predictions.json")
    moved = shutil.copytree(tmp_path / "out", tmp_path / "moved")
    lengths = dict.fromkeys(
        ("max_seq_length", "max_query_length", "doc_stride")
    )
    toy_squad.run(
        tmp_path,
        output_dir=moved,
        do_predict=True,
        max_answer_length=None,
        **lengths,
    )
    assert toy_files.read_json(moved / "predictions.json") == want
    assert "" in want.values()
    number = _description(moved)["null_score_diff_threshold"]
    assert isinstance(number, float) and (threshold == "auto" or number == -1.5)


# ---- Folders of the original program


def test_labels_that_a_folder_does_not_say_are_asked_for_once(
    classifier, tmp_path
):
    out = shutil.copytree(classifier / "out", tmp_path / "out")
    flags = {"output_dir": out, "do_eval": True, **_LONG_TEXT}
    want = toy_sentences.results(out)["eval_accuracy"]
    # The original program writes neither of these.
    (out / "task.json").unlink()
    for path in out.glob("*.state.json"):
        path.unlink()
    message = re.escape(f"{out} does not say the labels of its model")
    with pytest.raises(ValueError, match=message):
        toy_sentences.run(classifier, **flags)
    toy_sentences.run(classifier, **flags, label_names="yes,no")
    assert toy_sentences.results(out)["eval_accuracy"] < want
    # The order was wrong, which only its owner knows.
    toy_sentences.run(classifier, **flags, label_names="no,yes")
    assert toy_sentences.results(out)["eval_accuracy"] == want
    toy_sentences.run(classifier, **flags)
    assert toy_sentences.results(out)["eval_accuracy"] == want
    assert _description(out)["labels"] == ["no", "yes"]

"""Bidirectional programs refuse a left-to-right model."""

import json
import pathlib
import shutil

import pytest

import extract_features
from modeling import checkpoints
from serving import run_folder
from tests import toy_pretraining
from tools import (
    convert_checkpoint,
    export_model,
    extend_vocab,
    plot_attention,
    predict_masked,
)
from training import checkpointing, model_folder
from training import flags as training_flags

_GOLDEN = pathlib.Path(__file__).parent / "golden"
_CONFIG = str(_GOLDEN / "inputs/bert_config.json")
_VOCAB = str(_GOLDEN / "inputs/vocab.txt")


@pytest.fixture(params=[{"objective": "ltr"}, {"attention": "causal"}])
def model(tmp_path, request):
    """Names a checkpoint whose state says that it reads left to right."""
    for path in (_GOLDEN / "model").glob("tiny.ckpt*"):
        shutil.copy(path, tmp_path)
    prefix = tmp_path / "tiny.ckpt"
    identity = {"identity": request.param, "loss_scale": None}
    (tmp_path / "tiny.ckpt.state.json").write_text(json.dumps(identity))
    return str(prefix)


def _files(model):
    return {
        "bert_config_file": _CONFIG,
        "vocab_file": _VOCAB,
        "init_checkpoint": model,
    }


def _extract(model, output):
    named = {"input_file": _VOCAB, "output_file": output, "layers": "-1"}
    extract_features.run(extract_features.Options(**named, **_files(model)))


def _predict(model, output):
    named = {"text": "a [MASK]", "output_file": output}
    options = predict_masked.Options(**named, **_files(model))
    predict_masked.run(options)


def _plot(model, output):
    named = {"text": "a word", "output_file": output}
    plot_attention.run(plot_attention.Options(**named, **_files(model)))


def _convert(model, output):
    named = {"input": model, "output": output, "bert_config_file": _CONFIG}
    options = convert_checkpoint.Options(**named, output_format="huggingface")
    convert_checkpoint.convert(options)


def _export(model, output):
    named = {"export_dir": output, "task": "embed"}
    export_model.run(export_model.Options(**named, **_files(model)))


def _pretrain(model, output):
    named = {"init_checkpoint": model, "output_dir": output}
    folder = pathlib.Path(model).parent / "pretraining"
    toy_pretraining.run(folder, **named)


@pytest.mark.parametrize(
    "program", [_extract, _predict, _plot, _convert, _export]
)
def test_a_left_to_right_model_is_refused(tmp_path, model, program):
    output = tmp_path / "output"
    with pytest.raises(ValueError, match=r"tiny\.ckpt was trained from left"):
        program(model, str(output))
    assert not output.exists()


def test_words_are_not_added_to_a_left_to_right_model(tmp_path, model):
    words = tmp_path / "words.txt"
    words.write_text("newword\n")
    output = tmp_path / "out"
    options = extend_vocab.Options(
        vocab_file=_VOCAB,
        words_file=str(words),
        output_file=str(output / "vocab.txt"),
        init_checkpoint=model,
        output_checkpoint=str(output / "more.ckpt"),
    )
    with pytest.raises(ValueError, match="trained from left to right"):
        extend_vocab.run(options)
    assert not output.exists()


def test_bidirectional_pretraining_refuses_a_left_to_right_checkpoint(
    tmp_path, model
):
    with pytest.raises(ValueError, match=r"attention, and this run"):
        _pretrain(model, str(tmp_path / "out"))


def test_the_folder_of_a_left_to_right_model_is_refused(tmp_path, model):
    with pytest.raises(ValueError, match="trained from left to right"):
        model_folder.check_bidirectional(str(tmp_path))
    (tmp_path / "tiny.ckpt.state.json").unlink()
    model_folder.check_bidirectional(
        str(tmp_path)
    )  # Made elsewhere: nothing is known.
    model_folder.check_bidirectional(str(tmp_path / "absent"))


def test_a_left_to_right_best_checkpoint_is_refused(tmp_path):
    import tensorflow as tf

    best = checkpointing.BestCheckpoint(
        str(tmp_path), "f1", identity={"attention": training_flags.CAUSAL}
    )
    best.offer(3, {"f1": 0.5}, {"x": tf.Variable(1.0)})
    saved = checkpointing.latest(str(tmp_path / "best"))
    with pytest.raises(ValueError, match="trained from left to right"):
        model_folder.check_bidirectional(saved)


def test_programs_without_a_bilstm_refuse_a_model_that_has_one(tmp_path):
    values = checkpoints.read(str(_GOLDEN / "model/tiny.ckpt"))
    values |= {"bilstm/forward/kernel": values["bert/pooler/dense/bias"]}
    prefix = str(tmp_path / "tiny.ckpt")
    checkpoints.save(prefix, values)
    found = run_folder.find(None, prefix)
    with pytest.raises(ValueError, match=r"has a BiLSTM .* --task=embed"):
        found.task  # noqa: B018
    found.check_task(run_folder.EMBED)
    with pytest.raises(ValueError, match=r"has a BiLSTM .* do not support"):
        _convert(prefix, str(tmp_path / "hf"))

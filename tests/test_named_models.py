"""One flag names a model: a folder of transformers 5, or its address."""

import functools

import numpy as np
import pytest

import extract_features
import run_classifier
import run_ner
import run_squad
from bert.training import fine_tuning
from modeling import checkpoints, heads, huggingface
from modeling import config as config_lib
from tests.support import (
    heads_of_tasks,
    hub_server,
    programs,
    tool_runs,
    toy_files,
    toy_sentences,
)

_WORDS = toy_sentences.WORDS
_CONFIG = config_lib.BertConfig(
    vocab_size=len(_WORDS),
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=96,
    type_vocab_size=2,
)
_PIPELINE = {
    "added_tokens": [
        {"id": number, "content": token}
        for number, token in enumerate(_WORDS)
        if token.startswith("[")
    ],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "vocab": {word: number for number, word in enumerate(_WORDS)},
    },
}
_TOKENIZER = {
    "backend": "tokenizers",
    "do_lower_case": True,
    "model_max_length": 80,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "tokenizer_class": "BertTokenizer",
}
_HEADS = {
    **heads_of_tasks.HEADS,
    "masks": heads_of_tasks.Head(
        make=functools.partial(heads.BertForPreTraining, objective="mlm"),
        architecture="BertForMaskedLM",
        entries={},
    ),
}


def _write(folder, kind):
    """Writes a folder as `save_pretrained` of transformers 5 does."""
    head = _HEADS[kind]
    folder.mkdir(parents=True)
    weights = {
        name: np.asarray(variable)
        for name, variable in checkpoints.variables_by_name(
            head.make(_CONFIG)
        ).items()
    }
    huggingface.write(str(folder), weights, 1, [head.architecture])
    labels = head.entries.get("labels", ())
    named = {"id2label": dict(enumerate(labels))} if labels else {}
    config = {
        **_CONFIG.to_dict(),
        "model_type": "bert",
        "architectures": [head.architecture],
        **named,
    }
    toy_files.write_json(folder / "config.json", config)
    toy_files.write_json(folder / "tokenizer.json", _PIPELINE)
    toy_files.write_json(folder / "tokenizer_config.json", _TOKENIZER)
    return folder


@pytest.fixture
def folder(tmp_path, request):
    return _write(tmp_path / "model", request.param)


def _custom(tmp_path, model, **changes):
    return programs.parse(
        run_classifier.Options,
        task_name="custom",
        data_dir=tmp_path / "data",
        text_a_column="text",
        label_column="label",
        init_checkpoint=model,
        output_dir=tmp_path / "out",
        **changes,
    )


@pytest.mark.parametrize("folder", ["classification"], indirect=True)
def test_a_classifier_of_transformers_is_trained_and_evaluated(
    tmp_path, folder
):
    toy_sentences.write_data(tmp_path / "data", toy_sentences.sentences(40, 1))
    options = _custom(tmp_path, folder, do_eval=True, do_predict=True)
    fine_tuning.run(run_classifier.learning.ClassificationTask, options)
    assert "eval_accuracy" in (tmp_path / "out/eval_results.txt").read_text()
    assert not (tmp_path / "out/task.json").exists()
    options = _custom(tmp_path, folder, do_train=True, num_train_epochs=1.0)
    fine_tuning.run(run_classifier.learning.ClassificationTask, options)
    described = toy_files.read_json(tmp_path / "out/task.json")
    assert described["do_lower_case"] is True
    assert described["labels"] == ["no", "yes"]
    # The default of 128 is more than the network has positions.
    assert described["max_seq_length"] == 96
    words = toy_files.read_lines(tmp_path / "out/vocab.txt")
    assert words == list(_WORDS)


@pytest.mark.parametrize("folder", ["tagging"], indirect=True)
def test_a_tagger_of_transformers_is_evaluated_by_its_length(tmp_path, folder):
    tags = zip(("the", "good", "match"), ("O", "B-X", "I-X"), strict=True)
    rows = "".join(f"{word} {tag}\n" for word, tag in tags)
    (tmp_path / "dev.txt").write_text(f"{rows}\n{rows}")
    options = programs.parse(
        run_ner.Options,
        init_checkpoint=folder,
        eval_file=tmp_path / "dev.txt",
        output_dir=tmp_path / "out",
        do_eval=True,
    )
    fine_tuning.run(run_ner.learning.TaggingTask, options)
    assert "eval_f1" in (tmp_path / "out/eval_results.txt").read_text()


@pytest.mark.parametrize(
    ("folder", "line", "key"),
    [
        ("classification", "the match was good", "label"),
        ("tagging", "the match was good", "tags"),
        ("question_answering", "the ? ||| the match", "answer"),
        ("masks", "the [MASK] was good", "masks"),
    ],
    indirect=["folder"],
)
def test_models_of_transformers_answer_export_and_convert(
    tmp_path, folder, line, key
):
    (answer,) = tool_runs.answers(folder, line)
    assert key in answer
    version = tool_runs.exported(folder, tmp_path / "served")
    release = tool_runs.converted(folder, tmp_path / "release", "release")
    for path in (f"{version}/assets/vocab.txt", release / "vocab.txt"):
        assert toy_files.read_lines(path) == list(_WORDS)
    assert toy_files.read_json(f"{version}/model.json")["max_seq_length"] == 80


@pytest.mark.parametrize("folder", ["question_answering"], indirect=True)
def test_an_answerer_of_transformers_predicts(tmp_path, folder):
    paragraph = {
        "context": "the match was good",
        "qas": [{"id": "q", "question": "the ?", "answers": []}],
    }
    data = {"version": "1.1", "data": [{"paragraphs": [paragraph]}]}
    toy_files.write_json(tmp_path / "dev.json", data)
    options = programs.parse(
        run_squad.Options,
        init_checkpoint=folder,
        predict_file=tmp_path / "dev.json",
        output_dir=tmp_path / "out",
        max_query_length=8,
        do_predict=True,
    )
    fine_tuning.run(run_squad.learning.QuestionAnsweringTask, options)
    answers = toy_files.read_json(tmp_path / "out/predictions.json")
    assert answers["q"]


def _extract(tmp_path, model):
    (tmp_path / "lines.txt").write_text("the match was good\n")
    extract_features.run(
        programs.parse(
            extract_features.Options,
            init_checkpoint=model,
            input_file=tmp_path / "lines.txt",
            output_file=tmp_path / "vectors.jsonl",
            layers="-1",
        )
    )
    (row,) = toy_files.read_json_lines(tmp_path / "vectors.jsonl")
    return row["features"]


@pytest.fixture
def address(tmp_path, folder, monkeypatch):
    """Publishes the model of the folder; returns its address."""
    with hub_server.running() as site:
        hub_server.use(monkeypatch, site.address, tmp_path / "home")
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        site.publish("lab/tiny", files)
        yield "hf://lab/tiny"


@pytest.mark.parametrize("folder", ["masks"], indirect=True)
def test_vectors_need_the_folder_or_its_address_alone(
    tmp_path, folder, address
):
    vectors = _extract(tmp_path, folder)
    tokens = ["[CLS]", "the", "match", "was", "good", "[SEP]"]
    assert [vector["token"] for vector in vectors] == tokens
    assert _extract(tmp_path, address) == vectors


@pytest.mark.parametrize("folder", ["masks"], indirect=True)
def test_fine_tuning_starts_from_an_address(tmp_path, address):
    toy_sentences.write_data(tmp_path / "data", toy_sentences.sentences(40, 1))
    options = _custom(tmp_path, address, do_train=True, num_train_epochs=1.0)
    fine_tuning.run(run_classifier.learning.ClassificationTask, options)
    # The folder of the run needs the address no more.
    out = tmp_path / "out"
    assert toy_files.read_json(out / "task.json")["labels"] == ["no", "yes"]
    (answer,) = tool_runs.answers(out, "the match was good")
    assert answer["label"] in ("no", "yes")

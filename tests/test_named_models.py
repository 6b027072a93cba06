"""One flag names a model: a folder of transformers 5, or its address."""

import io
import json

import numpy as np
import pytest

import extract_features
import run_classifier
import run_ner
import run_squad
from bert.training import fine_tuning
from modeling import checkpoints, heads, huggingface
from modeling import config as config_lib
from tests.support import hub_server, programs, toy_sentences
from tools import convert_checkpoint, export_model, predict

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
_LABELS = {"0": "no", "1": "yes"}
_TAGS = {"0": "O", "1": "B-X", "2": "I-X"}
_KINDS = {
    "BertForSequenceClassification": (
        lambda: heads.BertForSequenceClassification(_CONFIG, num_labels=2),
        {"id2label": _LABELS},
    ),
    "BertForTokenClassification": (
        lambda: heads.BertForTokenClassification(_CONFIG, num_labels=3),
        {"id2label": _TAGS},
    ),
    "BertForQuestionAnswering": (
        lambda: heads.BertForQuestionAnswering(_CONFIG),
        {},
    ),
    "BertForMaskedLM": (
        lambda: heads.BertForPreTraining(_CONFIG, objective="mlm"),
        {},
    ),
}


def _write(folder, kind):
    """Writes a folder as `save_pretrained` of transformers 5 does."""
    make, more = _KINDS[kind]
    folder.mkdir(parents=True)
    weights = {
        name: np.asarray(variable)
        for name, variable in checkpoints.variables_by_name(make()).items()
    }
    huggingface.write(str(folder), weights, 1, [kind])
    sizes = {**_CONFIG.to_dict(), "model_type": "bert", "architectures": [kind]}
    for name, values in (
        ("config", {**sizes, **more}),
        ("tokenizer", _PIPELINE),
        ("tokenizer_config", _TOKENIZER),
    ):
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


@pytest.fixture
def folder(tmp_path, request):
    return _write(tmp_path / "model", request.param)


def _described(folder):
    return json.loads((folder / "task.json").read_text())


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


@pytest.mark.parametrize(
    "folder", ["BertForSequenceClassification"], indirect=True
)
def test_a_classifier_of_transformers_is_trained_and_evaluated(
    tmp_path, folder
):
    toy_sentences.write_data(tmp_path / "data", toy_sentences.sentences(40, 1))
    options = _custom(tmp_path, folder, do_eval=True, do_predict=True)
    fine_tuning.run(run_classifier.learning.SentenceClassification, options)
    assert "eval_accuracy" in (tmp_path / "out/eval_results.txt").read_text()
    assert not (tmp_path / "out/task.json").exists()
    options = _custom(tmp_path, folder, do_train=True, num_train_epochs=1.0)
    fine_tuning.run(run_classifier.learning.SentenceClassification, options)
    described = _described(tmp_path / "out")
    assert described["do_lower_case"] is True
    assert described["labels"] == ["no", "yes"]
    # The default of 128 is more than the network has positions.
    assert described["max_seq_length"] == 96
    lines = (tmp_path / "out/vocab.txt").read_text().splitlines()
    assert lines == list(_WORDS)


@pytest.mark.parametrize(
    "folder", ["BertForTokenClassification"], indirect=True
)
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
    fine_tuning.run(run_ner.learning.Tagging, options)
    assert "eval_f1" in (tmp_path / "out/eval_results.txt").read_text()


@pytest.mark.parametrize(
    ("folder", "line", "key"),
    [
        ("BertForSequenceClassification", "the match was good", "label"),
        ("BertForTokenClassification", "the match was good", "tags"),
        ("BertForQuestionAnswering", "the ? ||| the match", "answer"),
        ("BertForMaskedLM", "the [MASK] was good", "masks"),
    ],
    indirect=["folder"],
)
def test_models_of_transformers_answer_export_and_convert(
    tmp_path, folder, line, key
):
    answers = io.StringIO()
    options = predict.Options(model=str(folder), format="json")
    predict.run(options, [line], io.BytesIO(), answers)
    assert key in json.loads(answers.getvalue())
    version = export_model.run(
        export_model.Options(
            model_dir=str(folder), export_dir=str(tmp_path / "served")
        )
    )
    with open(f"{version}/assets/vocab.txt", encoding="utf-8") as file:
        assert file.read().splitlines() == list(_WORDS)
    with open(f"{version}/model.json", encoding="utf-8") as file:
        assert json.load(file)["max_seq_length"] == 80
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(folder),
            output=str(tmp_path / "release"),
            output_format="release",
        )
    )
    lines = (tmp_path / "release/vocab.txt").read_text().splitlines()
    assert lines == list(_WORDS)


@pytest.mark.parametrize("folder", ["BertForQuestionAnswering"], indirect=True)
def test_an_answerer_of_transformers_predicts(tmp_path, folder):
    paragraph = {
        "context": "the match was good",
        "qas": [{"id": "q", "question": "the ?", "answers": []}],
    }
    data = {"version": "1.1", "data": [{"paragraphs": [paragraph]}]}
    (tmp_path / "dev.json").write_text(json.dumps(data))
    options = programs.parse(
        run_squad.Options,
        init_checkpoint=folder,
        predict_file=tmp_path / "dev.json",
        output_dir=tmp_path / "out",
        max_query_length=8,
        do_predict=True,
    )
    fine_tuning.run(run_squad.learning.QuestionAnswering, options)
    answers = json.loads((tmp_path / "out/predictions.json").read_text())
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
    (line,) = (tmp_path / "vectors.jsonl").read_text().splitlines()
    return json.loads(line)["features"]


@pytest.mark.parametrize("folder", ["BertForMaskedLM"], indirect=True)
def test_vectors_need_the_folder_or_its_address_alone(
    tmp_path, folder, monkeypatch
):
    vectors = _extract(tmp_path, folder)
    tokens = ["[CLS]", "the", "match", "was", "good", "[SEP]"]
    assert [vector["token"] for vector in vectors] == tokens
    with hub_server.running() as site:
        hub_server.use(monkeypatch, site.address, tmp_path / "home")
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        site.publish("lab/tiny", files)
        assert _extract(tmp_path, "hf://lab/tiny") == vectors


@pytest.mark.parametrize("folder", ["BertForMaskedLM"], indirect=True)
def test_fine_tuning_starts_from_an_address(tmp_path, folder, monkeypatch):
    toy_sentences.write_data(tmp_path / "data", toy_sentences.sentences(40, 1))
    with hub_server.running() as site:
        hub_server.use(monkeypatch, site.address, tmp_path / "home")
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        site.publish("lab/tiny", files)
        options = _custom(
            tmp_path, "hf://lab/tiny", do_train=True, num_train_epochs=1.0
        )
        fine_tuning.run(run_classifier.learning.SentenceClassification, options)
    # The folder of the run needs the address no more.
    assert _described(tmp_path / "out")["labels"] == ["no", "yes"]
    model = predict.Options(model=str(tmp_path / "out"), format="json")
    answers = io.StringIO()
    predict.run(model, ["the match was good"], io.BytesIO(), answers)
    assert json.loads(answers.getvalue())["label"] in ("no", "yes")

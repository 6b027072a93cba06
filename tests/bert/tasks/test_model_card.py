"""Model cards, as the hub's own library reads them."""

import json

import huggingface_hub
import pytest

from bert.models import description as description_lib
from bert.tasks import model_card
from tests.support import toy_files

_TASK = {
    "task": "classification",
    "name": "MRPC",
    "labels": ["no", "ja: é|"],
    "vocab_sha256": "0" * 64,
}
_FLAGS = {
    "do_train": True,
    "init_checkpoint": "data/uncased_L-12_H-768_A-12/bert_model.ckpt",
    "task_name": "MRPC",
    "data_dir": "data/glue/MRPC",
    "learning_rate": 2e-5,
}
_COMMAND = [
    "/home/me/bert/run_classifier.py",
    "--learning_rate=2e-5",
    "--data_dir=/home/me/a b/",
    "--init_checkpoint=hf://lab/tiny",
    "--input_file=/secret/a.txt,b/c.txt",
]
_START = {"command": _COMMAND, "flags": _FLAGS, "commit": "abc"}
_SCORES = "eval_accuracy = 0.86\neval_f1 = 0.9\nglobal_step = 343\nloss = 0.5\n"


def _record(folder, *records):
    toy_files.write_json_lines(folder / "run.jsonl", records)


def _card(folder, description=_TASK, *, name="m", step=343):
    """Returns the metadata and the text of a card."""
    text = model_card.model_card(
        name,
        description_lib.Description.from_json(description),
        str(folder),
        step,
    )
    card = huggingface_hub.ModelCard(text)  # Reads the YAML.
    assert huggingface_hub.ModelCard(str(card)).data.to_dict() == (
        card.data.to_dict()
    )
    return card.data.to_dict(), card.text


def test_a_card_has_task_base_data_command_scores_and_commit(tmp_path):
    later = {"command": ["predict"], "flags": {"do_train": False}}
    _record(tmp_path, _START, {"outcome": "finished"}, later)
    (tmp_path / "eval_results.txt").write_text(_SCORES)
    metadata, text = _card(tmp_path)
    assert metadata == {
        "language": "en",
        "datasets": "nyu-mll/glue",
        "library_name": "transformers",
        "tags": ["bert"],
        "pipeline_tag": "text-classification",
        "metrics": ["accuracy", "f1"],
        "model-index": [
            {
                "name": "m",
                "results": [
                    {
                        "task": {"type": "text-classification"},
                        "dataset": {
                            "name": "GLUE MRPC",
                            "type": "nyu-mll/glue",
                            "config": "mrpc",
                            "split": "validation",
                        },
                        "metrics": [
                            {"type": "accuracy", "value": 0.86},
                            {"type": "f1", "value": 0.9},
                        ],
                    }
                ],
            }
        ],
    }
    for part in (
        "# m\n\nA BERT model for classification.",
        'model = pipeline("text-classification", model="m")\n'
        'print(model({"text": "The first text.", "text_pair": "The second ',
        '| labels | `["no", "ja: é\\|"]` |',
        "- Base model: `uncased_L-12_H-768_A-12`",
        "- Data: `task_name=MRPC`, `data_dir=MRPC`",
        "- Commit: abc",
        "```\nrun_classifier.py --learning_rate=2e-5 '--data_dir=a b' "
        "--init_checkpoint=hf://lab/tiny --input_file=a.txt,c.txt\n```",
        "| eval | eval_accuracy | 0.86 |\n| eval | eval_f1 | 0.9 |\n",
    ):
        assert part in text
    assert "vocab_sha256" not in text
    assert "0.5" not in text


def test_a_card_of_a_model_without_a_run_has_its_task_alone(tmp_path):
    metadata, text = _card(tmp_path, {"task": "pretraining"}, name="x")
    assert metadata == {
        "library_name": "transformers",
        "tags": ["bert"],
        "pipeline_tag": "fill-mask",
    }
    # Without a vocabulary, no tokenizer loads.
    assert text == (
        "\n# x\n\nA BERT model for pretraining.\n\n"
        '| setting | value |\n| --- | --- |\n| task | `"pretraining"` |\n'
    )


def test_a_card_invents_nothing(tmp_path):
    _record(tmp_path, {"flags": {"do_train": False}, "commit": None})
    metadata, text = _card(tmp_path, {})
    assert metadata == {"library_name": "transformers", "tags": ["bert"]}
    assert text == "\n# m\n\nA BERT model.\n\n## Training\n"


@pytest.mark.parametrize(
    ("task", "tag", "call"),
    [
        ("pretraining", "fill-mask", 'model("Paris is the [MASK] of'),
        ("classification", "text-classification", 'model("A text to'),
        ("tagging", "token-classification", 'model("A sentence with'),
        # A pipeline that transformers 5.3 removed.
        ("question_answering", "question-answering", "tokenizer(question, con"),
    ],
)
def test_the_usage_is_that_of_the_task(tmp_path, task, tag, call):
    description = {"task": task, "vocab_sha256": "0" * 64}
    metadata, text = _card(tmp_path, description, name='a"é')
    assert metadata["pipeline_tag"] == tag
    code = text.partition("```python\n")[2].partition("```")[0]
    compile(code, "README.md", "exec")
    assert call in code
    assert '"a\\"é")' in code
    assert (f'pipeline("{tag}"' in code) == (task != "question_answering")


def test_a_task_without_an_example_has_no_usage(tmp_path):
    description = {"task": "multiple_choice", "vocab_sha256": "0" * 64}
    metadata, text = _card(tmp_path, description)
    assert metadata["pipeline_tag"] == "multiple-choice"
    assert "## Usage" not in text
    metadata, text = _card(tmp_path, {"task": "rating", "vocab_sha256": ""})
    assert "pipeline_tag" not in metadata
    assert "A BERT model for rating." in text


@pytest.mark.parametrize("kind", ["address", "folder", "cache"])
def test_the_base_model_is_that_of_the_hub(tmp_path, kind):
    start = "hf://lab/tiny-bert@v2"
    if kind == "folder":
        toy_files.write_json(tmp_path / "hub.json", {"address": start})
        start = str(tmp_path / "model.safetensors")
    elif kind == "cache":
        start = f"/hub/models--lab--tiny-bert/snapshots/{'a' * 40}/x.bin"
    run = tmp_path / "run"
    run.mkdir()
    _record(run, {**_START, "flags": {**_FLAGS, "init_checkpoint": start}})
    metadata, text = _card(run)
    assert metadata["base_model"] == "lab/tiny-bert"
    assert (
        "- Base model: [lab/tiny-bert](https://huggingface.co/lab/tiny-bert)\n"
    ) in text


def test_training_from_scratch_is_said_of_trainings(tmp_path):
    _record(tmp_path, {**_START, "flags": {"do_train": True}})
    metadata, text = _card(tmp_path)
    assert "- Base model: none, from scratch\n- Commit: abc\n" in text
    assert "base_model" not in metadata


def test_damaged_lines_of_the_record_are_skipped(tmp_path):
    record = json.dumps(_START).encode()
    first = json.dumps({**_START, "commit": "earlier"}).encode()
    (tmp_path / "run.jsonl").write_bytes(
        b"\n".join(
            [
                *(b'{"started": "2024-05', first, b"\xff\xfe\0\0", b"[1]", b""),
                *(b'{"flags": null}', record, b'{"flags": [1]}', b"null"),
                b'{"started": "2024-05',
            ]
        )
    )
    _, text = _card(tmp_path)
    assert "- Commit: abc" in text
    (tmp_path / "run.jsonl").write_bytes(b'{"started": "2024')
    assert "## Training" not in _card(tmp_path)[1]


def test_scores_of_another_checkpoint_are_left_out(tmp_path):
    (tmp_path / "eval_results.txt").write_text(_SCORES)
    for step in (342, None):
        metadata, text = _card(tmp_path, step=step)
        assert "metrics" not in metadata
        assert "model-index" not in metadata
        assert "## Scores" not in text
    # Scores of question answering name no step.
    (tmp_path / "eval_results.txt").write_text(
        "exact_match = 81.5\nf1 = 88.5\n"
    )
    metadata, text = _card(tmp_path, {"task": "question_answering"}, step=9)
    assert metadata["metrics"] == ["exact_match", "f1"]
    assert "model-index" not in metadata
    assert "| eval | exact_match | 81.5 |" in text


def test_the_model_index_has_the_dev_sets_of_glue_alone(tmp_path):
    (tmp_path / "eval_results.txt").write_text(
        "eval_accuracy = 0.84\neval_accuracy_mismatched = 0.85\n"
        "eval_own = 1.0\nglobal_step = 343\n"
    )
    (tmp_path / "test_results.txt").write_text("test_accuracy = 0.5\n")
    metadata, text = _card(tmp_path, {**_TASK, "name": "MNLI"})
    (index,) = metadata["model-index"]
    assert [
        (result["dataset"]["split"], result["metrics"])
        for result in index["results"]
    ] == [
        ("validation_matched", [{"type": "accuracy", "value": 0.84}]),
        ("validation_mismatched", [{"type": "accuracy", "value": 0.85}]),
    ]
    assert metadata["metrics"] == ["accuracy"]
    assert "| test | test_accuracy | 0.5 |" in text
    for other in ({**_TASK, "name": "custom"}, {"task": "tagging"}):
        metadata, text = _card(tmp_path, other)
        assert not {"model-index", "datasets", "language"} & {*metadata}
        assert "| eval | eval_accuracy | 0.84 |" in text


@pytest.mark.parametrize(
    ("name", "config"),
    [("CoLA", "cola"), ("SST-2", "sst2"), ("sts-b", "stsb"), ("WNLI", "wnli")],
)
def test_tasks_of_glue_have_the_names_of_the_hub(tmp_path, name, config):
    results = (
        "eval_pearson = 0.8\neval_spearman = nan\n"
        "eval_matthews_correlation = 0.6\n"
    )
    (tmp_path / "eval_results.txt").write_text(results)
    metadata, _ = _card(tmp_path, {**_TASK, "name": name})
    ((result,),) = (index["results"] for index in metadata["model-index"])
    assert result["dataset"]["config"] == config
    assert {metric["type"] for metric in result["metrics"]} == {
        "pearsonr",
        "matthews_correlation",
    }


def test_the_authors_metadata_of_a_converted_model_is_kept(tmp_path):
    (tmp_path / "README.md").write_text(
        "---\nlicense: cc-by-4.0\nlanguage:\n- de\nbase_model: lab/large\n"
        "datasets:\n- lab/pairs\ninference: false\n---\n# Theirs\n"
    )
    metadata, text = _card(tmp_path)
    assert metadata == {
        "base_model": "lab/large",
        "datasets": ["lab/pairs"],
        "language": ["de"],
        "library_name": "transformers",
        "license": "cc-by-4.0",
        "pipeline_tag": "text-classification",
        "tags": ["bert"],
    }
    assert "Theirs" not in text


@pytest.mark.parametrize(
    "card",
    [
        *(
            b"",
            b"no metadata",
            b"---\na: [\n---\n",
            b"---\n- a\n---\n",
            b"\xff",
        ),
        *(b"---\n1: 2\n---\n", b"---\ntags: 5\n---\n"),
    ],
)
def test_a_damaged_card_of_the_authors_is_ignored(tmp_path, card):
    (tmp_path / "README.md").write_bytes(card)
    metadata, _ = _card(tmp_path, {})
    assert metadata == {"library_name": "transformers", "tags": ["bert"]}


@pytest.mark.parametrize("name", ["a: b", "- é", "#1", "a'b"])
def test_any_name_gives_valid_metadata(tmp_path, name):
    (tmp_path / "eval_results.txt").write_text("eval_f1 = 0.9\n")
    metadata, _ = _card(tmp_path, name=name)
    assert metadata["model-index"][0]["name"] == name

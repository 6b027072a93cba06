"""Cards of converted models: the hub's metadata, and what a run recorded."""

import json

from tools import model_card

_TASK = {
    "task": "classification",
    "name": "MRPC",
    "labels": ["no", "ja: é"],
    "vocab_sha256": "0" * 64,
}
_FLAGS = {
    "do_train": True,
    "init_checkpoint": "data/uncased_L-12_H-768_A-12/bert_model.ckpt",
    "task_name": "MRPC",
    "data_dir": "data/glue/MRPC",
    "learning_rate": 2e-5,
}


def _parts(text):
    _, metadata, body = text.split("---\n", 2)
    return metadata, body


def test_a_card_has_task_base_data_flags_scores_and_commit(tmp_path):
    command = ["run_classifier.py", "--learning_rate=2e-5", "--data_dir=a b"]
    start = {"command": command, "flags": _FLAGS, "commit": "abc"}
    later = {"command": ["predict"], "flags": {"do_train": False}}
    records = (start, {"outcome": "finished"}, later)
    (tmp_path / "run.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in records)
    )
    (tmp_path / "eval_results.txt").write_text(
        "eval_accuracy = 0.86\nglobal_step = 343\nloss = 0.5\n"
    )
    metadata, body = _parts(model_card.text_of(str(tmp_path), "m", _TASK))
    assert (
        metadata
        == """library_name: transformers
tags:
- bert
pipeline_tag: text-classification
base_model: "uncased_L-12_H-768_A-12"
"""
    )
    for part in (
        "# m\n\nA BERT model for classification.",
        '| labels | `["no", "ja: é"]` |',
        "- Base model: `data/uncased_L-12_H-768_A-12/bert_model.ckpt`",
        "- Data: `task_name=MRPC`, `data_dir=data/glue/MRPC`",
        "- Commit: abc",
        "```\nrun_classifier.py --learning_rate=2e-5 '--data_dir=a b'\n```",
        "| eval | eval_accuracy | 0.86 |",
    ):
        assert part in body
    assert "vocab_sha256" not in body


def test_a_card_of_a_model_without_a_run_has_its_task_alone(tmp_path):
    text = model_card.text_of(str(tmp_path), "x", {"task": "pretraining"})
    metadata, body = _parts(text)
    assert metadata == (
        "library_name: transformers\ntags:\n- bert\npipeline_tag: fill-mask\n"
    )
    assert "## Training" not in body
    assert "## Scores" not in body

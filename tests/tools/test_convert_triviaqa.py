import json

import pytest

from tests import toy_squad
from tools import convert_triviaqa

_QUESTION = {
    "QuestionId": "tc_1",
    "Question": "What is the capital of Sweden?",
    "Answer": {"Value": "Stockholm", "Aliases": ["Sthlm"]},
    "EntityPages": [{"Filename": "Sweden.txt"}],
}


def _options(tmp_path, **more):
    source = tmp_path / "wikipedia-train.json"
    source.write_text(json.dumps({"Data": [_QUESTION]}))
    (tmp_path / "Sweden.txt").write_text("Its capital is Stockholm.")
    return convert_triviaqa.Options(
        input_file=str(source),
        evidence_dir=str(tmp_path),
        output_file=str(tmp_path / "out" / "triviaqa.json"),
        **more,
    )


def test_tool_writes_a_file_to_train_on(tmp_path):
    options = _options(tmp_path)
    convert_triviaqa.run(options)
    (example,) = toy_squad.read_examples(
        options.output_file, is_training=True, version_2_with_negative=False
    )
    assert example.qas_id == "tc_1--Sweden.txt"
    assert example.orig_answer_text == "Stockholm"


def test_nothing_is_written_where_nothing_can_be_kept(tmp_path):
    options = _options(tmp_path, max_words=3)
    with pytest.raises(ValueError, match="first 3 words"):
        convert_triviaqa.run(options)
    assert not (tmp_path / "out").exists()

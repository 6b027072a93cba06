"""Fine-tuning from left to right and below a BiLSTM, from start to end."""

import pytest

import run_classifier
import run_ner
import run_squad
from modeling import checkpoints
from modeling import config as config_lib
from tests.support import toy_files, toy_squad, toy_tagging
from tests.support import toy_sentences as toy
from vocab import tokenization


def _model(task, tools, folder, **flags):
    """Makes the network of a task that is trained."""
    options = tools.parse(tools.flags_of(folder, do_train=True, **flags))
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    tokenizer = tokenization.open_tokenizer(options)
    return task(options, tokenizer).make_objective(config).model


@pytest.mark.parametrize(
    ("task", "tools"),
    [
        (run_classifier.learning.ClassificationTask, toy),
        (run_squad.learning.QuestionAnsweringTask, toy_squad),
        (run_ner.learning.TaggingTask, toy_tagging),
    ],
)
def test_the_flags_of_a_network_reach_it(tmp_path, task, tools):
    plain = _model(task, tools, tmp_path)
    assert not plain.causal and not plain.bilstm_head
    causal = _model(task, tools, tmp_path, attention="causal")
    assert causal.causal and not causal.bilstm_head
    taller = _model(task, tools, tmp_path, bilstm_head=True)
    assert taller.bilstm_head and not taller.causal


def test_the_features_of_a_tagger_reach_it(tmp_path):
    model = _model(
        run_ner.learning.TaggingTask, toy_tagging, tmp_path, features="last"
    )
    assert model.features == "last"


@pytest.mark.integration
def test_a_left_to_right_model_with_a_bilstm_learns(tmp_path):
    given = {"attention": "causal", "bilstm_head": True}
    toy.run(tmp_path, do_train=True, do_eval=True, num_train_epochs=2, **given)
    out = tmp_path / "out"
    # The word that tells may stand anywhere; guessing scores half.
    assert toy.results(out)["eval_accuracy"] > 0.8

    held = checkpoints.list_variables(str(out))
    assert held["output_weights"][0] == (2, 64)  # Twice the width of 32.
    assert "bert/pooler/dense/kernel" in held
    there = toy_files.read_json(out / "task.json")
    assert there["attention"] == "causal" and there["bilstm_head"]
    # It is used in this way afterwards.
    toy.run(tmp_path, do_predict=True)
    with pytest.raises(ValueError, match="attention is 'causal' there and"):
        toy.run(tmp_path, do_train=True)

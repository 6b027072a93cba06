"""Names in the Model Garden's checkpoints."""

import json
import shutil

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from modeling import bert, checkpoints, model_garden
from modeling import config as config_lib
from tests.support import locations

_GOLDEN = locations.GOLDEN / "foreign"


def test_unknown_variables_keep_their_names():
    held = checkpoints.list_variables(str(_GOLDEN / "model_garden_pretrainer"))
    # The pooler of the head is that which was used and trained.
    others = [n for n in held if not n.startswith(("bert/", "cls/"))]
    unused = "model/encoder_network/_pooler_layer"
    assert others == ["global_step", f"{unused}/bias", f"{unused}/kernel"]


def test_the_heads_of_a_model_garden_checkpoint_are_compared(tmp_path):
    prefix = _GOLDEN / "model_garden_span_labeler/bert_model.ckpt"
    for part in prefix.parent.glob("bert_model.ckpt.*"):
        shutil.copyfile(part, tmp_path / part.name)
    sizes = json.loads((prefix.parent / "bert_config.json").read_text())
    config = config_lib.BertConfig.from_dict(sizes | {"num_attention_heads": 4})
    with pytest.raises(ValueError, match=r"is 4 in the model and 3 in"):
        checkpoints.load(bert.BertModel(config), str(tmp_path))


_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def _graph(names):
    """Encodes an object graph: the names of variables by key."""
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    for key, name in names.items():
        graph.nodes.add().attributes.add(full_name=name, checkpoint_key=key)
    return graph.SerializeToString()


def test_the_state_of_the_optimizer_is_left_out():
    key = f"encoder/words{_VALUE}"
    state = [
        f"optimizer/iter{_VALUE}",
        f"encoder/words/.OPTIMIZER_SLOT/optimizer/m{_VALUE}",
    ]
    graph = _graph({key: "bert/word_embeddings/embeddings"})
    keys, _ = model_garden.keys_by_name(graph, [key, *state])
    assert keys == {"bert/embeddings/word_embeddings": key}


@pytest.mark.parametrize(
    ("layer", "names", "classes"),
    [
        (
            "layer_with_weights-1/layer_with_weights-0",
            ["cls/squad/output_bias", "cls/squad/output_weights"],
            (),
        ),
        (
            "layer_with_weights-2",
            ["output_bias", "output_weights"],
            ("BertForTokenClassification",),
        ),
    ],
)
def test_the_depth_of_a_layer_tells_answers_from_tags(layer, names, classes):
    held = {
        "words": "word_embeddings/embeddings",
        f"{layer}/bias": "x/predictions/transform/logits/bias",
        f"{layer}/kernel": "x/predictions/transform/logits/kernel",
    }
    held = {f"{key}{_VALUE}": name for key, name in held.items()}
    keys, found = model_garden.keys_by_name(_graph(held), held)
    assert sorted(keys) == ["bert/embeddings/word_embeddings", *names]
    assert found == classes


def test_a_model_of_two_encoders_is_refused():
    names = {
        f"{part}/words{_VALUE}": f"{part}/word_embeddings/embeddings"
        for part in ("query", "passage")
    }
    with pytest.raises(ValueError, match="word_embeddings twice, as passage/w"):
        model_garden.keys_by_name(_graph(names), names)


def test_another_object_checkpoint_is_refused(tmp_path):
    prefix = str(tmp_path / "c")
    tf.train.Checkpoint(v=tf.Variable(1.0)).write(prefix)
    with pytest.raises(ValueError, match=r"object checkpoint .*not of a BERT"):
        checkpoints.list_variables(prefix)

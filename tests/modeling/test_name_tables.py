"""Tables of names: complete, and one to one."""

import pytest

from modeling import bert, checkpoints, name_tables
from modeling import config as config_lib
from tests.support import heads_of_tasks, locations

_CONFIG = config_lib.BertConfig.from_json_file(locations.CONFIG_FILE)
_MODELS = {
    "BertModel": bert.BertModel,
    **{x.architecture: x.make for x in heads_of_tasks.HEADS.values()},
}


@pytest.fixture(params=_MODELS, scope="module")
def named_model(request):
    return request.param, _MODELS[request.param](_CONFIG)


def test_every_variable_of_a_model_is_in_the_tables(named_model):
    name, model = named_model
    table = [*name_tables.encoder(2), *name_tables.head(name)]
    ours = set(checkpoints.variables_by_name(model))
    assert {variable.release for variable in table} == ours
    assert len({variable.huggingface for variable in table}) == len(table)


def test_kernels_alone_are_transposed():
    for variable in name_tables.encoder(3):
        is_kernel = variable.release.endswith("/kernel")
        assert variable.is_transposed == is_kernel


def test_heads_have_the_names_of_hugging_face():
    transform = "cls.predictions.transform"
    words = {
        *("cls.predictions.bias", f"{transform}.dense.weight"),
        *(f"{transform}.dense.bias", f"{transform}.LayerNorm.weight"),
        f"{transform}.LayerNorm.bias",
    }
    pairs = {"cls.seq_relationship.weight", "cls.seq_relationship.bias"}
    for architecture, names in {
        "BertForPreTraining": words | pairs,
        "BertForMaskedLM": words,
        "BertForQuestionAnswering": {"qa_outputs.weight", "qa_outputs.bias"},
        "BertForMultipleChoice": {"classifier.weight"},
        "BertForTokenClassification": {"classifier.weight", "classifier.bias"},
    }.items():
        table = name_tables.head(architecture)
        assert {variable.huggingface for variable in table} == names
        # A kernel is transposed; an output layer is not.
        assert all(
            variable.is_transposed == variable.release.endswith("/kernel")
            for variable in table
        )


def test_shapes_of_an_encoder_are_those_of_the_model():
    model = bert.BertModel(_CONFIG)
    assert _CONFIG.encoder_shapes() == {
        name: tuple(variable.shape)
        for name, variable in checkpoints.variables_by_name(model).items()
    }


def test_layers_are_counted_by_their_highest_number():
    names = ["x", "bert/encoder/layer_2/a", "bert.encoder.layer.101.b"]
    assert name_tables.num_layers(names) == 102
    assert name_tables.num_layers(names[:2]) == 3
    assert name_tables.num_layers(["x", "layer_1000/a"]) == 0


def _names(*architectures):
    return [
        variable.release
        for variable in [
            *name_tables.encoder(1),
            *(v for a in architectures for v in name_tables.head(a)),
        ]
    ]


@pytest.mark.parametrize(
    ("held", "hint", "want"),
    [
        ([], None, ["BertModel"]),
        (["BertForMaskedLM"], None, ["BertForMaskedLM"]),
        (["BertForPreTraining"], None, ["BertForPreTraining"]),
        (
            ["BertForQuestionAnswering", "BertForPreTraining"],
            None,
            ["BertForPreTraining", "BertForQuestionAnswering"],
        ),
        (
            ["BertForTokenClassification"],
            None,
            ["BertForSequenceClassification"],
        ),
        (
            ["BertForTokenClassification"],
            "BertForTokenClassification",
            ["BertForTokenClassification"],
        ),
    ],
)
def test_architectures_follow_from_the_heads(held, hint, want):
    assert name_tables.architectures(_names(*held), hint) == want

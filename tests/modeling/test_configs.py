"""The shipped configurations: all there, readable, of the published sizes."""

import pathlib

import pytest

from modeling import config, costs
from tests import toy_config

_FOLDER = pathlib.Path(config.__file__).parent / "configs"
_FILES = sorted(_FOLDER.glob("*.json"))
_SHARED = pathlib.Path(__file__).parents[3] / "shared" / "data" / "vocab"


def _config(name):
    return config.BertConfig.from_json_file(str(_FOLDER / f"{name}.json"))


def _shape(values):
    return (
        values.num_hidden_layers,
        values.hidden_size,
        values.num_attention_heads,
    )


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_every_file_is_written_as_the_release_writes_them(path):
    values = config.BertConfig.from_json_file(str(path))
    assert path.read_text(encoding="utf-8") == values.to_json_string()
    assert values.intermediate_size == 4 * values.hidden_size
    assert values.type_vocab_size == 2
    assert values.max_position_embeddings == 512


def test_file_named_by_its_sizes_has_them():
    named = [path for path in _FILES if path.stem.startswith("uncased_L-")]
    assert len(named) == 22
    for path in named:
        layers, width, heads = _shape(_config(path.stem))
        assert path.stem == f"uncased_L-{layers}_H-{width}_A-{heads}"
        assert _config(path.stem).vocab_size == 30522


def test_all_miniatures_are_there():
    shapes = {
        _shape(_config(path.stem))
        for path in _FILES
        if _config(path.stem).vocab_size == 30522
    }
    assert shapes >= {
        (layers, width, width // 64)
        for layers in (2, 4, 6, 8, 10, 12)
        for width in (128, 256, 512, 768)
    }


def test_sizes_of_table_6_are_there():
    # Source: Devlin et al. 2019, Table 6.
    table_6 = [
        *((3, 768, 12), (6, 768, 3), (6, 768, 12)),
        *((12, 768, 12), (12, 1024, 16), (24, 1024, 16)),
    ]
    shapes = [_shape(_config(path.stem)) for path in _FILES]
    assert [shape for shape in table_6 if shape not in shapes] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Worked from the published configurations, pooler included.
        ("bert_base_uncased", 109_482_240),
        ("bert_large_uncased", 335_141_888),
    ],
)
def test_encoder_has_the_published_number_of_parameters(name, expected):
    assert costs.encoder_parameters(_config(name)) == expected


@pytest.mark.parametrize(
    ("name", "millions"),
    # Source: Turc et al. 2019, in millions.
    [
        ("bert_tiny", 4.4),
        ("bert_mini", 11.3),
        ("bert_small", 29.1),
        ("bert_medium", 41.7),
        ("bert_base_uncased", 110.1),
    ],
)
def test_pretraining_model_has_the_published_millions(name, millions):
    count = costs.pretraining_parameters(_config(name))
    assert round(count / 1e6, 1) == millions


def test_counts_are_those_of_the_released_medium_checkpoint():
    # Counted in its list of variables (142 of them).
    assert costs.pretraining_parameters(_config("bert_medium")) == 41_668_412


def test_counts_are_those_of_a_built_model():
    from modeling import heads

    values = toy_config.config(num_hidden_layers=3)
    model = heads.BertForPreTraining(values)
    assert model.count_params() == costs.pretraining_parameters(values)
    encoder = sum(
        variable.shape[0] * (variable.shape[1] if variable.ndim > 1 else 1)
        for variable in model.trainable_variables
        if "/bert/" in f"/{variable.path}"
    )
    assert encoder == costs.encoder_parameters(values)


@pytest.mark.shared
@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("casing", ["cased", "uncased"])
def test_file_is_the_released_one(size, casing):
    if not _SHARED.is_dir():
        pytest.skip("no shared data beside the checkout")
    released = _SHARED / f"bert_config_{size}_{casing}.json"
    shipped = _FOLDER / f"bert_{size}_{casing}.json"
    assert shipped.read_bytes() == released.read_bytes()


@pytest.mark.shared
@pytest.mark.parametrize(
    ("vocab", "name"),
    [
        ("uncased", "bert_base_uncased"),
        ("cased", "bert_base_cased"),
        ("chinese", "bert_base_chinese"),
        ("multilingual_cased", "bert_base_multilingual_cased"),
    ],
)
def test_vocab_size_is_that_of_the_released_vocabulary(vocab, name):
    path = _SHARED / f"{vocab}.txt"
    if not path.is_file():
        pytest.skip("no shared data beside the checkout")
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert _config(name).vocab_size == len(lines)

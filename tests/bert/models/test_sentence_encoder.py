"""Files of sentence-transformers: read, or refused by name."""

import json
import shutil

import pytest

from bert.models import folder as folder_lib
from bert.models import sentence_encoder
from tests.bert.models import toy_folders

_OLD = "sentence_transformers.models"
_NEW = "sentence_transformers.sentence_transformer.modules"


def _modules(*types):
    paths = ["", *(f"{i}_{t.split('.')[-1]}" for i, t in enumerate(types))][1:]
    return [
        {"idx": i, "name": str(i), "path": path if i else "", "type": kind}
        for i, (path, kind) in enumerate(zip(paths, types, strict=True))
    ]


def _put(folder, modules=None, pooling=None, **settings):
    """Writes the files; `settings` is the content of the settings file."""
    if modules is None:
        modules = _modules(
            f"{_OLD}.Transformer", f"{_OLD}.Pooling", f"{_OLD}.Normalize"
        )
    toy_folders.put(folder, "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    toy_folders.put(folder / "1_Pooling", "config.json", pooling or {})
    if settings:
        toy_folders.put(folder, "config_sentence_transformers.json", settings)


def _read(folder, *, do_lower_case=True):
    return sentence_encoder.SentenceEncoder.read(
        str(folder), do_lower_case=do_lower_case
    )


def test_a_folder_without_modules_is_no_sentence_encoder(tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    toy_folders.put(tmp_path / "1_Pooling", "config.json", {})
    assert _read(tmp_path) is None


@pytest.mark.parametrize(
    ("types", "normalize"),
    [
        ([f"{_OLD}.Transformer", f"{_OLD}.Pooling"], False),
        (
            [f"{_OLD}.Transformer", f"{_OLD}.Pooling", f"{_OLD}.Normalize"],
            True,
        ),
        (
            [
                "sentence_transformers.base.modules.transformer.Transformer",
                f"{_NEW}.pooling.Pooling",
                f"{_NEW}.normalize.Normalize",
            ],
            True,
        ),
    ],
)
def test_modules_of_all_releases_say_whether_the_length_is_1(
    tmp_path, types, normalize
):
    _put(tmp_path, _modules(*types))
    assert _read(tmp_path).normalize is normalize


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        (
            {
                "word_embedding_dimension": 384,
                "pooling_mode_cls_token": False,
                "pooling_mode_mean_tokens": True,
                "pooling_mode_max_tokens": False,
                "pooling_mode_mean_sqrt_len_tokens": False,
            },
            "mean",
        ),
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_cls_token": False}, "mean"),
        ({"embedding_dimension": 384, "pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["max"], "pooling_mode_cls_token": True}, "max"),
        ({"embedding_dimension": 384, "include_prompt": True}, "mean"),
    ],
)
def test_the_pooling_is_that_of_sentence_transformers(
    tmp_path, config, pooling
):
    _put(tmp_path, pooling=config)
    assert _read(tmp_path).pooling == pooling


@pytest.mark.parametrize(
    ("settings", "similarity"),
    [
        ({}, "cosine"),
        ({"__version__": {"sentence_transformers": "2.0.0"}}, "cosine"),
        ({"similarity_fn_name": None, "default_prompt_name": None}, "cosine"),
        ({"similarity_fn_name": "dot", "prompts": {"query": "q: "}}, "dot"),
    ],
)
def test_the_similarity_is_cosine_unless_a_file_says_another(
    tmp_path, settings, similarity
):
    _put(tmp_path, **settings)
    assert _read(tmp_path).similarity == similarity


@pytest.mark.parametrize(
    ("types", "named"),
    [
        (("Transformer", "Pooling", "Dense"), "Transformer, Pooling, Dense"),
        (("Transformer", "Normalize"), "Transformer, Normalize"),
        (("Transformer", "Pooling", "Pooling"), "Pooling, Pooling"),
        (("MLMTransformer", "SpladePooling"), "MLMTransformer, SpladePooling"),
        ((), "none"),
    ],
)
def test_other_modules_are_refused_by_name(tmp_path, types, named):
    _put(tmp_path, _modules(*(f"{_OLD}.{name}" for name in types)))
    with pytest.raises(ValueError, match=named) as error:
        _read(tmp_path)
    assert "modules.json: the modules are" in str(error.value)
    assert "export_model --layers" in str(error.value)


def test_a_network_in_a_folder_of_its_own_is_refused(tmp_path):
    modules = _modules(f"{_OLD}.Transformer", f"{_OLD}.Pooling")
    _put(tmp_path, [modules[0] | {"path": "0_Transformer"}, modules[1]])
    with pytest.raises(ValueError, match="the network is in 0_Transformer"):
        _read(tmp_path)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean_sqrt_len_tokens"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({"pooling_mode": 3}, "3"),
        ({"pooling_mode": ["mean", "cls"]}, "mean and cls"),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            "mean and cls",
        ),
    ],
)
def test_other_poolings_are_refused_by_name(tmp_path, config, named):
    _put(tmp_path, pooling=config)
    with pytest.raises(ValueError, match=rf"1_Pooling/config\.json: .*{named}"):
        _read(tmp_path)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"similarity_fn_name": "manhattan"}, "similarity_fn_name is 'manh"),
        ({"default_prompt_name": "query"}, "default_prompt_name is 'query'"),
    ],
)
def test_other_settings_are_refused_by_name(tmp_path, settings, named):
    _put(tmp_path, **settings)
    with pytest.raises(ValueError, match=named):
        _read(tmp_path)


def test_lower_casing_of_which_the_tokenizer_does_not_know_is_refused(tmp_path):
    _put(tmp_path)
    texts = {"max_seq_length": 12, "do_lower_case": True}
    toy_folders.put(tmp_path, "sentence_bert_config.json", texts)
    assert _read(tmp_path).pooling == "mean"
    for do_lower_case in (False, None):
        with pytest.raises(ValueError, match="do_lower_case is true"):
            _read(tmp_path, do_lower_case=do_lower_case)


@pytest.mark.parametrize("modules", [[{"type": "x"}], ["x"], 3, [{"path": 1}]])
def test_a_file_of_another_form_is_named(tmp_path, modules):
    _put(tmp_path, modules)
    with pytest.raises(ValueError, match=r"modules\.json must be a list"):
        _read(tmp_path)


def test_a_missing_pooling_is_named(tmp_path):
    _put(tmp_path)
    shutil.rmtree(tmp_path / "1_Pooling")
    with pytest.raises(OSError, match=r"1_Pooling/config\.json"):
        _read(tmp_path)


def test_the_folder_of_a_model_says_how_its_texts_are_embedded(tmp_path):
    (tmp_path / "a").mkdir()
    _put(tmp_path / "a", pooling={"pooling_mode_cls_token": True})
    model = folder_lib.ModelFolder.open(str(tmp_path / "a"))
    assert model.sentence_encoder == sentence_encoder.SentenceEncoder(
        pooling="cls", normalize=True, similarity="cosine"
    )
    (tmp_path / "b").mkdir()
    (tmp_path / "b/config.json").write_text(json.dumps({"model_type": "bert"}))
    assert (
        folder_lib.ModelFolder.open(str(tmp_path / "b")).sentence_encoder
        is None
    )

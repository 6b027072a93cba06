"""Folders of models from the hub."""

import json
import logging
import os

import numpy as np
import pytest

from bert.models import hub, hub_folders
from modeling import bert, checkpoints, huggingface
from modeling import config as config_lib
from tests.support import hub_server, programs, toy_config, toy_files
from tools import download

_NAME = "lab/tiny-bert"
_CONFIG = toy_config.config(num_hidden_layers=1)
_PIECES = [f"w{number}" for number in range(31)]


@pytest.fixture(scope="module")
def arrays():
    """The weights of an encoder by the release's names."""
    variables = checkpoints.variables_by_name(bert.BertModel(_CONFIG))
    return {name: np.asarray(variable) for name, variable in variables.items()}


@pytest.fixture
def model(tmp_path, arrays):
    """The files of a model on the hub, by name."""
    folder = tmp_path / "model"
    folder.mkdir()
    huggingface.write(str(folder), arrays, 1, ["BertModel"])
    return {
        "config.json": json.dumps(
            {**_CONFIG.to_dict(), "model_type": "bert"}
        ).encode(),
        "model.safetensors": (folder / "model.safetensors").read_bytes(),
        "tokenizer_config.json": b'{"do_lower_case": false}',
        "vocab.txt": "".join(f"{p}\n" for p in _PIECES).encode(),
        "README.md": b"of the authors",
        "1_Pooling/config.json": b"{}",
    }


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A hub without models, and an empty cache."""
    with hub_server.running() as site:
        hub_server.use(monkeypatch, site.address, tmp_path / "home")
        yield site


def _fetch(folder, *addresses):
    download.run(download.Options(output_dir=str(folder)), addresses)


def _check_loads(folder, arrays):
    config = config_lib.BertConfig.from_checkpoint(str(folder))
    assert config.hidden_act == "gelu_exact"
    encoder = bert.BertModel(config)
    report = checkpoints.load(encoder, str(folder))
    assert report.missing == report.unexpected == ()
    for name, variable in checkpoints.variables_by_name(encoder).items():
        np.testing.assert_array_equal(variable, arrays[name])


def test_a_model_of_the_hub_gets_a_folder_that_every_script_takes(
    server, tmp_path, model, arrays
):
    commit = server.publish(_NAME, model)
    _fetch(tmp_path / "data", f"hf://{_NAME}")
    folder = tmp_path / "data/tiny-bert"
    assert toy_files.names(folder) == {
        *("bert_config.json", "config.json", "model.safetensors"),
        *("tokenizer_config.json", "vocab.txt", "1_Pooling", "hub.json"),
    }
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    assert toy_files.read_json(folder / "hub.json") == {
        "address": f"hf://{_NAME}",
        "commit": commit,
    }
    assert hub_folders.name_of(str(folder / "model.safetensors")) == _NAME
    _check_loads(folder, arrays)


def test_the_log_of_a_download_is_one_line(tmp_path, model):
    with hub_server.running() as site:
        site.publish(_NAME, model)
        variables = {"HF_ENDPOINT": site.address, "HF_HOME": str(tmp_path)}
        done = programs.python(
            *("-m", "tools.download", f"hf://{_NAME}"),
            f"--output_dir={tmp_path}",
            env={"PATH": os.environ["PATH"], "no_proxy": "*", **variables},
            check=True,
        )
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"hf://{_NAME}: in {tmp_path}/tiny-bert")
    assert done.stdout == ""


def test_a_folder_that_exists_is_left_alone(server, tmp_path, model, caplog):
    caplog.set_level(logging.WARNING)
    server.publish(_NAME, model)
    _fetch(tmp_path, f"hf://{_NAME}")
    (tmp_path / "tiny-bert/vocab.txt").write_text("changed")
    server.requests.clear()
    _fetch(tmp_path, f"hf://{_NAME}/")
    assert (tmp_path / "tiny-bert/vocab.txt").read_text() == "changed"
    assert server.requests == []
    assert caplog.messages == []
    (tmp_path / "own").mkdir()
    _fetch(tmp_path, "hf://lab/own")
    assert toy_files.names(tmp_path / "own") == set()
    assert "does not say which model it is" in caplog.text


@pytest.mark.parametrize(
    ("revision", "suffix"),
    [
        (None, ""),
        ("v2", "@v2"),
        ("refs/pr/1", "@refs--pr--1"),
        ("feature/new/heads", "@feature--new--heads"),
    ],
)
def test_two_models_of_a_revision_have_two_folders(
    server, tmp_path, model, arrays, revision, suffix
):
    at = f"@{revision}" if revision else ""
    for name in ("lab/one", "lab/other", "bert-base-uncased"):
        text = json.dumps({"name_or_path": name})
        files = {**model, "tokenizer_config.json": text.encode()}
        server.publish(name, files, revision or "main")
    data = tmp_path / "data"
    _fetch(data, *(f"hf://{n}{at}" for n in ("lab/one", "lab/other")))
    _fetch(data, f"hf://bert-base-uncased{at}")
    assert toy_files.names(data) == {
        f"{name}{suffix}" for name in ("one", "other", "bert-base-uncased")
    }
    for name in ("one", "other"):
        folder = data / f"{name}{suffix}"
        text = (folder / "tokenizer_config.json").read_text()
        assert json.loads(text) == {"name_or_path": f"lab/{name}"}
        _check_loads(folder, arrays)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("hf://lab/bert", "hf://firm/bert"),
        ("hf://lab/bert@refs/pr/1", "hf://firm/bert@refs/pr/1"),
        ("hf://lab/bert@a/b", "hf://lab/bert@a--b"),
    ],
)
def test_models_of_one_name_never_share_a_folder(
    server, tmp_path, model, first, second
):
    for address in (first, second):
        parsed = hub.Address.parse(address)
        server.publish(parsed.name, model, parsed.revision or "main")
    _fetch(tmp_path / "data", first)
    with pytest.raises(
        ValueError, match=rf"the folder of {first}\. Choose another .*{second}"
    ):
        _fetch(tmp_path / "data", second)
    _fetch(tmp_path / "others", second)
    (folder,) = (tmp_path / "others").iterdir()
    origin = toy_files.read_json(folder / "hub.json")
    assert origin["address"] == second


def test_sharded_weights_are_copied_with_their_index(
    server, tmp_path, model, arrays
):
    weights = {"model-1-of-1.safetensors": model.pop("model.safetensors")}
    import safetensors.numpy

    content = weights["model-1-of-1.safetensors"]
    files = dict.fromkeys(safetensors.numpy.load(content), *weights)
    index = json.dumps({"weight_map": files}).encode()
    name = "model.safetensors.index.json"
    server.publish(_NAME, {**model, **weights, name: index})
    _fetch(tmp_path / "data", f"hf://{_NAME}")
    _check_loads(tmp_path / "data/tiny-bert", arrays)


def test_the_cache_suffices_without_network(
    server, tmp_path, model, arrays, monkeypatch
):
    server.publish(_NAME, model)
    _fetch(tmp_path / "online", f"hf://{_NAME}")
    server.requests.clear()
    hub_server.use(monkeypatch, server.address, tmp_path / "home", offline=True)
    _fetch(tmp_path / "offline", f"hf://{_NAME}")
    _check_loads(tmp_path / "offline/tiny-bert", arrays)
    assert server.requests == []


def test_a_vocabulary_is_taken_from_a_newer_tokenizer(server, tmp_path, model):
    vocabulary = model.pop("vocab.txt")
    ids = {piece: number for number, piece in enumerate(_PIECES)}
    pieces = {"type": "WordPiece", "vocab": dict(reversed(ids.items()))}
    tokenizer = json.dumps({"model": pieces}).encode()
    files = {**model, "tokenizer.json": tokenizer}
    server.publish(_NAME, files)
    _fetch(tmp_path / "data", f"hf://{_NAME}")
    folder = tmp_path / "data/tiny-bert"
    assert (folder / "vocab.txt").read_bytes() == vocabulary


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"config.json": b'{"model_type": "roberta"}'},
            r"model_type must be 'bert'.*'roberta'",
        ),
        ({"model.safetensors": None}, r"model.safetensors or .*pytorch_model"),
        ({"vocab.txt": None}, "must have a file vocab.txt or tokenizer.json"),
        (
            {
                "vocab.txt": None,
                "tokenizer.json": b'{"model": {"type": "WordPiece"}}',
            },
            "tokenizer.json must have a vocabulary of word pieces",
        ),
        (
            {"tokenizer.json": b'{"model": {"type": "Unigram"}}'},
            "tokenizer.json: model is Unigram, not WordPiece",
        ),
    ],
)
def test_a_refused_model_leaves_no_folder(
    server, tmp_path, model, changes, message
):
    files = {n: c for n, c in (model | changes).items() if c is not None}
    server.publish(_NAME, files)
    with pytest.raises(ValueError, match=message):
        _fetch(tmp_path / "data", f"hf://{_NAME}")
    assert not list((tmp_path / "data").glob("*"))

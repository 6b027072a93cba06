"""Models of the hub, from a server that answers as it does, and its cache."""

import hashlib
import json

import numpy as np
import pytest

from modeling import bert, checkpoints
from modeling import config as config_lib
from tests import toy_config, web_server
from tools import download

_NAME = "lab/tiny-bert"
_COMMIT = "0123abcd" * 5
_CONFIG = toy_config.config(num_hidden_layers=1)
_PIECES = [f"w{number}" for number in range(31)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The files of a model on the hub, by name."""
    from modeling import huggingface

    folder = tmp_path_factory.mktemp("model")
    encoder = bert.BertModel(_CONFIG)
    arrays = {
        name: np.asarray(variable)
        for name, variable in checkpoints.variables_by_name(encoder).items()
    }
    huggingface.write(str(folder), arrays, 1, ["BertModel"])
    return {
        "config.json": json.dumps(
            {**_CONFIG.to_dict(), "model_type": "bert"}
        ).encode(),
        "model.safetensors": (folder / "model.safetensors").read_bytes(),
        "tokenizer_config.json": b'{"do_lower_case": false}',
        "vocab.txt": "".join(f"{p}\n" for p in _PIECES).encode(),
        "README.md": b"of the authors",
    }


@pytest.fixture
def hub(monkeypatch, tmp_path, model):
    """A server that answers as the hub, and an empty cache."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    with web_server.running() as site:
        monkeypatch.setenv("HF_ENDPOINT", site.address + "/")
        _publish(site, model)
        yield site


def _publish(site, files, revision="main", commit=_COMMIT):
    siblings = []
    for name, content in files.items():
        site.files[f"/{_NAME}/resolve/{commit}/{name}"] = content
        lfs = {"lfs": {"sha256": hashlib.sha256(content).hexdigest()}}
        is_large = name.endswith((".safetensors", ".bin"))
        siblings.append({"rfilename": name, **(lfs if is_large else {})})
    path = f"/api/models/{_NAME}/revision/{revision}?blobs=true"
    told = {"sha": commit, "siblings": siblings}
    site.files[path] = json.dumps(told).encode()


def _cache(home, files, revision="main", commit=_COMMIT):
    """Fills the cache as the hub's own library does."""
    folder = home / "hub" / f"models--{_NAME.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / revision).write_text(commit)
    (folder / "blobs").mkdir()
    (folder / "snapshots" / commit).mkdir(parents=True)
    for name, content in files.items():
        blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        (folder / "snapshots" / commit / name).symlink_to(blob)


def _fetch(folder, name=f"hf://{_NAME}"):
    download.run(download.Options(output_dir=str(folder)), [name])
    return folder / name.rpartition("/")[2]


def _check_loads(folder):
    config = config_lib.BertConfig.from_checkpoint(str(folder))
    assert config.hidden_act == "gelu_exact"
    report = checkpoints.load(bert.BertModel(config), str(folder))
    assert report.missing == report.unexpected == ()


def test_a_model_of_the_hub_gets_a_folder_that_every_script_takes(
    hub, tmp_path
):
    folder = _fetch(tmp_path / "data")
    assert {path.name for path in folder.iterdir()} == {
        "bert_config.json",
        "config.json",
        "model.safetensors",
        "tokenizer_config.json",
        "vocab.txt",
    }
    _check_loads(folder)
    hub.requests.clear()
    _fetch(tmp_path / "data")
    assert hub.requests == []


def test_a_revision_and_a_token_are_sent(hub, tmp_path, model, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    _publish(hub, model, revision="v2", commit="ef" * 20)
    folder = _fetch(tmp_path / "data", f"hf://{_NAME}@v2")
    assert folder.name == "tiny-bert@v2"
    assert f"/{_NAME}/resolve/{'ef' * 20}/config.json" in hub.requests
    assert hub.headers["Authorization"] == "Bearer secret"
    with pytest.raises(OSError, match="404"):
        _fetch(tmp_path / "data", f"hf://{_NAME}@v3")


def test_the_cache_is_used_with_and_without_network(
    hub, tmp_path, model, monkeypatch
):
    kept = {n: content for n, content in model.items() if n != "README.md"}
    _cache(tmp_path / "home", kept)
    _check_loads(_fetch(tmp_path / "online"))
    assert [path for path in hub.requests if "resolve" in path] == []
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    _check_loads(_fetch(tmp_path / "offline"))
    _check_loads(_fetch(tmp_path / "offline", f"hf://{_NAME}@{_COMMIT}"))
    assert hub.requests == []
    with pytest.raises(FileNotFoundError, match=r"at v2 is not in .*home/hub"):
        _fetch(tmp_path / "offline", f"hf://{_NAME}@v2")
    (tmp_path / "home").rename(tmp_path / "moved")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "moved/hub"))
    _check_loads(_fetch(tmp_path / "there"))


def test_a_vocabulary_is_taken_from_a_newer_tokenizer(hub, tmp_path, model):
    files = {n: c for n, c in model.items() if n != "vocab.txt"}
    ids = {piece: number for number, piece in enumerate(_PIECES)}
    tokenizer = {"model": {"vocab": dict(reversed(ids.items()))}}
    files["tokenizer.json"] = json.dumps(tokenizer).encode()
    _publish(hub, files)
    folder = _fetch(tmp_path / "data")
    assert (folder / "vocab.txt").read_bytes() == model["vocab.txt"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"config.json": b'{"model_type": "roberta"}'},
            r"model_type must be 'bert'.*'roberta'",
        ),
        ({"model.safetensors": None}, "model.safetensors or pytorch_model.bin"),
        ({"vocab.txt": None}, "must have a file vocab.txt or tokenizer.json"),
        ({"model.safetensors": b"cut"}, "hash of downloaded file"),
    ],
)
def test_what_is_no_bert_leaves_nothing(hub, tmp_path, model, changes, message):
    files = {n: c for n, c in (model | changes).items() if c is not None}
    _publish(hub, files)
    if changes.get("model.safetensors"):  # Not what the hub says it is.
        _publish(hub, model)
        path = f"/{_NAME}/resolve/{_COMMIT}/model.safetensors"
        hub.files[path] = b"cut"
    with pytest.raises(ValueError, match=message):
        _fetch(tmp_path / "data")
    assert not list((tmp_path / "data").glob("*"))

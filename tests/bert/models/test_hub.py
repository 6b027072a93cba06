"""Models of the hub, from a server with its addresses, and from its cache."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from bert.models import hub, hub_folders
from tests.support import hub_server, locations, toy_config

_NAME = "lab/tiny-bert"
_CONFIG = json.dumps({**toy_config.sizes(), "model_type": "bert"}).encode()
_MODEL = {
    "config.json": _CONFIG,
    "model.safetensors": b"the weights",
    "tokenizer_config.json": b'{"do_lower_case": false}',
    "vocab.txt": b"[PAD]\n[UNK]\n",
}
_INDEX = json.dumps(
    {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
).encode()
_SHARDED = {
    "model.safetensors.index.json": _INDEX,
    "m-1.safetensors": b"one",
    "m-2.safetensors": b"two",
}
_PICKLES = b'{"weight_map": {"a": "1.bin"}}'


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A hub without models, and an empty cache."""
    with hub_server.running() as site:
        hub_server.use(monkeypatch, site.address, tmp_path / "home")
        yield site


def _set_offline(monkeypatch):
    from huggingface_hub import constants

    # It has read its variables.
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def _files(folder):
    """Reads the files of a folder, by their paths in it."""
    root = pathlib.Path(folder)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("address", "name", "revision"),
    [
        ("hf://lab/tiny-bert", "lab/tiny-bert", None),
        ("hf://lab/tiny-bert/", "lab/tiny-bert", None),
        ("hf://bert-base-uncased", "bert-base-uncased", None),
        ("hf://lab/tiny.bert_2@v2", "lab/tiny.bert_2", "v2"),
        ("hf://bert@refs/pr/1", "bert", "refs/pr/1"),
        ("hf://lab/bert@feature/new/heads", "lab/bert", "feature/new/heads"),
        ("hf://lab/bert@user@host", "lab/bert", "user@host"),
    ],
)
def test_an_address_has_a_name_and_a_revision(address, name, revision):
    assert hub.is_address(address)
    model = hub.Address.parse(address)
    assert (model.name, model.revision) == (name, revision)
    assert hub.Address.parse(str(model)) == model


@pytest.mark.parametrize(
    "address",
    [
        *("hf://", "hf:///", "hf://lab/", "hf:///bert", "hf://lab/bert@"),
        *("hf://@v2", "hf://datasets/lab/text", "hf://lab/bert/config.json"),
    ],
)
def test_an_address_of_another_form_is_refused(address):
    if address == "hf://lab/":  # An old model, with a slash at the end.
        assert hub.Address.parse(address).name == "lab"
        return
    with pytest.raises(ValueError, match=r"must be hf://ORGANISATION/NAME"):
        hub.resolve(address)


@pytest.mark.parametrize("path", ["lab/bert", "gs://lab/bert", "./hf://bert"])
def test_other_paths_are_no_addresses(path):
    assert not hub.is_address(path)


def test_a_name_that_the_hub_forbids_is_refused_without_a_request(server):
    with pytest.raises(ValueError, match=r"hf://lab/a--b: .*Cannot have --"):
        hub.resolve("hf://lab/a--b")
    assert server.requests == []


@pytest.mark.parametrize("name", [_NAME, "bert-base-uncased"])
def test_the_files_of_a_model_are_fetched_once(server, name):
    others = {"README.md": b"of the authors", "onnx/model.onnx": b"large"}
    # The files of the tokenizer, and those of sentence-transformers.
    names = (
        *("tokenizer", "added_tokens", "special_tokens_map", "modules"),
        *("config_sentence_transformers", "sentence_bert_config"),
        "1_Pooling/config",
    )
    # Equal contents would be fetched once.
    small = {f"{n}.json": b"{}" + b" " * i for i, n in enumerate(names)}
    server.publish(name, {**_MODEL, **small, **others})
    folder = hub.resolve(f"hf://{name}")
    assert _files(folder) == {**_MODEL, **small}
    assert sorted(hub.files_of(folder)) == sorted({**_MODEL, **small})
    assert hub_folders.name_of(folder) == name
    assert hub_folders.name_of(f"{folder}/model.safetensors") == name
    fetched = server.fetched()
    assert sorted(fetched) == sorted({**_MODEL, **small})
    assert fetched[-1] == "model.safetensors"
    # The revision is looked up once, so that all files are of one commit.
    request = f"GET /api/models/{name}/revision/main"
    assert server.requests.count(request) == 1
    server.requests.clear()
    assert hub.resolve(f"hf://{name}") == folder
    assert server.fetched() == []


@pytest.mark.parametrize("revision", ["v2", "refs/pr/1", "feature/new/heads"])
def test_a_revision_is_fetched_by_its_name(server, revision):
    server.publish(_NAME, _MODEL)
    theirs = {**_MODEL, "vocab.txt": b"[PAD]\n[UNK]\nnew\n"}
    commit = server.publish(_NAME, theirs, revision)
    folder = hub.resolve(f"hf://{_NAME}@{revision}")
    assert _files(folder) == theirs
    assert os.path.basename(folder) == commit
    assert hub.resolve(f"hf://{_NAME}@{commit}") == folder
    assert _files(hub.resolve(f"hf://{_NAME}")) == _MODEL


@pytest.mark.parametrize(
    ("published", "fetched"),
    [
        (
            {**_SHARDED, "tf_model.h5": b"b", "model.safetensors": b"a"},
            ["model.safetensors"],
        ),
        ({**_SHARDED, "pytorch_model.bin": b"c"}, [*_SHARDED]),
        ({"pytorch_model.bin": b"c", "tf_model.h5": b"b"}, ["tf_model.h5"]),
        ({"pytorch_model.bin": b"c"}, ["pytorch_model.bin"]),
        (
            {
                "pytorch_model.bin.index.json": _PICKLES,
                "1.bin": b"one",
                "2.bin": b"of no weight",
            },
            ["pytorch_model.bin.index.json", "1.bin"],
        ),
    ],
)
def test_the_weights_are_fetched_in_one_format(server, published, fetched):
    rest = {"config.json": _CONFIG, "vocab.txt": b"[PAD]\n"}
    server.publish(_NAME, {**rest, **published})
    folder = hub.resolve(f"hf://{_NAME}")
    assert hub.files_of(folder) == ["config.json", "vocab.txt", *fetched]
    weights = {name for name in _files(folder) if not name.endswith("json")}
    wanted = {name for name in fetched if not name.endswith("json")}
    assert weights == {"vocab.txt", *wanted}


def test_the_weights_of_another_network_are_not_fetched(server):
    config = json.dumps({"model_type": "roberta"}).encode()
    server.publish(_NAME, {**_MODEL, "config.json": config})
    with pytest.raises(
        ValueError, match=r"hf://lab/tiny-bert: config\.json: model_type.*rob"
    ):
        hub.resolve(f"hf://{_NAME}")
    assert "model.safetensors" not in server.fetched()


def test_the_weights_with_another_tokenizer_are_not_fetched(server):
    tokenizer = b'{"tokenizer_class": "BertJapaneseTokenizer"}'
    server.publish(_NAME, {**_MODEL, "tokenizer_config.json": tokenizer})
    with pytest.raises(
        ValueError, match=r"models--lab--tiny-bert.*class is 'BertJapanese"
    ):
        hub.resolve(f"hf://{_NAME}")
    assert "model.safetensors" not in server.fetched()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", r"must have a file config\.json; it has model\.safe"),
        ("model.safetensors", r"must have a file model\.safetensors or .*; it"),
    ],
)
def test_a_model_without_a_needed_file_is_refused(server, missing, message):
    files = {n: c for n, c in _MODEL.items() if n != missing}
    server.publish(_NAME, files)
    with pytest.raises(ValueError, match=message):
        hub.resolve(f"hf://{_NAME}")


def test_a_missing_model_or_revision_is_named(server):
    server.publish(_NAME, _MODEL)
    with pytest.raises(
        FileNotFoundError, match=r"no model lab/bort on http.*is p"
    ):
        hub.resolve("hf://lab/bort")
    with pytest.raises(FileNotFoundError, match=r"tiny-bert .* no revision v3"):
        hub.resolve(f"hf://{_NAME}@v3")


def test_the_login_and_the_variable_open_private_models(
    server, monkeypatch, tmp_path
):
    server.publish(_NAME, _MODEL)
    server.private.add(_NAME)
    server.tokens |= {"of-the-login", "of-the-variable"}
    with pytest.raises(FileNotFoundError, match=r"hf auth login.*HF_TOKEN"):
        hub.resolve(f"hf://{_NAME}")
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home/token").write_text("of-the-login\n")
    hub.resolve(f"hf://{_NAME}")
    assert server.headers["Authorization"] == "Bearer of-the-login"
    monkeypatch.setenv("HF_TOKEN", "of-the-variable")
    server.publish(_NAME, {**_MODEL, "vocab.txt": b"new"})
    hub.resolve(f"hf://{_NAME}")
    assert server.headers["Authorization"] == "Bearer of-the-variable"
    monkeypatch.setenv("HF_TOKEN", "expired")
    with pytest.raises(
        PermissionError, match=r"refuses access to hf://lab/other: .*valid.*401"
    ) as error:
        hub.resolve("hf://lab/other")
    assert "\n" not in str(error.value)


def test_a_token_without_the_right_to_read_is_named(server):
    server.publish(_NAME, _MODEL)
    server.forbidden.add(_NAME)
    with pytest.raises(
        PermissionError, match=rf"refuses access to hf://{_NAME}: .*403"
    ):
        hub.resolve(f"hf://{_NAME}")


def test_a_gated_model_asks_to_accept_its_conditions(server):
    server.publish(_NAME, _MODEL)
    server.gated.add(_NAME)
    with pytest.raises(
        PermissionError, match=rf"gated: accept .* on http.*/{_NAME}, then log"
    ):
        hub.resolve(f"hf://{_NAME}")


def test_without_network_the_cache_is_used(server, monkeypatch):
    commit = server.publish(_NAME, _MODEL)
    server.publish(_NAME, {**_MODEL, "vocab.txt": b"pr"}, "refs/pr/1")
    folder = hub.resolve(f"hf://{_NAME}")
    request = hub.resolve(f"hf://{_NAME}@refs/pr/1")
    server.requests.clear()
    _set_offline(monkeypatch)
    assert hub.resolve(f"hf://{_NAME}") == folder
    assert hub.resolve(f"hf://{_NAME}@{commit}") == folder
    assert hub.resolve(f"hf://{_NAME}@refs/pr/1") == request
    with pytest.raises(
        FileNotFoundError, match=r"@v2 is not complete in .*home/hub.*OFFLINE"
    ):
        hub.resolve(f"hf://{_NAME}@v2")
    os.remove(f"{folder}/model.safetensors")
    with pytest.raises(FileNotFoundError, match="not complete in the cache"):
        hub.resolve(f"hf://{_NAME}")
    assert server.requests == []


def test_a_cache_that_transformers_filled_is_used(server, monkeypatch):
    # File by file: the cache has no list of the files of the model.
    import huggingface_hub

    server.publish(_NAME, _MODEL)
    for name in _MODEL:
        path = huggingface_hub.hf_hub_download(_NAME, name)
    _set_offline(monkeypatch)
    assert hub.resolve(f"hf://{_NAME}") == os.path.dirname(path)
    os.remove(f"{os.path.dirname(path)}/model.safetensors")
    with pytest.raises(FileNotFoundError, match="not complete in the cache"):
        hub.resolve(f"hf://{_NAME}")


def test_an_unreachable_hub_is_named_unless_the_cache_suffices(
    server, monkeypatch
):
    from huggingface_hub import constants

    server.publish(_NAME, _MODEL)
    folder = hub.resolve(f"hf://{_NAME}")
    # It has read its variables.
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert hub.resolve(f"hf://{_NAME}") == folder
    with pytest.raises(
        ConnectionError, match=r"hf://lab/other cannot be fetched from .*:9"
    ) as error:
        hub.resolve("hf://lab/other")
    assert "Connection refused" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_damaged_download_is_refused_and_not_kept(server):
    commit = server.publish(_NAME, _MODEL)
    server.damaged.add(f"/{_NAME}/resolve/{commit}/model.safetensors")
    with pytest.raises(
        ConnectionError, match=r"Run the same command again.*of size 11 .* 5"
    ) as error:
        hub.resolve(f"hf://{_NAME}")
    assert "\n" not in str(error.value)
    server.damaged.clear()
    assert _files(hub.resolve(f"hf://{_NAME}")) == _MODEL


def test_an_error_of_the_file_system_keeps_its_file(server, tmp_path):
    server.publish(_NAME, _MODEL)
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home/hub").write_text("a file where the cache should be")
    with pytest.raises(NotADirectoryError) as error:
        hub.resolve(f"hf://{_NAME}")
    assert str(error.value.filename).startswith(str(tmp_path / "home/hub"))


def test_a_server_without_the_hub_s_addresses_is_named(monkeypatch, tmp_path):
    from tests.support import web_server

    with web_server.running() as site:
        hub_server.use(monkeypatch, site.address, tmp_path)
        path = f"/api/models/{_NAME}/revision/main"
        site.files[path] = b'{"id": "x", "sha": "%s"}' % (b"0" * 40)
        site.files[f"/api/models/{_NAME}/tree/{'0' * 40}?recursive=true"] = (
            b"{}"
        )
        for content in (b"<html>Log in</html>", b'{"sha": null}', b"[]"):
            site.files[path] = content
            with pytest.raises(ConnectionError, match="not answer as the hub"):
                hub.resolve(f"hf://{_NAME}")


def test_the_variables_of_the_hub_have_their_effects(tmp_path):
    code = f"from bert.models import hub; print(hub.resolve('hf://{_NAME}'))"

    def resolve(**variables):
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=locations.ROOT,
            env={"PATH": os.environ["PATH"], "no_proxy": "*", **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    with hub_server.running() as site:
        site.publish(_NAME, _MODEL)
        site.tokens.add("secret")
        online = resolve(
            HF_ENDPOINT=f"{site.address}/",
            HF_HUB_CACHE=str(tmp_path / "cache"),
            HF_TOKEN="secret",
        )
        assert site.headers["Authorization"] == "Bearer secret"
    assert online.returncode == 0, online.stderr
    assert online.stderr == ""  # No bars in a log.
    folder = online.stdout.strip()
    assert folder.startswith(str(tmp_path / "cache"))
    (tmp_path / "home").mkdir()
    (tmp_path / "cache").rename(tmp_path / "home/hub")
    offline = resolve(HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "home"))
    assert offline.stdout.strip() == folder.replace("cache", "home/hub")


def test_importing_the_module_imports_no_client():
    code = "import sys; from bert.models import hub; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=locations.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "huggingface_hub" not in done.stdout.split()

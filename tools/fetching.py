"""Files from the web, and models of Hugging Face's hub.

The hub is addressed as its own library does: HF_ENDPOINT is its address,
HF_TOKEN the user's, and files in the cache below HF_HOME are used. With
HF_HUB_OFFLINE=1 only the cache is read.
"""

import dataclasses
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from files import json_text, run_files, writing
from modeling import config as config_lib
from modeling import huggingface, huggingface_config

HUB = "hf://"
_ENDPOINT = "https://huggingface.co"
_WEIGHTS = (huggingface.WEIGHTS, "pytorch_model.bin")
_TOKENIZER = "tokenizer.json"
_TRUE = ("1", "ON", "TRUE", "YES")
_ATTEMPTS_AGAIN = 2


def fetch(
    url: str,
    path: str,
    *,
    sha256: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Downloads a file, which appears when it is complete.

    Proxies are taken from `https_proxy` and `no_proxy`.

    Args:
        url: `http://` or `https://`.
        path: the destination; its folder is created if missing.
        sha256: of the content, if known.
        headers: of the request.

    Raises:
        OSError: the server refuses, or the connection fails repeatedly.
        ValueError: the hash differs, or the server sent a web page.
    """
    import pooch

    pooch.get_logger().setLevel("ERROR")
    load = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(), headers=dict(headers or {})
    )

    def checked(url: str, output_file: str, fetcher: Any) -> None:
        load(url, output_file, fetcher)
        with open(output_file, "rb") as file:
            if file.read(200).lstrip().startswith(b"<"):
                raise ValueError(
                    f"{url}: the server sent a web page. Does the network "
                    "require a login?"
                )

    folder, name = os.path.split(path)
    fetcher = pooch.create(
        path=folder or ".",
        base_url="",
        registry={name: sha256},
        urls={name: url},
        retry_if_failed=_ATTEMPTS_AGAIN,
    )
    fetcher.fetch(name, downloader=checked)


# ------------------------------------------------------------------- The hub


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """A model of the hub at one commit.

    Attributes:
        name: `ORGANISATION/NAME`.
        commit: of its repository.
        files: the hashes of its files, None if unknown.
        folder: of this commit in the cache, which may be missing.
    """

    name: str
    commit: str
    files: Mapping[str, str | None]
    folder: str

    def copy(self, file: str, target: str) -> None:
        """Copies a file of the cache, or else downloads it."""
        cached = os.path.join(self.folder, file)
        if os.path.exists(cached):
            shutil.copyfile(cached, target)
            return
        url = f"{_endpoint()}/{self.name}/resolve/{self.commit}/{file}"
        fetch(url, target, sha256=self.files[file], headers=_headers())


def fetch_model(address: str, output_dir: str) -> str:
    """Fetches a BERT of the hub into a folder that every script takes.

    Args:
        address: `hf://ORGANISATION/NAME` or `hf://ORGANISATION/NAME@REVISION`.
        output_dir: gets a folder `NAME`, or `NAME@REVISION`.

    Returns:
        The folder. One that exists is left alone.

    Raises:
        OSError: the model is not there, or not in the cache without network.
        ValueError: it is not BERT, or has no supported weights.
    """
    name, _, revision = address.removeprefix(HUB).partition("@")
    folder = os.path.join(output_dir, address.rpartition("/")[2])
    if os.path.isdir(folder):
        return folder
    snapshot = _find(name, revision or "main")
    with writing.whole_folder(folder) as made:
        os.makedirs(made)
        _require(snapshot, [huggingface_config.CONFIG])
        config_file = os.path.join(made, huggingface_config.CONFIG)
        snapshot.copy(huggingface_config.CONFIG, config_file)
        config = config_lib.BertConfig.from_json_file(config_file)
        with writing.whole_file(os.path.join(made, config_lib.FILE)) as file:
            file.write(config.to_json_string())
        wanted = [
            _require(snapshot, _WEIGHTS),
            _require(snapshot, [run_files.VOCABULARY, _TOKENIZER]),
            huggingface_config.TOKENIZER,
            _TOKENIZER,
        ]
        for file_name in dict.fromkeys(wanted):
            if file_name in snapshot.files:
                snapshot.copy(file_name, os.path.join(made, file_name))
        if run_files.VOCABULARY not in snapshot.files:
            _write_vocabulary(made)
    return folder


def _require(snapshot: _Snapshot, names: list[str] | tuple[str, ...]) -> str:
    """Returns the first of some files that a model has."""
    found = [name for name in names if name in snapshot.files]
    if not found:
        raise ValueError(
            f"{HUB}{snapshot.name} must have a file {' or '.join(names)}; it "
            f"has {', '.join(sorted(snapshot.files)) or 'no files'}."
        )
    return found[0]


def _find(name: str, revision: str) -> _Snapshot:
    cache = os.path.join(_cache(), f"models--{name.replace('/', '--')}")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE:
        commit = revision
        reference = os.path.join(cache, "refs", revision)
        if os.path.exists(reference):
            with open(reference, encoding="utf-8") as file:
                commit = file.read().strip()
        folder = os.path.join(cache, "snapshots", commit)
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"{HUB}{name} at {revision} is not in {_cache()}, and "
                "HF_HUB_OFFLINE is set. Download it once with network."
            )
        held = dict.fromkeys(os.listdir(folder))
        return _Snapshot(name=name, commit=commit, files=held, folder=folder)
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "model.json")
        url = f"{_endpoint()}/api/models/{name}/revision/{revision}?blobs=true"
        fetch(url, path, headers=_headers())
        told = json_text.read_object(path)
    files = {
        each["rfilename"]: (each.get("lfs") or {}).get("sha256")
        for each in told["siblings"]
    }
    folder = os.path.join(cache, "snapshots", told["sha"])
    return _Snapshot(name=name, commit=told["sha"], files=files, folder=folder)


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", _ENDPOINT).rstrip("/")


def _headers() -> dict[str, str]:
    token = os.environ.get("HF_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _cache() -> str:
    """Returns the folder of the hub's cache, as its library finds it."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
        "huggingface",
    )
    return os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")


def _write_vocabulary(folder: str) -> None:
    """Writes the vocab.txt of newer models, which have only tokenizer.json."""
    path = os.path.join(folder, _TOKENIZER)
    ids: Any = json_text.read_object(path).get("model", {}).get("vocab")
    if not isinstance(ids, dict) or sorted(ids.values()) != [*range(len(ids))]:
        raise ValueError(f"{path} must have a WordPiece vocabulary.")
    pieces = [f"{piece}\n" for piece in sorted(ids, key=ids.__getitem__)]
    with writing.whole_file(os.path.join(folder, run_files.VOCABULARY)) as file:
        file.writelines(pieces)

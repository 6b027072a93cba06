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
from collections.abc import Collection, Mapping
from typing import Any

from files import json_text, run_files, writing
from modeling import config as config_lib
from modeling import huggingface, huggingface_config
from training import model_folder

HUB = "hf://"
_TOKENIZER = "tokenizer.json"
# Files of which a model needs one; the first that it has is fetched. The
# configuration comes before the weights, so that another network is refused.
_NEEDED = (
    (huggingface_config.CONFIG,),
    (huggingface.WEIGHTS, "pytorch_model.bin"),
    (run_files.VOCABULARY, _TOKENIZER),
)
_TRUE = ("1", "ON", "TRUE", "YES")


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
        OSError: the server refuses, or the connection fails.
        ValueError: the hash differs.
    """
    import pooch

    pooch.get_logger().setLevel("ERROR")
    folder, name = os.path.split(path)
    pooch.retrieve(
        url,
        sha256,
        fname=name,
        path=folder or ".",
        downloader=pooch.HTTPDownloader(
            progressbar=sys.stderr.isatty(), headers=dict(headers or {})
        ),
    )


# ------------------------------------------------------------------- The hub


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """A model of the hub at one commit.

    Attributes:
        folder: in the cache, which may be missing.
        url: of its files.
        headers: of requests.
        files: the hashes of its files, None if unknown.
    """

    folder: str
    url: str
    headers: Mapping[str, str]
    files: Mapping[str, str | None]

    def copy(self, file: str, target: str) -> None:
        """Copies a file of the cache, or else downloads it."""
        cached = os.path.join(self.folder, file)
        if os.path.exists(cached):
            shutil.copyfile(cached, target)
            return
        url, sha256 = f"{self.url}/{file}", self.files[file]
        fetch(url, target, sha256=sha256, headers=self.headers)


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
    wanted = _wanted(address, snapshot.files)
    with writing.whole_folder(folder) as made:
        os.makedirs(made)
        for file in wanted:
            path = os.path.join(made, file)
            snapshot.copy(file, path)
            if file == huggingface_config.CONFIG:
                config = config_lib.BertConfig.from_json_file(path)
                model_folder.write(made, config.to_dict(), {})
        if run_files.VOCABULARY not in wanted:
            _write_vocabulary(made)
    return folder


def _wanted(address: str, files: Collection[str]) -> list[str]:
    wanted = []
    for names in _NEEDED:
        found = [name for name in names if name in files]
        if not found:
            raise ValueError(
                f"{address} must have a file {' or '.join(names)}; it has "
                f"{', '.join(sorted(files)) or 'no files'}."
            )
        wanted.append(found[0])
    more = [huggingface_config.TOKENIZER, _TOKENIZER]
    return [*wanted, *(n for n in more if n in files and n not in wanted)]


def _find(name: str, revision: str) -> _Snapshot:
    site = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = os.environ.get("HF_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    cache = os.path.join(
        *(os.path.expanduser(home), "hub", f"models--{name.replace('/', '--')}")
    )
    files: dict[str, str | None]
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE:
        commit = revision
        reference = os.path.join(cache, "refs", revision)
        if os.path.exists(reference):
            with open(reference, encoding="utf-8") as file:
                commit = file.read().strip()
        folder = os.path.join(cache, "snapshots", commit)
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"{HUB}{name} at {revision} is not in {cache}, and "
                "HF_HUB_OFFLINE is set. Download it once with network."
            )
        files = dict.fromkeys(os.listdir(folder))
    else:
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "model.json")
            url = f"{site}/api/models/{name}/revision/{revision}?blobs=true"
            fetch(url, path, headers=headers)
            told = json_text.read_object(path)
        commit = told["sha"]
        files = {
            each["rfilename"]: (each.get("lfs") or {}).get("sha256")
            for each in told["siblings"]
        }
    return _Snapshot(
        folder=os.path.join(cache, "snapshots", commit),
        url=f"{site}/{name}/resolve/{commit}",
        headers=headers,
        files=files,
    )


def _write_vocabulary(folder: str) -> None:
    """Writes the vocab.txt of newer models, which have only tokenizer.json."""
    path = os.path.join(folder, _TOKENIZER)
    ids: Any = json_text.read_object(path).get("model", {}).get("vocab")
    if not isinstance(ids, dict) or sorted(ids.values()) != [*range(len(ids))]:
        raise ValueError(f"{path} must have a WordPiece vocabulary.")
    with writing.whole_file(os.path.join(folder, run_files.VOCABULARY)) as file:
        file.writelines(
            f"{piece}\n" for piece in sorted(ids, key=ids.__getitem__)
        )

"""Folders of models that come from Hugging Face's hub.

A copy of a model notes its address and its commit in `hub.json`.
"""

import os
import re
import shutil

from absl import logging

from bert.files import json_text, run_files, writing
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.models import hub
from modeling import config as config_lib
from vocab import huggingface_tokenizer

_ORIGIN = "hub.json"
_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/[0-9a-f]{40}")


def copy_model(address: str, output_dir: str) -> str:
    """Copies a BERT of the hub into a folder that every script takes.

    Args:
        address: `hf://ORGANISATION/NAME` or `hf://ORGANISATION/NAME@REVISION`.
        output_dir: gets a folder `NAME` or `NAME@REVISION`, in which `--`
            replaces the slashes of the revision.

    Returns:
        The folder. One that exists is left alone.

    Raises:
        OSError: the model cannot be fetched, or is not in the cache without
            network.
        ValueError: it, or its tokenizer, is not BERT's; a file that it needs
            is missing; or the folder is of another model.
    """
    model = hub.Address.parse(address)
    name = os.path.basename(model.name)
    if model.revision is not None:
        name = f"{name}@{model.revision.replace('/', '--')}"
    folder = os.path.join(output_dir, name)
    if os.path.isdir(folder):
        _check_origin(folder, str(model))
        return folder
    source = folder_lib.ModelFolder.open(str(model))
    if source.vocab_file is None:
        raise ValueError(
            f"{model} must have a file {run_files.VOCABULARY} or "
            f"{huggingface_tokenizer.PIPELINE}, a vocabulary of word pieces."
        )
    config = config_lib.BertConfig.from_checkpoint(source.path)
    with writing.whole_folder(folder) as partial:
        for file in hub.files_of(source.path):
            target = os.path.join(partial, file)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(source.path, file), target)
        folder_lib.write(
            partial, config, description_lib.Description(), source.vocab_file
        )
        commit = os.path.basename(source.path)
        writing.write_json(
            os.path.join(partial, _ORIGIN),
            {"address": str(model), "commit": commit},
        )
    return folder


def _check_origin(folder: str, address: str) -> None:
    origin = _origin(folder)
    if origin is None:
        logging.warning(
            "%s exists, and does not say which model it is; %s is not fetched.",
            folder,
            address,
        )
    elif origin != address:
        raise ValueError(
            f"{folder} is the folder of {origin}. Choose another --output_dir "
            f"for {address}."
        )


def _origin(folder: str) -> str | None:
    """Returns the address of the model that a folder is a copy of."""
    path = os.path.join(folder, _ORIGIN)
    if not os.path.exists(path):
        return None
    return json_text.read_object(path).get("address")


def name_of(path: str) -> str | None:
    """Returns the name on the hub of a model; None if it is not from there.

    Args:
        path: an address; or a folder of the cache, a copy of a model, or a
            checkpoint in it.
    """
    if hub.is_address(path):
        return hub.Address.parse(path).name
    folder = config_lib.folder_of(path)
    address = _origin(folder)
    if address is not None:
        return hub.Address.parse(address).name
    match = _SNAPSHOT.search(folder)
    return match[1].replace("--", "/") if match else None

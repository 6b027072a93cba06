"""Folders with the files of models, whose weights are never read."""

import dataclasses
import json
import pathlib
from typing import Any

from bert.models import description as description_lib
from bert.models import folder as folder_lib
from modeling import config as config_lib
from vocab import tokenization

CONFIG = config_lib.BertConfig(
    vocab_size=11,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=160,
    type_vocab_size=2,
)
TAGGER = description_lib.Description(
    task=description_lib.TAGGING,
    labels=("O", "B-PER"),
    do_lower_case=False,
    strip_accents=False,
    vocab_sha256=tokenization.vocab_sha256(["[PAD]", "a"]),
    attention="bidirectional",
    max_seq_length=128,
    flags={"context": "sentence"},
)


def put(folder: pathlib.Path, name: str, values: Any) -> None:
    """Writes a JSON file."""
    (folder / name).write_text(json.dumps(values), encoding="utf-8")


def put_entries(path: pathlib.Path, entries: list[str]) -> str:
    """Writes a vocabulary; returns its path."""
    path.write_text("".join(f"{e}\n" for e in entries), encoding="utf-8")
    return str(path)


def trained(
    folder: pathlib.Path, *, by_others: bool = False, **description: Any
) -> folder_lib.ModelFolder:
    """Writes a described folder with files like those of a checkpoint.

    Its description is of the vocabulary in the folder, if there is one.
    """
    vocab_file = folder / "vocab.txt"
    if vocab_file.exists():
        tokens = tokenization.load_vocab(str(vocab_file))
        description.setdefault(
            "vocab_sha256", tokenization.vocab_sha256(tokens)
        )
    folder_lib.write(
        str(folder), CONFIG, dataclasses.replace(TAGGER, **description)
    )
    (folder / "model.ckpt-3.index").touch()
    if not by_others:
        (folder / "model.ckpt-3.state.json").write_text("{}")
    return folder_lib.ModelFolder.open(str(folder))


def described(folder: pathlib.Path) -> dict[str, Any]:
    """Reads task.json."""
    return json.loads((folder / "task.json").read_text(encoding="utf-8"))

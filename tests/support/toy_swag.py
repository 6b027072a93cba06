"""Small files in SWAG's format, and a model to learn them."""

import csv
import random

import run_swag
from tests.support import programs, toy_config, toy_files

COLUMNS = [
    *("", "video-id", "fold-ind", "startphrase", "sent1", "sent2"),
    *("gold-source", "ending0", "ending1", "ending2", "ending3"),
]
WORDS = [f"w{chr(97 + i)}" for i in range(12)]


def write(path, rows, *, with_labels=True) -> str:
    """Writes rows of (sent1, sent2, four endings, label) as pandas does."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS + (["label"] if with_labels else []))
        for index, (sent1, sent2, endings, label) in enumerate(rows):
            writer.writerow(
                [
                    *(index, "lsmdc1052_Harry", 18313 + index),
                    *(f"{sent1} {sent2}", sent1, sent2, "gold0-reannot"),
                    *endings,
                    *([label] if with_labels else []),
                ]
            )
    return str(path)


def copying(num_rows, seed):
    """Draws rows whose right ending repeats the word of the first sentence."""
    rng = random.Random(seed)
    rows = []
    for _ in range(num_rows):
        words = rng.sample(WORDS, 4)
        label = rng.randrange(4)
        rows.append((words[label], "then", words, label))
    return rows


def write_all(folder) -> None:
    """Writes files to train on and to test with."""
    write(folder / "train.csv", copying(48, seed=1))
    write(folder / "val.csv", copying(21, seed=2))
    write(folder / "test.csv", copying(10, seed=3), with_labels=False)


def write_model(folder) -> dict[str, str]:
    """Writes a vocabulary and a configuration; returns them by flag."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "then", *WORDS]
    toy_files.write_lines(folder / "vocab.txt", tokens)
    toy_config.write(
        folder / "bert_config.json",
        vocab_size=len(tokens),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        **toy_config.NO_DROPOUT,
        initializer_range=0.1,
    )
    return {
        "vocab_file": str(folder / "vocab.txt"),
        "bert_config_file": str(folder / "bert_config.json"),
    }


def flags_of(folder, **changes) -> dict[str, object]:
    """Names the flags of a small run on the files of a folder, or toy files."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "train.csv").exists():
        write_all(folder)
    return {
        "data_dir": folder,
        "output_dir": folder / "out",
        "max_seq_length": 8,
        "train_batch_size": 8,
        "num_train_epochs": 1,
        **write_model(folder),
        **changes,
    }


_TOY = programs.Toy(run_swag, flags_of)
parse, run = _TOY.parse, _TOY.run

"""Small files in SWAG's format, and a model to learn them."""

import csv
import random

from tests.support import toy_config

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


def write_model(folder) -> dict[str, str]:
    """Writes a vocabulary and a configuration; returns them by flag."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "then", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    toy_config.write(
        folder / "bert_config.json",
        vocab_size=len(tokens),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
    )
    return {
        "vocab_file": str(folder / "vocab.txt"),
        "bert_config_file": str(folder / "bert_config.json"),
    }

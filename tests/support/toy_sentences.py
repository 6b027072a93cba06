"""Sentences whose label is one of their words, and a network for them."""

import random
import shutil

import run_classifier
from tests.support import (
    locations,
    programs,
    toy_config,
    toy_files,
    toy_vocabulary,
)

_GOOD = ("good", "great", "fine", "nice")
_BAD = ("bad", "poor", "awful", "sad")
_OTHER = ("the", "match", "was", "a", "very", "long", "one", "in", "town")
WORDS = (*toy_vocabulary.SPECIAL, *_GOOD, *_BAD, *_OTHER)


def sentences(count, seed, longest=6):
    """Draws sentences; each holds one word that makes it "yes" or "no"."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        label = rng.choice(("no", "yes"))
        words = [rng.choice(_OTHER) for _ in range(rng.randint(2, longest))]
        telling = rng.choice(_GOOD if label == "yes" else _BAD)
        words.insert(rng.randrange(len(words)), telling)
        rows.append((" ".join(words), label))
    return rows


def write_tsv(path, rows, header=("text", "label")):
    """Writes rows below a header; returns the path."""
    lines = ["\t".join(row) for row in (header, *rows)]
    toy_files.write_lines(path, lines)
    return str(path)


def write_data(folder, train=None):
    """Writes train, dev and test files, the last one without labels."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tsv(folder / "train.tsv", train or sentences(320, seed=1))
    write_tsv(folder / "dev.tsv", sentences(30, seed=2))
    unlabeled = [(text,) for text, _ in sentences(11, seed=3)]
    write_tsv(folder / "test.tsv", unlabeled, header=("text",))
    return folder


def write_model(folder, **changes):
    """Writes a vocabulary and the configuration of a small network."""
    folder.mkdir(parents=True, exist_ok=True)
    toy_files.write_lines(folder / "vocab.txt", WORDS)
    sizes = {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 20,
        "max_position_embeddings": 32,
        "initializer_range": 0.1,
        **toy_config.NO_DROPOUT,
        **changes,
    }
    toy_config.write(folder / "bert_config.json", **sizes)
    return folder


def flags_of(folder, **changes):
    """Names the flags of a run on toy data: `data`, `model`, `out` in it."""
    if not (folder / "data").exists():
        write_data(folder / "data")
    if not (folder / "model").exists():
        write_model(folder / "model")
    return {
        "task_name": "custom",
        "data_dir": str(folder / "data"),
        "text_a_column": "text",
        "label_column": "label",
        "vocab_file": str(folder / "model/vocab.txt"),
        "bert_config_file": str(folder / "model/bert_config.json"),
        "output_dir": str(folder / "out"),
        "max_seq_length": 24,
        "train_batch_size": 16,
        "learning_rate": 1e-3,
        "num_train_epochs": 3,
        **changes,
    }


_TOY = programs.Toy(run_classifier, flags_of)
parse, run, resume = _TOY.parse, _TOY.run, _TOY.resume
results = programs.eval_results


def golden_flags(folder, **changes):
    """Names the flags of a run on the model that the release fine-tuned."""
    folder.mkdir(exist_ok=True)
    for file in (locations.GOLDEN / "classifier").glob("mrpc.ckpt-24.*"):
        shutil.copy(file, folder)
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "mrpc.ckpt-24"\n'
    )
    return {
        "task_name": "MRPC",
        "data_dir": str(locations.GOLDEN / "inputs/MRPC"),
        "vocab_file": locations.VOCAB_FILE,
        "bert_config_file": locations.CONFIG_FILE,
        "output_dir": str(folder),
        "max_seq_length": 64,
        "text_a_column": "",
        "label_column": "",
        **changes,
    }

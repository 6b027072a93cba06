"""The two scales: the paper's and that of a laptop."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from paper import running

BASE, LARGE = SIZES = ("base", "large")


class Phase(NamedTuple):
    """Steps of pre-training at one length, on records of it."""

    max_seq_length: int
    max_predictions_per_seq: int
    batch_size: int
    num_steps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Models, data and hyperparameters of all tables.

    Attributes:
        is_full: whether models and vocabulary are the release's and numbers the
            paper's.
        texts: of pre-training: flags of `tools.prepare_corpus` by name. Of the
            files of a text, `create_pretraining_data.py` shuffles the order.
        networks: configuration files by name, smallest first.
        sizes: the names of the models in place of BASE and LARGE.
        phases: of pre-training, in order, under one schedule of the rate.
        dupe_factor: maskings of each text.
        learning_rate: the peak of pre-training.
        num_warmup_steps: of pre-training.
        keep_every: steps between checkpoints that stay, for Figure 5.
        figure_steps: the steps of the points of Figure 5.
        figure_task: the task of GLUE in Figure 5.
        tuning: flags of fine-tuning, by kind of task.
        num_seeds: of question answering, which has a command for each.
        num_restarts: seeds of Table 6, and of LARGE in Table 1.
        num_members: of an ensemble in Table 2.
        scoring_batch_size: of evaluation and prediction, whose results it does
            not change; the release's 8 is slow.
        training_flags: of every script that trains.
    """

    is_full: bool
    texts: Mapping[str, running.Flags]
    networks: Mapping[str, str]
    sizes: Mapping[str, str]
    phases: tuple[Phase, ...]
    dupe_factor: int
    learning_rate: float
    num_warmup_steps: int
    keep_every: int
    figure_steps: tuple[int, ...]
    figure_task: str
    tuning: Mapping[str, running.Flags]
    num_seeds: int
    num_restarts: int
    num_members: int
    scoring_batch_size: int
    training_flags: running.Flags = dataclasses.field(default_factory=dict)


def _text(
    input_format: str, files: str, num_output_files: int, holdout_every: int
) -> running.Flags:
    return {
        "input_format": input_format,
        "input_file": f"{running.DATA}/corpora/{files}",
        "num_output_files": num_output_files,
        "holdout_every": holdout_every,
    }


def _tuning(
    length: int, batch_size: int, num_epochs: float, **more: running.Value
) -> running.Flags:
    return {
        "max_seq_length": length,
        "train_batch_size": batch_size,
        "num_train_epochs": num_epochs,
        **more,
    }


_CONFIGS = "modeling/configs"
FULL = Scale(
    is_full=True,
    # Source: section 3.1: Wikipedia and books.
    texts={
        "wikipedia": _text("wikiextractor", "wikipedia/*/wiki_*", 64, 200),
        "books": _text("book", "books/*", 64, 200),
    },
    # Source: Table 6: layers, width, heads.
    networks={
        "L-3 H-768 A-12": f"{_CONFIGS}/uncased_L-3_H-768_A-12.json",
        "L-6 H-768 A-3": f"{_CONFIGS}/uncased_L-6_H-768_A-3.json",
        "L-6 H-768 A-12": f"{_CONFIGS}/uncased_L-6_H-768_A-12.json",
        "L-12 H-768 A-12": f"{_CONFIGS}/bert_base_uncased.json",
        "L-12 H-1024 A-16": f"{_CONFIGS}/uncased_L-12_H-1024_A-16.json",
        "L-24 H-1024 A-16": f"{_CONFIGS}/bert_large_uncased.json",
    },
    sizes={BASE: "L-12 H-768 A-12", LARGE: "L-24 H-1024 A-16"},
    # Source: appendix A.2: a million steps of 256 sequences, nine in ten of
    # them of 128 tokens, then of 512.
    phases=(Phase(128, 20, 256, 900_000), Phase(512, 77, 256, 100_000)),
    dupe_factor=5,
    learning_rate=1e-4,
    num_warmup_steps=10_000,
    keep_every=10_000,
    figure_steps=tuple(
        1000 * k for k in (30, 50, 100, 200, 400, 600, 800, 1000)
    ),
    figure_task="MNLI",
    tuning={
        # Source: section 4.1, and appendix A.3 for the rates; the length,
        # on which it is silent, is that of the release's README.
        "glue": _tuning(
            128, 32, 3.0, learning_rates=(5e-5, 4e-5, 3e-5, 2e-5), num_trials=1
        ),
        # Source: sections 4.2 to 4.4; lengths are the release's defaults.
        "squad-1.1": _tuning(384, 32, 3.0, learning_rate=5e-5),
        "squad-2.0": _tuning(384, 48, 2.0, learning_rate=5e-5),
        "swag": _tuning(128, 16, 3.0, learning_rates=2e-5, num_trials=1),
        # Source: section 5.3 and the ranges of appendix A.3.
        "ner": _tuning(
            512, 32, 4.0, learning_rates=(5e-5, 3e-5, 2e-5), num_trials=5
        ),
        # The defaults of run_ner.py --features; the paper is silent.
        "ner-features": _tuning(
            512, 32, 20.0, learning_rates=1e-3, num_trials=5
        ),
    },
    num_seeds=1,
    num_restarts=5,
    num_members=7,
    scoring_batch_size=32,
)

# Source: the largest rate of the grid that the release's README gives for its
# miniatures. The networks know 128 positions.
_FEW = _tuning(128, 32, 2.0, learning_rates=3e-4, num_trials=2, packing=True)
_FEW_OF_SQUAD = _tuning(128, 32, 2.0, learning_rate=3e-4, doc_stride=64)
SMALL = Scale(
    is_full=False,
    texts={
        "wikipedia": _text("wikiextractor", "*wiki*", 4, 50),
        "novels": _text("book", "novels/*", 4, 20),
    },
    # Dropout is 0 and the initial weights are three times as wide as in the
    # paper: such networks leave the plateau of guessing words by their
    # frequency sooner.
    networks={
        "L-2 H-128": "paper/configs/small_L-2_H-128_A-2.json",
        "L-4 H-128": "paper/configs/small_L-4_H-128_A-2.json",
        "L-4 H-256": "paper/configs/small_L-4_H-256_A-4.json",
    },
    sizes={BASE: "L-4 H-128", LARGE: "L-4 H-256"},
    phases=(Phase(32, 5, 256, 3_000), Phase(128, 20, 64, 1_000)),
    dupe_factor=1,
    learning_rate=1e-3,
    num_warmup_steps=500,
    keep_every=500,
    figure_steps=(500, 1_000, 2_000, 4_000),
    # MNLI has six times as many examples.
    figure_task="SST-2",
    tuning={
        **dict.fromkeys(("glue", "swag", "ner"), _FEW),
        **dict.fromkeys(("squad-1.1", "squad-2.0"), _FEW_OF_SQUAD),
        "ner-features": {**_FEW, "learning_rates": 1e-3},
    },
    num_seeds=2,
    num_restarts=2,
    num_members=3,
    scoring_batch_size=128,
)
ALL = {"full": FULL, "small": SMALL}

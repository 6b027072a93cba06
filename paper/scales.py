"""The two scales: the paper's and that of a laptop."""

import dataclasses

from paper import recipes, running


def _texts(
    num_output_files: int, **sources: tuple[str, str, int]
) -> tuple[running.Command, ...]:
    """Returns the commands that make text of raw text.

    Args:
        num_output_files: of each; `create_pretraining_data.py` shuffles them.
        **sources: the format of each, its files, and which part of its
            documents is held out.
    """
    return tuple(
        running.Command(
            name=f"text {name}",
            program="tools.prepare_corpus",
            flags={
                "input_format": form,
                "input_file": running.Data(files),
                "output_file": running.Output("text-%05d.txt"),
                "num_output_files": num_output_files,
                "holdout_every": holdout_every,
                "holdout_file": running.Output("held_out.txt"),
            },
        )
        for name, (form, files, holdout_every) in sources.items()
    )


def full() -> recipes.Scale:
    """Returns the paper's scale."""
    configs = "modeling/configs"
    return recipes.Scale(
        is_full=True,
        # Source: section 3.1: Wikipedia and books.
        texts=_texts(
            64,
            wikipedia=("wikiextractor", "corpora/wikipedia/*/wiki_*", 200),
            books=("book", "corpora/books/*", 200),
        ),
        vocab_file=running.Data("uncased_L-12_H-768_A-12/vocab.txt"),
        # Source: Table 6: layers, width, heads.
        networks={
            "L-3 H-768 A-12": f"{configs}/uncased_L-3_H-768_A-12.json",
            "L-6 H-768 A-3": f"{configs}/uncased_L-6_H-768_A-3.json",
            "L-6 H-768 A-12": f"{configs}/uncased_L-6_H-768_A-12.json",
            "L-12 H-768 A-12": f"{configs}/bert_base_uncased.json",
            "L-12 H-1024 A-16": f"{configs}/uncased_L-12_H-1024_A-16.json",
            "L-24 H-1024 A-16": f"{configs}/bert_large_uncased.json",
        },
        sizes={"base": "L-12 H-768 A-12", "large": "L-24 H-1024 A-16"},
        # Source: appendix A.2: a million steps of 256 sequences, nine in ten of
        # them of 128 tokens, then of 512.
        phases=(
            recipes.Phase(128, 20, 256, 900_000),
            recipes.Phase(512, 77, 256, 100_000),
        ),
        dupe_factor=5,
        learning_rate=1e-4,
        num_warmup_steps=10_000,
        keep_every=10_000,
        figure_steps=tuple(
            1000 * k for k in (30, 50, 100, 200, 400, 600, 800, 1000)
        ),
        tuning={
            # Source: section 4.1, and appendix A.3 for the rates; the length,
            # on which it is silent, is that of the release's README.
            "glue": recipes.Tuning(128, 32, 3.0, (5e-5, 4e-5, 3e-5, 2e-5)),
            # Source: sections 4.2 to 4.4; lengths are the release's defaults.
            "squad-1.1": recipes.Tuning(384, 32, 3.0, (5e-5,)),
            "squad-2.0": recipes.Tuning(384, 48, 2.0, (5e-5,)),
            "swag": recipes.Tuning(128, 16, 3.0, (2e-5,)),
            # Source: section 5.3 and the ranges of appendix A.3.
            "ner": recipes.Tuning(
                512, 32, 4.0, (5e-5, 3e-5, 2e-5), num_trials=5
            ),
            # The defaults of run_ner.py --features; the paper is silent.
            "ner-features": recipes.Tuning(
                512, 32, 20.0, (1e-3,), num_trials=5
            ),
        },
        num_restarts=5,
        num_members=7,
        scoring_batch_size=32,
    )


def small() -> recipes.Scale:
    """Returns the scale of a laptop."""
    texts = _texts(
        4,
        wikipedia=("wikiextractor", "corpora/*wiki*", 50),
        novels=("book", "corpora/novels/*", 20),
    )
    vocabulary = running.Command(
        name="vocabulary",
        program="tools.learn_vocab",
        flags={
            "input_file": tuple(running.Output("text-*.txt", t) for t in texts),
            "output_file": running.Output("vocab.txt"),
            "vocab_size": 8192,
            "min_character_count": 50,
        },
    )
    # Source: the largest rate of the grid that the release's README gives for
    # its miniatures. The networks know 128 positions.
    few = recipes.Tuning(128, 32, 2.0, (3e-4,), num_trials=2)
    squad = dataclasses.replace(few, flags={"doc_stride": 64})
    configs = "paper/configs/small"
    return recipes.Scale(
        is_full=False,
        texts=texts,
        vocab_file=running.Output("vocab.txt", vocabulary),
        # Dropout is 0 and the initial weights are three times as wide as in the
        # paper: such networks leave the plateau of guessing words by their
        # frequency sooner.
        networks={
            "L-2 H-128": f"{configs}_L-2_H-128_A-2.json",
            "L-4 H-128": f"{configs}_L-4_H-128_A-2.json",
            "L-4 H-256": f"{configs}_L-4_H-256_A-4.json",
        },
        sizes={"base": "L-4 H-128", "large": "L-4 H-256"},
        phases=(
            recipes.Phase(32, 5, 256, 4_500),
            recipes.Phase(128, 20, 64, 1_500),
        ),
        dupe_factor=1,
        learning_rate=1e-3,
        num_warmup_steps=500,
        keep_every=500,
        figure_steps=(500, 1_000, 2_000, 4_500, 6_000),
        tuning={
            **dict.fromkeys(("glue", "swag", "ner"), few),
            **dict.fromkeys(("squad-1.1", "squad-2.0"), squad),
            "ner-features": recipes.Tuning(128, 32, 2.0, (1e-3,), num_trials=2),
        },
        num_restarts=2,
        num_members=3,
        scoring_batch_size=128,
    )

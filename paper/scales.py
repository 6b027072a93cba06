"""The two scales: the paper's and that of a laptop."""

import dataclasses

from paper import recipes, running


def _text(name: str, source: str, form: str, **flags: int) -> running.Command:
    return running.Command(
        name=f"text {name}",
        program="tools.prepare_corpus",
        flags={
            "input_format": form,
            "input_file": running.Data(source),
            "output_file": running.Output("text-%05d.txt"),
            **flags,
            "holdout_file": running.Output("held_out.txt"),
        },
    )


def full() -> recipes.Scale:
    """Returns the paper's scale."""
    return recipes.Scale(
        name="full",
        is_full=True,
        # Source: section 3.1: Wikipedia and books.
        texts=(
            _text(
                "wikipedia",
                "corpora/wikipedia/*/wiki_*",
                "wikiextractor",
                num_output_files=64,
                holdout_every=200,
            ),
            _text(
                "books",
                "corpora/books/*",
                "book",
                num_output_files=64,
                holdout_every=200,
            ),
        ),
        vocab_file=running.Data("uncased_L-12_H-768_A-12/vocab.txt"),
        # Source: Table 6: layers, width, heads.
        networks={
            "L-3 H-768 A-12": "modeling/configs/uncased_L-3_H-768_A-12.json",
            "L-6 H-768 A-3": "modeling/configs/uncased_L-6_H-768_A-3.json",
            "L-6 H-768 A-12": "modeling/configs/uncased_L-6_H-768_A-12.json",
            "L-12 H-768 A-12": "modeling/configs/bert_base_uncased.json",
            "L-12 H-1024 A-16": (
                "modeling/configs/uncased_L-12_H-1024_A-16.json"
            ),
            "L-24 H-1024 A-16": "modeling/configs/bert_large_uncased.json",
        },
        sizes={
            "base": "L-12 H-768 A-12",
            "large": "L-24 H-1024 A-16",
        },
        # Source: appendix A.2: a million steps of 256 sequences, nine in ten of
        # them of 128 tokens, then of 512.
        phases=(
            recipes.Phase(
                max_seq_length=128,
                max_predictions_per_seq=20,
                batch_size=256,
                num_steps=900_000,
                dupe_factor=5,
            ),
            recipes.Phase(
                max_seq_length=512,
                max_predictions_per_seq=77,
                batch_size=256,
                num_steps=100_000,
                dupe_factor=5,
            ),
        ),
        learning_rate=1e-4,
        num_warmup_steps=10_000,
        keep_every=10_000,
        figure_steps=(
            *(30_000, 50_000, 100_000, 200_000),
            *(400_000, 600_000, 800_000, 1_000_000),
        ),
        tuning=_PAPER_TUNING,
        num_restarts=5,
        num_members=7,
        scoring_batch_size=32,
    )


_PAPER_TUNING = {
    # Source: section 4.1, and appendix A.3 for the rates; the length, on which
    # it is silent, is that of the release's README.
    "glue": recipes.Tuning(
        max_seq_length=128,
        batch_size=32,
        num_epochs=3.0,
        learning_rates=(5e-5, 4e-5, 3e-5, 2e-5),
    ),
    # Source: sections 4.2 and 4.3; the length is the release's default.
    "squad-1.1": recipes.Tuning(
        max_seq_length=384,
        batch_size=32,
        num_epochs=3.0,
        learning_rates=(5e-5,),
    ),
    "squad-2.0": recipes.Tuning(
        max_seq_length=384,
        batch_size=48,
        num_epochs=2.0,
        learning_rates=(5e-5,),
    ),
    # Source: section 4.4.
    "swag": recipes.Tuning(
        max_seq_length=128,
        batch_size=16,
        num_epochs=3.0,
        learning_rates=(2e-5,),
    ),
    # Source: section 5.3 and the ranges of appendix A.3.
    "ner": recipes.Tuning(
        max_seq_length=512,
        batch_size=32,
        num_epochs=4.0,
        learning_rates=(5e-5, 3e-5, 2e-5),
        num_trials=5,
    ),
    # The paper is silent; these are the defaults of run_ner.py --features.
    "ner-features": recipes.Tuning(
        max_seq_length=512,
        batch_size=32,
        num_epochs=20.0,
        learning_rates=(1e-3,),
        num_trials=5,
    ),
}


def small() -> recipes.Scale:
    """Returns the scale of a laptop."""
    texts = (
        _text(
            "wikipedia",
            "corpora/*wiki*",
            "wikiextractor",
            num_output_files=4,
            holdout_every=50,
        ),
        _text(
            "novels",
            "corpora/novels/*",
            "book",
            num_output_files=4,
            holdout_every=20,
        ),
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
    few = recipes.Tuning(
        max_seq_length=128,
        batch_size=32,
        num_epochs=2.0,
        learning_rates=(3e-4,),
        num_trials=2,
    )
    squad = dataclasses.replace(few, flags={"doc_stride": 64})
    return recipes.Scale(
        name="small",
        is_full=False,
        texts=texts,
        vocab_file=running.Output("vocab.txt", vocabulary),
        # Dropout is 0 and the initial weights are three times as wide as in the
        # paper: such networks leave the plateau of guessing words by their
        # frequency sooner.
        networks={
            "L-2 H-128": "paper/configs/small_L-2_H-128_A-2.json",
            "L-4 H-128": "paper/configs/small_L-4_H-128_A-2.json",
            "L-4 H-256": "paper/configs/small_L-4_H-256_A-4.json",
        },
        sizes={"base": "L-4 H-128", "large": "L-4 H-256"},
        phases=(
            recipes.Phase(
                max_seq_length=32,
                max_predictions_per_seq=5,
                batch_size=256,
                num_steps=4_500,
                dupe_factor=1,
            ),
            recipes.Phase(
                max_seq_length=128,
                max_predictions_per_seq=20,
                batch_size=64,
                num_steps=1_500,
                dupe_factor=1,
            ),
        ),
        learning_rate=1e-3,
        num_warmup_steps=500,
        keep_every=500,
        figure_steps=(500, 1_000, 2_000, 4_500, 6_000),
        tuning={
            "glue": few,
            "squad-1.1": squad,
            "squad-2.0": squad,
            "swag": few,
            "ner": few,
            "ner-features": dataclasses.replace(few, learning_rates=(1e-3,)),
        },
        num_restarts=2,
        num_members=3,
        scoring_batch_size=128,
    )

"""What the paper worked with: its models, data sets and pre-training.

Sizes of data sets are those of their authors; mean lengths do not count, for
full-scale batches are padded to the full length.
"""

from paper import costs, jobs, pretraining, recipes

_CONFIGS = "modeling/configs"

# Source: the paper, appendix A.3 and section 4.1.
RATES = (5e-5, 4e-5, 3e-5, 2e-5)
_NER_RATES = (5e-5, 3e-5, 2e-5)

# Of each kind of text; one is in memory for each process.
_NUM_SHARDS = 64
# Source: the paper, section 3.1: 3,300 million words; some 6 bytes each.
_TEXT_BYTES = 2e10
_HOLDOUT_EVERY = 200

_VOCAB_SIZE = 30522
_CASED_VOCAB_SIZE = 28996


def _size(num_layers: int, hidden_size: int, cased: bool = False) -> costs.Size:
    return costs.Size(
        num_layers=num_layers,
        hidden_size=hidden_size,
        vocab_size=_CASED_VOCAB_SIZE if cased else _VOCAB_SIZE,
    )


def released(folder: str, size: costs.Size) -> recipes.Model:
    """Describes a model of the release, unpacked below the data folder."""
    return recipes.Model(
        name=folder,
        size=size,
        config_file=jobs.Given(path=f"{folder}/bert_config.json"),
        vocab_file=jobs.Given(path=f"{folder}/vocab.txt"),
        checkpoint=jobs.Given(path=f"{folder}/bert_model.ckpt", is_prefix=True),
        do_lower_case=not folder.startswith("cased"),
    )


UNCASED = {
    "base": released("uncased_L-12_H-768_A-12", _size(12, 768)),
    "large": released("uncased_L-24_H-1024_A-16", _size(24, 1024)),
}
CASED = {
    "base": released("cased_L-12_H-768_A-12", _size(12, 768, cased=True)),
    "large": released("cased_L-24_H-1024_A-16", _size(24, 1024, cased=True)),
}

# The sizes of Table 6: layers, width, heads.
NETWORKS = {
    name: pretraining.Network(
        name=name,
        config_file=f"{_CONFIGS}/{file}.json",
        size=_size(num_layers, hidden_size),
    )
    for name, file, num_layers, hidden_size in (
        ("L-3 H-768 A-12", "uncased_L-3_H-768_A-12", 3, 768),
        ("L-6 H-768 A-3", "uncased_L-6_H-768_A-3", 6, 768),
        ("L-6 H-768 A-12", "uncased_L-6_H-768_A-12", 6, 768),
        ("L-12 H-768 A-12", "bert_base_uncased", 12, 768),
        ("L-12 H-1024 A-16", "uncased_L-12_H-1024_A-16", 12, 1024),
        ("L-24 H-1024 A-16", "bert_large_uncased", 24, 1024),
    )
}
BASE = NETWORKS["L-12 H-768 A-12"]

GLUE = {
    name: recipes.DataSet(
        name=name,
        path=jobs.Given(path=f"glue/{name}"),
        num_train=num_train,
        num_dev=num_dev,
        length=128,
    )
    for name, num_train, num_dev in (
        ("MNLI", 392_702, 19_647),
        ("QQP", 363_849, 40_430),
        ("QNLI", 104_743, 5_463),
        ("SST-2", 67_349, 872),
        ("CoLA", 8_551, 1_043),
        ("STS-B", 5_749, 1_500),
        ("MRPC", 3_668, 408),
        ("RTE", 2_490, 277),
    )
}
SQUAD_1 = recipes.DataSet(
    name="SQuAD-1.1",
    path=jobs.Given(path="squad/train-v1.1.json"),
    dev_path=jobs.Given(path="squad/dev-v1.1.json"),
    num_train=87_599,
    num_dev=10_570,
    length=384,
)
SQUAD_2 = recipes.DataSet(
    name="SQuAD-2.0",
    path=jobs.Given(path="squad/train-v2.0.json"),
    dev_path=jobs.Given(path="squad/dev-v2.0.json"),
    num_train=130_319,
    num_dev=11_873,
    length=384,
)
SWAG = recipes.DataSet(
    name="SWAG",
    path=jobs.Given(path="swag"),
    num_train=73_546,
    num_dev=20_006,
    length=128,
)
CONLL = recipes.DataSet(
    name="CoNLL-2003",
    path=jobs.Given(path="conll2003"),
    num_train=14_041,
    num_dev=6_703,
    length=512,
)
TRIVIAQA = jobs.Job(
    name="TriviaQA as SQuAD",
    program="tools.convert_triviaqa",
    flags=(
        ("input_file", jobs.Given(path="triviaqa/qa/wikipedia-train.json")),
        ("evidence_dir", jobs.Given(path="triviaqa/evidence/wikipedia")),
        ("output_file", jobs.Output(path="train.json")),
    ),
    seconds=600,
)
# Source: Joshi et al. 2017, "TriviaQA", table 1: questions of the Wikipedia
# part.
TRIVIAQA_QUESTIONS = 61_888


def glue_tuning(num_trials: int) -> recipes.Tuning:
    """How GLUE is fine-tuned.

    Source: the paper, section 4.1; the length, on which it is silent, is that
    of the release's README.
    """
    return recipes.Tuning(
        max_seq_length=128,
        batch_size=32,
        num_epochs=3.0,
        learning_rates=RATES,
        num_trials=num_trials,
    )


# Source: the paper, sections 4.2 and 4.3; the length is the release's default.
SQUAD_1_TUNING = recipes.Tuning(
    max_seq_length=384, batch_size=32, num_epochs=3.0, learning_rates=(5e-5,)
)
SQUAD_2_TUNING = recipes.Tuning(
    max_seq_length=384, batch_size=48, num_epochs=2.0, learning_rates=(5e-5,)
)
# Source: the paper, section 4.4.
SWAG_TUNING = recipes.Tuning(
    max_seq_length=128, batch_size=16, num_epochs=3.0, learning_rates=(2e-5,)
)
# Source: the paper, section 5.3 and the ranges of appendix A.3.
NER_TUNING = recipes.Tuning(
    max_seq_length=512,
    batch_size=32,
    num_epochs=4.0,
    learning_rates=_NER_RATES,
    num_trials=5,
)
# The paper is silent; these are the defaults of run_ner.py --features.
NER_FEATURES_TUNING = recipes.Tuning(
    max_seq_length=512,
    batch_size=32,
    num_epochs=20.0,
    learning_rates=(1e-3,),
    num_trials=5,
)


def scheme(bench: recipes.Bench) -> pretraining.Scheme:
    """How the paper pre-trained.

    Source: appendix A.2: a million steps of 256 sequences, nine in ten of them
    of 128 tokens, then of 512.
    """
    return pretraining.Scheme(
        bench=bench,
        text=_text(),
        phases=(
            pretraining.Phase(
                length=128,
                num_predictions=20,
                batch_size=256,
                num_steps=900_000,
                dupe_factor=5,
            ),
            pretraining.Phase(
                length=512,
                num_predictions=77,
                batch_size=256,
                num_steps=100_000,
                dupe_factor=5,
            ),
        ),
        learning_rate=1e-4,
        num_warmup_steps=10_000,
        # Figure 5 wants 30,000, 50,000 and multiples of 100,000.
        keep_every=10_000,
    )


def _text() -> pretraining.Text:
    """Prepares English Wikipedia and books, in shards."""
    kinds = (
        ("wikipedia", "wikiextractor", "corpora/wikipedia/*/wiki_*", 0.76),
        ("books", "book", "corpora/books/*", 0.24),
    )
    prepared = []
    for name, form, files, share in kinds:
        job = jobs.Job(
            name=f"text {name}",
            program="tools.prepare_corpus",
            flags=(
                ("input_format", form),
                ("input_file", jobs.Given(path=files)),
                ("output_file", jobs.Output(path="text-%05d.txt")),
                ("num_output_files", _NUM_SHARDS),
                ("holdout_every", _HOLDOUT_EVERY),
                ("holdout_file", jobs.Output(path="held_out.txt")),
            ),
            # Measured: 20 MB a second on one core.
            seconds=share * _TEXT_BYTES / 2e7,
        )
        prepared.append(job)
    return pretraining.Text(
        train=tuple(
            jobs.Output(job=job, path="text-*.txt") for job in prepared
        ),
        held_out=tuple(
            jobs.Output(job=job, path="held_out.txt") for job in prepared
        ),
        vocab_file=UNCASED["base"].vocab_file,
        train_bytes=_TEXT_BYTES,
        held_out_bytes=_TEXT_BYTES / _HOLDOUT_EVERY,
    )

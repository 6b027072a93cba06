"""The paper's experiments for a laptop: small networks, 45 million words.

Nothing here is the paper's but its questions: what is expected are its orders,
not its numbers.
"""

from paper import costs, jobs, pretraining, recipes

# Source: the largest rate of the grid that the release's README gives for its
# miniatures, as are the epochs of the small data sets.
_RATE = 3e-4
_EPOCHS = 4.0
NUM_TRIALS = 5

_VOCAB_SIZE = 8192
_WIKIPEDIA_BYTES, _BOOK_BYTES = 1.9e8, 7.2e7
_HELD_OUT_BYTES = 7e6


def bench(
    more_flags: tuple[tuple[str, jobs.Value], ...] = (),
) -> recipes.Bench:
    """What all small-scale commands share."""
    return recipes.Bench(
        machine=costs.CORE,
        more_flags=more_flags,
        bucket_by_length=True,
        scoring_batch_size=128,
    )


# Dropout is 0 and the initial weights are three times as wide as in the paper:
# such small networks, and so few steps, want less regularisation, and leave
# the plateau of guessing words by their frequency sooner.
NETWORKS = {
    name: pretraining.Network(
        name=name,
        config_file=f"paper/configs/small_{file}.json",
        size=costs.Size(
            num_layers=num_layers,
            hidden_size=hidden_size,
            vocab_size=_VOCAB_SIZE,
        ),
    )
    for name, file, num_layers, hidden_size in (
        ("L-2 H-64", "L-2_H-64_A-1", 2, 64),
        ("L-2 H-128", "L-2_H-128_A-2", 2, 128),
        ("L-4 H-256", "L-4_H-256_A-4", 4, 256),
    )
}
# What stands for BASE and LARGE.
BASE, LARGE = NETWORKS["L-2 H-128"], NETWORKS["L-4 H-256"]
WITHOUT_CHECKPOINTS = pretraining.Variant()

GLUE = {
    name: recipes.DataSet(
        name=name,
        path=jobs.Given(path=f"glue/{name}"),
        num_train=num_train,
        num_dev=num_dev,
        length=length,
    )
    for name, num_train, num_dev, length in (
        ("SST-2", 67_349, 872, 13),
        ("CoLA", 8_551, 1_043, 11),
        ("STS-B", 5_749, 1_500, 32),
        ("MRPC", 3_668, 408, 53),
        ("RTE", 2_490, 277, 70),
    )
}
# The number of questions is that of windows, for a question has several.
SQUAD_1 = recipes.DataSet(
    name="SQuAD-1.1",
    path=jobs.Given(path="squad/train-subset-4000q.json"),
    dev_path=jobs.Given(path="squad/dev-v1.1.json"),
    num_train=12_000,
    num_dev=32_000,
    length=120,
)
# Of whole paragraphs a network of two layers learns next to nothing from 4,000
# questions: here the answer is looked for in two dozen words.
CONTEXT_WORDS = 24


def _short_contexts(
    name: str, path: str, *more_flags: tuple[str, jobs.Value]
) -> jobs.Output:
    job = jobs.Job(
        name=name,
        program="paper.squad_part",
        flags=(
            ("input_file", jobs.Given(path=path)),
            ("output_file", jobs.Output(path="squad.json")),
            ("context_words", CONTEXT_WORDS),
            *more_flags,
        ),
        seconds=10,
    )
    return jobs.Output(job=job, path="squad.json")


SHORT_SQUAD = recipes.DataSet(
    name="short-SQuAD",
    path=_short_contexts("short SQuAD", "squad/train-subset-4000q.json"),
    dev_path=_short_contexts(
        "short SQuAD dev", "squad/dev-v1.1.json", ("all_answers", True)
    ),
    num_train=4_000,
    num_dev=10_570,
    length=52,
)
_SQUAD_2_PARTS = jobs.Job(
    name="SQuAD 2.0 parts",
    program="paper.squad_part",
    flags=(
        ("input_file", jobs.Given(path="squad/dev-v2.0.json")),
        ("output_file", jobs.Output(path="train.json")),
        ("holdout_every", 4),
        ("holdout_file", jobs.Output(path="held_out.json")),
    ),
    seconds=10,
)
SQUAD_2 = recipes.DataSet(
    name="SQuAD-2.0",
    path=jobs.Output(job=_SQUAD_2_PARTS, path="train.json"),
    dev_path=jobs.Output(job=_SQUAD_2_PARTS, path="held_out.json"),
    num_train=26_000,
    num_dev=9_000,
    length=120,
)
SWAG = recipes.DataSet(
    name="SWAG",
    path=jobs.Given(path="swag"),
    num_train=73_546,
    num_dev=20_006,
    length=30,
)


def tuning(
    *,
    num_epochs: float = _EPOCHS,
    num_trials: int = NUM_TRIALS,
    max_seq_length: int = 128,
    bilstm_head: bool = False,
) -> recipes.Tuning:
    """How everything is fine-tuned: one rate, five seeds."""
    return recipes.Tuning(
        max_seq_length=max_seq_length,
        batch_size=32,
        num_epochs=num_epochs,
        learning_rates=(_RATE,),
        num_trials=num_trials,
        bilstm_head=bilstm_head,
    )


# Windows of 128, the longest that the networks know, overlap by half.
SQUAD_FLAGS = (("doc_stride", 64),)
# Words are read within their sentence.
TAG_FLAGS = (("context", "sentence"),)


def features_tuning() -> recipes.Tuning:
    """How a BiLSTM is trained on features."""
    return recipes.Tuning(
        max_seq_length=128,
        batch_size=32,
        num_epochs=3.0,
        learning_rates=(1e-3,),
        num_trials=NUM_TRIALS,
    )


def names(text: pretraining.Text) -> recipes.DataSet:
    """Makes the task of tagging names in the held-out text."""
    job = jobs.Job(
        name="names",
        program="paper.name_task",
        flags=(
            # Of Wikipedia: of the novels, a few long ones are held out.
            ("input_file", text.held_out[:1]),
            ("output_dir", jobs.Output()),
        ),
        seconds=20,
    )
    return recipes.DataSet(
        name="names",
        path=jobs.Output(job=job),
        num_train=20_000,
        num_dev=2_500,
        length=30,
    )


def scheme(used: recipes.Bench) -> pretraining.Scheme:
    """How small models are pre-trained.

    Two phases, as in the paper. Measured on such networks: with sequences of 32
    they leave a masked-LM loss of 6.5 within 500 steps, which those of 128 do
    not in as many tokens; so the first are of 32. The second makes the places
    after them known.
    """
    return pretraining.Scheme(
        bench=used,
        text=_text(used),
        phases=(
            pretraining.Phase(
                length=32,
                num_predictions=5,
                batch_size=256,
                num_steps=4_500,
                dupe_factor=1,
            ),
            pretraining.Phase(
                length=128,
                num_predictions=20,
                batch_size=64,
                num_steps=1_500,
                dupe_factor=1,
            ),
        ),
        learning_rate=1e-3,
        num_warmup_steps=500,
        keep_every=500,
    )


def _text(used: recipes.Bench) -> pretraining.Text:
    """Prepares an extract of Wikipedia and novels, and learns a vocabulary."""
    num_shards = 4
    prepared = [
        jobs.Job(
            name=f"text {name}",
            program="tools.prepare_corpus",
            flags=(
                ("input_format", form),
                ("input_file", jobs.Given(path=files)),
                ("output_file", jobs.Output(path="text-%05d.txt")),
                ("num_output_files", num_shards),
                ("holdout_every", every),
                ("holdout_file", jobs.Output(path="held_out.txt")),
            ),
            # Measured: 20 MB a second on one core.
            seconds=size / 2e7,
        )
        for name, form, files, every, size in (
            (
                *("wikipedia", "wikiextractor", "corpora/*wiki*"),
                *(50, _WIKIPEDIA_BYTES),
            ),
            ("novels", "book", "corpora/*novels*", 20, _BOOK_BYTES),
        )
    ]
    train = tuple(jobs.Output(job=job, path="text-*.txt") for job in prepared)
    vocabulary = jobs.Job(
        name="vocabulary",
        program="tools.learn_vocab",
        flags=(
            ("input_file", train),
            ("output_file", jobs.Output(path="vocab.txt")),
            ("vocab_size", _VOCAB_SIZE),
            ("min_character_count", 50),
        ),
        seconds=used.machine.start_seconds + 180,
    )
    return pretraining.Text(
        train=train,
        held_out=tuple(
            jobs.Output(job=job, path="held_out.txt") for job in prepared
        ),
        vocab_file=jobs.Output(job=vocabulary, path="vocab.txt"),
        train_bytes=_WIKIPEDIA_BYTES + _BOOK_BYTES,
        held_out_bytes=_HELD_OUT_BYTES,
    )

"""A laptop's scale: small networks, 45 million words, public data sets.

Only the questions are the paper's: its orders are expected, not its numbers.
The expected orders are in `small_scale.toml`.
"""

import dataclasses

from modeling import costs as network_costs
from paper import costs, full_scale, jobs, pretraining, recipes, results, tables

_VOCAB_SIZE = 8192
_HELD_OUT_BYTES = 7e6
_NUM_SHARDS = 4
_SOURCES = (
    pretraining.Source(
        name="wikipedia",
        form="wikiextractor",
        files="corpora/*wiki*",
        num_bytes=1.9e8,
        holdout_every=50,
    ),
    pretraining.Source(
        name="novels",
        form="book",
        files="corpora/*novels*",
        num_bytes=7.2e7,
        holdout_every=20,
    ),
)

# Dropout is 0 and the initial weights are three times as wide as in the paper:
# such small networks, and so few steps, want less regularisation, and leave
# the plateau of guessing words by their frequency sooner.
_NETWORKS = tuple(
    pretraining.Network(
        name=name, config_file=f"paper/configs/small_{file}.json"
    )
    for name, file in (
        ("L-2 H-64", "L-2_H-64_A-1"),
        ("L-2 H-128", "L-2_H-128_A-2"),
        ("L-4 H-256", "L-4_H-256_A-4"),
    )
)
# In the place of BASE and LARGE.
_BASE, _LARGE = _NETWORKS[1:]

# Mean numbers of word pieces.
_LENGTHS = {"SST-2": 13, "CoLA": 11, "STS-B": 32, "MRPC": 53, "RTE": 70}
_GLUE = {
    name: dataclasses.replace(full_scale.GLUE[name], length=length)
    for name, length in _LENGTHS.items()
}
# The number of questions is that of windows, for a question has several.
_SQUAD_1 = recipes.DataSet(
    name="SQuAD-1.1",
    program=recipes.SQUAD,
    path=jobs.Given(path="squad/train-subset-4000q.json"),
    dev_path=jobs.Given(path="squad/dev-v1.1.json"),
    num_train=12_000,
    num_dev=32_000,
    length=120,
)
# Of whole paragraphs a network of two layers learns next to nothing from 4,000
# questions: here the answer is looked for in two dozen words.
_CONTEXT_WORDS = 24


def _short_contexts(
    name: str, path: str, *more_flags: tuple[str, jobs.Value]
) -> jobs.Output:
    job = jobs.Job(
        name=name,
        program="paper.squad_part",
        flags=(
            ("input_file", jobs.Given(path=path)),
            ("output_file", jobs.Output(path="squad.json")),
            ("context_words", _CONTEXT_WORDS),
            *more_flags,
        ),
        seconds=10,
    )
    return jobs.Output(job=job, path="squad.json")


_SHORT_SQUAD = recipes.DataSet(
    name="short-SQuAD",
    program=recipes.SQUAD,
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
_SQUAD_2 = recipes.DataSet(
    name="SQuAD-2.0",
    program=recipes.SQUAD,
    path=jobs.Output(job=_SQUAD_2_PARTS, path="train.json"),
    dev_path=jobs.Output(job=_SQUAD_2_PARTS, path="held_out.json"),
    num_train=26_000,
    num_dev=9_000,
    length=120,
)
_SWAG = dataclasses.replace(full_scale.SWAG, length=30)

# Source: the largest rate of the grid that the release's README gives for its
# miniatures, as are the epochs of the small data sets.
_TUNING = recipes.Tuning(
    max_seq_length=128,
    batch_size=32,
    num_epochs=4.0,
    learning_rates=(3e-4,),
    num_trials=5,
)
# Of sets of tens of thousands.
_LARGE_SET_TUNING = dataclasses.replace(_TUNING, num_epochs=2.0)
_FEATURES_TUNING = dataclasses.replace(
    _TUNING, num_epochs=3.0, learning_rates=(1e-3,)
)
# Windows of 128, the longest that the networks know, overlap by half.
_SQUAD_FLAGS = (("doc_stride", 64),)
# Words are read within their sentence.
_TAG_FLAGS = (("context", "sentence"),)
# Ten models are fine-tuned for the figure; its first phase knows 32 places.
_FIGURE = {"max_seq_length": 32, "num_trials": 2}
_FIGURE_STEPS = (500, 1000, 2000, 4500, 6000)


def scale(more_flags: recipes.Flags) -> tables.Scale:
    """Makes the small scale; the flags are for every script that trains."""
    bench = recipes.Bench(
        machine=costs.CORE,
        more_flags=more_flags,
        bucket_by_length=True,
        scoring_batch_size=128,
    )
    scheme = _scheme(bench)
    names = _names(scheme.text)
    models = {
        size: pretraining.pretrained_as_usual(scheme, network, _BASE)
        for size, network in (("base", _BASE), ("large", _LARGE))
    }
    tag = tables.Column(
        name="names",
        metric=results.TAG_F1,
        data=names,
        tuning=_LARGE_SET_TUNING,
        flags=_TAG_FLAGS,
    )

    def features(choice: str, model: recipes.Model) -> tables.Column:
        return tables.Column(
            name="dev F1",
            metric=results.TAG_F1,
            data=names,
            tuning=_FEATURES_TUNING,
            flags=(
                *_TAG_FLAGS,
                ("features", choice),
                ("lstm_units", model.config.hidden_size),
            ),
        )

    return tables.Scale(
        name="small",
        bench=bench,
        scheme=scheme,
        networks=_NETWORKS,
        base=_BASE,
        models=models,
        taggers=models,
        systems=tuple(
            tables.System(name=size, size=size, data=_SQUAD_1, num_trials=5)
            for size in models
        ),
        ensemble_flags=(("max_seq_length", 128), *_SQUAD_FLAGS),
        fine_tuned_row="{}, fine-tuned",
        feature_row="{size}, {label}",
        feature_column=features,
        feature_sizes=tuple(models),
        steps={step: str(step) for step in _FIGURE_STEPS},
        sheets=tables.read_sheets(
            "small_scale.toml",
            _columns(tag, features("sum_all", models["base"])),
        ),
    )


def _scheme(bench: recipes.Bench) -> pretraining.Scheme:
    """Describes pre-training on an extract of Wikipedia and novels.

    Two phases, as in the paper. Measured on such networks: with sequences of 32
    they leave a masked-LM loss of 6.5 within 500 steps, which those of 128 do
    not in as many tokens; so the first are of 32. The second makes the places
    after them known.
    """
    prepared = [source.prepare(_NUM_SHARDS) for source in _SOURCES]
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
        seconds=bench.machine.start_seconds + 180,
    )
    return pretraining.Scheme(
        bench=bench,
        text=pretraining.Text(
            train=train,
            held_out=tuple(
                jobs.Output(job=job, path="held_out.txt") for job in prepared
            ),
            vocab_file=jobs.Output(job=vocabulary, path="vocab.txt"),
            train_bytes=sum(source.num_bytes for source in _SOURCES),
            held_out_bytes=_HELD_OUT_BYTES,
        ),
        phases=tuple(
            pretraining.Phase(
                shape=network_costs.Shape(
                    max_seq_length=length, max_predictions_per_seq=predictions
                ),
                batch_size=batch_size,
                num_steps=num_steps,
                dupe_factor=1,
            )
            for length, predictions, batch_size, num_steps in (
                (32, 5, 256, 4_500),
                (128, 20, 64, 1_500),
            )
        ),
        learning_rate=1e-3,
        num_warmup_steps=500,
        keep_every=500,
    )


def _names(text: pretraining.Text) -> recipes.DataSet:
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
        program=recipes.TAGGER,
        path=jobs.Output(job=job),
        num_train=20_000,
        num_dev=2_500,
        length=30,
    )


def _sentences(task: str, **changes) -> tables.Column:
    """Makes a column of GLUE; `changes` are of its tuning."""
    keys = {"STS-B": "spearman", "CoLA": "matthews_correlation"}
    tuning = _LARGE_SET_TUNING if task == "SST-2" else _TUNING
    return tables.Column(
        name=task,
        metric=results.Metric(key=f"eval_{keys.get(task, 'accuracy')}"),
        data=_GLUE[task],
        tuning=dataclasses.replace(tuning, **changes),
    )


def _questions(
    name: str, key: str, data: recipes.DataSet, flags: recipes.Flags = ()
) -> tables.Column:
    return tables.Column(
        name=name,
        metric=results.Metric(key=key, convert=results.unchanged),
        data=data,
        tuning=_TUNING,
        flags=(*_SQUAD_FLAGS, *flags),
    )


def _columns(
    tag: tables.Column, features: tables.Column
) -> dict[str, tuple[tables.Column, ...]]:
    """Makes the columns of every table.

    Args:
        tag: of tagging names.
        features: of the same on frozen features.
    """
    sentences = tuple(_sentences(task) for task in ("SST-2", "MRPC", "STS-B"))
    version_2 = (
        ("version_2_with_negative", True),
        ("null_score_diff_threshold", "auto"),
    )
    figure_tuning = dataclasses.replace(tag.tuning, **_FIGURE)
    return {
        "table-1": tuple(map(_sentences, _GLUE)),
        "table-2": (
            _questions("EM", "exact_match", _SQUAD_1),
            _questions("F1", "f1", _SQUAD_1),
        ),
        "table-3": (
            _questions("EM", "exact", _SQUAD_2, version_2),
            _questions("F1", "f1", _SQUAD_2, version_2),
        ),
        "table-4": (
            tables.Column(
                name="dev",
                metric=results.ACCURACY,
                data=_SWAG,
                tuning=dataclasses.replace(_LARGE_SET_TUNING, num_trials=3),
            ),
        ),
        "table-5": (
            *sentences,
            _questions("SQuAD", "f1", _SQUAD_1),
            _questions("short SQuAD", "f1", _SHORT_SQUAD),
            tag,
        ),
        "table-6": (
            tables.Column(name="perplexity", metric=results.perplexity()),
            *sentences,
            tag,
        ),
        "table-7": (dataclasses.replace(tag, name="dev F1"),),
        "table-8": (
            _sentences("SST-2"),
            dataclasses.replace(tag, name="names fine-tuned"),
            dataclasses.replace(features, name="names features"),
        ),
        "figure-5": (
            _sentences("SST-2", **_FIGURE),
            dataclasses.replace(tag, tuning=figure_tuning),
        ),
    }

"""The full and the small scale of the experiments.

`full_scale.toml` and `small_scale.toml` define their texts, data sets,
hyperparameters and tables. This module adds the pre-trained models and the
generated data.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from paper import costs, jobs, recipes

FULL, SMALL = SCALES = ("full", "small")
_CONFIGS = "modeling/configs"
# The networks that replace BASE and LARGE at small scale.
_SMALL_MODELS = {"base": "L-2 H-128", "large": "L-4 H-256"}
_VOCAB_SIZE = 8192
# A network of two layers learns almost nothing from 4,000 questions on full
# paragraphs, so contexts are limited to two dozen words.
_CONTEXT_WORDS = 24

# The generated paths of a data set: `path` and possibly `dev_path`.
_Paths = dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Models, data and hyperparameters of all tables.

    Attributes:
        name: one of `SCALES`.
        scheme: of pre-training.
        models: to fine-tune, "base" and "large", and at full scale also
            "base-cased" and "large-cased".
        data: data sets by name.
        tuning: hyperparameters of fine-tuning by name.
        content: the scale's file, which describes its tables.
    """

    name: str
    scheme: recipes.Scheme
    models: Mapping[str, recipes.Model]
    data: Mapping[str, recipes.DataSet]
    tuning: Mapping[str, recipes.Tuning]
    content: Mapping[str, Any]


def read(name: str, more_flags: recipes.Flags = ()) -> Scale:
    """Reads a scale.

    Args:
        name: one of `SCALES`.
        more_flags: passed to every script that trains.
    """
    path = pathlib.Path(__file__).with_name(f"{name}_scale.toml")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    describe = _full if name == FULL else _small
    scheme, models, made = describe(content, more_flags)
    return Scale(
        name=name,
        scheme=scheme,
        models=models,
        data={
            data: _data_set(data, values, made.get(data, {}))
            for data, values in content["data"].items()
        },
        tuning={
            tuning: recipes.Tuning(
                **{**values, "learning_rates": tuple(values["learning_rates"])}
            )
            for tuning, values in content["tuning"].items()
        },
        content=content,
    )


def _data_set(
    name: str, values: Mapping[str, Any], made: Mapping[str, Any]
) -> recipes.DataSet:
    """Returns a data set; the user provides paths that are not generated."""
    given = {
        key: jobs.Given(path=values[key])
        for key in ("path", "dev_path")
        if key in values
    }
    return recipes.DataSet(name=name, **{**values, **given, **made})


def _full(
    content: Mapping[str, Any], more_flags: recipes.Flags
) -> tuple[recipes.Scheme, dict[str, recipes.Model], _Paths]:
    """Returns pre-training, the released models, and TriviaQA with SQuAD."""
    models = {
        size + suffix: _released(casing, size)
        for size in ("base", "large")
        for casing, suffix in (("uncased", ""), ("cased", "-cased"))
    }
    common = recipes.CommonOptions(machine=costs.GPU, more_flags=more_flags)
    scheme = _scheme(content, common, models["base"].vocab_file)
    trivia_qa = jobs.Job(
        name="TriviaQA as SQuAD",
        program="tools.convert_triviaqa",
        flags=(
            ("input_file", jobs.Given(path="triviaqa/qa/wikipedia-train.json")),
            ("evidence_dir", jobs.Given(path="triviaqa/evidence/wikipedia")),
            ("output_file", jobs.Output(path="train.json")),
        ),
        seconds=600,
    )
    paths = (
        jobs.Output(job=trivia_qa, path="train.json"),
        jobs.Given(path="squad/train-v1.1.json"),
    )
    return scheme, models, {"TriviaQA-SQuAD-1.1": {"path": paths}}


def _small(
    content: Mapping[str, Any], more_flags: recipes.Flags
) -> tuple[recipes.Scheme, dict[str, recipes.Model], _Paths]:
    """Returns pre-training, its models, parts of SQuAD, and name tagging."""
    common = recipes.CommonOptions(
        machine=costs.CORE,
        more_flags=more_flags,
        bucket_by_length=True,
        scoring_batch_size=128,
    )
    scheme = _scheme(content, common)
    models = {
        size: recipes.pretrained(scheme, recipes.Variant(network=network))
        for size, network in _SMALL_MODELS.items()
    }
    names = jobs.Job(
        name="names",
        program="paper.name_task",
        flags=(
            # Held out from Wikipedia: the novels are too few and too long.
            ("input_file", scheme.held_out[:1]),
            ("output_dir", jobs.Output()),
        ),
        seconds=20,
    )
    version_2 = _squad_part(
        "SQuAD 2.0 parts",
        "squad/dev-v2.0.json",
        "train.json",
        ("holdout_every", 4),
        ("holdout_file", jobs.Output(path="held_out.json")),
    )
    short = ("context_words", _CONTEXT_WORDS)
    train = _squad_part(
        "short SQuAD", "squad/train-subset-4000q.json", "squad.json", short
    )
    dev = _squad_part(
        "short SQuAD dev",
        "squad/dev-v1.1.json",
        "squad.json",
        short,
        ("all_answers", True),
    )
    paths = {
        "names": {"path": jobs.Output(job=names)},
        "SQuAD-2.0": {
            "path": jobs.Output(job=version_2, path="train.json"),
            "dev_path": jobs.Output(job=version_2, path="held_out.json"),
        },
        "short-SQuAD": {
            "path": jobs.Output(job=train, path="squad.json"),
            "dev_path": jobs.Output(job=dev, path="squad.json"),
        },
    }
    return scheme, models, paths


def _released(casing: str, size: str) -> recipes.Model:
    """Returns a model of the release, unpacked in the data folder."""
    sizes = {"base": "L-12_H-768_A-12", "large": "L-24_H-1024_A-16"}
    folder = f"{casing}_{sizes[size]}"
    return recipes.Model(
        name=folder,
        config=recipes.read_config(f"{_CONFIGS}/bert_{size}_{casing}.json"),
        config_file=jobs.Given(path=f"{folder}/bert_config.json"),
        vocab_file=jobs.Given(path=f"{folder}/vocab.txt"),
        checkpoint=jobs.Given(path=f"{folder}/bert_model.ckpt", is_prefix=True),
        do_lower_case=casing == "uncased",
    )


def _scheme(
    content: Mapping[str, Any],
    common: recipes.CommonOptions,
    vocab_file: jobs.Path | None = None,
) -> recipes.Scheme:
    """Returns the pre-training scheme; learns a vocabulary if none is given."""
    text, pretraining = content["text"], content["pretraining"]
    prepared = [
        recipes.prepare_text(name, num_shards=text["num_shards"], **values)
        for name, values in text["kinds"].items()
    ]
    train = tuple(jobs.Output(job=job, path="text-*.txt") for job in prepared)
    if vocab_file is None:
        vocabulary = jobs.Job(
            name="vocabulary",
            program="tools.learn_vocab",
            flags=(
                ("input_file", train),
                ("output_file", jobs.Output(path="vocab.txt")),
                ("vocab_size", _VOCAB_SIZE),
                ("min_character_count", 50),
            ),
            seconds=common.machine.start_seconds + 180,
        )
        vocab_file = jobs.Output(job=vocabulary, path="vocab.txt")
    phases = tuple(recipes.Phase(**phase) for phase in pretraining["phases"])
    return recipes.Scheme(
        common=common,
        train=train,
        held_out=tuple(
            jobs.Output(job=job, path="held_out.txt") for job in prepared
        ),
        vocab_file=vocab_file,
        train_bytes=sum(kind["num_bytes"] for kind in text["kinds"].values()),
        held_out_bytes=text["held_out_bytes"],
        **{**pretraining, "phases": phases},
    )


def _squad_part(
    name: str, source: str, target: str, *flags: tuple[str, jobs.Value]
) -> jobs.Job:
    return jobs.Job(
        name=name,
        program="paper.squad_part",
        flags=(
            ("input_file", jobs.Given(path=source)),
            ("output_file", jobs.Output(path=target)),
            *flags,
        ),
        seconds=10,
    )

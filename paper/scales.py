"""The full and the small scale of the experiments.

`full_scale.toml` and `small_scale.toml` define their texts, models, data sets,
hyperparameters and tables. A value of a command or data set is text, a number,
a list, or a file: `{ given = PATH }` in the data folder, `{ path = PATH }` of
the command itself, or `{ job = NAME, path = PATH }` of another command.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from paper import jobs, recipes

FULL, SMALL = SCALES = ("full", "small")
_Jobs = dict[str, jobs.Job]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Models, data and hyperparameters of all tables.

    Attributes:
        scheme: of pre-training.
        models: to fine-tune, "base" and "large", and at full scale also
            "base-cased" and "large-cased".
        data: data sets by name.
        tuning: hyperparameters of fine-tuning by name.
        content: the scale's file, which describes its tables.
    """

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
    text = content["text"]
    prepared = [
        _prepare_text(kind, num_shards=text["num_shards"], **values)
        for kind, values in text["kinds"].items()
    ]
    made = {job.name: job for job in prepared}
    for job, values in content["jobs"].items():
        made[job] = _job(job, values, made)
    common = recipes.CommonOptions(
        machine=recipes.Machine(**content["machine"]),
        more_flags=more_flags,
        **content.get("common", {}),
    )
    pretraining = content["pretraining"]
    phases = tuple(recipes.Phase(**phase) for phase in pretraining["phases"])
    vocab_file = _value(pretraining["vocab_file"], made)
    scheme = recipes.Scheme(
        common=common,
        train=tuple(
            jobs.Output(job=job, path="text-*.txt") for job in prepared
        ),
        held_out=tuple(
            jobs.Output(job=job, path="held_out.txt") for job in prepared
        ),
        train_bytes=sum(kind["num_bytes"] for kind in text["kinds"].values()),
        held_out_bytes=text["held_out_bytes"],
        **{**pretraining, "phases": phases, "vocab_file": vocab_file},
    )
    return Scale(
        scheme=scheme,
        models={
            model: _model(values, scheme)
            for model, values in content["models"].items()
        },
        data={
            data: _data_set(data, values, made)
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


def _prepare_text(
    kind: str,
    *,
    form: str,
    files: str,
    num_bytes: float,
    holdout_every: int,
    num_shards: int,
) -> jobs.Job:
    """Returns the job that converts raw text to one sentence a line.

    Args:
        kind: for display.
        form: its `--input_format`.
        files: a glob in the data folder.
        num_bytes: total size of the files.
        holdout_every: hold out every Nth document.
        num_shards: number of output files.
    """
    return jobs.Job(
        name=f"text {kind}",
        program="tools.prepare_corpus",
        flags=(
            ("input_format", form),
            ("input_file", jobs.Given(path=files)),
            ("output_file", jobs.Output(path="text-%05d.txt")),
            ("num_output_files", num_shards),
            ("holdout_every", holdout_every),
            ("holdout_file", jobs.Output(path="held_out.txt")),
        ),
        # Measured: 20 MB a second on one core.
        seconds=num_bytes / 2e7,
    )


def _job(name: str, values: Mapping[str, Any], made: _Jobs) -> jobs.Job:
    flags = {flag: _value(each, made) for flag, each in values["flags"].items()}
    return jobs.Job(
        name=name,
        program=values["program"],
        flags=tuple(flags.items()),
        seconds=values["seconds"],
    )


def _value(described: Any, made: _Jobs) -> Any:
    """Returns the value that the file of a scale describes."""
    if isinstance(described, list):
        return tuple(_value(each, made) for each in described)
    if not isinstance(described, dict):
        return described
    if "given" in described:
        return jobs.Given(path=described["given"])
    job = made[described["job"]] if "job" in described else None
    return jobs.Output(job=job, path=described["path"])


def _data_set(
    name: str, values: Mapping[str, Any], made: _Jobs
) -> recipes.DataSet:
    """Returns a data set, whose path alone names a file of the data folder."""
    paths = {
        key: jobs.Given(path=values[key])
        if isinstance(values[key], str)
        else _value(values[key], made)
        for key in ("path", "dev_path")
        if key in values
    }
    return recipes.DataSet(name=name, **{**values, **paths})


def _model(values: Mapping[str, str], scheme: recipes.Scheme) -> recipes.Model:
    """Returns a pre-trained network, or a model of the release."""
    if "network" in values:
        variant = recipes.Variant(network=values["network"])
        return recipes.pretrained(scheme, variant)
    folder = values["folder"]
    return recipes.Model(
        name=folder,
        config=recipes.read_config(values["config_file"]),
        config_file=jobs.Given(path=f"{folder}/bert_config.json"),
        vocab_file=jobs.Given(path=f"{folder}/vocab.txt"),
        checkpoint=jobs.Given(path=f"{folder}/bert_model.ckpt", is_prefix=True),
        do_lower_case=folder.startswith("uncased"),
    )

r"""Comparison of fine-tuning with Hugging Face's Trainer.

  python -m benchmarks.fine_tuning --task=MRPC --data_dir=data/glue/MRPC \
    --model=data/all-MiniLM-L6-v2 --peer_python=/path/to/bin/python \
    --output_dir=comparison
  python -m benchmarks.fine_tuning --task=SQuAD --num_train_epochs=2 \
    --train_file=train.json --predict_file=dev-v1.1.json ...
  python -m benchmarks.fine_tuning --report --output_dir=comparison

It compares scores, time and memory. Both programs start from the same weights,
output layer included, with the same data and hyperparameters. The learning
rate is the one of --learning_rates that is best for Hugging Face on the first
seed. Each run is a separate process and a line of runs.jsonl in --output_dir.
The programs take turns, seed by seed. Runs in the file are not repeated.
"""

import dataclasses
import itertools
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import safetensors.numpy
from absl import logging

from benchmarks import contenders, scaling
from commands import flags, program
from files import json_text, locking, messages, result_files, writing
from tasks.classification import datasets, glue, metrics, predictions
from tasks.squad import squad_examples, squad_metrics

_MEASUREMENT = flags.Heading("Measurement")
SQUAD = "SQuAD"
OURS, PEER = "ours", "peer"
# Precision -> the programs compared in it.
_PAIRS = {
    "float32": (OURS, PEER),
    "mixed_bfloat16": (f"{OURS}_bfloat16", f"{PEER}_bfloat16"),
}
PROGRAMS = tuple(itertools.chain(*_PAIRS.values()))
_GLUE_LENGTH = 128
_RUNS = "runs.jsonl"
# Fields that identify a run, with its program and its seed.
_SETTINGS = ("task", "learning_rate", "num_train_epochs", "batch_size")
_INPUTS = ("model", "data_dir", "train_file", "predict_file")
# Fields of a run -> columns of the table.
_USED = {
    "seconds": "s",
    "processor_seconds": "processor s",
    "peak_megabytes": "MB",
}
_FILES, _GROUP = flags.Group.FILES, _MEASUREMENT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    report: bool = flags.Group.ACTIONS.switch(
        "Run nothing; print the table of all runs in --output_dir."
    )
    task: str = _GROUP.flag("MRPC", f"A task of GLUE, or {SQUAD}.")
    model: str | None = _FILES.optional(
        "Folder with config.json, model.safetensors and vocab.txt."
    )
    data_dir: str | None = _FILES.optional("Of GLUE: the task's folder.")
    train_file: str | None = _FILES.optional("Training questions of SQuAD.")
    predict_file: str | None = _FILES.optional("Dev questions of SQuAD.")
    output_dir: str = _FILES.required("Folder for the results of all runs.")
    peer_python: str | None = _FILES.optional(
        "The Python of an environment with torch, transformers and accelerate."
    )
    programs: tuple[str, ...] = _GROUP.flag(
        (OURS, PEER), f"Some of {', '.join(PROGRAMS)}."
    )
    seeds: tuple[str, ...] = _GROUP.flag(
        ("1", "2", "3", "4", "5"), "Of the runs."
    )
    learning_rates: tuple[str, ...] = _GROUP.flag(
        ("2e-5", "5e-5", "1e-4"), "Rates to select from on the first seed."
    )
    num_train_epochs: float = _GROUP.flag(3.0, "Of training.")
    batch_size: int = _GROUP.flag(32, "Of training and prediction.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Task:
    """A task, for both programs.

    Attributes:
        options: the flags.
        model: the folder of the pre-trained weights.
        name: in the table.
        architecture: of the fine-tuned model, in transformers.
        output_layer: its name there.
        num_outputs: the width of the output layer.
        metrics: the names of its scores.
        command: this project's script with the flags of the task.
        job: the task's part of the peer's job.
        score: reads the outputs in a folder and scores them.
    """

    options: Options
    model: str
    name: str
    architecture: str
    output_layer: str
    num_outputs: int
    metrics: Sequence[str]
    command: Sequence[str]
    job: Mapping[str, Any]
    score: Callable[[str], dict[str, float]]


def _model(options: Options) -> str:
    return os.path.abspath(flags.needed(options.model, "model"))


def _glue_task(options: Options) -> _Task:
    info = glue.find_dataset(options.task)
    data_dir = os.path.abspath(flags.needed(options.data_dir, "data_dir"))
    dev = _examples(info, info.dev[0], data_dir)

    def score(folder: str) -> dict[str, float]:
        logits = pathlib.Path(folder, "logits.npy")
        if logits.exists():  # The peer's.
            outputs = np.load(logits, allow_pickle=False)
            return metrics.evaluate(
                info.metrics,
                np.array([label for _, _, label in dev]),
                predictions.decide(info.label_set, outputs),
                outputs,
            )
        results = result_files.read(os.path.join(folder, "eval_results.txt"))
        return {name: float(results[f"eval_{name}"]) for name in info.metrics}

    return _Task(
        options=options,
        model=_model(options),
        name=info.name,
        architecture="BertForSequenceClassification",
        output_layer="classifier",
        num_outputs=info.label_set.num_outputs,
        metrics=info.metrics,
        command=[
            *("run_classifier.py", f"--task_name={info.name}"),
            *(f"--data_dir={data_dir}", "--do_train", "--do_eval"),
            f"--max_seq_length={_GLUE_LENGTH}",
            f"--eval_batch_size={options.batch_size}",
        ],
        job={
            "kind": "classification",
            "num_labels": info.label_set.num_outputs,
            "max_seq_length": _GLUE_LENGTH,
            "train": _examples(info, info.train, data_dir),
            "dev": dev,
        },
        score=score,
    )


def _examples(
    info: datasets.DatasetInfo, split: datasets.SplitInfo, data_dir: str
) -> list[list[Any]]:
    """Reads both texts and the label of each example."""
    return [
        [
            example.text_a,
            # As released: an empty second text means a single text.
            example.text_b or None,
            info.label_set.encode(example.label),
        ]
        for example in datasets.read_examples(
            os.path.join(data_dir, split.files[0]),
            split.layout,
            info.label_set,
            guid_prefix=split.guid_prefix,
        )
    ]


def _squad_task(options: Options) -> _Task:
    files = {
        name: os.path.abspath(flags.needed(getattr(options, name), name))
        for name in ("train_file", "predict_file")
    }

    def score(folder: str) -> dict[str, float]:
        examples = squad_examples.read_dataset(files["predict_file"])
        return squad_metrics.evaluate_v1(
            squad_metrics.gold_answers(examples),
            json_text.read_object(f"{folder}/predictions.json"),
        )

    return _Task(
        options=options,
        model=_model(options),
        name=SQUAD,
        architecture="BertForQuestionAnswering",
        output_layer="qa_outputs",
        num_outputs=2,
        metrics=("f1", "exact_match"),
        command=[
            "run_squad.py",
            *(f"--{name}={path}" for name, path in files.items()),
            *("--do_train", "--do_predict"),
            f"--predict_batch_size={options.batch_size}",
        ],
        job={"kind": "squad", **files},
        score=score,
    )


def run(options: Options) -> None:
    """Executes the missing runs of the options.

    Raises:
        ValueError: a flag is missing or has an unknown value.
        RuntimeError: a run failed.
        LockedError: another program uses the output folder.
    """
    for name in options.programs:
        messages.check_choice("--programs", name, PROGRAMS)
    if len(options.learning_rates) > 1 or any(
        name.startswith(PEER) for name in options.programs
    ):
        flags.needed(options.peer_python, "peer_python")
    is_squad = options.task.lower() == SQUAD.lower()
    task = (_squad_task if is_squad else _glue_task)(options)
    folder = options.output_dir
    with locking.lock_folder(folder, f"--output_dir={folder}"):
        best = _best_rate(task)
        for seed in options.seeds:
            for name in options.programs:
                _row(task, name, best, seed)


def _best_rate(task: _Task) -> str:
    """Returns the learning rate with which the peer has the best score."""
    rates = task.options.learning_rates
    if len(rates) == 1:
        return rates[0]
    peers = (name for name in task.options.programs if name.startswith(PEER))
    peer = next(peers, PEER)
    scores = {
        rate: _row(task, peer, rate, task.options.seeds[0])["metrics"][
            task.metrics[0]
        ]
        for rate in rates
    }
    best = max(scores, key=lambda rate: scores[rate])
    logging.info("learning rate %s: best of %s", best, scores)
    return best


def _row(task: _Task, name: str, rate: str, seed: str) -> dict[str, Any]:
    """Returns the line of a run, which is executed if it is missing."""
    options = task.options
    key = {
        "task": task.name,
        "program": name,
        "learning_rate": rate,
        "seed": seed,
        "num_train_epochs": options.num_train_epochs,
        "batch_size": options.batch_size,
        **_inputs(options),
    }
    for row in read_rows(options.output_dir):
        if key.items() <= row.items():
            return row
    folder = os.path.join(os.path.abspath(options.output_dir), "run")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    logging.info("%s", " ".join(map(str, key.values())))
    start = os.path.join(folder, "start")
    _write_start(task, int(seed), start)
    make_command = _our_command if name.startswith(OURS) else _peer_command
    used = _measure(
        make_command(task, key, start, folder),
        os.path.join(options.output_dir, "log.txt"),
    )
    row = {**key, "metrics": task.score(folder), **used}
    with open(os.path.join(options.output_dir, _RUNS), "a") as file:
        file.write(json.dumps(row) + "\n")
    logging.info("%s", row)
    shutil.rmtree(folder)
    return row


def _inputs(options: Options) -> dict[str, str | None]:
    """Returns the absolute paths of the model and of the data."""
    given = {name: getattr(options, name) for name in _INPUTS}
    return {
        name: None if path is None else os.path.abspath(path)
        for name, path in given.items()
    }


def _write_start(task: _Task, seed: int, folder: str) -> None:
    """Writes the pre-trained weights with a new output layer.

    The layer has transformers' normal distribution. That of the release is
    truncated, which reduces the deviation to 88 %.
    """
    shutil.copytree(task.model, folder)
    config = json_text.read_object(f"{folder}/config.json")
    config["architectures"] = [task.architecture]
    config["id2label"] = {
        str(number): f"LABEL_{number}" for number in range(task.num_outputs)
    }
    if task.num_outputs == 1:
        config["problem_type"] = "regression"
    writing.write_json(f"{folder}/config.json", config)
    path = f"{folder}/model.safetensors"
    weights = {
        f"bert.{name.removeprefix('bert.')}": value
        for name, value in safetensors.numpy.load_file(path).items()
    }
    shape = (task.num_outputs, config["hidden_size"])
    kernel = np.random.default_rng(seed).normal(
        scale=config["initializer_range"], size=shape
    )
    weights[f"{task.output_layer}.weight"] = kernel.astype(np.float32)
    weights[f"{task.output_layer}.bias"] = np.zeros(shape[0], np.float32)
    safetensors.numpy.save_file(weights, path, metadata={"format": "pt"})


def _our_command(
    task: _Task, key: Mapping[str, Any], start: str, folder: str
) -> list[str]:
    return [
        sys.executable,
        *task.command,
        f"--bert_config_file={start}/config.json",
        f"--vocab_file={start}/vocab.txt",
        f"--init_checkpoint={start}",
        f"--output_dir={folder}",
        f"--train_batch_size={key['batch_size']}",
        f"--num_train_epochs={key['num_train_epochs']}",
        f"--learning_rate={key['learning_rate']}",
        f"--random_seed={key['seed']}",
        f"--precision={_precision(key['program'])}",
        "--adam_bias_correction",
        "--lr_schedule=continuous",
        "--packing",
    ]


def _peer_command(
    task: _Task, key: Mapping[str, Any], start: str, folder: str
) -> list[str]:
    job = {
        "model": start,
        "output_dir": folder,
        "num_train_epochs": key["num_train_epochs"],
        "batch_size": key["batch_size"],
        "learning_rate": float(key["learning_rate"]),
        "warmup_proportion": 0.1,
        "seed": int(key["seed"]),
        "is_bfloat16": _precision(key["program"]) != "float32",
        **task.job,
    }
    path = os.path.join(folder, "job.json")
    writing.write_json(path, job)
    python = flags.needed(task.options.peer_python, "peer_python")
    return [python, "-m", "benchmarks.fine_tuning_peer", path]


def _precision(name: str) -> str:
    return next(each for each, pair in _PAIRS.items() if name in pair)


def _measure(command: Sequence[str], log: str) -> dict[str, float]:
    """Runs a command; returns its time and its memory.

    Raises:
        RuntimeError: the command failed.
    """
    start = time.perf_counter()
    with open(log, "ab") as file:
        process = subprocess.Popen(
            command, cwd=contenders.ROOT, stdout=file, stderr=file
        )
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(
            f"{command} ended with {process.returncode}: see {log}."
        )
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_megabytes": round(usage.ru_maxrss * 1024 / 1e6),  # Linux: KiB.
    }


def read_rows(output_dir: str) -> list[dict[str, Any]]:
    """Reads the runs of a folder."""
    path = pathlib.Path(output_dir, _RUNS)
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats the runs of both programs as a Markdown table.

    Scores are percentages, mean and standard deviation over the seeds; times
    and memory are medians, this project's before Hugging Face's. Learning rates
    tried only with Hugging Face are omitted.

    Raises:
        ValueError: there are no runs of both programs with the same settings.
    """
    groups: dict[tuple, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        # Rows of earlier versions do not name their inputs.
        key = (
            *(row[name] for name in _SETTINGS),
            *(row.get(name) for name in _INPUTS),
        )
        groups.setdefault(key, {}).setdefault(row["program"], []).append(row)
    lines = []
    for (task, rate, epochs, *_), runs in groups.items():
        for precision, pair in _PAIRS.items():
            if not runs.keys() >= set(pair):
                continue
            ours, theirs = (runs[name] for name in pair)
            about = f"{task}, {epochs:g} epochs at {rate}, {precision}"
            used = [_medians(ours, theirs, column) for column in _USED]
            for metric in ours[0]["metrics"]:
                lines.append(
                    [
                        about,
                        f"{len(ours)}, {len(theirs)}",
                        metric,
                        *_compared(ours, theirs, metric),
                        *used,
                    ]
                )
                about, used = "", [""] * len(used)
    if not lines:
        raise ValueError(
            "--report needs runs of both programs with the same settings; "
            f"--output_dir contains {len(rows)} runs. Run the comparison first."
        )
    header = ["task", "runs", "metric", "this project", "Hugging Face"]
    header += ["difference in standard errors", *_USED.values()]
    return scaling.table(header, lines)


def _compared(
    ours: Sequence[Mapping[str, Any]],
    theirs: Sequence[Mapping[str, Any]],
    metric: str,
) -> list[str]:
    """Formats the scores of both, and the difference of their means."""
    cells, means, variances = [], [], []
    for runs in (ours, theirs):
        # SQuAD's scores are percentages already.
        values = [
            run["metrics"][metric] * (1 if run["task"] == SQUAD else 100)
            for run in runs
        ]
        means.append(statistics.mean(values))
        cells.append(f"{means[-1]:.1f}")
        if len(values) > 1:
            cells[-1] += f" ± {statistics.stdev(values):.1f}"
            variances.append(statistics.variance(values) / len(values))
    if len(variances) < 2 or not sum(variances):
        return [*cells, ""]
    distance = (means[0] - means[1]) / math.sqrt(sum(variances))
    return [*cells, f"{distance:+.1f}"]


def _medians(
    ours: Sequence[Mapping[str, Any]],
    theirs: Sequence[Mapping[str, Any]],
    column: str,
) -> str:
    first, second = (
        statistics.median(run[column] for run in runs)
        for runs in (ours, theirs)
    )
    return f"{first:.0f} / {second:.0f} = {first / second:.2f}"


def main(options: Options) -> None:
    """Executes the runs, or prints the table of finished runs."""
    if options.report:
        sys.stdout.write(report(read_rows(options.output_dir)))
    else:
        run(options)


if __name__ == "__main__":
    program.start(Options, main)

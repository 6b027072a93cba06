r"""Fine-tunes BERT to tag the words of sentences, such as named entities.

Examples:

  python run_ner.py \
    --data_dir=/data/conll2003 \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/data/ner_output \
    --do_train --do_eval --do_predict --num_trials=5

  python run_ner.py --features=concat_last_four ...

The second leaves BERT as it is and trains a BiLSTM on its hidden layers. Files
have a word and its tag a line, as those of CoNLL-2003 have. Stop the program at
any time and run the same command again: it goes on where it stopped.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from commands import flags, program
from files import paths, writing
from tasks.classification import labels
from tasks.tagging import conll, entities, ner
from training import flags as training_flags
from training import (
    option_checks,
    run_card,
    trials,
)
from vocab import tokenization

_METRIC = "f1"  # Decides which checkpoint, and which trial, is the best.
_LABELS_FILE = "labels.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_flags.AblationOptions,
    training_flags.TaggingOptions,
    ner.NerOptions,
):
    """The flags of this script; see --help."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Task:
    """What is learnt, and how.

    Attributes:
        setup: what the run stands on, a `preparation.Setup`.
        labels: O, and B and I of each type.
        approach: a `tagging_approaches.Approach`.
    """

    setup: Any
    labels: tuple[str, ...]
    approach: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Set:
    """A file and its records.

    Attributes:
        file: what it holds.
        gold: the tags of each sentence in IOB2; None if it has none.
        source: its records.
    """

    file: conll.ColumnFile
    gold: Sequence[tuple[str, ...]] | None
    source: Any


def run(options: Options) -> None:
    """Trains, evaluates and predicts as the options say.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints do not fit together.
    """
    options = trials.with_best_trial(options)
    tokenizer = tokenization.open_tokenizer(options, "[UNK]", "[CLS]", "[SEP]")
    config = option_checks.check_task(options, tokenizer.vocab_size)
    needed = {
        "train": options.do_train,
        "eval": option_checks.needs_held_out(options),
        "predict": options.do_predict,
    }
    files = {name: ner.read(options, name) for name in needed if needed[name]}
    option_checks.check_weights(options)
    from training import preparation, tagging_approaches

    setup = preparation.prepare(options, tokenizer, config)
    task = _Task(
        setup=setup,
        labels=_find_labels(options, files.get("train")),
        approach=tagging_approaches.choose(
            options, setup.config, setup.strategy
        ),
    )
    logging.info("Labels: %s", ", ".join(task.labels))
    sets = {
        name: _make_set(task, tokenizer, name, file)
        for name, file in files.items()
    }
    plan = trials.plan_run(
        dataclasses.replace(
            options, init_checkpoint=task.approach.init_checkpoint
        )
    )
    results, learner = [], None
    for _, own in plan:
        learner, result = _run_trial(task, own, sets, learner)
        results.append(result)
    if len(plan) > 1:
        runs = [trial for trial, _ in plan]
        _summarize(options.output_dir, runs, results)


def _find_labels(
    options: Options, train: conll.ColumnFile | None
) -> tuple[str, ...]:
    """Lists the labels of the training file, else those of the model."""
    path = os.path.join(options.output_dir, _LABELS_FILE)
    if train is None and paths.exists(path):
        return labels.load(path).names
    file = train or ner.read(options, "train")
    found = entities.labels_of(entities.convert_file(file, options.scheme))
    if found == (entities.OUTSIDE,):
        raise ValueError(
            f"{file.path}: must hold an entity; every tag is O. See --columns."
        )
    return found


def _make_set(
    task: _Task,
    tokenizer: tokenization.FullTokenizer,
    name: str,
    file: conll.ColumnFile,
) -> _Set:
    """Makes the records of a file, unless they are there."""
    options = task.setup.options
    ids = {label: number for number, label in enumerate(task.labels)}
    gold = None
    if file.has_tags or name != "predict":
        gold = entities.convert_file(file, options.scheme, ids)
    tags = gold or [[entities.OUTSIDE] * len(s.words) for s in file.sentences]

    def windows() -> Iterator[list[ner.Window]]:
        return ner.make_windows(
            file.sentences,
            [[ids[tag] for tag in sentence] for sentence in tags],
            tokenizer,
            flags.narrow(ner.WindowOptions, options),
        )

    origin = ner.origin(options, file.path) | {"labels": task.labels}
    source = task.approach.make_or_reuse(
        os.path.join(options.output_dir, name),
        task.setup.metadata("tagging", origin),
        windows,
    )
    return _Set(file=file, gold=gold, source=source)


def _run_trial(
    task: _Task,
    options: Options,
    sets: Mapping[str, _Set],
    earlier: Any | None,
) -> tuple[Any, dict[str, float]]:
    """Trains, evaluates and predicts once.

    Args:
        task: of the run.
        options: of this trial.
        sets: by name.
        earlier: `experiment.Learner` of the trial before; None for the first.

    Returns:
        The learner and the scores.
    """
    from training import ablations, experiment

    dev = sets.get("eval")
    learner = experiment.make_learner(
        task.setup,
        options,
        lambda: task.approach.make_objective(len(task.labels)),
        labels.LabelSet(names=task.labels).to_dict(),
        earlier=earlier,
    )

    def evaluate() -> Mapping[str, float]:
        tags, loss = _tag(task, learner, dev, options.eval_batch_size)
        scores = entities.score(dev.gold, tags)
        return {**scores.metrics(by_type=False), "loss": loss}

    if options.do_train:
        learner.train(
            experiment.Training(
                name=f"tags, {task.approach.name}: {' '.join(task.labels)}",
                source=sets["train"].source,
                metric=_METRIC,
                evaluate=evaluate,
                head=ablations.HEAD,
            )
        )
    results = {}
    if options.do_eval or options.do_predict:
        step = learner.load()
    if options.do_eval:
        tags, loss = _tag(task, learner, dev, options.eval_batch_size)
        more = {"eval_loss": loss, "global_step": step}
        results |= _write(learner, "eval", dev, tags, more)
    if options.do_predict:
        test, more = sets["predict"], {"global_step": step}
        tags, _ = _tag(task, learner, test, options.predict_batch_size)
        results |= _write(learner, "test", test, tags, more)
    return learner, results


def _tag(
    task: _Task, learner: Any, data: _Set, batch_size: int
) -> tuple[list[tuple[str, ...]], float]:
    """Returns the tags of a file's sentences, and the loss of a word."""
    scores = learner.predict(data.source, batch_size)
    tags = ner.split_labels(
        scores["label_ids"],
        scores["label_mask"],
        data.file.sentences,
        task.labels,
    )
    return tags, float(scores["losses"].sum()) / data.file.num_words()


def _write(
    learner: Any,
    name: str,
    data: _Set,
    tags: Sequence[tuple[str, ...]],
    more: Mapping[str, float],
) -> dict[str, float]:
    """Writes what was predicted for a file; returns its scores, if any."""
    lines = conll.prediction_lines(data.file.sentences, data.gold, tags)
    learner.write_files({f"{name}_predictions.txt": lines})
    if data.gold is None:
        return {}
    scores = entities.score(data.gold, tags)
    logging.info("%s\n%s", data.file.path, scores.report())
    learner.write_files({f"{name}_report.txt": [scores.report()]})
    results = {f"{name}_{key}": x for key, x in scores.metrics().items()}
    learner.write_results({**results, **more}, f"{name}_results.txt")
    return results


def _summarize(
    folder: str, runs: Sequence[Any], results: Sequence[Mapping[str, float]]
) -> None:
    """Writes what several trials came to: means and deviations."""
    from training import workers

    # A constant answer, O, finds nothing.
    summaries = {
        name: trials.summarize(runs, results, f"{name}_{_METRIC}", 0.0)
        for name in ("eval", "test")
        if f"{name}_{_METRIC}" in results[0]
    }
    for summary in summaries.values():
        logging.info("%s", trials.table(summary))
    if workers.cluster().is_chief:
        writing.write_json(os.path.join(folder, trials.SUMMARY_FILE), summaries)


def main(options: Options) -> None:
    """Runs the script with its flags."""
    run_card.record(run, options)


if __name__ == "__main__":
    program.start(Options, main)

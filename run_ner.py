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

from absl import app, flags, logging

from files import paths, writing
from tasks import (
    conll,
    entities,
    labels,
    ner,
    ner_flags,
    ner_results,
    tag_schemes,
)
from training import fine_tuning_flags, tagging_flags
from training import flags as shared_flags
from vocab import tokenization

_METRIC = "f1"  # Decides which checkpoint, and which trial, is the best.
_LABELS_FILE = "labels.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(tagging_flags.TaggingOptions, ner_flags.NerOptions):
    """The flags of this script; see --help."""


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags."""
    tagging_flags.define_flags(values)
    ner_flags.define_flags(values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Run:
    """What the trials of a run share.

    Attributes:
        options: the flags; `output_dir` holds the folders of several trials.
        config: the sizes of the model.
        tokenizer: of the vocabulary.
        labels: O, and B and I of each type.
        strategy: where variables live.
        approach: a `tagging_approaches.Approach`.
    """

    options: Options
    config: Any
    tokenizer: tokenization.FullTokenizer
    labels: tuple[str, ...]
    strategy: Any
    approach: Any

    def text(self) -> dict[str, Any]:
        """Says how text is read, for the files beside models and records."""
        from training import records

        return {
            "vocab_sha256": records.vocab_sha256(self.tokenizer.vocab),
            "do_lower_case": self.options.do_lower_case,
        }


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
    tokenization.validate_case_matches_checkpoint(
        options.do_lower_case, options.init_checkpoint
    )
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, do_lower_case=options.do_lower_case
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]")

    from modeling import config as config_lib
    from training import experiment, tagging_approaches, trials

    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    experiment.check_options(options, config, tokenizer.vocab_size)
    strategy = experiment.prepare_devices(options)
    needed = {
        "train": options.do_train,
        "eval": options.do_eval or experiment.evaluates_while_training(options),
        "predict": options.do_predict,
    }
    files = {
        name: ner_flags.read(options, name) for name in needed if needed[name]
    }
    this = _Run(
        options=options,
        config=config,
        tokenizer=tokenizer,
        labels=_find_labels(options, files.get("train")),
        strategy=strategy,
        approach=tagging_approaches.choose(options, config, strategy),
    )
    logging.info("Labels: %s", ", ".join(this.labels))
    sets = {name: _make_set(this, name, file) for name, file in files.items()}
    plan = trials.plan(
        *(options.output_dir, options.learning_rates),
        *(options.num_trials, options.random_seed),
    )
    results = []
    for trial in plan:
        own = dataclasses.replace(
            options,
            output_dir=trial.folder,
            learning_rate=trial.learning_rate,
            random_seed=trial.random_seed,
            init_checkpoint=this.approach.init_checkpoint,
        )
        results.append(_run_trial(this, own, sets))
    if len(plan) > 1:
        _summarize(options.output_dir, plan, results)


def _find_labels(
    options: Options, train: conll.ColumnFile | None
) -> tuple[str, ...]:
    """Lists the labels of the training file, else those of the model."""
    path = os.path.join(options.output_dir, _LABELS_FILE)
    if train is None and paths.exists(path):
        return labels.load(path).names
    file = train or ner_flags.read(options, "train")
    found = tag_schemes.labels_of(
        tag_schemes.convert_file(file, options.scheme)
    )
    if found == (conll.OUTSIDE,):
        raise ValueError(
            f"{file.path}: must hold an entity; every tag is O. See --columns."
        )
    return found


def _make_set(this: _Run, name: str, file: conll.ColumnFile) -> _Set:
    """Makes the records of a file, unless they are there."""
    options = this.options
    ids = {label: number for number, label in enumerate(this.labels)}
    gold = None
    if file.has_tags or name != "predict":
        gold = tag_schemes.convert_file(file, options.scheme, ids)
    tags = gold or [[conll.OUTSIDE] * len(s.words) for s in file.sentences]

    def windows() -> Iterator[list[ner.Window]]:
        return ner.make_windows(
            file.sentences,
            [[ids[tag] for tag in sentence] for sentence in tags],
            this.tokenizer,
            shared_flags.narrow(ner.WindowOptions, options),
        )

    source = this.approach.make_or_reuse(
        os.path.join(options.output_dir, name), _origin(this, file), windows
    )
    return _Set(file=file, gold=gold, source=source)


def _origin(this: _Run, file: conll.ColumnFile) -> Any:
    """Names what the records of a file depend on."""
    from training import records

    options = this.options
    return records.Metadata(
        kind="tagging",
        max_seq_length=options.max_seq_length,
        vocab_size=this.tokenizer.vocab_size,
        num_records=0,
        flags=ner_flags.origin(options, file.path) | {"labels": this.labels},
        **this.text(),
    )


def _run_trial(
    this: _Run, options: Options, sets: Mapping[str, _Set]
) -> dict[str, float]:
    """Trains, evaluates and predicts once; returns the scores."""
    from training import experiment, prediction, runtime, tagging

    dev = sets.get("eval")
    _claim_folder(this, options)
    runtime.set_seed(options.random_seed)
    with this.strategy.scope():
        objective = this.approach.make_objective(len(this.labels))
    logging.info("%s parameters", f"{objective.model.count_params():,}")
    predictor = prediction.Predictor(this.strategy, objective)

    def evaluate() -> Mapping[str, float]:
        tags, loss = _tag(this, predictor, dev, options.eval_batch_size)
        scores = entities.score(dev.gold, tags)
        return {**scores.metrics(by_type=False), "loss": loss}

    if options.do_train:
        experiment.train(
            this.strategy,
            experiment.Training(
                objective=objective,
                name=f"tags, {this.approach.name}: {' '.join(this.labels)}",
                source=sets["train"].source,
                metric=_METRIC,
                evaluate=evaluate,
                head=tagging.HEAD,
            ),
            options,
        )
    if not (options.do_eval or options.do_predict):
        return {}
    step = experiment.load(this.strategy, objective, options)
    results = {}
    if options.do_eval:
        tags, loss = _tag(this, predictor, dev, options.eval_batch_size)
        more = {"eval_loss": loss, "global_step": step}
        results |= _write(options.output_dir, "eval", dev, tags, more)
    if options.do_predict:
        test, more = sets["predict"], {"global_step": step}
        tags, _ = _tag(this, predictor, test, options.predict_batch_size)
        results |= _write(options.output_dir, "test", test, tags, more)
    return results


def _claim_folder(this: _Run, options: Options) -> None:
    """Puts beside the model what it takes to use it alone."""
    from training import checkpointing, model_folder

    folder = options.output_dir
    if this.options.init_checkpoint:
        origin = model_folder.of_checkpoint(this.options.init_checkpoint)
        model_folder.check_text(origin, this.text())
    checkpointing.claim(folder, this.config.to_dict())
    model_folder.claim_text(folder, options.vocab_file, this.text())
    label_set = labels.LabelSet(names=this.labels)
    for place in {folder, this.options.output_dir}:
        label_set.save(os.path.join(place, _LABELS_FILE))


def _tag(
    this: _Run, predictor: Any, data: _Set, batch_size: int
) -> tuple[list[tuple[str, ...]], float]:
    """Returns the tags of a file's sentences, and the loss of a word."""
    from training import experiment

    options = dataclasses.replace(this.options, predict_batch_size=batch_size)
    scores = experiment.predict(predictor, data.source, options)
    tags = ner_results.split_labels(
        scores["label_ids"],
        scores["label_mask"],
        data.file.sentences,
        this.labels,
    )
    return tags, float(scores["losses"].sum()) / data.file.num_words()


def _write(
    folder: str,
    name: str,
    data: _Set,
    tags: Sequence[tuple[str, ...]],
    more: Mapping[str, float],
) -> dict[str, float]:
    """Writes what was predicted for a file; returns its scores, if any."""
    from training import reporting

    path = os.path.join(folder, name)
    with writing.whole_file(f"{path}_predictions.txt") as file:
        file.writelines(
            ner_results.prediction_lines(data.file.sentences, data.gold, tags)
        )
    if data.gold is None:
        return {}
    scores = entities.score(data.gold, tags)
    logging.info("%s\n%s", data.file.path, scores.report())
    with writing.whole_file(f"{path}_report.txt") as file:
        file.write(scores.report())
    results = ner_results.results(scores, name)
    reporting.write_results(f"{path}_results.txt", {**results, **more})
    return results


def _summarize(
    folder: str, plan: Sequence[Any], results: Sequence[Mapping[str, float]]
) -> None:
    """Writes what several trials came to: means and deviations."""
    from training import trials

    # A constant answer, O, finds nothing.
    summaries = {
        name: trials.summarize(plan, results, f"{name}_{_METRIC}", 0.0)
        for name in ("eval", "test")
        if f"{name}_{_METRIC}" in results[0]
    }
    for summary in summaries.values():
        logging.info("%s", trials.table(summary))
    writing.write_json(os.path.join(folder, trials.SUMMARY_FILE), summaries)


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.INFO)
    run(tagging_flags.read_options(Options, flags.FLAGS))


if __name__ == "__main__":
    define_flags()
    fine_tuning_flags.adopt()
    for module in (tagging_flags, ner_flags):
        shared_flags.adopt(module.__name__)
    app.run(main)

r"""Fine-tunes BERT to label or score sentences and pairs of sentences.

Examples:

  python run_classifier.py \
    --task_name=MRPC --data_dir=/data/glue/MRPC \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/data/mrpc_output \
    --do_train --do_eval --do_predict

  python run_classifier.py \
    --task_name=custom --data_dir=/data/reviews \
    --text_a_column=review --label_column=stars ...

The tasks are those of GLUE, XNLI, and `custom`: train, dev and test files of
your own in TSV, CSV or JSON Lines. Stop the program at any time and run the
same command again: it goes on where it stopped.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import app, flags, logging

from files import paths, writing
from tasks import (
    baselines,
    classification,
    custom,
    labels,
    predictions,
    result_files,
    saved_labels,
    sentence_flags,
    sentence_pairs,
    submission,
)
from training import fine_tuning_flags
from training import flags as shared_flags
from vocab import tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    fine_tuning_flags.FineTuningOptions, sentence_flags.SentenceOptions
):
    """The flags of this script; see --help."""


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags; names and defaults are the release's."""
    fine_tuning_flags.define_flags(values)
    sentence_flags.define_flags(values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Run:
    """What the trials of a run share.

    Attributes:
        options: the flags; `output_dir` holds the folders of several trials.
        config: the sizes of the model.
        tokenizer: of the vocabulary.
        task: its files and labels.
        strategy: where variables live.
    """

    options: Options
    config: Any
    tokenizer: tokenization.FullTokenizer
    task: classification.Task
    strategy: Any

    def text(self) -> dict[str, Any]:
        """Says how text is read, for the files beside models and records."""
        from training import records

        return {
            "vocab_sha256": records.vocab_sha256(self.tokenizer.vocab),
            "do_lower_case": self.options.do_lower_case,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Set:
    """The records of one file of a task.

    Attributes:
        part: the file.
        source: its records.
        rows_per_example: `[E]` int64, more than 1 for text in windows.
        label_ids: `[E]` or, where there may be several, `[E, K]`.
        suffix: what its results are told apart by; "" for the release's file.
    """

    part: classification.Part
    source: Any
    rows_per_example: Any
    label_ids: Any
    suffix: str


def run(options: Options) -> None:
    """Trains, evaluates and predicts as the options say.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints do not fit together.
    """
    task = sentence_flags.find_task(
        options, options.output_dir, is_training=options.do_train
    )
    tokenization.validate_case_matches_checkpoint(
        options.do_lower_case, options.init_checkpoint
    )
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, do_lower_case=options.do_lower_case
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]")

    from modeling import config as config_lib
    from training import experiment, trials

    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    experiment.check_options(options, config, len(tokenizer.vocab))
    this = _Run(
        options=options,
        config=config,
        tokenizer=tokenizer,
        task=task,
        strategy=experiment.prepare_devices(options),
    )
    train = _read(this, "train", [task.train]) if options.do_train else []
    held_out = options.do_eval or experiment.evaluates_while_training(options)
    dev = _read(this, "eval", task.dev) if held_out else []
    test = _read(this, "predict", task.test) if options.do_predict else []

    plan = trials.plan(
        options.output_dir,
        options.learning_rates,
        options.num_trials,
        options.random_seed,
    )
    results = []
    for trial in plan:
        own = dataclasses.replace(
            options,
            output_dir=trial.folder,
            learning_rate=trial.learning_rate,
            random_seed=trial.random_seed,
        )
        objective, result = _fine_tune(this, own, train, dev)
        results.append(result)
    best = plan[0]
    if len(plan) > 1:
        best = _choose(this, plan, results, dev[0])
        own = dataclasses.replace(options, output_dir=best.folder)
        experiment.load(this.strategy, objective, own)
    if options.do_predict:
        _predict(this, objective, test, best.folder)


def _read(
    this: _Run, name: str, parts: Sequence[classification.Part]
) -> list[_Set]:
    """Makes the records of files, NAME.tf_record, unless they are there."""
    sets = []
    for number, part in enumerate(parts):
        path = classification.find_file(
            this.options.data_dir, this.task.name, part.files
        )
        if path is None and not part.required:
            logging.info("%s: no %s; left out", this.task.name, part.files[0])
            continue
        suffix = f"_{part.name.rpartition('_')[2]}" if number else ""
        sets.append(_records(this, part, name, suffix))
    return sets


def _records(
    this: _Run, part: classification.Part, name: str, suffix: str
) -> _Set:
    from training import fine_tuning, input_pipeline, record_cache, records

    options, task = this.options, this.task
    packing = sentence_flags.packing(options, options.max_seq_length)
    several = task.label_set.problem_type == labels.MULTI_LABEL
    features = records.classification_features(
        options.max_seq_length,
        num_labels=task.label_set.num_outputs if several else 1,
        label_dtype=fine_tuning.LABEL_DTYPES[task.label_set.problem_type],
    )
    path = classification.find_file(options.data_dir, task.name, part.files)
    made_from = records.Metadata(
        kind="classification",
        max_seq_length=options.max_seq_length,
        vocab_size=len(this.tokenizer.vocab),
        num_records=0,
        flags={
            "data_sha256": path and paths.sha256(path),
            "layout": str(part.layout),
            "labels": str(task.label_set),
            "packing": str(packing),
        },
        **this.text(),
    )

    def examples() -> Iterator[list[Mapping[str, Any]]]:
        read = classification.read_part(
            task, part, options.data_dir, with_labels=name != "predict"
        )
        for rows in sentence_pairs.convert_examples(
            read, task.label_set, packing, this.tokenizer
        ):
            yield [sentence_pairs.to_record(row) for row in rows]

    cached = record_cache.make_or_reuse(
        os.path.join(options.output_dir, f"{name}{suffix}.tf_record"),
        features,
        made_from,
        examples,
    )
    label_ids = predictions.pool_windows(
        record_cache.values(cached.files, features[3]), cached.rows_per_example
    )
    return _Set(
        part=part,
        source=input_pipeline.RecordSource(
            files=cached.files,
            features=features,
            vocab_size=this.config.vocab_size,
        ),
        rows_per_example=cached.rows_per_example,
        label_ids=label_ids if several else label_ids[:, 0],
        suffix=suffix,
    )


def _fine_tune(
    this: _Run, options: Options, train: Sequence[_Set], dev: Sequence[_Set]
) -> tuple[Any, Mapping[str, float]]:
    """Trains and evaluates one trial; returns its objective and results."""
    from modeling import heads
    from training import (
        experiment,
        fine_tuning,
        model_folder,
        reporting,
        runtime,
    )

    label_set = this.task.label_set
    _claim_folder(this, options)
    runtime.set_seed(options.random_seed)
    with this.strategy.scope():
        model = heads.BertForSequenceClassification(
            this.config, num_labels=label_set.num_outputs
        )
    logging.info("%s parameters", f"{model.count_params():,}")
    objective = fine_tuning.Classification(model, label_set.problem_type)
    if options.do_train:
        experiment.train(
            this.strategy,
            experiment.Training(
                objective=objective,
                name=f"{this.task.name}, {label_set.problem_type}",
                source=train[0].source,
                metric=this.task.metrics[0],
                evaluate=lambda: _evaluate(this, objective, dev[0]),
                head=fine_tuning.CLASSIFICATION_HEAD,
                # Another task's output layer may have the shape of this one.
                encoder_only=bool(options.init_checkpoint)
                and saved_labels.differ(
                    model_folder.of_checkpoint(options.init_checkpoint),
                    label_set,
                ),
            ),
            options,
        )
    if not (options.do_eval or options.do_predict):
        return objective, {}
    step = experiment.load(this.strategy, objective, options)
    results = {}
    if options.do_eval:
        for held_out in dev:
            scores = _evaluate(this, objective, held_out)
            # As released: `loss` averages batches, `eval_loss` examples.
            own = {"loss": scores.pop("batch_loss")}
            own |= {f"eval_{name}": value for name, value in scores.items()}
            results |= {f"{k}{held_out.suffix}": v for k, v in own.items()}
        reporting.write_results(
            os.path.join(options.output_dir, "eval_results.txt"),
            {**results, "global_step": step},
        )
    return objective, results


def _claim_folder(this: _Run, options: Options) -> None:
    """Puts beside the model what it takes to use it alone."""
    from training import checkpointing, model_folder

    folder, label_set = options.output_dir, this.task.label_set
    if checkpointing.latest(folder) and saved_labels.differ(folder, label_set):
        raise ValueError(
            f"The model in {folder} has other labels ({custom.LABELS_FILE}) "
            f"than {this.task.name}. Choose another --output_dir."
        )
    if options.init_checkpoint:
        origin = model_folder.of_checkpoint(options.init_checkpoint)
        model_folder.check_text(origin, this.text())
    checkpointing.claim(folder, this.config.to_dict())
    model_folder.claim_text(folder, options.vocab_file, this.text())
    for place in {folder, this.options.output_dir}:
        saved_labels.save(place, label_set)


def _outputs(
    this: _Run, objective: Any, data: _Set, batch_size: int
) -> tuple[Any, Any]:
    """Returns the outputs `[E, K]` for a file, and losses `[R]` of records."""
    from training import experiment

    scores = experiment.predict(
        this.strategy,
        objective,
        data.source,
        batch_size=batch_size,
        bucketed=this.options.bucket_by_length,
    )
    pooled = predictions.pool_windows(scores["outputs"], data.rows_per_example)
    return pooled, scores["losses"]


def _evaluate(this: _Run, objective: Any, data: _Set) -> dict[str, float]:
    """Scores a file with labels: `loss`, `batch_loss` and the metrics."""
    from training import prediction

    batch_size = this.options.eval_batch_size
    outputs, losses = _outputs(this, objective, data, batch_size)
    return {
        "loss": prediction.mean_of_batch_means(losses, len(losses)),
        "batch_loss": prediction.mean_of_batch_means(losses, batch_size),
        **predictions.evaluate(
            this.task.label_set, this.task.metrics, data.label_ids, outputs
        ),
    }


def _choose(
    this: _Run, plan: Sequence[Any], results: Sequence[Any], dev: _Set
) -> Any:
    """Writes what several trials came to; returns the best of them."""
    from training import trials

    metric = this.task.metrics[0]
    summary = trials.summarize(
        plan,
        results,
        f"eval_{metric}",
        baselines.constant_answer(this.task.label_set, metric, dev.label_ids),
    )
    writing.write_json(
        os.path.join(this.options.output_dir, trials.SUMMARY_FILE), summary
    )
    logging.info("%s", trials.table(summary))
    return next(t for t in plan if t.name == summary["best_trial"])


def _predict(
    this: _Run, objective: Any, test: Sequence[_Set], folder: str
) -> None:
    """Writes the answers for the test files into a folder."""
    collected = {}
    for data in test:
        outputs, _ = _outputs(this, objective, data, options.predict_batch_size)
        files = result_files.result_files(
            this.task, data.part, data.suffix, outputs
        )
        for name, lines in files.items():
            path = os.path.join(folder, name)
            with writing.whole_file(path) as file:
                file.writelines(lines)
        collected |= result_files.submitted(data.part, files)
    if this.options.write_submission:
        submission.add_to_zip(this.options.write_submission, collected)


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.INFO)
    run(fine_tuning_flags.read_options(Options, flags.FLAGS))


if __name__ == "__main__":
    define_flags()
    fine_tuning_flags.adopt()
    shared_flags.adopt(sentence_flags.__name__)
    app.run(main)

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
        """Says how text is read, for the file beside the model."""
        from training import records

        return {
            "vocab_sha256": records.vocab_sha256(self.tokenizer.vocab),
            "do_lower_case": self.options.do_lower_case,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Set:
    """One file of a task.

    Attributes:
        part: the file.
        data: its `labelled_records.LabelledRecords`.
        suffix: what its results are told apart by; "" for the release's file.
    """

    part: classification.Part
    data: Any
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
        objective, predictor, result = _fine_tune(this, own, train, dev)
        results.append(result)
    best = plan[0]
    if len(plan) > 1:
        best = _choose(this, plan, results, dev[0])
        own = dataclasses.replace(options, output_dir=best.folder)
        experiment.load(this.strategy, objective, own)
    if options.do_predict:
        _predict(this, predictor, test, best.folder)


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
        data = _records(
            this,
            part,
            f"{name}{suffix}.tf_record",
            with_labels=name != "predict",
        )
        sets.append(_Set(part=part, data=data, suffix=suffix))
    return sets


def _records(
    this: _Run, part: classification.Part, file: str, *, with_labels: bool
) -> Any:
    from training import labelled_records

    options, task = this.options, this.task
    packing = sentence_flags.packing(options, options.max_seq_length)
    path = classification.find_file(options.data_dir, task.name, part.files)

    def examples() -> Iterator[list[Mapping[str, Any]]]:
        read = classification.read_part(
            task, part, options.data_dir, with_labels=with_labels
        )
        for rows in sentence_pairs.convert_examples(
            read, task.label_set, packing, this.tokenizer
        ):
            yield [sentence_pairs.to_record(row) for row in rows]

    data = labelled_records.make_or_reuse(
        os.path.join(options.output_dir, file),
        labelled_records.Labelling(
            problem_type=task.label_set.problem_type,
            num_outputs=task.label_set.num_outputs,
        ),
        {
            "max_seq_length": options.max_seq_length,
            "vocab_size": len(this.tokenizer.vocab),
            **this.text(),
        },
        {
            "data_sha256": path and paths.sha256(path),
            "layout": str(part.layout),
            "labels": str(task.label_set),
            "packing": str(packing),
        },
        examples,
    )
    # Training orders its batches itself.
    is_ordered = options.bucket_by_length and part is not task.train
    return data.by_length() if is_ordered else data


def _fine_tune(
    this: _Run, options: Options, train: Sequence[_Set], dev: Sequence[_Set]
) -> tuple[Any, Any, Mapping[str, float]]:
    """Trains and evaluates a trial: its objective, predictor and results."""
    from modeling import heads
    from training import (
        experiment,
        fine_tuning,
        prediction,
        reporting,
        runtime,
    )

    label_set = this.task.label_set
    other_head = _claim_folder(this, options)
    runtime.set_seed(options.random_seed)
    with this.strategy.scope():
        model = heads.BertForSequenceClassification(
            this.config, num_labels=label_set.num_outputs
        )
    logging.info("%s parameters", f"{model.count_params():,}")
    objective = fine_tuning.Classification(model, label_set.problem_type)
    predictor = prediction.Predictor(this.strategy, objective)

    def evaluate() -> dict[str, float]:
        results = _evaluate(this, predictor, dev[0].data)
        del results["loss"]
        return {k.removeprefix("eval_"): v for k, v in results.items()}

    if options.do_train:
        experiment.train(
            this.strategy,
            experiment.Training(
                objective=objective,
                name=f"{this.task.name}, {label_set.problem_type}",
                source=train[0].data.source,
                metric=this.task.metrics[0],
                evaluate=evaluate,
                head=fine_tuning.CLASSIFICATION_HEAD,
                encoder_only=other_head,
            ),
            options,
        )
    results = {}
    if options.do_eval or options.do_predict:
        step = experiment.load(this.strategy, objective, options)
    if options.do_eval:
        for each in dev:
            scores = _evaluate(this, predictor, each.data)
            results |= {f"{k}{each.suffix}": v for k, v in scores.items()}
        reporting.write_results(
            os.path.join(options.output_dir, "eval_results.txt"),
            {**results, "global_step": step},
        )
    return objective, predictor, results


def _claim_folder(this: _Run, options: Options) -> bool:
    """Puts beside the model what it takes to use it alone.

    Returns:
        Whether --init_checkpoint answers with other labels than this task.
    """
    from training import checkpointing, model_folder

    folder, label_set = options.output_dir, this.task.label_set
    if checkpointing.latest(folder) and saved_labels.differ(folder, label_set):
        raise ValueError(
            f"The model in {folder} has other labels ({custom.LABELS_FILE}) "
            f"than {this.task.name}. Choose another --output_dir."
        )
    model_folder.claim(
        folder,
        this.config.to_dict(),
        options.vocab_file,
        this.text(),
        options.init_checkpoint,
    )
    for place in {folder, this.options.output_dir}:
        saved_labels.save(place, label_set)
    if not options.init_checkpoint:
        return False
    origin = model_folder.of_checkpoint(options.init_checkpoint)
    return saved_labels.differ(origin, label_set)


def _outputs(predictor: Any, data: Any, batch_size: int) -> tuple[Any, Any]:
    """Returns the outputs `[E, K]` for a file, and losses `[R]` of records."""
    scores = predictor.predict(
        data.source, batch_size=batch_size, order=data.order
    )
    outputs = predictions.pool_windows(scores["outputs"], data.rows_per_example)
    return outputs, scores["losses"]


def _evaluate(this: _Run, predictor: Any, data: Any) -> dict[str, float]:
    """Scores a file with labels, as eval_results.txt holds it."""
    from training import prediction

    size, task = this.options.eval_batch_size, this.task
    outputs, losses = _outputs(predictor, data, size)
    metrics = predictions.evaluate(
        task.label_set, task.metrics, data.label_ids, outputs
    )
    return {
        # As released: one averages batches, the other examples.
        "loss": prediction.mean_of_batch_means(losses, size),
        "eval_loss": prediction.mean_of_batch_means(losses, len(losses)),
        **{f"eval_{name}": value for name, value in metrics.items()},
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
        baselines.constant_answer(
            this.task.label_set, metric, dev.data.label_ids
        ),
    )
    writing.write_json(
        os.path.join(this.options.output_dir, trials.SUMMARY_FILE), summary
    )
    logging.info("%s", trials.table(summary))
    return next(t for t in plan if t.name == summary["best_trial"])


def _predict(
    this: _Run, predictor: Any, test: Sequence[_Set], folder: str
) -> None:
    """Writes the answers for the test files into a folder."""
    collected = {}
    for each in test:
        outputs, _ = _outputs(
            predictor, each.data, this.options.predict_batch_size
        )
        files = result_files.result_files(
            this.task, each.part, each.suffix, outputs
        )
        for name, lines in files.items():
            with writing.whole_file(os.path.join(folder, name)) as file:
                file.writelines(lines)
        collected |= result_files.submitted(each.part, files)
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

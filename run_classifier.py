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
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from absl import app, flags, logging

from files import paths, writing
from tasks import (
    baselines,
    classification,
    predictions,
    result_files,
    sentence_flags,
    submission,
    text_files,
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
    """A file of the task, and its `labelled_records.LabelledRecords`."""

    file: text_files.TextFile
    data: Any


def run(options: Options) -> None:
    """Trains, evaluates and predicts as the options say.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints do not fit together.
    """
    from modeling import config as config_lib
    from training import experiment, trials

    tokenization.validate_case_matches_checkpoint(
        options.do_lower_case, options.init_checkpoint
    )
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, do_lower_case=options.do_lower_case
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]")
    config = config_lib.BertConfig.from_json_file(
        options.bert_config_file, paths.open_to_read
    )
    experiment.check_options(options, config, tokenizer.vocab_size)
    task = sentence_flags.find_task(
        options, options.output_dir, is_training=options.do_train
    )
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
    from training import labelled_records

    options, label_set, sets = this.options, this.task.label_set, []
    packing = sentence_flags.packing(options, options.max_seq_length)
    for file in text_files.find(this.task, parts, options.data_dir, packing):
        data = labelled_records.make_or_reuse(
            os.path.join(options.output_dir, f"{name}{file.suffix}.tf_record"),
            labelled_records.Labelling(
                problem_type=label_set.problem_type,
                num_outputs=label_set.num_outputs,
            ),
            {
                "max_seq_length": options.max_seq_length,
                "vocab_size": this.tokenizer.vocab_size,
                **this.text(),
            },
            file.origin(),
            functools.partial(
                file.records, this.tokenizer, with_labels=name != "predict"
            ),
        )
        # Training orders its batches itself.
        if options.bucket_by_length and name != "train":
            data = data.by_length()
        sets.append(_Set(file=file, data=data))
    return sets


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
            results |= {f"{k}{each.file.suffix}": v for k, v in scores.items()}
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
    from training import model_folder

    described = model_folder.Description(
        config=this.config.to_dict(),
        vocab_file=options.vocab_file,
        text=this.text(),
        labels=this.task.label_set.to_dict(),
    )
    for place in {options.output_dir, this.options.output_dir}:
        model_folder.claim(place, described)
    if not options.init_checkpoint:
        return False
    origin = model_folder.of_checkpoint(options.init_checkpoint)
    model_folder.check_text(origin, described.text)
    return model_folder.answers_differ(origin, described.labels)


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
            this.task, each.file.part, each.file.suffix, outputs
        )
        for name, lines in files.items():
            with writing.whole_file(os.path.join(folder, name)) as file:
                file.writelines(lines)
        collected |= result_files.submitted(each.file.part, files)
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

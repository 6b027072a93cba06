r"""Fine-tunes BERT to choose the right one of several endings: SWAG.

Example:

  python run_swag.py \
    --data_dir=/data/swag --output_dir=/data/swag_output \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt \
    --do_train --do_eval --do_predict

Other sets of questions with a fixed number of choices work by the names of
their columns: --first_column, --second_column, --ending_columns,
--label_column. Stop the program at any time and run the same command again: it
goes on where it stopped.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import app, flags, logging

from files import paths, writing
from tasks import baselines, predictions, sentence_pairs, swag
from training import fine_tuning_flags
from vocab import tokenization

_METRIC = "accuracy"
# Source: Devlin et al. 2019, section 4.4; the release has no such script.
_PAPER = {"train_batch_size": 16, "learning_rate": 2e-5}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(fine_tuning_flags.FineTuningOptions):
    """The flags of this script; see `define_flags` and --help."""

    data_dir: str
    train_file: str
    eval_file: str
    predict_file: str
    first_column: str
    second_column: str
    ending_columns: Sequence[str]
    label_column: str
    label_names: Sequence[str]


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags; common ones are as in the release's scripts."""
    fine_tuning_flags.define_flags(values)
    for name, value in _PAPER.items():
        values.set_default(name, value)
    flags.DEFINE_string(
        "data_dir", None, "Folder of the files.",
        required=True, flag_values=values)  # fmt: skip
    for name, default in (
        ("train_file", "train.csv"),
        ("eval_file", "val.csv"),
        ("predict_file", "test.csv"),
    ):
        flags.DEFINE_string(
            name, default,
            "In --data_dir: CSV or, by its name, .tsv or .jsonl.",
            flag_values=values)  # fmt: skip
    columns = swag.Layout()
    for name, default, text in (
        ("first_column", columns.first, "Column of the text before."),
        (
            "second_column",
            columns.second,
            "Column of what every ending follows; empty if there is none.",
        ),
        ("label_column", columns.label, "Column of the right ending."),
    ):
        flags.DEFINE_string(name, default, text, flag_values=values)
    flags.DEFINE_list(
        "ending_columns", list(columns.endings),
        "Columns of the choices, of which there may be any number.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_list(
        "label_names", [],
        "What the label column holds for each choice, in their order; 0, 1 "
        "and so on if not given.",
        flag_values=values)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Run:
    """What the trials of a run share.

    Attributes:
        options: the flags; `output_dir` holds the folders of several trials.
        config: the sizes of the model.
        tokenizer: of the vocabulary.
        layout: the columns of the files.
        strategy: where variables live.
    """

    options: Options
    config: Any
    tokenizer: tokenization.FullTokenizer
    layout: swag.Layout
    strategy: Any

    def text(self) -> dict[str, Any]:
        """Says how text is read, for the file beside the model."""
        from training import records

        return {
            "vocab_sha256": records.vocab_sha256(self.tokenizer.vocab),
            "do_lower_case": self.options.do_lower_case,
        }


def run(options: Options) -> None:
    """Trains, evaluates and predicts as the options say.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints do not fit together.
    """
    layout = swag.Layout(
        first=options.first_column,
        second=options.second_column,
        endings=tuple(options.ending_columns),
        label=options.label_column,
        label_names=tuple(options.label_names),
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
    experiment.check_options(options, config, tokenizer.vocab_size)
    this = _Run(
        options=options,
        config=config,
        tokenizer=tokenizer,
        layout=layout,
        strategy=experiment.prepare_devices(options),
    )
    held_out = options.do_eval or experiment.evaluates_while_training(options)
    train = _read(this, "train") if options.do_train else None
    dev = _read(this, "eval") if held_out else None
    test = _read(this, "predict") if options.do_predict else None

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
        best = _choose(this, plan, results, dev)
        own = dataclasses.replace(options, output_dir=best.folder)
        experiment.load(this.strategy, objective, own)
    if options.do_predict:
        _predict(this, predictor, test, best.folder)


def _read(this: _Run, name: str) -> Any:
    """Makes the records of a file, NAME.tf_record, unless they are there."""
    from training import multiple_choice

    options = this.options
    path = os.path.join(options.data_dir, getattr(options, f"{name}_file"))
    packing = sentence_pairs.Packing(max_seq_length=options.max_seq_length)

    def examples() -> Iterator[Mapping[str, Any]]:
        read = swag.read_examples(
            path, this.layout, with_labels=name != "predict"
        )
        return swag.to_records(read, packing, this.tokenizer)

    data = multiple_choice.make_or_reuse(
        os.path.join(options.output_dir, f"{name}.tf_record"),
        len(this.layout.endings),
        {
            "max_seq_length": options.max_seq_length,
            "vocab_size": this.tokenizer.vocab_size,
            **this.text(),
        },
        {"data_sha256": paths.sha256(path), "layout": str(this.layout)},
        examples,
    )
    # Training orders its batches itself.
    is_ordered = options.bucket_by_length and name != "train"
    return data.by_length() if is_ordered else data


def _fine_tune(
    this: _Run, options: Options, train: Any, dev: Any
) -> tuple[Any, Any, Mapping[str, float]]:
    """Trains and evaluates a trial: its objective, predictor and results."""
    from modeling import multiple_choice as model_lib
    from training import (
        experiment,
        multiple_choice,
        prediction,
        reporting,
        runtime,
    )

    _claim_folder(this, options)
    runtime.set_seed(options.random_seed)
    with this.strategy.scope():
        model = model_lib.BertForMultipleChoice(this.config)
    logging.info("%s parameters", f"{model.count_params():,}")
    objective = multiple_choice.MultipleChoice(model)
    predictor = prediction.Predictor(this.strategy, objective)

    def evaluate() -> dict[str, float]:
        results = _evaluate(this, predictor, dev)
        del results["loss"]
        return {k.removeprefix("eval_"): v for k, v in results.items()}

    if options.do_train:
        experiment.train(
            this.strategy,
            experiment.Training(
                objective=objective,
                name="multiple choice",
                source=train.source,
                metric=_METRIC,
                evaluate=evaluate,
                head=multiple_choice.HEAD,
            ),
            options,
        )
    results = {}
    if options.do_eval or options.do_predict:
        step = experiment.load(this.strategy, objective, options)
    if options.do_eval:
        results = _evaluate(this, predictor, dev)
        reporting.write_results(
            os.path.join(options.output_dir, "eval_results.txt"),
            {**results, "global_step": step},
        )
    return objective, predictor, results


def _claim_folder(this: _Run, options: Options) -> None:
    """Puts beside the model what it takes to use it alone."""
    from training import model_folder

    described = model_folder.Description(
        config=this.config.to_dict(),
        vocab_file=options.vocab_file,
        text=this.text(),
        # Not the names of the choices: the model scores any number of them.
        labels={"problem_type": "multiple_choice", "labels": []},
    )
    for place in {options.output_dir, this.options.output_dir}:
        model_folder.claim(place, described)
    if options.init_checkpoint:
        origin = model_folder.of_checkpoint(options.init_checkpoint)
        model_folder.check_text(origin, described.text)


def _evaluate(this: _Run, predictor: Any, data: Any) -> dict[str, float]:
    """Scores a file with labels, as eval_results.txt holds it."""
    from training import prediction

    size = this.options.eval_batch_size
    scores = predictor.predict(data.source, batch_size=size, order=data.order)
    losses = scores["losses"]
    metrics = predictions.evaluate(
        this.layout.label_set(), [_METRIC], data.label_ids, scores["outputs"]
    )
    return {
        # As in the release: one averages batches, the other examples.
        "loss": prediction.mean_of_batch_means(losses, size),
        "eval_loss": prediction.mean_of_batch_means(losses, len(losses)),
        **{f"eval_{name}": value for name, value in metrics.items()},
    }


def _choose(
    this: _Run, plan: Sequence[Any], results: Sequence[Any], dev: Any
) -> Any:
    """Writes what several trials came to; returns the best of them."""
    from training import trials

    baseline = baselines.constant_answer(
        this.layout.label_set(), _METRIC, dev.label_ids
    )
    summary = trials.summarize(plan, results, f"eval_{_METRIC}", baseline)
    writing.write_json(
        os.path.join(this.options.output_dir, trials.SUMMARY_FILE), summary
    )
    logging.info("%s", trials.table(summary))
    return next(t for t in plan if t.name == summary["best_trial"])


def _predict(this: _Run, predictor: Any, test: Any, folder: str) -> None:
    """Writes the answers for the test file into a folder."""
    outputs = predictor.predict(
        test.source,
        batch_size=this.options.predict_batch_size,
        order=test.order,
    )["outputs"]
    for name, lines in (
        ("test_results.tsv", predictions.result_lines(outputs)),
        (
            "predictions.csv",
            swag.prediction_lines(this.layout.label_set(), outputs),
        ),
    ):
        with writing.whole_file(os.path.join(folder, name)) as file:
            file.writelines(lines)


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.INFO)
    run(fine_tuning_flags.read_options(Options, flags.FLAGS))


if __name__ == "__main__":
    define_flags()
    fine_tuning_flags.adopt()
    app.run(main)

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
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from commands import flags, program
from files import paths
from tasks import swag
from tasks.classification import predictions, sentence_pairs
from training import flags as training_flags
from training import option_checks, run_card, trials
from vocab import tokenization

_METRIC = "accuracy"
_LAYOUT = swag.Layout()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Files:
    """Which files are read, and what is in their columns."""

    data_dir: str = flags.required("Folder of the files.", flags.Group.FILES)
    train_file: str = flags.flag(
        "train.csv",
        "To train on, in --data_dir: CSV or, by its name, .tsv or .jsonl.",
        flags.Group.FILES,
    )
    eval_file: str = flags.flag(
        "val.csv",
        "To evaluate on, in --data_dir: CSV or, by its name, .tsv or .jsonl.",
        flags.Group.FILES,
    )
    predict_file: str = flags.flag(
        "test.csv",
        "To predict, in --data_dir: CSV or, by its name, .tsv or .jsonl.",
        flags.Group.FILES,
    )
    first_column: str = flags.flag(
        _LAYOUT.first, "Column of the text before.", flags.Group.COLUMNS
    )
    second_column: str = flags.flag(
        _LAYOUT.second,
        "Column of what every ending follows; empty if there is none.",
        flags.Group.COLUMNS,
    )
    label_column: str = flags.flag(
        _LAYOUT.label, "Column of the right ending.", flags.Group.COLUMNS
    )
    ending_columns: tuple[str, ...] = flags.flag(
        _LAYOUT.endings,
        "Columns of the choices, of which there may be any number.",
        flags.Group.COLUMNS,
    )
    label_names: tuple[str, ...] = flags.flag(
        (),
        "What the label column holds for each choice, in their order; 0, 1 "
        "and so on if not given.",
        flags.Group.COLUMNS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_flags.SequenceOptions, _Files):
    """The flags of this script; see --help.

    Source: Devlin et al. 2019, section 4.4; the release has no such script.
    """

    train_batch_size: int = flags.redeclare(
        training_flags.SequenceOptions, "train_batch_size", 16
    )
    learning_rate: float = flags.redeclare(
        training_flags.SequenceOptions, "learning_rate", 2e-5
    )


def run(options: Options) -> None:
    """Trains, evaluates and predicts as the options say.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints do not fit together.
    """
    options = trials.with_best_trial(options)
    layout = swag.Layout(
        first=options.first_column,
        second=options.second_column,
        endings=tuple(options.ending_columns),
        label=options.label_column,
        label_names=tuple(options.label_names),
    )
    tokenizer = tokenization.open_tokenizer(options, "[UNK]", "[CLS]", "[SEP]")
    config = option_checks.check_task(options, tokenizer.vocab_size)
    needed = _needed(options)
    option_checks.check_weights(options)
    from training import labelled_runs, preparation

    setup = preparation.prepare(options, tokenizer, config)
    read = functools.partial(_read, setup, layout, tokenizer)
    train = read("train") if "train" in needed else None
    held_out = {"": read("eval")} if "eval" in needed else {}
    test = read("predict") if "predict" in needed else None

    problem = _problem(setup, layout)
    data = labelled_runs.Data(train=train, held_out=held_out)
    best = labelled_runs.run(setup, problem, data)
    if options.do_predict:
        outputs, _ = labelled_runs.answer(
            best, problem, test, options.predict_batch_size
        )
        best.write_files(
            {
                "test_results.tsv": predictions.result_lines(outputs),
                "predictions.csv": swag.prediction_lines(
                    layout.label_set(), outputs
                ),
            }
        )


def _needed(options: Options) -> list[str]:
    """Names the files that the options ask for.

    Raises:
        FileNotFoundError: one of them is missing.
    """
    wanted = {
        "train": options.do_train,
        "eval": option_checks.needs_held_out(options),
        "predict": options.do_predict,
    }
    needed = [name for name, is_wanted in wanted.items() if is_wanted]
    for name in needed:
        if not paths.exists(path := _path(options, name)):
            raise FileNotFoundError(
                f"There is no {path}. Pass --data_dir, and --{name}_file if "
                "the file has another name there."
            )
    return needed


def _path(options: Options, name: str) -> str:
    return os.path.join(options.data_dir, getattr(options, f"{name}_file"))


def _read(
    setup: Any,
    layout: swag.Layout,
    tokenizer: tokenization.FullTokenizer,
    name: str,
) -> Any:
    """Makes the records of a file, NAME.tf_record, unless they are there."""
    from training import labelled_records

    options = setup.options
    path = _path(options, name)
    packing = sentence_pairs.Packing(max_seq_length=options.max_seq_length)

    def examples() -> Iterator[list[Mapping[str, Any]]]:
        read = swag.read_examples(path, layout, with_labels=name != "predict")
        for record in swag.to_records(read, packing, tokenizer):
            yield [record]

    return labelled_records.make_or_reuse(
        setup.record_path(name),
        labelled_records.choice_features(
            options.max_seq_length, len(layout.endings)
        ),
        setup.metadata(
            "multiple choice",
            {"data_sha256": paths.sha256(path), "layout": str(layout)},
        ),
        examples,
    )


def _problem(setup: Any, layout: swag.Layout) -> Any:
    """Says what is learnt: a `labelled_runs.Problem`."""
    from modeling import heads
    from training import labelled_runs, objectives

    label_set = layout.label_set()

    def make_objective() -> objectives.Classification:
        model = heads.BertForMultipleChoice(setup.config)
        return objectives.Classification(model, label_set.problem_type)

    return labelled_runs.Problem(
        name="multiple choice",
        make_objective=make_objective,
        head=objectives.CHOICE_HEAD,
        # Not the names of the choices: the model scores any number of them.
        labels={"problem_type": swag.PROBLEM_TYPE, "labels": []},
        metric=_METRIC,
        pool=predictions.pool_windows,
        score=functools.partial(predictions.evaluate, label_set, [_METRIC]),
        constant_answer=functools.partial(
            predictions.constant_answer, label_set, _METRIC
        ),
    )


def main(options: Options) -> None:
    """Runs the script with its flags."""
    run_card.record(run, options)


if __name__ == "__main__":
    program.start(Options, main)

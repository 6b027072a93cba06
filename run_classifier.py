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
from collections.abc import Sequence
from typing import Any

from commands import program
from tasks.classification import (
    datasets,
    labels,
    predictions,
    sentence_flags,
    submission,
)
from training import flags as training_flags
from training import (
    option_checks,
    run_card,
    trials,
)
from vocab import tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_flags.AblationOptions,
    training_flags.SequenceOptions,
    sentence_flags.SentenceOptions,
):
    """The flags of this script; see --help."""


def run(options: Options) -> None:
    """Trains, evaluates and predicts as the options say.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints do not fit together.
    """
    options = trials.with_best_trial(options)
    tokenizer = tokenization.open_tokenizer(options, "[UNK]", "[CLS]", "[SEP]")
    config = option_checks.check_task(options, tokenizer.vocab_size)
    task = sentence_flags.find_task(
        options, options.output_dir, is_training=options.do_train
    )
    files = _find_files(options, task)
    option_checks.check_weights(options)
    from training import labelled_runs, preparation

    setup = preparation.prepare(options, tokenizer, config)
    read = functools.partial(_read, setup, tokenizer)
    train, dev, test = (
        read(name, files.get(name, ())) for name in ("train", "eval", "predict")
    )

    problem = _problem(setup, task)
    data = labelled_runs.Data(
        train=train[0].records if train else None,
        held_out={each.file.suffix: each.records for each in dev},
    )
    best = labelled_runs.run(setup, problem, data)
    if options.do_predict:
        _predict(task, problem, best, test)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Set:
    """A file of the task, and its `labelled_records.LabelledRecords`."""

    file: datasets.TextFile
    records: Any


def _find_files(
    options: Options, task: datasets.Task
) -> dict[str, list[datasets.TextFile]]:
    """Finds the files that the options ask for.

    Raises:
        FileNotFoundError: one of them is missing.
    """
    packing = sentence_flags.packing(options, options.max_seq_length)
    needed = {
        "train": [task.train] if options.do_train else [],
        "eval": task.dev if option_checks.needs_held_out(options) else [],
        "predict": task.test if options.do_predict else [],
    }
    return {
        name: datasets.find_files(task, parts, options.data_dir, packing)
        for name, parts in needed.items()
        if parts
    }


def _read(
    setup: Any,
    tokenizer: tokenization.FullTokenizer,
    name: str,
    files: Sequence[datasets.TextFile],
) -> list[_Set]:
    """Makes the records of files, NAME.tf_record, unless they are there."""
    from training import labelled_records

    def features(label_set: labels.LabelSet) -> Any:
        return labelled_records.text_features(
            setup.options.max_seq_length,
            label_set.problem_type,
            label_set.num_outputs,
        )

    return [
        _Set(
            file=file,
            records=labelled_records.make_or_reuse(
                setup.record_path(name + file.suffix),
                features(file.task.label_set),
                setup.metadata("classification", file.origin()),
                functools.partial(
                    file.records, tokenizer, with_labels=name != "predict"
                ),
                has_several_labels=(
                    file.task.label_set.problem_type == labels.MULTI_LABEL
                ),
            ),
        )
        for file in files
    ]


def _problem(setup: Any, task: datasets.Task) -> Any:
    """Says what is learnt: a `labelled_runs.Problem`."""
    from training import ablations, labelled_runs, objectives

    label_set, metric = task.label_set, task.metrics[0]

    def make_objective() -> objectives.Classification:
        model = ablations.sequence_classification(
            setup.config, setup.options, label_set.num_outputs
        )
        return objectives.Classification(model, label_set.problem_type)

    return labelled_runs.Problem(
        name=f"{task.name}, {label_set.problem_type}",
        make_objective=make_objective,
        head=ablations.HEAD,
        labels=label_set.to_dict(),
        metric=metric,
        pool=predictions.pool_windows,
        score=functools.partial(predictions.evaluate, label_set, task.metrics),
        constant_answer=functools.partial(
            predictions.constant_answer, label_set, metric
        ),
    )


def _predict(
    task: datasets.Task, problem: Any, learner: Any, test: Sequence[_Set]
) -> None:
    """Writes the answers for the test files."""
    from training import labelled_runs

    options, collected = learner.options, {}
    for each in test:
        outputs, _ = labelled_runs.answer(
            learner, problem, each.records, options.predict_batch_size
        )
        files = predictions.result_files(
            task, each.file.part, each.file.suffix, outputs
        )
        learner.write_files(files)
        collected |= predictions.submitted(each.file.part, files)
    if options.write_submission and learner.is_chief:
        submission.add_to_zip(options.write_submission, collected)


def main(options: Options) -> None:
    """Runs the script with its flags."""
    run_card.record(run, options)


if __name__ == "__main__":
    program.start(Options, main)

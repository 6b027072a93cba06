"""Options of sentence classification: the task, its files, long texts."""

import dataclasses
import os

from commands import flags
from files import destinations
from tasks.classification import (
    custom,
    datasets,
    glue,
    sentence_pairs,
    submission,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions(custom.DataOptions):
    """Which task a sentence classifier learns, and from which files."""

    task_name: str = flags.required(
        f"{', '.join(glue.TASKS)}, XNLI or custom.", flags.Group.FILES
    )
    data_dir: str = flags.required(
        "Folder of the task's files.", flags.Group.FILES
    )
    write_submission: str | None = flags.flag(
        None,
        "GLUE: a zip that the test set's answers are added to, for the "
        "server of GLUE.",
        flags.Group.FILES,
    )
    xnli_language: str = flags.flag(
        "zh", "The language.", flags.Group.XNLI, choices=glue.XNLI_LANGUAGES
    )
    xnli_mode: str = flags.flag(
        glue.TRANSLATE_TRAIN,
        "Train on the translation into the language; or on English and test "
        "on the translation into English; or on the language.",
        flags.Group.XNLI,
        choices=glue.XNLI_MODES,
    )
    long_text: str = flags.flag(
        sentence_pairs.HEAD,
        "What is read of text that is too long: its head, as released; head "
        "and tail; or all of it, in windows whose answers are averaged.",
        flags.Group.TEXT,
        choices=sentence_pairs.LONG_TEXT,
    )
    window_stride: int | None = flags.flag(
        None,
        "--long_text=windows: tokens from window to window; half of one if "
        "not given.",
        flags.Group.TEXT,
        lower_bound=1,
    )


def find_task(
    options: SentenceOptions, output_dir: str, *, is_training: bool
) -> datasets.Task:
    """Finds the task that the flags mean.

    Args:
        options: the flags.
        output_dir: the run's folder, which may hold the labels of a model.
        is_training: whether the model is (further) trained now.

    Raises:
        OSError: a file of the user's own data is missing.
        ValueError: there is no such task, or the user's own data are not as
            the flags say.
    """
    if datasets.key(options.task_name) == custom.NAME:
        saved = os.path.join(output_dir, custom.LABELS_FILE)
        label_set = custom.find_labels(
            options, options.data_dir, saved, is_training=is_training
        )
        task = custom.make_task(options, options.data_dir, label_set)
    else:
        task = _known_task(options)
    if options.write_submission and not any(p.submission for p in task.test):
        raise ValueError(
            "--write_submission is for the tasks of GLUE "
            f"({', '.join(glue.TASKS)}); got {task.name}."
        )
    _check_outputs(options, task, output_dir)
    return task


def _check_outputs(
    options: SentenceOptions, task: datasets.Task, output_dir: str
) -> None:
    """Checks the files of answers whose names could be those of data."""
    found = [
        datasets.find_file(options.data_dir, task.name, part.files)
        for part in (task.train, *task.dev, *task.test)
    ]
    answers = [
        os.path.join(output_dir, f"{part.submission}.tsv")
        for part in task.test
        if part.submission
    ]
    destinations.check_files(answers, filter(None, found))
    if options.write_submission:
        submission.check_zip(options.write_submission)


def _known_task(options: SentenceOptions) -> datasets.Task:
    task = glue.find_task(
        options.task_name, options.xnli_language, options.xnli_mode
    )
    if options.text_a_column or options.label_column:
        raise ValueError(
            f"The columns of {task.name} are known; --text_a_column and "
            "--label_column are for --task_name=custom."
        )
    return task


def packing(
    options: SentenceOptions, max_seq_length: int
) -> sentence_pairs.Packing:
    """Says how texts are fitted into `max_seq_length` places.

    Raises:
        ValueError: there is a stride, but no windows.
    """
    if options.window_stride and options.long_text != sentence_pairs.WINDOWS:
        raise ValueError(
            "--window_stride is for --long_text=windows; got --long_text="
            f"{options.long_text}."
        )
    return sentence_pairs.Packing(
        max_seq_length=max_seq_length,
        long_text=options.long_text,
        window_stride=options.window_stride,
    )

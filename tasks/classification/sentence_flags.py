"""Options of sentence classification: the data set, its files, long texts."""

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

    task_name: str = flags.Group.FILES.required(
        f"{', '.join(glue.DATASETS)}, XNLI or custom."
    )
    data_dir: str = flags.Group.FILES.required("Folder of the task's files.")
    write_submission: str | None = flags.Group.FILES.flag(
        None,
        "GLUE: a zip that the test set's answers are added to, for the "
        "server of GLUE.",
    )
    xnli_language: str = flags.Group.XNLI.flag(
        "zh", "The language.", choices=glue.XNLI_LANGUAGES
    )
    xnli_mode: str = flags.Group.XNLI.flag(
        glue.TRANSLATE_TRAIN,
        "Train on the translation into the language; or on English and test "
        "on the translation into English; or on the language.",
        choices=glue.XNLI_MODES,
    )
    long_text: str = flags.Group.TEXT.flag(
        sentence_pairs.HEAD,
        "What is read of text that is too long: its head, as released; head "
        "and tail; or all of it, in windows whose answers are averaged.",
        choices=sentence_pairs.LONG_TEXT,
    )
    window_stride: int | None = flags.Group.TEXT.flag(
        None,
        "--long_text=windows: tokens from window to window; half of one if "
        "not given.",
        lower_bound=1,
    )


def find_dataset(
    options: SentenceOptions, output_dir: str, *, is_training: bool
) -> datasets.DatasetInfo:
    """Finds the data set that the flags mean.

    Args:
        options: the flags.
        output_dir: the run's folder, which may hold the labels of a model.
        is_training: whether the model is (further) trained now.

    Raises:
        OSError: a file of the user's own data is missing.
        ValueError: there is no such data set, or the user's own data are not as
            the flags say.
    """
    if datasets.key(options.task_name) == custom.NAME:
        saved = os.path.join(output_dir, custom.LABELS_FILE)
        label_set = custom.find_labels(
            options, options.data_dir, saved, is_training=is_training
        )
        info = custom.dataset_info(options, options.data_dir, label_set)
    else:
        info = glue.find_dataset(
            options.task_name, options.xnli_language, options.xnli_mode
        )
        if options.text_a_column or options.label_column:
            raise ValueError(
                f"The columns of {info.name} are known; --text_a_column and "
                "--label_column are for --task_name=custom."
            )
    if options.write_submission and not any(p.submission for p in info.test):
        raise ValueError(
            "--write_submission is for the tasks of GLUE "
            f"({', '.join(glue.DATASETS)}); got {info.name}."
        )
    _check_outputs(options, info, output_dir)
    return info


def _check_outputs(
    options: SentenceOptions, info: datasets.DatasetInfo, output_dir: str
) -> None:
    """Checks the files of answers whose names could be those of data."""
    found = [
        datasets.find_file(options.data_dir, info.name, split.files)
        for split in (info.train, *info.dev, *info.test)
    ]
    answers = [
        os.path.join(output_dir, f"{split.submission}.tsv")
        for split in info.test
        if split.submission
    ]
    destinations.check_files(answers, filter(None, found))
    if options.write_submission:
        submission.check_zip(options.write_submission)


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
    return flags.narrow(
        sentence_pairs.Packing, options, max_seq_length=max_seq_length
    )

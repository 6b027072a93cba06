"""Which sentences a run is about: its flags and the task they mean."""

import dataclasses
import os

from absl import flags

from commands import flag_groups
from tasks.classification import (
    classification,
    custom,
    glue,
    labels,
    sentence_pairs,
)

_Group = flag_groups.Group


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions:
    """What the flags below hold; see them and --help."""

    task_name: str
    data_dir: str
    xnli_language: str
    xnli_mode: str
    text_a_column: str
    text_b_column: str
    label_column: str
    label_names: tuple[str, ...]
    label_separator: str
    has_header: bool | None
    problem_type: str
    long_text: str
    window_stride: int | None
    write_submission: str | None


def define_flags(values: flags.FlagValues) -> None:
    """Defines all flags of `SentenceOptions`.

    Names and defaults are the release's where it has the flag.
    """
    _define_task_flags(values)
    _define_xnli_flags(values)
    _define_custom_flags(values)
    _define_long_text_flags(values)


@flag_groups.under(_Group.TEXT)
def _define_long_text_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_enum(
        "long_text",
        sentence_pairs.HEAD,
        sentence_pairs.LONG_TEXT,
        "What is read of text that is too long: its head, as released; head "
        "and tail; or all of it, in windows whose answers are averaged.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "window_stride",
        None,
        "--long_text=windows: tokens from window to window; half of one if "
        "not given.",
        lower_bound=1,
        flag_values=values,
    )


@flag_groups.under(_Group.FILES)
def _define_task_flags(values: flags.FlagValues) -> None:
    for name, meaning in (
        ("task_name", f"{', '.join(glue.TASKS)}, XNLI or custom."),
        ("data_dir", "Folder of the task's files."),
    ):
        flags.DEFINE_string(
            name, None, meaning, required=True, flag_values=values
        )
    flags.DEFINE_string(
        "write_submission",
        None,
        "GLUE: a zip that the test set's answers are added to, for the "
        "server of GLUE.",
        flag_values=values,
    )


@flag_groups.under(_Group.XNLI)
def _define_xnli_flags(values: flags.FlagValues) -> None:
    for name, default, choices, meaning in (
        ("xnli_language", "zh", glue.XNLI_LANGUAGES, "The language."),
        (
            "xnli_mode",
            glue.TRANSLATE_TRAIN,
            glue.XNLI_MODES,
            "Train on the translation into the language; or on English "
            "and test on the translation into English; or on the language.",
        ),
    ):
        flags.DEFINE_enum(name, default, choices, meaning, flag_values=values)


@flag_groups.under(_Group.OWN_DATA)
def _define_custom_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_enum(
        "problem_type",
        labels.SINGLE_LABEL,
        labels.PROBLEM_TYPES,
        "One label a row, any number of them, or a score.",
        flag_values=values,
    )
    for name, default, meaning in (
        ("text_a_column", "", "Name, or number from 0, of the text."),
        ("text_b_column", "", "That of a second text, if there is one."),
        ("label_column", "", "That of the label."),
        ("label_separator", ",", "What parts several labels in a cell."),
    ):
        flags.DEFINE_string(name, default, meaning, flag_values=values)
    flags.DEFINE_list(
        "label_names",
        [],
        "The labels, separated by commas; if not given, those of the "
        "training file.",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "has_header",
        None,
        "Whether TSV and CSV begin with the names of the columns; if "
        "not given, they do where a column is given by name.",
        flag_values=values,
    )


def find_task(
    options: SentenceOptions, output_dir: str, *, is_training: bool
) -> classification.Task:
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
    if classification.key(options.task_name) == custom.NAME:
        data = custom.Data(
            data_dir=options.data_dir,
            text_a_column=options.text_a_column,
            text_b_column=options.text_b_column,
            label_column=options.label_column,
            problem_type=options.problem_type,
            label_names=tuple(options.label_names),
            label_separator=options.label_separator,
            has_header=options.has_header,
        )
        saved = os.path.join(output_dir, custom.LABELS_FILE)
        label_set = custom.find_labels(data, saved, is_training=is_training)
        task = custom.make_task(data, label_set)
    else:
        task = _known_task(options)
    if options.write_submission and not any(p.submission for p in task.test):
        raise ValueError(
            "--write_submission is for the tasks of GLUE "
            f"({', '.join(glue.TASKS)}); got {task.name}."
        )
    return task


def _known_task(options: SentenceOptions) -> classification.Task:
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

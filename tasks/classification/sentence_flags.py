"""Options of sentence classification: the data set, its files, long texts."""

import dataclasses
import re

from commands import flags
from tasks import tables, task
from tasks.classification import datasets, glue, labels, metrics, sentence_pairs

_OWN_DATA = flags.Heading("Your own data (--task_name=custom)")
_XNLI = flags.Heading("XNLI")
CUSTOM = "custom"  # Name of the task of the user's own files.

_METRICS = {
    task.SINGLE_LABEL: (metrics.ACCURACY, metrics.MACRO_F1),
    task.MULTI_LABEL: (
        metrics.AVERAGE_PRECISION,
        metrics.MICRO_F1,
        metrics.MACRO_F1,
        metrics.EXACT_MATCH,
    ),
    task.REGRESSION: (
        metrics.PEARSON,
        metrics.SPEARMAN,
        metrics.MEAN_ABSOLUTE_ERROR,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions:
    """Task and data of a sentence classifier.

    The user's own files are in one of three formats: a folder contains train,
    dev and test, each ending in .tsv, .csv or .jsonl. Columns are names or
    numbers: 0 is the first, -1 the last. TSV and CSV files begin with column
    names if a column is given by name.
    """

    problem_type: str | None = _OWN_DATA.optional(
        "single_label: one label per row; multi_label: any number of labels; "
        "regression: a score. Default: that of the trained model; single_label "
        "for training.",
        choices=task.PROBLEM_TYPES,
    )
    text_a_column: str = _OWN_DATA.flag(
        "", "Column of the text: name, or number from 0."
    )
    text_b_column: str = _OWN_DATA.flag(
        "", "Column of the second text, if any."
    )
    label_column: str = _OWN_DATA.flag("", "Column of the label.")
    label_names: tuple[str, ...] = _OWN_DATA.flag(
        (),
        "The labels, separated by commas; by default those of the "
        "training file.",
    )
    task_name: str = flags.Group.FILES.required(
        f"{', '.join(glue.DATASETS)} or custom."
    )
    data_dir: flags.Path = flags.Group.FILES.required(
        "Folder of the task's files."
    )
    xnli_language: str = _XNLI.flag(
        "zh", "The language.", choices=glue.XNLI_LANGUAGES
    )
    xnli_mode: str = _XNLI.flag(
        glue.TRANSLATE_TRAIN,
        "translate_train: train on the translation into the language, test on "
        "the language; translate_test: train on English, test on the "
        "translation into English; zero_shot: train on English, test on the "
        "language.",
        choices=glue.XNLI_MODES,
    )
    long_text: str = flags.Group.TEXT.flag(
        sentence_pairs.HEAD,
        "Treatment of text that is too long. head: keep its beginning, as "
        "released; head_tail: keep both ends; windows: read all of it in "
        "windows that overlap by half, and average their predictions.",
        choices=sentence_pairs.LONG_TEXT,
    )
    class_weights: tuple[str, ...] = flags.Group.TRAINING.flag(
        (),
        "Label weights in the loss: one number per label, in the order of "
        "task.json, or `balanced`, which gives all labels the same total "
        "weight.",
    )
    dev_fraction: float = flags.Group.FILES.flag(
        0.0,
        "Fraction of the training file to hold out as the dev set, stratified "
        "by label; 0 for none.",
        lower_bound=0.0,
        upper_bound=0.9,
    )

    @property
    def layout(self) -> datasets.Layout:
        """The columns of the files.

        Raises:
            ValueError: there is no text column.
        """
        text_a, text_b, label = (
            int(text) if re.fullmatch(r"-?[0-9]+", text) else text or None
            for text in (
                self.text_a_column,
                self.text_b_column,
                self.label_column,
            )
        )
        if text_a is None:
            raise ValueError(
                "--text_a_column must name the column of the text (or give "
                "its number, from 0); got none."
            )
        return datasets.Layout(
            text_a=text_a,
            text_b=text_b,
            label=label,
            has_header=any(isinstance(x, str) for x in (text_a, text_b, label)),
            # A stray separator would silently shift the columns.
            same_width=True,
        )


def find_dataset(
    options: SentenceOptions, known: labels.LabelSet | None
) -> datasets.DatasetInfo:
    """Returns the data set given by the flags.

    Args:
        options: the flags.
        known: the labels of the trained model, if it is not trained further.

    Raises:
        OSError: a file of the user's own data is missing.
        ValueError: there is no such data set, or the user's own data do not
            match the flags.
    """
    if options.task_name.lower() == CUSTOM:
        info = _custom_dataset(options, known)
    else:
        info = glue.find_dataset(options.task_name, others=(CUSTOM,))
    if info.name == glue.XNLI:
        info = glue.xnli(options.xnli_language, options.xnli_mode)
    has_names = bool(options.label_names)
    if known and not has_names and {*known.names} == {*info.label_set.names}:
        in_order = dataclasses.replace(info.label_set, names=known.names)
        info = dataclasses.replace(info, label_set=in_order)
    return info


def _custom_dataset(
    options: SentenceOptions, known: labels.LabelSet | None
) -> datasets.DatasetInfo:
    """Returns the user's files as a data set.

    Its labels are given, else known, else those of the training file.
    """
    train = _custom_split(options, "train")
    names, problem_type = options.label_names, options.problem_type
    if known:
        names = names or known.names
        problem_type = problem_type or known.problem_type
    problem_type = problem_type or task.SINGLE_LABEL
    if names or problem_type == task.REGRESSION:
        label_set = labels.LabelSet(problem_type=problem_type, names=names)
    else:
        path = datasets.find_file(options.data_dir, CUSTOM, train.files)
        if path is None:
            raise FileNotFoundError(
                f"No {' or '.join(train.files)} in {options.data_dir!r} to "
                "take the labels from. Pass --label_names."
            )
        label_set = datasets.discover_labels(path, train.layout, problem_type)
    return datasets.DatasetInfo(
        name=CUSTOM,
        label_set=label_set,
        metrics=_METRICS[problem_type],
        splits={
            task.TRAIN: (train,),
            task.EVAL: (_custom_split(options, "dev"),),
            task.PREDICT: (_custom_split(options, "test"),),
        },
    )


def _custom_split(options: SentenceOptions, name: str) -> datasets.SplitInfo:
    names = tuple(name + ending for ending in tables.ENDINGS)
    found = tuple(
        file
        for file in names
        if datasets.find_file(options.data_dir, CUSTOM, (file,))
    )
    if len(found) > 1:
        raise ValueError(
            f"Expected one file for {name!r} in {options.data_dir!r}; got "
            f"{', '.join(found)}."
        )
    # A missing file is reported when it is used.
    return datasets.SplitInfo(files=found or names, layout=options.layout)

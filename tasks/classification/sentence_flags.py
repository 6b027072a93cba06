"""Options of sentence classification: the data set, its files, long texts."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from commands import flags
from files import messages, paths, run_files, writing
from tasks import tables, task
from tasks.classification import datasets, glue, labels, metrics, sentence_pairs

_OWN_DATA = flags.Heading("Your own data (--task_name=custom)")
_XNLI = flags.Heading("XNLI")
CUSTOM = "custom"  # Name of the task of the user's own files.

_METRICS = {
    task.SINGLE_LABEL: (metrics.ACCURACY, metrics.MACRO_F1),
    task.MULTI_LABEL: (
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
    numbers: 0 is the first, -1 the last.
    """

    problem_type: str | None = _OWN_DATA.optional(
        "One label per row, any number of labels, or a score; by default that "
        "of the trained model, or single_label to train.",
        choices=task.PROBLEM_TYPES,
    )
    text_a_column: str = _OWN_DATA.flag(
        "", "Column of the text: name, or number from 0."
    )
    text_b_column: str = _OWN_DATA.flag(
        "", "Column of the second text, if any."
    )
    label_column: str = _OWN_DATA.flag("", "Column of the label.")
    label_separator: str = _OWN_DATA.flag(
        ",", "Separator of several labels in a cell."
    )
    label_names: tuple[str, ...] = _OWN_DATA.flag(
        (),
        "The labels, separated by commas; by default those of the "
        "training file.",
    )
    has_header: bool | None = _OWN_DATA.optional(
        "Whether TSV and CSV files begin with column names; by default true if "
        "a column is given by name."
    )
    task_name: str = flags.Group.FILES.required(
        f"{', '.join(glue.DATASETS)}, XNLI or custom."
    )
    data_dir: str = flags.Group.FILES.required("Folder of the task's files.")
    write_submission: str | None = flags.Group.FILES.optional(
        "GLUE: zip file for the GLUE server to which the predictions for the "
        "test set are added."
    )
    xnli_language: str = _XNLI.flag(
        "zh", "The language.", choices=glue.XNLI_LANGUAGES
    )
    xnli_mode: str = _XNLI.flag(
        glue.TRANSLATE_TRAIN,
        "Train on the translation into the language; or train on English, and "
        "test on the translation into English or on the language.",
        choices=glue.XNLI_MODES,
    )
    long_text: str = flags.Group.TEXT.flag(
        sentence_pairs.HEAD,
        "Treatment of text that is too long: read its head, as released; head "
        "and tail; or all of it, in windows whose predictions are averaged.",
        choices=sentence_pairs.LONG_TEXT,
    )
    window_stride: int | None = flags.Group.TEXT.optional(
        "--long_text=windows: tokens between starts of windows; by default "
        "half a window.",
        lower_bound=1,
    )
    class_weights: tuple[str, ...] = flags.Group.TRAINING.flag(
        (),
        "Label weights in the loss: one number per label, in the order of "
        "labels.json, or `balanced`, which gives all labels the same total "
        "weight.",
    )
    tune_thresholds: bool = flags.Group.EVALUATION.switch(
        "--problem_type=multi_label: tune the probability threshold of each "
        "label for the highest F1 on the dev file, and save it with the model; "
        "otherwise 0.5."
    )
    dev_fraction: float = flags.Group.FILES.flag(
        0.0,
        "Fraction of the training file to hold out as the dev set, stratified "
        "by label; 0 for none.",
        lower_bound=0.0,
        upper_bound=0.9,
    )
    split_seed: int = flags.Group.FILES.whole(
        12345,
        "Seed of --dev_fraction and --num_folds, independent of --random_seed.",
    )
    num_folds: int = flags.Group.TRIALS.whole(
        0,
        "Folds of a cross-validation on the training file: each run evaluates "
        "on one and trains on the others; 0 for no cross-validation.",
    )

    @property
    def splits_training_file(self) -> bool:
        """Whether held-out examples are taken from the training file."""
        return bool(self.dev_fraction or self.num_folds)

    def check_columns(self) -> None:
        """Checks the column options.

        Raises:
            ValueError: there is no text column, or a name without a header.
        """
        if not self.text_a_column:
            raise ValueError(
                "--text_a_column must name the column of the text (or give "
                "its number, from 0); got none."
            )
        if self.has_header is False and self._has_names():
            raise ValueError(
                "Columns given by name need a header; without one, give "
                "numbers, from 0."
            )

    def layout(self, file_format: str) -> datasets.Layout:
        """Returns the columns of a file.

        Args:
            file_format: one of `tables.FORMATS`.
        """
        has_header = self.has_header
        return datasets.Layout(
            text_a=_column(self.text_a_column),
            text_b=_column(self.text_b_column) if self.text_b_column else None,
            label=_column(self.label_column) if self.label_column else None,
            file_format=file_format,
            has_header=self._has_names() if has_header is None else has_header,
            # A stray separator would silently shift the columns.
            same_width=True,
        )

    def _has_names(self) -> bool:
        given = (self.text_a_column, self.text_b_column, self.label_column)
        return any(isinstance(_column(text), str) for text in given if text)


def find_dataset(
    options: SentenceOptions,
    output_dir: str,
    *,
    is_training: bool,
    read_beside: Callable[[], Mapping[str, Any] | None],
) -> datasets.DatasetInfo:
    """Returns the data set given by the flags.

    Args:
        options: the flags.
        output_dir: the run's folder, which may contain the labels of a model.
        is_training: whether the model is trained in this run.
        read_beside: reads the labels beside the initial checkpoint, in the
            form of `labels.json`.

    Raises:
        OSError: a file of the user's own data is missing.
        ValueError: there is no such data set, or the user's own data do not
            match the flags.
    """
    if datasets.key(options.task_name) == CUSTOM:
        saved = os.path.join(output_dir, run_files.LABELS)
        beside = None
        if not (is_training or options.label_names or paths.exists(saved)):
            beside = labels.of_model(read_beside(), "--init_checkpoint")
        label_set = find_labels(
            options, saved, is_training=is_training, beside=beside
        )
        info = custom_dataset(options, label_set)
    else:
        info = glue.find_dataset(
            options.task_name,
            options.xnli_language,
            options.xnli_mode,
            others=(CUSTOM,),
        )
    for task_name, group in (
        (CUSTOM, _OWN_DATA),
        (glue.XNLI, _XNLI),
    ):
        given = flags.changed(options, group)
        if given and info.name != task_name:
            raise ValueError(
                f"Only --task_name={task_name} supports {', '.join(given)}; "
                f"got {info.name}."
            )
    if options.write_submission and not any(p.submission for p in info.test):
        raise ValueError(
            "--write_submission is for the tasks of GLUE "
            f"({', '.join(glue.DATASETS)}); got {info.name}."
        )
    _check_labels(options, info.label_set)
    _check_outputs(options, info, output_dir)
    return info


def _column(text: str) -> tables.Column:
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text


def find_labels(
    options: SentenceOptions,
    saved: str,
    *,
    is_training: bool,
    beside: labels.LabelSet | None = None,
) -> labels.LabelSet:
    """Returns the labels: given, else of the training file, else saved.

    Args:
        options: of the user's files.
        saved: path of the labels of a trained model, if it exists.
        is_training: whether the model is trained in this run.
        beside: the labels beside the initial checkpoint, for a run that does
            not train and has none in `saved`.

    Raises:
        FileNotFoundError: neither a training file nor saved labels.
        ValueError: a column is missing; the training file has no usable
            labels, or other labels than the model in this folder.
    """
    options.check_columns()
    # A run that ended before its first checkpoint leaves labels only.
    folder = os.path.dirname(saved)
    is_known = paths.exists(saved) and (
        not is_training
        or run_files.checkpoints_in(folder)
        or run_files.checkpoints_in(folder, in_trials=True)
    )
    before = labels.load(saved) if is_known else None
    trained = before or beside
    problem_type = options.problem_type or task.SINGLE_LABEL
    if trained and not (is_training or options.problem_type):
        problem_type = trained.problem_type
    if problem_type == task.REGRESSION or options.label_names:
        names = options.label_names
    elif is_training:
        names = _names_in_training_file(options, problem_type)
    elif trained is None:
        raise FileNotFoundError(
            f"No {saved}: without training, the labels must be saved "
            "next to the model, or given."
        )
    else:
        names = trained.names
    if before and (problem_type, names) != (before.problem_type, before.names):
        raise ValueError(
            f"The model of {saved} was trained for {before.problem_type} "
            f"with the labels {messages.listed(before.names)}; got "
            f"{problem_type} with {messages.listed(names)}. Use another "
            "output folder, or the same labels."
        )
    # Those of the model that training replaces are dropped.
    tuned = before if before and not is_training else None
    return labels.LabelSet(
        problem_type=problem_type,
        names=names,
        separator=options.label_separator,
        thresholds=tuned.thresholds if tuned else (),
        thresholds_step=tuned.thresholds_step if tuned else 0,
    )


def _names_in_training_file(
    options: SentenceOptions, problem_type: str
) -> tuple[str, ...]:
    train = _custom_split(options, "train")
    path = datasets.find_file(options.data_dir, CUSTOM, train.files)
    if path is None:
        raise FileNotFoundError(
            f"No {' or '.join(train.files)} in {options.data_dir!r}."
        )
    return datasets.discover_labels(
        path, train.layout, problem_type, options.label_separator
    ).names


def custom_dataset(
    options: SentenceOptions, label_set: labels.LabelSet
) -> datasets.DatasetInfo:
    """Returns the user's files as a data set.

    Raises:
        ValueError: two files could be the same split.
    """
    return datasets.DatasetInfo(
        name=CUSTOM,
        label_set=label_set,
        metrics=_METRICS[label_set.problem_type],
        train=_custom_split(options, "train"),
        dev=(_custom_split(options, "dev"),),
        test=(_custom_split(options, "test"),),
    )


def _custom_split(options: SentenceOptions, name: str) -> datasets.SplitInfo:
    names = tuple(name + ending for ending in tables.FORMAT_OF_ENDING)
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
    files = found or names  # A missing file is reported when it is used.
    file_format = tables.FORMAT_OF_ENDING[os.path.splitext(files[0])[1]]
    return datasets.SplitInfo(
        name=name,
        files=files,
        layout=options.layout(file_format),
        guid_prefix=name,
    )


def _check_labels(options: SentenceOptions, label_set: labels.LabelSet) -> None:
    kind = label_set.problem_type
    if options.tune_thresholds and kind != task.MULTI_LABEL:
        raise ValueError(
            "--tune_thresholds is for --problem_type=multi_label; got "
            f"{kind}, which has no thresholds."
        )
    if options.class_weights and kind == task.REGRESSION:
        raise ValueError("--class_weights is for labels; got regression.")
    if options.class_weights not in ((), labels.BALANCED_WEIGHTS):
        labels.parse_weights(options.class_weights, label_set)
    if options.dev_fraction and options.num_folds:
        raise ValueError(
            "Pass one of --dev_fraction and --num_folds; got both."
        )


def weights_of_labels(
    options: SentenceOptions, train: datasets.TextFile
) -> tuple[float, ...]:
    """Returns the weights of the labels in the loss; none for equal weights.

    Args:
        options: the flags.
        train: the training file, whose labels are counted for `balanced`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file cannot be read, or lacks a label.
    """
    given, label_set = options.class_weights, train.info.label_set
    if not given:
        return ()
    if given == labels.BALANCED_WEIGHTS:
        found = [example.label for example in train.examples(with_labels=True)]
        weights = labels.balanced_weights(found, label_set)
    else:
        weights = labels.parse_weights(given, label_set)
    logging.info(
        "class weights: %s", dict(zip(label_set.names, weights, strict=True))
    )
    return weights


_Files = Mapping[str, list[datasets.TextFile]]


def split(options: SentenceOptions, files: _Files) -> list[_Files]:
    """Holds out examples of the training file if the flags request it.

    Args:
        options: the flags.
        files: files of each split; equal for training and evaluation.

    Returns:
        The files of each fold; a single entry without folds.

    Raises:
        OSError: the training file cannot be opened.
        ValueError: it cannot be read, or has too few rows.
    """
    sources = files.get(task.TRAIN) or files.get(task.EVAL)
    if not (sources and options.splits_training_file):
        return [files]
    (file,), seed = sources, options.split_seed
    examples = file.examples(with_labels=True)
    found = [example.label for example in examples]
    if options.num_folds:
        drawn = datasets.folds(found, options.num_folds, seed)
    else:
        drawn = [datasets.hold_out(found, options.dev_fraction, seed)]

    def part(places, number, name) -> list[datasets.TextFile]:
        chosen = datasets.Part(
            held_out=tuple(examples[place].row for place in places),
            is_held_out=name == task.EVAL,
            seed=seed,
            fold=number if options.num_folds else 0,
        )
        return [dataclasses.replace(file, part=chosen)]

    return [
        {
            name: own if name == task.PREDICT else part(places, number, name)
            for name, own in files.items()
        }
        for number, places in enumerate(drawn, start=1)
    ]


def _check_outputs(
    options: SentenceOptions, info: datasets.DatasetInfo, output_dir: str
) -> None:
    """Checks that prediction files do not overwrite data files."""
    found = [
        datasets.find_file(options.data_dir, info.name, split.files)
        for split in (info.train, *info.dev, *info.test)
    ]
    answers = [
        os.path.join(output_dir, f"{split.submission}.tsv")
        for split in info.test
        if split.submission
    ]
    writing.check_files(answers, filter(None, found))
    if options.write_submission:
        glue.check_zip(options.write_submission)


def truncation(options: SentenceOptions) -> sentence_pairs.Truncation:
    """Returns the options for fitting texts into `max_seq_length` tokens.

    Raises:
        ValueError: there is a stride without windows.
    """
    if options.window_stride and options.long_text != sentence_pairs.WINDOWS:
        raise ValueError(
            "--window_stride is for --long_text=windows; got --long_text="
            f"{options.long_text}."
        )
    return flags.narrow(sentence_pairs.Truncation, options)

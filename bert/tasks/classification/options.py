"""Options of sentence classification: the data set, its files, long texts."""

import dataclasses

from bert.commands import flags
from bert.files import row_files
from bert.tasks import sentence_pairs, task
from bert.tasks.classification import (
    class_labels,
    datasets,
    glue,
)

_OWN_DATA = flags.Heading("Your own data (--task_name=custom)")
_XNLI = flags.Heading("XNLI")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions:
    """Task and data of a sentence classifier.

    The user's own files are in a folder with train, dev and test, each with one
    of `row_files.ENDINGS`. Columns are names or numbers: 0 is the first, -1 the
    last. TSV and CSV files begin with column names if a column is given by
    name.
    """

    problem_type: str | None = _OWN_DATA.optional(
        "single_label: one label per row; multi_label: any number of labels; "
        "regression: a score. Default: that of the trained model; single_label "
        "for training.",
        choices=task.PROBLEM_TYPES,
    )
    text_a_column: str = _OWN_DATA.flag(
        "", "Column of the text: name, or number from 0.", of_model=True
    )
    text_b_column: str = _OWN_DATA.flag(
        "", "Column of the second text, if any.", of_model=True
    )
    label_column: str = _OWN_DATA.flag(
        "", "Column of the label.", of_model=True
    )
    label_names: tuple[str, ...] = _OWN_DATA.flag(
        (),
        "The labels in the order of the model's outputs, separated by commas; "
        "by default those of the training file. Also for a model of another "
        "program that does not name its outputs.",
    )
    missing_labels: tuple[str, ...] = _OWN_DATA.flag(
        class_labels.MISSING,
        "What the label column has in rows without a label, besides an empty "
        "cell; separated by commas. Such rows are left out, unless the word is "
        "one of --label_names.",
        changes_result=True,
        of_model=True,
    )
    task_name: str = flags.Group.FILES.required(
        f"{', '.join(glue.DATASETS)} or custom.", changes_result=True
    )
    data_dir: flags.Path = flags.Group.FILES.required(
        "Folder of the task's files."
    )
    xnli_language: str = _XNLI.flag(
        "zh", "The language.", choices=glue.XNLI_LANGUAGES, of_model=True
    )
    xnli_mode: str = _XNLI.flag(
        glue.TRANSLATE_TRAIN,
        "translate_train: train on the translation into the language, test on "
        "the language; translate_test: train on English, test on the "
        "translation into English; zero_shot: train on English, test on the "
        "language.",
        choices=glue.XNLI_MODES,
        of_model=True,
    )
    long_text: str = flags.Group.TEXT.flag(
        sentence_pairs.HEAD,
        "Treatment of text that is too long. head: keep its beginning, as "
        "in the original; head_tail: keep both ends; windows: read all of it "
        "in windows that overlap by half, and average their predictions.",
        choices=sentence_pairs.LONG_TEXT,
        of_model=True,
    )
    class_weights: tuple[str, ...] = flags.Group.TRAINING.flag(
        (),
        "Label weights in the loss: one number per label, in the order of "
        "task.json, or `balanced`, which gives all labels the same total "
        "weight.",
        changes_result=True,
    )
    dev_fraction: float = flags.Group.FILES.non_negative(
        0.0,
        "Fraction of the training file to hold out as the dev set, stratified "
        "by label; 0 for none.",
        upper_bound=0.9,
        of_model=True,
    )

    @property
    def layout(self) -> datasets.Layout:
        """The columns of the files.

        Raises:
            ValueError: there is no text column.
        """
        text_a, text_b, label = (
            row_files.column_of(flag) if flag else None
            for flag in (
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

"""Data sets of GLUE and XNLI, and answers for the GLUE server.

Sources: Wang et al. 2019, "GLUE"; Conneau et al. 2018, "XNLI"; and the files
as distributed by their authors.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from bert.files import messages
from bert.tasks import task
from bert.tasks.classification import class_labels, datasets, metrics

_SCORE_RANGE = (0.0, 5.0)  # Source: Cer et al. 2017, STS-B.

# Source: GLUE's script and tools.download have a folder beside MNLI's.
_DIAGNOSTIC = tuple(
    f"{folder}{name}.tsv"
    for folder in ("", "../diagnostic/", "../AX/", "../")
    for name in ("diagnostic", "AX")
)

_Layout = datasets.Layout
_Info = datasets.DatasetInfo
_Split = datasets.SplitInfo

_BINARY = class_labels.LabelSet(names=("0", "1"))
_ENTAILMENT = class_labels.LabelSet(names=("entailment", "not_entailment"))
# As released: alphabetic, unlike the order in the paper of MNLI.
_NLI_NAMES = ("contradiction", "entailment", "neutral")


def _split(name: str, layout: _Layout, **others: str) -> _Split:
    return _Split(files=(f"{name}.tsv",), layout=layout, **others)


def _simple(
    name: str,
    label_set: class_labels.LabelSet,
    scored_by: tuple[str, ...],
    layout: _Layout,
    **different: _Layout,
) -> _Info:
    """Returns a data set of train.tsv, dev.tsv and test.tsv.

    `layout` has the columns of all three files, except `label` in the test
    file; `different` has those of `train` or `test` if they differ.
    """
    test = dataclasses.replace(layout, label=None)
    return _Info(
        name=name,
        label_set=label_set,
        metrics=scored_by,
        splits={
            task.TRAIN: (_split("train", different.get("train", layout)),),
            task.EVAL: (_split("dev", layout),),
            task.PREDICT: (
                _split("test", different.get("test", test), submission=name),
            ),
        },
    )


def _mnli() -> _Info:
    # As released: columns by number, the label last.
    layout = _Layout(text_a=8, text_b=9, label=-1)
    test = dataclasses.replace(layout, label=None)
    diagnostic = _Layout(text_a="sentence1", text_b="sentence2")
    return _Info(
        name="MNLI",
        label_set=class_labels.LabelSet(names=_NLI_NAMES),
        metrics=(metrics.ACCURACY,),
        splits={
            task.TRAIN: (_split("train", layout),),
            task.EVAL: (
                _split("dev_matched", layout),
                _split("dev_mismatched", layout, suffix="_mismatched"),
            ),
            task.PREDICT: (
                _split("test_matched", test, submission="MNLI-m"),
                _split(
                    "test_mismatched",
                    test,
                    suffix="_mismatched",
                    submission="MNLI-mm",
                ),
                _Split(
                    files=_DIAGNOSTIC,
                    layout=diagnostic,
                    suffix="_diagnostic",
                    submission="AX",
                ),
            ),
        },
    )


def _glue() -> tuple[_Info, ...]:
    accuracy = (metrics.ACCURACY,)
    f1_and_accuracy = (metrics.F1, metrics.ACCURACY)
    pair = _Layout(text_a="sentence1", text_b="sentence2", label="label")
    question_pair = _Layout(
        text_a="question1",
        text_b="question2",
        label="is_duplicate",
        # Source: nyu-mll/GLUE-baselines#5: questions that contain a line end
        # are broken over two lines in train.tsv and dev.tsv.
        skip_short_rows=True,
    )
    return (
        _simple(
            "CoLA",
            _BINARY,
            (metrics.MATTHEWS, metrics.ACCURACY),
            # As released: no header in train.tsv and dev.tsv.
            _Layout(text_a=3, label=1, has_header=False),
            test=_Layout(text_a=1),
        ),
        _simple(
            "SST-2",
            _BINARY,
            accuracy,
            _Layout(text_a="sentence", label="label"),
        ),
        _simple(
            "MRPC",
            _BINARY,
            f1_and_accuracy,
            _Layout(text_a=3, text_b=4, label=0),
        ),
        _simple(
            "STS-B",
            class_labels.LabelSet(problem_type=task.REGRESSION),
            (metrics.PEARSON, metrics.SPEARMAN),
            dataclasses.replace(pair, label="score"),
        ),
        _simple(
            "QQP",
            _BINARY,
            f1_and_accuracy,
            question_pair,
            test=_Layout(text_a="question1", text_b="question2"),
        ),
        _mnli(),
        _simple(
            "QNLI",
            _ENTAILMENT,
            accuracy,
            _Layout(text_a="question", text_b="sentence", label="label"),
        ),
        _simple("RTE", _ENTAILMENT, accuracy, pair),
        _simple("WNLI", _BINARY, accuracy, pair),
    )


XNLI = "XNLI"

# Source: Conneau et al. 2018.
XNLI_LANGUAGES = (
    *("ar", "bg", "de", "el", "en", "es", "fr", "hi"),
    *("ru", "sw", "th", "tr", "ur", "vi", "zh"),
)
TRANSLATE_TRAIN = "translate_train"
TRANSLATE_TEST = "translate_test"
ZERO_SHOT = "zero_shot"
XNLI_MODES = (TRANSLATE_TRAIN, TRANSLATE_TEST, ZERO_SHOT)


def xnli(language: str = "zh", mode: str = TRANSLATE_TRAIN) -> _Info:
    """Returns XNLI in one language.

    Args:
        language: one of `XNLI_LANGUAGES`; the release supports "zh".
        mode: training on the machine translation into the language
            (`translate_train`, as released), or training on English and testing
            either on the language (`zero_shot`) or on its machine translation
            into English (`translate_test`).
    """
    trained_on = language if mode == TRANSLATE_TRAIN else "en"
    train_file = f"multinli/multinli.train.{trained_on}.tsv"
    return _Info(
        name=XNLI,
        # As released: the translations spell one label differently.
        label_set=class_labels.LabelSet(
            names=_NLI_NAMES, aliases={"contradictory": "contradiction"}
        ),
        metrics=(metrics.ACCURACY,),
        splits={
            task.TRAIN: (
                _Split(
                    files=(train_file, f"XNLI-MT-1.0/{train_file}"),
                    layout=_Layout(text_a=0, text_b=1, label=2),
                ),
            ),
            task.EVAL: (_xnli_split("dev", language, mode),),
            # Differs: the release refuses to predict on the test set.
            task.PREDICT: (_xnli_split("test", language, mode),),
        },
    )


def _xnli_split(name: str, language: str, mode: str) -> _Split:
    if mode == TRANSLATE_TEST and language != "en":
        layout = _Layout(
            text_a="sentence1", text_b="sentence2", label="gold_label"
        )
        file = f"xnli/xnli.{name}.{language}.en.tsv"
        return _Split(files=(file, f"XNLI-MT-1.0/{file}"), layout=layout)
    layout = _Layout(text_a=6, text_b=7, label=1, row_filter=(0, language))
    file = f"xnli.{name}.tsv"
    return _Split(files=(file, f"XNLI-1.0/{file}"), layout=layout)


# The keys are the names; the files of XNLI are those of the release.
DATASETS = {info.name: info for info in (*_glue(), xnli())}


def find_dataset(name: str, others: tuple[str, ...] = ()) -> _Info:
    """Returns a data set by its name, ignoring case and hyphens.

    Args:
        name: of the data set.
        others: further valid names, for the message.

    Raises:
        ValueError: the name is unknown; the message lists all.
    """
    for info in DATASETS.values():
        if _key(info.name) == _key(name):
            return info
    names = [*DATASETS, *others]
    raise ValueError(
        f"The task must be one of {', '.join(names)}; got {name!r}."
        + messages.suggestion(name, names)
        + " For your own files: --task_name=custom --text_a_column=text "
        "--label_column=label, with the names of their columns."
    )


def _key(name: str) -> str:
    return name.lower().replace("-", "")


def submission_lines(answers: Iterable[class_labels.Label]) -> Iterator[str]:
    """Yields the lines of a file for the GLUE server.

    They are a header, then index and label or score. The index counts from 0;
    scores are clipped to the range of STS-B.

    Args:
        answers: a class name or a score for each row of the test set.
    """
    yield "index\tprediction\n"
    for index, answer in enumerate(answers):
        is_score = isinstance(answer, float)
        text = f"{np.clip(answer, *_SCORE_RANGE):.3f}" if is_score else answer
        yield f"{index}\t{text}\n"

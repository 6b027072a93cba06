"""The table of tasks, MRPC's files, and files for the GLUE server."""

import numpy as np
import pytest

from bert.tasks.classification import datasets, glue, predictions
from tests.bert.tasks.classification import reading
from tests.support import locations, toy_files

_GLUE = locations.DATA / "glue"

# A header and a row of every file in the formats of GLUE that this project
# has no measured example of: the parts that matter are in capitals.
_MNLI_HEAD = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
    "sentence1\tsentence2"
)
_MNLI_ROW = "41\tp\tq\tfiction\t(\t(\t(\t(\tA\tB"
_PAIR = "index\tsentence1\tsentence2"
_FORMATS = [
    ("SST-2", "train", "sentence\tlabel\nA \t1\n", ("A ", None, "1")),
    ("SST-2", "test", "index\tsentence\n0\tA\n", ("A", None, "0")),
    (
        "STS-B",
        "dev",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
        "sentence1\tsentence2\tscore\n0\tg\tf\t2012\t1\ts\ts\tA\tB\t3.800\n",
        ("A", "B", 3.8),
    ),
    (
        "QQP",
        "train",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        "1\t2\t3\tA\tB\t1\n4\t5\t6\tbroken\n",
        ("A", "B", "1"),
    ),
    (
        "QQP",
        "dev",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        "4\t5\t6\tbroken\n1\t2\t3\tA\tB\t1\n",
        ("A", "B", "1"),
    ),
    ("QQP", "test", "id\tquestion1\tquestion2\n0\tA\tB\n", ("A", "B", "0")),
    (
        "MNLI",
        "dev_mismatched",
        f"{_MNLI_HEAD}\tlabel1\tlabel2\tgold_label\n"
        f"{_MNLI_ROW}\tneutral\tneutral\tentailment\n",
        ("A", "B", "entailment"),
    ),
    (
        "MNLI",
        "test_mismatched",
        f"{_MNLI_HEAD}\n{_MNLI_ROW}\n",
        ("A", "B", "contradiction"),
    ),
    (
        "QNLI",
        "train",
        "index\tquestion\tsentence\tlabel\n0\tA\tB\tnot_entailment\n",
        ("A", "B", "not_entailment"),
    ),
    (
        "RTE",
        "dev",
        f"{_PAIR}\tlabel\n0\tA\tB\tentailment\n",
        ("A", "B", "entailment"),
    ),
    ("WNLI", "train", f"{_PAIR}\tlabel\n0\tA\tB\t1\n", ("A", "B", "1")),
]


def _split(info, name):
    return next(
        split
        for splits in info.splits.values()
        for split in splits
        if split.files[0].endswith(f"{name}.tsv")
    )


def _read(info, name, folder):
    return reading.read_split(
        info, _split(info, name), str(folder), with_labels="test" not in name
    )


@pytest.mark.parametrize("row", _FORMATS)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_file_in_the_format_of_glue_is_read(tmp_path, mark, row):
    name, split, text, expected = row
    toy_files.write(tmp_path / f"{split}.tsv", mark + text)
    (example,) = _read(glue.find_dataset(name), split, tmp_path)
    assert (example.text_a, example.text_b, example.label) == expected


@pytest.mark.parametrize("name", ["diagnostic.tsv", "AX.tsv"])
@pytest.mark.parametrize("place", ["MNLI", "diagnostic", "AX", ""])
def test_diagnostics_are_found_in_and_beside_the_folder_of_mnli(
    tmp_path, monkeypatch, place, name
):
    glue_folder = tmp_path / "glue"
    toy_files.write(glue_folder / place / name, f"{_PAIR}\n0\tA\tB\n")
    (glue_folder / "MNLI").mkdir(exist_ok=True)
    split = _split(glue.find_dataset("MNLI"), "diagnostic")
    monkeypatch.chdir(glue_folder / "MNLI")
    for folder in glue_folder / "MNLI", f"{glue_folder}/MNLI/", ".", "..":
        examples = reading.read_split(
            glue.find_dataset("MNLI"), split, str(folder), with_labels=False
        )
        assert [example.text_a for example in examples] == ["A"]


def test_the_folder_beside_a_link_is_that_of_the_link(tmp_path):
    toy_files.write(tmp_path / "glue/diagnostic/AX.tsv", f"{_PAIR}\n0\tA\tB\n")
    (tmp_path / "disk/MNLI").mkdir(parents=True)
    (tmp_path / "glue/MNLI").symlink_to(tmp_path / "disk/MNLI")
    folder = str(tmp_path / "glue/MNLI")
    names = _split(glue.find_dataset("MNLI"), "diagnostic").files
    path = datasets.find_file(folder, "MNLI", names)
    assert path == str(tmp_path / "glue/diagnostic/AX.tsv")


def test_a_submission_without_diagnostics_is_a_warning(tmp_path, caplog):
    toy_files.write(
        tmp_path / "test_matched.tsv", f"{_MNLI_HEAD}\n{_MNLI_ROW}\n"
    )
    info = glue.find_dataset("MNLI")
    (file,) = datasets.find_files(info, "predict", str(tmp_path))
    assert file.path == str(tmp_path / "test_matched.tsv")
    assert caplog.messages == [
        f"No {name}.tsv of MNLI in {tmp_path}, which is left out: no "
        f"{submission}.tsv for the GLUE server"
        for name, submission in [
            ("test_mismatched", "MNLI-mm"),
            ("diagnostic", "AX"),
        ]
    ]


# Source: the files that gluebenchmark.com accepts.
_SERVER_FILES = {
    *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv"),
    *("MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv"),
    "AX.tsv",
}


def test_the_server_accepts_the_files_of_all_tasks():
    written = [
        f"{split.submission}.tsv"
        for info in glue.DATASETS.values()
        for split in info.splits["predict"]
        if split.submission
    ]
    assert sorted(written) == sorted(_SERVER_FILES)
    for info in glue.DATASETS.values():
        outputs = np.ones((2, info.label_set.num_outputs))
        lines = _text(info.label_set, outputs).splitlines()
        assert lines[0] == "index\tprediction"
        assert [line.split("\t")[0] for line in lines[1:]] == ["0", "1"]


def test_own_folder_wins_over_that_of_the_task(tmp_path):
    for place, text in ("", "outer"), ("WNLI", "inner"):
        toy_files.write(
            tmp_path / place / "dev.tsv", f"{_PAIR}\tlabel\n0\t{text}\tB\t1\n"
        )
    (example,) = _read(glue.find_dataset("WNLI"), "dev", tmp_path)
    assert example.text_a == "outer"


def test_absent_file_is_an_error_only_if_required(tmp_path):
    info = glue.find_dataset("MNLI")
    with pytest.raises(FileNotFoundError, match=r"No dev_matched\.tsv of MNLI"):
        _read(info, "dev_matched", tmp_path)
    assert _read(info, "dev_mismatched", tmp_path) is None


# --------------------------------------------------------------------- XNLI


def _write_xnli(folder):
    head = "language\tgold_label\t\t\t\t\tsentence1\tsentence2\tp\tq"
    for name in "dev", "test":
        rows = [
            f"{language}\tneutral\t\t\t\t\t{name} {language}\tB\t1\t1"
            for language in glue.XNLI_LANGUAGES
        ]
        text = "\n".join([head, *rows]) + "\n"
        toy_files.write(folder / "XNLI-1.0" / f"xnli.{name}.tsv", text)
        toy_files.write(
            folder / "XNLI-MT-1.0" / "xnli" / f"xnli.{name}.sw.en.tsv",
            "gold_label\tsentence1\tsentence2\n"
            f"contradictory\t{name} sw translated\tB\n",
        )
    for language in "en", "sw":
        toy_files.write(
            folder / f"XNLI-MT-1.0/multinli/multinli.train.{language}.tsv",
            f"premise\thypo\tlabel\ntrain {language}\tB\tcontradictory\n",
        )


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("translate_train", ["train sw", "dev sw", "test sw"]),
        ("zero_shot", ["train en", "dev sw", "test sw"]),
        (
            "translate_test",
            ["train en", "dev sw translated", "test sw translated"],
        ),
    ],
)
def test_xnli_reads_the_languages_of_its_mode(tmp_path, mode, expected):
    _write_xnli(tmp_path)
    info = glue.xnli("sw", mode)
    examples = [
        reading.read_split(info, split, str(tmp_path), with_labels=True)[0]
        for (split,) in info.splits.values()
    ]
    assert [example.text_a for example in examples] == expected
    assert examples[0].label == "contradiction"


def test_a_short_row_to_predict_keeps_its_place(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("id\tquestion1\tquestion2\n0\tbroken\n1\tA\tB\n")
    with pytest.raises(ValueError, match=r"test\.tsv, line 2, .* missing"):
        _read(glue.find_dataset("QQP"), "test", tmp_path)


def test_english_has_no_machine_translation_into_english(tmp_path):
    _write_xnli(tmp_path)
    for mode in glue.XNLI_MODES:
        (example,) = _read(glue.xnli("en", mode), "dev", tmp_path)
        assert example.text_a == "dev en"


def test_a_name_is_known_in_any_case_and_without_its_hyphen():
    for text in ("STS-B", "sts-b", "stsb", "StsB"):
        assert glue.find_dataset(text).name == "STS-B"


_ACCURACY = ("accuracy",)


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("CoLA", ("matthews_correlation", "accuracy")),
        ("SST-2", _ACCURACY),
        ("MRPC", ("f1", "accuracy")),
        ("STS-B", ("pearson", "spearman")),
        ("QQP", ("f1", "accuracy")),
        *((name, _ACCURACY) for name in ("MNLI", "QNLI", "RTE", "WNLI")),
        ("XNLI", _ACCURACY),
    ],
)
def test_the_first_metric_of_a_task_selects_its_models(name, metrics):
    assert glue.find_dataset(name).metrics == metrics


def test_each_language_of_xnli_has_its_rows(tmp_path):
    _write_xnli(tmp_path)
    for language in glue.XNLI_LANGUAGES:
        info = glue.xnli(language)
        (example,) = _read(info, "dev", tmp_path)
        assert example.text_a == f"dev {language}"
    message = "must be one of CoLA, .*, WNLI, XNLI; got 'snli'"
    with pytest.raises(ValueError, match=message):
        glue.find_dataset("snli")


# -------------------------------------------------------------- GLUE itself


@pytest.mark.shared
@pytest.mark.skipif(not _GLUE.is_dir(), reason="GLUE is not beside us")
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("CoLA", {"train": 8551, "dev": 1043, "test": 1063}),
        ("SST-2", {"train": 67349, "dev": 872, "test": 1821}),
        ("MRPC", {"train": 3668, "dev": 408, "test": 1725}),
        ("STS-B", {"train": 5749, "dev": 1500, "test": 1379}),
        ("RTE", {"train": 2490, "dev": 277, "test": 3000}),
        ("WNLI", {"train": 635, "dev": 71, "test": 146}),
        ("QNLI", {"dev": 5463, "test": 5463}),
        ("MNLI", {"diagnostic": 1104}),
    ],
)
def test_glue_is_read_whole(name, counts):
    info = glue.find_dataset(name)
    for split_name, count in counts.items():
        split = _split(info, split_name)
        examples = reading.read_split(
            info, split, str(_GLUE), with_labels=split_name in ("train", "dev")
        )
        assert len(examples) == count


def _text(label_set, rows):
    outputs = np.array(rows, np.float32)
    answers = predictions.predicted_labels(label_set, outputs)
    return "".join(glue.submission_lines(answers))


def test_answers_are_numbered_from_0_and_named():
    label_set = glue.find_dataset("MNLI").label_set
    text = _text(label_set, [[0.1, 0.7, 0.2], [0.1, 0.2, 0.7]])
    assert text == "index\tprediction\n0\tentailment\n1\tneutral\n"
    label_set = glue.find_dataset("MRPC").label_set
    assert _text(label_set, [[0, 1]]) == "index\tprediction\n0\t1\n"
    # Scores stay within their range.
    label_set = glue.find_dataset("STS-B").label_set
    text = _text(label_set, [[-0.25], [2.34567], [5.5]])
    assert text.split("\n")[1:-1] == ["0\t0.000", "1\t2.346", "2\t5.000"]

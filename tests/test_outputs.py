"""Programs that write files, given outputs that need care.

A test for each program and attempt: what reads as a table is their names. No
attempt may lose the content of an input, or replace a link or a pipe by a
regular file; of devices see tests/files/test_writing.py.
"""

import ast
import dataclasses
import os
import pathlib
import shutil
import stat
import threading

import pytest

from corpus import python_docs
from tests import programs, toy_squad

_ROOT = pathlib.Path(__file__).parents[1]
_GOLDEN = _ROOT / "tests/golden"
_TEXT = "A good day.\nThe long match.\n\nRain fell on it.\nIt was late.\n\n" * 3
_MODEL = (
    "--vocab_file=vocab.txt --bert_config_file=bert_config.json "
    "--init_checkpoint=tiny.ckpt"
)
_LABELS = (python_docs.LIBRARY, python_docs.REFERENCE)
_TRIVIA = """{"Data": [{"QuestionId": "1", "Question": "What is it?",
"Answer": {"Value": "rain", "Aliases": []},
"EntityPages": [{"Filename": "page.txt"}]}]}"""
_NAMES = (
    "# A\n\nThey met Alice Smith and Bob Jones in a quiet old town .\n" * 40
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Program:
    """How a program is made to write.

    Attributes:
        command: its arguments; {} is where its output is named.
        input: a file that it reads, as its output would be named.
        second: the argument that names another output; None if it has one.
        made: what is appended to the output's name.
        needs_seek: the format cannot be written to a pipe.
    """

    command: str
    input: str
    second: str | None = None
    made: str = ""
    needs_seek: bool = False


_EXTRACT = (
    f"extract_features {_MODEL} --input_file=text.txt --layers=-1 "
    "--max_seq_length=16 --output_file={}"
)
_CONVERT = "tools.convert_checkpoint --input=tiny.ckpt --overwrite"
_PROGRAMS = {
    "create_pretraining_data": _Program(
        command="create_pretraining_data --vocab_file=vocab.txt "
        "--input_file=te*.txt --dupe_factor=1 --output_file={}",
        input="text.txt",
        second=",./{}",
    ),
    "create_pretraining_data, shards": _Program(
        command="create_pretraining_data --vocab_file=vocab.txt "
        "--input_file=te* --dupe_factor=1 --shard_documents=2 "
        "--num_workers=1 --output_file={}",
        input="text",
        made="-00001",
    ),
    "extract_features, jsonl": _Program(command=_EXTRACT, input="text.txt"),
    "extract_features, npz": _Program(
        command=f"{_EXTRACT} --output_format=npz", input="text.txt"
    ),
    "extract_features, tfrecord": _Program(
        command=f"{_EXTRACT} --output_format=tfrecord", input="text.txt"
    ),
    "tools.convert_checkpoint, release": _Program(
        command=f"{_CONVERT} --output_format=release --output={{}}",
        input="tiny.ckpt",
        made=".index",
        needs_seek=True,
    ),
    "tools.convert_checkpoint, keras": _Program(
        command="tools.convert_checkpoint --input=held.weights.h5 --overwrite "
        "--bert_config_file=bert_config.json --output_format=keras "
        "--output={}",
        input="held.weights.h5",
        made="",
        needs_seek=True,
    ),
    "tools.convert_checkpoint, huggingface": _Program(
        command="tools.convert_checkpoint --input=held --overwrite "
        "--output_format=huggingface --do_lower_case --output={}",
        input="held",
        made="/model.safetensors",
        needs_seek=True,
    ),
    "tools.convert_triviaqa": _Program(
        command="tools.convert_triviaqa --input_file=trivia.json "
        "--evidence_dir=pages --output_file={}",
        input="pages/page.txt",
    ),
    "tools.extend_vocab": _Program(
        command="tools.extend_vocab --vocab_file=vocab.txt "
        "--words_file=words.txt --output_file={}",
        input="vocab.txt",
    ),
    "tools.extend_vocab, checkpoint": _Program(
        command="tools.extend_vocab --vocab_file=vocab.txt "
        "--words_file=words.txt --output_file=new.txt "
        "--init_checkpoint=tiny.ckpt --output_checkpoint={}",
        input="tiny.ckpt",
        made=".index",
        needs_seek=True,
    ),
    "tools.inspect_data": _Program(
        command="tools.inspect_data --vocab_file=vocab.txt "
        "--input_file=te*.txt --output_file={}",
        input="text.txt",
    ),
    "tools.learn_vocab": _Program(
        command="tools.learn_vocab --input_file=te*.txt --num_workers=1 "
        "--min_character_count=1 --vocab_size=150 --output_file={}",
        input="text.txt",
    ),
    "tools.plot_attention": _Program(
        command=f"tools.plot_attention {_MODEL} --text=rain "
        "--layers=0 --heads=0 --output_file={}",
        input="vocab.txt",
    ),
    "tools.predict_masked": _Program(
        command=f"tools.predict_masked {_MODEL} --input_file=masked.txt "
        "--output_file={}",
        input="masked.txt",
    ),
    "tools.prepare_corpus": _Program(
        command="tools.prepare_corpus --input_format=text --num_workers=1 "
        "--input_file=te*.txt --output_file={}",
        input="text.txt",
        second=" --holdout_every=2 --holdout_file=./{}",
    ),
    "tools.prepare_corpus, held out": _Program(
        command="tools.prepare_corpus --input_format=text --num_workers=1 "
        "--input_file=te*.txt --output_file=kept.txt --holdout_every=2 "
        "--holdout_file={}",
        input="text.txt",
    ),
    "tools.prepare_corpus, numbered": _Program(
        command="tools.prepare_corpus --input_format=text --num_workers=1 "
        "--input_file=te* --num_output_files=2 --output_file={}-%05d",
        input="text",
        made="-00001",
    ),
    "tools.python_docs_task": _Program(
        command="tools.python_docs_task --output_dir={}",
        input="",
        made="/dev.tsv",
    ),
}
# These write into folders of their own names, or only where nothing is yet;
# of the scripts see test_data_in_the_folder_of_a_run_are_not_written_over.
_OTHERS = {
    *("run_classifier", "run_ner", "run_pretraining", "run_squad", "run_swag"),
    *(
        "tools.download",
        "tools.export_model",
        "tools.predict",
        "paper.reproduce",
    ),
}


@pytest.fixture(autouse=True)
def _runs_draw_no_curves():
    """Draws the pictures of `tests/conftest.py` all the same: outputs too."""


@pytest.fixture(scope="module")
def folder_of_inputs(tmp_path_factory):
    """Writes what the programs read."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "text.txt").write_text(_TEXT)
    (folder / "text-00001").write_text(_TEXT)
    (folder / "words.txt").write_text("snowfall\n")
    (folder / "masked.txt").write_text("rain [MASK] .\n")
    (folder / "trivia.json").write_text(_TRIVIA)
    for name in ("pages", "names", "run", "held"):
        (folder / name).mkdir()
    (folder / "pages/page.txt").write_text("They saw rain.")
    (folder / "names/train.txt").write_text(_NAMES)
    (folder / "run/metrics.jsonl").write_text(
        '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n'
    )
    toy_squad.write_json(folder / "squad.json", toy_squad.dataset(9))
    for path in (
        *(_GOLDEN / "inputs").glob("bert_config.json"),
        *(_GOLDEN / "model").glob("tiny.ckpt*"),
    ):
        shutil.copy(path, folder)
    words = (_GOLDEN / "inputs/vocab.txt").read_text().split("\n")
    words[-2] = "[unused1]"
    (folder / "vocab.txt").write_text("\n".join(words))
    shutil.copy(folder / "vocab.txt", folder / "held")
    before = os.getcwd()
    os.chdir(folder)
    try:
        for output in (
            "keras --output=held.weights.h5",
            "huggingface --output=held --do_lower_case",
        ):
            assert _refusal(f"{_CONVERT} --output_format={output}") is None
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def inputs(folder_of_inputs, tmp_path, monkeypatch):
    """Returns the inputs, and makes their folder the current one."""
    folder = tmp_path / "work"
    shutil.copytree(folder_of_inputs, folder)
    monkeypatch.chdir(folder)
    text = "One paragraph of plain words that is long enough to be kept."
    documents = [(label, [text]) for label in _LABELS for _ in range(10)]
    monkeypatch.setattr(python_docs, "read_documents", lambda: iter(documents))
    return folder


def _refusal(command):
    name, *arguments = command.split()
    return programs.refusal(name, arguments)


def _content(folder):
    return {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


_rows = pytest.mark.parametrize("name", _PROGRAMS)


@pytest.mark.parametrize("name", [n for n, p in _PROGRAMS.items() if p.input])
@pytest.mark.parametrize("named", ["itself", "otherwise", "through a link"])
def test_an_input_is_not_an_output(name, named, inputs, capsys):
    row = _PROGRAMS[name]
    output = row.input
    if named == "otherwise":
        output = f"pages/../{row.input}"
    elif named == "through a link":
        output = "".join(["link", *pathlib.Path(row.input).suffixes])
        link = pathlib.Path(output + row.made)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(inputs / (row.input + row.made))
    before = _content(inputs)
    message = _refusal(row.command.format(output))
    assert "must not be written: it is the input" in (message or "not refused")
    assert _content(inputs) == before


@pytest.mark.parametrize(
    "name",
    ["extract_features, jsonl", "tools.plot_attention", "tools.predict_masked"],
)
def test_a_file_of_the_checkpoint_is_not_an_output(name, inputs, capsys):
    before = _content(inputs)
    message = _refusal(_PROGRAMS[name].command.format("./tiny.ckpt.index"))
    assert "it is the input tiny.ckpt.index" in (message or "not refused")
    assert _content(inputs) == before


@pytest.mark.parametrize("name", [n for n, p in _PROGRAMS.items() if p.second])
def test_two_outputs_are_two_files(name, inputs):
    row = _PROGRAMS[name]
    before = _content(inputs)
    second = row.second.format("new")
    message = _refusal(row.command.format("new") + second)
    assert "utputs must be different files; new and ./new" in message
    assert _content(inputs) == before


@_rows
def test_links_are_followed(name, inputs, capsys):
    row = _PROGRAMS[name]
    link, target = _place(row), inputs / "elsewhere" / "target"
    target.parent.mkdir()
    target.write_text("earlier")
    link.symlink_to(target)
    message = _refusal(row.command.format(_output(row)))
    assert message is None
    assert link.is_symlink()
    assert target.read_bytes() != b"earlier"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


@_rows
def test_pipes_are_written_in_place(name, inputs, capsys):
    row = _PROGRAMS[name]
    pipe = _place(row)
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(
        target=lambda: received.append(pipe.read_bytes()), daemon=True
    )
    if not row.needs_seek:
        reader.start()
    message = _refusal(row.command.format(_output(row)))
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert not list(pipe.parent.glob(f"{pipe.name}?*"))
    if row.needs_seek:
        assert "must be a regular file" in message
        return
    assert message is None
    reader.join(timeout=20)
    assert received[0]


def _output(row):
    return "new.weights.h5" if row.input.endswith(".h5") else "new"


def _place(row):
    """Names the file that a program will write, in a folder that is there."""
    path = pathlib.Path(_output(row) + row.made)
    path.parent.mkdir(exist_ok=True)
    return path.absolute()


def test_every_program_that_writes_is_here():
    found = set()
    for path in [
        *_ROOT.glob("*.py"),
        *(_ROOT / "tools").glob("*.py"),
        *(_ROOT / "paper").glob("*.py"),
    ]:
        calls = [
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ]
        if "program.start" in calls:
            parts = path.relative_to(_ROOT).with_suffix("").parts
            found.add(".".join(parts))
    assert found == _OTHERS | {name.split(",")[0] for name in _PROGRAMS}

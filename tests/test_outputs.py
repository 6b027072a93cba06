"""Programs whose output is one of their inputs, or another output."""

import ast
import shutil

import pytest

from tests.support import documented_commands, locations, programs, toy_files

_TEXT = "A good day.\nThe long match.\n\nRain fell on it.\nIt was late.\n\n" * 3
_MODEL = (
    "--vocab_file=vocab.txt --bert_config_file=bert_config.json "
    "--init_checkpoint=tiny.ckpt"
)
_TRIVIA = """{"Data": [{"QuestionId": "1", "Question": "What is it?",
"Answer": {"Value": "rain", "Aliases": []},
"EntityPages": [{"Filename": "page.txt"}]}]}"""


_EXTRACT = (
    f"extract_features {_MODEL} --input_file=text.txt --layers=-1 "
    "--max_seq_length=16"
)
_CREATE = "create_pretraining_data --vocab_file=vocab.txt --dupe_factor=1"
_EXTEND = "tools.extend_vocab --vocab_file=vocab.txt --input_file=words.txt"
_PREPARE = (
    "tools.prepare_corpus --input_format=text --num_workers=1 --input_file=te*"
)
# Programs with an output that is one of their inputs.
_COMMANDS = (
    f"{_CREATE} --input_file=te*.txt --output_file=text.txt",
    f"{_CREATE} --input_file=te* --shard_documents=2 --output_file=text",
    f"{_CREATE} --input_file=text.txt --output_file=vocab.txt",
    f"{_EXTRACT} --output_file=text.txt",
    f"{_EXTRACT} --output_file=vocab.txt",
    f"{_EXTRACT} --output_file=bert_config.json",
    "tools.convert_triviaqa --input_file=trivia.json --evidence_dir=pages "
    "--output_file=trivia.json",
    "tools.evaluate_squad --predict_file=text.txt --output_dir=squad "
    "--ensemble=squad/nbest_predictions.json",
    f"{_EXTEND} --output_file=vocab.txt",
    f"{_EXTEND} --output_file=words.txt",
    "tools.learn_vocab --input_file=te*.txt --output_file=text.txt",
    f"tools.plot_attention {_MODEL} --text=rain --output_file=vocab.txt",
    f"tools.plot_attention {_MODEL} --text=a --output_file=bert_config.json",
    f"{_PREPARE} --output_file=text.txt",
    f"{_PREPARE} --output_file=kept --holdout_every=2 --holdout_file=text.txt",
    f"{_PREPARE} --num_output_files=2 --output_file=text-%05d",
)
# Programs with two outputs that are one file.
_TWICE = (
    f"{_CREATE} --input_file=te*.txt --output_file=new,./new",
    f"{_PREPARE} --output_file=new --holdout_every=2 --holdout_file=./new",
)
# These write into folders of their own names, to standard output, or only where
# nothing is yet;
# of the scripts see test_data_in_the_folder_of_a_run_are_not_written_over.
_OTHERS = {
    *("run_classifier", "run_ner", "run_pretraining", "run_squad", "run_swag"),
    *(
        "tools.convert_checkpoint",
        "tools.download",
        "tools.export_model",
        "tools.inspect_data",
        "tools.predict",
        "tools.python_docs",
        "tools.score_text",
        "tools.split_table",
        "paper.blimp",
        "paper.reproduce",
    ),
}


@pytest.fixture(scope="module")
def folder_of_inputs(tmp_path_factory):
    """Writes what the programs read."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "text.txt").write_text(_TEXT)
    (folder / "text-00001").write_text(_TEXT)
    (folder / "words.txt").write_text("snowfall\n")
    (folder / "trivia.json").write_text(_TRIVIA)
    (folder / "squad").mkdir()
    (folder / "squad/nbest_predictions.json").write_text("{}")
    (folder / "pages").mkdir()
    (folder / "pages/page.txt").write_text("They saw rain.")
    for path in (
        *locations.INPUTS.glob("bert_config.json"),
        *(locations.GOLDEN / "model").glob("tiny.ckpt*"),
    ):
        shutil.copy(path, folder)
    words = (locations.INPUTS / "vocab.txt").read_text().split("\n")
    words[-2] = "[unused1]"
    (folder / "vocab.txt").write_text("\n".join(words))
    return folder


@pytest.fixture
def inputs(folder_of_inputs, tmp_path, monkeypatch):
    """Returns the inputs, and makes their folder the current one."""
    folder = tmp_path / "work"
    shutil.copytree(folder_of_inputs, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("command", "words"),
    [(command, "it is the input") for command in _COMMANDS]
    + [(command, "./new must not be written") for command in _TWICE],
)
def test_an_output_is_no_input_and_no_other_output(
    command, words, inputs, capsys
):
    before = toy_files.contents(inputs)
    name, *arguments = command.split()
    assert words in (programs.refusal(name, arguments) or "not refused")
    assert toy_files.contents(inputs) == before


def test_every_program_that_writes_is_here():
    found = set()
    for path in [
        *locations.ROOT.glob("*.py"),
        *(locations.ROOT / "tools").glob("*.py"),
        *(locations.ROOT / "paper").glob("*.py"),
    ]:
        calls = [
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ]
        if {*documented_commands.STARTS} & {*calls}:
            parts = path.relative_to(locations.ROOT).with_suffix("").parts
            found.add(".".join(parts))
    assert found == _OTHERS | {command.split()[0] for command in _COMMANDS}

"""The Python and the commands of docs/checkpoints.md work as written."""

import re
import shlex
import shutil

import numpy as np

from modeling import bert
from tests.support import locations, programs
from tools import convert_checkpoint

_FOLDER = "data/uncased_L-12_H-768_A-12"


def _blocks(heading):
    section = re.search(
        rf"^## {heading}\n(.*?)^## ",
        (locations.ROOT / "docs/checkpoints.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    return re.findall(r"^```\w*\n(.*?)^```", section[1], re.M | re.DOTALL)


def _released_folder(folder):
    folder.mkdir(parents=True)
    for file in (locations.GOLDEN / "model").glob("tiny.ckpt.*"):
        name = file.name.replace("tiny", "bert_model")
        shutil.copyfile(file, folder / name)
    for name in ("bert_config.json", "vocab.txt"):
        shutil.copyfile(locations.INPUTS / name, folder / name)


def test_python_examples_run(tmp_path, monkeypatch):
    _released_folder(tmp_path / _FOLDER)
    monkeypatch.chdir(tmp_path)
    (loading,) = _blocks("From Python")
    golden = np.load(locations.GOLDEN / "model/forward_gelu.npz")
    ids = golden["defaults/in/input_ids"]
    scope = {"input_ids": ids}
    exec(loading, scope)  # The page is ours.
    assert isinstance(scope["model"], bert.BertModel)
    np.testing.assert_allclose(
        scope["outputs"]["pooled_output"],
        golden["defaults/out/pooled_output"],
        atol=1e-5,
    )


def test_command_examples_convert_there_and_back(tmp_path, monkeypatch):
    _released_folder(tmp_path / _FOLDER)
    monkeypatch.chdir(tmp_path)
    for command in _blocks("Converting"):
        arguments = shlex.split(command.replace("\\\n", ""))
        assert arguments[:3] == ["python", "-m", "tools.convert_checkpoint"]
        convert_checkpoint.convert(
            programs.parse(convert_checkpoint.Options, *arguments[3:])
        )
    assert (tmp_path / "bert-base-uncased/model.safetensors").exists()
    assert (tmp_path / "release/bert_model.ckpt.index").exists()
    named = (tmp_path / "release/checkpoint").read_text()
    assert named == 'model_checkpoint_path: "bert_model.ckpt"\n'


def test_every_flag_of_the_manual_exists():
    values = programs.defined(convert_checkpoint.Options)
    manual = (locations.ROOT / "docs/checkpoints.md").read_text(
        encoding="utf-8"
    )
    table = manual.partition("| flag | meaning |")[2].partition("\n\n")[0]
    first = "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))
    named = set(re.findall(r"`--(\w+)`", first))
    assert named | {"input", "output"} == set(values)

"""The notebook is valid, has no stored outputs, and runs."""

import json
import os
import pathlib
import re
import shutil

import pytest

from tests.support import documented_commands as documented
from tests.support import golden_models, locations

_PATH = locations.ROOT / "notebooks" / "fine_tuning.ipynb"
_KINDS = {"markdown", "code"}


def _notebook():
    return json.loads(_PATH.read_text(encoding="utf-8"))


def _code_cells():
    for cell in _notebook()["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"]), cell["metadata"].get("tags", [])


def test_notebook_is_valid():
    notebook = _notebook()
    assert notebook["nbformat"] == 4
    assert notebook["nbformat_minor"] >= 5
    assert set(notebook) == {"cells", "metadata", *_VERSION_KEYS}
    assert notebook["metadata"]["kernelspec"]["language"] == "python"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids) > 10
    for cell in notebook["cells"]:
        assert cell["cell_type"] in _KINDS
        assert re.fullmatch(r"[\w-]{1,64}", cell["id"])
        assert all(line.endswith("\n") for line in cell["source"][:-1])


_VERSION_KEYS = ("nbformat", "nbformat_minor")


def test_notebook_holds_no_outputs():
    cells = [c for c in _notebook()["cells"] if c["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    assert all(cell["execution_count"] is None for cell in cells)


def test_flags_exist():
    flags = {
        flag
        for source, _ in _code_cells()
        for flag in re.findall(r"\"--(?!quiet)(\w+)", source)
    }
    assert len(flags) > 10
    assert [f for f in flags if documented.fault_of_flag(f"--{f}")] == []


def test_first_code_cell_alone_is_for_parameters():
    tags = [tags for _, tags in _code_cells()]
    assert tags[0] == ["parameters"]
    assert not any(tags[1:])


@pytest.mark.slow
def test_every_cell_runs_without_a_network(tmp_path, monkeypatch, capsys):
    """Runs in a checkout of its own, so that it leaves nothing behind."""
    checkout = tmp_path / "checkout"
    _copy_checkout(checkout)
    model = golden_models.bert(tmp_path / "model")
    monkeypatch.chdir(checkout / "notebooks")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    scope = {"__name__": "__main__"}
    for number, (source, _) in enumerate(_code_cells()):
        exec(compile(source, f"cell {number}", "exec"), scope)
        if number == 0:
            scope |= {"MODEL_DIR": str(model), "NUM_TRAIN_EPOCHS": 1}
    assert scope["ROOT"] == checkout
    assert len(scope["predictions"]) > 50
    assert {label.decode() for label in scope["labels"]} <= {
        row["part"] for row in scope["rows"]
    }
    assert "Right: " in capsys.readouterr().out


@pytest.mark.parametrize("config", ["bert_config.json", "config.json"])
def test_models_of_both_formats_are_found(tmp_path, config):
    def download(*arguments):
        folder = tmp_path / "name" / "x"
        (folder / "1_Pooling").mkdir(parents=True)
        (folder / config).touch()
        (folder / "1_Pooling" / "config.json").touch()

    scope = {
        "WORK": tmp_path,
        "MODEL": "name",
        "MODEL_DIR": "",
        "pathlib": pathlib,
        "run": download,
    }
    (source,) = (s for s, _ in _code_cells() if "def find_model" in s)
    exec(source, scope)
    assert scope["config"] == tmp_path / "name" / "x" / config


def test_without_a_clone_the_notebook_fails_with_a_message(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (_, _), (setup, _), *_ = _code_cells()
    with pytest.raises(FileNotFoundError, match="not in a clone"):
        exec(setup, {"REPOSITORY": ""})


def _copy_checkout(folder):
    left_out = shutil.ignore_patterns(
        *(".*", "tests", "quickstart", "runs", "data", "__pycache__")
    )
    folder.mkdir()
    for name in os.listdir(locations.ROOT):
        path = locations.ROOT / name
        if path.is_dir() and name not in left_out(str(locations.ROOT), [name]):
            if any(path.glob("*.py")) or name in ("notebooks", "modeling"):
                shutil.copytree(path, folder / name, ignore=left_out)
        elif path.suffix == ".py":
            shutil.copy(path, folder)

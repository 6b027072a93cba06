"""Imports point down only (the table in CONTRIBUTING.md)."""

import ast
import functools
import pathlib

import pytest

from tests.support import locations

# What each room may import of ours, besides itself.
_GROUND = {"bert.commands", "bert.files"}
_MAY_IMPORT = {
    "bert.commands": {"bert.files"},
    "bert.files": set(),
    "modeling": {"bert.files"},
    "vocab": _GROUND,
    "bert.models": _GROUND | {"modeling", "vocab"},
    "bert.records": _GROUND,
    "bert.tasks": _GROUND
    | {"vocab", "modeling", "bert.models", "bert.records"},
    "bert.corpus": _GROUND | {"vocab", "bert.records", "bert.tasks"},
    # Of `tasks` the interface of a task, and the objective of pre-training.
    "bert.training": _GROUND
    | {"modeling", "bert.models", "bert.records", "bert.tasks.task"}
    | {"bert.tasks.objectives", "bert.tasks.pretraining.objective"},
    # Of `tasks` the interfaces, the table of tasks, and what they need.
    "bert.serving": {
        *("bert.files", "vocab", "modeling", "bert.models"),
        *("bert.tasks.asking", "bert.tasks.registry", "bert.tasks.signatures"),
        *(
            "bert.tasks.needs",
            "bert.tasks.own_task",
            "bert.tasks.task",
            "bert.tasks.sentence_pairs",
        ),
    },
    # BLiMP is scored by the network.
    "paper": _GROUND | {"bert.serving"},
}
_EVERY_ROOM = set(_MAY_IMPORT) | {"tools", "benchmarks"}
_MODELING_ORDER = [
    *("name_tables", "huggingface_config", "foreign_files", "huggingface"),
    *("checkpoint_files", "config", "tensor_types"),
    *("compilation", "dropout", "losses", "layers", "packing"),
    *("ablations", "bert", "heads"),
]
# The modules of the network, which programs import late.
_NETWORK = {
    *("ablations", "bert", "compilation", "dropout", "heads", "layers"),
    *("losses", "tensor_types"),
}
# The modules of graphs, which programs import late.
_GRAPHS = {
    *("graph_tokenizer", "objective", "objectives", "pooling", "signature"),
    *("signatures", "span_search", "token_rows"),
}
_TENSORFLOW_AT_IMPORT = {"bert.training", "bert.serving"}
_TENSORFLOW = {"tensorflow", "tensorflow_text"}


@functools.cache
def _sources():
    """Lists the modules, scripts and rooms, without looking into `.venv`."""
    ours = [
        path
        for path in locations.ROOT.iterdir()
        if not path.name.startswith((".", "tests"))
    ]
    files = [path for path in ours if path.suffix == ".py"]
    for folder in filter(pathlib.Path.is_dir, ours):
        files += folder.rglob("*.py")
    return [
        (path, path.relative_to(locations.ROOT).parts) for path in sorted(files)
    ]


def _room(name):
    """Returns the room of a dotted name: a package, or one within `bert`."""
    return ".".join(name.split(".")[: 2 if name.startswith("bert.") else 1])


def _room_of(parts):
    return _room(".".join(parts))


def _is_one_of(name, rooms):
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


@functools.cache
def _tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(path, *, at_import_only=False):
    """Lists the dotted names that a module imports, `a.b` for each."""
    tree = _tree(path)
    nodes = tree.body if at_import_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", sorted(_MAY_IMPORT))
def test_room_imports_only_rooms_below(room):
    allowed = _MAY_IMPORT[room] | {room}
    wrong = [
        f"{'/'.join(parts)} imports {name}"
        for path, parts in _sources()
        if _room_of(parts) == room
        for name in _imports(path)
        if _room(name) in _EVERY_ROOM and not _is_one_of(name, allowed)
    ]
    assert wrong == []


def test_nobody_imports_a_script_or_a_test():
    scripts = {path.stem for path in locations.ROOT.glob("*.py")}
    assert "run_pretraining" in scripts
    wrong = [
        f"{'/'.join(parts)} imports {name}"
        for path, parts in _sources()
        for name in _imports(path)
        if name.split(".")[0] in {*scripts, "tests"}
    ]
    assert wrong == []


def test_modeling_imports_point_down():
    wrong = []
    for path, parts in _sources():
        if parts[0] != "modeling" or path.stem not in _MODELING_ORDER:
            continue
        below = _MODELING_ORDER[: _MODELING_ORDER.index(path.stem)]
        wrong += [
            f"{path.stem} imports {name}"
            for name in _imports(path)
            if name.startswith("modeling.") and name.split(".")[1] not in below
        ]
    assert wrong == []


def test_tensorflow_is_imported_late_outside_training_and_serving():
    wrong = [
        "/".join(parts)
        for path, parts in _sources()
        if _room_of(parts) not in _TENSORFLOW_AT_IMPORT
        for name in _imports(path, at_import_only=True)
        if name.split(".")[0] in _TENSORFLOW
        and not (parts[0] == "modeling" and path.stem in _NETWORK)
        and path.stem not in _GRAPHS
    ]
    assert wrong == []


def test_the_modules_of_graphs_are_imported_late():
    wrong = [
        f"{'/'.join(parts)} imports {name}"
        for path, parts in _sources()
        if _room_of(parts) not in {*_TENSORFLOW_AT_IMPORT, "benchmarks"}
        and path.stem not in _GRAPHS
        for name in _imports(path, at_import_only=True)
        if name.split(".")[-1] in _GRAPHS
    ]
    assert wrong == []


def test_no_relative_imports_and_no_re_exports():
    wrong = []
    for path, parts in _sources():
        tree = _tree(path)
        wrong += [
            "/".join(parts)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level
        ]
        if path.name == "__init__.py" and tree.body:
            wrong.append("/".join(parts))
    assert wrong == []

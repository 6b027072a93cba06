"""No code from a file is ever run: unsafe loaders are never called."""

import ast
import functools
import pathlib
import re

import pytest

_ROOT = pathlib.Path(__file__).parents[2]
# Modules that run what they read.
_MODULES = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib"),
    *("shelve", "marshal", "torch", "runpy", "code"),
}
_CALLS = {
    *("eval", "exec", "compile", "__import__"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load"),
    *("os.system", "os.popen"),
}
# Calls by their last name: whole models hold layers of code.
_METHODS = {
    *("load_model", "model_from_json", "model_from_config"),
    *("enable_unsafe_deserialization", "Lambda"),
}
# The one place that reads PyTorch's files, of which it takes tensors alone.
_TENSORS_ONLY = ("modeling/huggingface.py", "torch.load")
# Compared with, in processes of their own; they read nothing of a user's.
_PEERS = {"benchmarks/fine_tuning.py", "benchmarks/peers.py"}


@functools.cache
def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _faults(tree: ast.Module):
    """Yields the line of each unsafe import or call, and what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        for name in names:
            if name.split(".")[0] in _MODULES:
                yield node.lineno, f"import {name}"
        if isinstance(node, ast.Call):
            yield from _faults_of_call(node)


def _faults_of_call(node: ast.Call):
    name = _name(node)
    if name in _CALLS or name.rpartition(".")[2] in _METHODS:
        yield node.lineno, f"call of {name}"
    if name == "importlib.import_module" and not _is_of_fixed_package(
        node.args[0]
    ):
        yield node.lineno, "import of a name that is computed"
    for keyword in node.keywords:
        value = getattr(keyword.value, "value", None)
        is_unsafe = (keyword.arg, value) in {
            *(("allow_pickle", True), ("safe_mode", False), ("shell", True)),
            *(("weights_only", False), ("trust_remote_code", True)),
        }
        if is_unsafe:
            yield node.lineno, f"{name}({keyword.arg}={value})"


def _is_of_fixed_package(name: ast.expr) -> bool:
    """Whether a module's name is constant, or at least its package is."""
    if isinstance(name, ast.JoinedStr):
        package = getattr(name.values[0], "value", None)
        return isinstance(package, str) and package.endswith(".")
    return isinstance(name, ast.Constant)


@functools.cache
def _sources():
    """Lists the name and tree of each module, hidden folders left out."""
    rooms = [
        place
        for place in sorted(_ROOT.iterdir())
        if place.is_dir() and not place.name.startswith((".", "tests"))
    ]
    found = [*_ROOT.glob("*.py"), *(p for r in rooms for p in r.rglob("*.py"))]
    return [
        (
            path.relative_to(_ROOT).as_posix(),
            ast.parse(path.read_text(encoding="utf-8")),
        )
        for path in found
    ]


@functools.cache
def _calls():
    """Lists the calls of all modules: of which, what and the node."""
    return [
        (name, _name(node), node)
        for name, tree in _sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def test_no_source_loads_what_may_run():
    found = [
        (name, fault)
        for name, tree in _sources()
        if name not in _PEERS
        for _, fault in _faults(tree)
    ]
    assert found == [
        (_TENSORS_ONLY[0], "import pickle"),  # UnpicklingError alone.
        (_TENSORS_ONLY[0], "import torch"),
    ]


def test_pytorch_s_files_are_read_for_tensors_alone():
    loads = [
        call
        for call in _calls()
        if call[0] not in _PEERS and re.search(r"torch.*load$", call[1])
    ]
    assert [call[:2] for call in loads] == [_TENSORS_ONLY]
    kept = {k.arg: ast.unparse(k.value) for k in loads[0][2].keywords}
    assert kept["weights_only"] == "True"


def test_every_numpy_file_is_read_without_pickles():
    loads = [x for x in _calls() if x[1] in ("np.load", "numpy.load")]
    assert loads
    for name, _, call in loads:
        kept = {k.arg: ast.unparse(k.value) for k in call.keywords}
        assert kept.get("allow_pickle") == "False", f"{name}:{call.lineno}"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from torch import load",
        "eval(text)",
        "keras.models.load_model(path)",
        "np.load(path, allow_pickle=True)",
        "f(path, safe_mode=False)",
        "keras.layers.Lambda(f)",
        "subprocess.run(text, shell=True)",
        "importlib.import_module(name)",
    ],
)
def test_unsafe_loads_are_found(source):
    assert len(list(_faults(ast.parse(source)))) == 1
    safe = ast.parse("re.compile(x); json.load(f); model.compile()")
    assert not list(_faults(safe))

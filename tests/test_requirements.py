"""Packages named in pyproject.toml and in the files of requirements."""

import ast
import importlib.metadata
import re
import runpy
import sys
import tomllib

import pytest

from tests.support import locations

_PROJECT = tomllib.loads((locations.ROOT / "pyproject.toml").read_text())


def _packages(name):
    lines = (locations.ROOT / name).read_text().splitlines()
    return [line for line in lines if line and line[0] not in "#-"]


def _parted(line):
    """Splits `name==1.0` or `name>=1,<2` into name and versions."""
    return re.split("(?<=[^=<>])(?=[=<>])", line, maxsplit=1)


def test_the_packages_of_the_project_are_those_of_requirements():
    packages = _packages("requirements/base.txt")
    assert _PROJECT["project"]["dependencies"] == packages
    assert "tensorflow==" in "".join(packages)


def test_pip_install_refuses_and_says_what_to_install():
    build = _PROJECT["build-system"]
    path = (
        locations.ROOT
        / build["backend-path"][0]
        / f"{build['build-backend']}.py"
    )
    backend = runpy.run_path(str(path))
    for hook in ("build_wheel", "build_editable", "build_sdist"):
        with pytest.raises(SystemExit, match=r"requirements/base\.txt"):
            backend[hook]("folder", config_settings=None)
    assert _PROJECT["tool"]["uv"] == {"package": False}


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ("gpu", "requirements/gpu.txt"),
        ("export", "requirements/export.txt"),
        ("beam", "requirements/beam.txt"),
        ("dev", "requirements/dev.txt"),
        ("docs", "requirements/docs.txt"),
    ],
)
def test_extras_are_those_of_their_requirements(extra, name):
    extras = _PROJECT["project"]["optional-dependencies"]
    assert extras[extra] == _packages(name)
    base = "export.txt" if extra == "dev" else "base.txt"
    assert f"-r {base}" in (locations.ROOT / name).read_text()


def test_a_wheel_of_requirements_is_of_one_version_everywhere():
    ours = dict(map(_parted, _packages("requirements/base.txt")))
    tpu = dict(map(_parted, _packages("requirements/tpu.txt")))
    # Of TensorFlow there is an older one for TPUs, with its TensorBoard and its
    # range of protobuf.
    assert {n for n in tpu if tpu[n] != ours.get(n)} == {
        "tensorflow-tpu",
        "tensorboard",
        "protobuf",
    }


# Packages whose modules have other names. TensorFlow's types come with it.
_PACKAGE_OF = {
    "absl": "absl-py",
    "google": "protobuf",
    "google_crc32c": "google-crc32c",
    "sklearn": "scikit-learn",
    "tensorflow_text": "tensorflow-text",
    "yaml": "PyYAML",
}
# Imported where they are needed, with a message that names them.
_OPTIONAL = {"apache_beam", "tokenizers", "torch", "transformers"}


def _imported():
    """Lists the packages that programs import, with one of their modules."""
    folders = [p for p in locations.ROOT.iterdir() if p.is_dir()]
    ours = {path.stem for path in [*locations.ROOT.glob("*.py"), *folders]}
    ours |= {"_typeshed", *sys.stdlib_module_names}
    for path in locations.ROOT.rglob("*.py"):
        if path.relative_to(locations.ROOT).parts[0].startswith((".", "tests")):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module]
            for name in modules:
                top = name.split(".")[0]
                if top not in ours | _OPTIONAL:
                    yield _PACKAGE_OF.get(top, top), path.name


def test_programs_import_only_packages_that_are_declared():
    declared = {_parted(n)[0] for n in _packages("requirements/base.txt")}
    imported = dict(_imported())
    assert {n: imported[n] for n in sorted({*imported} - declared)} == {}
    assert {"numpy", "h5py"} <= set(imported)


def _normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_has_each_package_of_the_tests_in_its_version():
    locked = {
        _normalized(name): version
        for name, version in map(_parted, _packages("requirements/lock.txt"))
    }
    for file in ("base", "export", "dev"):
        for line in _packages(f"requirements/{file}.txt"):
            name, version = _parted(line)
            # Of protobuf only a range is declared.
            assert version in (locked[_normalized(name)], ">=6.31,<8")
    # And what they need in turn.
    needed, names = set(), {"tensorflow", "huggingface-hub", "pytest"}
    while names:
        needed |= names
        names = {
            _normalized(re.match(r"[\w.-]+", line)[0])
            for name in names
            for line in importlib.metadata.requires(name) or ()
            if ";" not in line
        } - needed
    # A virtual environment brings its own tools for building.
    assert needed - {*locked} == {"setuptools", "wheel"}


def test_the_version_is_the_one_of_the_changelog_and_the_citation():
    version = _PROJECT["project"]["version"]
    assert f"\n## {version} " in (locations.ROOT / "CHANGELOG.md").read_text()
    assert (
        f"\nversion: {version}\n"
        in (locations.ROOT / "CITATION.cff").read_text()
    )

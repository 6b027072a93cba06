"""Packages named in pyproject.toml and in the files of requirements."""

import pathlib
import tomllib

import pytest

_ROOT = pathlib.Path(__file__).parents[1]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())


def _packages(name):
    lines = (_ROOT / name).read_text().splitlines()
    return [line for line in lines if line and line[0] not in "#-"]


def test_the_packages_of_the_project_are_those_of_requirements():
    assert _PROJECT["project"]["dynamic"] == ["dependencies"]
    dynamic = _PROJECT["tool"]["setuptools"]["dynamic"]
    assert dynamic == {"dependencies": {"file": ["requirements/base.txt"]}}
    assert "tensorflow==" in "".join(_packages("requirements/base.txt"))


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ("gpu", "requirements/gpu.txt"),
        ("export", "requirements/export.txt"),
        ("beam", "requirements/beam.txt"),
        ("dev", "requirements/dev.txt"),
    ],
)
def test_extras_are_those_of_their_requirements(extra, name):
    extras = _PROJECT["project"]["optional-dependencies"]
    assert extras[extra] == _packages(name)
    base = "export.txt" if extra == "dev" else "base.txt"
    assert f"-r {base}" in (_ROOT / name).read_text()


def test_a_wheel_of_requirements_is_of_one_version_everywhere():
    ours = dict(line.split("==") for line in _packages("requirements/base.txt"))
    tpu = dict(line.split("==") for line in _packages("requirements/tpu.txt"))
    # Of TensorFlow there is an older one for TPUs, and its TensorBoard.
    assert {n for n in tpu if tpu[n] != ours.get(n)} == {
        "tensorflow-tpu",
        "tensorboard",
    }


def test_the_version_is_the_one_of_the_changelog_and_the_citation():
    version = _PROJECT["project"]["version"]
    assert f"\n## {version} " in (_ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {version}\n" in (_ROOT / "CITATION.cff").read_text()

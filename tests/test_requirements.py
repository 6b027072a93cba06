"""Packages named in pyproject.toml and in the files of requirements."""

import runpy
import tomllib

import pytest

from tests.support import locations

_ROOT = locations.ROOT
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())


def _packages(name):
    lines = (_ROOT / name).read_text().splitlines()
    return [line for line in lines if line and line[0] not in "#-"]


def test_the_packages_of_the_project_are_those_of_requirements():
    packages = _packages("requirements/base.txt")
    assert _PROJECT["project"]["dependencies"] == packages
    assert "tensorflow==" in "".join(packages)


def test_pip_install_refuses_and_says_what_to_install():
    build = _PROJECT["build-system"]
    path = _ROOT / build["backend-path"][0] / f"{build['build-backend']}.py"
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

"""Links of the manual: between its pages, and to files that exist."""

import dataclasses
import importlib.util
import re
import subprocess

import pytest

from tests import test_import_order
from tests.support import documented_commands as documented

_PAGES = [name for name in documented.PAGES if name.endswith(".md")]
# Pages with commands of other versions or programs, too.
_ALL_PAGES = [
    *_PAGES,
    *("CHANGELOG.md", "paper/RESULTS.md", ".github/SECURITY.md"),
    *("modeling/configs/README.md", "tests/golden/README.md"),
    *(
        f"paper/reports/{path.name}"
        for path in sorted((documented.ROOT / "paper/reports").glob("*.md"))
    ),
]
# A "revision" is one of a model of the hub, and `eedf571` the original.
_COMMIT = re.compile(r"(?<![.\w])(?<!revision )(?!eedf571)[0-9a-f]{7,8}\b")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ROOMS = "|".join(
    [*test_import_order._MAY_IMPORT, "tools", "benchmarks"]
).replace(".", "[./]")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _text(path):
    return _FENCED.sub("", path.read_text(encoding="utf-8"))


def _anchor(heading):
    """Makes the anchor that GitHub makes of a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def test_anchors_are_made_as_on_github():
    assert _anchor("May I use it at work? `Licenses`") == (
        "may-i-use-it-at-work-licenses"
    )


@pytest.mark.parametrize("name", _ALL_PAGES)
def test_links_lead_somewhere(name):
    page = documented.ROOT / name
    wrong = []
    for target in _LINK.findall(_text(page)):
        # Runs of workflows are beside the files of a hosted repository.
        if re.match(r"https?:|\.\./\.\./actions/", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            wrong.append(f"{target}: no such file")
        elif anchor and anchor not in map(
            _anchor, _HEADING.findall(_text(there))
        ):
            wrong.append(f"{target}: no such heading")
    assert wrong == []


def _git(*arguments):
    return subprocess.run(
        ["git", *arguments],
        cwd=documented.ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()


@pytest.mark.parametrize("name", _ALL_PAGES)
def test_commits_that_pages_cite_exist(name):
    if _git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("needs the history of the repository")
    cited = set(_COMMIT.findall(_text(documented.ROOT / name)))
    assert [c for c in cited if _git("cat-file", "-t", c) != "commit"] == []


def test_the_original_is_defined_on_the_first_page_alone():
    defining = re.compile(r'[Tt]he\s+original"')
    pages = [p for p in _PAGES if defining.search(_text(documented.ROOT / p))]
    assert pages == ["README.md"]


def test_the_original_has_no_other_name_in_the_manual_and_in_help():
    texts = {
        name: _text(documented.ROOT / name)
        for name in _PAGES
        if name != "CONTRIBUTING.md"  # It says how comments call it.
    }
    for name in documented.programs():
        module = documented.module(name)
        fields = dataclasses.fields(module.Options)
        helps = [field.metadata["flag"].help for field in fields]
        texts[name] = "\n".join([module.__doc__, *helps])
    other = re.compile(r"\bthe release('s)?\b|\bas released\b", re.IGNORECASE)
    assert [name for name, text in texts.items() if other.search(text)] == []


def test_readme_leads_to_every_page():
    text = _text(documented.ROOT / "README.md")
    pages = {p.name for p in (documented.ROOT / "docs").glob("*.md")}
    linked = {path for path in pages if f"docs/{path}" in text}
    assert pages - linked == set()


def test_pages_print_the_output_of_one_run():
    readme = (documented.ROOT / "README.md").read_text()
    (probability,) = re.findall(
        r"^  (0\.\d{4})  1\n  0\.\d{4}  0$", readme, re.M
    )
    serving = (documented.ROOT / "docs/serving.md").read_text()
    printed = re.findall(r'"1": (0\.\d+)|, (0\.\d+)\]\], "label"', serving)
    assert f"  {probability}  1\n" in serving
    assert [f"{float(a or b):.4f}" for a, b in printed] == [probability] * 2
    (accuracy,) = re.findall(r"eval_accuracy = (0\.7\d+)", readme)
    report = (documented.ROOT / "docs/classification.md").read_text()
    assert re.search(rf"^ +accuracy +{float(accuracy):.4f} ", report, re.M)


def test_the_readme_is_short():
    assert len((documented.ROOT / "README.md").read_text().split()) <= 1100


def _site():
    spec = importlib.util.spec_from_file_location(
        "manual_site", documented.ROOT / ".ci/manual.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_website_has_every_page_and_every_flag():
    site = _site()
    nav = str(site.navigation())
    pages = (documented.ROOT / "docs").glob("*.md")
    assert [p.name for p in pages if f"'docs/{p.name}'" not in nav] == []
    text = site.flags_page()
    for name in documented.programs():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        options = documented.module(name).Options
        stated = re.findall(r"^- `--(?:\[no\])?(\w+)` \(", section, re.M)
        assert sorted(stated) == sorted(
            field.name for field in dataclasses.fields(options)
        )


def test_the_website_shows_modules_that_exist():
    for package, modules in _site().API.items():
        for module in modules:
            path = f"{package}/{module}".replace(".", "/") + ".py"
            assert (documented.ROOT / path).exists()


@pytest.mark.parametrize("name", _PAGES)
def test_modules_and_files_that_pages_name_exist(name):
    text = _text(documented.ROOT / name)
    files = re.findall(rf"`((?:{_ROOMS}|tests|docs)/[\w./-]*\w)`", text)
    missing = [f for f in files if not (documented.ROOT / f).exists()]
    # `modeling.BertConfig` and the like are names of the release's.
    dotted = rf"`((?:tools\.\w+)|(?:{_ROOMS})\.[a-z_]+\.\w+)[`(]"
    for found in re.findall(dotted, text):
        _, path, *names = re.split(rf"({_ROOMS})\.", found)
        if not _is_defined(path.replace(".", "/"), *names[0].split(".")):
            missing.append(found)
    assert missing == []


def _is_defined(room, module, name=None, *_):
    path = documented.ROOT / room / f"{module}.py"
    if not path.exists():
        return False
    defines = rf"^(?:class|def) {name}\b|^{name}\b"
    return name is None or bool(
        re.search(defines, path.read_text(encoding="utf-8"), re.MULTILINE)
    )

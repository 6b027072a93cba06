"""Builds the website of the manual, with pages of every flag and of the API.

  pip install -r requirements/docs.txt
  python .ci/manual.py

The pages are copies of the tracked Markdown files, in their folders, so that
their links hold. The flags come from the options of each program, the API from
docstrings. The site is build/site; `python .ci/manual.py --serve` shows it.
"""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT))

from bert.commands import flags as flags_lib  # noqa: E402
from tests.support import documented_commands as documented  # noqa: E402

_BUILD = _ROOT / "build"
_PAGES = ("*.md", "*.png", "*.ipynb", "LICENSE", "CITATION.cff", "*.flags")
# What programs of other people import.
API = {
    "modeling": ("config", "bert", "heads", "layers", "losses", "checkpoints"),
    "vocab": ("tokenization", "word_memory"),
    "bert.models": ("folder", "description"),
    "bert.serving": ("exporting", "loading"),
    "bert.training": ("optimization", "steps", "run"),
    "bert.tasks": ("task", "objectives", "asking"),
}
_ROW = re.compile(r"^\| ([^|]+) \| (\[.+\)) \|$", re.MULTILINE)
# A badge of the repository's own address on GitHub.
_BADGE = re.compile(r"^\[!\[.+\]\(\.\./\.\./.+\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")


def flags_page() -> str:
    """Writes the flags of each program under the headings of its --help."""
    parts = [
        "# Flags\n\n`--[no]NAME` marks switches. Flags of the original have "
        "its names, defaults and meanings, and never change."
    ]
    names = sorted(
        documented.programs(), key=lambda name: ("." in name[:-3], name)
    )
    for name in names:
        program = documented.module(name)
        about = (program.__doc__ or "").strip().partition("\n")[0]
        command = name if name.endswith(".py") else f"-m {name}"
        parts.append(f"## {name}\n\n{about}\n\n    python {command} ...")
        parts += _sections(name, program.Options)
    return "\n\n".join(parts) + "\n"


def _sections(name: str, options: type) -> list[str]:
    """Writes a list of flags for each heading of a program."""
    values = documented.defined(name)
    sections: dict[flags_lib.Heading, list[str]] = {}
    for field in dataclasses.fields(options):
        declared, flag = field.metadata["flag"], values[field.name]
        choices = getattr(flag.parser, "enum_values", None)
        takes = ", ".join(choices) if choices else flag.parser.syntactic_help
        default = f"default {flag.default}"
        if flags_lib.is_required(field):
            default = "required"
        elif flag.default is None:
            default = "no default"
        value = default if flag.boolean or not takes else f"{takes}; {default}"
        about = " ".join(declared.help.split()).replace("<", "&lt;")
        no = "[no]" if flag.boolean else ""
        lines = sections.setdefault(declared.heading, [])
        lines.append(f"- `--{no}{flag.name}` ({value}). {about}")
    return [
        "\n".join([f"### {heading.title}\n", *sections[heading]])
        for heading in sorted(sections, key=lambda heading: heading.place)
    ]


def api_page(package: str) -> str:
    """Writes the page of a package, of which mkdocstrings shows the modules."""
    modules = [
        f"## {package}.{name}\n\n::: {package}.{name}\n    options:\n"
        "      heading_level: 3"
        for name in API[package]
    ]
    return "\n\n".join([f"# {package}", *modules]) + "\n"


def navigation() -> list[dict[str, object]]:
    """Reads the pages and their groups from the table of the README."""
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    text = text[text.index("## Documentation") :]
    groups: list[dict[str, object]] = [{"Home": "README.md"}]
    for title, links in _ROW.findall(text):
        pages = [{name: path} for name, path in _LINK.findall(links)]
        groups.append({title: pages})
    api = [{package: f"api/{package}.md"} for package in API]
    reference = [
        *({"Flags": "flags.md"}, *api),
        *({"Contributing": "CONTRIBUTING.md"}, {"Changes": "CHANGELOG.md"}),
    ]
    return [*groups, {"Reference": reference}]


def write_pages(folder: pathlib.Path) -> None:
    """Writes all pages of the site to a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "ls-files", "--", *_PAGES]
    listed = subprocess.run(
        command, cwd=_ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        # Material takes .github for a hidden folder, and leaves it out.
        target = folder / name.replace(".github/", "github/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            text = (_ROOT / name).read_text(encoding="utf-8")
            text = _BADGE.sub("", text)
            target.write_text(text.replace(".github/", "github/"))
        else:
            shutil.copyfile(_ROOT / name, target)
    shutil.copyfile(_ROOT / ".ci/manual.css", folder / "manual.css")
    (folder / "flags.md").write_text(flags_page())
    (folder / "api").mkdir()
    for package in API:
        (folder / f"api/{package}.md").write_text(api_page(package))


def main() -> None:
    """Builds the site, or serves it."""
    pages = _BUILD / "pages"
    write_pages(pages)
    config = _BUILD / "mkdocs.yml"
    settings = {
        "INHERIT": "../.ci/mkdocs.yml",
        "docs_dir": "pages",
        "site_dir": "site",
        "nav": navigation(),
    }
    config.write_text(json.dumps(settings, indent=2))
    action = ["serve"] if "--serve" in sys.argv else ["build", "--strict"]
    command = [sys.executable, "-m", "mkdocs", *action, "-f", str(config)]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()

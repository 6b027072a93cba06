"""Moves a branch made before `bert/` existed into it: files, imports, names.

    python .ci/move_packages.py && git add -A

Run it on the branch, then rebase: the moved files are those of main.
"""

import pathlib
import re
import subprocess

_ROOMS = "commands|corpus|files|models|serving|tasks|training"
# Modules of record files, which were in training/.
_RECORDS = (
    "example_encoder|pretraining_records|record_checks|record_files"
    "|record_frames|record_index|record_order|records|sidecars"
)
_TEXT = {".py", ".md", ".toml", ".yml", ".sh", ".ipynb", ".txt", ".flags"}


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    return shown.stdout.splitlines()


def _destination(name: str) -> str:
    prefix = "tests/" if name.startswith("tests/") else ""
    inner = name[len(prefix) :]
    if not re.match(rf"({_ROOMS})/", inner):
        return name
    inner = re.sub(
        rf"^training/((?:test_)?(?:{_RECORDS}))\.py$", r"records/\1.py", inner
    )
    inner = inner.replace("tasks/masked_lm/", "tasks/pretraining/", 1)
    return f"{prefix}bert/{inner}"


def _imports(text: str) -> str:
    """Rewrites `from training import a, b`, also over several lines."""

    def split(match: re.Match[str]) -> str:
        indent, test, names = match["indent"], match["test"] or "", match[0]
        names = names.split(" import ", 1)[1].strip().strip("()")
        entries = [name.strip() for name in names.split(",") if name.strip()]
        moved = [
            name
            for name in entries
            if re.fullmatch(_RECORDS, name.split()[0].removeprefix("test_"))
        ]
        kept = [name for name in entries if name not in moved]
        return "\n".join(
            f"{indent}from {test}bert.{room} import ({', '.join(group)})"
            if len(group) > 1
            else f"{indent}from {test}bert.{room} import {group[0]}"
            for room, group in (("records", moved), ("training", kept))
            if group
        )

    text = re.sub(
        r"^(?P<indent>[ ]*)from (?P<test>tests\.)?training import "
        r"(?:\([^)]*\)|[^\n(]+)",
        split,
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(
        rf"^(\s*from )(tests\.)?((?:{_ROOMS})(?:\.\w+)*)( import )",
        lambda m: f"{m[1]}{m[2] or ''}bert.{m[3]}{m[4]}",
        text,
        flags=re.MULTILINE,
    )
    return text


def _names(text: str) -> str:
    """Rewrites paths and dotted names of modules in prose and strings."""
    text = re.sub(
        rf"(?<![\w/.-])(tests/)?training/((?:test_)?(?:{_RECORDS}))\.py",
        r"\1bert/records/\2.py",
        text,
    )
    text = re.sub(
        rf"(?<![\w/.-])(tests/)?({_ROOMS})/(?=(?:\w+/)*\w+\.py\b)",
        r"\1bert/\2/",
        text,
    )
    text = re.sub(rf"`training\.({_RECORDS})\b", r"`bert.records.\1", text)
    text = re.sub(rf"`({_ROOMS})\.(?=[a-z_]+[.`])", r"`bert.\1.", text)
    text = re.sub(rf"(python -m )({_ROOMS})\.", r"\1bert.\2.", text)
    return text.replace("tasks/masked_lm", "tasks/pretraining").replace(
        "tasks.masked_lm", "tasks.pretraining"
    )


def main() -> None:
    """Moves the files that git tracks, then rewrites what names them."""
    for name in _git("ls-files"):
        new = _destination(name)
        if new != name:
            pathlib.Path(new).parent.mkdir(parents=True, exist_ok=True)
            _git("mv", name, new)
    pathlib.Path("bert/records").mkdir(parents=True, exist_ok=True)
    for package in ("bert", "bert/records"):
        pathlib.Path(package, "__init__.py").touch()
    for name in _git("ls-files"):
        path = pathlib.Path(name)
        if path.suffix not in _TEXT and name != ".ci/run":
            continue
        if name in {".ci/move_packages.py", "CHANGELOG.md"}:
            continue
        if "golden/" in name:
            continue
        text = path.read_text(encoding="utf-8")
        moved = _names(text)
        if path.suffix in {".py", ".md", ".ipynb"}:
            moved = _imports(moved)
        if moved != text:
            path.write_text(moved, encoding="utf-8")


if __name__ == "__main__":
    main()

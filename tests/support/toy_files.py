"""Small files that tests write and read."""

import gzip
import json
import pathlib
from collections.abc import Iterable
from typing import Any


def write_json(path: pathlib.Path | str, value: Any) -> str:
    """Writes a file of JSON; returns its name."""
    pathlib.Path(path).write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def read_json(path: pathlib.Path | str) -> Any:
    """Reads a file of JSON, which may be compressed."""
    content = pathlib.Path(path).read_bytes()
    is_compressed = str(path).endswith(".gz")
    return json.loads(gzip.decompress(content) if is_compressed else content)


def change_json(path: pathlib.Path | str, **entries: Any) -> None:
    """Gives some entries of an object other values."""
    write_json(path, {**read_json(path), **entries})


def write_lines(path: pathlib.Path | str, lines: Iterable[str]) -> str:
    """Writes lines, such as the entries of a vocabulary; returns the name."""
    text = "".join(f"{line}\n" for line in lines)
    pathlib.Path(path).write_text(text, encoding="utf-8")
    return str(path)


def write_json_lines(path: pathlib.Path | str, values: Iterable[Any]) -> str:
    """Writes each value as a line of JSON; returns the name."""
    return write_lines(path, map(json.dumps, values))


def read_lines(path: pathlib.Path | str) -> list[str]:
    """Reads the lines of a file, without their ends."""
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


def read_json_lines(path: pathlib.Path | str) -> list[Any]:
    """Reads a file that has a value of JSON in each line."""
    return [json.loads(line) for line in read_lines(path)]


def write(path: pathlib.Path, content: str | bytes) -> str:
    """Writes a file, in a folder that is made if missing; returns its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_text = isinstance(content, str)
    path.write_bytes(content.encode() if is_text else content)
    return str(path)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Reads all files of a folder, but for locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }


def names(folder: pathlib.Path) -> set[str]:
    """Lists the names in a folder."""
    return {path.name for path in folder.iterdir()}

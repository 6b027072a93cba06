"""Downloads the released checkpoints, GLUE, SQuAD, XNLI and SWAG by name.

For example:

  python -m tools.download --list
  python -m tools.download bert_base_uncased glue --output_dir=data

An interrupted download resumes. Files that are already there are kept.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator, Sequence

from absl import logging

from commands import flags, program
from files import json_text, paths, progress, transfer, writing
from tasks.classification import glue
from tools import download_checks, download_table

ARGUMENTS = "NAME ..."
_ORIGIN = "download.json"
_ARCHIVES = ".downloads"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    list: bool = flags.Group.ACTIONS.switch(
        "List all downloads and their folders."
    )
    output_dir: str | None = flags.Group.FILES.optional(
        "Folder for all downloads."
    )
    keep_archive: bool = flags.Group.FILES.switch(
        "Keep zip files, in .downloads, after unpacking."
    )
    sha256: str | None = flags.Group.FILES.optional(
        "Expected hash of the download; for a single file."
    )
    mirror: str | None = flags.Group.FILES.optional(
        "Address such as https://mirror.example/path, which replaces https:// "
        "and the host of each address."
    )


def run(names: Sequence[str], options: Options) -> None:
    """Fetches items by name; if one fails, the others are still fetched.

    Raises:
        OSError: the only item could not be fetched.
        ValueError: a name, a flag or a fetched file is invalid; or some of
            several items could not be fetched.
    """
    if not names:
        raise ValueError(
            "Name what to fetch, for example bert_base_uncased; --list lists "
            "everything."
        )
    if not options.output_dir:
        raise ValueError("Give the folder to write to with --output_dir.")
    items = list(
        dict.fromkeys(i for name in names for i in download_table.find(name))
    )
    if options.sha256 and (len(items) > 1 or len(items[0].urls) > 1):
        raise ValueError(
            "--sha256 is the hash of one file; the number of files is "
            f"{sum(len(item.urls) for item in items)}."
        )
    failures = []
    for item in items:
        try:
            logging.info("%s", _install(item, options.output_dir, options))
        except (OSError, ValueError) as error:
            if len(items) == 1:
                raise
            failures.append(f"{item.name}: {error}")
            logging.error("%s", failures[-1])
    if failures:
        raise ValueError(
            f"{len(failures)} of {len(items)} could not be fetched:\n"
            + "\n".join(failures)
        )


def _install(
    item: download_table.Item, output_dir: str, options: Options
) -> str:
    """Fetches, checks and unpacks one item, unless it exists.

    An archive is unpacked into a temporary folder, checked, and then renamed,
    so that a folder of its name is always complete.

    Returns:
        A line about the result.
    """
    if item.kind == download_table.FILES:
        return _install_files(item, output_dir, options)
    if item.kind == download_table.CHECKPOINTS:
        return _install_checkpoints(item, output_dir, options)
    folder = os.path.join(output_dir, item.folder)
    if _is_there(item, folder, options.sha256):
        return f"{item.name}: already in {folder}"
    with _archive(item, output_dir, options) as archive:
        found = _unpack(item, archive.path, archive, folder)
    return f"{item.name}: in {folder}{found}"


def _install_files(
    item: download_table.Item, output_dir: str, options: Options
) -> str:
    folder = os.path.join(output_dir, item.folder)
    fetched = []
    for url in item.urls:
        name = url.rpartition("/")[2]
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.path.getsize(path):
            _check_held(path)
            _check_hash(path, paths.sha256(path), options.sha256)
        else:
            _fetch_file(_address(url, options), path, options)
            fetched.append(name)
    if item.name == "mrpc" and download_checks.missing(folder, item.files):
        try:
            counts = glue.prepare_mrpc(folder)
        except ValueError:  # The files do not fit together.
            for name in fetched:
                os.remove(os.path.join(folder, name))
            raise
        fetched += counts
        logging.info("%s: rows made: %s", folder, counts)
    if not fetched:
        return f"{item.name}: already in {folder}"
    return f"{item.name}: {', '.join(fetched)} in {folder}"


def _install_checkpoints(
    item: download_table.Item, output_dir: str, options: Options
) -> str:
    """Fetches one archive of several checkpoints; each gets its folder."""
    members = {
        member.urls[0].rpartition("/")[2]: member
        for member in download_table.MINIATURES
    }
    folders = {
        name: os.path.join(output_dir, member.folder)
        for name, member in members.items()
    }
    wanted = [
        name
        for name, member in members.items()
        if not _is_there(member, folders[name], None)
    ]
    if not wanted:
        return f"{item.name}: all {len(members)} already there"
    whole = os.path.join(output_dir, item.name)
    with (
        _archive(item, output_dir, options) as archive,
        writing.temporary_folder(whole) as unpacked,
    ):
        transfer.unpack(archive.path, unpacked)
        inner = {
            name: os.path.join(parent, name)
            for parent, _, names in os.walk(unpacked)
            for name in names
            if name.endswith(".zip")
        }
        absent = sorted(set(wanted) - set(inner))
        if absent:
            raise ValueError(
                f"{archive.url}: must contain {', '.join(absent)}; got "
                f"{', '.join(sorted(inner)) or 'no archive'}."
            )
        for name in wanted:
            _unpack(members[name], inner[name], archive, folders[name])
            logging.info("%s: in %s", members[name].name, folders[name])
    return f"{item.name}: {len(wanted)} checkpoints in {output_dir}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Archive:
    """A zip file and its origin."""

    path: str
    url: str
    sha256: str


@contextlib.contextmanager
def _archive(
    item: download_table.Item, output_dir: str, options: Options
) -> Iterator[_Archive]:
    """Fetches the archive of an item; removes it once it is unpacked.

    An invalid archive is removed if this call fetched it.
    """
    is_package = item.kind == download_table.PACKAGE
    url = item.urls[0] if is_package else _address(item.urls[0], options)
    # Two archives have the same name, so the item's name precedes it.
    name = f"{item.name}.zip"
    path = os.path.join(output_dir, _ARCHIVES, name)
    was_there = os.path.isfile(path)
    if is_package and not was_there:
        _fetch_package(item.requirement, path)
    if is_package or was_there:
        digest = paths.sha256(path)
        _check_hash(path, digest, options.sha256 or item.sha256)
    else:
        digest = _fetch(url, path, options)
    logging.info("%s: SHA-256 %s", name, digest)
    try:
        yield _Archive(path=path, url=url, sha256=digest)
    except ValueError as error:
        # Damaged, or intact with unexpected content.
        if was_there:
            raise ValueError(
                f"{error} Move {path} away to fetch it again."
            ) from error
        os.remove(path)
        raise ValueError(
            f"{error} It came from {url} and was deleted; run the same command "
            "again."
        ) from error
    if not options.keep_archive:
        os.remove(path)
        with contextlib.suppress(OSError):  # It may contain other archives.
            os.rmdir(os.path.dirname(path))


def _unpack(
    item: download_table.Item, path: str, origin: _Archive, folder: str
) -> str:
    """Unpacks and checks a zip file; returns a description of its content.

    `origin` is the archive that was fetched: this one or the one around it.
    """
    with writing.whole_folder(folder) as unpacked:
        transfer.unpack(path, unpacked, item.inside)
        download_checks.check_files(unpacked, item.files, item.urls[0])
        found = ""
        if item.kind in (download_table.CHECKPOINT, download_table.PACKAGE):
            # Before the first import of TensorFlow, which reads the checkpoint.
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
            found = ": " + download_checks.check_checkpoint(
                unpacked, item.folder
            )
        writing.write_json(
            os.path.join(unpacked, _ORIGIN),
            {"url": origin.url, "sha256": origin.sha256},
        )
    return found


def _is_there(
    item: download_table.Item, folder: str, sha256: str | None
) -> bool:
    """Returns whether an item is installed; refuses an incomplete folder."""
    if not os.path.isdir(folder) or not os.listdir(folder):
        return False
    absent = download_checks.missing(folder, item.files)
    if absent:
        raise ValueError(
            f"{folder} exists, but without {', '.join(absent)}. Move it away, "
            "or choose another --output_dir."
        )
    for name in item.files:
        _check_held(os.path.join(folder, name))
    if sha256 is not None:
        path = os.path.join(folder, _ORIGIN)
        if not os.path.isfile(path):
            raise ValueError(
                f"{folder} exists, but was not downloaded by this tool, so "
                "there is no hash to compare. Move it away to download it."
            )
        _check_hash(folder, json_text.read_object(path).get("sha256"), sha256)
    return True


def _check_held(path: str) -> None:
    """Checks the content of an existing file."""
    try:
        download_checks.check_content(path)
    except ValueError as error:
        raise ValueError(f"{error} Move it away to fetch it again.") from error


def _check_hash(path: str, held: str | None, expected: str | None) -> None:
    if expected is not None and held != expected.lower():
        raise ValueError(
            f"{path}: must come from a file of SHA-256 {expected.lower()}; "
            f"it is from {held}. Move it away to fetch it again."
        )


def _fetch_file(url: str, path: str, options: Options) -> None:
    """Fetches one file into its place, and checks its content."""
    try:
        digest = _fetch(url, path, options)
    except transfer.TransferError as error:
        raise transfer.TransferError(
            f"{error} You can also save a file of another origin as {path}."
        ) from error
    try:
        download_checks.check_content(path)
    except ValueError as error:
        os.remove(path)
        raise ValueError(f"{error} It came from {url}; deleted.") from error
    logging.info("%s: SHA-256 %s", path, digest)


def _address(url: str, options: Options) -> str:
    if options.mirror is None:
        return url
    return options.mirror.rstrip("/") + urllib.parse.urlsplit(url).path


def _fetch(url: str, path: str, options: Options) -> str:
    """Fetches a file, logging progress; returns its SHA-256."""
    hooks = transfer.Hooks(report=_reporter(os.path.basename(path)))
    return transfer.fetch(url, path, sha256=options.sha256, hooks=hooks)


def _fetch_package(requirement: str, path: str) -> None:
    """Fetches the wheel of a package into a file, by pip.

    Raises:
        OSError: pip is missing, or could not fetch it.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        logging.info("pip download --no-deps %s", requirement)
        done = subprocess.run(
            [*command, "--dest", folder, requirement],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
        if done.returncode or len(wheels) != 1:
            lines = done.stderr.strip().splitlines() or ["no wheel"]
            errors = [line for line in lines if line.startswith("ERROR")]
            raise OSError(
                f"pip could not download {requirement} "
                f"({(errors or lines)[-1]}). You can also save a wheel of "
                f"another origin as {path}."
            )
        os.replace(os.path.join(folder, wheels[0]), path)


def _reporter(name: str) -> Callable[[int, int | None], None]:
    """Returns a function that logs the progress of a transfer.

    Bytes of an earlier call are not counted in its speed.
    """
    report, before = progress.Progress(), None

    def log(done: int, size: int | None) -> None:
        nonlocal before
        before = done if before is None else min(before, done)
        missing = None if size is None else size - before
        report(f"bytes of {name}", done - before, missing)

    return log


def main(options: Options, names: Sequence[str]) -> None:
    """Runs the tool with the names and flags of the command line."""
    if options.list:
        sys.stdout.write(download_table.listing())
    else:
        run(names, options)


if __name__ == "__main__":
    program.start(Options, main, arguments=ARGUMENTS)

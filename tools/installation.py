"""Downloads put where the scripts look for them, whole and checked or not.

An archive is unpacked aside, checked, and takes its folder's name at last; so
a folder of that name is a whole one.
"""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterable, Iterator

from absl import logging

from files import archives, json_text, paths, transfer, writing
from tasks.classification import mrpc
from tools import download_checks, download_table

_ORIGIN = "download.json"
_ARCHIVES = ".downloads"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Places:
    """Where downloads come from and go to.

    Attributes:
        output_dir: folder below which everything goes.
        keep_archive: whether to keep zip files that were unpacked.
        sha256: what the one file fetched must have, if known.
        address: what an address of the table is fetched from.
        hooks: what happens beside the transfer of a file of this name.
    """

    output_dir: str
    keep_archive: bool = False
    sha256: str | None = None
    address: Callable[[str], str] = lambda url: url
    hooks: Callable[[str], transfer.Hooks] = lambda name: transfer.Hooks()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Archive:
    """A zip file that was fetched."""

    path: str
    url: str
    sha256: str


def install(item: download_table.Item, places: Places) -> str:
    """Fetches, checks and unpacks one item, unless it is there.

    Returns:
        What was done, in a line.

    Raises:
        OSError: it cannot be fetched or written.
        ValueError: what came, or what lies in its place, is not as it must be.
    """
    if item.kind == download_table.FILES:
        return _install_files(item, places)
    if item.kind == download_table.CHECKPOINTS:
        return _install_checkpoints(item, places)
    folder = os.path.join(places.output_dir, item.folder)
    if _is_there(item, folder, places.sha256):
        return f"{item.name}: already in {folder}"
    with _fetched(item, places) as archive, _aside(folder) as partial:
        archives.unpack(archive.path, partial)
        found = _checked(item, partial)
        _finish(archive, partial, folder)
    return f"{item.name}: in {folder}{found}"


def _install_files(item: download_table.Item, places: Places) -> str:
    """Fetches files as they are, each unless it is there."""
    folder = os.path.join(places.output_dir, item.folder)
    fetched = []
    for url in item.urls:
        name = url.rpartition("/")[2]
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.path.getsize(path):
            _check_held(path)
            _check_hash(path, paths.sha256(path), places.sha256)
            continue
        _fetch_file(places.address(url), path, places)
        fetched.append(name)
    if item.name == "mrpc" and download_checks.missing(folder, item.files):
        counts = _prepare_mrpc(folder, fetched)
        fetched += counts
        logging.info("%s: rows made: %s", folder, counts)
    if not fetched:
        return f"{item.name}: already in {folder}"
    return f"{item.name}: {', '.join(fetched)} in {folder}"


def _check_held(path: str) -> None:
    """Checks the content of a file that was there before."""
    try:
        download_checks.check_content(path)
    except ValueError as error:
        raise ValueError(f"{error} Move it away to fetch it again.") from error


def _prepare_mrpc(folder: str, fetched: Iterable[str]) -> dict[str, int]:
    """Makes the files of MRPC; removes what was fetched if they do not fit."""
    try:
        return mrpc.prepare(folder)
    except ValueError:
        for name in fetched:
            os.remove(os.path.join(folder, name))
        raise


def _fetch_file(url: str, path: str, places: Places) -> None:
    """Fetches one file into its place; keeps it if it looks like itself."""
    name = os.path.basename(path)
    try:
        digest = transfer.fetch(
            url, path, sha256=places.sha256, hooks=places.hooks(name)
        )
    except transfer.TransferError as error:
        raise transfer.TransferError(
            f"{error} A file of another origin is taken too: save it as {path}."
        ) from error
    try:
        download_checks.check_content(path)
    except ValueError as error:
        os.remove(path)
        raise ValueError(f"{error} It came from {url}; deleted.") from error
    logging.info("%s: SHA-256 %s", path, digest)


def _install_checkpoints(item: download_table.Item, places: Places) -> str:
    """Fetches one archive of several checkpoints; each gets its folder."""
    members = {
        member.urls[0].rpartition("/")[2]: member
        for member in download_table.MINIATURES
    }
    folders = {
        name: os.path.join(places.output_dir, member.folder)
        for name, member in members.items()
    }
    wanted = [
        name
        for name, member in members.items()
        if not _is_there(member, folders[name], None)
    ]
    if not wanted:
        return f"{item.name}: all {len(members)} already there"
    whole = os.path.join(places.output_dir, item.name)
    with _fetched(item, places) as archive, _aside(whole) as outer:
        archives.unpack(archive.path, outer)
        inner = _inner_archives(outer)
        absent = sorted(set(wanted) - set(inner))
        if absent:
            raise ValueError(
                f"{archive.url}: must hold {', '.join(absent)}; it holds "
                f"{', '.join(sorted(inner)) or 'no archive'}."
            )
        for name in wanted:
            with _aside(folders[name]) as partial:
                archives.unpack(inner[name], partial)
                _checked(members[name], partial)
                _finish(archive, partial, folders[name])
            logging.info("%s: in %s", members[name].name, folders[name])
    return f"{item.name}: {len(wanted)} checkpoints in {places.output_dir}"


def _inner_archives(folder: str) -> dict[str, str]:
    """Finds the zip files below a folder, by their names."""
    return {
        name: os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith(".zip")
    }


def _is_there(
    item: download_table.Item, folder: str, sha256: str | None
) -> bool:
    """Tells whether an item was installed; refuses to touch half of one."""
    if not os.path.isdir(folder) or not os.listdir(folder):
        return False
    absent = download_checks.missing(folder, item.files)
    if absent:
        raise ValueError(
            f"{folder} is there, but without {', '.join(absent)}. Move it "
            "away, or choose another --output_dir."
        )
    for name in item.files:
        _check_held(os.path.join(folder, name))
    if sha256 is not None:
        path = os.path.join(folder, _ORIGIN)
        if not os.path.isfile(path):
            raise ValueError(
                f"{folder} is there, but was not fetched by this tool, so "
                "there is no hash to compare. Move it away to fetch it."
            )
        _check_hash(folder, json_text.read_object(path).get("sha256"), sha256)
    return True


def _check_hash(path: str, held: str | None, expected: str | None) -> None:
    if expected is not None and held != expected.lower():
        raise ValueError(
            f"{path}: must come from a file of SHA-256 {expected.lower()}; "
            f"it is from {held}. Move it away to fetch it again."
        )


@contextlib.contextmanager
def _fetched(item: download_table.Item, places: Places) -> Iterator[_Archive]:
    """Fetches the archive of an item; removes it once it was unpacked.

    One that is not what it should be is removed, too, if it was fetched.
    """
    url = places.address(item.urls[0])
    # Two archives have one name, so the item's stands before it.
    name = f"{item.name}.zip"
    path = os.path.join(places.output_dir, _ARCHIVES, name)
    was_there = os.path.isfile(path)
    if was_there:
        digest = paths.sha256(path)
        _check_hash(path, digest, places.sha256)
    else:
        digest = transfer.fetch(
            url, path, sha256=places.sha256, hooks=places.hooks(name)
        )
    logging.info("%s: SHA-256 %s", name, digest)
    try:
        yield _Archive(path=path, url=url, sha256=digest)
    except ValueError as error:
        # Damaged, or sound with other content than it should have.
        if was_there:
            raise ValueError(
                f"{error} Move {path} away to fetch it again."
            ) from error
        os.remove(path)
        raise ValueError(
            f"{error} It came from {url} and was deleted; run the same command "
            "again."
        ) from error
    if not places.keep_archive:
        os.remove(path)
        with contextlib.suppress(OSError):  # Others may still be there.
            os.rmdir(os.path.dirname(path))


@contextlib.contextmanager
def _aside(folder: str) -> Iterator[str]:
    """Names an empty folder beside `folder`; removes it in the end."""
    parent, name = os.path.split(os.path.abspath(folder))
    partial = os.path.join(parent, f".{name}.{os.getpid()}.partial")
    writing.remove_remains(os.path.join(parent, name))
    os.makedirs(partial)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _checked(item: download_table.Item, folder: str) -> str:
    """Checks what was unpacked; returns what is to be said of it."""
    download_checks.check_files(folder, item.files, item.urls[0])
    if item.kind != download_table.CHECKPOINT:
        return ""
    # Before TensorFlow, which reads the checkpoint, is first imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    found = download_checks.check_checkpoint(folder, item.folder)
    return f": {found}"


def _finish(archive: _Archive, partial: str, folder: str) -> None:
    """Notes where a folder comes from and gives it its name."""
    writing.write_json(
        os.path.join(partial, _ORIGIN),
        {"url": archive.url, "sha256": archive.sha256},
    )
    os.rename(partial, folder)
    writing.sync_folder(os.path.dirname(os.path.abspath(folder)))

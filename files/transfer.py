"""Resumable, atomic HTTP downloads, and safe unpacking of zip files.

Proxies are taken from the environment (`https_proxy`, `no_proxy`) by `urllib`.
"""

import http.client
import os
import pathlib
import re
import shutil
import ssl
import stat
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from files import json_text, locking, paths, writing

_CHUNK_BYTES = 1 << 18
# Consecutive attempts without a received byte; waits double from one second.
_ATTEMPTS = 4
_TIMEOUT_SECONDS = 60
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)$")
_RANGE_NOT_SATISFIABLE = 416
# The state of a partial file, stored next to it: its address, its strong ETag
# or date on the server, and the size of the complete file. Without a validator
# the download is not resumed, because the file may have changed.
_NONE = type(None)
_STATE = {"url": str, "validator": (str, _NONE), "size": (int, _NONE)}
# Transient errors: timeouts, too many requests, server errors.
_TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_ADVICE = {
    403: "It may be closed to this network, or have moved",
    404: "The file is no longer there",
    407: "The proxy requires a user name and password: set them in https_proxy",
}
_JUNK_FOLDER = "__MACOSX"
_JUNK_FILES = frozenset({".DS_Store", "Icon\r", "Thumbs.db"})


class TransferError(OSError):
    """A file could not be downloaded; the message has the cause and remedy."""


class _TransientError(Exception):
    """A failure that may not recur in another attempt."""


def fetch(
    url: str,
    path: str,
    *,
    sha256: str | None = None,
    report: Callable[[int, int | None], object] = lambda done, size: None,
) -> str:
    """Downloads a file; resumes an interrupted download.

    The file is renamed once it is complete and its hash, if given, is correct.
    Until then it is `.NAME.download` in the same folder.

    Args:
        url: `http://` or `https://`.
        path: the destination; its folder is created if missing.
        sha256: of the content, in hexadecimal.
        report: called with the number of bytes received and the size, if known.

    Returns:
        The SHA-256 of the content.

    Raises:
        TransferError: the server refuses, or the connection fails repeatedly.
        OSError: the disk is full, there is no permission to write, or another
            process downloads the same file.
        ValueError: the address is not HTTP, or the hash differs.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"An address must begin with http(s)://; got {url!r}.")
    folder, name = os.path.split(path)
    os.makedirs(folder or ".", exist_ok=True)
    partial = os.path.join(folder, f".{name}.download")
    with locking.lock(f"{partial}.lock", path):
        try:
            with open(partial, "ab") as file:
                _receive_all(url, file, f"{partial}.json", report)
                os.fsync(file.fileno())
        except BaseException:
            # A refused address leaves no file behind.
            if not os.path.getsize(partial):
                os.remove(partial)
            raise
        digest = paths.sha256(partial)
        if sha256 is not None and digest != sha256.lower():
            os.remove(partial)
            raise ValueError(
                f"{url}: its SHA-256 must be {sha256.lower()}; got {digest}. "
                "The file was deleted. Compare the hash with its source, or "
                "fetch again."
            )
        os.replace(partial, path)
        paths.remove(f"{partial}.json")
    writing.sync(folder)
    return digest


def _receive_all(
    url: str, file: BinaryIO, state_path: str, report: Callable
) -> None:
    """Completes a partial file, in as many attempts as needed."""
    failures = 0
    while True:
        before = file.seek(0, os.SEEK_END)
        try:
            _receive(url, file, state_path, report)
            return
        except _TransientError as error:
            have = file.seek(0, os.SEEK_END)
            failures = 1 if have > before else failures + 1
            if failures == _ATTEMPTS:
                kept = f" The same command resumes after {have:,} bytes."
                raise TransferError(
                    f"{url}: {error}, {_ATTEMPTS} times in a row. Check the "
                    "network connection, and whether it needs https_proxy."
                    + (kept if have else "")
                ) from error
            time.sleep(2.0 ** (failures - 1))


def _receive(
    url: str, file: BinaryIO, state_path: str, report: Callable
) -> None:
    """Requests the rest of a partial file once, and appends it."""
    have = file.seek(0, os.SEEK_END)
    known = _read_state(state_path, url)
    # Sizes and ranges count the bytes of the file, not of a compressed form.
    headers = {"Accept-Encoding": "identity"}
    if not known.get("validator"):
        have = 0
    elif have:
        headers["Range"] = f"bytes={have}-"
        headers["If-Range"] = known["validator"]
    try:
        response = _open(urllib.request.Request(url, headers=headers))
    except urllib.error.HTTPError as error:
        with error:
            if known and have and error.code == _RANGE_NOT_SATISFIABLE:
                sent = error.headers.get("Content-Range", "")
                match = _CONTENT_RANGE.match(sent)
                if have == (_number(match[2]) if match else known.get("size")):
                    return  # The file was already complete.
        raise _refusal(url, error, have) from error
    with response:
        _check_redirection(url, response.geturl())
        start, size = _span(url, response, have)
        file.seek(file.truncate(start))
        validator = _validator(response)
        state = {"url": url, "validator": validator, "size": size}
        writing.write_json(state_path, state)
        if size is not None:
            folder = os.path.dirname(state_path) or "."
            writing.require_space(folder, size - start, f"Fetching {url}")
        report(start, size)
        while chunk := _read(response):
            file.write(chunk)
            report(file.tell(), size)
        file.flush()
    if size is not None and file.tell() != size:
        raise _TransientError(
            f"the connection ended after {file.tell():,} of {size:,} bytes"
        )


def _open(request: urllib.request.Request) -> Any:
    """Sends a request; converts network failures to `TransferError`."""
    try:
        return urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise TransferError(
                f"{request.full_url}: the server's certificate is not trusted "
                f"({reason}). Behind an intercepting proxy, set SSL_CERT_FILE "
                "to its certificate."
            ) from error
        raise _TransientError(f"no connection ({reason})") from error


def _read(response: Any) -> bytes:
    # Failures of the network are transient; those of the disk are not.
    try:
        return response.read(_CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _TransientError(f"the connection broke ({error!r})") from error


def _refusal(
    url: str, error: urllib.error.HTTPError, have: int
) -> TransferError | _TransientError:
    answer = f"the server responded {error.code} {error.reason}"
    if error.code in _TRANSIENT_STATUSES:
        return _TransientError(answer)
    if error.code == _RANGE_NOT_SATISFIABLE and have:
        return TransferError(
            f"{url}: {answer}: the file on the server is shorter than the "
            "partial file. Delete the partial file and download again."
        )
    advice = _ADVICE.get(error.code, "Check whether a browser can open it")
    return TransferError(f"{url}: {answer}. {advice}.")


def _check_redirection(asked: str, came_from: str) -> None:
    if asked.startswith("https:") and not came_from.startswith("https:"):
        raise TransferError(
            f"{asked}: redirects to {came_from}, which is not encrypted; "
            "refused."
        )


def _span(url: str, response: Any, have: int) -> tuple[int, int | None]:
    """Returns the first byte of a response, and the size of the file."""
    if response.status != http.client.PARTIAL_CONTENT:
        return 0, _number(response.headers.get("Content-Length"))
    value = response.headers.get("Content-Range", "")
    match = _CONTENT_RANGE.match(value)
    if not match or match[1] is None or int(match[1]) != have:
        raise TransferError(
            f"{url}: requested the bytes from {have} on; the server responded "
            f"with Content-Range {value!r}. Delete the partial file and "
            "fetch again."
        )
    return have, _number(match[2])


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _validator(response: Any) -> str | None:
    """Returns the value for If-Range: a strong ETag, else the date."""
    tag = response.headers.get("ETag")
    if tag and not tag.startswith("W/"):
        return tag
    return response.headers.get("Last-Modified")


def _read_state(path: str, url: str) -> dict[str, Any]:
    """Reads the state of a partial file of this address; empty if unknown."""
    try:
        state = json_text.read_object(path)
    except (FileNotFoundError, ValueError):
        return {}
    is_of_url = json_text.has_shape(state, _STATE) and state["url"] == url
    return state if is_of_url else {}


class DamagedArchiveError(ValueError):
    """A file is not a zip file, or is damaged."""


def unpack(path: str, folder: str, inside: str = "") -> list[str]:
    """Unpacks a zip file, without a common top-level folder.

    Every file is checked against its CRC in the archive. Metadata of desktop
    systems (`__MACOSX`, `.DS_Store`, `Icon`) is skipped.

    Args:
        path: the zip file.
        folder: the destination; created if missing.
        inside: a folder of the archive, such as "a/b/", to which unpacking is
            limited.

    Returns:
        The names of the files below `folder`, sorted.

    Raises:
        DamagedArchiveError: the file is not a zip file, or is damaged; a part
            of it may have been unpacked.
        OSError: the disk is full, or there is no permission to write.
        ValueError: an entry is encrypted, a link, a duplicate or outside the
            folder.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [
                entry
                for entry in archive.infolist()
                if not entry.is_dir()
                and not _is_junk(entry.filename)
                and entry.filename.startswith(inside)
            ]
            names = _names(path, entries, inside.count("/"))
            os.makedirs(folder, exist_ok=True)
            total = sum(entry.file_size for entry in entries)
            writing.require_space(folder, total, f"Unpacking {path}")
            for entry, name in zip(entries, names, strict=True):
                target = os.path.join(folder, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with archive.open(entry) as source, open(target, "xb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        zlib.error,
    ) as error:
        raise DamagedArchiveError(
            f"{path}: not a zip file, or damaged ({error})."
        ) from error
    return sorted(names)


def _is_junk(name: str) -> bool:
    parts = name.split("/")
    return parts[0] == _JUNK_FOLDER or parts[-1] in _JUNK_FILES


def _names(
    path: str, entries: Iterable[zipfile.ZipInfo], depth: int
) -> list[str]:
    """Returns the names of entries, without `depth` leading folders.

    A common top-level folder is removed as well.
    """
    split = [_parts(path, entry)[depth:] for entry in entries]
    if not split:
        raise ValueError(
            f"{path}: the zip file must contain files; it is empty."
        )
    around = {parts[0] if len(parts) > 1 else None for parts in split}
    if len(around) == 1 and None not in around:
        split = [parts[1:] for parts in split]
    names = ["/".join(parts) for parts in split]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path}: contains {twice!r} twice; refused.")
    return names


def _parts(path: str, entry: zipfile.ZipInfo) -> tuple[str, ...]:
    """Splits the name of an entry, after checking that it is safe."""
    # `orig_filename` is the stored name, before Python corrects it.
    name = entry.orig_filename
    parts = pathlib.PurePosixPath(name).parts
    windows = pathlib.PureWindowsPath(name)
    if (
        not parts
        or ".." in parts
        or name.startswith("/")
        or "\\" in name
        or "\0" in name
        or windows.drive
    ):
        raise ValueError(
            f"{path}: contains {name!r}, which may be outside the folder; "
            "refused."
        )
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise ValueError(f"{path}: contains {name!r}, a link; refused.")
    if entry.flag_bits & 1:
        raise ValueError(f"{path}: contains {name!r}, encrypted; refused.")
    return parts

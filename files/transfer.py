"""Files fetched over HTTP: resumed where they were left, whole or not at all.

Proxies are those of the environment (`https_proxy`, `no_proxy`), as `urllib`
reads them.
"""

import contextlib
import dataclasses
import http.client
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import BinaryIO

from files import destinations, json_text, locking, paths, writing

_CHUNK_BYTES = 1 << 18
# In a row, without a byte between them; the waits double from one second.
_ATTEMPTS = 4
_TIMEOUT_SECONDS = 60
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)$")
# Answers that may be others a moment later.
_PASSING_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


class TransferError(OSError):
    """A file could not be fetched; the message says why and what to do."""


class _BrokenOffError(Exception):
    """The connection failed in a way that may pass."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _State:
    """What is known of a partial file, kept beside it.

    Attributes:
        url: where it comes from.
        validator: its strong ETag or date on the server; without one the
            file is not resumed, as its parts might be of two versions.
        size: of the whole file in bytes; None if the server does not say.
    """

    url: str
    validator: str | None
    size: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hooks:
    """What happens beside a transfer.

    Attributes:
        report: called with the number of bytes received and the size, if known.
        sleep: waits for some seconds before another attempt.
    """

    report: Callable[[int, int | None], None] = lambda done, size: None
    sleep: Callable[[float], None] = time.sleep


def partial_path(path: str) -> str:
    """Names the file beside `path` that holds the bytes received so far."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.download")


def fetch(
    url: str,
    path: str,
    *,
    sha256: str | None = None,
    hooks: Hooks | None = None,
) -> str:
    """Fetches a file; resumes where an earlier call was broken off.

    The file takes its name once all its bytes are there and their hash, if
    given, is right. Until then they are in `partial_path(path)`.

    Args:
        url: `http://` or `https://`.
        path: where to; its folder is made if missing.
        sha256: of the content, in hexadecimal.
        hooks: what happens beside it.

    Returns:
        The SHA-256 of the content.

    Raises:
        TransferError: the server refuses, or the connection fails again and
            again.
        OSError: there is no room, or no right to write, or another process
            fetches the same file.
        ValueError: the address is none, or the hash differs.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"An address must begin with http(s)://; got {url!r}.")
    hooks = hooks or Hooks()
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    partial = partial_path(path)
    with locking.lock(f"{partial}.lock", path):
        try:
            with open(partial, "ab") as file:
                _receive_all(url, file, f"{partial}.json", hooks)
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
    writing.sync_folder(os.path.dirname(path))
    return digest


def _receive_all(url: str, file: BinaryIO, state_path: str, hooks: Hooks):
    """Fills a partial file up, in as many attempts as it takes."""
    failures = 0
    while True:
        before = file.seek(0, os.SEEK_END)
        try:
            _receive(url, file, state_path, hooks)
            return
        except _BrokenOffError as error:
            have = file.seek(0, os.SEEK_END)
            failures = 1 if have > before else failures + 1
            if failures == _ATTEMPTS:
                kept = f" The same command resumes after {have:,} bytes."
                raise TransferError(
                    f"{url}: {error}, {_ATTEMPTS} times in a row. Is there a "
                    "network, and does it need https_proxy?"
                    + (kept if have else "")
                ) from error
            hooks.sleep(2.0 ** (failures - 1))


def _receive(url: str, file: BinaryIO, state_path: str, hooks: Hooks) -> None:
    """Asks once for what is missing of a file, and appends it.

    Raises:
        TransferError: the server refuses.
        _BrokenOffError: less came than was promised.
    """
    have = file.seek(0, os.SEEK_END)
    known = _read_state(state_path, url)
    if have and (known is None or known.validator is None):
        have = 0
    with _asked(url, have, known) as response:
        if response is None:  # Everything was there already.
            return
        start, size = _span(url, response, have)
        file.seek(file.truncate(start))
        state = _State(url=url, validator=_validator(response), size=size)
        writing.write_json(state_path, dataclasses.asdict(state))
        if size is not None:
            folder = os.path.dirname(state_path) or "."
            destinations.require_space(folder, size - start, f"Fetching {url}")
        done = _copy(response, file, size, hooks)
    if size is not None and done != size:
        raise _BrokenOffError(
            f"the connection ended after {done:,} of {size:,} bytes"
        )


def _copy(response, file: BinaryIO, size: int | None, hooks: Hooks) -> int:
    """Appends what comes; returns the bytes that are there then."""
    done = file.tell()
    hooks.report(done, size)
    while chunk := _chunk(response):
        file.write(chunk)
        done += len(chunk)
        hooks.report(done, size)
    file.flush()
    return done


def _chunk(response) -> bytes:
    # Only the network's failures pass; those of the disk do not.
    try:
        return response.read(_CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(f"the connection broke ({error!r})") from error


@contextlib.contextmanager
def _asked(url: str, have: int, known: _State | None) -> Iterator:
    """Opens a request for all that follows the first `have` bytes.

    Yields:
        The response, or None if nothing follows.
    """
    # Sizes and ranges count the bytes of the file, not of a compressed form.
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        headers["If-Range"] = known.validator
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            if have and error.code == 416 and _size_of(error, known) == have:
                yield None
                return
        raise _refusal(url, error, have) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise TransferError(
                f"{url}: the server's certificate is not trusted ({reason}). "
                "Behind a proxy that reads along, name its certificate in "
                "SSL_CERT_FILE."
            ) from error
        raise _BrokenOffError(f"no connection ({reason})") from error
    with response:
        _check_redirection(url, response.geturl())
        yield response


def _refusal(
    url: str, error: urllib.error.HTTPError, have: int
) -> TransferError | _BrokenOffError:
    answer = f"the server answers {error.code} {error.reason}"
    if error.code in _PASSING_STATUSES:
        return _BrokenOffError(answer)
    if error.code == 416 and have:
        return TransferError(
            f"{url}: {answer}: it has fewer bytes than are here already. "
            "Delete the partial file and fetch again."
        )
    advice = {
        403: "It may be closed to this network, or have moved",
        404: "The file is no longer there",
        407: "The proxy asks for a name and password: put them in https_proxy",
    }.get(error.code, "See whether a browser can open it")
    return TransferError(f"{url}: {answer}. {advice}.")


def _check_redirection(asked: str, came_from: str) -> None:
    if asked.startswith("https:") and not came_from.startswith("https:"):
        raise TransferError(
            f"{asked}: leads to {came_from}, which is not encrypted; refused."
        )


def _span(url: str, response, have: int) -> tuple[int, int | None]:
    """Says where a response starts in the file, and how long the file is."""
    if response.status != http.client.PARTIAL_CONTENT:
        return 0, _number(response.headers.get("Content-Length"))
    value = response.headers.get("Content-Range", "")
    match = _CONTENT_RANGE.match(value)
    if not match or match[1] is None or int(match[1]) != have:
        raise TransferError(
            f"{url}: asked for the bytes from {have} on; the server answers "
            f"with Content-Range {value!r}. Delete the partial file and "
            "fetch again."
        )
    return have, _number(match[2])


def _size_of(error: urllib.error.HTTPError, known: _State) -> int | None:
    match = _CONTENT_RANGE.match(error.headers.get("Content-Range", ""))
    return _number(match[2]) if match else known.size


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _validator(response) -> str | None:
    """Returns what If-Range may name: a strong ETag, or else the date."""
    tag = response.headers.get("ETag")
    if tag and not tag.startswith("W/"):
        return tag
    return response.headers.get("Last-Modified")


def _read_state(path: str, url: str) -> _State | None:
    """Reads the state of a partial file of this address, if there is one."""
    try:
        state = _State(**json_text.read_object(path))
    except (FileNotFoundError, ValueError, TypeError):
        # Without a state the file is fetched from its start.
        return None
    return state if state.url == url else None

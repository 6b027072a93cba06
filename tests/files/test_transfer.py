import errno
import hashlib
import json
import os
import shutil
import urllib.request
from unittest import mock

import pytest

from files import locking, transfer
from tests import web_server

_CONTENT = bytes(range(256)) * 2000  # 512,000 bytes: two reads.
_HASH = hashlib.sha256(_CONTENT).hexdigest()


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with web_server.running() as running:
        running.files["/file.bin"] = _CONTENT
        yield running


def _fetch(site, tmp_path, **more):
    waits = []
    path = tmp_path / "folder" / "file.bin"
    with mock.patch.object(transfer.time, "sleep", waits.append):
        digest = transfer.fetch(f"{site.address}/file.bin", str(path), **more)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert os.listdir(path.parent) == ["file.bin"]
    return path.read_bytes(), waits


def _partial(tmp_path):
    return tmp_path / "folder" / ".file.bin.download"


def _break_off(site, tmp_path, after, then=0):
    """Leaves the first bytes of the file as a broken transfer would."""
    site.cut_after = [after, then, then, then]
    words = rf"4 times in a row.*resumes after {after:,} bytes\.$"
    with pytest.raises(transfer.TransferError, match=words):
        _fetch(site, tmp_path)
    assert _partial(tmp_path).stat().st_size == after
    site.requests.clear()


def test_file_arrives_whole(site, tmp_path):
    assert _fetch(site, tmp_path) == (_CONTENT, [])
    assert site.requests == [("/file.bin", None)]


def test_empty_file_arrives(site, tmp_path):
    site.files["/file.bin"] = b""
    assert _fetch(site, tmp_path) == (b"", [])


def test_a_broken_connection_is_resumed(site, tmp_path):
    site.cut_after = [300_000, 100_000]
    assert _fetch(site, tmp_path) == (_CONTENT, [1.0, 1.0])
    ranges = [asked for _, asked in site.requests]
    assert ranges == [None, "bytes=300000-", "bytes=400000-"]


def test_a_later_call_resumes_the_first(site, tmp_path):
    _break_off(site, tmp_path, 200_000)
    assert _fetch(site, tmp_path)[0] == _CONTENT
    assert site.requests == [("/file.bin", "bytes=200000-")]


def test_a_date_allows_resuming_without_an_etag(site, tmp_path):
    site.sends = {"date", "length"}
    _break_off(site, tmp_path, 200_000)
    assert _fetch(site, tmp_path)[0] == _CONTENT
    assert site.requests == [("/file.bin", "bytes=200000-")]


def test_file_that_changed_meanwhile_is_fetched_from_its_start(site, tmp_path):
    site.sends = {"etag", "length"}
    _break_off(site, tmp_path, 200_000)
    site.files["/file.bin"] = changed = _CONTENT[::-1]
    assert _fetch(site, tmp_path)[0] == changed


def test_server_without_ranges_sends_everything_again(site, tmp_path):
    _break_off(site, tmp_path, 200_000)
    site.knows_ranges = False
    assert _fetch(site, tmp_path)[0] == _CONTENT


def test_without_etag_or_date_nothing_is_resumed(site, tmp_path):
    site.sends = {"length"}
    _break_off(site, tmp_path, 200_000, then=200_000)
    assert _fetch(site, tmp_path)[0] == _CONTENT
    assert site.requests == [("/file.bin", None)]


def test_a_partial_file_of_another_address_is_not_resumed(site, tmp_path):
    _break_off(site, tmp_path, 200_000)
    state = _partial(tmp_path).with_name(".file.bin.download.json")
    told = json.loads(state.read_text())
    state.write_text(json.dumps(told | {"url": "http://elsewhere/file.bin"}))
    assert _fetch(site, tmp_path)[0] == _CONTENT
    assert site.requests == [("/file.bin", None)]


def test_all_bytes_but_not_the_name_need_no_more_bytes(site, tmp_path):
    _break_off(site, tmp_path, len(_CONTENT) - 1)
    with _partial(tmp_path).open("ab") as file:
        file.write(_CONTENT[-1:])
    assert _fetch(site, tmp_path)[0] == _CONTENT
    assert site.requests == [("/file.bin", f"bytes={len(_CONTENT)}-")]


def test_more_bytes_than_the_server_has_are_named(site, tmp_path):
    _break_off(site, tmp_path, len(_CONTENT) - 1)
    with _partial(tmp_path).open("ab") as file:
        file.write(b"too much")
    with pytest.raises(
        transfer.TransferError, match="shorter than the partial"
    ):
        _fetch(site, tmp_path)


def test_busy_server_is_asked_again_after_growing_waits(site, tmp_path):
    site.statuses = [503, 429, 500]
    assert _fetch(site, tmp_path) == (_CONTENT, [1.0, 2.0, 4.0])


def test_server_that_stays_busy_is_named(site, tmp_path):
    site.statuses = [503] * 4
    with pytest.raises(transfer.TransferError, match="503 Service Unav"):
        _fetch(site, tmp_path)


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "no longer there"), (403, "closed to this network")],
)
def test_refusal_is_not_tried_again_and_leaves_nothing(
    site, tmp_path, status, words
):
    site.statuses = [status]
    with pytest.raises(transfer.TransferError, match=words):
        _fetch(site, tmp_path)
    assert len(site.requests) == 1
    assert os.listdir(tmp_path / "folder") == []


def test_a_missing_server_shows_how_to_resume(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with web_server.running() as site:
        closed = site
    with pytest.raises(transfer.TransferError, match=r"https_proxy\.$"):
        _fetch(closed, tmp_path)


def test_right_hash_in_any_case_is_accepted(site, tmp_path):
    content, _ = _fetch(site, tmp_path, sha256=_HASH.upper())
    assert content == _CONTENT


def test_wrong_hash_leaves_no_file(site, tmp_path):
    with pytest.raises(ValueError, match=f"got {_HASH}"):
        _fetch(site, tmp_path, sha256="0" * 64)
    folder = tmp_path / "folder"
    assert not (folder / "file.bin").exists()
    assert not _partial(tmp_path).exists()


def test_redirection_is_followed(site, tmp_path):
    site.files["/moved"] = b"here"
    site.statuses = [302]
    assert _fetch(site, tmp_path)[0] == b"here"


def test_redirection_away_from_encryption_is_refused():
    with pytest.raises(transfer.TransferError, match="not encrypted"):
        transfer._check_redirection("https://a/x", "http://b/x")


def test_full_disk_is_named_before_anything_is_written(
    site, tmp_path, monkeypatch
):
    usage = shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(OSError, match=r"needs 0\.5 MB .* 0\.0 MB are free"):
        _fetch(site, tmp_path)
    assert os.stat(tmp_path / "folder").st_size
    assert not (tmp_path / "folder" / "file.bin").exists()


def test_failure_to_write_is_not_taken_for_one_of_the_network(
    site, tmp_path, monkeypatch
):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transfer.writing, "write_json", refuse)
    with pytest.raises(OSError, match="No space left"):
        _fetch(site, tmp_path)
    assert len(site.requests) == 1


def test_two_fetches_of_one_file_do_not_mix(site, tmp_path):
    partial = _partial(tmp_path)
    partial.parent.mkdir()
    with (
        locking.lock(f"{partial}.lock", "file.bin"),
        pytest.raises(locking.LockedError, match=r"file\.bin is in use by"),
    ):
        _fetch(site, tmp_path)


def test_proxy_of_the_environment_is_used(site, tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", site.address)
    monkeypatch.setattr(urllib.request, "_opener", None)
    site.files["http://far.example/file.bin"] = b"through the proxy"
    path = tmp_path / "file.bin"
    transfer.fetch("http://far.example/file.bin", str(path))
    assert path.read_bytes() == b"through the proxy"
    monkeypatch.setattr(urllib.request, "_opener", None)


def test_progress_counts_what_was_there_before(site, tmp_path):
    _break_off(site, tmp_path, 200_000)
    reports = []
    transfer.fetch(
        f"{site.address}/file.bin",
        str(tmp_path / "folder" / "file.bin"),
        report=lambda *counts: reports.append(counts),
    )
    assert reports[0] == (200_000, 512_000)
    assert reports[-1] == (512_000, 512_000)


def test_other_addresses_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"begin with http\(s\)://"):
        transfer.fetch("file:///etc/passwd", str(tmp_path / "file.bin"))
    assert os.listdir(tmp_path) == []

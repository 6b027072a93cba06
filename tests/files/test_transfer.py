"""Downloads, resumed and checked, and archives that are unpacked."""

import errno
import hashlib
import json
import os
import shutil
import stat
import urllib.request
import zipfile
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


@pytest.mark.parametrize("content", [_CONTENT, b""])
def test_file_arrives_whole(site, tmp_path, content):
    site.files["/file.bin"] = content
    assert _fetch(site, tmp_path) == (content, [])
    assert site.requests == [("/file.bin", None)]


def test_a_broken_connection_is_resumed(site, tmp_path):
    site.cut_after = [300_000, 100_000]
    assert _fetch(site, tmp_path) == (_CONTENT, [1.0, 1.0])
    ranges = [asked for _, asked in site.requests]
    assert ranges == [None, "bytes=300000-", "bytes=400000-"]


@pytest.mark.parametrize(
    ("sends", "is_resumed"),
    [
        ({"etag", "date", "length"}, True),
        ({"date", "length"}, True),
        ({"length"}, False),
    ],
)
def test_a_later_call_resumes_the_first_by_an_etag_or_a_date(
    site, tmp_path, sends, is_resumed
):
    site.sends = sends
    _break_off(site, tmp_path, 200_000, then=0 if is_resumed else 200_000)
    assert _fetch(site, tmp_path)[0] == _CONTENT
    asked = "bytes=200000-" if is_resumed else None
    assert site.requests == [("/file.bin", asked)]


def test_file_that_changed_meanwhile_is_fetched_from_its_start(site, tmp_path):
    site.sends = {"etag", "length"}
    _break_off(site, tmp_path, 200_000)
    site.files["/file.bin"] = changed = _CONTENT[::-1]
    assert _fetch(site, tmp_path)[0] == changed


def test_server_without_ranges_sends_everything_again(site, tmp_path):
    _break_off(site, tmp_path, 200_000)
    site.knows_ranges = False
    assert _fetch(site, tmp_path)[0] == _CONTENT


def test_a_partial_file_of_another_address_is_not_resumed(site, tmp_path):
    _break_off(site, tmp_path, 200_000)
    state = _partial(tmp_path).with_name(".file.bin.download.json")
    told = json.loads(state.read_text())
    state.write_text(json.dumps(told | {"url": "http://elsewhere/file.bin"}))
    assert _fetch(site, tmp_path)[0] == _CONTENT
    assert site.requests == [("/file.bin", None)]


def test_all_bytes_but_not_the_name_need_no_more_bytes(site, tmp_path):
    _break_off(site, tmp_path, len(_CONTENT) - 1)
    whole = _partial(tmp_path).read_bytes() + _CONTENT[-1:]
    # More bytes than the server has are named.
    _partial(tmp_path).write_bytes(whole + b"too much")
    with pytest.raises(transfer.TransferError, match="shorter than the part"):
        _fetch(site, tmp_path)
    site.requests.clear()
    _partial(tmp_path).write_bytes(whole)
    assert _fetch(site, tmp_path)[0] == _CONTENT
    assert site.requests == [("/file.bin", f"bytes={len(_CONTENT)}-")]


def test_busy_server_is_asked_again_after_growing_waits(site, tmp_path):
    site.statuses = [503, 429, 500]
    assert _fetch(site, tmp_path) == (_CONTENT, [1.0, 2.0, 4.0])
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


def test_wrong_hash_leaves_no_file(site, tmp_path):
    content, _ = _fetch(site, tmp_path, sha256=_HASH.upper())
    assert content == _CONTENT
    (tmp_path / "folder/file.bin").unlink()
    with pytest.raises(ValueError, match=f"got {_HASH}"):
        _fetch(site, tmp_path, sha256="0" * 64)
    assert not (tmp_path / "folder/file.bin").exists()
    assert not _partial(tmp_path).exists()


def test_redirection_is_followed_but_not_away_from_encryption(site, tmp_path):
    site.files["/moved"] = b"here"
    site.statuses = [302]
    assert _fetch(site, tmp_path)[0] == b"here"
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


def _zip(path, entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return str(path)


def _zip_bytes(path, entries):
    _zip(path, entries)
    return path.read_bytes()


def _tree(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("entries", "tree"),
    [
        ({"v.txt": "v", "s/x": "x"}, {"v.txt": "v", "s/x": "x"}),
        # A folder around everything is left out; two are both kept.
        ({"u-2/v.txt": "v", "u-2/s/x": "x"}, {"v.txt": "v", "s/x": "x"}),
        ({"one/a": "1", "two/a": "2"}, {"one/a": "1", "two/a": "2"}),
        # Files of desktops are left out.
        (
            {
                **{"MNLI/train.tsv": "t", "MNLI/Icon\r": ""},
                **{"MNLI/.DS_Store": "d", "__MACOSX/MNLI/._train.tsv": "m"},
            },
            {"train.tsv": "t"},
        ),
    ],
)
def test_what_is_unpacked(tmp_path, entries, tree):
    path, folder = _zip(tmp_path / "a.zip", entries), tmp_path / "out"
    assert transfer.unpack(path, str(folder)) == sorted(tree)
    assert _tree(folder) == tree


@pytest.mark.parametrize(
    "name",
    ["../x", "a/../../x", "/etc/x", "a\\..\\x", "C:/x", "a\\x"],
)
def test_entry_that_may_lie_outside_is_refused(tmp_path, name):
    path = _zip(tmp_path / "a.zip", {"a/good": "g", name: "evil"})
    folder = tmp_path / "below" / "out"
    with pytest.raises(ValueError, match="outside the folder"):
        transfer.unpack(path, str(folder))
    assert not folder.exists()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.zip"]


def _link(path):
    link = zipfile.ZipInfo("a/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc/passwd")


def _encrypted(path):
    content = bytearray(_zip_bytes(path, {"secret": "abcdefgh"}))
    # Bit 0 of the flags, in the local and in the central header.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)


def _twice(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "1")
        archive.writestr("x", "2")


def _empty(path):
    _zip(path, {})


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("write", "words"),
    [
        (_link, "'a/link', a link"),
        (_encrypted, "'secret', encrypted"),
        (_twice, "'x' twice"),
        (_empty, "must contain files"),
    ],
)
def test_archive_that_is_not_of_plain_files_is_refused(tmp_path, write, words):
    write(tmp_path / "a.zip")
    with pytest.raises(ValueError, match=words):
        transfer.unpack(str(tmp_path / "a.zip"), str(tmp_path / "out"))


def test_changed_byte_is_found_by_the_crc(tmp_path):
    path = tmp_path / "a.zip"
    content = _zip_bytes(path, {"x": "abcdefgh"})
    path.write_bytes(content.replace(b"abcdefgh", b"abcdefgi"))
    with pytest.raises(transfer.DamagedArchiveError, match="CRC"):
        transfer.unpack(str(path), str(tmp_path / "out"))


@pytest.mark.parametrize("keep", [0, 10, 120])
def test_part_of_an_archive_is_named(tmp_path, keep):
    path = tmp_path / "a.zip"
    content = _zip_bytes(path, {"x": "y" * 200})
    path.write_bytes(content[:keep])
    with pytest.raises(
        transfer.DamagedArchiveError, match=r"a\.zip: not a zip"
    ):
        transfer.unpack(str(path), str(tmp_path / "out"))


def test_full_disk_is_named_before_anything_is_unpacked(tmp_path, monkeypatch):
    path = _zip(tmp_path / "a.zip", {"x": "y" * 2_000_000})
    usage = shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(OSError, match=r"Unpacking .* needs 2\.0 MB"):
        transfer.unpack(path, str(tmp_path / "out"))
    assert _tree(tmp_path / "out") == {}

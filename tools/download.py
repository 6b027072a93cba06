"""Downloads the released checkpoints, GLUE, SQuAD, XNLI and SWAG by name.

For example:

  python -m tools.download --list
  python -m tools.download bert_base_uncased glue --output_dir=data

An interrupted download resumes. Files that are already there are kept.
"""

import codecs
import contextlib
import dataclasses
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence

from absl import logging

from commands import flags, program
from files import json_text, paths, progress, transfer, writing
from modeling import config as config_lib
from modeling import name_tables
from tasks.classification import glue
from tools import download_table
from vocab import tokenization

ARGUMENTS = "NAME ..."
_ORIGIN = "download.json"
_ARCHIVES = ".downloads"
_CHECKPOINT = "bert_model.ckpt"
_SIZES = re.compile(r"L-(\d+)_H-(\d+)_A-(\d+)")
_FLOAT_BYTES = 4
# The start of web pages, after comments; no data set starts like this.
_WEB_PAGE = re.compile(rb"<(!doctype|html|head|meta|script|\?xml|!--)", re.I)
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_HEAD_BYTES = 1 << 16

_Origin = dict[str, str]  # Address and hash of what was fetched.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    list: bool = flags.Group.ACTIONS.switch(
        "List all downloads and their folders."
    )
    output_dir: str | None = flags.Group.FILES.optional(
        "Folder for all downloads."
    )
    keep_archive: bool = flags.Group.FILES.switch(
        "Keep zip files, in .downloads, after unpacking."
    )
    sha256: str | None = flags.Group.FILES.optional(
        "Expected hash of the download; for a single file."
    )
    mirror: str | None = flags.Group.FILES.optional(
        "Address such as https://mirror.example/path, which replaces https:// "
        "and the host of each address."
    )


def run(options: Options, names: Sequence[str]) -> None:
    """Fetches items by name, or lists them all.

    If one fails, the others are still fetched.

    Raises:
        OSError: the only item could not be fetched.
        ValueError: a name, a flag or a fetched file is invalid; or some of
            several items could not be fetched.
    """
    if options.list:
        sys.stdout.write(download_table.listing())
        return
    if not names:
        raise ValueError(
            "Name what to fetch, for example bert_base_uncased; --list lists "
            "everything."
        )
    if not options.output_dir:
        raise ValueError("Give the folder to write to with --output_dir.")
    if paths.is_remote(options.output_dir):
        raise ValueError(
            f"--output_dir must be a local folder; got {options.output_dir}."
        )
    items = list(
        dict.fromkeys(i for name in names for i in download_table.find(name))
    )
    if options.sha256 and (len(items) > 1 or len(items[0].urls) > 1):
        raise ValueError(
            "--sha256 is the hash of one file; the number of files is "
            f"{sum(len(item.urls) for item in items)}."
        )
    packages = [i.name for i in items if i.kind == download_table.PACKAGE]
    if options.mirror and packages:
        raise ValueError(
            f"--mirror has no effect for {', '.join(packages)}, which pip "
            "downloads; set the index of pip instead (PIP_INDEX_URL)."
        )
    failures = []
    for item in items:
        try:
            logging.info("%s", _install(item, options.output_dir, options))
        except (OSError, ValueError) as error:
            if len(items) == 1:
                raise
            failures.append(f"{item.name}: {error}")
            logging.error("%s", failures[-1])
    if failures:
        raise ValueError(
            f"{len(failures)} of {len(items)} could not be fetched:\n"
            + "\n".join(failures)
        )


def _install(
    item: download_table.Item, output_dir: str, options: Options
) -> str:
    """Fetches, checks and unpacks one item, unless it exists.

    An archive is unpacked into a temporary folder, checked, and then renamed,
    so that a folder of its name is always complete. Returns a line about the
    result.
    """
    if item.kind == download_table.FILES:
        return _install_files(item, output_dir, options)
    if item.kind == download_table.CHECKPOINTS:
        return _install_checkpoints(item, output_dir, options)
    folder = os.path.join(output_dir, item.folder)
    if _is_there(item, folder, options.sha256):
        return f"{item.name}: already in {folder}"
    with _archive(item, output_dir, options) as (path, origin):
        found = _unpack(item, path, origin, folder)
    return f"{item.name}: in {folder}{found}"


def _install_files(
    item: download_table.Item, output_dir: str, options: Options
) -> str:
    folder = os.path.join(output_dir, item.folder)
    fetched = []
    for url in item.urls:
        name = url.rpartition("/")[2]
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.path.getsize(path):
            _check_held(path)
            _check_hash(path, paths.sha256(path), options.sha256)
        else:
            _fetch_file(_address(url, options), path, options)
            fetched.append(name)
    if item.name == "mrpc" and _missing(folder, item.files):
        try:
            counts = glue.prepare_mrpc(folder)
        except ValueError:  # The files do not fit together.
            for name in fetched:
                os.remove(os.path.join(folder, name))
            raise
        fetched += counts
        logging.info("%s: rows made: %s", folder, counts)
    if not fetched:
        return f"{item.name}: already in {folder}"
    return f"{item.name}: {', '.join(fetched)} in {folder}"


def _install_checkpoints(
    item: download_table.Item, output_dir: str, options: Options
) -> str:
    """Fetches one archive of several checkpoints; each gets its folder."""
    wanted = {
        member.urls[0].rpartition("/")[2]: member
        for member in download_table.MINIATURES
        if not _is_there(member, os.path.join(output_dir, member.folder))
    }
    if not wanted:
        count = len(download_table.MINIATURES)
        return f"{item.name}: all {count} already there"
    whole = os.path.join(output_dir, item.name)
    with (
        _archive(item, output_dir, options) as (path, origin),
        writing.temporary_folder(whole) as unpacked,
    ):
        transfer.unpack(path, unpacked)
        found = pathlib.Path(unpacked).rglob("*.zip")
        inner = {path.name: str(path) for path in found}
        absent = sorted(wanted.keys() - inner.keys())
        if absent:
            raise ValueError(
                f"{origin['url']}: must contain {', '.join(absent)}; got "
                f"{', '.join(sorted(inner)) or 'no archive'}."
            )
        for name, member in wanted.items():
            folder = os.path.join(output_dir, member.folder)
            _unpack(member, inner[name], origin, folder)
            logging.info("%s: in %s", member.name, folder)
    return f"{item.name}: {len(wanted)} checkpoints in {output_dir}"


@contextlib.contextmanager
def _archive(
    item: download_table.Item, output_dir: str, options: Options
) -> Iterator[tuple[str, _Origin]]:
    """Yields the path and origin of an archive; removes it once it is unpacked.

    An invalid archive is removed if this call fetched it.
    """
    is_package = item.kind == download_table.PACKAGE
    url = item.urls[0] if is_package else _address(item.urls[0], options)
    # Two archives have the same name, so the item's name precedes it.
    name = f"{item.name}.zip"
    path = os.path.join(output_dir, _ARCHIVES, name)
    was_there = os.path.isfile(path)
    if is_package and not was_there:
        _fetch_package(item.requirement, path)
    if is_package or was_there:
        digest = paths.sha256(path)
        _check_hash(path, digest, options.sha256 or item.sha256)
    else:
        digest = _fetch(url, path, options)
    logging.info("%s: SHA-256 %s", name, digest)
    try:
        yield path, {"url": url, "sha256": digest}
    except ValueError as error:
        # Damaged, or intact with unexpected content.
        if was_there:
            raise ValueError(
                f"{error} Move {path} away to fetch it again."
            ) from error
        os.remove(path)
        raise ValueError(
            f"{error} It came from {url} and was deleted; run the same command "
            "again."
        ) from error
    if not options.keep_archive:
        os.remove(path)
        with contextlib.suppress(OSError):  # It may contain other archives.
            os.rmdir(os.path.dirname(path))


def _unpack(
    item: download_table.Item, path: str, origin: _Origin, folder: str
) -> str:
    """Unpacks and checks a zip file; returns a description of its content."""
    with writing.whole_folder(folder) as unpacked:
        transfer.unpack(path, unpacked, item.inside)
        absent = _missing(unpacked, item.files)
        if absent:
            raise ValueError(
                f"{item.urls[0]}: must contain {', '.join(item.files)}; "
                f"{', '.join(absent)} missing or empty. It may be another "
                "version."
            )
        for name in item.files:
            _check_content(os.path.join(unpacked, name))
        found = ""
        if item.kind in (download_table.CHECKPOINT, download_table.PACKAGE):
            # Before the first import of TensorFlow, which reads the checkpoint.
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
            found = ": " + _check_checkpoint(unpacked, item.folder)
        writing.write_json(os.path.join(unpacked, _ORIGIN), origin)
    return found


def _is_there(
    item: download_table.Item, folder: str, sha256: str | None = None
) -> bool:
    """Returns whether an item is installed; refuses an incomplete folder."""
    if not os.path.isdir(folder) or not os.listdir(folder):
        return False
    absent = _missing(folder, item.files)
    if absent:
        raise ValueError(
            f"{folder} exists, but without {', '.join(absent)}. Move it away, "
            "or choose another --output_dir."
        )
    for name in item.files:
        _check_held(os.path.join(folder, name))
    if sha256 is not None:
        path = os.path.join(folder, _ORIGIN)
        if not os.path.isfile(path):
            raise ValueError(
                f"{folder} exists, but was not downloaded by this tool, so "
                "there is no hash to compare. Move it away to download it."
            )
        _check_hash(folder, json_text.read_object(path).get("sha256"), sha256)
    return True


def _check_held(path: str) -> None:
    try:
        _check_content(path)
    except ValueError as error:
        raise ValueError(f"{error} Move it away to fetch it again.") from error


def _check_hash(path: str, held: str | None, expected: str | None) -> None:
    if expected is not None and held != expected.lower():
        raise ValueError(
            f"{path}: must come from a file of SHA-256 {expected.lower()}; "
            f"it is from {held}. Move it away to fetch it again."
        )


def _fetch_file(url: str, path: str, options: Options) -> None:
    try:
        digest = _fetch(url, path, options)
    except transfer.TransferError as error:
        raise transfer.TransferError(
            f"{error} You can also save a file of another origin as {path}."
        ) from error
    try:
        _check_content(path)
    except ValueError as error:
        os.remove(path)
        raise ValueError(f"{error} It came from {url}; deleted.") from error
    logging.info("%s: SHA-256 %s", path, digest)


def _address(url: str, options: Options) -> str:
    if options.mirror is None:
        return url
    return options.mirror.rstrip("/") + urllib.parse.urlsplit(url).path


def _fetch(url: str, path: str, options: Options) -> str:
    """Fetches a file, logging progress; returns its SHA-256."""
    report = _reporter(os.path.basename(path))
    return transfer.fetch(url, path, sha256=options.sha256, report=report)


def _fetch_package(requirement: str, path: str) -> None:
    """Fetches the wheel of a package into a file, by pip."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        logging.info("pip download --no-deps %s", requirement)
        done = subprocess.run(
            [*command, "--dest", folder, requirement],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
        if done.returncode or len(wheels) != 1:
            lines = done.stderr.strip().splitlines() or ["no wheel"]
            errors = [line for line in lines if line.startswith("ERROR")]
            raise OSError(
                f"pip could not download {requirement} "
                f"({(errors or lines)[-1]}). You can also save a wheel of "
                f"another origin as {path}."
            )
        os.replace(os.path.join(folder, wheels[0]), path)


def _reporter(name: str) -> Callable[[int, int | None], None]:
    """Returns a function that logs the progress of a transfer.

    Bytes of an earlier call are not counted in its speed.
    """
    report, before = progress.Progress(), None

    def log(done: int, size: int | None) -> None:
        nonlocal before
        before = done if before is None else min(before, done)
        missing = None if size is None else size - before
        report(f"bytes of {name}", done - before, missing)

    return log


# --------------------------------------------------------------------- Checks


def _missing(folder: str, files: Iterable[str]) -> list[str]:
    """Lists the files that are missing or empty."""
    return [
        name
        for name in files
        if not os.path.isfile(path := os.path.join(folder, name))
        or not os.path.getsize(path)
    ]


def _check_content(path: str) -> None:
    """Checks that a file is not empty, not a web page, and JSON if named so."""
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8)
    if not head:
        raise ValueError(f"{path}: is empty.")
    if _WEB_PAGE.match(_COMMENT.sub(b"", head).lstrip()):
        raise ValueError(
            f"{path}: is a web page. Does the network require a login?"
        )
    if path.endswith(".json"):
        json_text.read(path)


def _check_checkpoint(folder: str, name: str) -> str:
    """Checks that configuration, vocabulary and weights belong together.

    Reads the index of the checkpoint, not the weights, whose bytes the
    archive's CRC covers. Returns a description of the model, in a line.

    Args:
        folder: the release's, with `bert_config.json`, `vocab.txt` and
            `bert_model.ckpt`; or Hugging Face's.
        name: the release's, which contains the sizes (`..._L-2_H-128_A-2`).
    """
    # Late, for a quick --help: this import takes 10 ms.
    from modeling import checkpoints

    prefix = os.path.join(folder, _CHECKPOINT)
    is_release = os.path.exists(f"{prefix}.index")
    prefix = prefix if is_release else folder
    config = config_lib.BertConfig.from_checkpoint(prefix)
    _check_sizes(config, folder, name)
    vocab_file = os.path.join(folder, "vocab.txt")
    num_lines = len(tokenization.load_vocab(vocab_file))
    if num_lines != config.vocab_size:
        raise ValueError(
            f"{vocab_file} must have the vocab_size of bert_config.json, "
            f"{config.vocab_size} tokens; it has {num_lines}."
        )
    shapes = {
        variable: shape
        for variable, (shape, _) in checkpoints.list_variables(prefix).items()
    }
    checkpoints.check_variables(prefix, config.encoder_shapes(), shapes, [])
    num_layers = name_tables.num_layers(shapes)
    if num_layers > config.num_hidden_layers:
        raise ValueError(
            f"{prefix}: must have the {config.num_hidden_layers} layers of "
            f"bert_config.json; the checkpoint has {num_layers}."
        )
    if is_release:
        _check_data_size(shapes, prefix, checkpoints.files(prefix))
    count = sum(map(math.prod, config.encoder_shapes().values()))
    return (
        f"{config.num_hidden_layers} layers of {config.hidden_size}, "
        f"{config.vocab_size} word pieces, "
        f"{count:,} parameters in the encoder"
    )


def _check_sizes(config: config_lib.BertConfig, folder: str, name: str) -> None:
    match = _SIZES.search(name)
    if not match:
        return
    told = tuple(map(int, match.groups()))
    held = (
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
    )
    if told != held:
        raise ValueError(
            f"{folder}: {name} must have layers, width and heads {told}; its "
            f"bert_config.json has {held}."
        )


def _check_data_size(
    shapes: dict[str, tuple[int, ...]], prefix: str, files: Iterable[str]
) -> None:
    held = sum(os.path.getsize(file) for file in files if ".data-" in file)
    least = _FLOAT_BYTES * sum(math.prod(shape) for shape in shapes.values())
    if held < least:
        raise ValueError(
            f"{prefix}: the data files must have {least:,} bytes by their "
            f"index; they have {held:,}. Delete the folder and download again."
        )


if __name__ == "__main__":
    program.start(Options, run, arguments=ARGUMENTS)

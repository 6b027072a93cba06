"""Fetches the released checkpoints, GLUE, SQuAD, XNLI and SWAG by name.

For example:

  python -m tools.download --list
  python -m tools.download bert_base_uncased glue --output_dir=data

A download that was broken off goes on where it was. What is there already is
left as it is.
"""

import dataclasses
import sys
import urllib.parse
from collections.abc import Callable, Sequence

from absl import logging

from commands import flags, program
from files import progress, transfer
from tools import download_table, installation

ARGUMENTS = "NAME ..."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    list: bool = flags.flag(
        False,
        "List what can be fetched, and where it goes.",
        flags.Group.ACTIONS,
    )
    output_dir: str | None = flags.flag(
        None, "Folder below which everything goes.", flags.Group.FILES
    )
    keep_archive: bool = flags.flag(
        False,
        "Keep zip files, in .downloads, once they are unpacked.",
        flags.Group.FILES,
    )
    sha256: str | None = flags.flag(
        None,
        "Hash that the file to fetch must have; for a single file.",
        flags.Group.FILES,
    )
    mirror: str | None = flags.flag(
        None,
        "Address such as https://mirror.example/path to fetch from in place "
        "of https:// and the host of each address; the rest stays the same.",
        flags.Group.FILES,
    )


def _reporter(name: str) -> Callable[[int, int | None], None]:
    """Makes a function that logs the progress of a transfer.

    Bytes of an earlier call are left out: they say nothing of its speed.
    """
    report, before = progress.Progress(), None

    def log(done: int, size: int | None) -> None:
        nonlocal before
        before = done if before is None else min(before, done)
        missing = None if size is None else size - before
        report(f"bytes of {name}", done - before, missing)

    return log


def run(names: Sequence[str], options: Options) -> None:
    """Fetches what the names mean; one that fails does not keep the others.

    Raises:
        OSError: a single one could not be fetched.
        ValueError: a name, a flag or what came will not do; or several could
            not be fetched.
    """
    if not names:
        raise ValueError(
            "Name what to fetch, for example bert_base_uncased; --list lists "
            "everything."
        )
    if not options.output_dir:
        raise ValueError("Give the folder to write to with --output_dir.")
    items = list(
        dict.fromkeys(i for name in names for i in download_table.find(name))
    )
    if options.sha256 and (len(items) > 1 or len(items[0].urls) > 1):
        raise ValueError(
            "--sha256 is the hash of one file; what is named has "
            f"{sum(len(item.urls) for item in items)}."
        )
    failures = []
    for item in items:
        try:
            logging.info("%s", installation.install(item, _places(options)))
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


def _places(options: Options) -> installation.Places:
    mirror = options.mirror

    def address(url: str) -> str:
        if mirror is None:
            return url
        return mirror.rstrip("/") + urllib.parse.urlsplit(url).path

    def hooks(name: str) -> transfer.Hooks:
        return transfer.Hooks(report=_reporter(name))

    return installation.Places(
        output_dir=options.output_dir,
        keep_archive=options.keep_archive,
        sha256=options.sha256,
        address=address,
        hooks=hooks,
    )


def main(options: Options, names: Sequence[str]) -> None:
    """Runs the tool with the names and flags of the command line."""
    if options.list:
        sys.stdout.write(download_table.listing())
    else:
        run(names, options)


if __name__ == "__main__":
    program.start(Options, main, arguments=ARGUMENTS)

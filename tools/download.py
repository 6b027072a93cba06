"""Fetches the released checkpoints, GLUE, SQuAD, XNLI and SWAG by name.

For example:

  python -m tools.download --list
  python -m tools.download bert_base_uncased glue --output_dir=data

A download that was broken off goes on where it was. What is there already is
left as it is.
"""

import dataclasses
import sys
import time
import urllib.parse
from collections.abc import Sequence

from absl import flags, logging

from commands import flag_groups, program
from commands import flags as flags_lib
from files import space, transfer
from tools import download_table, installation

ARGUMENTS = "NAME ..."
_REPORT_SECONDS = 0.5
# Where lines stay, as in a log file, fewer of them.
_REPORT_SECONDS_IN_FILES = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags` for each."""

    list: bool = False
    output_dir: str | None = None
    sha256: str | None = None
    keep_archive: bool = False
    mirror: str | None = None


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this tool."""
    _define_action_flags(values)
    _define_file_flags(values)


@flag_groups.under(flag_groups.Group.ACTIONS)
def _define_action_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_bool(
        "list", Options.list, "List what can be fetched, and where it goes.",
        flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "output_dir", Options.output_dir,
        "Folder below which everything goes.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "keep_archive", Options.keep_archive,
        "Keep zip files, in .downloads, once they are unpacked.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "sha256", Options.sha256,
        "Hash that the file to fetch must have; for a single file.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "mirror", Options.mirror,
        "Address such as https://mirror.example/path to fetch from in place "
        "of https:// and the host of each address; the rest stays the same.",
        flag_values=values)  # fmt: skip


class ProgressLine:
    """Says on a stream how far a transfer is.

    Args:
        name: of the file.
        stream: a terminal, where one line is written over and over, or any
            other, which gets a line now and then.
    """

    def __init__(self, name: str, stream):
        self._name = name
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._every = (
            _REPORT_SECONDS if self._is_terminal else _REPORT_SECONDS_IN_FILES
        )
        self._start: tuple[float, int] | None = None
        self._last = 0.0

    def report(self, done: int, size: int | None) -> None:
        """Takes note of the bytes there are, and of how many there will be."""
        now = time.monotonic()
        if self._start is None or done < self._start[1]:
            self._start = (now, done)
        if done != size and now - self._last < self._every:
            return
        self._last = now
        seconds, before = now - self._start[0], self._start[1]
        rate = (done - before) / seconds if seconds > 0 else 0.0
        line = f"{self._name}: {progress(done, size, rate)}"
        if self._is_terminal:
            self._stream.write(f"\r{line:79}" + ("\n" if done == size else ""))
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()


def progress(done: int, size: int | None, rate: float) -> str:
    """Writes how far a transfer is.

    Args:
        done: bytes there are.
        size: bytes there will be, if known.
        rate: bytes per second.
    """
    text = space.megabytes(done)
    if size:
        text += f" of {space.megabytes(size)} ({done / size:.0%})"
    if rate and done != size:
        text += f", {space.megabytes(round(rate))}/s"
        if size:
            text += f", {max(0, size - done) / rate:.0f} s left"
    return text


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
        return transfer.Hooks(report=ProgressLine(name, sys.stderr).report)

    return installation.Places(
        output_dir=options.output_dir,
        keep_archive=options.keep_archive,
        sha256=options.sha256,
        address=address,
        hooks=hooks,
    )


def main(argv: list[str]) -> None:
    """Runs the tool with the names and flags of the command line."""
    options = flags_lib.read(Options, flags.FLAGS)
    if options.list:
        sys.stdout.write(download_table.listing())
    else:
        run(argv[1:], options)


if __name__ == "__main__":
    program.start(define_flags, main, arguments=ARGUMENTS)

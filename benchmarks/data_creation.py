"""How fast pre-training data is made, and in how much memory.

  python -m benchmarks.data_creation --text_file=wiki.txt --vocab_file=vocab.txt

Three tables, of as many megabytes of the text as asked for:

- One process, one shard: processor seconds of the plain definition (each rule
  of the release by itself, on strings and lists, of
  `tests/plain_tokenization.py` and `tasks/masked_lm/masked_pairs.py`; its
  records written by protobuf), of the same with this project's tokenizer in
  Python, and of the program, from its start to its end; each time as often as
  `--num_rounds` says, in turns, and the least counts.
- Eight shards: seconds on the clock with one worker and with two.
- Shards of `--shard_documents`: seconds, and the peak memory of all processes
  together, for a quarter of `--largest_megabytes` and for all of it; at last
  the same on Apache Beam, if installed.

Memory is proportional set size (PSS): what processes share counts once.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from absl import flags, logging

from commands import flag_groups, program
from tasks.masked_lm import encoded_corpus, masked_pairs
from tests import plain_tokenization
from training import record_files
from vocab import tokenization

_ROOT = pathlib.Path(__file__).parents[1]
_SEED = 12345
_SAMPLE_EVERY_SECONDS = 0.2
_NUM_SHARDS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured."""

    text_file: str
    vocab_file: str
    megabytes: float = 5.0
    largest_megabytes: float = 200.0
    dupe_factor: int = 5
    shard_documents: int = 1000
    num_rounds: int = 3


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of the benchmark."""
    for name in ("text_file", "vocab_file"):
        flags.DEFINE_string(
            name, None, "As for the program.", required=True, flag_values=values
        )
    flags.DEFINE_float(
        "megabytes", Options.megabytes, "For speed.", flag_values=values
    )
    flags.DEFINE_float(
        "largest_megabytes",
        Options.largest_megabytes,
        "For memory; 0 to leave that out.",
        flag_values=values,
    )
    for name in ("dupe_factor", "shard_documents"):
        flags.DEFINE_integer(
            name,
            getattr(Options, name),
            "As for the program.",
            flag_values=values,
        )
    flags.DEFINE_integer(
        "num_rounds", Options.num_rounds, "For speed.", flag_values=values
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usage:
    """What a command took.

    Attributes:
        seconds: on the clock.
        processor_seconds: of all its processes.
        peak_megabytes: of all its processes at once.
    """

    seconds: float
    processor_seconds: float
    peak_megabytes: float


def plain_tokenizer(
    tokenizer: tokenization.FullTokenizer,
) -> Callable[[str], list[str]]:
    """Returns the plain definition of what a tokenizer does."""
    return functools.partial(
        plain_tokenization.tokenize,
        vocab=tokenizer.vocab,
        do_lower_case=tokenizer.basic_tokenizer.do_lower_case,
    )


def define_records(
    text_file: str, options: Options, *, is_plain_throughout: bool
) -> float:
    """Makes records by the definition; returns the processor seconds.

    Args:
        text_file: the text.
        options: what is measured.
        is_plain_throughout: tokenize by the plain definition too, and not by
            `FullTokenizer`, which has a memory of words.
    """
    import tensorflow as tf

    instance_options = masked_pairs.InstanceOptions(
        dupe_factor=options.dupe_factor
    )
    start = time.process_time()
    tokenizer = tokenization.FullTokenizer(options.vocab_file)
    documents = masked_pairs.tokenize_documents(
        encoded_corpus.read_documents([text_file]),
        plain_tokenizer(tokenizer)
        if is_plain_throughout
        else tokenizer.tokenize,
    )
    instances = masked_pairs.create_training_instances(
        documents,
        list(tokenizer.vocab),
        instance_options,
        random.Random(_SEED),
    )
    with tempfile.TemporaryFile() as file:
        for instance in instances:
            features = masked_pairs.instance_features(
                instance, tokenizer.convert_tokens_to_ids, instance_options
            )
            message = tf.train.Example()
            for name, values in features.items():
                stored = message.features.feature[name]
                is_float = isinstance(values[0], float)
                numbers = stored.float_list if is_float else stored.int64_list
                numbers.value.extend(values)
            file.write(record_files.frame(message.SerializeToString()))
    return time.process_time() - start


def command(
    options: Options, text_file: str, output: str, *more: str
) -> list[str]:
    """Makes the command line of the program."""
    return [
        sys.executable,
        str(_ROOT / "create_pretraining_data.py"),
        f"--input_file={text_file}",
        f"--vocab_file={options.vocab_file}",
        f"--output_file={output}/records",
        f"--dupe_factor={options.dupe_factor}",
        "--verbosity=-1",
        *more,
    ]


def usage_of(arguments: Sequence[str]) -> Usage:
    """Runs a command and measures it.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        peak = [0.0]
        watch = threading.Thread(target=_watch, args=(process, peak))
        watch.start()
        code = process.wait()
        watch.join()
    if code:
        raise subprocess.CalledProcessError(code, arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Usage(
        seconds=time.monotonic() - start,
        processor_seconds=after.ru_utime
        + after.ru_stime
        - before.ru_utime
        - before.ru_stime,
        peak_megabytes=peak[0],
    )


def _watch(process: subprocess.Popen, peak: list[float]) -> None:
    while process.poll() is None:
        used = sum(map(_megabytes, _family(process.pid)))
        peak[0] = max(peak[0], used)
        time.sleep(_SAMPLE_EVERY_SECONDS)


def _family(process: int) -> Iterator[int]:
    yield process
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _megabytes(process: int) -> float:
    try:
        lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:  # It has just ended.
        return 0.0
    (pss,) = [ln for ln in lines.splitlines() if ln.startswith("Pss:")]
    return int(pss.split()[1]) / 1024


@contextlib.contextmanager
def first_megabytes(path: str, megabytes: float) -> Iterator[str]:
    """Gives a file with the beginning of a text, up to an empty line."""
    with open(path, "rb") as file:
        text = file.read(round(megabytes * 1e6))
    with tempfile.NamedTemporaryFile(suffix=".txt") as part:
        part.write(text[: text.rfind(b"\n\n") + 2])
        part.flush()
        yield part.name


def measure_speed(options: Options) -> None:
    """Logs the first two tables."""
    with (
        first_megabytes(options.text_file, options.megabytes) as text,
        tempfile.TemporaryDirectory() as folder,
    ):
        compare_with_definition(text, folder, options)
        compare_workers(text, folder, options)


def compare_with_definition(text: str, folder: str, options: Options) -> None:
    """Logs the first table.

    Args:
        text: the text file.
        folder: where records may be written.
        options: what is measured.
    """
    ways = {
        "program": lambda: (
            usage_of(command(options, text, folder)).processor_seconds
        ),
        "plain definition": functools.partial(
            define_records, text, options, is_plain_throughout=True
        ),
        "the same with FullTokenizer": functools.partial(
            define_records, text, options, is_plain_throughout=False
        ),
    }
    seconds = {name: [] for name in ways}
    for _ in range(options.num_rounds):
        for name, way in ways.items():
            seconds[name].append(way())
    ours = min(seconds["program"])
    for name, each in seconds.items():
        logging.info(
            "one shard, %s: %.2f processor s, %.1f times the program's",
            name,
            min(each),
            min(each) / ours,
        )


def compare_workers(text: str, folder: str, options: Options) -> None:
    """Logs the second table; arguments as above."""
    num_documents = pathlib.Path(text).read_bytes().count(b"\n\n")
    shard = f"--shard_documents={-(-num_documents // _NUM_SHARDS)}"
    one, two = (
        usage_of(
            command(options, text, f"{folder}/{n}", shard, f"--num_workers={n}")
        )
        for n in (1, 2)
    )
    logging.info(
        "%d shards: one worker %.1f s, two %.1f s: %.2f times",
        _NUM_SHARDS,
        one.seconds,
        two.seconds,
        one.seconds / two.seconds,
    )


def measure_memory(options: Options) -> None:
    """Logs the third table."""
    shard = f"--shard_documents={options.shard_documents}"
    ways = {"2 workers": ["--num_workers=2"]}
    if importlib.util.find_spec("apache_beam"):
        ways["Beam, 2 workers"] = [
            *("--runner=DirectRunner", "--", "--direct_num_workers=2"),
            "--direct_running_mode=multi_processing",
        ]
    for way, more in ways.items():
        for megabytes in (
            options.largest_megabytes / 4,
            options.largest_megabytes,
        ):
            with (
                first_megabytes(options.text_file, megabytes) as text,
                tempfile.TemporaryDirectory() as folder,
            ):
                used = usage_of(command(options, text, folder, shard, *more))
            logging.info(
                "%s, %.0f MB: %.0f s, %.0f processor s, peak %.0f MB",
                way,
                megabytes,
                used.seconds,
                used.processor_seconds,
                used.peak_megabytes,
            )


def main(_: list[str]) -> None:
    """Measures and logs."""
    options = Options(
        **{
            field.name: flags.FLAGS[field.name].value
            for field in dataclasses.fields(Options)
        }
    )
    measure_speed(options)
    if options.largest_megabytes:
        measure_memory(options)


if __name__ == "__main__":
    program.start(define_flags, main)

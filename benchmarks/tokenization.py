"""Megabytes of text that each tokenizer cuts in a second of processor time.

  python -m benchmarks.tokenization --text_file=wiki.txt --vocab_file=vocab.txt

Measured on lines of the given file and on as much text of mixed scripts that
it makes. Ours: `fast` is `FastTokenizer.encode`, from strings to arrays of
ids, `offsets` the same with places, `graph` the operations of a served model,
`memory` is `WordMemory.encode`, which needs no TensorFlow, `definition` the
Python of `vocab.tokenization`, with a warm memory of words and without, and
`plain` the same step by step, without tables or memories, as the release
describes it. For comparison: TensorFlow Text's own FastBertTokenizer and, with
`--peers=PYTHON`, Hugging Face tokenizers in that Python. Ours take turns in one
process; the median round counts. `differ` is the number of lines whose ids are
not the definition's.

Processor time is of all threads together, so that a busy machine, or one
with more cores, gives much the same.
"""

import dataclasses
import itertools
import json
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from absl import flags, logging

from commands import flag_groups, program
from files import lines
from serving import fast_tokenization
from tests import plain_tokenization
from vocab import tokenization, word_memory

_BATCH_LINES = 2000
_SEED = 12345
# First and last code points of the letters of some scripts.
_SCRIPTS = (
    *((0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x24F), (0x391, 0x3C9)),
    *((0x410, 0x44F), (0x5D0, 0x5EA), (0x620, 0x64A), (0x905, 0x939)),
    *((0xE01, 0xE2E), (0x3041, 0x3096), (0x30A1, 0x30FA)),
    *((0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F600, 0x1F64F)),
)
_BETWEEN = (" ", " ", " ", " ", ", ", ". ", "\u3001", "-", "\u0301 ", "\u200b")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured."""

    text_file: str
    vocab_file: str
    do_lower_case: bool = True
    megabytes: float = 5.0
    num_rounds: int = 5
    peers: str | None = None


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of the benchmark."""
    flags.DEFINE_string(
        "text_file", None, "UTF-8 text.", required=True, flag_values=values
    )
    flags.DEFINE_string(
        "vocab_file", None, "Vocabulary.", required=True, flag_values=values
    )
    flags.DEFINE_bool(
        "do_lower_case", Options.do_lower_case, "Casing.", flag_values=values
    )
    flags.DEFINE_string(
        "peers",
        Options.peers,
        "A Python that has Hugging Face tokenizers.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "megabytes",
        Options.megabytes,
        "Text to cut in each round.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_rounds", Options.num_rounds, "Rounds.", flag_values=values
    )


def mixed_scripts(num_bytes: int, seed: int) -> list[str]:
    """Makes lines of words of many scripts, together of about that size."""
    rng = random.Random(seed)
    words = []
    for _ in range(20_000):
        script = rng.choice(_SCRIPTS)
        length = rng.randint(1, 9)
        words.append("".join(chr(rng.randint(*script)) for _ in range(length)))
    texts = []
    size = 0
    while size < num_bytes:
        some = rng.choices(words, k=rng.randint(5, 60))
        text = "".join(word + rng.choice(_BETWEEN) for word in some)
        texts.append(text)
        size += len(text.encode("utf-8"))
    return texts


def first_lines(path: str, num_bytes: int) -> list[str]:
    """Reads lines until they have that size together."""
    texts = []
    for text in lines.read_lines(path):
        texts.append(text)
        num_bytes -= len(text.encode("utf-8"))
        if num_bytes <= 0:
            break
    return texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """One of the compared.

    Attributes:
        run: cuts texts; this is what is timed.
        rows: turns what `run` returned into the ids of each text.
    """

    run: Callable[[Sequence[str]], Any]
    rows: Callable[[Any], Iterable[Sequence[int]]]


def tokenizers(options: Options) -> dict[str, Tokenizer]:
    """Makes the tokenizers to compare.

    Raises:
        ValueError: TensorFlow Text cannot use the vocabulary exactly.
    """
    file, lower = options.vocab_file, options.do_lower_case
    fast = fast_tokenization.FastTokenizer(file, lower)
    if not fast.is_fast:
        raise ValueError(f"Nothing to compare: {fast.slow_reason}")
    graph = fast_tokenization.graph_tokenizer(file, lower)
    vocab = fast.definition.vocab
    made = {
        "definition": _definition(lambda: fast.definition),
        "definition, cold": _definition(
            lambda: tokenization.FullTokenizer(file, lower)
        ),
        "plain": _plain(vocab, lower),
        "memory": Tokenizer(
            run=word_memory.WordMemory(file, lower).encode,
            rows=_rows_of_arrays,
        ),
        "fast": Tokenizer(run=fast.encode, rows=_rows_of_arrays),
        "offsets": Tokenizer(
            run=fast.encode_with_offsets, rows=_rows_of_arrays
        ),
        "graph": _batched(graph.tokenize),
        "FastBertTokenizer": _batched(_tensorflow_text(vocab, lower)),
    }
    return made


def _plain(vocab: dict[str, int], do_lower_case: bool) -> Tokenizer:
    def run(texts):
        return [
            [
                vocab[piece]
                for piece in plain_tokenization.tokenize(
                    text, vocab, do_lower_case=do_lower_case
                )
            ]
            for text in texts
        ]

    return Tokenizer(run=run, rows=iter)


def _definition(
    make: Callable[[], tokenization.FullTokenizer],
) -> Tokenizer:
    def run(texts):
        tokenizer = make()
        return [
            tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
            for text in texts
        ]

    return Tokenizer(run=run, rows=iter)


def _rows_of_arrays(encoded: word_memory.RaggedIds) -> list[list[int]]:
    return [row.tolist() for row in encoded.rows()]


def _batched(function: Callable) -> Tokenizer:
    import tensorflow as tf

    def run(texts):
        return [
            function(tf.constant(texts[start : start + _BATCH_LINES]))
            for start in range(0, len(texts), _BATCH_LINES)
        ]

    def rows(batches):
        return [row for batch in batches for row in batch.to_list()]

    return Tokenizer(run=run, rows=rows)


def _tensorflow_text(vocab: dict[str, int], do_lower_case: bool) -> Callable:
    import tensorflow as tf
    import tensorflow_text as tf_text

    tokenizer = tf_text.FastBertTokenizer(
        list(vocab),
        token_out_type=tf.int32,
        lower_case_nfd_strip_accents=do_lower_case,
    )
    texts = tf.TensorSpec([None], tf.string)
    return tf.function(tokenizer.tokenize, input_signature=[texts])


# Runs in the Python of the peers: JSON in, JSON out.
_PEER = """
import json, sys, time
import tokenizers
given = json.load(sys.stdin)
tokenizer = tokenizers.BertWordPieceTokenizer(
    given["vocab"], lowercase=given["do_lower_case"])
texts, seconds = given["texts"], []
for _ in range(given["num_rounds"]):
    start = time.process_time()
    found = tokenizer.encode_batch(texts, add_special_tokens=False)
    seconds.append(time.process_time() - start)
json.dump({"seconds": seconds, "ids": [one.ids for one in found]}, sys.stdout)
"""


def measure_peer(
    options: Options, vocab: dict[str, int], texts: list[str]
) -> tuple[float, list[list[int]]]:
    """Measures Hugging Face tokenizers in its own Python.

    Returns:
        The median MB per processor second, and the ids of each text.

    Raises:
        subprocess.CalledProcessError: that Python cannot do it.
    """
    given = {
        "vocab": vocab,
        "do_lower_case": options.do_lower_case,
        "texts": texts,
        "num_rounds": options.num_rounds,
    }
    done = subprocess.run(
        [options.peers, "-c", _PEER],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    return _megabytes(texts) / statistics.median(found["seconds"]), found["ids"]


def _megabytes(texts: list[str]) -> float:
    return sum(len(text.encode("utf-8")) for text in texts) / 1e6


def measure(
    compared: dict[str, Tokenizer], texts: list[str], num_rounds: int
) -> dict[str, float]:
    """Times all in turns; returns the median MB per processor second."""
    megabytes = _megabytes(texts)
    seconds = {name: [] for name in compared}
    for name, tokenizer in itertools.chain.from_iterable(
        itertools.repeat(compared.items(), num_rounds)
    ):
        start = time.process_time()
        tokenizer.run(texts)
        seconds[name].append(time.process_time() - start)
    return {
        name: megabytes / statistics.median(times)
        for name, times in seconds.items()
    }


def count_differences(
    compared: dict[str, Tokenizer], texts: list[str]
) -> dict[str, int]:
    """Counts the lines whose ids are not the definition's; warms up too."""
    rows = {
        name: [list(row) for row in tokenizer.rows(tokenizer.run(texts))]
        for name, tokenizer in compared.items()
    }
    return {
        name: sum(
            row != expected
            for row, expected in zip(found, rows["definition"], strict=True)
        )
        for name, found in rows.items()
    }


def main(_: list[str]) -> None:
    """Measures and logs a table."""
    options = Options(
        **{
            field.name: flags.FLAGS[field.name].value
            for field in dataclasses.fields(Options)
        }
    )
    num_bytes = round(options.megabytes * 1e6)
    compared = tokenizers(options)
    for title, texts in (
        (options.text_file, first_lines(options.text_file, num_bytes)),
        ("mixed scripts", mixed_scripts(num_bytes, _SEED)),
    ):
        differ = count_differences(compared, texts)
        speeds = measure(compared, texts, options.num_rounds)
        logging.info("%s, %d lines", title, len(texts))
        if options.peers:
            vocab = tokenization.load_vocab(options.vocab_file)
            speeds["Hugging Face"], ids = measure_peer(options, vocab, texts)
            defined = compared["definition"].run(texts)
            differ["Hugging Face"] = sum(
                row != expected
                for row, expected in zip(ids, defined, strict=True)
            )
        for name, speed in speeds.items():
            logging.info(
                "%-18s %6.1f MB/s, %d lines differ", name, speed, differ[name]
            )


if __name__ == "__main__":
    program.start(define_flags, main)

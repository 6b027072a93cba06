"""Megabytes of text that each tokenizer cuts in a second of processor time.

  python -m benchmarks.tokenization --text_file=wiki.txt --vocab_file=vocab.txt

Measured on lines of the given file and on as much text of mixed scripts that
it makes. Ours: `fast` is `FastTokenizer.encode`, from strings to arrays of
ids, `offsets` the same with places, `graph` the operations of a served model,
`definition` the plain Python, with a warm memory of words and without. For
comparison: TensorFlow Text's own FastBertTokenizer and, where it is
installed, Hugging Face tokenizers. All take turns in one process; the median
round counts. `differ` is the number of lines whose ids are not the
definition's.

Processor time is of all threads together, so that a busy machine, or one
with more cores, gives much the same.
"""

import dataclasses
import importlib.util
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from absl import app, flags, logging

from files import lines
from vocab import fast_tokenization, tokenization

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
        "fast": Tokenizer(run=fast.encode, rows=_rows_of_arrays),
        "offsets": Tokenizer(
            run=fast.encode_with_offsets, rows=_rows_of_arrays
        ),
        "graph": _batched(graph.tokenize),
        "FastBertTokenizer": _batched(_tensorflow_text(vocab, lower)),
    }
    if importlib.util.find_spec("tokenizers"):
        made["Hugging Face"] = _hugging_face(vocab, lower)
    else:
        logging.info("Hugging Face tokenizers is not installed; left out.")
    return made


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


def _rows_of_arrays(encoded: fast_tokenization.RaggedIds) -> list[list[int]]:
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


def _hugging_face(vocab: dict[str, int], do_lower_case: bool) -> Tokenizer:
    import tokenizers as hugging_face

    tokenizer = hugging_face.BertWordPieceTokenizer(
        vocab, lowercase=do_lower_case
    )

    def run(texts):
        return tokenizer.encode_batch(texts, add_special_tokens=False)

    return Tokenizer(run=run, rows=lambda found: [one.ids for one in found])


def measure(
    compared: dict[str, Tokenizer], texts: list[str], num_rounds: int
) -> dict[str, float]:
    """Times all in turns; returns the median MB per processor second."""
    megabytes = sum(len(text.encode("utf-8")) for text in texts) / 1e6
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
        for name, speed in speeds.items():
            logging.info(
                "%-18s %6.1f MB/s, %d lines differ", name, speed, differ[name]
            )


if __name__ == "__main__":
    logging.set_verbosity(logging.INFO)
    define_flags()
    app.run(main)

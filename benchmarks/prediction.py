r"""Prediction for texts of mixed length, beside Hugging Face transformers.

  python -m benchmarks.prediction \
    --bert_config_file=modeling/configs/bert_base_uncased.json \
    --vocab_file=vocab.txt --input_file=sentences.txt \
    --peers=/path/to/an/environment/bin/python

Every line is a text. Each contender scores all of them in batches that are
padded to their longest text: in file order, and with texts of like length
together, in turns. Tokenization is left out: both get ids.
"""

import json
import pathlib

from absl import flags, logging

from benchmarks import contenders
from commands import flag_groups, program
from files import lines
from vocab import tokenization

_SPECIAL_TOKENS = 2  # [CLS] and [SEP].


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    for name in ("bert_config_file", "vocab_file", "input_file"):
        flags.DEFINE_string(
            name, None, "The model's sizes; its vocabulary; the texts.",
            required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "precision", "mixed_bfloat16", ["float32", "mixed_bfloat16"],
        "Of all contenders.", flag_values=values)  # fmt: skip
    for name, default in (
        ("batch_size", 32),
        ("max_seq_length", 128),
        ("num_texts", 872),
        ("rounds", 3),
    ):
        flags.DEFINE_integer(
            name, default, "Rows of a batch, tokens of a row at most, texts, "
            "turns.", lower_bound=1, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "peers", None, "An environment's Python, for the peers.",
        flag_values=values)  # fmt: skip


def lengths_of(values: flags.FlagValues) -> list[int]:
    """Counts the tokens of each text, cut to the length of a row.

    Raises:
        ValueError: there is no text.
    """
    tokenizer = tokenization.FullTokenizer(values.vocab_file)
    found = []
    for line in lines.read_lines(values.input_file):
        if len(found) == values.num_texts:
            break
        count = len(tokenizer.tokenize(line)) + _SPECIAL_TOKENS
        found.append(min(count, values.max_seq_length))
    if not found:
        raise ValueError(f"{values.input_file} must have a line; it is empty.")
    return found


def compare(values: flags.FlagValues) -> None:
    """Measures, and logs a table."""
    sizes = json.loads(pathlib.Path(values.bert_config_file).read_text())
    lengths = lengths_of(values)
    running = {}
    for by_length in (True, False):
        job = contenders.Job(
            kind="prediction",
            sizes=sizes,
            batch_size=values.batch_size,
            max_seq_length=values.max_seq_length,
            precision=values.precision,
            lengths=lengths,
            by_length=by_length,
        )
        order = "by length" if by_length else "file order"
        running[f"this project, {order}"] = contenders.Contender("ours", job)
        if values.peers:
            peer = contenders.Contender("huggingface", job, values.peers)
            running[f"Hugging Face, {order}"] = peer
            if peer.absent is not None:
                logging.info("Hugging Face is left out: %s", peer.absent)
    medians = contenders.alternate(running, values.rounds)
    for contender in running.values():
        contender.close()
    lines_of_table = contenders.table(
        medians, "texts", len(lengths), "this project, by length"
    )
    logging.info(
        "%s, %d texts of %.1f tokens on average\n%s",
        values.precision,
        len(lengths),
        sum(lengths) / len(lengths),
        "\n".join(lines_of_table),
    )


def main(_: list[str]) -> None:
    """Measures what the flags say."""
    compare(flags.FLAGS)


if __name__ == "__main__":
    program.start(define_flags, main)

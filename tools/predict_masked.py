"""Says which words a pre-trained model puts in place of each [MASK].

For example:

  python -m tools.predict_masked --bert_config_file=bert_config.json \\
    --vocab_file=vocab.txt --init_checkpoint=bert_model.ckpt \\
    --text='the capital of france is [MASK].'

` ||| ` separates the two texts of a pair.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, BinaryIO

from commands import flags, program
from files import destinations, lines, paths, writing
from tools import text_model
from vocab import tokenization

_MASK = "[MASK]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(text_model.ModelOptions):
    """The flags of this tool; see --help."""

    text: str | None = flags.Group.FILES.flag(
        None, "Text with at least one [MASK]."
    )
    input_file: str | None = flags.Group.FILES.flag(
        None, "File with one such text a line; - for standard input."
    )
    output_file: str | None = flags.Group.FILES.flag(
        None, "JSON lines to write instead of the table on standard output."
    )
    top_k: int = flags.Group.MASKS.flag(
        5, "Candidates for each [MASK].", lower_bound=1
    )
    batch_size: int = flags.Group.SPEED.flag(
        8, "Texts the model reads at once.", lower_bound=1
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedText:
    """A text ready for the model.

    Args:
        text: as given.
        input_ids: `[T]`.
        segment_ids: `[T]`.
        positions: `[P]`, where the masks are, from the left.
    """

    text: str
    input_ids: tuple[int, ...]
    segment_ids: tuple[int, ...]
    positions: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A word piece and the probability the model gives it."""

    token: str
    probability: float


def prepare(
    text: str, tokenizer: tokenization.FullTokenizer, max_length: int
) -> MaskedText:
    """Turns a text, or a pair, into ids.

    Args:
        text: one text or `A ||| B`; as in the release the last separator
            counts. Each [MASK] is kept, the rest goes through the tokenizer.
        tokenizer: of the model's vocabulary.
        max_length: T at most, with [CLS] and [SEP].

    Raises:
        ValueError: there is no [MASK], or too much text.
    """
    tokens, segment_ids = text_model.encode(
        text, functools.partial(_tokens_and_masks, tokenizer), max_length
    )
    positions = [i for i, token in enumerate(tokens) if token == _MASK]
    if not positions:
        raise ValueError(f"The text must have a {_MASK}; got {text!r}.")
    return MaskedText(
        text=text,
        input_ids=tuple(tokenizer.convert_tokens_to_ids(tokens)),
        segment_ids=tuple(segment_ids),
        positions=tuple(positions),
    )


def read_texts(
    options: Options, standard_input: BinaryIO
) -> Iterator[tuple[str, str]]:
    """Yields where each text comes from, and the text."""
    if options.text is not None:
        lines.check_text(options.text, "--text")
        yield "--text", options.text
    if options.input_file is None:
        return
    if options.input_file == "-":
        name = "standard input"
        found = lines.decoded(standard_input, name)
    else:
        name = options.input_file
        found = lines.read_lines(name)
    for number, line in enumerate(found, start=1):
        yield f"{name}, line {number}", line


def predict(
    model: Any,
    texts: Sequence[MaskedText],
    inv_vocab: dict[int, str],
    top_k: int,
) -> list[list[list[Candidate]]]:
    """Fills the masks of a batch of texts.

    Args:
        model: a `heads.BertForPreTraining`.
        texts: B of them, of any lengths.
        inv_vocab: id -> token; an id without one is shown as its number.
        top_k: candidates for each mask; all of the vocabulary if it has fewer.

    Returns:
        For each text and each of its masks, from the left, the candidates,
        the most probable first.
    """
    import numpy as np
    from keras import ops

    outputs = model(
        _padded([t.input_ids for t in texts]),
        _padded([[1] * len(t.input_ids) for t in texts]),
        _padded([t.segment_ids for t in texts]),
        _padded([t.positions for t in texts]),
    )
    probs = ops.softmax(outputs["masked_lm_logits"], axis=-1)  # [B, P, V]
    # Stable, so that of equals the first of the vocabulary comes first.
    order = np.argsort(-np.asarray(probs), axis=-1, kind="stable")
    probs = np.take_along_axis(np.asarray(probs), order, -1)[..., :top_k]
    return [
        [
            [
                Candidate(
                    token=inv_vocab.get(int(index), f"[id {index}]"),
                    probability=float(prob),
                )
                for index, prob in zip(
                    order[row, mask, :top_k], probs[row, mask], strict=True
                )
            ]
            for mask in range(len(text.positions))
        ]
        for row, text in enumerate(texts)
    ]


def table(text: str, masks: Iterable[Iterable[Candidate]]) -> str:
    """Lays the candidates of a text out for people."""
    rows = [text]
    for number, candidates in enumerate(masks, start=1):
        rows.append(f"  {_MASK} {number}")
        rows += [f"    {c.probability:8.4f}  {c.token}" for c in candidates]
    return "\n".join(rows) + "\n\n"


def json_line(text: str, masks: Iterable[Iterable[Candidate]]) -> str:
    """Writes the candidates of a text as a line of JSON."""
    record = {
        "text": text,
        "masks": [[dataclasses.asdict(c) for c in mask] for mask in masks],
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def run(
    options: Options, standard_input: BinaryIO, standard_output: IO[str]
) -> None:
    """Reads texts, fills their masks and writes the result.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a text, the config, the vocabulary or the checkpoint does
            not fit.
    """
    if options.text is None and options.input_file is None:
        raise ValueError("Give a text with --text or --input_file.")
    _check_files(options)
    config, tokenizer = text_model.open_files(
        options, "[CLS]", "[SEP]", "[UNK]", _MASK
    )
    from modeling import heads  # Late: it imports TensorFlow.

    model = heads.BertForPreTraining(config)
    # Masked words need neither the pooler nor what stands on it.
    text_model.load_weights(
        model, options, ["bert/pooler/.*", "cls/seq_relationship/.*"]
    )
    with contextlib.ExitStack() as stack:
        output, layout = standard_output, table
        if options.output_file is not None:
            output = stack.enter_context(
                writing.whole_file(options.output_file)
            )
            layout = json_line
        texts = _prepared(options, standard_input, tokenizer, model)
        # `itertools.batched` is of Python 3.12.
        while batch := list(itertools.islice(texts, options.batch_size)):
            filled = predict(model, batch, tokenizer.inv_vocab, options.top_k)
            for text, masks in zip(batch, filled, strict=True):
                output.write(layout(text.text, masks))
            output.flush()


def _check_files(options: Options) -> None:
    inputs = [options.vocab_file, options.bert_config_file]
    if options.input_file not in (None, "-"):
        paths.check_readable(options.input_file)
        inputs.append(options.input_file)
    if options.output_file is not None:
        destinations.check_files([options.output_file], inputs)


def _prepared(options, standard_input, tokenizer, model):
    max_length = model.config.max_position_embeddings
    for origin, text in read_texts(options, standard_input):
        try:
            yield prepare(text, tokenizer, max_length)
        except ValueError as error:
            raise ValueError(f"{origin}: {error}") from error


def _tokens_and_masks(tokenizer, text):
    tokens = []
    for index, between in enumerate(text.split(_MASK)):
        if index:
            tokens.append(_MASK)
        tokens += tokenizer.tokenize(between)
    return tokens


def _padded(rows: Sequence[Sequence[int]]):
    """Fills rows up with 0, as the release does: `[B, longest]` int32."""
    import numpy as np

    longest = max(map(len, rows))
    return np.array(
        [[*row, *[0] * (longest - len(row))] for row in rows], np.int32
    )


def main(options: Options) -> None:
    """Runs the tool on the standard streams."""
    run(options, sys.stdin.buffer, sys.stdout)


if __name__ == "__main__":
    program.start(Options, main)

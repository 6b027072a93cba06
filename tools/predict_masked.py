"""Predicts the words for each [MASK] with a pre-trained model.

For example:

  python -m tools.predict_masked --bert_config_file=bert_config.json \\
    --vocab_file=vocab.txt --init_checkpoint=bert_model.ckpt \\
    --text='the capital of france is [MASK].'

` ||| ` separates the two texts of a pair.
"""

import contextlib
import dataclasses
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from commands import flags, program
from files import lines, paths, writing
from modeling import checkpoints
from modeling import config as config_lib
from tasks import features
from training import flags as training_flags
from vocab import tokenization

_MASKS = flags.Heading("Masked words")
_MASK = "[MASK]"
_Candidate = dict[str, Any]  # `token` and `probability`.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_flags.ModelOptions):
    """The flags of this tool; see --help."""

    text: str | None = flags.Group.FILES.optional(
        "Text with at least one [MASK]."
    )
    input_file: str | None = flags.Group.FILES.optional(
        "File with one such text per line; - for standard input."
    )
    output_file: str | None = flags.Group.FILES.optional(
        "File of JSON lines to write instead of the table on stdout."
    )
    top_k: int = _MASKS.count(5, "Candidates for each [MASK].")
    batch_size: int = flags.Group.SPEED.count(8, "Texts per batch.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedText:
    """A text with the model's inputs.

    Args:
        text: the unchanged text.
        input_ids: `[T]`.
        segment_ids: `[T]`.
        positions: `[P]`, of the masks, from the left.
    """

    text: str
    input_ids: tuple[int, ...]
    segment_ids: tuple[int, ...]
    positions: tuple[int, ...]


def prepare(
    text: str, tokenizer: tokenization.FullTokenizer, max_length: int
) -> MaskedText:
    """Tokenizes a text, or a pair, except for each [MASK].

    Args:
        text: one text or `A ||| B`, split at the last separator, as released.
        tokenizer: of the model's vocabulary.
        max_length: the limit of T, including [CLS] and [SEP].

    Raises:
        ValueError: there is no [MASK], or the text is too long.
    """

    def tokenize(part: str) -> list[str]:
        tokens = []
        for between in part.split(_MASK):
            tokens += [_MASK, *tokenizer.tokenize(between)]
        return tokens[1:]

    tokens, segment_ids = features.encode(text, tokenize, max_length)
    positions = [i for i, token in enumerate(tokens) if token == _MASK]
    if not positions:
        raise ValueError(f"The text must have a {_MASK}; got {text!r}.")
    return MaskedText(
        text=text,
        input_ids=tuple(tokenizer.convert_tokens_to_ids(tokens)),
        segment_ids=tuple(segment_ids),
        positions=tuple(positions),
    )


def predict(
    model: Any,
    texts: Sequence[MaskedText],
    inv_vocab: dict[int, str],
    top_k: int,
) -> list[list[list[_Candidate]]]:
    """Predicts the masked words of a batch of texts.

    Args:
        model: a `heads.BertForPreTraining`.
        texts: B of them, of any lengths.
        inv_vocab: id -> token; an id without one is shown as its number.
        top_k: candidates for each mask; at most the size of the vocabulary.

    Returns:
        For each text and each of its masks, from the left, the candidates,
        the most probable first.
    """
    import numpy as np
    from keras import ops

    columns: list[list[Sequence[int]]] = [
        [text.input_ids for text in texts],
        [[1] * len(text.input_ids) for text in texts],
        [text.segment_ids for text in texts],
        [text.positions for text in texts],
    ]
    # As released: the padding is 0.
    padded = [
        np.array(list(itertools.zip_longest(*rows, fillvalue=0)), np.int32).T
        for rows in columns
    ]  # [B, longest]
    outputs = model(*padded)
    probs = np.asarray(ops.softmax(outputs["masked_lm_logits"], axis=-1))

    def candidates(probs: np.ndarray) -> list[_Candidate]:  # [V]
        # Stable: of equal ones, the first in the vocabulary is first.
        order = np.argsort(-probs, kind="stable")[:top_k]
        return [
            {
                "token": inv_vocab.get(index, f"[id {index}]"),
                "probability": float(probs[index]),
            }
            for index in order.tolist()
        ]

    return [
        [candidates(probs[row, mask]) for mask in range(len(text.positions))]
        for row, text in enumerate(texts)
    ]


def table(text: str, masks: Iterable[Iterable[_Candidate]]) -> str:
    """Formats the candidates of a text for people."""
    rows = [text]
    for number, candidates in enumerate(masks, start=1):
        rows.append(f"  {_MASK} {number}")
        rows += [
            f"    {each['probability']:8.4f}  {each['token']}"
            for each in candidates
        ]
    return "\n".join(rows) + "\n\n"


def run(options: Options) -> None:
    """Reads texts, predicts their masked words and writes the result.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a text, the config, the vocabulary or the checkpoint is
            invalid, or they do not fit together.
    """
    if options.text is None and options.input_file is None:
        raise ValueError("Give a text with --text or --input_file.")
    inputs = [options.vocab_file, options.bert_config_file]
    if options.input_file not in (None, "-"):
        paths.check_readable(options.input_file)
        inputs.append(options.input_file)
    if options.output_file is not None:
        writing.check_files([options.output_file], inputs)
    checkpoints.find(options.init_checkpoint)
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    tokenizer = tokenization.open_tokenizer(
        options, "[CLS]", "[SEP]", "[UNK]", _MASK
    )
    config.check_vocabulary(tokenizer.vocab_size, options.vocab_file)
    if options.output_file is not None:
        writing.check_files(
            [options.output_file], checkpoints.files(options.init_checkpoint)
        )
    from modeling import heads  # Late: these import TensorFlow.
    from training import initialization

    # Masked words need neither the pooler nor next sentence prediction.
    model = heads.BertForPreTraining(config, objective="mlm")
    initialization.load_pretrained(model, options)
    with contextlib.ExitStack() as stack:
        output = sys.stdout
        if options.output_file is not None:
            output = stack.enter_context(
                writing.whole_file(options.output_file)
            )
        texts = _prepared(options, tokenizer, model)
        # `itertools.batched` is of Python 3.12.
        while batch := list(itertools.islice(texts, options.batch_size)):
            filled = predict(model, batch, tokenizer.inv_vocab, options.top_k)
            for text, masks in zip(batch, filled, strict=True):
                if options.output_file is None:
                    output.write(table(text.text, masks))
                else:
                    record = {"text": text.text, "masks": masks}
                    output.write(json.dumps(record, ensure_ascii=False) + "\n")
            output.flush()


def _prepared(options, tokenizer, model):
    """Yields the texts; names the origin of one that is refused."""
    found: Iterable[tuple[str, str]] = []
    if options.text is not None:
        lines.check_text(options.text, "--text")
        found = [("--text", options.text)]
    if options.input_file is not None:
        more = lines.numbered(options.input_file, sys.stdin.buffer)
        found = itertools.chain(found, more)
    for origin, text in found:
        try:
            yield prepare(text, tokenizer, model.config.max_position_embeddings)
        except ValueError as error:
            raise ValueError(f"{origin}: {error}") from error


if __name__ == "__main__":
    program.start(Options, run)

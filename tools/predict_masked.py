"""Says which words a pre-trained model puts in place of each [MASK].

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
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, BinaryIO

from absl import flags, logging

from commands import flag_groups, program
from commands import flags as flags_lib
from files import destinations, lines, paths, writing
from tasks import features
from tasks.classification import sentence_pairs
from tools import model_flags
from vocab import tokenization

_MASK = "[MASK]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags` for each."""

    bert_config_file: str
    vocab_file: str
    init_checkpoint: str
    do_lower_case: bool = True
    text: str | None = None
    input_file: str | None = None
    output_file: str | None = None
    top_k: int = 5
    batch_size: int = 8


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


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this tool."""
    _define_file_flags(values)
    model_flags.define_flags(values)
    _define_mask_flags(values)
    _define_speed_flags(values)


@flag_groups.under(flag_groups.Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "text", Options.text, "Text with at least one [MASK].",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "input_file", Options.input_file,
        "File with one such text a line; - for standard input.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "output_file", Options.output_file,
        "JSON lines to write instead of the table on standard output.",
        flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.MASKS)
def _define_mask_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "top_k", Options.top_k, "Candidates for each [MASK].",
        lower_bound=1, flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.SPEED)
def _define_speed_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "batch_size", Options.batch_size, "Texts the model reads at once.",
        lower_bound=1, flag_values=values)  # fmt: skip


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
    tokens, segment_ids = sentence_pairs.join(
        *(
            _tokens_and_masks(part, tokenizer)
            for part in features.split_pair(text)
        )
    )
    positions = [i for i, token in enumerate(tokens) if token == _MASK]
    if not positions:
        raise ValueError(f"The text must have a {_MASK}; got {text!r}.")
    if len(tokens) > max_length:
        raise ValueError(
            f"The text must have at most {max_length} word pieces with [CLS] "
            f"and [SEP]; got {len(tokens)}: {text[:60]!r}... Shorten it."
        )
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
    tokenizer = tokenization.open_tokenizer(
        options, "[CLS]", "[SEP]", "[UNK]", _MASK
    )
    model = _load_model(options, tokenizer)
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
    """Looks at the files before the model is loaded, which takes seconds."""
    from modeling import checkpoint_formats

    inputs = [options.vocab_file, options.bert_config_file]
    if options.input_file not in (None, "-"):
        paths.check_readable(options.input_file)
        inputs.append(options.input_file)
    if options.output_file is not None:
        destinations.check_files([options.output_file], inputs)
    checkpoint_formats.find(options.init_checkpoint)


def main(_: list[str]) -> None:
    """Runs the tool with its flags."""
    options = flags_lib.read(Options, flags.FLAGS)
    run(options, sys.stdin.buffer, sys.stdout)


def _load_model(options, tokenizer):
    from modeling import checkpoints, heads
    from modeling import config as config_lib
    from training import ablations, model_folder

    ablations.check_bert(options.init_checkpoint)
    model_folder.check_casing(
        model_folder.of_checkpoint(options.init_checkpoint),
        options.do_lower_case,
    )
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    config.check_vocabulary(tokenizer.vocab_size, options.vocab_file)
    model = heads.BertForPreTraining(config)
    # Masked words need neither the pooler nor what stands on it.
    report = checkpoints.load(
        model,
        options.init_checkpoint,
        new=["bert/pooler/.*", "cls/seq_relationship/.*"],
    )
    logging.info("%s: %s", options.init_checkpoint, report)
    return model


def _prepared(options, standard_input, tokenizer, model):
    max_length = model.config.max_position_embeddings
    for origin, text in read_texts(options, standard_input):
        try:
            yield prepare(text, tokenizer, max_length)
        except ValueError as error:
            raise ValueError(f"{origin}: {error}") from error


def _tokens_and_masks(text, tokenizer):
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


if __name__ == "__main__":
    program.start(define_flags, main)

r"""Scores texts by a pre-trained model: their (pseudo-)log-likelihood.

For example:

  python -m tools.score_text --model=$BERT "The cat sat." "The cat sit."
  python -m tools.score_text --model=$BERT --input_file=lines.txt --format=json

The score is the sum of the natural logarithms of the probabilities of the word
pieces. A masked language model predicts each piece from the text in which that
piece alone is masked (Salazar et al. 2020); a left-to-right model from the
pieces before it. `pseudo_perplexity` is the exponential of the mean negative
log-probability of a piece. Without texts, the tool reads lines from standard
input.
"""

import dataclasses
import itertools
import json
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, BinaryIO

from absl import logging

from bert.commands import flags, program
from bert.files import lines, tensorflow_start

if TYPE_CHECKING:
    from bert.serving import sentence_scores

ARGUMENTS = "[TEXT ...]"
_TEXT, _JSON = "text", "json"
# Texts that share batches.
_NUM_TEXTS = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    model: flags.Path = flags.Group.FILES.required(
        "Folder of the model: the --output_dir of a pre-training, or of a "
        "released or Hugging Face model; or hf://ORGANISATION/NAME."
    )
    input_file: flags.Path | None = flags.Group.FILES.optional(
        "File with one text per line; - for standard input."
    )
    format: str = flags.Group.FILES.flag(
        _TEXT,
        "Output: a table for people, or one JSON object per line.",
        choices=(_TEXT, _JSON),
    )


def run(
    options: Options,
    texts: Sequence[str],
    standard_input: BinaryIO,
    standard_output: IO[str],
) -> None:
    """Writes the scores of texts, in their order.

    Raises:
        OSError: a file cannot be read.
        ValueError: the model has no probabilities of words; or a text is empty
            or longer than the network. The message names its origin.
    """
    tensorflow_start.load()
    from bert.serving import sentence_scores

    if texts and options.input_file:
        raise ValueError("Give texts or --input_file; got both.")
    named = lines.to_answer(texts, options.input_file, standard_input)
    scorer = sentence_scores.Scorer(options.model)
    if options.format == _TEXT:
        columns = ("score", "pieces", "pseudo-perplexity", "text")
        standard_output.write(_row(*columns))
    while batch := list(itertools.islice(named, _NUM_TEXTS)):
        encoded = [_encode(scorer, *pair) for pair in batch]
        for (_, text), score in zip(batch, scorer.score(encoded), strict=True):
            standard_output.write(_line(options.format, str(text), score))
        standard_output.flush()


def _encode(
    scorer: "sentence_scores.Scorer", origin: str, text: str | ValueError
) -> list[int]:
    if isinstance(text, ValueError):
        raise text
    try:
        return scorer.encode(text)
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from error


def _line(form: str, text: str, score: "sentence_scores.Score") -> str:
    if form == _JSON:
        values = {
            "text": text,
            "score": score.score,
            "num_pieces": score.num_pieces,
            "pseudo_perplexity": score.pseudo_perplexity,
        }
        return f"{json.dumps(values, ensure_ascii=False)}\n"
    perplexity = f"{score.pseudo_perplexity:.4g}"
    return _row(f"{score.score:.4f}", str(score.num_pieces), perplexity, text)


def _row(score: str, num_pieces: str, perplexity: str, text: str) -> str:
    return f"{score:>12}  {num_pieces:>6}  {perplexity:>17}  {text}\n"


def main(options: Options, texts: list[str]) -> None:
    """Runs the tool on the standard streams."""
    logging.set_verbosity(logging.WARNING)
    run(options, texts, sys.stdin.buffer, sys.stdout)


if __name__ == "__main__":
    program.start(Options, main, arguments=ARGUMENTS)

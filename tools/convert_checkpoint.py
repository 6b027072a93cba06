"""Converts checkpoints among the release's, Keras' and Hugging Face's forms.

For example:

  python -m tools.convert_checkpoint \\
    --input=uncased_L-12_H-768_A-12/bert_model.ckpt \\
    --output=bert-base-uncased --output_format=huggingface

The form of the input is detected. Nothing is lost: what has no name in the
form that is written is kept beside what has; `docs/checkpoints.md` says where.
"""

import collections
import math
import re
from collections.abc import Mapping
from typing import Any

from absl import logging

from commands import program
from tools import conversion, conversion_outputs

Options = conversion.Options


def convert(options: Options) -> None:
    """Reads a checkpoint and writes it in another form.

    Raises:
        OSError: a file is missing, cannot be read or written, or would be
            replaced.
        ValueError: the input is broken, of another kind, or contradicts its
            configuration, vocabulary or casing.
    """
    from modeling import checkpoints

    with checkpoints.opened(options.input) as source:
        logging.info(
            "%s is a checkpoint of the %s form.", source.origin, source.kind
        )
        for note in source.notes:
            logging.info("%s: %s.", source.origin, note)
        model = conversion.understand(options, source)
        written = conversion_outputs.write(options, model)
    counts = _counts(model.variables)
    logging.info(
        "Converted %s: %s. Wrote %s.",
        source.origin,
        ", ".join(f"{count} {what}" for what, count in counts.items()),
        ", ".join(written),
    )


_KINDS = (
    (re.compile(r"^huggingface/|^keras/"), "variables without a release name"),
    (re.compile(r"/adam_[mv]$|^global_step$"), "of the optimizer"),
    (re.compile(r"^bert/"), "of the encoder"),
    (re.compile(r""), "of heads"),
)


def _counts(variables: Mapping[str, Any]) -> dict[str, int]:
    """Counts variables by kind, and weights in all."""
    counts = collections.Counter(
        next(kind for pattern, kind in _KINDS if pattern.search(name))
        for name in variables
    )
    total = sum(math.prod(shape) for shape, _ in variables.values())
    return {**counts, "numbers in all": total}


def main(options: Options) -> None:
    """Runs the tool with its flags."""
    convert(options)


if __name__ == "__main__":
    program.start(Options, main)

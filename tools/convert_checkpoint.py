"""Converts checkpoints among the release's, Keras' and Hugging Face's forms.

For example:

  python -m tools.convert_checkpoint \\
    --input=uncased_L-12_H-768_A-12/bert_model.ckpt \\
    --output=bert-base-uncased --output_format=huggingface

The form of the input is detected. Nothing is lost: what has no name in the
form that is written is kept beside what has; `docs/checkpoints.md` says where.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from absl import flags, logging

from commands import flag_groups, program
from modeling import name_tables
from tools import conversion, conversion_outputs

_FORMATS = ("release", "keras", "huggingface")


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this tool."""
    _define_file_flags(values)
    _define_model_flags(values)
    _define_text_flags(values)


@flag_groups.under(flag_groups.Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    default = conversion.Options
    flags.DEFINE_string(
        "input", None,
        "Checkpoint: prefix, .index file, .weights.h5, Hugging Face folder, or "
        "a folder with one of them.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "output", None,
        "Prefix, file that ends in .weights.h5, or folder, by the form.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "output_format", None, _FORMATS, "Form to write.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "overwrite", default.overwrite, "Replace files that are there.",
        flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.MODEL)
def _define_model_flags(values: flags.FlagValues) -> None:
    default = conversion.Options
    flags.DEFINE_string(
        "bert_config_file", default.bert_config_file,
        "JSON file with the sizes of the model; by default that beside the "
        "input.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "architecture", default.architecture,
        (
            name_tables.SEQUENCE_CLASSIFICATION,
            name_tables.TOKEN_CLASSIFICATION,
        ),
        "What output_weights and output_bias label, sentences or words, where "
        "nothing beside the input says.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "strip_optimizer", default.strip_optimizer,
        "Leave out the moments of the optimizer and the step.",
        flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.TEXT)
def _define_text_flags(values: flags.FlagValues) -> None:
    default = conversion.Options
    flags.DEFINE_string(
        "vocab_file", default.vocab_file,
        "Vocabulary of the model; by default the vocab.txt beside the input.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "do_lower_case", default.do_lower_case,
        "Whether the model reads lower-cased text; by default what lies beside "
        "the input says, or the vocabulary shows.",
        flag_values=values)  # fmt: skip


def read_options(
    values: flags.FlagValues = flags.FLAGS,
) -> conversion.Options:
    """Returns what the flags say."""
    names = [field.name for field in dataclasses.fields(conversion.Options)]
    return conversion.Options(**{name: values[name].value for name in names})


def convert(options: conversion.Options) -> None:
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


def main(_: list[str]) -> None:
    """Runs the tool with its flags."""
    convert(read_options(flags.FLAGS))


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


if __name__ == "__main__":
    program.start(define_flags, main)

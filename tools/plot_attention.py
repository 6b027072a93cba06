"""Draws the attention of a model's heads as a picture.

Example:

  python -m tools.plot_attention --bert_config_file=$BERT/bert_config.json \\
    --vocab_file=$BERT/vocab.txt --init_checkpoint=$BERT/bert_model.ckpt \\
    --text='the cat sat on the mat .' --output_file=attention.png

There is a row of panels for each layer, and a panel for each head. A row of a
panel shows the attention from one token to the others; dark is high, and a row
sums to 1.
` ||| ` separates the two texts of a pair.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import logging

from bert.commands import flags, program
from bert.files import tensorflow_start, writing
from bert.models import prepare
from bert.tasks import sentence_pairs
from bert.training import options as training_options

if TYPE_CHECKING:
    from matplotlib import figure as figure_lib

_PANEL_INCHES = 2.0
_MOST_FIGURE_INCHES = 40.0
# A higher one lets a few squares set the scale, and all others look white.
_DARKEST_PERCENTILE = 99.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_options.ModelOptions):
    """The flags of this tool; see --help."""

    text: str = flags.Group.FILES.required("Text or pair.")
    output_file: flags.Path = flags.Group.FILES.required(
        "Picture to write, PNG."
    )


def draw(probs: np.ndarray, tokens: Sequence[str]) -> "figure_lib.Figure":
    """Draws a panel for each head.

    Args:
        probs: `[L, N, T, S]`.
        tokens: `[T]`, the labels of the panels, unless there are too many.
    """
    from matplotlib.figure import Figure

    num_layers, num_heads, length, _ = probs.shape
    size = max(_PANEL_INCHES, 0.16 * length)  # So that labels are legible.
    has_labels = size * max(num_layers, num_heads) <= _MOST_FIGURE_INCHES
    size = size if has_labels else _PANEL_INCHES
    figure = Figure(
        (size * num_heads + 2, size * num_layers + 1), layout="constrained"
    )
    panels = figure.subplots(
        num_layers, num_heads, squeeze=False, sharex=True, sharey=True
    )
    darkest = float(np.percentile(probs, _DARKEST_PERCENTILE))
    for row, column in np.ndindex(num_layers, num_heads):
        axis = panels.item(row, column)
        image = axis.imshow(
            probs[row, column], cmap="Blues", vmin=0, vmax=darkest
        )
        axis.set_title(f"layer {row}, head {column}", fontsize=8)
        labels = tokens if has_labels else [""] * length
        axis.set_yticks(range(length), labels, fontsize=7)
        axis.set_xticks(range(length), labels, fontsize=7, rotation=90)
    figure.colorbar(image, ax=panels, shrink=0.5, label="attention")
    figure.supylabel("from", fontsize=9)
    figure.supxlabel("to", fontsize=9)
    return figure


def run(options: Options) -> None:
    """Draws the heads and writes the picture.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the text, the config, the vocabulary or the checkpoint is
            invalid, or they do not fit together.
    """
    prepared = prepare.open_model(options, flags.given())
    options, config = prepared.options, prepared.config
    inputs = [options.vocab_file, options.bert_config_file]
    writing.check_files([options.output_file], inputs)
    tokenizer = prepared.read_tokenizer()
    tokens, segment_ids = sentence_pairs.tokenize_pair(
        options.text, tokenizer.tokenize, config.max_position_embeddings
    )
    config.check_segments(segment_ids)
    # Late: these import TensorFlow, and the checks above are quick.
    tensorflow_start.load()
    from bert.training import warm_start
    from modeling import bert

    model = bert.BertModel(config)
    with prepared.run.open_weights() as source:
        warm_start.load_for_evaluation(model, source)
    of_layers = model.attention_probs(
        np.array([tokenizer.convert_tokens_to_ids(tokens)], np.int32),
        segment_ids=np.array([segment_ids], np.int32),
    )
    probs = np.stack([np.asarray(layer)[0] for layer in of_layers])
    figure = draw(probs.astype(np.float32), tokens)
    writing.write_png(options.output_file, figure)
    logging.info("Wrote %s.", options.output_file)


if __name__ == "__main__":
    program.start(Options, run)

"""Draws the three figures of docs/paper.md.

python .github/images/paper.py
"""

import pathlib
from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")
from matplotlib import axes as axes_lib
from matplotlib import pyplot

_FOLDER = pathlib.Path(__file__).parent
_BLUE, _ORANGE, _GREEN, _GRAY = "#d2e3fc", "#fce0c3", "#ceead6", "#eceff1"
_TEXT = "#3c4043"
_TOKENS = (
    *("[CLS]", "my", "dog", "is", "cute", "[SEP]"),
    *("he", "likes", "play", "##ing", "[SEP]"),
)


def _canvas(width: float, height: float) -> axes_lib.Axes:
    """Returns axes in units of a tenth of an inch, without frame."""
    figure = pyplot.figure(figsize=(width, height), dpi=150)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 10 * width)
    axes.set_ylim(0, 10 * height)
    axes.axis("off")
    return axes


def _box(
    axes: axes_lib.Axes,
    place: tuple[float, float, float, float],
    text: str,
    color: str,
) -> None:
    """Draws a box: left, bottom, width and height."""
    left, bottom, width, height = place
    axes.add_patch(
        pyplot.Rectangle(
            (left, bottom), width, height, facecolor=color, edgecolor="white"
        )
    )
    axes.text(
        left + width / 2,
        bottom + height / 2,
        text,
        ha="center",
        va="center",
        fontsize=8,
        color=_TEXT,
    )


def _row(
    axes: axes_lib.Axes,
    bottom: float,
    title: str,
    cells: Sequence[str],
    colors: Sequence[str],
) -> None:
    axes.text(1, bottom + 1.3, title, va="center", fontsize=8, color=_TEXT)
    for place, (cell, color) in enumerate(zip(cells, colors, strict=True)):
        _box(axes, (14 + 6.4 * place, bottom, 6, 2.6), cell, color)


def _save(axes: axes_lib.Axes, name: str) -> None:
    axes.figure.savefig(_FOLDER / f"{name}.png", metadata={"Software": None})


def draw_input() -> None:
    """Draws the sum of three embeddings (Figure 2 of the paper)."""
    axes = _canvas(8.6, 2.1)
    count = len(_TOKENS)
    second = _TOKENS.index("[SEP]") + 1
    segments = ["A"] * second + ["B"] * (count - second)
    _row(axes, 17, "input", _TOKENS, [_GRAY] * count)
    rows = (
        ("word piece", [f"E({token})" for token in _TOKENS], [_ORANGE] * count),
        (
            "segment",
            [f"E({segment})" for segment in segments],
            [_BLUE if segment == "A" else _GREEN for segment in segments],
        ),
        ("position", [f"E({i})" for i in range(count)], [_GRAY] * count),
    )
    for number, (title, cells, colors) in enumerate(rows):
        bottom = 12 - 4 * number
        _row(axes, bottom, title, cells, colors)
        if number:
            for place in range(count):
                axes.text(
                    17 + 6.4 * place,
                    bottom + 3.3,
                    "+",
                    ha="center",
                    va="center",
                    fontsize=8,
                )
    axes.text(
        14,
        1.4,
        "then layer normalization and dropout",
        fontsize=8,
        va="center",
        color=_TEXT,
    )
    _save(axes, "input_representation")


def draw_masking() -> None:
    """Draws which words are predicted, and what replaces them."""
    axes = _canvas(8.6, 1.6)
    shown = list(_TOKENS)
    targets = [""] * len(shown)
    colors = [_GRAY] * len(shown)
    # An example of each of the three replacements.
    for place, text, color in (
        (2, "[MASK]", _ORANGE),
        (4, "apple", _GREEN),
        (8, "play", _BLUE),
    ):
        targets[place], shown[place] = _TOKENS[place], text
        colors[place] = color
    _row(axes, 12, "text", _TOKENS, [_GRAY] * len(shown))
    _row(axes, 8, "the model reads", shown, colors)
    white = ["white"] * len(shown)
    _row(
        axes,
        4,
        "it predicts",
        targets,
        [
            color if target else "white"
            for color, target in zip(colors, targets, strict=True)
        ],
    )
    _row(
        axes,
        1,
        "of the predicted",
        [
            {2: "80%", 4: "10%", 8: "10%"}.get(place, "")
            for place in range(len(shown))
        ],
        white,
    )
    _save(axes, "masking")


def draw_phases() -> None:
    """Draws pre-training beside fine-tuning (Figure 1 of the paper)."""
    axes = _canvas(8.6, 2.6)
    phases = (
        (
            "Pre-training: run_pretraining.py",
            "masked words, next sentence",
            "pairs of texts, some words masked",
            ["masked LM", "NSP"],
        ),
        (
            "Fine-tuning: run_classifier.py, run_squad.py, ...",
            "labels, or start and end of an answer",
            "pairs of the task, such as question and paragraph",
            ["the task's output layer"],
        ),
    )
    for number, (title, output, source, layers) in enumerate(phases):
        left = 2 + 44 * number
        axes.text(left, 24, title, fontsize=9, color=_TEXT, va="center")
        axes.text(left, 20.5, output, fontsize=8, color=_TEXT, va="center")
        width = 38 / len(layers)
        for place, layer in enumerate(layers):
            color = _ORANGE if number == 0 else _GREEN
            _box(axes, (left + place * width, 15.5, width, 3.2), layer, color)
        _box(
            axes,
            (left, 6, 38, 9),
            "BERT: embeddings and Transformer layers",
            _BLUE,
        )
        axes.text(left, 3.5, source, fontsize=8, color=_TEXT, va="center")
    axes.annotate(
        "",
        xy=(45.5, 10.5),
        xytext=(40.5, 10.5),
        arrowprops={"arrowstyle": "->", "color": _TEXT},
    )
    axes.text(
        43,
        12,
        "weights",
        ha="center",
        fontsize=8,
        color=_TEXT,
    )
    _save(axes, "two_phases")


if __name__ == "__main__":
    draw_input()
    draw_masking()
    draw_phases()

"""Draws pretraining.png from the tables of paper/RESULTS.md.

python .github/images/pretraining.py
"""

import pathlib
import re

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

_FOLDER = pathlib.Path(__file__).parent
_STEP = re.compile(
    r"^\| ([\d,]+) \| \d+ x (\d+) \| [\d.]+ \| [\d.]+ \| ([\d.]+)% "
    r"\| ([\d.]+)% \|$",
    re.M,
)
_SCORES = r"([\d.]+) ± ([\d.]+)"
_TASK = re.compile(
    rf"^\| (.+), (.+) \| ([\d.]+) \| {_SCORES} \| {_SCORES} \| {_SCORES} \|$",
    re.M,
)
_STARTS = ("random weights", "quick start", "BERT-Mini")
_ERROR = {"ecolor": "#3c4043", "elinewidth": 1}
_COLORS = ("#c4c7cc", "#f5b676", "#e8710a")


def main() -> None:
    """Draws the curves of pre-training beside the scores of fine-tuning."""
    text = (_FOLDER / "../../paper/RESULTS.md").read_text(encoding="utf-8")
    figure, (curves, bars) = pyplot.subplots(
        ncols=2, figsize=(9, 3.4), dpi=150, width_ratios=(4, 5)
    )
    _draw_curves(curves, _STEP.findall(text))
    _draw_bars(bars, _TASK.findall(text)[::-1])
    for axes in (curves, bars):
        axes.tick_params(length=0, labelsize=8)
        axes.spines[:].set_visible(False)
    figure.tight_layout()
    figure.savefig(_FOLDER / "pretraining.png")


def _draw_curves(axes, rows) -> None:
    steps = [int(step.replace(",", "")) for step, *_ in rows]
    words, sentences = (
        [float(row[column]) for row in rows] for column in (2, 3)
    )
    axes.plot(steps, words, "o-", color=_COLORS[2], markersize=3)
    axes.plot(steps, sentences, "o-", color="#5f6368", markersize=3)
    for values, name in (
        (words, "masked words"),
        (sentences, "next sentence or not"),
    ):
        axes.text(steps[-1], values[-1] + 4, name, size=8, ha="right")
    longer = next(i for i, row in enumerate(rows) if row[1] != rows[0][1])
    for place, row, align in (
        (steps[longer - 1] - 60, rows[0], "right"),
        (steps[longer - 1] + 60, rows[-1], "left"),
    ):
        axes.text(place, 4, f"length {row[1]}", size=7, ha=align)
    axes.axvline(steps[longer - 1], color="#5f6368", linewidth=1, ls=":")
    axes.set_ylim(0, 100)
    axes.set_yticks(range(0, 101, 25), [f"{x}%" for x in range(0, 101, 25)])
    axes.set_xlabel("steps of pre-training", size=8)
    axes.set_title(
        "Pre-training BERT-Mini for an hour on two CPU\n"
        "cores: accuracy on text not seen before",
        size=9,
        loc="left",
    )
    axes.grid(axis="y", linewidth=0.5)


def _draw_bars(axes, rows) -> None:
    for place, (*_, majority, _, _, _, _, _, _) in enumerate(rows):
        axes.plot(
            [float(majority)] * 2,
            [place - 0.42, place + 0.42],
            color="#5f6368",
            linewidth=1,
            linestyle=":",
            zorder=3,
            label=None if place else "most frequent class",
        )
    for number, (start, color) in enumerate(zip(_STARTS, _COLORS, strict=True)):
        means = [float(row[3 + 2 * number]) for row in rows]
        errors = [float(row[4 + 2 * number]) for row in rows]
        places = [place + 0.27 * (1 - number) for place in range(len(rows))]
        axes.barh(places, means, 0.25, color=color, label=start)
        axes.errorbar(means, places, xerr=errors, fmt="none", **_ERROR)
        for place, mean, error in zip(places, means, errors, strict=True):
            axes.text(
                mean + error + 0.7, place, f"{mean:.1f}", va="center", size=8
            )
    axes.set_yticks(
        range(len(rows)), [f"{row[0]}\n{row[1]}" for row in rows], size=8
    )
    axes.set_xlim(0, 100)
    axes.legend(
        fontsize=7, loc="upper center", bbox_to_anchor=(0.45, -0.08), ncols=4,
        frameon=False, columnspacing=1.2, handlelength=1.2,
    )  # fmt: skip
    axes.set_title(
        "Fine-tuned from there: scores of five seeds", size=9, loc="left"
    )


if __name__ == "__main__":
    main()

"""Draws directions-small.png from the tables of its report.

python .github/images/directions.py
"""

import pathlib
import re

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

_REPORTS = pathlib.Path(__file__).parents[2] / "paper/reports"
_NUMBER = re.compile(r"[\d.]+")
_COLORS = ("#e8710a", "#1a73e8", "#188038", "#9aa0a6")
_CHANCE = 50


def main() -> None:
    """Draws the losses on held-out text beside the shares of BLiMP."""
    text = (_REPORTS / "directions-small.md").read_text(encoding="utf-8")
    figure, (curves, bars) = pyplot.subplots(
        ncols=2, figsize=(9, 3.6), dpi=150, width_ratios=(4, 5)
    )
    _draw_curves(curves, _table(text, "Held-out text"))
    _draw_bars(bars, _table(text, "BLiMP"))
    for axes in (curves, bars):
        axes.tick_params(length=0, labelsize=8)
        axes.spines[:].set_visible(False)
        axes.grid(axis="y", linewidth=0.5)
    figure.tight_layout()
    figure.savefig(_REPORTS / "directions-small.png")


def _table(text: str, heading: str) -> list[list[str]]:
    """Returns the cells of a section's first table, row by row."""
    lines = iter(text.split(f"## {heading}\n", 1)[1].splitlines())
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.split("|")[1:-1]])
        elif rows:
            break
    return [rows[0], *rows[2:]]


def _numbers(cell: str) -> list[float]:
    """Returns the results of the pre-trainings of a cell."""
    return [float(number) for number in _NUMBER.findall(cell)]


def _draw_curves(axes, table) -> None:
    header, *rows = table
    steps = [int(row[0].replace(",", "")) for row in rows]
    for column, (name, color) in enumerate(
        zip(header[1:], _COLORS, strict=True), start=1
    ):
        points = [
            (step, value)
            for step, row in zip(steps, rows, strict=True)
            for value in _numbers(row[column])
        ]
        # Each pre-training has a line of its own.
        for number in (0, 1):
            axes.plot(
                *zip(*points[number::2], strict=True),
                "-",
                color=color,
                linewidth=1.2,
                label=None if number else name,
            )
    axes.set_xlabel("steps of pre-training", size=8)
    axes.set_title("Loss of the words on held-out text", size=9, loc="left")
    axes.legend(fontsize=7, frameon=False)


def _draw_bars(axes, table) -> None:
    header, *rows = table
    for number, (row, color) in enumerate(zip(rows, _COLORS, strict=True)):
        groups = [_numbers(cell) for cell in row[1:]]
        places = [place + 0.2 * (number - 1.5) for place in range(len(groups))]
        means = [sum(values) / len(values) for values in groups]
        axes.bar(
            places,
            [mean - _CHANCE for mean in means],
            0.19,
            bottom=_CHANCE,
            color=color,
        )
        for place, values in zip(places, groups, strict=True):
            axes.plot([place] * len(values), values, "k.", markersize=3)
    axes.set_xticks(range(len(header) - 1), header[1:], size=8)
    axes.set_title(
        "BLiMP: right pairs in per cent, from 50, which is chance;\n"
        "dots: the two pre-trainings",
        size=9,
        loc="left",
    )


if __name__ == "__main__":
    main()

"""The plot of a figure: ours with deviations, the paper's dashed."""

import textwrap

from files import writing
from paper import report, tables


def draw(table: tables.Table, found: report.Found, path: str) -> bool:
    """Draws the lines of a figure as PNG.

    Args:
        table: the figure.
        found: its results.
        path: of the picture.

    Returns:
        Whether there was anything to draw.
    """
    # Imported late: it takes a second, and most calls draw nothing.
    from matplotlib import figure

    drawing = figure.Figure(figsize=(7, 4.5), layout="constrained")
    axes = drawing.add_subplot()
    anything = False
    for number, line in enumerate(table.series):
        colour = f"C{number}"
        points = [
            (x, found[place].mean, found[place].deviation or 0.0)
            for x, place in line.points
            if found[place] is not None
        ]
        if points:
            anything = True
            x, mean, deviation = zip(*points, strict=True)
            axes.errorbar(
                x,
                mean,
                yerr=deviation,
                marker="o",
                capsize=3,
                color=colour,
                label=line.name,
            )
        if line.paper:
            axes.plot(
                *zip(*line.paper, strict=True),
                linestyle="--",
                color=colour,
                label=f"{line.name}, paper",
            )
    if not anything:
        return False
    axes.set_title("\n".join(textwrap.wrap(table.title, 50)))
    axes.set_xlabel(table.x_label)
    axes.set_ylabel("score on the development set")
    axes.grid(alpha=0.3)
    drawing.legend(loc="outside right upper")
    with writing.whole_file(path, "wb") as file:
        drawing.savefig(file, format="png", dpi=150)
    return True

"""Pictures of what runs reported: one panel for each metric."""

from collections.abc import Mapping, Sequence

from files import writing
from training import metrics_log

_PANEL_INCHES = (7.0, 2.2)
_DOTS_PER_INCH = 120
_LEARNING_RATE = "learning_rate"
# What is said of the machine and of a step, not of how well a run does.
_NOT_DRAWN = {
    *("step", "examples_per_second", "input_wait"),
    *("gradient_norm", "skipped_steps"),
}
_TRAINING, _HELD_OUT = "training", "held out"

Records = Sequence[metrics_log.Record]


def panels(runs: Mapping[str, Records]) -> list[str]:
    """Lists the metrics to draw: losses, then others, then the rate."""
    names = {
        name.removeprefix(metrics_log.HELD_OUT)
        for records in runs.values()
        for record in records
        for name in record
    } - _NOT_DRAWN
    return sorted(names, key=_place)


def _place(name: str) -> tuple[object, ...]:
    is_rate, is_loss = name == _LEARNING_RATE, name.endswith("loss")
    # The total loss before its terms; terms of one task side by side.
    return is_rate, name != "loss", not is_loss, name


def draw(runs: Mapping[str, Records], path: str) -> None:
    """Draws every metric of one or several runs against the step.

    Training and, where there is one, evaluation share a panel; so do runs,
    each in its colour. Where nothing was reported, no file is written.

    Args:
        runs: the reports of each, by what the legend calls it.
        path: of the PNG to write.
    """
    names = panels(runs)
    if not names:
        return
    from matplotlib.backends import backend_agg
    from matplotlib.figure import Figure

    width, height = _PANEL_INCHES
    figure = Figure((width, height * len(names)), layout="constrained")
    axes = figure.subplots(len(names), sharex=True, squeeze=False)[:, 0]
    for axis, name in zip(axes, names, strict=True):
        for number, (run, records) in enumerate(runs.items()):
            colors = (f"C{number}",) * 2 if len(runs) > 1 else ("C0", "C1")
            _draw_run(axis, name, records, run if len(runs) > 1 else "", colors)
        axis.set_ylabel(name.replace("_", " "))
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
    axes[-1].set_xlabel("step")
    backend_agg.FigureCanvasAgg(figure)
    with writing.whole_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=_DOTS_PER_INCH)


def _draw_run(axis, name: str, records: Records, run: str, colors) -> None:
    """Draws the two curves of a metric, each in its colour."""
    held_out = f"{metrics_log.HELD_OUT}{name}"
    for column, kind, style, color in (
        (name, _TRAINING, "-", colors[0]),
        (held_out, _HELD_OUT, "o:" if run else "o-", colors[1]),
    ):
        points = [
            (r["step"], r[column]) for r in records if r.get(column) is not None
        ]
        if points:
            label = f"{run}, {kind}" if run else kind
            if name == _LEARNING_RATE:
                label = run or None
            axis.plot(
                *zip(*points, strict=True),
                style,
                color=color,
                markersize=3,
                label=label,
            )

"""Draws fine_tuning.png from the table of results in docs/evidence.md.

python .github/images/fine_tuning.py
"""

import pathlib
import re

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

_FOLDER = pathlib.Path(__file__).parent
_ROW = re.compile(
    r"^\| (.+), (\S.+?)(?: \([\d.]+\))? \| \d+ \| (.+ ± .+) / (.+ ± .+)"
    r" \| .+ \| (0\.\d\d) \| .+ \|$",
    re.MULTILINE,
)
_OURS, _THEIRS = "#e8710a", "#c4c7cc"


def main() -> None:
    """Draws the processor time of both programs, with their scores."""
    text = (_FOLDER / "../../docs/evidence.md").read_text(encoding="utf-8")
    # The loss of SQuAD is another one there (docs/evidence.md).
    rows = [r for r in _ROW.findall(text)[::-1] if "SQuAD" not in r[0]]
    figure, axes = pyplot.subplots(figsize=(8, 3), dpi=150)
    for place, (*_, ours, theirs, ratio) in enumerate(rows):
        share = round(100 * float(ratio))
        axes.barh(place - 0.19, 100, 0.36, color=_THEIRS)
        axes.barh(place + 0.19, share, 0.36, color=_OURS)
        axes.text(
            1.5, place + 0.18, f"this project: {ours}", va="center", size=8
        )
        axes.text(
            1.5, place - 0.2, f"transformers: {theirs}", va="center", size=8
        )
        axes.text(share + 1, place + 0.18, f"{share}%", va="center", size=8)
    axes.set_yticks(
        range(len(rows)), [f"{row[0]}\n{row[1]}" for row in rows], size=8
    )
    axes.set_xlim(0, 100)
    axes.set_xticks(range(0, 101, 25), [f"{x}%" for x in range(0, 101, 25)])
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    axes.set_title(
        "Fine-tuning all-MiniLM-L6-v2 on a CPU in bfloat16: processor time "
        "and scores of several seeds",
        size=9,
        loc="left",
    )
    figure.tight_layout()
    figure.savefig(_FOLDER / "fine_tuning.png")


if __name__ == "__main__":
    main()

from training import curves

_RECORDS = [
    {
        "step": 1,
        "loss": 2.0,
        "next_sentence_loss": 0.5,
        "masked_lm_accuracy": 0.25,
        "gradient_norm": 1.0,
        "learning_rate": 0.1,
        "examples_per_second": 3.0,
        "input_wait": 0.5,
    },
    {"step": 2, "loss": 1.0, "learning_rate": 0.05},
    {"step": 2, "eval_loss": 1.5, "eval_f1": 80.0},
]


def test_losses_come_first_and_the_rate_last():
    assert curves.panels({"": _RECORDS}) == [
        "loss",
        "next_sentence_loss",
        "f1",
        "masked_lm_accuracy",
        "learning_rate",
    ]


def _figure(monkeypatch, runs, path):
    """Draws, and returns the figure that was drawn."""
    from matplotlib import figure

    made = []

    class Figure(figure.Figure):
        def __init__(self, *args, **named):
            super().__init__(*args, **named)
            made.append(self)

    monkeypatch.setattr(figure, "Figure", Figure)
    curves.draw(runs, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    return made[0]


def test_training_and_evaluation_share_a_panel(tmp_path, monkeypatch):
    drawn = _figure(monkeypatch, {"": _RECORDS}, tmp_path / "a.png")
    loss, *_, rate = drawn.axes
    assert [line.get_label() for line in loss.lines] == ["training", "held out"]
    assert loss.lines[0].get_xydata().tolist() == [[1, 2.0], [2, 1.0]]
    assert loss.lines[1].get_xydata().tolist() == [[2, 1.5]]
    assert rate.get_ylabel() == "learning rate"
    assert rate.get_legend() is None


def test_each_run_has_its_color(tmp_path, monkeypatch):
    drawn = _figure(
        monkeypatch, {"a": _RECORDS, "b": _RECORDS[:2]}, tmp_path / "b.png"
    )
    lines = drawn.axes[0].lines
    assert [line.get_label() for line in lines] == [
        "a, training",
        "a, held out",
        "b, training",
    ]
    colors = [line.get_color() for line in lines]
    assert colors[0] == colors[1] != colors[2]


def test_nothing_to_draw_makes_no_picture(tmp_path):
    curves.draw({"": []}, str(tmp_path / "a.png"))
    assert not (tmp_path / "a.png").exists()

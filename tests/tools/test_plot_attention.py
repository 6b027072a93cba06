import numpy as np
import pytest

from tests.support import toy_files, toy_pretraining, toy_vocabulary
from tools import plot_attention

_ENTRIES = [
    *toy_vocabulary.SPECIAL,
    *("the", "cat", "sat"),
    *(f"w{i}" for i in range(23)),
]


def test_a_panel_for_each_head_with_its_tokens():
    probs = np.random.default_rng(0).random((2, 3, 5, 5))
    tokens = ["[CLS]", "a", "b", "c", "[SEP]"]
    figure = plot_attention.draw(probs, tokens)
    panels = [axis for axis in figure.axes if axis.get_title()]
    assert [axis.get_title() for axis in panels] == [
        f"layer {layer}, head {n}" for layer in range(2) for n in range(3)
    ]
    np.testing.assert_array_equal(
        panels[4].get_images()[0].get_array(), probs[1, 1]
    )
    labels = [label.get_text() for label in panels[0].get_yticklabels()]
    assert labels == tokens
    # A panel is two inches wide and high.
    assert figure.get_size_inches().tolist() == [2 * 3 + 2, 2 * 2 + 1]
    # All have one scale, which a few high values do not set.
    limits = {axis.get_images()[0].get_clim() for axis in panels}
    assert limits == {(0, np.percentile(probs, 99.5))}


@pytest.mark.parametrize(("num_heads", "has_labels"), [(12, True), (13, False)])
def test_labels_are_left_out_if_they_would_make_a_huge_picture(
    num_heads, has_labels
):
    tokens = [f"w{n}" for n in range(20)]
    figure = plot_attention.draw(np.ones((1, num_heads, 20, 20)), tokens)
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == (tokens if has_labels else [""] * 20)
    assert max(figure.get_size_inches()) <= 42


@pytest.fixture
def options(tmp_path):
    from modeling import bert, checkpoints, config

    path = toy_pretraining.write_config(
        tmp_path / "bert_config.json", num_hidden_layers=2
    )
    model = bert.BertModel(config.BertConfig.from_json_file(path))
    checkpoints.save(
        str(tmp_path / "a.ckpt"), checkpoints.variables_by_name(model)
    )
    toy_files.write_lines(tmp_path / "vocab.txt", _ENTRIES)

    def make(**changes):
        values = {
            "bert_config_file": path,
            "vocab_file": str(tmp_path / "vocab.txt"),
            "init_checkpoint": str(tmp_path / "a.ckpt"),
            "text": "the cat ||| sat",
            "output_file": str(tmp_path / "a.png"),
        }
        return plot_attention.Options(**{**values, **changes})

    make.model = model
    return make


@pytest.mark.integration
def test_a_picture_is_drawn_of_a_checkpoint(options, tmp_path, monkeypatch):
    # A picture's numbers cannot be read from its pixels.
    drawn = []
    draw = plot_attention.draw
    monkeypatch.setattr(
        plot_attention,
        "draw",
        lambda *arguments: drawn.append(arguments) or draw(*arguments),
    )
    plot_attention.run(options())
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    ((probs, tokens),) = drawn
    assert tokens == ["[CLS]", "the", "cat", "[SEP]", "sat", "[SEP]"]
    assert probs.shape == (2, 3, 6, 6)
    np.testing.assert_allclose(probs.sum(-1), 1, rtol=1e-5)
    of_layers = options.model.attention_probs(
        np.array([[_ENTRIES.index(token) for token in tokens]]),
        segment_ids=np.array([[0, 0, 0, 0, 1, 1]]),
    )
    for layer, expected in zip(probs, of_layers, strict=True):
        np.testing.assert_allclose(layer, expected[0], rtol=1e-5)


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]", "[UNK]"])
def test_the_vocabulary_must_have_the_special_tokens(options, tmp_path, token):
    entries = [f"x{i}" if e == token else e for i, e in enumerate(_ENTRIES)]
    toy_files.write_lines(tmp_path / "vocab.txt", entries)
    with pytest.raises(ValueError, match=token[1:-1]):
        plot_attention.run(options())


def test_too_much_text_is_refused(options):
    with pytest.raises(ValueError, match="at most 16 word pieces"):
        plot_attention.run(options(text="cat " * 15))

import pytest

from bert.tasks.pretraining import instance_options


# Half to even, as Python 3 rounds; the length counts [CLS] and [SEP].
@pytest.mark.parametrize(
    ("num_tokens", "prob", "wanted"),
    [
        (5, 0.15, 1),
        (10, 0.15, 2),
        (30, 0.15, 4),
        (50, 0.15, 8),
        (70, 0.15, 10),
        (128, 0.15, 19),
        (128, 0.0, 1),
        (10, 1.0, 10),
    ],
)
def test_number_of_predictions(num_tokens, prob, wanted):
    options = instance_options.InstanceOptions(masked_lm_prob=prob)
    assert options.num_to_predict(num_tokens) == wanted


# 128 * 0.15 rounds to 19.
@pytest.mark.parametrize(("limit", "num_warnings"), [(19, 0), (18, 1)])
def test_too_few_predictions_are_a_warning(limit, num_warnings):
    options = instance_options.InstanceOptions(max_predictions_per_seq=limit)
    found = options.warnings()
    assert len(found) == num_warnings
    for text in found:
        assert "max_predictions_per_seq=18" in text
        assert "needs 19" in text


# The second is the share of the tokens kept of those that are not masked.
@pytest.mark.parametrize(
    ("masking", "probs"),
    [
        ("80,10,10", (0.8, 0.5)),
        ("60,30,10", (0.6, 0.75)),
        ("100,0,0", (1.0, 0.0)),
        ("80,0,20", (0.8, 0.0)),
    ],
)
def test_masking_is_drawn_in_two_steps(masking, probs):
    options = instance_options.InstanceOptions(masking=masking)
    assert options.draw_probs == pytest.approx(probs)


@pytest.mark.parametrize(
    "text", ["80,10", "80,10,10,0", "-10,60,50", "80,10,11", "80,ten,10", ""]
)
def test_masking_is_three_shares_of_a_whole(text):
    message = f"must be three percentages that sum to 100, .* got {text}\\.$"
    with pytest.raises(ValueError, match=message):
        instance_options.InstanceOptions(masking=text)

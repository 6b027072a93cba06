"""The search for the best spans in the logits of windows.

Source: behaviour of run_squad.py of google-research/bert, measured.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tasks.squad import squad_features

_CUT_PADDING = -1e9  # As `training.prediction` gives to places of a batch.


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """How answers are searched.

    Args:
        n_best_size: starts and ends tried in each window, and answers kept.
        max_answer_length: in word pieces.
        version_2_with_negative: "no answer" takes part, as token 0.
    """

    n_best_size: int = 20  # Source: run_squad.py of the release.
    max_answer_length: int = 30  # Source: the same.
    version_2_with_negative: bool = False

    def __post_init__(self):
        if self.n_best_size < 1 or self.max_answer_length < 1:
            raise ValueError(
                "n_best_size and max_answer_length must be at least 1; got "
                f"{self.n_best_size} and {self.max_answer_length}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowLogits:
    """What the network says of one window: `[T]` float start, end logits."""

    unique_id: int
    start_logits: np.ndarray
    end_logits: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """Tokens `start` to `end` of window `window`; token 0 is "no answer"."""

    window: int
    start: int
    end: int
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        """The sum of the two logits."""
        return self.start_logit + self.end_logit


def window_logits(
    unique_ids: np.ndarray,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    max_seq_length: int,
) -> list[WindowLogits]:
    """Takes apart the logits of all windows.

    Args:
        unique_ids: `[W]` integers.
        start_logits, end_logits: `[W, t]` float, `t <= T` where padding that
            all windows share was cut; its places score below any other.
        max_seq_length: `T`.
    """
    cut = [(0, 0), (0, max_seq_length - start_logits.shape[1])]
    starts, ends = (
        np.pad(logits, cut, constant_values=_CUT_PADDING)  # [W, T]
        for logits in (start_logits, end_logits)
    )
    return [
        WindowLogits(unique_id=unique_id, start_logits=start, end_logits=end)
        for unique_id, start, end in zip(
            unique_ids.tolist(), starts, ends, strict=True
        )
    ]


def checked_logits(
    feature: squad_features.SquadFeatures,
    logits_of: Mapping[int, WindowLogits],
) -> np.ndarray:
    """Returns the checked logits of a window, `[2, T]` float64."""
    result = logits_of.get(feature.unique_id)
    if result is None:
        raise ValueError(
            f"Every window must have logits; window {feature.unique_id} has "
            "none. Were the windows made with other options than the logits?"
        )
    # Scores are added as float64, as released.
    logits = np.array([result.start_logits, result.end_logits], np.float64)
    shape = 2, len(feature.input_ids)
    if logits.shape != shape:
        raise ValueError(
            f"Window {feature.unique_id} must have start and end logits of "
            f"shape {shape}; got {logits.shape}."
        )
    if not np.isfinite(logits).all():
        raise ValueError(
            f"Logits must be finite; those of window {feature.unique_id} are "
            "not. Has the model diverged?"
        )
    return logits


def null_span(logits: np.ndarray) -> Span:
    """Finds "no answer" where it scores lowest, the first window of equals.

    Args:
        logits: `[W, 2, T]` float64, start and end.
    """
    scores = logits[:, 0, 0] + logits[:, 1, 0]  # [W]
    return _span(logits, int(np.argmin(scores)), 0, 0)


def ranked_spans(
    features: Sequence[squad_features.SquadFeatures],
    logits: np.ndarray,
    options: AnswerOptions,
) -> Iterator[Span]:
    """Yields the possible answers of a question, highest score first.

    Tried are the `n_best_size` highest starts with the `n_best_size` highest
    ends of each window. An answer lies in the paragraph, is not too long,
    and starts where its window shows the most context (as released, its end
    need not). Equal scores stay in the order of window, start, end; in
    version 2 "no answer" comes last of its equals.

    Args:
        features: the `W` windows of the question.
        logits: `[W, 2, T]` float64, start and end.
        options: how answers are searched.
    """
    can_end = np.zeros(logits[:, 0].shape, bool)  # [W, T]
    can_start = np.zeros_like(can_end)  # [W, T]
    for window, feature in enumerate(features):
        here = slice(len(feature.tokens))
        can_end[window, here] = feature.token_to_orig_map >= 0
        can_start[window, here] = feature.token_is_max_context
    # Stable, so that of equal logits the first position is the better one.
    best = np.argsort(-logits, axis=-1, kind="stable")
    best = best[..., : options.n_best_size]  # [W, 2, n]
    starts, ends = best[:, 0, :, None], best[:, 1, None, :]
    window = np.arange(len(features))[:, None, None]
    length = ends - starts + 1  # [W, n, n]
    is_answer = (
        can_start[window, starts]
        & can_end[window, ends]
        & (length >= 1)
        & (length <= options.max_answer_length)
    )
    windows, i, j = np.nonzero(is_answer)
    starts, ends = best[windows, 0, i], best[windows, 1, j]
    if options.version_2_with_negative:
        null = null_span(logits)
        windows = np.append(windows, null.window)
        starts, ends = np.append(starts, 0), np.append(ends, 0)
    scores = logits[windows, 0, starts] + logits[windows, 1, ends]
    for k in np.argsort(-scores, kind="stable").tolist():
        yield _span(logits, int(windows[k]), int(starts[k]), int(ends[k]))


def _span(logits: np.ndarray, window: int, start: int, end: int) -> Span:
    return Span(
        window=window,
        start=start,
        end=end,
        start_logit=float(logits[window, 0, start]),
        end_logit=float(logits[window, 1, end]),
    )

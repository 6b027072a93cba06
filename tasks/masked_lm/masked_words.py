"""A record as words for people: what is masked, and by what."""

import dataclasses
from collections.abc import Mapping

import numpy as np

PLAIN, SPECIAL, HIDDEN, SAME, REPLACED = (
    *("plain", "special", "hidden", "same", "replaced"),
)
_CONTINUATION = "##"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """A token of a record.

    Attributes:
        text: the token, before masking; without `##` in the middle of a word.
        kind: `PLAIN`, `SPECIAL`, or how a token to predict is shown to the
            model: as `[MASK]` (`HIDDEN`), as itself (`SAME`), as another
            (`REPLACED`).
        shown: what the model sees instead, of `REPLACED`.
        starts_word: whether there is a space before it.
    """

    text: str
    kind: str
    shown: str = ""
    starts_word: bool = True


def pieces(
    record: Mapping[str, np.ndarray], tokens: Mapping[int, str]
) -> list[Piece]:
    """Lists the tokens of a record, without padding.

    Args:
        record: `input_ids` and `input_mask` `[T]`; `masked_lm_positions`,
            `masked_lm_ids` and `masked_lm_weights` `[P]`, where there are any.
        tokens: token by id; an id without one is shown as its number.
    """
    is_real = record.get("masked_lm_weights", np.zeros(0)) > 0
    answers = {
        int(place): int(label)
        for place, label in zip(
            record.get("masked_lm_positions", np.zeros(0))[is_real],
            record.get("masked_lm_ids", np.zeros(0))[is_real],
            strict=True,
        )
    }
    length = int(record["input_mask"].sum())
    found: list[Piece] = []
    for place, shown in enumerate(record["input_ids"][:length]):
        answer = answers.get(place)
        found.append(
            _piece(
                _token(tokens, int(shown)),
                None if answer is None else _token(tokens, answer),
                # A text may begin in the middle of a word, which truncation
                # has cut.
                is_first=not found or found[-1].kind == SPECIAL,
            )
        )
    return found


def _token(tokens: Mapping[int, str], index: int) -> str:
    return tokens.get(index, f"[id {index}]")


def _piece(shown: str, answer: str | None, *, is_first: bool) -> Piece:
    text = shown if answer is None else answer
    continues = (
        text.startswith(_CONTINUATION)
        and text != _CONTINUATION
        and not is_first
    )
    kind = PLAIN
    if answer is None:
        if shown.startswith("[") and shown.endswith("]") and len(shown) > 2:
            kind = SPECIAL
    elif shown == "[MASK]":
        kind = HIDDEN
    else:
        kind = SAME if shown == answer else REPLACED
    return Piece(
        text=text.removeprefix(_CONTINUATION) if continues else text,
        kind=kind,
        shown=shown if kind == REPLACED else "",
        starts_word=not continues,
    )


def as_text(words: list[Piece], styles: Mapping[str, str]) -> str:
    """Writes pieces in a row.

    Args:
        words: of a record.
        styles: for each kind a pattern with `{text}` and `{shown}`.
    """
    parts = []
    for piece in words:
        space = " " if parts and piece.starts_word else ""
        styled = styles[piece.kind].format(text=piece.text, shown=piece.shown)
        parts.append(space + styled)
    return "".join(parts)

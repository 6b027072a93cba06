"""Numbers rounded to six decimals as JSON text, many at a time.

`json.dumps` takes several times as long, longer than a small network takes
to compute them. The text is the same.
"""

import functools
import json

import numpy as np

_DECIMALS = 6  # As released.
_SCALE = 10**_DECIMALS
# From here on, `repr` may write other digits than the decimal ones.
_LARGEST = 2**31 / _SCALE
# Below this many millionths, `repr` writes an exponent.
_SMALLEST_PLAIN = 100
_SEPARATOR = b", "


def json_rows(values: np.ndarray) -> list[str]:
    """Writes each row as `json.dumps` writes its `round`ed numbers.

    Args:
        values: `[r, D]` float32 or float16, finite.

    Returns:
        `r` texts without brackets, such as "0.5, -1.25".
    """
    # Exact, and so rounded as `round` does: the product has at most 38 bits.
    scaled = np.rint(values.astype(np.float64) * _SCALE)
    if np.abs(scaled).max(initial=0) >= _LARGEST * _SCALE:
        return [json.dumps(row)[1:-1] for row in (scaled / _SCALE).tolist()]
    text, is_kept = _characters(
        np.abs(scaled).astype(np.uint32).ravel(), np.signbit(values).ravel()
    )
    joined = text[is_kept].tobytes().decode("ascii")
    shape = (len(values), values.shape[1] * is_kept.shape[1])
    lengths = is_kept.reshape(shape).sum(axis=1)  # [r]
    ends = np.cumsum(lengths).tolist()
    starts = [0, *ends][:-1]
    return [
        joined[start : max(start, end - len(_SEPARATOR))]
        for start, end in zip(starts, ends, strict=True)
    ]


def _characters(
    millionths: np.ndarray, is_negative: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lays numbers out in columns: sign, digits, point, digits, separator.

    Args:
        millionths: `[n]` uint32.
        is_negative: `[n]` bool.

    Returns:
        `[n, W]` uint8 characters, and `[n, W]` bool which of them are written.
    """
    whole = millionths // _SCALE
    fraction = millionths - whole * _SCALE
    num_whole = len(str(whole.max(initial=0)))
    point = 1 + num_whole
    end = point + 1 + _DECIMALS
    text = np.empty((len(millionths), end + len(_SEPARATOR)), np.uint8)
    is_kept = np.ones(text.shape, bool)
    text[:, 0], is_kept[:, 0] = ord("-"), is_negative
    for column in range(1, point):
        power = 10 ** (num_whole - column)
        text[:, column] = whole // power % 10 + ord("0")
        is_kept[:, column] = (whole >= power) | (power == 1)
    characters, is_digit_kept = _fractions()
    text[:, point:end] = characters.take(fraction, axis=0)
    is_kept[:, point:end] = is_digit_kept.take(fraction, axis=0)
    text[:, -len(_SEPARATOR) :] = list(_SEPARATOR)
    is_small = (millionths > 0) & (millionths < _SMALLEST_PLAIN)
    for place in np.flatnonzero(is_small):
        short = repr(millionths[place].item() / _SCALE).encode("ascii")
        text[place, 1 : 1 + len(short)] = list(short)
        is_kept[place, 1 : 1 + len(short)] = True
        is_kept[place, 1 + len(short) : -len(_SEPARATOR)] = False
    return text, is_kept


@functools.cache
def _fractions() -> tuple[np.ndarray, np.ndarray]:
    """Lists what follows the whole part, for each number of millionths.

    Returns:
        `[10**6, 7]` uint8, the point and six digits, and `[10**6, 7]` bool
        which of them are written: zeros at the end are not, but for one
        behind the point.
    """
    fractions = np.arange(_SCALE, dtype=np.int32)[:, np.newaxis]
    powers = 10 ** np.arange(_DECIMALS - 1, -1, -1, dtype=np.int32)
    characters = np.full((_SCALE, 1 + _DECIMALS), ord("."), np.uint8)
    characters[:, 1:] = fractions // powers % 10 + ord("0")
    is_kept = np.ones(characters.shape, bool)
    is_kept[:, 2:] = fractions % (10 * powers[1:]) > 0
    return characters, is_kept

"""Numbers rounded to six decimals as JSON text, many at a time.

`json.dumps` takes some three times as long, longer than a small network takes
to compute them. The text is the same.
"""

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
    whole, fraction = np.divmod(millionths, _SCALE)
    num_whole = len(str(whole.max(initial=0)))
    width = 1 + num_whole + 1 + _DECIMALS + len(_SEPARATOR)
    text = np.empty((len(millionths), width), np.uint8)
    is_kept = np.ones(text.shape, bool)
    text[:, 0], is_kept[:, 0] = ord("-"), is_negative
    for column in range(1, num_whole + 1):
        power = 10 ** (num_whole - column)
        text[:, column] = whole // power % 10 + ord("0")
        is_kept[:, column] = (whole >= power) | (power == 1)
    point = num_whole + 1
    text[:, point] = ord(".")
    for column in range(point + 1, point + 1 + _DECIMALS):
        power = 10 ** (point + _DECIMALS - column)
        text[:, column] = fraction // power % 10 + ord("0")
        # Zeros at the end go, but for one behind the point.
        is_kept[:, column] = fraction % (10 * power) > 0
    is_kept[:, point + 1] = True
    text[:, -len(_SEPARATOR) :] = list(_SEPARATOR)
    is_small = (millionths > 0) & (millionths < _SMALLEST_PLAIN)
    for place in np.flatnonzero(is_small):
        short = repr(millionths[place].item() / _SCALE).encode("ascii")
        text[place, 1 : 1 + len(short)] = list(short)
        is_kept[place, 1 : 1 + len(short)] = True
        is_kept[place, 1 + len(short) : -len(_SEPARATOR)] = False
    return text, is_kept

"""Good files made bad: bytes, text and parsed JSON, changed at random."""

import copy
import itertools
import json
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

# What parsers stumble over, as it stands in a file.
TEXT_WORDS = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\r"),
    *(b"\r\n", b"\n", b"\n\n", b"\t", b",", b" ", b'"', b'""', b"'", b"\\"),
    *("\u2028".encode(), "\u0085".encode(), "\u00a0".encode(), b"\x1c"),
    *(b"-", b"-1", b"0", b"1e999", b"1.5", b"9" * 5000, b"NaN", b"-Infinity"),
    *(b"null", b"true", b"{}", b"[]", b"{", b"[", b"}", b"]", b":", b"#"),
    *(b"[" * 100_000, b'{"a":' * 5_000, b"\t" * 100_000, b"x" * 200_000),
    *(b'"\\ud800"', b"\\ud800", b"\\u0000", b"-DOCSTART-", b"[PAD]", b"_"),
)
BINARY_WORDS = (
    *(struct.pack("<Q", number) for number in (0, 1, 2**31, 2**60, 2**64 - 1)),
    *(struct.pack("<I", number) for number in (0, 1, 2**31, 2**32 - 1)),
    *(b"\0", b"\xff", b"\x80" * 10, b"\xff" * 16, b"\0" * 64),
)
# What a value of parsed JSON may be replaced by.
VALUES = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**400, 0.5, 1e308),
    *(float("nan"), float("-inf"), "", " ", "0", "-1", "x", "\ud800", "\0"),
    *("a\nb", "\u2028", "x" * 50_000, [], [None], [[]], {}, {"": None}),
)


def endless(
    seed: int, goods: Sequence[bytes], words: Sequence[bytes]
) -> Iterator[bytes]:
    """Yields good files, each changed in one to four places.

    Args:
        seed: equal seeds, equal files.
        goods: the files to start from.
        words: what is put in.
    """
    rng = random.Random(seed)
    while True:
        content = rng.choice(goods)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            content = rng.choice(_CHANGES)(rng, content, goods, words)
        yield content


def endless_json(seed: int, goods: Sequence[Any]) -> Iterator[bytes]:
    """Yields values as JSON, each changed in one to three of its parts.

    Args:
        seed: equal seeds, equal files.
        goods: parsed JSON; objects or lists.
    """
    rng = random.Random(seed)
    while True:
        value = copy.deepcopy(rng.choice(goods))
        for _ in range(rng.choice((1, 1, 2, 3))):
            _change_part(rng, value)
        yield json.dumps(value, ensure_ascii=rng.random() < 0.9).encode(
            "utf-8", "surrogatepass"
        )


def of_json(seed: int, good: Any) -> Iterator[bytes]:
    """Yields by turns damage to a value and damage to its text."""
    content = json.dumps(good, indent=2).encode()
    return alternate(
        endless_json(seed, [good]), endless(seed, [content], TEXT_WORDS)
    )


def alternate(*cases: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the cases of endless rows by turns."""
    return itertools.chain.from_iterable(zip(*cases, strict=True))


def flipped(content: bytes, bit: int) -> bytes:
    """Turns one bit over."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _flip(rng, content, goods, words) -> bytes:
    return flipped(content, rng.randrange(8 * len(content))) if content else b""


def _set_byte(rng, content, goods, words) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]


def _insert(rng, content, goods, words) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(words) + content[at:]


def _overwrite(rng, content, goods, words) -> bytes:
    at, word = rng.randrange(len(content) + 1), rng.choice(words)
    return content[:at] + word + content[at + len(word) :]


def _delete(rng, content, goods, words) -> bytes:
    start, end = _span(rng, content)
    return content[:start] + content[end:]


def _repeat(rng, content, goods, words) -> bytes:
    start, end = _span(rng, content)
    return content[:end] + content[start:end] + content[end:]


def _cut(rng, content, goods, words) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _splice(rng, content, goods, words) -> bytes:
    other = rng.choice(goods)
    return (
        content[: rng.randrange(len(content) + 1)]
        + other[rng.randrange(len(other) + 1) :]
    )


_CHANGES = (
    *(_flip, _flip, _set_byte, _insert, _insert, _overwrite),
    *(_delete, _repeat, _cut, _splice),
)


def _span(rng: random.Random, content: bytes) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.choice((1, 2, 4, 16, 256)))


def _change_part(rng: random.Random, value: Any) -> None:
    """Changes an entry of an object or list, somewhere inside, in place."""
    places = list(_places(value))
    if not places:
        return
    holder, key = rng.choice(places)
    change = rng.randrange(4)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif change == 1:
        holder[key + rng.choice(("", " ", "s"))] = holder.pop(key)
    elif change == 2:
        other_holder, other_key = rng.choice(places)
        holder[key] = copy.deepcopy(other_holder[other_key])
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Lists every entry: what holds it, and its key there."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    for key in keys:
        yield value, key
        yield from _places(value[key])

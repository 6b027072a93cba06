"""Buffer format of the normalizer of TensorFlow Text.

`tensorflow_text.FastBertNormalizer(model_buffer=...)` replaces characters one
by one, by a table in a buffer. Its own tables have other rules than the
release; this module writes the buffer for any table.

The format is internal to TensorFlow Text, so the result must be compared with
the definition (`serving.graph_tokenizer` does):

- A flatbuffer table of four fields: 0, a bool, whether text is lower-cased;
  1, a vector of uint32, the units of a trie over UTF-8 bytes; 2, an int32,
  the value of U+0000, which the trie cannot contain; 3, a vector of bytes, the
  pool of all replacements, concatenated.
- A value is `1 << 30 | offset in the pool << 6 | bytes of the replacement`.
- The trie is the double array of the Darts-clone library. The unit of a node
  has the byte that leads to it in bits 0-7, in bit 8 whether a key ends
  there, and from bit 10 its base XOR its own index. The child for a byte is
  the unit at index base XOR byte; the value of a key that ends is at the
  base itself, with bit 31 set.

Source: the behavior of TensorFlow Text 2.21.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

_MAX_REPLACEMENT_BYTES = 63  # Six bits hold the length.
_MAX_POOL_BYTES = 1 << 24
_MAX_UNITS = 1 << 21  # Beyond, the library encodes bases differently.
_HAS_VALUE = 1 << 8
_IS_VALUE = 1 << 31
_UNUSED = 1 << 31  # A byte can lead to no unit with this bit.
_CONTINUATION_BYTES = 64  # 0x80 to 0xBF follow the first byte of a character.


def build(replacements: Mapping[str, str], *, lower_case: bool) -> bytes:
    """Builds the buffer of a table of replacements.

    Args:
        replacements: character -> replacement, possibly empty. Other
            characters are kept.
        lower_case: the field of that name; it does not change the result.

    Raises:
        ValueError: a key is not one character, a replacement has more than
            63 bytes, or the table is too large for the format.
    """
    values, pool = _pooled(replacements)
    value_of_nul = values.pop("\0", 0)
    return _flatbuffer(
        _DoubleArray(values).units, value_of_nul, pool, lower_case
    )


def _pooled(replacements: Mapping[str, str]) -> tuple[dict[str, int], bytes]:
    """Concatenates replacements; returns character -> value, and the pool."""
    pool = bytearray()
    value_of = {}
    values = {}
    for char, replacement in replacements.items():
        if len(char) != 1:
            raise ValueError(f"A key must be one character; got {char!r}.")
        if replacement not in value_of:
            encoded = replacement.encode("utf-8")
            if len(encoded) > _MAX_REPLACEMENT_BYTES:
                raise ValueError(
                    f"A replacement must have at most {_MAX_REPLACEMENT_BYTES} "
                    f"bytes; that of {char!r} has {len(encoded)}."
                )
            value_of[replacement] = 1 << 30 | len(pool) << 6 | len(encoded)
            pool += encoded
        values[char] = value_of[replacement]
    if len(pool) > _MAX_POOL_BYTES:
        raise ValueError(
            f"Replacements must have at most {_MAX_POOL_BYTES} bytes together; "
            f"got {len(pool)}."
        )
    return values, bytes(pool)


class _DoubleArray:
    """A trie from the UTF-8 bytes of characters to values, in uint32 units."""

    def __init__(self, values: Mapping[str, int]):
        root: dict[int, Any] = {}  # Bytes -> nodes alike, or values.
        for char, value in values.items():
            *path, last = char.encode("utf-8")
            node = root
            for byte in path:
                node = node.setdefault(byte, {})
            node[last] = value
        # Unit 0 is the root; its children, for any first byte, are 256-511.
        self.units = [_UNUSED] * 512
        self.units[0] = 0
        self._set_base(0, 256)
        self._place_children(root, 256)
        self.units += [_UNUSED] * (-len(self.units) % 256)

    def _place_children(self, node: dict, base: int) -> None:
        for byte, child in node.items():
            index = base ^ byte
            self.units[index] = byte
            if isinstance(child, dict):
                child_base = self._new_block()
                self._set_base(index, child_base)
                self._place_children(child, child_base)
            else:
                self._set_base(index, len(self.units))
                self.units[index] |= _HAS_VALUE
                self.units.append(_IS_VALUE | child)

    def _new_block(self) -> int:
        """Adds units for all continuation bytes; returns their base."""
        self.units += [_UNUSED] * (-len(self.units) % _CONTINUATION_BYTES)
        start = len(self.units)
        self.units += [_UNUSED] * _CONTINUATION_BYTES
        return start ^ 0x80

    def _set_base(self, index: int, base: int) -> None:
        offset = index ^ base
        if offset >= _MAX_UNITS:
            raise ValueError(
                f"The trie must have fewer than {_MAX_UNITS} units; the table "
                "of replacements is too large."
            )
        self.units[index] |= offset << 10


def _flatbuffer(
    units: list[int], value_of_nul: int, pool: bytes, lower_case: bool
) -> bytes:
    import flatbuffers  # Installed with TensorFlow.

    builder = flatbuffers.Builder(0)
    trie = builder.CreateNumpyVector(np.array(units, np.uint32))
    # An empty vector is not read correctly.
    strings = builder.CreateByteVector(pool or b"\0")
    builder.StartObject(4)
    builder.PrependBoolSlot(0, lower_case, False)
    builder.PrependUOffsetTRelativeSlot(1, trie, 0)
    builder.PrependInt32Slot(2, value_of_nul, 0)
    builder.PrependUOffsetTRelativeSlot(3, strings, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())

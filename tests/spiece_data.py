"""Vocabularies of sentencepiece (protocol buffers) made by hand."""

from __future__ import annotations

import struct

__all__ = ["PIECES", "field", "model_of", "piece", "varint"]


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A field of a protocol buffer: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def piece(text, score=0.0, kind=1):
    number = varint(2 << 3 | 5) + struct.pack("<f", score)
    return field(1, field(1, text.encode()) + number + field(3, kind))


def model_of(*pieces, algorithm=1):
    special = [piece("<pad>", kind=3), piece("</s>", kind=3), piece("<unk>", kind=2)]
    return b"".join([*special, *pieces]) + field(2, field(3, algorithm))


PIECES = (piece("▁a", -1.0), piece("▁", -2.0), piece("b", -3.0), piece("ab", -1.5))

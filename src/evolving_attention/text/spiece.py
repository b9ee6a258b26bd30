"""Builds a tokenizers.Tokenizer from a spiece.model, SentencePiece's file of T5."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from evolving_attention.errors import CheckpointError
from evolving_attention.interop.paths import read_inside
from evolving_attention.text.build import MAX_FILE_BYTES, guard

if TYPE_CHECKING:
    import tokenizers

__all__ = ["from_spiece"]

_SPACE = "▁"
_UNIGRAM, _UNKNOWN, _CONTROL = 1, 2, 3
_EXTRA = 100  # sentinels of T5, if tokenizer_config.json does not say


class _Model(NamedTuple):
    """What the file holds of use here."""

    pieces: list[tuple[str, float]]
    kinds: list[int]
    charsmap: bytes


def from_spiece(path: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """T5's tokenizer: a unigram model, with sentinels behind the file's pieces.

    ``extra_ids`` of tokenizer_config.json is the number of sentinels; <extra_id_0> has
    the largest id.

    Raises:
        CheckpointError: the file is damaged, or has no unigram model.
    """
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    model = _read(path)
    extra = settings.get("extra_ids", _EXTRA)
    if type(extra) is not int or not 0 <= extra <= 100_000:
        raise CheckpointError(
            f"{path}: extra_ids of tokenizer_config.json is {extra!r}, expected a "
            "number of sentinels from 0 to 100,000"
        )
    sentinels = [f"<extra_id_{i}>" for i in range(extra - 1, -1, -1)]
    pieces = [*model.pieces, *((token, 0.0) for token in sentinels)]
    ids = {piece: index for index, (piece, _) in enumerate(pieces)}
    end = settings.get("eos_token", "</s>")
    end = end.get("content") if isinstance(end, Mapping) else end
    if end not in ids or len(ids) != len(pieces) or _UNKNOWN not in model.kinds:
        raise CheckpointError(
            f"{path}: expected different pieces, an unknown one, and the end token "
            f"{end!r}; is this T5's file?"
        )
    with guard(CheckpointError, str(path)):
        result = Tokenizer(models.Unigram(pieces, unk_id=model.kinds.index(_UNKNOWN)))
        steps: list[Any] = []
        if model.charsmap:
            steps.append(normalizers.Precompiled(model.charsmap))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        result.normalizer = normalizers.Sequence(steps)
        result.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(_SPACE)]
        )
        result.decoder = decoders.Metaspace(_SPACE)
        result.post_processor = processors.TemplateProcessing(
            single=f"$A {end}",
            pair=f"$A {end} $B {end}",
            special_tokens=[(end, ids[end])],
        )
        special = [
            piece
            for (piece, _), kind in zip(model.pieces, model.kinds, strict=True)
            if kind in (_UNKNOWN, _CONTROL)
        ]
        result.add_special_tokens(
            [AddedToken(t, normalized=False) for t in (*special, *reversed(sentinels))]
        )
    return result


def _read(path: Path) -> _Model:
    """The parts of SentencePiece's ModelProto, a protocol buffer."""
    raw = read_inside(path.parent, path.name, MAX_FILE_BYTES)
    pieces, kinds, charsmap, algorithm = [], [], b"", _UNIGRAM
    try:
        for field, value in _fields(raw):
            if field == 1:  # a piece: text, score, kind
                own = dict(_fields(value))
                (score,) = struct.unpack("<f", own.get(2, b"\0\0\0\0"))
                pieces.append((own[1].decode("utf-8"), score))
                kinds.append(own.get(3, 1))
            elif field == 2:  # of the trainer: 3 is the algorithm
                algorithm = dict(_fields(value)).get(3, _UNIGRAM)
            elif field == 3:  # of the normalizer: 2 is the table of characters
                charsmap = dict(_fields(value)).get(2, b"")
    except (IndexError, KeyError, TypeError, AttributeError, ValueError, struct.error):
        raise CheckpointError(
            f"{path}: is no SentencePiece model; fetch the file again"
        ) from None
    if algorithm != _UNIGRAM:
        raise CheckpointError(
            f"{path}: is not a unigram model (model_type {algorithm}), expected "
            f"{_UNIGRAM}, as T5's; take its tokenizer.json"
        )
    return _Model(pieces, kinds, charsmap)


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message: an int, or bytes."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(raw, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(raw, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("an unknown kind of field")
        if at + size > len(raw):
            raise ValueError("a field is cut off")
        yield key >> 3, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")

"""Checks on the normalizers, pre-tokenizers, processors, decoders of tokenizer.json.

Only known types pass. Patterns are bounded in length and may not take exponential
time; special tokens of templates must be tokens of the vocabulary with the same id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evolving_attention.errors import CheckpointError

__all__ = ["MAX_ID", "Check", "check_parts", "check_pattern", "is_id"]

MAX_ID = 10_000_000
MAX_PATTERN_CHARS = 1024
MAX_DEPTH = 16

_TYPES: dict[str, tuple[str, ...]] = {
    "normalizer": (
        "Sequence",
        "BertNormalizer",
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "Nmt",
        "Lowercase",
        "StripAccents",
        "Strip",
        "Replace",
        "Prepend",
        "Precompiled",
        "ByteLevel",
    ),
    "pre_tokenizer": (
        "Sequence",
        "BertPreTokenizer",
        "ByteLevel",
        "Whitespace",
        "WhitespaceSplit",
        "Metaspace",
        "Punctuation",
        "Digits",
        "Split",
        "CharDelimiterSplit",
        "UnicodeScripts",
    ),
    "post_processor": (
        "Sequence",
        "BertProcessing",
        "RobertaProcessing",
        "ByteLevel",
        "TemplateProcessing",
    ),
    "decoder": (
        "Sequence",
        "WordPiece",
        "ByteLevel",
        "Metaspace",
        "BPEDecoder",
        "CTC",
        "Replace",
        "Fuse",
        "Strip",
        "ByteFallback",
    ),
}
_PARTS = ("normalizers", "pretokenizers", "processors", "decoders")


class Check:
    """Raises :class:`CheckpointError` naming the file and the place in it."""

    def __init__(self, file: str) -> None:
        self.file = file

    def that(self, good: object, place: str, expected: str) -> None:
        if not good:
            raise CheckpointError(
                f"{self.file}: {place}: expected {expected}; the file is damaged or "
                "not a tokenizer of a kind that is read"
            )


def is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_ID


def check_parts(value: dict[str, Any], ids: dict[str, int], check: Check) -> None:
    """Check every processing part of a tokenizer.json against its vocabulary."""
    for name, known in _TYPES.items():
        part = value.get(name)
        if part is not None:
            for place, piece in _pieces(part, name, known, check):
                _check_piece(piece, place, ids, check)


def check_pattern(pattern: Any, place: str, file: str) -> None:
    """Refuse regular expressions that are long, or can take exponential time."""
    check = Check(file)
    check.that(isinstance(pattern, str) and pattern, place, "a regular expression")
    check.that(
        len(pattern) <= MAX_PATTERN_CHARS,
        place,
        f"at most {MAX_PATTERN_CHARS} characters of regular expression",
    )
    check.that(
        not _nested_quantifier(pattern),
        place,
        "no repeated group that itself holds a repetition or alternatives "
        "(it can take exponential time)",
    )


def _pieces(
    part: Any, place: str, known: tuple[str, ...], check: Check, depth: int = 0
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The parts of a (nested) sequence, each of a known type."""
    check.that(depth <= MAX_DEPTH, place, f"at most {MAX_DEPTH} levels")
    check.that(isinstance(part, dict), place, "an object")
    kind = part.get("type")
    check.that(
        isinstance(kind, str) and kind in known,
        f"{place}.type = {str(kind)[:40]!r}",
        ", ".join(known),
    )
    if kind != "Sequence":
        yield place, part
        return
    names = [name for name in _PARTS if name in part]
    check.that(len(names) == 1, place, "one list of parts")
    parts = part[names[0]]
    check.that(isinstance(parts, list) and len(parts) <= 100, place, "≤ 100 parts")
    for number, piece in enumerate(parts):
        inner = f"{place}.{names[0]}[{number}]"
        yield from _pieces(piece, inner, known, check, depth + 1)


def _check_piece(
    piece: dict[str, Any], place: str, ids: dict[str, int], check: Check
) -> None:
    kind = piece["type"]
    if kind in ("Replace", "Split"):
        pattern = piece.get("pattern")
        check.that(
            isinstance(pattern, dict)
            and len(pattern) == 1
            and next(iter(pattern)) in ("String", "Regex"),
            f"{place}.pattern",
            'an object {"String": …} or {"Regex": …}',
        )
        form, text = next(iter(pattern.items()))
        if form == "Regex":
            check_pattern(text, f"{place}.pattern", check.file)
        else:
            good = isinstance(text, str) and 0 < len(text) <= MAX_PATTERN_CHARS
            check.that(good, f"{place}.pattern", "a non-empty text")
    for name in ("content", "prepend", "replacement"):
        text = piece.get(name, "")
        good = isinstance(text, str) and len(text) <= MAX_PATTERN_CHARS
        check.that(good, f"{place}.{name}", f"at most {MAX_PATTERN_CHARS} characters")
    if kind in ("BertProcessing", "RobertaProcessing"):
        for name in ("sep", "cls"):
            pair = piece.get(name)
            good = isinstance(pair, list) and len(pair) == 2 and is_id(pair[1])
            check.that(good, f"{place}.{name}", "[token, id]")
            _check_special(pair[0], pair[1], f"{place}.{name}", ids, check)
    if kind == "TemplateProcessing":
        _check_template(piece, place, ids, check)


def _check_special(
    token: Any, index: int, place: str, ids: dict[str, int], check: Check
) -> None:
    good = isinstance(token, str) and ids.get(token) == index
    check.that(good, place, f"token and id as in the vocabulary, not {token!r}/{index}")


def _check_template(
    piece: dict[str, Any], place: str, ids: dict[str, int], check: Check
) -> None:
    specials = piece.get("special_tokens", {})
    check.that(isinstance(specials, dict), f"{place}.special_tokens", "an object")
    for name, entry in specials.items():
        inner = f"{place}.special_tokens[{name[:40]!r}]"
        good = (
            isinstance(entry, dict)
            and isinstance(entry.get("ids"), list)
            and isinstance(entry.get("tokens"), list)
            and len(entry["ids"]) == len(entry["tokens"])
            and all(is_id(index) for index in entry["ids"])
        )
        check.that(good, inner, "ids and tokens of one length")
        for token, index in zip(entry["tokens"], entry["ids"], strict=True):
            _check_special(token, index, inner, ids, check)
    for form in ("single", "pair"):
        template = piece.get(form)
        inner = f"{place}.{form}"
        good = isinstance(template, list) and 0 < len(template) <= 100
        check.that(good, inner, "a list of 1 to 100 pieces")
        for item in template:
            entry = next(iter(item.values()), None) if isinstance(item, dict) else None
            check.that(
                isinstance(entry, dict) and len(item) == 1 and "id" in entry,
                inner,
                "pieces {SpecialToken|Sequence: {id, type_id}}",
            )
            known = specials if "SpecialToken" in item else ("A", "B")
            token = entry["id"]
            check.that(
                isinstance(token, str) and token in known,
                f"{inner}: {str(token)[:40]!r}",
                "a name among special_tokens, or sequence A or B",
            )


def _nested_quantifier(pattern: str) -> bool:
    """Whether a repeated group holds a repetition or alternatives.

    Walks the pattern once with a stack of open groups; each entry says whether that
    group holds a repetition without bound or alternatives so far.
    """
    groups = [False]
    position, length = 0, len(pattern)
    while position < length:
        char = pattern[position]
        if char == "\\":
            position += 2
            groups[-1] = groups[-1] or _repeats(pattern, position)
            continue
        if char == "[":
            position = _class_end(pattern, position)
            continue
        if char == "(":
            groups.append(False)
        elif char == "|":
            groups[-1] = True
        elif char == ")" and len(groups) > 1:
            inner = groups.pop()
            repeated = _repeats(pattern, position + 1)
            if inner and repeated:
                return True
            groups[-1] = groups[-1] or inner
        if char not in "(|" and _repeats(pattern, position + 1):
            groups[-1] = True
        position += 1
    return False


def _class_end(pattern: str, position: int) -> int:
    """Index after a character class, marking no repetition of its inside."""
    depth = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            position += 1
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                break
        position += 1
    return position


def _repeats(pattern: str, position: int) -> bool:
    """Whether a repetition that may vary in number begins at ``position``."""
    if pattern[position : position + 1] in ("*", "+"):
        return True
    bounds = pattern[position : position + 12].partition("}")[0]
    return bounds.startswith("{") and "," in bounds

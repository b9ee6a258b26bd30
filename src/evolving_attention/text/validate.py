"""Checks on tokenizer.json before the tokenizers library sees it.

The library trusts its file: ids of four billion are allocated for, merges of unknown
tokens and templates of unknown special tokens panic, a nested quantifier hangs the
regex engine. Everything of that kind is refused here, with the place in the file.
"""

from __future__ import annotations

import math
from typing import Any

from evolving_attention.text.validate_parts import MAX_ID, Check, check_parts, is_id

__all__ = ["check_merges", "check_tokenizer", "check_vocab"]

MAX_TOKEN_CHARS = 4096

_MODELS = ("WordPiece", "BPE", "Unigram", "WordLevel")


def check_tokenizer(value: Any, file: str) -> dict[str, Any]:
    """Return the parsed tokenizer.json if every part of it can be trusted.

    Raises:
        CheckpointError: naming the part and what was expected.
    """
    check = Check(file)
    check.that(isinstance(value, dict), "top level", "an object")
    model = value.get("model")
    check.that(isinstance(model, dict), "model", "an object")
    ids = _check_model(model, check)
    ids.update(_check_added(value.get("added_tokens", []), check))
    check_parts(value, ids, check)
    return value


def check_vocab(vocab: Any, file: str, place: str = "vocab") -> dict[str, int]:
    """Return a token-to-id mapping whose ids are unique and at most ``MAX_ID``."""
    check = Check(file)
    check.that(isinstance(vocab, dict) and vocab, place, "a non-empty object")
    check.that(len(vocab) <= MAX_ID, place, f"at most {MAX_ID} tokens")
    for token, index in vocab.items():
        if not is_id(index) or len(token) > MAX_TOKEN_CHARS:
            check.that(
                False,
                f"{place}[{token[:40]!r}] = {str(index)[:40]}",
                f"an id from 0 to {MAX_ID} and at most {MAX_TOKEN_CHARS} characters",
            )
    unique = len(set(vocab.values()))
    check.that(unique == len(vocab), place, "ids that differ from each other")
    return vocab


def check_merges(merges: Any, vocab: dict[str, int], prefix: str, file: str) -> None:
    """Every merge joins two known tokens into a known token."""
    check = Check(file)
    check.that(isinstance(merges, list), "merges", "a list")
    for number, merge in enumerate(merges):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        good = (
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and all(isinstance(token, str) for token in pair)
        )
        if good:
            left, right = pair
            joined = left + right.removeprefix(prefix)
            good = left in vocab and right in vocab and joined in vocab
        if not good:
            place = f"merges[{number}] = {str(merge)[:60]!r}"
            check.that(False, place, "two tokens that are, like their join, in vocab")


def _check_model(model: dict[str, Any], check: Check) -> dict[str, int]:
    """Check the model; return its token-to-id mapping."""
    kind = model.get("type")
    if kind is None:  # written by very old versions of the library
        kind = "BPE" if "merges" in model else "WordPiece"
    check.that(kind in _MODELS, f"model.type = {str(kind)[:40]!r}", ", ".join(_MODELS))
    unk = model.get("unk_token")
    check.that(unk is None or isinstance(unk, str), "model.unk_token", "a token")
    if kind == "Unigram":
        return _check_unigram(model, check)
    vocab = dict(check_vocab(model.get("vocab"), check.file, "model.vocab"))
    check.that(
        unk is None or unk in vocab, f"model.unk_token = {unk!r}", "a token of vocab"
    )
    if kind == "BPE":
        prefix = model.get("continuing_subword_prefix") or ""
        check.that(isinstance(prefix, str), "model.continuing_subword_prefix", "text")
        check_merges(model.get("merges"), vocab, prefix, check.file)
        dropout = model.get("dropout")
        check.that(dropout in (None, 0, 0.0), "model.dropout", "none (it is random)")
    if kind == "WordPiece":
        check.that(unk is not None, "model.unk_token", "a token of vocab")
        most = model.get("max_input_chars_per_word", 100)
        check.that(
            type(most) is int and 0 < most <= 10_000,
            f"model.max_input_chars_per_word = {str(most)[:40]}",
            "a number from 1 to 10000",
        )
    return vocab


def _check_unigram(model: dict[str, Any], check: Check) -> dict[str, int]:
    pieces = model.get("vocab")
    check.that(
        isinstance(pieces, list) and 0 < len(pieces) <= MAX_ID,
        "model.vocab",
        "a non-empty list of [token, score]",
    )
    for number, piece in enumerate(pieces):
        good = (
            isinstance(piece, list)
            and len(piece) == 2
            and isinstance(piece[0], str)
            and type(piece[1]) in (int, float)
            and math.isfinite(piece[1])
        )
        check.that(good, f"model.vocab[{number}]", "[token, finite score]")
    unk = model.get("unk_id")
    check.that(
        unk is None or (is_id(unk) and unk < len(pieces)),
        f"model.unk_id = {str(unk)[:40]}",
        "an index into vocab",
    )
    return {piece[0]: number for number, piece in enumerate(pieces)}


def _check_added(added: Any, check: Check) -> dict[str, int]:
    check.that(isinstance(added, list), "added_tokens", "a list")
    check.that(len(added) <= 100_000, "added_tokens", "at most 100000 entries")
    ids: dict[str, int] = {}
    for number, token in enumerate(added):
        place = f"added_tokens[{number}]"
        check.that(isinstance(token, dict), place, "an object")
        content = token.get("content")
        check.that(
            isinstance(content, str) and 0 < len(content) <= MAX_TOKEN_CHARS,
            f"{place}.content",
            "a non-empty token",
        )
        check.that(
            is_id(token.get("id")),
            f"{place}.id = {str(token.get('id'))[:40]}",
            f"an id from 0 to {MAX_ID}",
        )
        ids[content] = token["id"]
    return ids

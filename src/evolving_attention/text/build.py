"""Builds a tokenizers.Tokenizer from tokenizer.json or from vocabulary files."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolving_attention.errors import CheckpointError, Error
from evolving_attention.interop.paths import read_inside
from evolving_attention.text.time_limit import TimeLimit, has_regex

if TYPE_CHECKING:
    import tokenizers

MAX_FILE_BYTES = 128 << 20
MAX_SETTINGS_BYTES = 16 << 20
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # an escape of a surrogate
#: BERT's special tokens, in the order of their ids in a vocabulary trained here.
BERT_TOKENS = {
    "pad": "[PAD]",
    "unk": "[UNK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
}
#: RoBERTa's, likewise.
ROBERTA_TOKENS = {
    "cls": "<s>",
    "pad": "<pad>",
    "sep": "</s>",
    "unk": "<unk>",
    "mask": "<mask>",
}


@contextlib.contextmanager
def guard(kind: type[Error], what: str) -> Iterator[None]:
    """Convert every error of the tokenizers library, panics included, to ``kind``.

    A Rust panic reaches Python as PanicException, which derives from BaseException
    and would pass every ``except Exception``.
    """
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise kind(f"{what}: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise kind(f"{what}: the tokenizers library failed ({error})") from None


def read_json(path: Path, limit: int = MAX_SETTINGS_BYTES) -> Any:
    """Parse a JSON file; a damaged one is a CheckpointError with line and column."""
    raw = read_inside(path.parent, path.name, limit)
    try:
        value = json.loads(raw.decode("utf-8-sig"))
        if _HALF.search(raw):
            _refuse_halves(value)
        return value
    except json.JSONDecodeError as error:
        raise CheckpointError(
            f"{path}:{error.lineno}:{error.colno}: not JSON ({error.msg}); "
            "fetch the file again"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not usable JSON ({error})") from error


def _refuse_halves(value: Any) -> None:
    """Refuses text with half of a surrogate pair, which the library does not take.

    Raises:
        ValueError: names the half.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"a text holds {half!a}, half of a surrogate pair") from None


def from_json(path: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Builds the tokenizer of a tokenizer.json.

    Truncation and padding stored in the file are ignored: here they are arguments of
    each call. Where file and ``settings`` (tokenizer_config.json) differ, BERT's
    normalizer follows ``settings``.
    """
    from tokenizers import Tokenizer, normalizers

    raw = read_inside(path.parent, path.name, MAX_FILE_BYTES)
    with guard(CheckpointError, str(path)):
        _check_added_tokens(raw, path)
        result = Tokenizer.from_str(raw.decode("utf-8-sig"))
        result.no_truncation()
        result.no_padding()
        if isinstance(result.normalizer, normalizers.BertNormalizer):
            names = {
                "do_lower_case": "lowercase",
                "strip_accents": "strip_accents",
                "tokenize_chinese_chars": "handle_chinese_chars",
            }
            for ours, theirs in names.items():
                if isinstance(settings.get(ours), bool):
                    setattr(result.normalizer, theirs, settings[ours])
    return result


def _check_added_tokens(raw: bytes, path: Path) -> None:
    """Refuse a file whose normalizer is too slow for the file's own added tokens.

    The library normalizes these tokens while it builds the tokenizer, and holds the
    GIL.
    """
    from tokenizers import Tokenizer

    # Literal, or with escaped letters.
    if re.search(rb"Regex|\\u00[4-7]", raw) is None:
        return
    try:
        value = json.loads(raw.decode("utf-8-sig"))
        texts = [t["content"] for t in value["added_tokens"] if t.get("normalized")]
        normalizer = value["normalizer"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # the library's error message names the problem
    if normalizer is None or not texts:
        return
    model = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
    only = {"version": "1.0", "added_tokens": [], "normalizer": normalizer}
    probe = Tokenizer.from_str(json.dumps({**only, "model": model}))
    limit = TimeLimit(has_regex(probe), CheckpointError, str(path))
    limit.run(lambda: probe.encode_batch_fast(texts), 0)


def _lines(path: Path) -> list[str]:
    try:
        raw = read_inside(path.parent, path.name, MAX_FILE_BYTES)
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{path}: not UTF-8 at byte {error.start}; fetch the file again"
        ) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines and all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines]
    return lines


def from_vocab(path: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Builds BERT's WordPiece from vocab.txt: one token per line, id = line - 1.

    Lower-casing follows ``do_lower_case``; if it is not set, a vocabulary with capital
    letters is cased (lower-casing would make those tokens unreachable).
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.processors import BertProcessing

    tokens = _lines(path)
    vocab = {token: index for index, token in enumerate(tokens)}
    if len(vocab) != len(tokens):
        seen: dict[str, int] = {}
        for number, token in enumerate(tokens, start=1):
            if token in seen:
                raise CheckpointError(
                    f"{path}:{number}: token {token[:40]!r} is already in line "
                    f"{seen[token]}; every token may appear once"
                )
            seen[token] = number
    names = _configured(BERT_TOKENS, settings)
    _require(vocab, path, names["unk"], names["sep"], names["cls"])
    lower = settings.get("do_lower_case")
    if not isinstance(lower, bool):
        lower = not any(
            token[0] != "[" and token != token.lower() for token in vocab if token
        )
    accents = settings.get("strip_accents")
    chinese = settings.get("tokenize_chinese_chars", True) is not False
    with guard(CheckpointError, str(path)):
        result = Tokenizer(
            models.WordPiece(
                vocab, unk_token=names["unk"], max_input_chars_per_word=100
            )
        )
        result.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=chinese,
            strip_accents=accents if isinstance(accents, bool) else None,
            lowercase=lower,
        )
        result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        sep, cls = names["sep"], names["cls"]
        result.post_processor = BertProcessing((sep, vocab[sep]), (cls, vocab[cls]))
        result.decoder = decoders.WordPiece(prefix="##")
        result.add_special_tokens([t for t in names.values() if t in vocab])
    return result


def from_bpe_files(
    vocab_path: Path, merges_path: Path, settings: Mapping[str, Any]
) -> tokenizers.Tokenizer:
    """Builds RoBERTa's byte-level BPE from vocab.json and merges.txt."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from tokenizers.processors import RobertaProcessing

    vocab = read_json(vocab_path, MAX_FILE_BYTES)
    if not isinstance(vocab, dict):
        raise CheckpointError(f"{vocab_path}: expected a JSON object of tokens and ids")
    lines = _lines(merges_path)
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    merges = [tuple(line.split(" ")) for line in lines if line]
    names = _configured(ROBERTA_TOKENS, settings)
    sep, cls = names["sep"], names["cls"]
    _require(vocab, vocab_path, cls, sep)
    with guard(CheckpointError, f"{merges_path} with {vocab_path.name}"):
        result = Tokenizer(models.BPE(vocab, merges))
        result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        result.decoder = decoders.ByteLevel()
        result.post_processor = RobertaProcessing(
            (sep, vocab[sep]), (cls, vocab[cls]), add_prefix_space=False
        )
        mask = names["mask"]
        result.add_special_tokens(
            [
                # RoBERTa's mask token includes the space before it.
                AddedToken(token, lstrip=token == mask, normalized=False)
                for token in names.values()
                if token in vocab
            ]
        )
    return result


def set_prefix_space(backend: Any, space: Any) -> bool:
    """Sets whether a byte-level tokenizer reads a space before each text.

    Returns:
        Whether the tokenizer has this setting.
    """
    if not hasattr(backend.pre_tokenizer, "add_prefix_space"):
        return False
    backend.pre_tokenizer.add_prefix_space = space
    if hasattr(backend.post_processor, "add_prefix_space"):  # it trims the offsets
        backend.post_processor.add_prefix_space = space
    return True


def _configured(
    usual: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, str]:
    """Returns special tokens by name: those of the settings, else the usual ones."""
    return {
        name: _token_text(settings.get(f"{name}_token"), token)
        for name, token in usual.items()
    }


def _token_text(value: Any, default: str) -> str:
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) and value else default


def _require(vocab: Mapping[str, int], path: Path, *tokens: str) -> None:
    missing = [token for token in tokens if token not in vocab]
    if missing:
        raise CheckpointError(
            f"{path}: special token {', '.join(missing)} is not in the vocabulary of "
            f"{len(vocab)} tokens; is this the right file, or does "
            "tokenizer_config.json name other special tokens?"
        )

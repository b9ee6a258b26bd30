"""AutoTokenizer: loads the tokenizer of a checkpoint folder from any of its formats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evolving_attention.errors import CheckpointError, ConfigError, suggestion
from evolving_attention.interop.evolving_mark import base_type
from evolving_attention.interop.loading_options import without_loading
from evolving_attention.interop.paths import present
from evolving_attention.interop.resolve import resolve
from evolving_attention.text import build
from evolving_attention.text.spiece import from_spiece
from evolving_attention.text.tokenizer import SPECIAL_NAMES, Tokenizer
from evolving_attention.text.validate import check_backend

_ROBERTA_TOKENS = {**build.ROBERTA_TOKENS, "bos": "<s>", "eos": "</s>"}
_T5_TOKENS = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
_UNKNOWN_LENGTH = 10**9  # a larger value in a file means "not known"
_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")  # no model's classes
_ADDITIONAL = ("additional_special_tokens", "extra_special_tokens")
_TOKENS = (*(f"{name}_token" for name in SPECIAL_NAMES), *_ADDITIONAL)
_KNOWN = (  # settings that from_pretrained takes whether the folder has them or not
    *_TOKENS,
    "add_prefix_space",
    "clean_up_tokenization_spaces",
    "do_lower_case",
    "extra_ids",
    "legacy",
    "model_input_names",
    "model_max_length",
    "padding_side",
    "strip_accents",
    "tokenize_chinese_chars",
    "tokenizer_class",
    "truncation_side",
)
_NO_TYPE_IDS = ("roberta", "gpt2", "t5", "distilbert", "bart")


class AutoTokenizer:
    """Finds and builds the tokenizer of a checkpoint."""

    def __init__(self) -> None:
        raise ConfigError("use AutoTokenizer.from_pretrained(name_or_path)")

    @staticmethod
    def from_pretrained(
        name_or_path: str | Path,
        *,
        local_files_only: bool = False,
        use_fast: bool = True,
        **overrides: Any,
    ) -> Tokenizer:
        """Loads the tokenizer of a folder, of an installed package, or from the Hub.

        Reads tokenizer.json, else vocab.txt (BERT's WordPiece), else vocab.json with
        merges.txt (RoBERTa's byte-level BPE), else spiece.model (T5's SentencePiece);
        and tokenizer_config.json, special_tokens_map.json and config.json if they
        exist.

        Args:
            name_or_path: a folder, ``package:NAME/PATH``, or a model's name.
            local_files_only: do not use the network.
            use_fast: for compatibility; all tokenizers are fast ones.
            **overrides: values that replace those of tokenizer_config.json, for example
                ``do_lower_case=False`` or ``model_max_length=128``.

        Raises:
            CheckpointError: the files are missing, damaged or unsafe.
            ConfigError: an override is not known, or names a special token that is not
                in the vocabulary.
        """
        overrides = without_loading("AutoTokenizer.from_pretrained", overrides)
        folder = resolve(name_or_path, local_files_only=local_files_only)
        settings = _settings(folder, overrides)
        model = _optional(folder / "config.json")
        if present(folder, (path := folder / "tokenizer.json").name):
            backend = build.from_json(path, settings)
        elif present(folder, (path := folder / "vocab.txt").name):
            backend = build.from_vocab(path, settings)
        elif present(folder, (path := folder / "vocab.json").name):
            backend = build.from_bpe_files(path, folder / "merges.txt", settings)
        elif present(folder, (path := folder / "spiece.model").name):
            backend = from_spiece(path, settings)
        else:
            found = ", ".join(sorted(p.name for p in folder.iterdir())[:20])
            raise CheckpointError(
                f"{folder}: no tokenizer here; expected tokenizer.json, or vocab.txt, "
                "or vocab.json with merges.txt, or spiece.model; the folder holds "
                f"{found or 'nothing'}"
            )
        with build.guard(CheckpointError, str(path)):
            check_backend(backend, str(path))
            _add_special(backend, settings, overrides)
            _set_prefix_space(backend, settings, overrides)
        special = _special_tokens(backend, settings)
        kind = _class_name(settings, model, special)
        given = settings.get("tokenizer_class")
        names = ["input_ids", "token_type_ids", "attention_mask"]
        if kind.lower().startswith(_NO_TYPE_IDS):
            names.remove("token_type_ids")
        if isinstance(settings.get("model_input_names"), list):
            names = [n for n in names if n in settings["model_input_names"]]
        return Tokenizer(
            backend,
            settings=settings,
            special_tokens=special,
            model_max_length=_max_length(settings, model, kind),
            model_input_names=names,
            tokenizer_class=given if given in _GENERIC else kind,
        )


def _optional(path: Path) -> dict[str, Any]:
    if not present(path.parent, path.name):
        return {}
    value = build.read_json(path)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object")
    return value


def _settings(folder: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    settings = _optional(folder / "special_tokens_map.json")
    settings |= _optional(folder / "tokenizer_config.json")
    known = {*_KNOWN, *settings}
    for name in overrides:
        if name not in known:
            raise ConfigError(
                f"AutoTokenizer.from_pretrained: unknown option {name!r}, expected one "
                f"of {', '.join(sorted(known))}; "
                f"{suggestion(name, known, 'leave it out')}"
            )
    return settings | {
        name: _texts(value) if name in _TOKENS else value
        for name, value in overrides.items()
    }


def _set_prefix_space(
    backend: Any, settings: Mapping[str, Any], overrides: Mapping[str, Any]
) -> None:
    """Sets ``add_prefix_space``; in files, other tokenizers may have it too.

    Raises:
        ConfigError: it is an override, and not a bool or not of this tokenizer.
    """
    space = settings.get("add_prefix_space")
    good = isinstance(space, bool) and build.set_prefix_space(backend, space)
    if not good and overrides.get("add_prefix_space") is not None:
        raise ConfigError(
            f"AutoTokenizer.from_pretrained: add_prefix_space={space!r}, expected True "
            "or False, and a tokenizer of bytes, such as RoBERTa's; leave it out"
        )


def _add_special(
    backend: Any, settings: Mapping[str, Any], overrides: Mapping[str, Any]
) -> None:
    """Makes the given tokens, and additional ones of the files, special tokens.

    A special token in a text is not split. Tokens that are special already keep how
    they treat the spaces around them.

    Raises:
        ConfigError: a token of ``overrides`` is not in the vocabulary.
    """
    found = []
    for name in _TOKENS:
        value = overrides.get(name, settings.get(name) if name in _ADDITIONAL else None)
        value = _texts(value)
        values = [*value.values()] if isinstance(value, Mapping) else value
        for token in values if isinstance(values, list) else [values]:
            if isinstance(token, str) and backend.token_to_id(token) is not None:
                found.append(token)
            elif token is not None and name in overrides:
                raise ConfigError(
                    f"AutoTokenizer.from_pretrained: {name} has {token!r:.60}, "
                    "expected a token of the vocabulary of "
                    f"{backend.get_vocab_size()} tokens; "
                    "use one, or train a vocabulary with it"
                )
    added = backend.get_added_tokens_decoder().values()
    known = {token.content for token in added if token.special}
    backend.add_special_tokens([token for token in found if token not in known])


def _texts(value: Any) -> Any:
    """Returns the text of a token, or the same list or dict with the tokens' texts."""
    if isinstance(value, (list, tuple)):
        return [_texts(token) for token in value]
    if isinstance(value, Mapping):
        if "content" in value:
            return value["content"]
        return {name: _texts(token) for name, token in value.items()}
    return getattr(value, "content", value)


def _special_tokens(backend: Any, settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns special tokens by name: configured and usual ones that exist.

    As in transformers, a class of no model has only the configured ones.
    """
    has = backend.token_to_id
    custom = _ROBERTA_TOKENS
    configured = any(settings.get(f"{name}_token") for name in SPECIAL_NAMES)
    if settings.get("tokenizer_class") in _GENERIC and configured:
        custom = {}
    elif has("[CLS]") is not None:
        custom = build.BERT_TOKENS
    elif has("<s>") is None and has("<extra_id_0>") is not None:
        custom = _T5_TOKENS
    result = {}
    for name in SPECIAL_NAMES:
        token = settings.get(f"{name}_token", custom.get(name))
        if isinstance(token, Mapping):
            token = token.get("content")
        if isinstance(token, str) and has(token) is not None:
            result[name] = token
    return result


def _class_name(
    settings: Mapping[str, Any], model: Mapping[str, Any], special: Mapping[str, str]
) -> str:
    """Returns Hugging Face's class name: configured, or by model type or tokens."""
    name = settings.get("tokenizer_class")
    if isinstance(name, str) and name not in _GENERIC:
        return name.removesuffix("Fast")
    kinds = {
        "bert": "BertTokenizer",
        "roberta": "RobertaTokenizer",
        "t5": "T5Tokenizer",
    }
    if (base := base_type(model)) in kinds:
        return kinds[base]
    if isinstance(name, str):
        return name
    if special.get("cls") == "[CLS]":
        return "BertTokenizer"
    if special == _T5_TOKENS:
        return "T5Tokenizer"
    return "RobertaTokenizer" if special.get("cls") == "<s>" else "GPT2Tokenizer"


def _max_length(
    settings: Mapping[str, Any], model: Mapping[str, Any], kind: str
) -> int | None:
    """Returns the longest sequence: as configured, else from the position table."""
    length = settings.get("model_max_length")
    if isinstance(length, (int, float)) and 0 < length < _UNKNOWN_LENGTH:
        return int(length)
    length = model.get("max_position_embeddings")
    if type(length) is not int or length < 1:
        return None
    # RoBERTa's position numbers begin after the padding id.
    return length - 2 if kind.lower().startswith("roberta") else length

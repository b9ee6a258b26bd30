"""The tokenizer object: Hugging Face's call conventions over the tokenizer libraries.

The library does the work; this file converts arguments, pads, and converts every error
to one of this package.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evolving_attention.errors import ConfigError, InputError
from evolving_attention.interop.resolve import LOADING_OPTIONS
from evolving_attention.text.arguments import (
    FILLED,
    PADDING,
    TRUNCATION,
    as_columns,
    check_tensors,
    choice,
    id_array,
    refuse_long,
    text_batch,
    value_array,
)
from evolving_attention.text.build import guard
from evolving_attention.text.spiece import SpieceTokenizer
from evolving_attention.text.time_limit import TimeLimit, has_regex

if TYPE_CHECKING:
    import tokenizers

_NOT_SAVED = {"added_tokens_decoder", "name_or_path", "auto_map", *LOADING_OPTIONS}
_SIDES = ("padding_side", "truncation_side")
SPECIAL_NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class Encoded(dict[str, Any]):
    """The result of a call: a dict whose keys are also attributes (``out.input_ids``).

    ``truncated`` says for each text whether it was truncated.
    """

    truncated: Sequence[bool] = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"no field {name!r}; this encoding has {', '.join(self)}"
            ) from None


class Tokenizer:
    """Converts text to token ids and back; see ``AutoTokenizer.from_pretrained``.

    Args:
        backend: a tokenizer of the library tokenizers, or of sentencepiece.
        settings: the values of tokenizer_config.json, with overrides.
        special_tokens: name (``"pad"``, …) to token, for those in the vocabulary.
        model_max_length: longest sequence the model accepts; None if unknown.
        model_input_names: keys of a call's result, in this order.
        tokenizer_class: Hugging Face's class name, for ``save_pretrained``.

    ``pad_token``, ``pad_token_id``, ``mask_token`` and the like can be set to a token
    of the vocabulary, or None. The tokens that a call adds around a text, and the token
    that it gives for an unknown word, remain those of the loaded files.

    Calls are thread-safe: the library's truncation setting is shared state, so a call
    holds a lock while it encodes (the library encodes the rows of a batch in parallel).
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer | SpieceTokenizer,
        *,
        settings: Mapping[str, Any],
        special_tokens: Mapping[str, str],
        model_max_length: int | None,
        model_input_names: Sequence[str],
        tokenizer_class: str,
    ) -> None:
        self._backend: Any = backend
        self._settings = dict(settings)
        self._special = dict(special_tokens)
        self._lock = threading.Lock()
        self._truncation: tuple[int, str, str] | None = None
        own = has_regex(backend)
        self._time = TimeLimit(own, InputError, "the text cannot be tokenised")
        self.model_max_length = model_max_length
        self.model_input_names = tuple(model_input_names)
        self.tokenizer_class = tokenizer_class
        self.padding_side = settings.get("padding_side") or "right"
        self.truncation_side = settings.get("truncation_side") or "right"

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; checks the two sides and the special tokens."""
        if name in _SIDES and value not in ("left", "right"):
            raise ConfigError(f"{name}={value!r} is not known; use left or right")
        if (role := _role(name)) is None:
            super().__setattr__(name, value)
            return
        if value is None:
            self._special.pop(role, None)
        elif name.endswith("_id"):
            if not _is_whole(value):
                raise InputError(f"{name}={value!r:.60}, expected a whole number")
            value = self._special[role] = self._token_of(value, name)
        else:
            value = self._special[role] = self._known_token(value, name)
        self._settings[f"{role}_token"] = value

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    # --- vocabulary -------------------------------------------------------------

    @property
    def backend_tokenizer(self) -> tokenizers.Tokenizer | SpieceTokenizer:
        """The tokenizer of the library, by transformers' name."""
        return self._backend

    @property
    def vocab_size(self) -> int:
        """Number of tokens in the model's vocabulary, without added tokens."""
        return self._backend.get_vocab_size(with_added_tokens=False)

    def __len__(self) -> int:
        return self._backend.get_vocab_size(with_added_tokens=True)

    def get_vocab(self) -> dict[str, int]:
        """Returns the id of each token, including added tokens."""
        return self._backend.get_vocab(with_added_tokens=True)

    def __getattr__(self, name: str) -> Any:
        # pad_token, pad_token_id, mask_token, … for the names in SPECIAL_NAMES
        if (role := _role(name)) is None:
            raise AttributeError(f"a tokenizer has no attribute {name!r}")
        token = self.__dict__.get("_special", {}).get(role)
        if not name.endswith("_id") or token is None:
            return token
        return self._backend.token_to_id(token)

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """Special tokens by Hugging Face's names, ``{"pad_token": "[PAD]", …}``."""
        return {f"{name}_token": token for name, token in self._special.items()}

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of the special tokens, each once, in order."""
        ids = {self._backend.token_to_id(token) for token in self._special.values()}
        return sorted(ids)

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Returns the number of special tokens added to a sequence (or a pair)."""
        return self._backend.num_special_tokens_to_add(pair)

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """Returns the tokens of ids (a list, an array, or one id).

        Raises:
            InputError: an id is not in the vocabulary.
        """
        if np.ndim(ids) == 0:
            return self._token_of(ids, "id")
        return [self._token_of(index, f"ids[{i}]") for i, index in enumerate(ids)]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Returns ids of tokens (a list or one); unknown ones give ``unk_token_id``."""
        if isinstance(tokens, str):
            index = self._backend.token_to_id(tokens)
            return self.unk_token_id if index is None else index
        return [self.convert_tokens_to_ids(token) for token in tokens]

    def _known_token(self, token: Any, where: str) -> str:
        text = getattr(token, "content", token)
        if not isinstance(text, str) or self._backend.token_to_id(text) is None:
            raise InputError(
                f"{where}={text!r:.60} is not in the vocabulary of {len(self)} tokens, "
                "expected one of its tokens; use one, or train a vocabulary with it"
            )
        return text

    def _token_of(self, index: Any, where: str) -> str:
        number = int(index)
        token = self._backend.id_to_token(number) if 0 <= number < 2**32 else None
        if token is None:
            raise InputError(
                f"{where}={number} is not in the vocabulary of {len(self)} tokens"
            )
        return token

    def fingerprint(self) -> str:
        """A hash of everything that determines the ids, including special tokens."""
        with self._lock:
            self._backend.no_truncation()
            self._truncation = None
            text = self._backend.to_str() + json.dumps(self._special, sort_keys=True)
        if self.truncation_side == "left":
            text += "truncated on the left"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    # --- text to ids ------------------------------------------------------------

    def __call__(
        self,
        text: str | Sequence[str] | Sequence[tuple[str, str]],
        text_pair: str | Sequence[str] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str = False,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool = True,
        return_offsets_mapping: bool = False,
    ) -> Encoded:
        """Encode one text (or pair), or a list of them.

        Args:
            text: a str, or a sequence of str (a batch) or of pairs (tuples).
            text_pair: the second text of each pair.
            add_special_tokens: add [CLS], [SEP] and the like.
            padding: False, True or "longest" (to the longest of the batch), or
                "max_length".
            truncation: False, True or "longest_first", "only_first", "only_second".
                Tokens at the end are removed, or at the start if the attribute
                ``truncation_side`` is "left".
            max_length: longest result; by default ``model_max_length``.
            pad_to_multiple_of: pad the length up to a multiple of this.
            return_tensors: None for lists, "np" for int64 arrays [B, T].
            return_token_type_ids: None: if the model needs them.
            return_attention_mask: whether to return it (1 token, 0 padding).
            return_offsets_mapping: also return ``offset_mapping``: for each token the
                character range (begin, end) in its text; (0, 0) for special tokens.

        Returns:
            ``input_ids``, ``token_type_ids`` (models that have them) and
            ``attention_mask``: lists for one text, lists of lists for a batch, or
            arrays.

        Raises:
            InputError: an input is not text; a sequence is longer than allowed and
                truncation is off; a ragged batch is requested as an array.
            ConfigError: an option is unknown.
        """
        strategy = choice(TRUNCATION, truncation, "truncation")
        pad_mode = choice(PADDING, padding, "padding")
        check_tensors(return_tensors)
        single = isinstance(text, str)
        texts, pairs = text_batch(text, text_pair, single)
        limit = self._limit(max_length)
        encodings = self._encode(
            *(texts, pairs, add_special_tokens, strategy, limit),
            offsets=return_offsets_mapping,
        )
        ids = [encoding.ids for encoding in encodings]
        if strategy is None and limit is not None:
            refuse_long([len(row) for row in ids], limit, single)
        columns: dict[str, list[Any]] = {"input_ids": ids}
        types = "token_type_ids" in self.model_input_names
        if types if return_token_type_ids is None else return_token_type_ids:
            columns["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        if return_attention_mask:
            columns["attention_mask"] = [[1] * len(row) for row in ids]
        if return_offsets_mapping:
            columns["offset_mapping"] = [encoding.offsets for encoding in encodings]
        self._pad(columns, pad_mode, limit, pad_to_multiple_of)
        if return_tensors == "np":
            found = Encoded({k: id_array(k, rows) for k, rows in columns.items()})
        elif single:
            found = Encoded({name: rows[0] for name, rows in columns.items()})
        else:
            found = Encoded(columns)
        found.truncated = [bool(encoding.overflowing) for encoding in encodings]
        return found

    def pad(
        self,
        encoded_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        padding: bool | str = True,
        *,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: str | None = None,
    ) -> Encoded:
        """Pads rows that were encoded separately into one batch.

        Rows without an ``attention_mask`` get one, as long as they were. transformers'
        collators call this; a Trainer without a collator pads the batch itself.

        Args:
            encoded_inputs: a list of rows, ``[{"input_ids": [...], "label": 1}, …]``,
                or columns, ``{"input_ids": [[...], …]}``. Keys that a call does not
                return (labels) are collected unchanged.
            padding: as in a call.
            max_length: with ``padding="max_length"``; by default ``model_max_length``.
            pad_to_multiple_of: pad the length up to a multiple of this.
            return_tensors: None for lists, "np" for arrays.

        Raises:
            InputError: there are no rows or no ``input_ids``, the rows have different
                keys, or rows of different lengths are requested as arrays.
            ConfigError: an option is unknown, or there is no pad token.

        Example:
            >>> rows = [{"input_ids": tokenizer.encode(t)}  # doctest: +SKIP
            ...         for t in ("time flies", "time")]
            >>> batch = tokenizer.pad(rows, return_tensors="np")  # doctest: +SKIP
            >>> batch.input_ids, batch.attention_mask  # doctest: +SKIP
            (array([[2, 5, 6, 3],
                    [2, 5, 3, 0]]), array([[1, 1, 1, 1],
                                           [1, 1, 1, 0]]))
        """
        mode = choice(PADDING, padding, "padding")
        check_tensors(return_tensors)
        columns = as_columns(encoded_inputs)
        masks = [[1] * len(row) for row in columns["input_ids"]]
        columns.setdefault("attention_mask", masks)
        own = {name: columns[name] for name in FILLED if name in columns}
        self._pad(own, mode, self._limit(max_length), pad_to_multiple_of)
        columns |= own
        if return_tensors == "np":
            return Encoded(
                {
                    k: id_array(k, v) if k in own else value_array(k, v)
                    for k, v in columns.items()
                }
            )
        return Encoded(columns)

    def encode(self, text: str, text_pair: str | None = None, **options: Any) -> Any:
        """Returns only the ids of one text or pair; options as in a call."""
        return self(text, text_pair, **options)["input_ids"]

    def tokenize(self, text: str, text_pair: str | None = None) -> list[str]:
        """Returns the tokens of a text, without special tokens."""
        ids = self._encode(
            *text_batch(text, text_pair, True),
            add_special=False,
            strategy=None,
            limit=None,
        )[0].ids
        return self.convert_ids_to_tokens(ids)

    def _limit(self, max_length: int | None) -> int | None:
        if max_length is None:
            return self.model_max_length
        if isinstance(max_length, bool) or int(max_length) < 1:
            raise ConfigError(f"max_length={max_length!r}; expected a number ≥ 1")
        return int(max_length)

    def _encode(
        self,
        texts: list[str],
        pairs: list[str] | None,
        add_special: bool,
        strategy: str | None,
        limit: int | None,
        offsets: bool = False,
    ) -> list[tokenizers.Encoding]:
        wanted = None
        if strategy is not None and limit is not None:
            special = self.num_special_tokens_to_add(pairs is not None)
            if limit <= (special if add_special else 0):
                raise ConfigError(
                    f"max_length={limit} leaves no room for text next to {special} "
                    "special tokens; use a larger max_length"
                )
            wanted = (limit, strategy, self.truncation_side)
        batch = texts if pairs is None else list(zip(texts, pairs, strict=True))
        characters = sum(map(len, texts)) + sum(map(len, pairs or ()))

        def encode() -> list[tokenizers.Encoding]:
            backend = self._backend  # the fast call leaves the offsets out
            run = backend.encode_batch if offsets else backend.encode_batch_fast
            return run(batch, add_special_tokens=add_special)

        with self._lock, guard(InputError, "the text cannot be tokenised"):
            if wanted != self._truncation:
                if wanted is None:
                    self._backend.no_truncation()
                else:
                    limit, strategy, side = wanted
                    self._backend.enable_truncation(
                        limit, strategy=strategy, direction=side
                    )
                self._truncation = wanted
            return self._time.run(encode, characters)

    def _pad(
        self,
        columns: dict[str, list[Any]],
        mode: str | None,
        limit: int | None,
        multiple: int | None,
    ) -> None:
        if multiple is not None and not _is_count(multiple):
            raise ConfigError(
                f"pad_to_multiple_of={multiple!r}, expected a whole number from 1; "
                "correct it, or leave it out"
            )
        if mode is None:
            return
        if mode == "longest":
            limit = 0
        elif limit is None:
            raise ConfigError('padding="max_length" needs max_length')
        pad_id = self.pad_token_id
        if pad_id is None:
            raise ConfigError("padding needs a pad token, and this tokenizer has none")
        longest = max((len(row) for row in columns["input_ids"]), default=0)
        target = max(longest, limit)
        if multiple:
            target = -(-target // multiple) * multiple
        for name, rows in columns.items():
            fill = pad_id if name == "input_ids" else FILLED[name]
            for index, row in enumerate(rows):
                filler = [fill] * (target - len(row))
                left = self.padding_side == "left"
                rows[index] = filler + row if left else row + filler

    # --- ids to text ------------------------------------------------------------

    def decode(self, token_ids: Any, skip_special_tokens: bool = False) -> str:
        """Returns the text of one sequence of ids."""
        ids = np.asarray(token_ids).reshape(-1).tolist()
        for position, index in enumerate(ids):
            self._token_of(index, f"token_ids[{position}]")
        with guard(InputError, "the ids cannot be decoded"):
            return self._time.run(
                lambda: self._backend.decode_batch([ids], skip_special_tokens)[0],
                len(ids),
            )

    def batch_decode(
        self, sequences: Sequence[Any], skip_special_tokens: bool = False
    ) -> list[str]:
        """Returns the texts of several sequences of ids."""
        return [self.decode(ids, skip_special_tokens) for ids in sequences]

    # --- files ------------------------------------------------------------------

    def save_pretrained(self, save_directory: str | Path) -> list[str]:
        """Write tokenizer.json, tokenizer_config.json and special_tokens_map.json.

        A tokenizer loaded from spiece.model writes that file instead of tokenizer.json.
        The folder loads here and in transformers. Returns the paths of the written
        files.

        Raises:
            CheckpointError: the folder is a file, or cannot be written.
        """
        from evolving_attention.durable import make_folder, write_files

        folder = make_folder(save_directory)
        with self._lock:
            self._backend.no_truncation()
            self._truncation = None
            own = self._own_files()
        settings = {
            name: value
            for name, value in self._settings.items()
            if name not in _NOT_SAVED
        }
        settings |= self.special_tokens_map
        for name in _SIDES:
            if name in settings or getattr(self, name) == "left":
                settings[name] = getattr(self, name)
        settings["tokenizer_class"] = self.tokenizer_class
        settings["model_input_names"] = list(self.model_input_names)
        if self.model_max_length is not None:
            settings["model_max_length"] = self.model_max_length
        files = {
            **own,
            "tokenizer_config.json": json.dumps(settings, indent=2).encode(),
            "special_tokens_map.json": json.dumps(
                self.special_tokens_map, indent=2
            ).encode(),
        }
        # tokenizer.json of an older save would be read first
        older = () if "tokenizer.json" in files else ("tokenizer.json",)
        write_files(folder, files.items(), remove=older)
        return [str(folder / name) for name in files]

    def _own_files(self) -> dict[str, bytes]:
        """Returns the files of the vocabulary, by name."""
        if isinstance(self._backend, SpieceTokenizer):
            return self._backend.files()
        return {"tokenizer.json": self._backend.to_str(pretty=True).encode("utf-8")}

    def __repr__(self) -> str:
        return (
            f"Tokenizer({self.tokenizer_class}, vocab_size={self.vocab_size}, "
            f"model_max_length={self.model_max_length}, {self.special_tokens_map})"
        )


def _role(name: str) -> str | None:
    """Returns ``"pad"`` for the attributes pad_token and pad_token_id, likewise all."""
    role, mark, rest = name.partition("_token")
    return role if mark and role in SPECIAL_NAMES and rest in ("", "_id") else None


def _is_count(value: Any) -> bool:
    """Whether it is a whole number from 1."""
    return _is_whole(value) and bool(value >= 1)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)

"""The tokenizer object: Hugging Face's call conventions over the tokenizer libraries.

The library does the work; this file converts arguments, pads, and converts every error
to one of this package.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_whole, plain_scalar
from evolving_attention.interop.loading_options import LOADING_OPTIONS
from evolving_attention.text.arguments import (
    COLUMNS,
    FILLED,
    MAX_TEXT_CHARS,
    PADDING,
    TRUNCATION,
    Call,
    Texts,
    as_columns,
    check_stride,
    check_tensors,
    check_text,
    choice,
    id_array,
    refuse_long,
    text_batch,
    value_array,
)
from evolving_attention.text.build import guard
from evolving_attention.text.encoded import Encoded
from evolving_attention.text.spiece import SpieceTokenizer
from evolving_attention.text.time_limit import TimeLimit, has_regex

if TYPE_CHECKING:
    import tokenizers

_NOT_SAVED = {"added_tokens_decoder", "name_or_path", "auto_map", *LOADING_OPTIONS}
_SIDES = ("padding_side", "truncation_side")
SPECIAL_NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


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
        self._truncation: dict[str, Any] | None = None
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
            if type(plain_scalar(value)) is not int:
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

    def __copy__(self) -> Tokenizer:
        """Copies the library's tokenizer too: it holds the truncation of a call."""
        return copy.deepcopy(self)

    # --- vocabulary -------------------------------------------------------------

    @property
    def backend_tokenizer(self) -> tokenizers.Tokenizer | SpieceTokenizer:
        """The tokenizer of the library, by transformers' name."""
        return self._backend

    @property
    def is_fast(self) -> bool:
        """Whether it knows words, as transformers' fast tokenizers do."""
        return not isinstance(self._backend, SpieceTokenizer)

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
        text: Texts | None = None,
        text_pair: Texts | None = None,
        text_target: Texts | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str = False,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool = True,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
    ) -> Encoded:
        """Encodes one text (or pair), or a list of them.

        Args:
            text: a str, or a sequence of str (a batch) or of pairs (tuples or lists).
            text_pair: the second text of each pair.
            text_target: texts whose ids are added as ``labels``, or returned alone.
            add_special_tokens: add [CLS], [SEP] and the like.
            padding: False, True or "longest" (to the longest of the batch), or
                "max_length".
            truncation: False, True or "longest_first", "only_first", "only_second".
                Tokens at the end are removed, or at the start if the attribute
                ``truncation_side`` is "left".
            max_length: longest result; by default ``model_max_length``.
            stride: tokens that a row of ``return_overflowing_tokens`` repeats.
            is_split_into_words: each text is a list of words; see ``word_ids`` of
                :class:`Encoded`.
            pad_to_multiple_of: pad the length up to a multiple of this.
            return_tensors: None for lists, "np" for int64 arrays [B, T].
            return_token_type_ids: return them; None: if the model needs them.
            return_attention_mask: return ``attention_mask`` (1 token, 0 padding).
            return_overflowing_tokens: put the tokens that truncation removes into
                further rows; ``overflow_to_sample_mapping`` [B]: the text of each row.
            return_special_tokens_mask: also return ``special_tokens_mask`` (1 special
                token or padding, 0 text).
            return_offsets_mapping: also return ``offset_mapping``: for each token the
                character range (begin, end) in its text, or in its word if these are
                given; (0, 0) for special tokens.

        Returns:
            ``input_ids`` and the fields asked for: lists for one text, lists of lists
            for a batch, or arrays.

        Raises:
            InputError: an input is not text; a sequence is longer than allowed and
                truncation is off; a ragged batch is requested as an array.
            ConfigError: an option is wrong, or this tokenizer does not support it.
        """
        types = return_token_type_ids
        if types is None:
            types = "token_type_ids" in self.model_input_names
        masks = return_attention_mask, return_special_tokens_mask
        asked = (True, types, *masks, return_offsets_mapping)
        call = Call(
            columns=tuple(compress(COLUMNS, asked)),
            special=add_special_tokens,
            strategy=choice(TRUNCATION, truncation, "truncation"),
            limit=self._limit(max_length),
            stride=check_stride(stride, return_overflowing_tokens),
            words=is_split_into_words,
            padding=choice(PADDING, padding, "padding"),
            multiple=pad_to_multiple_of,
            tensors=check_tensors(return_tensors),
            places=return_offsets_mapping
            or return_overflowing_tokens
            or is_split_into_words,
        )
        return self._called(text, text_pair, text_target, call)

    def _called(self, text: Any, pair: Any, target: Any, call: Call) -> Encoded:
        """Encodes texts, or the targets alone if there are no texts."""
        if text is None and target is not None:
            text, target = target, None
        single, texts, pairs = text_batch(text, pair, call.words)
        rows = self._encode(texts, pairs, call)
        truncated = [bool(row.overflowing) for row in rows]
        columns: dict[str, Any] = {}
        if call.stride is not None:
            single, parts = False, [(row, *row.overflowing) for row in rows]
            rows = [row for part in parts for row in part]
            origin = [i for i, part in enumerate(parts) for _ in part]
            columns["overflow_to_sample_mapping"] = origin
        self._pad_rows(rows, call, single)
        own = {k: [getattr(row, COLUMNS[k]) for row in rows] for k in call.columns}
        if call.tensors == "np":
            found = Encoded({k: id_array(k, values) for k, values in own.items()})
            columns = {k: np.array(v, np.int64) for k, v in columns.items()}
        elif single:
            found = Encoded({name: values[0] for name, values in own.items()})
        else:
            found = Encoded(own)
        found.update(columns)
        again = partial(self._placed_rows, texts, pairs, call._replace(places=True))
        found.truncated, found.rows = truncated, rows if call.places else again
        if target is not None:
            found["labels"] = self._called(target, None, None, call)["input_ids"]
        return found

    def _placed_rows(self, texts: list[Any], pairs: Any, call: Call) -> list[Any]:
        """Encodes again, with the places of tokens."""
        rows: list[Any] = self._encode(texts, pairs, call)
        self._pad_rows(rows, call, False)
        return rows

    def _pad_rows(self, rows: list[Any], call: Call, single: bool) -> None:
        lengths = [len(row) for row in rows]
        if call.strategy is None and call.limit is not None:
            refuse_long(lengths, call.limit, single)
        width = self._width(lengths, call.padding, call.limit, call.multiple)
        if width is not None:
            side, pad, token = self.padding_side, self.pad_token_id, self.pad_token
            for row in rows:
                row.pad(width, direction=side, pad_id=pad, pad_token=token)

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
        lengths = [len(row) for row in own["input_ids"]]
        limit = self._limit(max_length)
        width = self._width(lengths, mode, limit, pad_to_multiple_of)
        if width is not None:
            self._pad(own, width)
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
        check_text(text, "text", MAX_TEXT_CHARS)
        return self._called(
            text, text_pair, None, Call(special=False, places=True)
        ).tokens()

    def _limit(self, max_length: int | None) -> int | None:
        if max_length is None:
            return self.model_max_length
        check_whole("tokenizer", max_length=max_length)
        return int(max_length)

    def _encode(self, texts: list[Any], pairs: list[Any] | None, call: Call) -> Any:
        """Returns the library's encoding of each text or pair, truncated."""
        if not self.is_fast and (call.words or call.stride is not None):
            name = "is_split_into_words" if call.words else "return_overflowing_tokens"
            raise ConfigError(
                f"{name}=True, expected False for a tokenizer of a spiece.model; leave "
                "it out, or load a folder with tokenizer.json"
            )
        first = self._backend.pre_tokenizer
        if call.words and getattr(first, "add_prefix_space", None) is False:
            raise ConfigError(
                "is_split_into_words=True, expected a tokenizer that reads a space "
                "before each word; load it with add_prefix_space=True"
            )
        wanted: dict[str, Any] | None = None
        stride = call.stride or 0
        if call.strategy is not None and call.limit is not None:
            special = self.num_special_tokens_to_add(pairs is not None)
            room = call.limit - (special if call.special else 0)
            if room <= 0:
                raise ConfigError(
                    f"max_length={call.limit} leaves no room for text next to "
                    f"{special} special tokens; use a larger max_length"
                )
            if stride >= room:
                raise ConfigError(
                    f"stride={stride}, expected less than the {room} tokens of text "
                    f"that max_length={call.limit} leaves; lower one, or raise the "
                    "other"
                )
            side = self.truncation_side
            wanted = {"strategy": call.strategy, "direction": side, "stride": stride}
            wanted["max_length"] = call.limit
        batch = texts if pairs is None else list(zip(texts, pairs, strict=True))
        every = [*texts, *(pairs or ())]
        characters = sum(
            sum(map(len, one)) if call.words else len(one) for one in every
        )

        options = {"is_pretokenized": True} if call.words else {}

        def encode() -> Any:
            backend = self._backend  # the fast call leaves out where tokens come from
            run = backend.encode_batch if call.places else backend.encode_batch_fast
            return run(batch, add_special_tokens=call.special, **options)

        remedy = f" with stride={stride} (lower it)" if stride else ""
        with self._lock, guard(InputError, f"the text cannot be tokenised{remedy}"):
            if wanted != self._truncation:
                if wanted is None:
                    self._backend.no_truncation()
                else:
                    self._backend.enable_truncation(**wanted)
                self._truncation = wanted
            return self._time.run(encode, characters)

    def _width(
        self,
        lengths: list[int],
        mode: str | None,
        limit: int | None,
        multiple: int | None,
    ) -> int | None:
        """Returns the length to which rows are padded; None: they are not."""
        if multiple is not None:
            remedy = "correct it, or leave it out"
            check_whole("tokenizer", 1, remedy, pad_to_multiple_of=multiple)
        if mode is None:
            return None
        if mode == "longest":
            limit = 0
        elif limit is None:
            raise ConfigError('padding="max_length" needs max_length')
        if self.pad_token_id is None:
            raise ConfigError("padding needs a pad token, and this tokenizer has none")
        width = max(*lengths, limit, 0)
        return -(-width // multiple) * multiple if multiple else width

    def _pad(self, columns: dict[str, list[Any]], width: int) -> None:
        """Pads rows that no library encoding holds."""
        for name, rows in columns.items():
            fill = self.pad_token_id if name == "input_ids" else FILLED[name]
            for index, row in enumerate(rows):
                filler = [fill] * (width - len(row))
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

"""T5's tokenizer from a spiece.model: sentencepiece behind the library's interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from evolving_attention.errors import CheckpointError, InputError, require
from evolving_attention.interop.paths import read_inside
from evolving_attention.text.build import MAX_FILE_BYTES

_SPACE = "▁"
_EXTRA = 100  # T5's number of sentinels if tokenizer_config.json does not give one


@dataclass
class _Encoding:
    """The used part of a tokenizers library encoding, for one text or pair."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    attention_mask: list[int]
    sequence_ids: list[int | None]
    overflowing: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def type_ids(self) -> list[int]:
        """Token types; T5 has only one."""
        return [0] * len(self.ids)

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for end tokens and padding."""
        return [int(text is None) for text in self.sequence_ids]

    @property
    def word_ids(self) -> list[int | None]:
        """Not there: a SentencePiece model has no words.

        Raises:
            InputError: always.
        """
        raise InputError(
            "word_ids: the tokenizer of a spiece.model has no words, expected one of a "
            "tokenizer.json; load such a folder, or pass return_offsets_mapping=True"
        )

    def pad(self, length: int, *, direction: str, pad_id: int, pad_token: str) -> None:
        """Pads to ``length`` tokens, at the side ``direction``."""
        at, more = 0 if direction == "left" else len(self), length - len(self)
        self.ids[at:at] = [pad_id] * more
        self.tokens[at:at] = [pad_token] * more
        self.offsets[at:at] = [(0, 0)] * more
        self.attention_mask[at:at] = [0] * more
        self.sequence_ids[at:at] = [None] * more


def from_spiece(path: Path, settings: Mapping[str, Any]) -> SpieceTokenizer:
    """Builds T5's tokenizer: SentencePiece's ids, followed by the sentinels.

    ``extra_ids`` of tokenizer_config.json is the number of sentinels; <extra_id_0> has
    the largest id.

    Raises:
        CheckpointError: the file is damaged, or has no end token.
        MissingExtraError: sentencepiece is not installed.
    """
    library = require("sentencepiece", extra="t5", why="to read a spiece.model")
    raw = read_inside(path.parent, path.name, MAX_FILE_BYTES)
    extra = settings.get("extra_ids", _EXTRA)
    if type(extra) is not int or not 0 <= extra <= 100_000:
        raise CheckpointError(
            f"{path}: extra_ids of tokenizer_config.json is {extra!r}, expected a "
            "number of sentinels from 0 to 100,000"
        )
    try:
        model = library.SentencePieceProcessor()
        model.LoadFromSerializedProto(raw)
        end = settings.get("eos_token", "</s>")
        end = end.get("content") if isinstance(end, Mapping) else end
        made = SpieceTokenizer(model, extra, str(end))  # reads all pieces
    except Exception as error:
        raise CheckpointError(
            f"{path}: is no SentencePiece model ({error}); fetch the file again"
        ) from None
    if end not in made.ids:
        raise CheckpointError(
            f"{path}: expected the end token {end!r} among its pieces; is this T5's "
            "file?"
        )
    return made


class SpieceTokenizer:
    """A SentencePiece model with T5's sentinels and end token.

    Has those methods of ``tokenizers.Tokenizer`` that :class:`.Tokenizer` calls.
    Special tokens in a text keep their own ids; SentencePiece encodes the parts between
    them separately.

    Args:
        model: a loaded ``SentencePieceProcessor``.
        extra: number of sentinels.
        end: the token that ends each text.
    """

    # Optional parts of the tokenizers library's interface; this tokenizer has none.
    model = normalizer = pre_tokenizer = decoder = None

    def __init__(self, model: Any, extra: int, end: str) -> None:
        size = model.get_piece_size()
        pieces = [model.id_to_piece(i) for i in range(size)]
        sentinels = [f"<extra_id_{i}>" for i in range(extra - 1, -1, -1)]
        self._processor, self._end = model, end
        self._pieces = [*pieces, *sentinels]
        self.ids = {piece: i for i, piece in enumerate(self._pieces)}
        special = [i for i in range(size) if model.is_control(i) or model.is_unknown(i)]
        self._special = {*special, *range(size, len(self._pieces))}
        self.add_special_tokens([])
        self._limit: tuple[int, str, str] | None = None

    # --- vocabulary -------------------------------------------------------------

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """Returns the number of pieces and sentinels."""
        return len(self._pieces)

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """Returns the ids of pieces and sentinels."""
        return dict(self.ids)

    def token_to_id(self, token: str) -> int | None:
        """Returns the id, or None."""
        return self.ids.get(token)

    def id_to_token(self, index: int) -> str | None:
        """Returns the piece or sentinel, or None."""
        return self._pieces[index] if 0 <= index < len(self._pieces) else None

    def get_added_tokens_decoder(self) -> dict[int, Any]:
        """Returns the added tokens by id; this tokenizer has none."""
        return {}

    def add_special_tokens(self, tokens: Sequence[str]) -> None:
        """Makes pieces special tokens, which are not split in a text."""
        self._special.update(self.ids[token] for token in tokens)
        words = sorted((self._pieces[i] for i in self._special), key=len, reverse=True)
        self._parts = re.compile(f"({'|'.join(map(re.escape, words))})")

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Returns the number of end tokens: one per text."""
        return 2 if pair else 1

    # --- text to ids ------------------------------------------------------------

    def enable_truncation(
        self, max_length: int, *, strategy: str, direction: str, stride: int
    ) -> None:
        """Truncate encoded texts to ``max_length`` tokens, at the side ``direction``.

        ``stride`` is of no use: the removed tokens are not kept.
        """
        self._limit = (max_length, strategy, direction)

    def no_truncation(self) -> None:
        """Do not truncate."""
        self._limit = None

    def encode_batch(
        self, batch: Sequence[Any], add_special_tokens: bool = True
    ) -> list[_Encoding]:
        """Encode texts or pairs, with each token's character span in the text."""
        return self._encoded(batch, add_special_tokens, places=True)

    def encode_batch_fast(
        self, batch: Sequence[Any], add_special_tokens: bool = True
    ) -> list[_Encoding]:
        """Encode texts or pairs; the character spans are all (0, 0)."""
        return self._encoded(batch, add_special_tokens, places=False)

    def _encoded(
        self, batch: Sequence[Any], special: bool, places: bool
    ) -> list[_Encoding]:
        texts = [text for one in batch for text in ([one] if _is_text(one) else one)]
        rows = self._rows(texts, places)
        return [
            self._joined(
                [next(rows) for _ in ([one] if _is_text(one) else one)], special
            )
            for one in batch
        ]

    def _rows(
        self, texts: Sequence[str], places: bool
    ) -> Iterator[list[tuple[int, tuple[int, int]]]]:
        """Yields (id, character span) of each token, text by text."""
        parts = [self._parts.split(text) for text in texts]
        plain = [part for row in parts for part in row[::2]]
        found: Iterator[Any]
        if places:
            encoded = self._processor.encode(plain, out_type="offset_mapping")
            pairs = ((one["ids"], one["offsets"]) for one in encoded)
            found = (zip(*pair, strict=True) for pair in pairs)
        else:
            encoded = self._processor.encode(plain, out_type=int)
            found = ([(i, (0, 0)) for i in one] for one in encoded)
        for text, row in zip(texts, parts, strict=True):
            tokens, begin = [], 0
            for i, part in enumerate(row):
                stop = begin + len(part)
                if i % 2:
                    at = (begin, stop) if places else (0, 0)
                    tokens.append((self.ids[part], at))
                else:
                    for index, (a, b) in next(found):
                        a, b = a + begin, b + begin
                        a += len(text[a:b]) - len(text[a:b].lstrip())
                        tokens.append((index, (a, b) if places else (0, 0)))
                begin = stop
            yield tokens

    def _joined(self, rows: list[Any], special: bool) -> _Encoding:
        """Encodes one text or pair, truncated, each text followed by the end token."""
        cut = False
        if self._limit is not None:
            limit, strategy, side = self._limit
            room = limit - (len(rows) if special else 0)
            kept = _kept([len(row) for row in rows], room, strategy)
            cut = kept != [len(row) for row in rows]
            left = side == "left"
            rows = [
                row[len(row) - count :] if left else row[:count]
                for row, count in zip(rows, kept, strict=True)
            ]
        end = [(self.ids[self._end], (0, 0))] if special else []
        every = [token for row in rows for token in (*row, *end)]
        ids = [index for index, _ in every]
        return _Encoding(
            ids,
            [self._pieces[i] for i in ids],
            [place for _, place in every],
            [1] * len(ids),
            [
                i
                for n, row in enumerate(rows)
                for i in (*[n] * len(row), *[None for _ in end])
            ],
            ["truncated"] if cut else [],
        )

    # --- ids to text ------------------------------------------------------------

    def decode_batch(
        self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Returns the text of each row of ids."""
        return [self._decoded(row, skip_special_tokens) for row in rows]

    def _decoded(self, row: Sequence[int], skip: bool) -> str:
        text = ""
        for special, run in groupby(row, self._special.__contains__):
            ids = list(run)
            if special:
                text += "" if skip else "".join(self._pieces[i] for i in ids)
                continue
            spaced = text and self._pieces[ids[0]].startswith(_SPACE)
            text += " " * bool(spaced) + self._processor.decode(ids)
        return text

    # --- files ------------------------------------------------------------------

    def to_str(self) -> str:
        """Returns all that determines the ids, as JSON."""
        model = self._processor.serialized_model_proto().hex()
        return json.dumps([model, self._pieces, sorted(self._special), self._end])

    def files(self) -> dict[str, bytes]:
        """Returns the files from which the tokenizer can be loaded, by name."""
        return {"spiece.model": self._processor.serialized_model_proto()}


def _is_text(one: Any) -> bool:
    return isinstance(one, str)


def _kept(lengths: list[int], room: int, strategy: str) -> list[int]:
    """Returns the tokens kept of each text, by the tokenizers library's rule.

    Raises:
        InputError: the only text that may be truncated is too short.
    """
    above = sum(lengths) - room
    if above <= 0:
        return lengths
    if len(lengths) == 1:
        if strategy == "only_second":
            raise InputError(
                "truncation='only_second': there is no second text, expected a pair"
            )
        return [room]
    if strategy == "longest_first":
        short, long = sorted(lengths)
        long = max(short, room - short)
        if short + long > room:
            short, long = room // 2, room - room // 2
        return [short, long] if lengths[0] <= lengths[1] else [long, short]
    which = 0 if strategy == "only_first" else 1
    if lengths[which] <= above:
        raise InputError(
            f"truncation={strategy!r}: that text has {lengths[which]} tokens, expected "
            f"more than the {above} that are too many; use truncation=True"
        )
    return [n - above * (i == which) for i, n in enumerate(lengths)]

"""Masks for masked language modelling, drawn again in every epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.collate import IGNORED, collate_packed
from evolving_attention.data.packed import Batch
from evolving_attention.errors import ConfigError, InputError

Array = np.ndarray[Any, Any]
DRAWS = 3  # random words per token
_NEEDED = ("cls", "sep", "mask", "pad")


def random_words(seed: int, epoch: int, row: int, count: int) -> Array:
    """Returns ``count`` random 64-bit words, a pure function of (seed, epoch, row)."""
    key = np.array([seed & (2**64 - 1), epoch & (2**64 - 1)], np.uint64)
    place = np.array([0, 0, row, 0], np.uint64)
    return np.atleast_1d(np.random.Philox(key=key, counter=place).random_raw(count))


def _uniform(words: Array) -> Array:
    """Converts random words to numbers in [0, 1)."""
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)


class TokenMasker:
    """Chooses the tokens to predict, and their replacements in the model's input.

    Each token is chosen with the same probability. Of the chosen tokens, 80 % become
    the mask token, 10 % a random token, and 10 % stay. If no token of a row is chosen,
    one is picked, so that every row has a loss. Special tokens are never chosen.

    Args:
        tokenizer: a tokenizer of this package, or of transformers, with a mask token.
        mlm_probability: probability of choosing a token, in (0, 1).
        mask_replace_prob: share of the chosen tokens that become the mask token.
        random_replace_prob: share of the chosen tokens that become a random token.
        whole_word_mask: choose words, all of whose pieces are then predicted. Pieces
            that continue a word begin with ``##`` (WordPiece), or without a space
            (byte-level BPE, SentencePiece); tokens of a word-level vocabulary are
            words.

    Raises:
        ConfigError: a setting is out of range, or the tokenizer has no mask token.

    Source: Devlin et al., NAACL 2019, Section 3.1; drawn again in each epoch as in Liu
    et al., 2019, Section 4.1.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        mlm_probability: float = 0.15,
        mask_replace_prob: float = 0.8,
        random_replace_prob: float = 0.1,
        whole_word_mask: bool = False,
    ) -> None:
        _check_shares(mlm_probability, mask_replace_prob, random_replace_prob)
        check_special(tokenizer)
        self.probability = float(mlm_probability)
        self.shares = float(mask_replace_prob), float(random_replace_prob)
        self.mask_id = int(tokenizer.mask_token_id)
        vocab = tokenizer.get_vocab()
        self.size = max(vocab.values()) + 1
        self.special = np.zeros(self.size, bool)
        self.special[tokenizer.all_special_ids] = True
        known = np.zeros(self.size, bool)
        known[list(vocab.values())] = True
        self.ordinary = np.flatnonzero(known & ~self.special)
        if not len(self.ordinary):
            raise ConfigError(
                f"the tokenizer has {len(vocab)} tokens, all of them special, expected "
                "words or pieces of words; train it on text"
            )
        self.continues = _continuing(tokenizer, self.size) if whole_word_mask else None

    def settings(self) -> dict[str, Any]:
        """Settings that determine the masks, for fingerprints."""
        return {
            "probability": self.probability,
            "shares": list(self.shares),
            "whole_words": self.continues is not None,
            "mask_id": self.mask_id,
            "size": self.size,
        }

    def __call__(self, ids: Array, offsets: Array, words: Array) -> tuple[Array, Array]:
        """Returns inputs and labels of packed rows.

        Args:
            ids: int64 [total], row after row.
            offsets: int64 [B + 1], the start of each row.
            words: uint64 [total, 3], random.

        Returns:
            ``input_ids`` and ``labels`` [total]; labels are -100 where nothing is
            predicted.

        Raises:
            InputError: an id is not in the vocabulary.
        """
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.size:
            raise InputError(
                f"token ids from {ids.min()} to {ids.max()}, expected 0 to "
                f"{self.size - 1}, those of the tokenizer; use the one that made them"
            )
        free = ~self.special[ids]
        begins = np.ones(len(ids), bool)  # starts of words, or of single tokens
        if self.continues is not None:
            begins = ~self.continues[ids] | ~free
            begins[1:] |= ~free[:-1]
            begins[offsets[:-1]] = True
        word = np.cumsum(begins) - 1
        draw = _uniform(words[:, 0])[begins][word]
        chosen = free & (draw < self.probability)
        for row in np.flatnonzero(np.add.reduceat(chosen, offsets[:-1]) == 0):
            span = slice(int(offsets[row]), int(offsets[row + 1]))
            least = np.where(free[span], draw[span], 2.0)
            if least.min() < 2.0:
                same = word[span] == word[span][np.argmin(least)]
                chosen[span] = free[span] & same
        fate = _uniform(words[:, 1])
        masked, random = self.shares
        inputs = ids.copy()
        inputs[chosen & (fate < masked)] = self.mask_id
        other = chosen & (fate >= masked) & (fate < masked + random)
        place = words[other, 2] % np.uint64(len(self.ordinary))
        inputs[other] = self.ordinary[place.astype(np.int64)]
        return inputs, np.where(chosen, ids, IGNORED)


def _check_shares(probability: float, masked: float, random: float) -> None:
    for name, value, good in (
        ("mlm_probability", probability, "a number in (0, 1)"),
        ("mask_replace_prob", masked, "a number in [0, 1]"),
        ("random_replace_prob", random, "a number in [0, 1]"),
    ):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        inside = number and 0 <= value <= 1
        if not inside or (name == "mlm_probability" and value in (0, 1)):
            raise ConfigError(f"{name}={value!r}, expected {good}; 0.15 is usual")
    if masked + random > 1:
        raise ConfigError(
            f"mask_replace_prob={masked} and random_replace_prob={random} are more "
            "than 1 together, expected at most 1: the rest stays; 0.8 and 0.1 are usual"
        )


def check_special(tokenizer: Any) -> None:
    """Refuse a tokenizer without the special tokens of masked language models.

    Raises:
        ConfigError: a special token is missing; names the missing ones.
    """
    missing = [n for n in _NEEDED if getattr(tokenizer, f"{n}_token_id", None) is None]
    if missing:
        names = ", ".join(f"{name}_token" for name in missing)
        raise ConfigError(
            f"the tokenizer has no {names}, expected one for each of cls, sep, mask "
            "and pad; name them in tokenizer_config.json, or train one: "
            "tokenizer='wordpiece' (--tokenizer wordpiece)"
        )


def _continuing(tokenizer: Any, size: int) -> Array:
    """Returns which tokens continue the word of the previous token."""
    vocab, found = tokenizer.get_vocab(), np.zeros(size, bool)
    if hasattr(tokenizer, "backend_tokenizer"):
        model = tokenizer.backend_tokenizer.model
        prefix = getattr(model, "continuing_subword_prefix", None)
        if type(model).__name__ == "WordLevel":
            return found
    else:  # transformers' tokenizers written in Python: only the vocabulary tells
        prefix = "##" if any(token.startswith("##") for token in vocab) else None
    for token, index in vocab.items():
        if prefix:
            found[index] = token.startswith(prefix)
        else:
            found[index] = not token.startswith(("Ġ", "▁", "Ċ"))
    return found


class DataCollatorForLanguageModeling:
    """Builds batches of masked rows, as :class:`ea.Trainer`'s ``data_collator``.

    Like transformers' class of this name, but with packed batches. Every batch draws
    new masks. Their key comes from ``numpy.random``, whose state is in checkpoints, so
    a resumed run is bit-identical to an uninterrupted one.

    Args:
        tokenizer: a tokenizer of this package, or of transformers, with a mask token.
        mlm: only True: this package's models predict masked tokens.
        whole_word_mask, mlm_probability, mask_replace_prob, random_replace_prob: see
            :class:`TokenMasker`.
        seed: seed of the masks, instead of a key from ``numpy.random``: the n-th call
            has the same masks in every run. The number of calls is in checkpoints;
            with ``dataloader_prefetch_factor`` above 0 it is ahead of the steps, and a
            resumed run draws other masks.

    Raises:
        ConfigError: a setting cannot be used.

    Example::

        collator = ea.pretraining.DataCollatorForLanguageModeling(tokenizer)
        ea.Trainer(model, args, data_collator=collator, train_dataset=rows).train()
    """

    def __init__(
        self,
        tokenizer: Any,
        mlm: bool = True,
        whole_word_mask: bool = False,
        mlm_probability: float = 0.15,
        mask_replace_prob: float = 0.8,
        random_replace_prob: float = 0.1,
        seed: int | None = None,
    ) -> None:
        if mlm is not True:
            raise ConfigError(
                f"DataCollatorForLanguageModeling: mlm={mlm!r}, expected True: there "
                "are no left-to-right language models here; leave it out"
            )
        self.masker = TokenMasker(
            tokenizer,
            mlm_probability=mlm_probability,
            mask_replace_prob=mask_replace_prob,
            random_replace_prob=random_replace_prob,
            whole_word_mask=whole_word_mask,
        )
        self.seed, self._calls = seed, 0

    def state_dict(self) -> dict[str, int]:
        """Returns the number of calls, which a resumed run goes on from."""
        return {"calls": self._calls}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restores the result of :meth:`state_dict`."""
        self._calls = int(state["calls"])

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> Batch:
        """Returns the packed batch of rows with ``input_ids``, masked, with ``labels``.

        Raises:
            InputError: a row has no ids, or ids outside the vocabulary.
        """
        plain = [
            {k: row[k] for k in row if k not in ("label", "labels")} for row in rows
        ]
        batch = collate_packed(plain)
        if "sequence_offsets" not in batch:
            raise InputError(
                "DataCollatorForLanguageModeling: the attention_mask of a row leaves "
                "out tokens between others, expected padding at the ends alone; cut "
                "the row"
            )
        key = self.seed
        if key is None:
            key = int(np.random.randint(0, 2**63 - 1, dtype=np.int64))
        ids, offsets = batch["input_ids"], batch["sequence_offsets"]
        words = random_words(key, self._calls, 0, DRAWS * len(ids))
        self._calls += self.seed is not None
        inputs, labels = self.masker(ids, offsets, words.reshape(-1, DRAWS))
        arrays = {**batch, "input_ids": inputs, "labels": labels}
        return Batch(arrays, {*batch.tokens, "labels"}, batch.targets)

"""``ea.Translator``: sentences to sentences, by a trained encoder-decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from evolving_attention.autograd import no_grad
from evolving_attention.data.parallel import (
    Longer,
    ParallelDataset,
    encode,
    pack_sentences,
)
from evolving_attention.data.parallel_files import ParallelText
from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.modeling.auto import AutoModelForSeq2SeqLM
from evolving_attention.modeling.generation import GenerativeModel, tell_of_limit
from evolving_attention.text import AutoTokenizer

__all__ = ["TokenLoss", "Translator"]

Progress = Callable[[int, int], Any]
_IDS = ("pad", "bos", "eos")
_NO_LIMIT = 1 << 31  # tokens of a sentence, where positions are relative
_NO_LINE_END = dict.fromkeys(map(ord, "\0\n\r"), " ")


class TokenLoss(NamedTuple):
    """How well a model predicts given targets.

    Attributes:
        loss: the mean of -log p of a target token, the end token included.
        tokens: their number.
    """

    loss: float
    tokens: int


class Translator:
    """An encoder-decoder with its tokenizer.

    Args:
        model: such as a :class:`TransformerForConditionalGeneration`.
        tokenizer: the one it was trained with; its encoding ends with the end token.

    Raises:
        ConfigError: the model generates no targets.
        CheckpointError: the tokenizer has another vocabulary than the model.

    Example::

        translator = ea.Translator.from_pretrained("out/en-de")
        translator.translate(["A man rides a bicycle."], beam=5)
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        if not isinstance(model, GenerativeModel):
            raise ConfigError(
                f"Translator: the model is a {type(model).__name__}, expected an "
                "encoder-decoder that generates; load it by ea.AutoModelForSeq2SeqLM"
            )
        config: Any = model.config
        sizes = {config.vocab_size, config.target_words}
        names = [name for name in _IDS if hasattr(config, f"{name}_token_id")]
        own = [getattr(tokenizer, f"{name}_token_id") for name in names]
        expected = [getattr(config, f"{name}_token_id") for name in names]
        spare = config.spare_words and min(sizes) > len(tokenizer)
        if (sizes != {len(tokenizer)} and not spare) or own != expected:
            raise CheckpointError(
                f"Translator: the tokenizer has {len(tokenizer)} tokens and the ids "
                f"{own} of {', '.join(names)}, expected the model's "
                f"{' and '.join(map(str, sorted(sizes)))} and {expected}; take the "
                "tokenizer of the model's folder"
            )
        self.model, self.tokenizer = model, tokenizer
        self.longest = int(getattr(config, "max_position_embeddings", _NO_LIMIT))

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, device: str = "cpu", dtype: str = "float32"
    ) -> Translator:
        """The model and the tokenizer of a folder.

        Args:
            folder: of ``evolving-attention translate train``, or of a checkpoint.
            device, dtype: where and in which type the model computes.

        Raises:
            CheckpointError: it cannot be read, or the two do not fit together.
        """
        model = AutoModelForSeq2SeqLM.from_pretrained(
            folder, device=device, dtype=dtype
        )
        return cls(model, AutoTokenizer.from_pretrained(folder))

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int = 5,
        length_penalty: float = 1.0,
        early_stopping: bool | Literal["never"] = False,
        max_new_tokens: int | None = None,
        batch_size: int = 32,
        longer: Longer = "error",
        name: str = "texts",
        first_line: int = 1,
        on_batch: Progress | None = None,
    ) -> list[str]:
        """The translation of each text; a blank text stays empty.

        A text has the same translation alone, in any batch and in any order.

        Args:
            texts: a list of texts.
            beam: number of beams; 1: greedy search.
            length_penalty, early_stopping, max_new_tokens: see
                :meth:`GenerativeModel.generate`.
            batch_size: texts that are translated together.
            longer: of texts with more tokens than the model has positions:
                ``"error"`` or ``"cut"``.
            name: of the texts in messages, such as their file.
            first_line: number of the first text in it.
            on_batch: called with the number of texts done and of new tokens so far.

        Raises:
            ConfigError: an option cannot be used.
            InputError: something is no text.
            DataError: a text is too long.
        """
        texts = _checked(texts, name)
        if type(batch_size) is not int or batch_size < 1:
            raise ConfigError(
                f"Translator.translate: batch_size={batch_size!r}, expected at least 1"
            )
        rows = encode(texts, self.tokenizer, self.longest, longer, name, first_line)
        todo = [i for i, text in enumerate(texts) if text.strip()]
        todo.sort(key=lambda i: -len(rows[i]))
        found, ended, tokens = [""] * len(texts), [], 0
        for start in range(0, len(todo), batch_size):
            batch = todo[start : start + batch_size]
            out = self.model.search(
                "Translator.translate",
                {
                    **pack_sentences([rows[i] for i in batch]),
                    "num_beams": beam,
                    "length_penalty": length_penalty,
                    "early_stopping": early_stopping,
                    "max_new_tokens": max_new_tokens,
                },
            )
            for i, ids in zip(batch, out.rows, strict=True):
                found[i] = self._text(ids)
            ended += out.ended
            tokens += sum(len(ids) - 1 for ids in out.rows)
            if on_batch is not None:
                on_batch(len(ended), tokens)
        tell_of_limit("Translator.translate", ended, max_new_tokens)
        return found

    def _text(self, ids: list[int]) -> str:
        """One line of text: tokens of bytes may spell a line end."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text.translate(_NO_LINE_END).strip()

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_size: int = 32,
        longer: Longer = "error",
    ) -> TokenLoss:
        """The mean loss of the tokens of given translations, without label smoothing.

        Pairs with an empty side are left out.

        Args:
            sources, targets: sentences and their translations.
            batch_size: pairs that are computed together.
            longer: see :meth:`translate`.
        """
        text = ParallelText(_checked(sources, "sources"), _checked(targets, "targets"))
        rows = ParallelDataset.from_text(text, self.tokenizer, self.longest, longer)
        order = np.argsort(-rows.lengths, kind="stable")
        total, tokens = 0.0, 0
        was_training = self.model.training
        self.model.eval()
        try:
            with no_grad():
                for start in range(0, len(order), batch_size):
                    batch: dict[str, Any] = rows.gather(
                        order[start : start + batch_size]
                    )
                    del batch["row_ids"]
                    out: Any = self.model(**batch)
                    count = len(batch["labels"])
                    total += float(out.loss.item()) * count
                    tokens += count
        finally:
            self.model.train(was_training)
        return TokenLoss(total / tokens, tokens)


def _checked(texts: Any, name: str) -> list[str]:
    if isinstance(texts, str):
        raise InputError(
            f"Translator: {name} is a str, expected a list of texts; pass [text]"
        )
    found = list(texts)
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise InputError(
                f"Translator: {name}[{index}] is a {type(text).__name__}, expected a "
                "text; pass a list of str"
            )
    return found

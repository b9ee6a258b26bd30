"""The result of a tokenizer call: columns, and where each token comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evolving_attention.errors import InputError


class Encoded(dict[str, Any]):
    """The result of a call: a dict whose keys are also attributes (``out.input_ids``).

    The methods take the row's index, as in transformers, and return lists as long as
    its ``input_ids``.

    Attributes:
        truncated: for each text, whether it was truncated.
        rows: the library's encodings, one for each row, or a function that makes them.

    Example:
        >>> tokenizer = ea.text.train_word_level(["He sang in Rome"])
        >>> out = tokenizer(["He", "sang", "in", "Rome."], is_split_into_words=True)
        >>> out.tokens(), out.word_ids()
        (['he', 'sang', 'in', 'rome', '[UNK]'], [0, 1, 2, 3, 3])
    """

    truncated: Sequence[bool] = ()
    rows: Sequence[Any] | Callable[[], Sequence[Any]] = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"no field {name!r}; this encoding has {', '.join(self)}"
            ) from None

    def tokens(self, batch_index: int = 0) -> list[str]:
        """Returns the tokens of a row, special ones and padding included."""
        tokens: list[str] = self._row(batch_index).tokens
        return tokens

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """Returns the number of each token's word in its text; None: special tokens.

        Words are those of ``is_split_into_words``, else the tokenizer's own.

        Raises:
            InputError: there is no such row, or a spiece.model, which has no words.
        """
        words: list[int | None] = self._row(batch_index).word_ids
        return words

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """Returns for each token 0 (first text), 1 (second) or None (special token)."""
        texts: list[int | None] = self._row(batch_index).sequence_ids
        return texts

    @property
    def encodings(self) -> Sequence[Any]:
        """The library's encodings, one for each row."""
        if callable(self.rows):
            self.rows = self.rows()
        return self.rows

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "rows": () if callable(self.rows) else self.rows}

    def _row(self, index: int) -> Any:
        count = len(self.encodings)
        if not hasattr(index, "__index__") or index not in range(-count, count):
            raise InputError(
                f"batch_index={index!r}, expected one of the {count} rows "
                "of a tokenizer's call; rows that pad() has joined, and pickles of a "
                "call without words, have none: ask them before"
            )
        return self.encodings[index]

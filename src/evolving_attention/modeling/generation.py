"""``generate`` of models that make a target token by token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from evolving_attention import _core
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_type
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.notices import say

__all__ = ["Found", "GenerationOutput", "GenerativeModel", "tell_of_limit"]

_OPTIONS: dict[str, Any] = {
    "max_new_tokens": int | None,
    "num_beams": int,
    "length_penalty": float,
    "early_stopping": bool | Literal["never"],
    "num_return_sequences": int,
    "use_cache": bool | None,
    "return_dict_in_generate": bool,
}
_DEFAULTS: dict[str, Any] = {
    "max_new_tokens": None,
    "num_beams": 1,
    "length_penalty": 1.0,
    "early_stopping": False,
    "num_return_sequences": 1,
    "use_cache": None,
    "return_dict_in_generate": False,
    **dict.fromkeys(("input_ids", "attention_mask", "sequence_offsets")),
    **dict.fromkeys(("decoder_start_token_id", "eos_token_id", "pad_token_id")),
}
_SOURCES = ("input_ids", "attention_mask", "sequence_offsets")
_TOKENS = ("decoder_start_token_id", "eos_token_id", "pad_token_id")


class GenerationOutput(NamedTuple):
    """Targets with their scores.

    Attributes:
        sequences: int64 [B · num_return_sequences, T], as ``generate`` returns them.
        sequences_scores: float64 [B · num_return_sequences]; of n new tokens y the sum
            of log p(y_i | y_<i, x), divided by n^length_penalty.
    """

    sequences: np.ndarray
    sequences_scores: np.ndarray


class Found(NamedTuple):
    """Targets as lists, best first for each source: tokens, scores, whether ended."""

    rows: list[list[int]]
    scores: list[float]
    ended: list[bool]


class GenerativeModel(PreTrainedModel):
    """A model that makes a target token by token; options by Hugging Face's names."""

    @overload
    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        sequence_offsets: Any = None,
        max_new_tokens: int | None = None,
        num_beams: int = 1,
        length_penalty: float = 1.0,
        early_stopping: bool | Literal["never"] = False,
        num_return_sequences: int = 1,
        decoder_start_token_id: int | None = None,
        eos_token_id: int | None = None,
        pad_token_id: int | None = None,
        use_cache: bool | None = None,
        return_dict_in_generate: Literal[False] = False,
    ) -> np.ndarray: ...
    @overload
    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        sequence_offsets: Any = None,
        max_new_tokens: int | None = None,
        num_beams: int = 1,
        length_penalty: float = 1.0,
        early_stopping: bool | Literal["never"] = False,
        num_return_sequences: int = 1,
        decoder_start_token_id: int | None = None,
        eos_token_id: int | None = None,
        pad_token_id: int | None = None,
        use_cache: bool | None = None,
        return_dict_in_generate: Literal[True],
    ) -> GenerationOutput: ...
    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        sequence_offsets: Any = None,
        max_new_tokens: int | None = None,
        num_beams: int = 1,
        length_penalty: float = 1.0,
        early_stopping: bool | Literal["never"] = False,
        num_return_sequences: int = 1,
        decoder_start_token_id: int | None = None,
        eos_token_id: int | None = None,
        pad_token_id: int | None = None,
        use_cache: bool | None = None,
        return_dict_in_generate: bool = False,
        **unknown: Any,
    ) -> np.ndarray | GenerationOutput:
        """Targets for sources, by greedy search or beam search.

        Greedy search takes the most probable token at each step. Beam search keeps the
        ``num_beams`` best unfinished targets and ends as transformers does. A target
        has the same bits alone, in any batch and in any order, and for any number of
        threads. Dropout is off, whatever the model's mode. Ctrl-C ends the search after
        the token at hand and leaves the model as it was.

        Args:
            input_ids, attention_mask, sequence_offsets: sources, as in a call.
            max_new_tokens: the most tokens of a target, the end counts; by default
                those of its source and 50 more (Vaswani et al., Section 6.1), at most
                ``max_position_embeddings``. One line says how many targets reach it.
            num_beams: 1: greedy search.
            length_penalty: λ of the score Σ log p / n^λ of a target of n new tokens.
                Sums are negative: more than 0 favours long targets.
            early_stopping: when a sentence with ``num_beams`` finished targets is done.
                True: at once; False: if the best unfinished one, divided by its length
                so far, does not score higher than the worst finished one; "never": the
                same, divided by the length that suits it best.
            num_return_sequences: targets for each source, best first; at most
                ``num_beams``.
            decoder_start_token_id, eos_token_id, pad_token_id: instead of the config's.
            use_cache: whether keys, values and the queries that a convolution reaches
                back to are kept from token to token; False: every step decodes all
                tokens again. By default True, unless the attention needs whole maps.
            return_dict_in_generate: whether to return the scores too.

        Returns:
            int64 [B · num_return_sequences, T]: ``decoder_start_token_id``, the tokens,
            ``eos_token_id``, and ``pad_token_id`` after it; or a
            :class:`GenerationOutput` with these and their scores.

        Raises:
            ConfigError: a setting is not known or out of its range, or the model reads
                later tokens.
            InputError, ShapeError, DTypeError: the sources cannot be used, or a score
                is not finite.

        Example:
            >>> import evolving_attention as ea
            >>> model = ea.create_model(
            ...     "ea_transformer_lite", task="seq2seq_lm", vocab_size=40
            ... )
            >>> model.generate([[5, 9, 2]], max_new_tokens=4, num_beams=3).shape[0]
            1
        """
        given = locals()
        name = f"{type(self).__name__}.generate"
        for key in unknown:
            raise ConfigError(
                f"{name}: {key!r} is no option of greedy and beam search; the options "
                f"are: {', '.join([*_OPTIONS, *_TOKENS])}"
            )
        found = self.search(name, given)
        tell_of_limit(name, found.ended, max_new_tokens)
        padding = self.config.pad_token_id if pad_token_id is None else pad_token_id
        sequences = _padded(found.rows, padding)
        if not return_dict_in_generate:
            return sequences
        return GenerationOutput(sequences, np.asarray(found.scores, np.float64))

    def search(self, name: str, given: Mapping[str, Any]) -> Found:
        """The work of :meth:`generate`: targets as lists, without a notice.

        Args:
            name: of the caller, for messages.
            given: the arguments of :meth:`generate`; those left out have its defaults.
        """
        given = {**_DEFAULTS, **given}
        if given["input_ids"] is None:
            raise InputError(f"{name}: input_ids is missing; {self.needed[1]}")
        o = {key: _checked(name, key, hint, given) for key, hint in _OPTIONS.items()}
        start, end, _ = (
            getattr(self.config, key) if token is None else token
            for key, token in (
                (key, _checked(name, key, int | None, given)) for key in _TOKENS
            )
        )
        limit, cached = o["max_new_tokens"], o["use_cache"]
        rows, scores, ended = _core.search(
            self._core,
            {key: given[key] for key in _SOURCES},
            start=start,
            end=end,
            max_new_tokens=limit,
            beams=o["num_beams"],
            length_penalty=o["length_penalty"],
            early_stopping=str(o["early_stopping"]),
            returned=o["num_return_sequences"],
            scored=o["return_dict_in_generate"],
            cached=_core.can_cache(self._core) if cached is None else cached,
        )
        return Found(rows, scores, ended)


def tell_of_limit(name: str, ended: list[bool], limit: int | None) -> None:
    """Say how many targets reach the limit of their length, if any."""
    if not all(ended):
        shown = "its default" if limit is None else limit
        say(
            f"{name}: {ended.count(False)} of {len(ended)} targets reach "
            f"max_new_tokens ({shown}) without an end; a larger one goes on"
        )


def _checked(name: str, key: str, hint: Any, given: dict[str, Any]) -> Any:
    value = check_type(hint, given[key], name, key)
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ConfigError(f"{name}: {key}={value}, expected at most 64 bits")
    return value


def _padded(rows: list[list[int]], padding: int) -> np.ndarray:
    out = np.full((len(rows), max(map(len, rows), default=0)), padding, np.int64)
    for padded, row in zip(out, rows, strict=True):
        padded[: len(row)] = row
    return out

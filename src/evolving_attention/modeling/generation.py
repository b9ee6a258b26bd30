"""``generate`` for models that produce a target token by token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from evolving_attention import _core
from evolving_attention.autograd import evaluating
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_type
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.call import plain_arrays
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.generation_config import (
    GENERATION_CONFIG,
    read_generation_config,
    with_defaults,
)
from evolving_attention.modeling.generation_options import (
    SOURCES,
    TOKENS,
    GenerationOptions,
    checked,
    search_settings,
)
from evolving_attention.notices import say

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "Found",
    "GenerationOptions",
    "GenerationOutput",
    "GenerativeModel",
    "tell_of_limit",
]


class GenerationOutput(NamedTuple):
    """Targets with their scores.

    Attributes:
        sequences: int64 [B · num_return_sequences, T], as ``generate`` returns them.
        sequences_scores: float64 [B · num_return_sequences]; for n new tokens y, the
            sum of log p(y_i | y_<i, x) divided by n^length_penalty or by the divisor
            that ``length_penalty_form`` selects.
        token_scores: float64 [B · num_return_sequences, T - 1]: log p of
            ``sequences[:, 1:]``, by the softmax over all tokens at temperature 1; 0 in
            the prefix, at forced tokens and in the padding.
        alignments: with ``output_alignments=True``, a float32 array [tokens, S] for
            each target: the cross-attention map that produced each token of
            ``sequences[i, 1:]``, averaged over the heads; S is its source's length.
    """

    sequences: np.ndarray
    sequences_scores: np.ndarray
    token_scores: np.ndarray
    alignments: list[np.ndarray] | None = None


class Found(NamedTuple):
    """Targets as lists, best first for each source.

    Attributes:
        rows: tokens of each target.
        scores: score of each target.
        ended: False where the length limit came before the end token.
        token_scores: scores of all tokens but the first; empty if not requested.
        alignments: see :class:`GenerationOutput`.
    """

    rows: list[list[int]]
    scores: list[float]
    ended: list[bool]
    token_scores: list[list[float]]
    alignments: list[np.ndarray] | None


class GenerativeModel(PreTrainedModel):
    """A model that produces a target token by token; options as in Hugging Face.

    Attributes:
        generation_config: options that replace the defaults of :meth:`generate`, read
            from the checkpoint's generation_config.json.
    """

    generation_config: dict[str, Any]

    def _build(self, config: PretrainedConfig, dtype: str) -> None:
        super()._build(config, dtype)
        self.generation_config = {}

    def _rebuilt(self, *parts: Any) -> Any:
        copy = super()._rebuilt(*parts)
        copy.generation_config = dict(self.generation_config)
        return copy

    def _read_more(self, folder: Path, overrides: Mapping[str, Any]) -> None:
        values = read_generation_config(folder)
        given = {k: v for k, v in values.items() if k not in overrides}
        self.generation_config = given

    def _written_more(self) -> dict[str, Any]:
        """Adds generation_config.json, unless ``generation_config`` is empty."""
        values = None
        if self.generation_config:
            tokens = {name: getattr(self.config, name) for name in TOKENS}
            values = {**tokens, **self.generation_config}
        return {**super()._written_more(), GENERATION_CONFIG: values}

    @overload
    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        sequence_offsets: Any = None,
        return_dict_in_generate: Literal[False] = False,
        **options: Unpack[GenerationOptions],
    ) -> np.ndarray: ...
    @overload
    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        sequence_offsets: Any = None,
        return_dict_in_generate: Literal[True],
        **options: Unpack[GenerationOptions],
    ) -> GenerationOutput: ...
    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        sequence_offsets: Any = None,
        return_dict_in_generate: bool = False,
        **options: Unpack[GenerationOptions],
    ) -> np.ndarray | GenerationOutput:
        """Generates targets by greedy search, beam search or sampling.

        Greedy search takes the most probable token at each step. Beam search keeps the
        ``num_beams`` best unfinished targets and ends as transformers does. A target is
        bit-identical alone, in any batch, in any order and for any number of threads; a
        sampled target is so for equal ``seed`` and ``sentence_numbers``. Dropout is off
        in either mode of the model. Ctrl-C stops the search after the current token and
        leaves the model unchanged.

        Args:
            input_ids, attention_mask, sequence_offsets: sources, as in a call.
            return_dict_in_generate: whether to return scores as well.
            options: see :class:`GenerationOptions`; omitted ones are taken from
                ``generation_config``.

        Returns:
            int64 [B · num_return_sequences, T]: ``decoder_start_token_id``, the tokens,
            ``eos_token_id``, and ``pad_token_id`` after it; or a
            :class:`GenerationOutput` that also holds scores and alignments.

        Raises:
            ConfigError: a setting is unknown, out of range or without effect, or the
                model reads later tokens.
            InputError, ShapeError, DTypeError: the sources are invalid, or a score is
                not finite.

        Example:
            >>> import evolving_attention as ea
            >>> model = ea.create_model(
            ...     "ea_transformer_lite", task="seq2seq_lm", vocab_size=40
            ... )
            >>> model.generate([[5, 9, 2]], max_new_tokens=4, num_beams=3).shape[0]
            1
        """
        name = f"{type(self).__name__}.generate"
        scored = check_type(
            bool, return_dict_in_generate, name, "return_dict_in_generate"
        )
        sources = dict(
            zip(SOURCES, (input_ids, attention_mask, sequence_offsets), strict=True)
        )
        chosen = with_defaults(self.generation_config, options)
        if chosen.get("output_alignments") is True and not scored:
            raise ConfigError(
                f"{name}: output_alignments=True, expected "
                "return_dict_in_generate=True with it, which returns them"
            )
        found = self.search(name, sources, chosen, scored=scored)
        tell_of_limit(name, found.ended, chosen)
        padding = chosen.get("pad_token_id")
        padding = self.config.pad_token_id if padding is None else padding
        sequences = _padded(found.rows, padding, np.int64)
        if not scored:
            return sequences
        return GenerationOutput(
            sequences,
            np.asarray(found.scores, np.float64),
            _padded(found.token_scores, 0.0, np.float64),
            found.alignments,
        )

    def search(
        self,
        name: str,
        sources: Mapping[str, Any],
        options: Mapping[str, Any],
        *,
        scored: bool = False,
    ) -> Found:
        """Implements :meth:`generate`: returns targets as lists and prints nothing.

        Omitted options have their own defaults, not ``generation_config``'s.

        Args:
            name: the caller's name, for messages.
            sources: ``input_ids`` and the arrays that belong to it.
            options: see :class:`GenerationOptions`.
            scored: whether greedy search and sampling compute scores.
        """
        if sources.get("input_ids") is None:
            raise InputError(f"{name}: input_ids is missing; {self.needed[1]}")
        chosen = checked(name, options)
        layer, count = chosen["alignment_layer"], int(self.config.stacks["decoder_"])
        if not -count <= layer < count:
            raise ConfigError(
                f"{name}: alignment_layer={layer}, expected {-count} to {count - 1}"
            )
        settings = search_settings(name, self.config, chosen)
        settings.scored = scored
        cached = chosen["use_cache"]
        settings.cached = _core.can_cache(self._core) if cached is None else cached
        sources = plain_arrays(name, sources)
        found = _core.search(self._core, sources, settings)
        alignments = None
        if chosen["output_alignments"]:
            copies = chosen["num_return_sequences"]
            alignments = self._alignments(sources, found[0], layer % count, copies)
        return Found(*found, alignments)

    def _alignments(
        self, given: Mapping[str, Any], rows: list[list[int]], layer: int, copies: int
    ) -> list[np.ndarray]:
        """Computes the maps of whole targets in one pass, a row per generated token."""
        if not rows:
            return []
        sources = [row for row in _source_rows(given) for _ in range(copies)]
        inputs = {
            "input_ids": np.concatenate(sources),
            "sequence_offsets": _offsets(sources),
            "decoder_input_ids": np.concatenate([row[:-1] for row in rows]),
            "decoder_sequence_offsets": _offsets([row[:-1] for row in rows]),
        }
        with evaluating(self):
            results = self._core.forward(
                inputs, decoder_outputs=(None, [layer], None, None)
            )
        maps = host_array(results["cross_attentions"][layer])
        return [
            maps[i, :, : len(row) - 1, : len(source)].astype(np.float32).mean(axis=0)
            for i, (row, source) in enumerate(zip(rows, sources, strict=True))
        ]


def tell_of_limit(name: str, ended: list[bool], options: Mapping[str, Any]) -> None:
    """Prints how many targets reached the length limit, if any."""
    if not all(ended):
        key = "max_new_tokens" if options.get("max_length") is None else "max_length"
        limit = options.get(key)
        shown = "its default" if limit is None else limit
        say(
            f"{name}: {ended.count(False)} of {len(ended)} targets reach "
            f"{key} ({shown}) without an end; a larger one goes on"
        )


def _source_rows(given: Mapping[str, Any]) -> list[np.ndarray]:
    """Returns the sources without padding."""
    ids = host_array(given["input_ids"])
    offsets, mask = given.get("sequence_offsets"), given.get("attention_mask")
    if offsets is not None:
        return list(np.split(ids, host_array(offsets)[1:-1]))
    if mask is None:
        return list(ids)
    kept = host_array(mask) != 0
    return [row[used] for row, used in zip(ids, kept, strict=True)]


def _offsets(rows: Any) -> np.ndarray:
    return np.cumsum([0, *map(len, rows)])


def _padded(rows: Any, padding: Any, dtype: Any) -> np.ndarray:
    out = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype)
    for padded, row in zip(out, rows, strict=True):
        padded[: len(row)] = row
    return out

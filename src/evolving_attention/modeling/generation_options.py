"""The options of ``generate``: their types, defaults and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, get_type_hints

import numpy as np

from evolving_attention import _core
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_type

SOURCES = ("input_ids", "attention_mask", "sequence_offsets")
NEEDED = {
    **dict.fromkeys(("temperature", "top_k", "top_p", "seed"), "do_sample"),
    "alignment_layer": "output_alignments",
}
TOKENS = ("decoder_start_token_id", "eos_token_id", "pad_token_id")


class GenerationOptions(TypedDict, total=False):
    """Options of ``generate`` and :class:`ea.Translator`, with Hugging Face's names.

    Lengths:
        max_new_tokens: the most tokens of a target after its prefix, including the end;
            by default the length of its source plus 50 (Vaswani et al., Section 6.1),
            at most ``max_position_embeddings``. A notice counts targets that reach it.
        max_length: like max_new_tokens but including the start and the prefix; use one
            of the two.
        min_new_tokens, min_length: minimum number of tokens before the end, counted
            likewise.

    Beams:
        num_beams: 1: greedy search, or sampling. With ``do_sample`` and several beams,
            continuations of the beams are sampled instead of taking the best ones.
        num_return_sequences: targets for each source, best first, at most
            ``num_beams``; any number when sampling without beams.
        length_penalty, length_penalty_form: λ, and the divisor of Σ log p of n new
            tokens: "transformers": n^λ; "gnmt": ((5 + n) / 6)^λ (Wu et al., 2016,
            equation 14). Sums are negative: λ > 0 favours long targets.
        early_stopping: when a sentence with ``num_beams`` finished targets is done.
            True: at once; False: when the best unfinished one, divided as if it ended
            now, does not score higher than the worst finished one; "never": as False,
            but divided as if it ended at its most favourable length.

    Sampling:
        do_sample: draw each token from softmax(logits / temperature).
        temperature: must be above 0.
        top_k: draw from the tokens at least as probable as the k-th; None or 0: all.
        top_p: of these, keep the fewest whose probabilities sum to at least this.
        seed: random numbers depend only on the seed, the sentence's number, the index
            among its ``num_return_sequences`` (with beams: the draw's index in the
            step) and the token's position.
            None: drawn from the generator that ``ea.manual_seed`` seeds.
        sentence_numbers: B integers, by default 0 … B - 1. A sentence with the same
            seed and number has the same target in any batch.

    Tokens:
        no_repeat_ngram_size: no n-gram occurs twice in a target; 0: no such rule.
        decoder_input_ids: prefix of each target: [B, T], or lists of unequal length;
            ``decoder_start_token_id`` is prepended where it is missing.
        forced_bos_token_id: the token that follows the start if there is no prefix.
        forced_eos_token_id: the token at the length limit.
        decoder_start_token_id, eos_token_id, pad_token_id: override the config's.

    Work and results:
        use_cache: whether to keep keys, values and the queries that a convolution
            reaches back to, from token to token; False: every step decodes all tokens
            again. By default True, unless the attention needs whole maps.
        output_alignments: whether to return cross-attention maps.
        alignment_layer: decoder layer of these maps; negative: counted from the end.
    """

    max_new_tokens: int | None
    max_length: int | None
    min_new_tokens: int
    min_length: int
    num_beams: int
    num_return_sequences: int
    length_penalty: float
    length_penalty_form: Literal["transformers", "gnmt"]
    early_stopping: bool | Literal["never"]
    do_sample: bool
    temperature: float
    top_k: int | None
    top_p: float
    seed: int | None
    sentence_numbers: Any
    no_repeat_ngram_size: int
    decoder_input_ids: Any
    forced_bos_token_id: int | None
    forced_eos_token_id: int | None
    decoder_start_token_id: int | None
    eos_token_id: int | None
    pad_token_id: int | None
    use_cache: bool | None
    output_alignments: bool
    alignment_layer: int


_HINTS = get_type_hints(GenerationOptions)
OPTIONS = frozenset(_HINTS)
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(_HINTS),
    "min_new_tokens": 0,
    "min_length": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "length_penalty": 1.0,
    "length_penalty_form": "transformers",
    "early_stopping": False,
    "do_sample": False,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "no_repeat_ngram_size": 0,
    "output_alignments": False,
    "alignment_layer": -1,
}


def checked(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all options, with defaults filled in.

    Args:
        name: the caller's name, for messages.
        given: the options that are set.

    Raises:
        ConfigError: an option is unknown, has the wrong type, or has no effect.
    """
    for key in given:
        if key not in _HINTS:
            raise ConfigError(
                f"{name}: {key!r} is no option; the options are: {', '.join(_HINTS)}"
            )
    found = {**_DEFAULTS, **given}
    for key, hint in _HINTS.items():
        value = check_type(hint, found[key], name, key, default=_DEFAULTS[key])
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise ConfigError(f"{name}: {key}={value}, expected at most 64 bits")
        found[key] = value
    for key, other in NEEDED.items():
        if not found[other] and found[key] != _DEFAULTS[key]:
            raise ConfigError(
                f"{name}: {key}={found[key]!r} has no effect alone, expected "
                f"{other}=True with it, or leave it out"
            )
    return found


def search_settings(
    name: str, config: Any, options: Mapping[str, Any]
) -> _core.SearchSettings:
    """Converts :func:`checked` options for the core; token ids default to the config.

    Raises:
        InputError: ``decoder_input_ids`` or ``sentence_numbers`` are not integers.
    """
    start, end, _ = (
        getattr(config, key) if options[key] is None else options[key] for key in TOKENS
    )
    made = _core.SearchSettings()
    made.start, made.end = start, end
    for key in (
        *("max_new_tokens", "max_length", "min_new_tokens", "min_length"),
        *("no_repeat_ngram_size", "length_penalty"),
    ):
        setattr(made, key, options[key])
    made.forced_first = options["forced_bos_token_id"]
    made.forced_last = options["forced_eos_token_id"]
    made.beams, made.returned = options["num_beams"], options["num_return_sequences"]
    made.form = options["length_penalty_form"]
    made.early_stopping = str(options["early_stopping"])
    if options["do_sample"]:
        made.sample(
            options["temperature"],
            options["top_k"] or 0,
            options["top_p"],
            options["seed"],
        )
    if options["sentence_numbers"] is not None:
        where = f"{name}: sentence_numbers"
        made.numbers = integers(where, options["sentence_numbers"])
    if options["decoder_input_ids"] is not None:
        made.prefixes = _prefixes(name, options["decoder_input_ids"], start)
    return made


def _prefixes(name: str, value: Any, start: int) -> list[list[int]]:
    where = f"{name}: decoder_input_ids"
    rows = np.asarray(value) if hasattr(value, "__array__") else value
    if isinstance(rows, str) or not hasattr(rows, "__len__"):
        raise InputError(f"{where} is {value!r}, expected one row for each source")
    found = [integers(f"{where}[{i}]", row) for i, row in enumerate(rows)]
    return [row if row[:1] == [start] else [start, *row] for row in found]


def integers(where: str, value: Any) -> list[int]:
    """Returns a list of whole numbers of at most 64 bits.

    Args:
        where: the called function and the name of its argument.
        value: the list, or an array.

    Raises:
        InputError: it is something else.
    """
    try:
        found = np.asarray(value)
    except ValueError:
        found = np.asarray(None)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(f"{where} is {value!r}, expected a list of whole numbers")
    if found.size and not -(2**63) <= int(found.min()) <= int(found.max()) < 2**63:
        raise InputError(f"{where} is {value!r}, expected numbers of at most 64 bits")
    return [int(number) for number in found]

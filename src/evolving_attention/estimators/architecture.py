"""Converts the estimators' options to model options: attention, heads, convolution."""

from __future__ import annotations

import math
from typing import Any

from evolving_attention.attention import Evolving, Vanilla, from_config
from evolving_attention.errors import ConfigError
from evolving_attention.estimators.rules import refuse_twice
from evolving_attention.field_types import plain_scalar

#: The paper's best setting on time series (section 5.6).
DEFAULT_ATTENTION = Evolving(alpha=0.5, beta=0.3)

_HEADS, _SHARE = 8, 0.25  # the paper's heads, and its share of attention features
_OF_ATTENTION = ("alpha", "beta", "kernel_size")
_DROPOUT = "hidden_dropout_prob"
_OF_MODEL = {  # estimator's option: config's option, whose default None keeps
    "conv_kernel_size": "kernel_size",
    "causal": "causal",
    "norm": "norm",
    "pooling": "pooling",
}


def model_settings(estimator: Any) -> dict[str, Any]:
    """Returns an estimator's options as options of ``ea.EADCTransformerConfig``.

    Raises:
        ConfigError: ``attention`` is not a known kind, two options say the same thing,
            or the heads do not fit the width.
    """
    options = {
        "attention": _attention(estimator),
        "hidden_size": estimator.hidden_size,
        "num_blocks": estimator.num_blocks,
        "num_attention_heads": estimator.num_attention_heads,
        "attention_ratio": estimator.attention_ratio,
        _DROPOUT: estimator.dropout,
    }
    refuse_twice(estimator, options, {_DROPOUT: "dropout"})
    options |= estimator.model_options or {}
    for own, name in _OF_MODEL.items():
        value = plain_scalar(getattr(estimator, own))
        if value is None:
            continue
        if name in (estimator.model_options or {}):
            raise ConfigError(
                f"{type(estimator).__name__}: {own}={value!r} with model_options "
                f"with {name!r}={options[name]!r}, expected one of both; take {name!r} "
                "out of model_options"
            )
        options[name] = value
    heads, ratio = attention_width(
        options["hidden_size"],
        options["num_attention_heads"],
        options["attention_ratio"],
        type(estimator).__name__,
    )
    return {**options, "num_attention_heads": heads, "attention_ratio": ratio}


def held_attention(config: Any) -> Any:
    """Returns a pre-trained model's attention; the default in place of a vanilla one.

    Args:
        config: of the pre-trained model; None: there is none.
    """
    if config is None or is_vanilla(config.attention):
        return DEFAULT_ATTENTION
    return config.attention


def is_vanilla(attention: Any) -> bool:
    """Whether an attention, or each one of a list, is vanilla."""
    each = attention if isinstance(attention, (list, tuple)) else [attention]
    return all(one == Vanilla() for one in each)


def inherited(estimator: Any, config: Any) -> dict[str, Any]:
    """Returns options that are not given, as the pre-trained model's ``config`` sets.

    These are the attention, the heads and the share of attention features.
    """
    found = {
        name: getattr(config, name)
        for name in ("num_attention_heads", "attention_ratio")
        if getattr(estimator, name) is None
    }
    if all(getattr(estimator, name) is None for name in ("attention", *_OF_ATTENTION)):
        found["attention"] = held_attention(config)
    return found


def _attention(estimator: Any) -> Any:
    """Returns the attention kind; ``alpha``, ``beta``, ``kernel_size`` override it."""
    chosen = estimator.attention
    given = {
        name: plain_scalar(getattr(estimator, name))
        for name in _OF_ATTENTION
        if getattr(estimator, name) is not None
    }
    if not given:
        return DEFAULT_ATTENTION if chosen in (None, "evolving") else chosen
    first, value = next(iter(given.items()))
    if chosen is not None and not isinstance(chosen, str):
        raise ConfigError(
            f"{type(estimator).__name__}: attention={chosen!r} with {first}="
            f"{value!r}, expected one of both; put {first} into the attention, or give "
            "attention by its name"
        )
    kind = chosen or "evolving"
    paper = {}
    if kind == "evolving":
        paper = {"alpha": DEFAULT_ATTENTION.alpha, "beta": DEFAULT_ATTENTION.beta}
    return from_config({"kind": kind, **paper, **given})


def attention_width(
    hidden: int, heads: int | None, ratio: float | None, who: str
) -> tuple[int, float]:
    """Returns the heads and share of attention that fit the width ``hidden``.

    A value that is None is chosen: a share near 1/4 whose number of features the heads
    divide, and the largest number of heads, up to 8, that divides the attention's
    features.

    Raises:
        ConfigError: the given values do not fit; names values that do.
    """
    for name, value in (("hidden_size", hidden), ("num_attention_heads", heads)):
        if value is not None and value < 1:
            raise ConfigError(
                f"{who}: {name}={value}, expected a whole number from 1; correct it"
                + ("" if name == "hidden_size" else ", or leave it out")
            )
    if heads and hidden % heads:
        raise ConfigError(
            f"{who}: num_attention_heads={heads} for hidden_size={hidden}, expected "
            f"hidden_size to be a multiple of it; {_numbers(_divisors(hidden))} heads "
            "would do, or leave num_attention_heads out"
        )
    if ratio is None:
        step = heads or (2 if hidden > 1 else 1)
        features = max(1, round(_SHARE * hidden / step)) * step
        share = _SHARE if features == _SHARE * hidden else features / hidden
        return heads or _most_heads(features, hidden), share
    width, features = ratio * hidden, round(ratio * hidden)
    if not 0 <= ratio <= 1:
        return heads or 1, ratio  # the model's config reports what is wrong
    if abs(width - features) >= 1e-6:
        raise ConfigError(
            f"{who}: attention_ratio={ratio} of hidden_size={hidden} is a width of "
            f"{width:g}, expected a whole number; "
            f"{_ratios([int(width), int(width) + 1], hidden)} would do, or leave "
            "attention_ratio out"
        )
    if heads is None:
        return _most_heads(features, hidden), ratio
    if features % heads:
        near = [features // heads * heads, (features // heads + 1) * heads]
        raise ConfigError(
            f"{who}: num_attention_heads={heads} for a width of {features} "
            f"(attention_ratio={ratio} of hidden_size={hidden}), expected the width to "
            f"be a multiple of it; {_numbers(_divisors(math.gcd(features, hidden)))} "
            f"heads would do, or {_ratios(near, hidden)}; or leave one of the two out"
        )
    return heads, ratio


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _most_heads(features: int, hidden: int) -> int:
    """Returns the most heads, up to 8, that divide attention and model width."""
    return max(n for n in _divisors(math.gcd(features, hidden)) if n <= _HEADS)


def _numbers(found: list[int]) -> str:
    *some, last = map(str, found)
    return f"{', '.join(some)} or {last}" if some else last


def _ratios(features: list[int], hidden: int) -> str:
    fitting = [n for n in features if 0 < n <= hidden]
    return " or ".join(f"attention_ratio={n}/{hidden}" for n in fitting)

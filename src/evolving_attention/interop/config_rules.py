"""Tables of the allowed values of config.json keys, and their check."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evolving_attention.errors import ConfigError
from evolving_attention.field_types import is_unicode


@dataclass(frozen=True)
class Rules:
    """Types and ranges by key; keys that are absent are not checked.

    Attributes:
        integers: (least, most), both allowed.
        numbers: (least, most), both allowed.
        strings, flags, objects: names of keys that have values of this type; strings
            must be valid Unicode.
    """

    integers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    strings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


_INTEGERS: dict[str, tuple[int, int]] = {
    "vocab_size": (1, 10_000_000),
    "hidden_size": (1, 65_536),
    "num_hidden_layers": (1, 1_000),
    "num_attention_heads": (1, 1_024),
    "intermediate_size": (1, 1_048_576),
    "max_position_embeddings": (1, 10_000_000),
    "type_vocab_size": (1, 10_000),
    "num_labels": (1, 100_000),  # limited because their names are generated and kept
    "classifier_hidden_size": (1, 1_048_576),
}
_NUMBERS: dict[str, tuple[float, float]] = {
    "hidden_dropout_prob": (0.0, 1.0),
    "attention_probs_dropout_prob": (0.0, 1.0),
    "classifier_dropout": (0.0, 1.0),
    "layer_norm_eps": (0.0, 1.0),
    "initializer_range": (0.0, 1_000.0),
}
_COMMON = Rules(
    _INTEGERS,
    _NUMBERS,
    strings=("model_type", "hidden_act", "position_embedding_type", "problem_type"),
    flags=("add_pooling_layer", "norm_first"),
    objects=("id2label", "label2id"),
)


def _fail(config: Mapping[str, Any], source: str, key: str, expected: str) -> None:
    found = reprlib.repr(config[key])
    raise ConfigError(
        f"{source}: {key} is {found}, expected {expected}; correct it there"
    )


def check_rules(config: Mapping[str, Any], source: str, rules: Rules) -> None:
    """Check the present keys against ``rules``; ``None`` counts as absent.

    Raises:
        ConfigError: a value has the wrong type or is out of range; names both.
    """

    def fail(key: str, expected: str) -> None:
        _fail(config, source, key, expected)

    for key, (low, high) in rules.integers.items():
        value = config.get(key)
        if value is not None and not (type(value) is int and low <= value <= high):
            fail(key, f"an integer from {low} to {high}")
    for key, (least, most) in rules.numbers.items():
        value = config.get(key)
        if value is None:
            continue
        if type(value) not in (int, float) or not least <= value <= most:
            fail(key, f"a number from {least:g} to {most:g}")
        if isinstance(value, float) and not math.isfinite(value):
            fail(key, "a finite number")
    for key in rules.strings:  # the core takes no others
        if config.get(key) is not None and not is_unicode(config[key]):
            fail(key, "a string of valid Unicode")
    for keys, kind, expected in (
        (rules.flags, bool, "true or false"),
        (rules.objects, dict, "an object {...}"),
    ):
        for key in keys:
            if config.get(key) is not None and not isinstance(config[key], kind):
                fail(key, expected)


def check_config(config: dict[str, Any], source: str) -> None:
    """Check those keys of a config that the models use, if present.

    ``null`` counts as absent.

    Args:
        config: parsed config.json.
        source: the file, for messages.

    Raises:
        ConfigError: a value has the wrong type or is out of range; names file and key.
    """
    check_rules(config, source, _COMMON)

    def fail(key: str, expected: str) -> None:
        _fail(config, source, key, expected)

    attention = config.get("attention")
    if attention is not None and not isinstance(attention, (dict, list)):
        fail("attention", "an object {...}, or a list of one for each layer")
    for key in ("architectures", "text_columns"):
        names = config.get(key)
        if names is not None and not (
            isinstance(names, list) and all(isinstance(name, str) for name in names)
        ):
            fail(key, "a list of strings")
    padding, words = config.get("pad_token_id"), config.get("vocab_size")
    if padding is not None and not (
        type(padding) is int and 0 <= padding < (words or math.inf)
    ):
        fail("pad_token_id", "an integer from 0 to vocab_size - 1")
    width, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if width is not None and heads is not None and width % heads:
        fail("hidden_size", f"a multiple of num_attention_heads, {heads}")

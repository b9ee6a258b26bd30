"""``--model_options``: options of a new model's config, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolving_attention.cli.attention_arguments import refuse
from evolving_attention.errors import ConfigError
from evolving_attention.training.argument_rules import parse_json_object

_OURS = {
    "task": "leave it out",
    "dtype": "give --precision",
    "device": "give --device",
}


def json_object(name: str, value: Any, example: str) -> dict[str, Any]:
    """Returns an option's value, parsed if it is JSON text; None gives {}.

    Raises:
        ConfigError: it is not an object; the message shows a valid ``example``.
    """
    found = parse_json_object(name, value)
    if not isinstance(found, dict):
        raise refuse(name, value, "a JSON object", f"for example {example}")
    return found


def refuse_own_keys(found: Mapping[str, Any], ours: Mapping[str, str]) -> None:
    """Refuse keys that every command sets, or that this command sets.

    ``ours`` maps this command's keys to what to do instead of giving them.

    Raises:
        ConfigError: ``found`` contains such a key.
    """
    for key, fix in {**_OURS, **ours}.items():
        if key in found:
            raise ConfigError(
                f"--model_options: {key!r} is {found[key]!r}, expected no such key, "
                f"which the command sets; {fix}"
            )


def read_model_options(
    options: Any, example: str, ours: Mapping[str, str], flags: Mapping[str, str]
) -> dict[str, Any]:
    """Returns ``options.model_options``, parsed if it is JSON text.

    Args:
        options: the dataclass; every field has a default.
        example: a valid value, for messages.
        ours: keys that the command sets, and what to do instead of giving them.
        flags: keys that also have an option of the dataclass, and its name.

    Raises:
        ConfigError: the value is not an object, or has a key that the command sets or
            that is given twice.
    """
    found = json_object("model_options", options.model_options, example)
    own = {"name": "give --model", "vocab_size": "give --vocab_size"}
    refuse_own_keys(found, {**own, **ours})
    for key, flag in flags.items():
        value = getattr(options, flag)
        if key in found and value != getattr(type(options), flag):
            both = f"one of the two, --model_options has {key!r} too"
            raise refuse(flag, value, both, "leave one out")
    return found

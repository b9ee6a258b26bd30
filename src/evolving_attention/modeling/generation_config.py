"""generation_config.json: a checkpoint's defaults for ``generate``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evolving_attention.errors import ConfigFileError
from evolving_attention.modeling.generation_options import NEEDED, OPTIONS, checked
from evolving_attention.notices import say

GENERATION_CONFIG = "generation_config.json"
_OF_ONE_CALL = frozenset(
    ("sentence_numbers", "decoder_input_ids", "output_alignments", "alignment_layer")
)
# If one of the two is given, the file's value for the other one is ignored.
_EITHER = (("max_new_tokens", "max_length"), ("min_new_tokens", "min_length"))
# Non-empty defaults of transformers for options that do not exist here; None: any
# value, since the option changes no target.
_USUAL: dict[str, Any] = {
    "_from_model_config": None,
    "assistant_confidence_threshold": 0.4,
    "assistant_lookbehind": 10,
    "bos_token_id": None,
    "encoder_repetition_penalty": 1.0,
    "num_assistant_tokens": 20,
    "num_assistant_tokens_schedule": "constant",
    "num_beam_groups": 1,
    "repetition_penalty": 1.0,
    "target_lookbehind": 10,
    "transformers_version": None,
    "typical_p": 1.0,
    "use_cache": True,
}


def read_generation_config(folder: Path) -> dict[str, Any]:
    """Returns the checked contents of the folder's file; empty if there is none.

    One notice names the options that generation ignores.

    Raises:
        CheckpointError: it is not a regular file.
        ConfigFileError: it is not a JSON object.
        ConfigError: an option has the wrong type.
    """
    from evolving_attention.interop.json_file import parse_object
    from evolving_attention.interop.limits import MAX_CONFIG_BYTES
    from evolving_attention.interop.paths import present, read_inside

    if not present(folder, GENERATION_CONFIG):
        return {}
    where = str(folder / GENERATION_CONFIG)
    data = read_inside(folder, GENERATION_CONFIG, MAX_CONFIG_BYTES)
    values = parse_object(data, where, ConfigFileError)
    own = _own(values)
    checked(where, {**own, "do_sample": own.get("do_sample") or True})
    told = [
        f"{key}={value!r:.60}"
        for key, value in values.items()
        if key not in own and value and _USUAL.get(key, "") not in (None, value)
    ]
    if told:
        say(
            f"{where}: {', '.join(told)}: expected options of generate() here, and one "
            "id of a token; these are ignored, so targets may differ from transformers'"
        )
    return values


def with_defaults(
    values: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the given options, completed from a generation config.

    Sampling options apply only where tokens are drawn, as in transformers.
    """
    own = {key: value for key, value in _own(values).items() if key not in given}
    for new, whole in _EITHER:
        if new in given or new in own:
            own.pop(whole, None)
        if whole in given:
            own.pop(new, None)
    found = {**own, **given}
    for key, other in NEEDED.items():
        if key in own and not found.get(other):
            del found[key]
    return found


def _own(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that exist here too; a one-token list becomes that token."""
    found = {}
    for key, value in values.items():
        if key.endswith("_token_id") and isinstance(value, list):
            value = value[0] if len(value) == 1 else None
        automatic = key == "use_cache" and value is True  # transformers' default
        if value is not None and key in OPTIONS - _OF_ONE_CALL and not automatic:
            found[key] = value
    return found

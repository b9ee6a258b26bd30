"""Options of transformers' from_pretrained that are not here, with their remedies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolving_attention.errors import ConfigError

#: Name of the option: the remedy.
LOADING_OPTIONS = {
    "cache_dir": "set the environment variable HF_HUB_CACHE",
    "device_map": "pass device='cpu', 'cuda' or 'auto' to a model's from_pretrained",
    "force_download": "delete the model from the Hub cache",
    "gguf_file": "give a folder with tokenizer.json",
    "ignore_mismatched_sizes": "pass strict=False to a model's from_pretrained",
    "proxies": "set the environment variable HTTPS_PROXY",
    "resume_download": "leave it out",
    "revision": "download that revision and give its folder",
    "subfolder": "give the path of that folder as the name",
    "token": "set the environment variable HF_TOKEN",
    "torch_dtype": "pass dtype='float32', 'bfloat16' or 'auto' to a model's "
    "from_pretrained",
    "trust_remote_code": "leave it out: code of a checkpoint is never run",
    "use_auth_token": "set the environment variable HF_TOKEN",
}
_MAIN = ("revision", "main")  # the revision that resolve() finds


def without_loading(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options without those of ``LOADING_OPTIONS``.

    Args:
        source: what takes the options, for the message.
        options: options by name.

    Raises:
        ConfigError: one of these options asks for something; its value may be secret.
    """
    for name in sorted(options.keys() & LOADING_OPTIONS):
        if options[name] and (name, options[name]) != _MAIN:
            raise ConfigError(
                f"{source}: {name} is not supported, expected it to be left out; "
                f"{LOADING_OPTIONS[name]}"
            )
    return {k: v for k, v in options.items() if k not in LOADING_OPTIONS}

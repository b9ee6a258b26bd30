"""Converts folders of timm's ViT and of DINOv2 to ViT's format, and ViT to timm's.

timm stores queries, keys and values concatenated in one matrix; everything else differs
only in names. Its config.json gives an architecture name instead of most sizes, so
these are read from the tensors.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.interop.config_rules import Rules, check_rules
from evolving_attention.interop.hf import CheckpointFolder

Array = np.ndarray[Any, Any]

_LAYER = "encoder.layer.{}."
_BLOCK = "blocks.{}."
# timm's name to this library's, outside the layers
_OUTSIDE = {
    "cls_token": "embeddings.cls_token",
    "pos_embed": "embeddings.position_embeddings",
    "patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight",
    "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
    "norm.weight": "layernorm.weight",
    "norm.bias": "layernorm.bias",
    "head.weight": "classifier.weight",
    "head.bias": "classifier.bias",
}
_INSIDE = {  # inside a layer; with .weight and .bias, or exactly as written
    "norm1": "layernorm_before",
    "attn.proj": "attention.output.dense",
    "ls1.gamma": "layer_scale1.lambda1",
    "norm2": "layernorm_after",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
    "ls2.gamma": "layer_scale2.lambda1",
}
_PROJECTIONS = ("query", "key", "value")
_PROJECTION = "attention.attention.{}"
_QKV = "attn.qkv"
_HEADS = {"tiny": 3, "small": 6, "base": 12, "large": 16, "huge": 16, "giant": 16}
# Arguments that timm's code sets by the architecture's name; no tensor shows them.
_BY_NAME: dict[str, dict[str, Any]] = {
    r"vit_base_patch16_gap_224": {"num_heads": 16},
    r"vit_base_patch\d+_plus_": {"num_heads": 14},
    r"vit_base_patch16_rpn_": {"block_fn": "ResPostBlock"},
    r"vit_(base_patch32|so400m_patch16|giantopt_patch16)_siglip_": {
        "act_layer": "gelu_tanh"
    },
    r"vit_large_patch16_siglip_(gap_)?512": {"act_layer": "gelu_tanh"},
}
_DINO = (
    (r"^dinov2\.", "vit."),
    (r"\.norm1\.", ".layernorm_before."),
    (r"\.norm2\.", ".layernorm_after."),
)
_DINO_RULES = Rules(
    numbers={"mlp_ratio": (0.0, 1_000.0), "layerscale_value": (0.0, 1_000.0)}
)
_TIMM_RULES = Rules(
    numbers={"layer_norm_eps": (0.0, 1.0)},
    strings=("global_pool",),
    objects=("model_args", "pretrained_cfg"),
)
_ARGUMENT_RULES = Rules(numbers={"init_values": (0.0, 1_000.0)})
_TIMM_EPS = 1e-6  # epsilon of timm's norms; its config.json cannot change it
_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
# Settings of timm that change the result but leave no trace in the tensors, and the
# values of each that are implemented here.
_IMPLEMENTED: dict[str, tuple[Any, ...]] = {
    "global_pool": ("token", "avg"),
    "act_layer": (None, *_ACTIVATIONS),
    "norm_layer": (None, "layernorm"),
    "attn_layer": (None, "attn"),
    "block_fn": (None,),
    "mlp_layer": (None,),
    "embed_layer": (None,),
    "pool_include_prefix": (None, False),
}


def from_timm(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Renames timm's tensors to those of :class:`~evolving_attention.ViTModel`.

    Unknown names stay unchanged, so that the load report lists them.
    """
    found: dict[str, Array] = {}
    for name, array in tensors.items():
        block = re.fullmatch(r"blocks\.(\d+)\.(.+?)(\.weight|\.bias)?", name)
        if block is None:
            found[_OUTSIDE.get(name, name)] = array
            continue
        number, part, kind = block[1], block[2], block[3] or ""
        layer = _LAYER.format(number)
        if part == _QKV and len(array) % 3 == 0:
            for own, each in zip(_PROJECTIONS, np.split(array, 3), strict=True):
                found[f"{layer}{_PROJECTION.format(own)}{kind}"] = each
        elif part in _INSIDE:
            found[f"{layer}{_INSIDE[part]}{kind}"] = array
        else:
            found[name] = array
    return found


def to_timm(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Inverse of :func:`from_timm`, for names with or without the prefix ``vit.``.

    Raises:
        ConfigError: timm's ViT has no such tensor.
    """
    outside = {ours: theirs for theirs, ours in _OUTSIDE.items()}
    inside = {ours: theirs for theirs, ours in _INSIDE.items()}
    own = {name.removeprefix("vit."): array for name, array in tensors.items()}
    found: dict[str, Array] = {}
    for name, array in own.items():
        layer = re.fullmatch(r"encoder\.layer\.(\d+)\.(.+?)(\.weight|\.bias)?", name)
        if layer is None:
            number, part, kind, place = "", name, "", outside.get(name)
        else:
            number, part, kind = layer[1], layer[2], layer[3] or ""
            place = inside.get(part)
        if place is not None:
            block = _BLOCK.format(number) if number else ""
            found[f"{block}{place}{kind}"] = array
        elif part == _PROJECTION.format("query"):
            each = [
                own[f"{_LAYER.format(number)}{_PROJECTION.format(one)}{kind}"]
                for one in _PROJECTIONS
            ]
            found[f"{_BLOCK.format(number)}{_QKV}{kind}"] = np.concatenate(each)
        elif part not in map(_PROJECTION.format, _PROJECTIONS):
            raise ConfigError(
                f"save_timm: timm's ViT has nothing like {name}, expected a model "
                "without it; save it by save_pretrained"
            )
    return found


def as_vit(folder: CheckpointFolder, overrides: Mapping[str, Any]) -> CheckpointFolder:
    """Converts a folder of timm's ViT or DINOv2 to ViT's; others stay unchanged.

    Args:
        folder: the folder's contents.
        overrides: config options that the caller sets.

    Raises:
        ConfigError: the config has settings that this library's ViT lacks.
        CheckpointError: the tensors are not those of a ViT.
    """
    if folder.config.get("model_type") == "dinov2":
        return _from_dino(folder)
    name = folder.config.get("architecture")
    if folder.config.get("model_type") is None and isinstance(name, str):
        return _from_timm_folder(folder, name, overrides)
    return folder


def _from_dino(folder: CheckpointFolder) -> CheckpointFolder:
    config = dict(folder.config)
    source = str(folder.path / "config.json")
    check_rules(config, source, _DINO_RULES)
    for name in ("use_swiglu_ffn", "drop_path_rate"):
        if config.pop(name, 0):
            raise ConfigError(
                f"{source}: {name} is {folder.config[name]!r}, expected none: ViT has "
                "nothing like it here; take a checkpoint without it"
            )
    width = config.get("hidden_size", 768)
    config["intermediate_size"] = int(width * config.pop("mlp_ratio", 4))
    config["layer_scale"] = float(config.pop("layerscale_value", 1.0))
    config.setdefault("layer_norm_eps", 1e-6)
    config.setdefault("patch_size", 14)
    config["model_type"] = "vit"
    tensors = {}
    for name, array in folder.tensors.items():
        for pattern, replacement in _DINO:
            name = re.sub(pattern, replacement, name)
        tensors[name] = array
    return dataclasses.replace(folder, config=config, tensors=tensors)


def _from_timm_folder(
    folder: CheckpointFolder, architecture: str, overrides: Mapping[str, Any]
) -> CheckpointFolder:
    source = str(folder.path)
    file = str(folder.path / "config.json")
    check_rules(folder.config, file, _TIMM_RULES)
    held = folder.tensors
    needed = ("patch_embed.proj.weight", "pos_embed", "blocks.0.mlp.fc1.weight")
    absent = [name for name in needed if name not in held]
    axes = [4, 3, 2]
    if absent or any(
        held[name].ndim != n or 0 in held[name].shape
        for name, n in zip(needed, axes, strict=True)
    ):
        raise CheckpointError(
            f"{source}: {architecture!r} is not timm's plain ViT, expected tensors "
            f"{', '.join(needed)} of 4, 3 and 2 axes; it lacks "
            f"{', '.join(absent) or 'none'}. Load it with timm"
        )
    arguments: dict[str, Any] = {
        "global_pool": folder.config.get("global_pool") or "token"
    }
    for pattern, implied in _BY_NAME.items():
        if re.match(pattern, architecture):
            arguments |= implied
    arguments |= folder.config.get("model_args") or {}
    _check_implemented(arguments, source)
    check_rules(arguments, file, _ARGUMENT_RULES)
    width, channels, height, across = held[needed[0]].shape
    token = "cls_token" in held
    patches = held[needed[1]].shape[1] - token
    blocks = {name.split(".")[1] for name in held if name.startswith("blocks.")}
    config: dict[str, Any] = {
        "model_type": "vit",
        "hidden_size": int(width),
        "num_hidden_layers": len(blocks),
        "num_attention_heads": _heads(arguments, architecture, overrides, source),
        "intermediate_size": int(held[needed[2]].shape[0]),
        "num_channels": int(channels),
        "patch_size": [int(height), int(across)],
        "image_size": _image_size(folder.config, patches, (height, across)),
        "hidden_act": _ACTIVATIONS[arguments.get("act_layer") or "gelu"],
        "layer_norm_eps": folder.config.get("layer_norm_eps", _TIMM_EPS),
        "qkv_bias": "blocks.0.attn.qkv.bias" in held,
        "use_class_token": token,
    }
    if "blocks.0.ls1.gamma" in held:
        config["layer_scale"] = float(arguments.get("init_values") or 1.0)
    if arguments["global_pool"] == "avg":
        config["pooling"] = "mean"
    if "head.weight" in held:
        config["num_labels"] = len(held["head.weight"])
    return dataclasses.replace(folder, config=config, tensors=from_timm(held))


def _check_implemented(arguments: Mapping[str, Any], source: str) -> None:
    """Refuses timm's settings with which this library's ViT would compute other values.

    Raises:
        ConfigError: names the setting.
    """
    for name, allowed in _IMPLEMENTED.items():
        value = arguments.get(name)
        if value not in allowed:
            expected = " or ".join(repr(one) for one in allowed if one is not None)
            raise ConfigError(
                f"{source}: {name} is {value!r}, expected {expected or 'none'}: ViT "
                "has nothing like it here; load it with timm"
            )


def _heads(
    arguments: Mapping[str, Any],
    architecture: str,
    overrides: Mapping[str, Any],
    source: str,
) -> int:
    """Returns the number of heads from config or name; no tensor contains it."""
    given = overrides.get("num_attention_heads") or arguments.get("num_heads")
    if type(given) is int:
        return given
    known = next((n for word, n in _HEADS.items() if f"_{word}_" in architecture), None)
    if known is None:
        raise ConfigError(
            f"{source}: the heads of {architecture!r} are not known, expected a name "
            f"with one of {', '.join(_HEADS)}; pass num_attention_heads="
        )
    return known


def _image_size(
    config: Mapping[str, Any], patches: int, patch: tuple[int, int]
) -> list[int]:
    """Returns the config's size if it fits the position table, else a square grid's."""
    size = (config.get("model_args") or {}).get("img_size")
    if size is None:
        size = ((config.get("pretrained_cfg") or {}).get("input_size") or [0])[1:]
    sides = [size, size] if isinstance(size, int) else size
    whole = isinstance(sides, list) and all(type(side) is int for side in sides)
    if whole and len(sides) == 2:
        rows, columns = sides[0] // patch[0], sides[1] // patch[1]
        if rows * columns == patches:
            return sides
    root = math.isqrt(patches)
    return [root * int(patch[0]), root * int(patch[1])]


def timm_config(config: Any) -> dict[str, Any]:
    """Returns timm's config.json for a ViT's config; the sizes are its arguments.

    Raises:
        ConfigError: timm's ViT computes something different.
    """
    layers = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    layers["gelu_pytorch_tanh"] = layers["gelu_new"]
    plain, act = config._equals_vanilla(), config.hidden_act
    if not plain or act not in layers:
        setting = f"hidden_act={act!r}" if plain else "its attention"
        raise ConfigError(
            f"save_timm: timm's ViT has no {setting}, expected vanilla attention and "
            f"hidden_act {' or '.join(map(repr, layers))}; save the model by "
            "save_pretrained"
        )
    eps = config.layer_norm_eps
    if eps > 2 * _TIMM_EPS:  # a smaller one matters only where a variance is tiny
        raise ConfigError(
            f"save_timm: layer_norm_eps={eps}, expected about {_TIMM_EPS}: timm's "
            f"norms have {_TIMM_EPS}, and its config.json cannot change it; save the "
            "model by save_pretrained"
        )
    image, patch = config.side("image_size"), config.side("patch_size")
    pool = "avg" if config.reads_mean else "token"
    arguments: dict[str, Any] = {
        "img_size": list(image),
        "patch_size": list(patch),
        "in_chans": config.num_channels,
        "embed_dim": config.hidden_size,
        "depth": config.num_hidden_layers,
        "num_heads": config.num_attention_heads,
        "mlp_ratio": config.intermediate_size / config.hidden_size,
        "qkv_bias": bool(config.qkv_bias),
        "class_token": bool(config.use_class_token),
        "global_pool": pool,
        "fc_norm": False,
    }
    if act != "gelu":  # timm's default
        arguments["act_layer"] = layers[act]
    if config.layer_scale is not None:
        arguments["init_values"] = config.layer_scale
    return {
        "architecture": "vit_base_patch16_224",  # model_args replace all its sizes
        "num_classes": config.num_labels,
        "num_features": config.hidden_size,
        "global_pool": pool,
        "layer_norm_eps": eps,  # timm ignores it; from_pretrained not
        "model_args": arguments,
        "pretrained_cfg": {
            "input_size": [config.num_channels, *image],
            "num_classes": config.num_labels,
            "first_conv": "patch_embed.proj",
            "classifier": "head",
        },
    }

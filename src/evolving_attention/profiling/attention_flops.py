"""Multiply-adds of one attention layer, of any kind, from its parameters' shapes."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from evolving_attention.attention.scope import Window
from evolving_attention.attention.spec import Spec, layers_of

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]

_PROJECTION = re.compile(r"^(.+)\.(query|key|value|q|k|v)\.weight$")
PROJECTIONS = ("query.weight", "key.weight", "value.weight")
_FULL = {f"{name[0]}.weight": name for name in PROJECTIONS}
_TABLES = ("relative_positions", "relative_height", "relative_width", "relative_values")


def shapes_of(config: Any, head: str) -> dict[str, Shape]:
    """Returns the shapes of a model's parameters by name; the model has no memory."""
    core = importlib.import_module("evolving_attention._core")
    options = {**config.core_options(), "head": head}
    made = core.create_model(config.model_type, options)
    return {name: tuple(tensor.shape) for name, tensor in made.named_parameters()}


def attention_layers(kinds: Any, shapes: Shapes) -> list[tuple[Any, Shapes]]:
    """Returns each layer's kind, and the shapes of its parameters by Bert's names.

    Args:
        kinds: a config's ``attention``: one for all layers, or a tuple.
        shapes: parameters of the layers, in order.
    """
    found: dict[str, dict[str, Shape]] = {}
    for name in shapes:
        if match := _PROJECTION.match(name):
            found.setdefault(match[1], {})
    for name, shape in shapes.items():
        for place, own in found.items():
            if name.startswith(f"{place}."):
                rest = name[len(place) + 1 :]
                own[_FULL.get(rest, rest)] = shape
    each = layers_of(kinds)
    each = each * len(found) if len(each) == 1 else each
    return list(zip(each, found.values(), strict=bool(found)))


def count_attention(
    layers: Iterable[tuple[Any, Shapes]], queries: int, keys: int
) -> dict[str, int]:
    """Counts the multiply-adds of layers: ``attention`` and ``map_conv``.

    Every key of a query counts, or every cell of a window as wide as the sequence
    needs. A product with relative positions has every distance that occurs.
    """
    parts = {"attention": 0, "map_conv": 0}
    for kind, own in layers:
        slots = kind if isinstance(kind, Spec) else Spec()
        score, scope, columns = slots.score.kind, slots.scope, keys
        if isinstance(scope, Window):
            columns = scope.heads * min(scope.size, 2 * queries - 1)
        cells = queries * columns
        pairs = PROJECTIONS[1:] if score != "concatenative" else PROJECTIONS[2:]
        for name, shape in own.items():
            if len(shape) == 4:
                parts["map_conv"] += cells * math.prod(shape)
            elif name in _TABLES:
                of = "value.weight" if name == "relative_values" else "query.weight"
                distances = min(shape[0], queries + keys - 1)
                parts["attention"] += queries * distances * own[of][0]
            elif name in pairs:
                parts["attention"] += cells * shape[0]
            elif name == "score.weight":
                parts["attention"] += _of_score(score, shape, queries, keys, cells)
    return parts


def _of_score(score: str, shape: Shape, queries: int, keys: int, cells: int) -> int:
    """Returns the products of a score's own weight."""
    size = math.prod(shape)
    if score == "multiplicative":  # q W
        return queries * size
    if score == "concatenative":  # one number for each query, one for each key
        return (queries + keys) * (size // 2)
    if score == "dense_synthesizer":  # a row for each position
        return cells * (size // shape[0])
    return 0  # additive: the keys' products are with w; random: none

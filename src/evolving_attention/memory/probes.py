"""Small batches made from a given one, to estimate the memory of its step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolving_attention.errors import InputError, ShapeError
from evolving_attention.interop.token_limits import token_limit

_LONGEST = 32  # tokens of the longest sequence tried
_GROUP = 512  # tokens of a sequence whose maps fill a kernel's working memory
_IGNORED = -100
_IMAGES = (2, 4)  # images of a small batch; batch norm over one pixel needs two
_WHOLE = ("sequence_classification", "classification", "regression")  # label rows

Lengths = tuple[int, ...]


@dataclass(frozen=True)
class Probe:
    """A small batch.

    Attributes:
        inputs: inputs of the model's call.
        grows: counts with which its bytes grow.
    """

    inputs: Mapping[str, np.ndarray]
    grows: list[int]


@dataclass(frozen=True)
class Probes:
    """Small batches, and the whole batch's counts to extrapolate to.

    Attributes:
        kept: batches whose graphs show the memory that a step keeps.
        used: batches whose steps show the working memory beyond that: the last two to
            extrapolate from; single sequences of growing length, to be tried in order.
        groups: two batches of equal sequences that show how much of it grows with
            their number, where kernels hold the maps of a few sequences at a time;
            none for images and where they would be an eighth of the batch or more.
        kept_grows: counts of the whole batch, for ``kept``.
        used_grows: counts of the whole batch, for ``used``.
        group_grows: counts of the whole batch, for ``groups``.
        tokens: tokens of the whole batch.
        sequences: sequences of the whole batch; 0 for images.
    """

    kept: list[Probe]
    used: list[Probe]
    groups: list[Probe]
    kept_grows: list[int]
    used_grows: list[int]
    group_grows: list[int]
    tokens: int
    sequences: int


def probes_of(inputs: Mapping[str, np.ndarray], model: Any) -> Probes:
    """Makes small batches of sequences, or of images, for a model.

    Raises:
        InputError: the arrays do not fit together, or are too long for the model.
    """
    first, config = model.needed[0], model.config
    if first == "pixel_values":
        return _of_images(inputs, first)
    sides = _sides_of(inputs, model)
    padded = [side.width > 0 for side in sides]
    whole = [side.lengths for side in sides]
    limit = token_limit(config)
    most = getattr(config, "max_length", 0) if limit is None else limit
    longest = max(map(max, whole))
    if 0 < most < longest and "position_ids" not in inputs:
        raise InputError(
            f"plan: a sequence of the batch has length {longest}, expected at most "
            f"{most}, the most that this model takes; shorten it"
        )
    groups, sequences = _groups(whole)
    return Probes(
        [
            Probe(_probe_of(sides, lengths), _features(lengths, padded))
            for lengths in _probe_lengths(sides)
        ],
        [
            Probe(_probe_of(sides, lengths), _sums(lengths))
            for lengths in _long_probes(sides)
        ],
        [Probe(_probe_of(sides, lengths), [1, len(lengths[0])]) for lengths in groups],
        _features(whole, padded),
        _sums(whole),
        [1, sequences],
        sum(map(sum, whole)),
        len(whole[0]),
    )


def _of_images(inputs: Mapping[str, np.ndarray], first: str) -> Probes:
    """Makes batches of images; bytes are a constant plus a fixed amount per image."""
    images = inputs[first]
    if images.ndim != 4 or not len(images):
        raise InputError(
            f"plan: {first} has shape {images.shape}, expected [images, channels, "
            "height, width], one image or more"
        )
    whole, found = len(images), []
    for count in _IMAGES:
        rows = np.arange(count) % whole
        batch = {
            name: array[rows] if array.ndim and len(array) == whole else array
            for name, array in inputs.items()
        }
        found.append(Probe(batch, [1, count]))
    grows = [1, whole]
    return Probes(found, found, [], grows, grows, grows, whole, 0)


@dataclass(frozen=True)
class _Side:
    """The sequences of a model, or of one of its two stacks.

    Attributes:
        inputs: the arrays along these sequences, by name.
        ids: name of the array of tokens or values.
        prefix: prefix of the names of mask and offsets.
        lengths: lengths of the sequences without padding.
        width: padded length; 0: packed.
        cut: names of padded arrays with a column for each token or value.
    """

    inputs: Mapping[str, np.ndarray]
    ids: str
    prefix: str
    lengths: Lengths
    width: int
    cut: set[str]


def _sides_of(inputs: Mapping[str, np.ndarray], model: Any) -> list[_Side]:
    """Returns the batch's sequences; sources and targets of an encoder-decoder.

    Raises:
        InputError: the arrays do not fit together.
    """
    first = model.needed[0]
    if len(model.config.stacks) == 1:
        rows = _by_sequence(inputs, first, model.head == "multiple_choice")
        return [_side(rows, first, "", whole=model.head in _WHOLE)]
    target = {k: v for k, v in inputs.items() if k[:8] == "decoder_" or k == "labels"}
    source = {k: v for k, v in inputs.items() if k not in target}
    ids = "decoder_input_ids" if "decoder_input_ids" in target else "labels"
    if ids not in target:
        raise InputError(
            f"plan: the batch has {', '.join(inputs)}, expected the target, too: "
            "labels or decoder_input_ids"
        )
    sides = [_side(source, first, ""), _side(target, ids, "decoder_")]
    sources, targets = (len(side.lengths) for side in sides)
    if sources != targets:
        raise ShapeError(
            f"plan: {sources} sources and {targets} targets; expected one target for "
            "each source"
        )
    return sides


def _by_sequence(
    inputs: Mapping[str, np.ndarray], first: str, choices: bool
) -> dict[str, np.ndarray]:
    """Returns the inputs with a row for each sequence, or for each choice.

    The labels of questions with choices are left out.
    """
    found, shape = dict(inputs), inputs[first].shape
    places = inputs.get("position_ids")
    if places is not None and places.shape in (shape[1:], (1, *shape[1:])):
        found["position_ids"] = np.broadcast_to(places, shape)
    if choices:
        found.pop("labels", None)
        for name, array in found.items():
            if array.ndim == 3:
                n, count, width = array.shape
                found[name] = array.reshape(n * count, width)
    return found


def _side(
    inputs: Mapping[str, np.ndarray], ids: str, prefix: str, whole: bool = False
) -> _Side:
    """Returns the sequences of one stack; ``whole``: labels are of whole sequences.

    Raises:
        InputError: the arrays do not fit together.
    """
    offsets, array = inputs.get(f"{prefix}sequence_offsets"), inputs[ids]
    if array.ndim < (2 if offsets is None else 1):
        raise InputError(
            f"plan: {ids} has shape {array.shape}, expected [sequences, length, …], or "
            f"packed rows with {prefix}sequence_offsets"
        )
    count, width = array.shape[:2] if offsets is None else (offsets.size - 1, 0)
    for name, each in inputs.items():
        if name[-7:] != "offsets" and each.shape[:1] not in ((count,), (len(array),)):
            raise ShapeError(
                f"plan: {name} has shape {each.shape}, expected {count} rows, one for "
                f"each sequence of {ids} of shape {array.shape}"
            )
    if offsets is not None:
        lengths = np.diff(offsets.ravel())
    elif f"{prefix}attention_mask" in inputs:
        lengths = (inputs[f"{prefix}attention_mask"] != 0).sum(-1)
    elif ids == "labels":  # up to the last label of each row
        ends = (array != _IGNORED) * np.arange(1, width + 1)
        lengths = ends.max(axis=1, initial=1)
    else:
        lengths = inputs.get("lengths", np.full(count, width))
    most = width or len(array)
    fits = lengths.dtype.kind in "iu" and lengths.shape == (max(1, count),)
    if not (fits and lengths.min() > 0 and lengths.max() <= most):
        raise InputError(
            f"plan: {ids} of shape {array.shape} has sequences of lengths "
            f"{lengths.tolist()}, expected one or more, each of 1 to {most}"
        )
    cut = {k for k, v in inputs.items() if v.ndim > 1 and v.shape[1] == width}
    cut = cut - {"labels"} if whole else cut
    return _Side(inputs, ids, prefix, tuple(lengths.tolist()), width, cut)


def _probe_lengths(sides: list[_Side]) -> list[list[Lengths]]:
    """Returns the sequence lengths of the small batches, by side.

    The kept memory grows with sequences, tokens, padding and map cells; the lengths
    vary each of these independently.
    """
    fractions = []
    for side in sides:
        whole = min(_LONGEST, max(side.lengths))
        fractions.append([max(1, whole // parts) for parts in (1, 2, 4, 8)])
    w, h, q, e = fractions[0]
    own: list[Lengths] = [(q,), (w,), (h, h), (q,) * 4, (w, e), (h,) * 3]
    if len(sides) == 1:
        return [[lengths] for lengths in own]
    v, g, p, d = fractions[1]
    both: list[Lengths] = [(p,), (p,), (g, g), (p,) * 4, (p, p), (g,) * 3]
    more: list[tuple[Lengths, Lengths]] = [
        ((q,), (v,)),
        ((w,), (v,)),
        ((h, h), (v, d)),
        ((w, e), (d, v)),
        ((w, w), (v, d)),
    ]
    return [list(pair) for pair in (*zip(own, both, strict=True), *more)]


def _features(lengths: list[Lengths], padded: list[bool]) -> list[int]:
    """Returns the counts with which a batch's kept bytes grow."""
    sides = [np.asarray(side, np.int64) for side in lengths]
    count = len(sides[0])
    found = [1, count]
    for n, wide in zip(sides, padded, strict=True):
        found += [int(n.sum()), int((n * n).sum()), count * int(n.max()) * wide]
    if len(sides) == 2:
        found.append(int((sides[0] * sides[1]).sum()))
    return found


def _long_probes(sides: list[_Side]) -> list[list[Lengths]]:
    """Returns lengths of single sequences: a short one, then up to the longest."""
    longest, tried = max(max(side.lengths) for side in sides), [16, 64, 128]
    while tried[-1] < longest:
        tried.append(2 * tried[-1])
    return [[(min(n, max(side.lengths)),) for side in sides] for n in tried]


def _groups(whole: list[Lengths]) -> tuple[list[list[Lengths]], int]:
    """Returns lengths of ``groups``, and how many such sequences the batch equals.

    The number is an upper bound where lengths differ.
    """
    most = [max(1, min(_GROUP, max(side))) for side in whole]
    count = -(-(_GROUP**2) // max(most) ** 2)
    sequences = max(
        -(-sum(side) * max(side) // n**2) for side, n in zip(whole, most, strict=True)
    )
    if len(whole[0]) < 8 * count:
        return [], sequences
    return [[(n,) * times for n in most] for times in (count, 2 * count)], sequences


def _sums(lengths: list[Lengths]) -> list[int]:
    """Returns the counts for the working memory: tokens, and map cells."""
    sides = [np.asarray(side, np.int64) for side in lengths]
    tokens = sum(int(n.sum()) for n in sides)
    cells = sum(int((n * n).sum()) for n in sides)
    if len(sides) == 2:
        cells += int((sides[0] * sides[1]).sum())
    return [tokens, cells]


def _probe_of(sides: list[_Side], lengths: list[Lengths]) -> dict[str, np.ndarray]:
    """Returns the batch with other lengths; rows and columns repeat cyclically."""
    found: dict[str, np.ndarray] = {}
    for side, each in zip(sides, lengths, strict=True):
        found.update(_padded(side, each) if side.width else _packed(side, each))
    return found


def _padded(side: _Side, lengths: Lengths) -> dict[str, np.ndarray]:
    count, width = len(side.lengths), side.width
    rows, columns = np.arange(len(lengths)), np.arange(max(lengths))
    found = {}
    for name, array in side.inputs.items():
        array = array[rows % count]
        found[name] = array[:, columns % width] if name in side.cut else array
    inside = columns < np.asarray(lengths)[:, None]
    if side.ids == "values":
        found[side.ids] = np.nan_to_num(found[side.ids])
        found["lengths"] = np.asarray(lengths)
    else:
        found[f"{side.prefix}attention_mask"] = inside.astype(np.int64)
    return found


def _packed(side: _Side, lengths: Lengths) -> dict[str, np.ndarray]:
    tokens, count = len(side.inputs[side.ids]), len(side.lengths)
    rows = np.arange(sum(lengths)) % tokens
    found = {}
    for name, array in side.inputs.items():
        whole = array.ndim > 0 and len(array) == tokens
        found[name] = array[rows if whole else np.arange(len(lengths)) % count]
    found[f"{side.prefix}sequence_offsets"] = np.cumsum([0, *lengths])
    return found

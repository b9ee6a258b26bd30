"""Statistics of attention heads: entropy, and divergence between adjacent layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from evolving_attention.device_names import host_array
from evolving_attention.errors import InputError, ShapeError

Array = np.ndarray[Any, Any]

_TOLERANCE = 1e-2  # of the sum of a row: bfloat16 keeps 8 bits of each probability


def attention_entropy(attentions: Iterable[Any], attention_mask: Any = None) -> Array:
    """Returns the entropy of each token's attention, for every head of every layer:

        H(P) = −Σⱼ Pⱼ ln Pⱼ

    It is 0 if the token attends to one key, and ln n if it attends to n keys equally.

    Args:
        attentions: probabilities, [B, heads, T, S] per layer, all of one shape, as in
            ``output.attentions``.
        attention_mask: [B, T], 1 for tokens and 0 for padding, whose rows are left out;
            for cross-attention, the target's mask. None: there is no padding.

    Returns:
        float64 [layers, heads, tokens], in nats; ``tokens`` counts the tokens of all B
        sentences. Join several batches with ``np.concatenate(found, axis=-1)``.

    Raises:
        ShapeError: a layer or the mask has another shape.
        InputError: there is no layer or no token, a layer was not returned, or a row is
            no probability distribution.

    Example:
        >>> maps = np.array([[[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]])
        >>> attention_entropy([maps], attention_mask=[[1, 1, 0]]).round(3).tolist()
        [[[0.693, 0.0]]]

    Source: RealFormer, Figures 4, 6 and 7. The paper does not name the unit; divide by
    ``np.log(2)`` for bits.
    """
    rows = _rows("attention_entropy", attentions, attention_mask)
    return np.stack([_entropy(one) for one in rows])


def head_divergence(attentions: Iterable[Any], attention_mask: Any = None) -> Array:
    """Returns the Jensen-Shannon divergence of each head from itself a layer earlier:

        JSD(P, Q) = H(M) − (H(P) + H(Q)) / 2,   M = (P + Q) / 2

    P is a token's attention in a head, Q that of the same token in the head of equal
    number one layer below.

    Args:
        attentions: probabilities of two layers or more, [B, heads, T, S] each, all of
            one shape, as in ``output.attentions``.
        attention_mask: [B, T], as in :func:`attention_entropy`.

    Returns:
        float64 [layers - 1, heads, tokens], in bits, from 0 (equal) to 1 (no key in
        common).

    Raises:
        ShapeError, InputError: as :func:`attention_entropy`; or there is one layer.

    Example:
        >>> first, second = [[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]
        >>> head_divergence([np.array([[first]]), np.array([[second]])]).tolist()
        [[[1.0, 0.0]]]

    Source: RealFormer, Figures 5 and 8. The paper does not name the unit; its band
    above 0.75 exists in bits only, as the largest divergence is ln 2 = 0.69 nats.
    """
    rows = _rows("head_divergence", attentions, attention_mask)
    found: list[Array] = []
    before = None
    for p in rows:
        own = _entropy(p)
        if before is not None:
            q, earlier = before
            found.append(_entropy((p + q) / 2) - (own + earlier) / 2)
        before = p, own
    if not found:
        raise InputError(
            "head_divergence: attentions has one layer, expected two or more: the "
            "divergence compares adjacent layers"
        )
    bits = np.stack(found) / np.log(2)
    return np.asarray(np.clip(bits, 0.0, 1.0))  # rounding may leave [0, 1]


def _entropy(rows: Array) -> Array:
    """Returns the entropies of the rows; 0 ln 0 is 0."""
    entropies: Array = 0.0 - (rows * np.log(np.where(rows > 0, rows, 1.0))).sum(axis=-1)
    return entropies


def _rows(name: str, attentions: Iterable[Any], mask: Any) -> Iterator[Array]:
    """Yields the valid rows of each layer, normalised: float64 [heads, tokens, S].

    One layer is converted at a time: float64 maps of all layers may not fit in memory.
    """
    layers = [] if attentions is None else list(attentions)
    if not layers:
        raise InputError(
            f"{name}: there are no attention maps; call the model with "
            "output_attentions=True and pass .attentions"
        )
    shape: tuple[int, ...] = ()
    valid: Any = None
    for layer, given in enumerate(layers):
        if given is None:
            raise InputError(
                f"{name}: attentions[{layer}] is None, expected a map: pass only "
                "layers that the model returned, or call it with output_attentions=True"
            )
        maps = np.asarray(host_array(given), dtype=np.float64)
        if maps.ndim != 4 or 0 in maps.shape:
            raise ShapeError(
                f"{name}: attentions[{layer}] has shape {maps.shape}, expected [B, "
                "heads, T, S], none of them 0; maps[:, None] adds B to [layers, heads, "
                "T, S]"
            )
        if valid is None:
            shape, valid = maps.shape, _valid(name, mask, maps.shape)
        if maps.shape != shape:
            raise ShapeError(
                f"{name}: attentions[{layer}] has shape {maps.shape}, but attentions[0]"
                f" has {shape}; pass layers of one shape at a time"
            )
        yield _normalised(f"{name}: attentions[{layer}]", maps, valid)


def _valid(name: str, mask: Any, shape: tuple[int, ...]) -> Array:
    """Returns bool [B, T], True for the rows of tokens."""
    expected = shape[0], shape[2]
    found = np.ones(expected) if mask is None else np.asarray(host_array(mask))
    if found.shape != expected:
        raise ShapeError(
            f"{name}: attention_mask has shape {found.shape}, expected {expected}, one "
            "value for each row of the maps"
        )
    if not np.isin(found, (0, 1)).all() or not found.any():
        raise InputError(
            f"{name}: attention_mask has the values {np.unique(found)[:4].tolist()}, "
            "expected 1 for tokens and 0 for padding, and a token at least"
        )
    return found.astype(bool)


def _normalised(where: str, maps: Array, valid: Array) -> Array:
    """Returns the valid rows divided by their sums, which rounding moved away from 1.

    Raises:
        InputError: a row is no distribution.
    """
    rows = np.moveaxis(maps, 1, 0)[:, valid]
    sums = rows.sum(axis=-1)
    good = (np.abs(sums - 1) <= _TOLERANCE) & (rows.min(axis=-1) >= 0)
    if not good.all():
        head, token = np.argwhere(~good)[0]
        sentence, row = np.argwhere(valid)[token]
        raise InputError(
            f"{where}[{sentence}, {head}, {row}] sums to {sums[head, token]:.3g}, its "
            f"smallest value is {rows[head, token].min():.3g}, expected probabilities "
            "that sum to 1; pass attention_mask if the row is padding, and "
            "output.attentions, not the logits"
        )
    return np.asarray(rows / sums[..., None])

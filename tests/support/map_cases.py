"""The table of operations on packed attention maps, with NumPy oracles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from reference.evolving import conv_map, masked_softmax

from support.cases import Case
from support.op_cases import ops

# a, b, p, s, w of kernels/evolve.h; None stands for a call without previous map.
EVOLVING = (0.3, 0.7, 0.3 * 0.6, 0.7 * 0.6, 0.4)
CLOSED_FORMS = {
    "evolving": EVOLVING,
    "no_convolution": (0.0, 0.0, 0.3, 0.7, 0.0),
    "no_skip": (0.0, 1.0, 0.0, 0.6, 0.4),
    "residual": (0.0, 0.0, 1.0, 1.0, 0.0),
    "predictive": (1.0, 0.0, 0.0, 0.9, 0.1),
}


@dataclass(frozen=True)
class Lengths:
    """Sequences of given lengths between which attention maps lie."""

    heads: int
    queries: tuple[int, ...]
    keys: tuple[int, ...] | None = None
    wide: bool = False

    def __str__(self) -> str:
        if len(self.queries) > 20:
            return f"h{self.heads}_{len(self.queries)}_sequences"
        text = f"h{self.heads}_" + "_".join(map(str, self.queries))
        return text + (
            "" if self.keys is None else "_by_" + "_".join(map(str, self.n_k))
        )

    @property
    def n_k(self) -> tuple[int, ...]:
        return self.queries if self.keys is None else self.keys

    @property
    def elements(self) -> int:
        return self.heads * sum(
            q * k for q, k in zip(self.queries, self.n_k, strict=True)
        )

    @property
    def longest(self) -> int:
        return max((1, *self.queries, *self.n_k))

    @cached_property
    def packing(self):
        from evolving_attention import _core

        offsets = [np.cumsum([0, *n]).tolist() for n in (self.queries, self.n_k)]
        return _core.Packing(self.heads, *offsets)

    def split_maps(self, flat: np.ndarray) -> list[np.ndarray]:
        """The [heads, n_q, n_k] maps of each sequence."""
        maps, at = [], 0
        for q, k in zip(self.queries, self.n_k, strict=True):
            size = self.heads * q * k
            maps.append(flat[at : at + size].reshape(self.heads, q, k))
            at += size
        return maps

    def split_tokens(self, x: np.ndarray, lengths: tuple[int, ...]) -> list[np.ndarray]:
        """Rows [heads, n, d] of each sequence."""
        parts = np.split(x, np.cumsum(lengths)[:-1]) if lengths else []
        d = x.shape[1] // self.heads
        return [p.reshape(len(p), self.heads, d).swapaxes(0, 1) for p in parts]


def as_mask(mask: np.ndarray | None):
    """The mask as a uint8 tensor, or None."""
    from evolving_attention import _core

    return None if mask is None else _core.Tensor(mask, dtype="uint8")


def join_maps(maps: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([m.ravel() for m in maps]) if maps else np.zeros(0)


def join_tokens(rows: list[np.ndarray], width: int) -> np.ndarray:
    parts = [r.swapaxes(0, 1).reshape(r.shape[1], width) for r in rows]
    return np.concatenate(parts) if parts else np.zeros((0, width))


# Equal, unequal and zero lengths, single tokens, no sequence at all, cross attention.
LENGTHS = [
    Lengths(1, (1,)),
    Lengths(2, (3,)),
    Lengths(2, (3, 1, 5)),
    Lengths(3, (4, 0, 2)),
    Lengths(2, ()),
    Lengths(2, (0,)),
    Lengths(1, (7, 7)),
    Lengths(2, (3, 1), (2, 6)),
    Lengths(2, (3, 0, 2), (0, 4, 1)),
    Lengths(5, (2, 3)),
    Lengths(12, (2,)),
]
WIDE_LENGTHS = [
    Lengths(4, (17, 69, 1, 33), wide=True),
    Lengths(12, (69, 64), wide=True),
    Lengths(3, (17, 0, 69), (69, 5, 33), wide=True),
    Lengths(12, (11, 9, 7, 14, 8, 23, 3, 12), wide=True),
]
# More sequences than one launch of a CUDA kernel describes.
MANY = Lengths(2, (2, 1, 0, 3, 5) * 60, wide=True)
# More heads than a tensor-core tile has rows.
TALL = Lengths(20, (9, 4), wide=True)
# A size of kernel for which no CUDA block has the shared memory.
FAR = (Lengths(2, (19, 0, 6), wide=True), 15)


def sizes_of(n: Lengths, kind: str) -> tuple[int, ...]:
    """The sizes of the convolution that are tried with a closed form."""
    if n is FAR[0]:
        return (FAR[1],)
    return (1, 3, 5) if kind == "evolving" and n is not MANY else (3,)


def attention() -> Iterator[Case]:
    for n in [*LENGTHS, *WIDE_LENGTHS, MANY]:
        widths = (17,) if n is MANY else (17, 32, 64, 80)
        for d in widths if n.wide else (1, 3, 32):
            width = n.heads * d
            q_shape, k_shape = (sum(n.queries), width), (sum(n.n_k), width)

            def scores(q, k, n=n):
                pairs = zip(
                    n.split_tokens(q, n.queries), n.split_tokens(k, n.n_k), strict=True
                )
                return join_maps([0.5 * a @ b.swapaxes(1, 2) for a, b in pairs])

            def context(p, v, n=n, width=width):
                pairs = zip(n.split_maps(p), n.split_tokens(v, n.n_k), strict=True)
                return join_tokens([a @ b for a, b in pairs], width)

            yield Case(
                "attention_scores",
                f"{n}_d{d}",
                (q_shape, k_shape),
                lambda q, k, n=n: ops().attention_scores(q, k, n.packing, 0.5),
                scores,
                wide=n.wide,
                terms=max(d, n.longest),
            )
            yield Case(
                "attention_context",
                f"{n}_d{d}",
                ((n.elements,), k_shape),
                lambda p, v, n=n: ops().attention_context(p, v, n.packing),
                context,
                wide=n.wide,
                terms=max(d, n.longest),
            )


def softmax() -> Iterator[Case]:
    for n in [*LENGTHS, *WIDE_LENGTHS, MANY]:
        rng = np.random.default_rng(n.elements)
        masks = {"": None, "_masked": (rng.random(sum(n.n_k)) < 0.6).astype(np.uint8)}
        for name, mask in masks.items():

            def oracle(x, n=n, mask=mask):
                keys = np.ones(sum(n.n_k)) if mask is None else mask
                parts = np.split(keys, np.cumsum(n.n_k)[:-1]) if n.n_k else []
                maps = zip(n.split_maps(x), parts, strict=True)
                return join_maps(
                    [masked_softmax(0.7 * m, k > 0) if m.size else m for m, k in maps]
                )

            yield Case(
                "map_softmax",
                f"{n}{name}",
                ((n.elements,),),
                lambda x, n=n, mask=mask: ops().map_softmax(
                    x, n.packing, 0.7, as_mask(mask)
                ),
                oracle,
                wide=n.wide,
                terms=n.longest,
            )


def convolution(n: Lengths, size: int) -> Case:
    def oracle(x, w, b):
        return join_maps([conv_map(m, w, b) for m in n.split_maps(x)])

    return Case(
        "map_conv",
        f"{n}_k{size}",
        ((n.elements,), (n.heads, n.heads, size, size), (n.heads,)),
        lambda x, w, b: ops().map_conv(x, w, b, n.packing),
        None if n.wide else oracle,  # its loops are Python's
        wide=n.wide,
        terms=max(n.elements // n.heads, n.heads * size * size),
        cancels=1.0,
    )


def convolutions() -> Iterator[Case]:
    for n in [*LENGTHS, *WIDE_LENGTHS, MANY, TALL]:
        for size in (3,) if n is MANY else (1, 3, 5):
            yield convolution(n, size)
    yield convolution(*FAR)


def evolve_oracle(n: Lengths, c: tuple[float, ...]):
    a, b, p, s, w = c

    def oracle(previous, scores, weight=None, bias=None):
        out = []
        for m, x in zip(n.split_maps(previous), n.split_maps(scores), strict=True):
            level = p * m + s * x
            if w:
                level = level + w * np.maximum(
                    conv_map(a * m + b * x, weight, bias), 0.0
                )
            out.append(level)
        return join_maps(out)

    return oracle


def evolving() -> Iterator[Case]:
    for op in ("evolve", "evolve_composite"):
        for n in [*LENGTHS, *WIDE_LENGTHS, MANY, TALL, FAR[0]]:
            for kind, c in CLOSED_FORMS.items():
                if n.wide and kind in ("no_convolution", "residual"):
                    continue
                for size in sizes_of(n, kind):
                    parameters = ((n.heads, n.heads, size, size), (n.heads,))
                    # Without a convolution there are no parameters; without a and p
                    # the previous map is left out.
                    first = () if c[0] == c[2] == 0 else ((n.elements,),)
                    shapes = (*first, (n.elements,), *(parameters if c[4] else ()))

                    def call(*args, op=op, c=c, n=n, first=first):
                        args = args if first else (None, *args)
                        args = args if c[4] else (*args, None, None)
                        return getattr(ops(), op)(*args, c, n.packing)

                    def oracle(*args, c=c, n=n, first=first):
                        args = args if first else (np.zeros(n.elements), *args)
                        return evolve_oracle(n, c)(*args)

                    yield Case(
                        op,
                        f"{kind}_{n}_k{size}",
                        shapes,
                        call,
                        None if n.wide else oracle,
                        wide=n.wide,
                        terms=max(n.elements // n.heads, n.heads * size * size),
                        cancels=1.0,
                    )


def map_cases() -> list[Case]:
    """Every case of an op on packed maps."""
    makers = (attention, softmax, convolutions, evolving)
    return [case for maker in makers for case in maker()]

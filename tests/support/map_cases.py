"""The table of operations on packed attention maps, with NumPy oracles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from reference.evolving import conv_map, masked_softmax

from support.cases import Case
from support.op_cases import ops

# a, b, p, s, w of kernels/evolve.h; None: a call without a previous map.
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
    """Sequences of given lengths with attention maps between them.

    ``causal`` and ``masked`` (by a key mask) determine which of their cells exist.
    """

    heads: int
    queries: tuple[int, ...]
    keys: tuple[int, ...] | None = None
    wide: bool = False
    causal: bool = False
    masked: bool = False

    def __str__(self) -> str:
        text = f"h{self.heads}_" + "_".join(map(str, self.queries))
        if len(self.queries) > 20:
            text = f"h{self.heads}_{len(self.queries)}_sequences"
        if self.keys is not None:
            text += "_by_" + "_".join(map(str, self.n_k))
        return text + "_causal" * self.causal + "_masked" * self.masked

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
        return self._packing("cpu")

    def on(self, x):
        """Returns the packing for maps used with ``x``; its mask is on x's device."""
        return self.packing if x.device == "cpu" else self._packing(x.device)

    def _packing(self, device: str):
        from evolving_attention import _core

        offsets = [np.cumsum([0, *n]).tolist() for n in (self.queries, self.n_k)]
        mask = as_mask(self.mask)
        return _core.Packing(
            self.heads,
            *offsets,
            causal=self.causal,
            key_mask=None if mask is None else mask.to(device),
        )

    @cached_property
    def mask(self) -> np.ndarray | None:
        """Returns the mask of all keys; the very first key is masked out."""
        if not self.masked:
            return None
        seen = np.random.default_rng(self.elements).random(sum(self.n_k)) < 0.6
        seen[:1] = False
        return seen.astype(np.uint8)

    @cached_property
    def existing(self) -> list[np.ndarray]:
        """Returns which cells exist, [n_q, n_k] per sequence."""
        found, first = [], 0
        for q, k in zip(self.queries, self.n_k, strict=True):
            seen = np.tri(q, k, k - q if self.causal else k, dtype=bool)
            if self.mask is not None:
                seen = seen & (self.mask[first : first + k] > 0)
            found.append(seen)
            first += k
        return found

    @property
    def cells(self) -> np.ndarray:
        """Returns 1 for each existing cell of the flat maps, else 0."""
        heads = [np.broadcast_to(e, (self.heads, *e.shape)) for e in self.existing]
        return join_maps(heads).astype(np.float64)

    def kept_maps(self, flat: np.ndarray) -> list[np.ndarray]:
        """Returns the maps of each sequence, 0 where no cell exists."""
        return self.split_maps(flat * self.cells)

    def split_maps(self, flat: np.ndarray) -> list[np.ndarray]:
        """Returns the [heads, n_q, n_k] maps of each sequence."""
        maps, at = [], 0
        for q, k in zip(self.queries, self.n_k, strict=True):
            size = self.heads * q * k
            maps.append(flat[at : at + size].reshape(self.heads, q, k))
            at += size
        return maps

    def split_tokens(self, x: np.ndarray, lengths: tuple[int, ...]) -> list[np.ndarray]:
        """Returns the rows [heads, n, d] of each sequence."""
        parts = np.split(x, np.cumsum(lengths)[:-1]) if lengths else []
        d = x.shape[1] // self.heads
        return [p.reshape(len(p), self.heads, d).swapaxes(0, 1) for p in parts]


def as_mask(mask: np.ndarray | None):
    """Returns the mask as a uint8 tensor, or None."""
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
# Some cells do not exist: more or fewer queries than keys, rows without any cell.
SPARSE = [
    Lengths(1, (1,), causal=True),
    Lengths(2, (3, 1, 5), causal=True),
    Lengths(2, (3, 1), (2, 6), causal=True),
    Lengths(2, (3, 0, 2), (0, 4, 1), causal=True),
    Lengths(2, (3, 1, 5), masked=True),
    Lengths(3, (4, 2), (3, 5), causal=True, masked=True),
]
WIDE_SPARSE = [
    Lengths(4, (17, 69, 1, 33), wide=True, causal=True),
    Lengths(3, (17, 0, 69), (69, 5, 33), wide=True, causal=True, masked=True),
    Lengths(5, (33, 40), wide=True, masked=True),
]
WIDE_LENGTHS = [
    Lengths(4, (17, 69, 1, 33), wide=True),
    Lengths(12, (69, 64), wide=True),
    Lengths(3, (17, 0, 69), (69, 5, 33), wide=True),
    Lengths(12, (11, 9, 7, 14, 8, 23, 3, 12), wide=True),
]
# More sequences than one launch of a CUDA kernel takes.
MANY = Lengths(2, (2, 1, 0, 3, 5) * 60, wide=True)
# More heads than a tensor-core tile has rows.
TALL = Lengths(20, (9, 4), wide=True)
# Shifts of a convolution's result: the decoder's, and larger ones.
SHIFTS = ((1, 1), (3, 0), (0, 2), (2, 40))
# A kernel size for which no CUDA block has enough shared memory.
FAR = (Lengths(2, (19, 0, 6), wide=True), 15)


SHIFTED = [SPARSE[1], LENGTHS[2], LENGTHS[7], *WIDE_SPARSE[:2], FAR[0]]


def shifts_of(n: Lengths) -> tuple[tuple[int, int], ...]:
    return (SHIFTS[0], SHIFTS[-1]) if n.wide else SHIFTS


def name_of(shift: tuple[int, int]) -> str:
    return f"_down{shift[0]}_right{shift[1]}" if any(shift) else ""


def sizes_of(n: Lengths, kind: str) -> tuple[int, ...]:
    """Returns the convolution sizes to test with a closed form."""
    if n is FAR[0]:
        return (FAR[1],)
    if n in WIDE_SPARSE:
        return (3,)
    return (1, 3, 5) if kind == "evolving" and n is not MANY else (3,)


def attention() -> Iterator[Case]:
    for n in [*LENGTHS, *SPARSE, *WIDE_LENGTHS, *WIDE_SPARSE, MANY]:
        widths = (17,) if n is MANY else (17, 32, 64, 80)
        for d in widths if n.wide else (1, 3, 32):
            width = n.heads * d
            q_shape, k_shape = (sum(n.queries), width), (sum(n.n_k), width)

            def scores(q, k, n=n):
                pairs = zip(
                    n.split_tokens(q, n.queries), n.split_tokens(k, n.n_k), strict=True
                )
                maps = join_maps([0.5 * a @ b.swapaxes(1, 2) for a, b in pairs])
                return maps * n.cells

            def context(p, v, n=n, width=width):
                pairs = zip(n.kept_maps(p), n.split_tokens(v, n.n_k), strict=True)
                return join_tokens([a @ b for a, b in pairs], width)

            yield Case(
                "attention_scores",
                f"{n}_d{d}",
                (q_shape, k_shape),
                lambda q, k, n=n: ops().attention_scores(q, k, n.on(q), 0.5),
                scores,
                wide=n.wide,
                terms=max(d, n.longest),
            )
            yield Case(
                "attention_context",
                f"{n}_d{d}",
                ((n.elements,), k_shape),
                lambda p, v, n=n: ops().attention_context(p, v, n.on(p)),
                context,
                wide=n.wide,
                terms=max(d, n.longest),
            )


def softmax() -> Iterator[Case]:
    for n in [*LENGTHS, *SPARSE, *WIDE_LENGTHS, *WIDE_SPARSE, MANY]:
        for name in ("", "_by_argument") if not (n.causal or n.masked) else ("",):
            mask = dataclasses.replace(n, masked=True).mask if name else None

            def oracle(x, n=n, name=name):
                seen = dataclasses.replace(n, masked=n.masked or bool(name)).existing
                maps = zip(n.split_maps(x), seen, strict=True)
                return join_maps(
                    [masked_softmax(0.7 * m, e) if m.size else m for m, e in maps]
                )

            yield Case(
                "map_softmax",
                f"{n}{name}",
                ((n.elements,),),
                lambda x, n=n, mask=mask: ops().map_softmax(
                    x, n.on(x), 0.7, as_mask(mask)
                ),
                oracle,
                wide=n.wide,
                terms=n.longest,
            )


def moved_conv(m, w, b, shift: tuple[int, int]) -> np.ndarray:
    """Returns the convolution of one sequence's maps, shifted down and right."""
    down, right = shift
    out = np.zeros_like(m)
    z = conv_map(m, w, b)
    out[:, down:, right:] = z[
        :, : max(0, z.shape[1] - down), : max(0, z.shape[2] - right)
    ]
    return out


def convolution(n: Lengths, size: int, shift: tuple[int, int] = (0, 0)) -> Case:
    def oracle(x, w, b):
        return n.cells * join_maps([moved_conv(m, w, b, shift) for m in n.kept_maps(x)])

    return Case(
        "map_conv",
        f"{n}_k{size}" + name_of(shift),
        ((n.elements,), (n.heads, n.heads, size, size), (n.heads,)),
        lambda x, w, b: ops().map_conv(x, w, b, n.on(x), shift),
        None if n.wide else oracle,  # its Python loops are slow
        wide=n.wide,
        terms=max(n.elements // n.heads, n.heads * size * size),
        cancels=1.0,
    )


def convolutions() -> Iterator[Case]:
    for n in [*LENGTHS, *SPARSE, *WIDE_LENGTHS, *WIDE_SPARSE, MANY, TALL]:
        for size in (3,) if n is MANY or n in WIDE_SPARSE else (1, 3, 5):
            yield convolution(n, size)
    for n in SHIFTED:
        for shift in shifts_of(n):
            yield convolution(n, FAR[1] if n is FAR[0] else 3, shift)
    yield convolution(*FAR)


def evolve_oracle(n: Lengths, c: tuple[float, ...], shift: tuple[int, int]):
    a, b, p, s, w = c

    def oracle(previous, scores, weight=None, bias=None):
        out = []
        for m, x in zip(n.kept_maps(previous), n.kept_maps(scores), strict=True):
            level = p * m + s * x
            if w:
                grown = moved_conv(a * m + b * x, weight, bias, shift)
                level = level + w * np.maximum(grown, 0.0)
            out.append(level)
        return n.cells * join_maps(out)

    return oracle


def evolving() -> Iterator[Case]:
    for op in ("evolve", "evolve_composite"):
        for n in [*LENGTHS, *SPARSE, *WIDE_LENGTHS, *WIDE_SPARSE, MANY, TALL, FAR[0]]:
            for kind, c in CLOSED_FORMS.items():
                if n.wide and kind in ("no_convolution", "residual"):
                    continue
                if n in WIDE_SPARSE and op == "evolve_composite":
                    continue  # its parts have these cases
                for size in sizes_of(n, kind):
                    yield evolving_step(op, n, kind, c, size)
        for n in SHIFTED:
            if n.wide and op == "evolve_composite":
                continue
            for shift in shifts_of(n):
                for kind in ("evolving", "no_skip"):
                    size = FAR[1] if n is FAR[0] else 3
                    yield evolving_step(op, n, kind, CLOSED_FORMS[kind], size, shift)


def evolving_step(op, n: Lengths, kind: str, c, size: int, shift=(0, 0)) -> Case:
    parameters = ((n.heads, n.heads, size, size), (n.heads,))
    # Without a convolution there are no parameters; with a = p = 0 there is no previous
    # map.
    first = () if c[0] == c[2] == 0 else ((n.elements,),)
    shapes = (*first, (n.elements,), *(parameters if c[4] else ()))
    # Cell-by-cell sums leave absent cells at 0 if the inputs are 0 there.
    by_cell = (n.causal or n.masked) and op == "evolve_composite"

    def call(*args):
        from evolving_attention import _core

        args = list(args if first else (None, *args))
        args += [] if c[4] else [None, None]
        if by_cell:
            keep = _core.Tensor(n.cells, dtype=args[1].dtype, device=args[1].device)
            args[:2] = [m if m is None else m * keep for m in args[:2]]
        return getattr(ops(), op)(*args, c, n.on(args[1]), shift)

    def oracle(*args):
        args = args if first else (np.zeros(n.elements), *args)
        return evolve_oracle(n, c, shift)(*args)

    return Case(
        op,
        f"{kind}_{n}_k{size}" + name_of(shift),
        shapes,
        call,
        None if n.wide else oracle,
        wide=n.wide,
        terms=max(n.elements // n.heads, n.heads * size * size),
        cancels=1.0,
    )


def map_cases() -> list[Case]:
    """Returns every case of an op on packed maps."""
    makers = (attention, softmax, convolutions, evolving)
    return [case for maker in makers for case in maker()]

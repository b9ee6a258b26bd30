"""The pool of offsets that recordings take memory from, against a list of intervals."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolving_attention import _core

CHECKS = Path(_core.__file__).parent / "ea_cuda_host_checks.so"

pytestmark = pytest.mark.skipif(
    not CHECKS.exists(),
    reason="no host emulation in this build (tools/run_cuda_host.sh makes one)",
)

GRANULE, UNLIMITED = 256, 2**64 - 1
# A number of bytes to take, or which of those that are there to give back.
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 9 * GRANULE)),
        st.tuples(st.just("give"), st.integers(0, 1000)),
    ),
    max_size=60,
)


class Pool:
    def __init__(self, library: ctypes.CDLL, limit: int):
        self.library = library
        library.ea_pool_make.restype = ctypes.c_void_p
        library.ea_pool_make.argtypes = [ctypes.c_ulonglong]
        library.ea_pool_take.restype = ctypes.c_longlong
        for name in ("take", "give"):
            call = getattr(library, f"ea_pool_{name}")
            call.argtypes = [ctypes.c_void_p, ctypes.c_ulonglong]
        self.pool = ctypes.c_void_p(library.ea_pool_make(limit))

    def take(self, size: int) -> int | None:
        offset = self.library.ea_pool_take(self.pool, size)
        return None if offset < 0 else offset

    def give(self, offset: int) -> None:
        self.library.ea_pool_give(self.pool, offset)

    def state(self) -> tuple[int, int, int]:
        """The end of all ever taken, places taken now, and their bytes."""
        found = (ctypes.c_longlong * 3)()
        self.library.ea_pool_state(self.pool, found)
        return found[0], found[1], found[2]


@contextmanager
def pool(limit: int = UNLIMITED) -> Iterator[Pool]:
    made = Pool(ctypes.CDLL(str(CHECKS)), limit)
    yield made
    made.library.ea_pool_free(made.pool)


class Intervals:
    """What the pool promises, by looking through all that is taken."""

    def __init__(self) -> None:
        self.taken: dict[int, int] = {}
        self.most = 0

    def place(self, size: int) -> int:
        """The smallest hole that fits, the first of equal ones; else the end."""
        size = max(1, -(-size // GRANULE)) * GRANULE
        holes, end = [], 0
        for begin in sorted(self.taken):
            if begin - end >= size:
                holes.append((begin - end, end))
            end = begin + self.taken[begin]
        offset = min(holes)[1] if holes else end
        self.taken[offset] = size
        self.most = max(self.most, offset + size)
        return offset


def play(calls: list[tuple[str, int]], limit: int = UNLIMITED) -> list[int | None]:
    """The offsets that the calls got; each is compared with the intervals."""
    model, got = Intervals(), []
    with pool(limit) as made:
        for call, number in calls:
            if call == "take":
                offset = made.take(number)
                got.append(offset)
                if offset is None:
                    break
                assert offset == model.place(number)
            elif model.taken:
                offset = sorted(model.taken)[number % len(model.taken)]
                made.give(offset)
                del model.taken[offset]
            assert made.state() == (
                model.most,
                len(model.taken),
                sum(model.taken.values()),
            )
        for offset in list(model.taken):
            made.give(offset)
        assert made.state()[1:] == (0, 0)
        assert made.take(1) == 0  # all holes are one again
    return got


@settings(max_examples=300, deadline=None)
@given(CALLS)
def test_places_are_those_of_the_intervals_and_most_is_enough(
    calls: list[tuple[str, int]],
):
    got = play(calls)
    sizes = [max(1, -(-n // GRANULE)) * GRANULE for call, n in calls if call == "take"]
    most = max((o + n for o, n in zip(got, sizes, strict=True)), default=0)
    assert play(calls, most or GRANULE) == got
    if most > GRANULE:
        assert None in play(calls, most - 1)


def test_the_smallest_hole_serves_and_neighbours_join():
    with pool(10 * GRANULE) as made:
        offsets = [made.take(n * GRANULE) for n in (3, 1, 2, 1, 3)]
        assert offsets == [0, 768, 1024, 1536, 1792]
        assert made.take(1) is None
        made.give(0)
        made.give(1024)
        assert made.take(2 * GRANULE - 1) == 1024
        made.give(1024)
        made.give(768)  # between two holes
        assert made.take(6 * GRANULE) == 0
        made.give(0)
        made.give(1792)
        assert made.take(5 * GRANULE) == 0
        assert made.take(3 * GRANULE) == 1792
        assert made.state() == (10 * GRANULE, 3, 9 * GRANULE)

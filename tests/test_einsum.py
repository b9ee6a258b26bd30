"""einsum: NumPy's results, gradients, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_gradient import check_gradient

import evolving_attention as ea
from evolving_attention import functional as F

RNG = np.random.default_rng(5)

SUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bhqk,bkhd->bqhd", (2, 3, 4, 6), (2, 6, 3, 5)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ijk->ki", (3, 4, 5)),
    ("ii->", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij,j->i", (3, 3, 4), (4,)),
    ("ij,kl->il", (2, 3), (4, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("h,bhqk->bhqk", (3,), (2, 3, 4, 4)),
    (" b i , b i -> b ", (2, 3), (2, 3)),
]


@pytest.mark.parametrize("case", SUMS, ids=lambda case: case[0])
def test_einsum_is_numpys(case):
    subscripts, *shapes = case
    arrays = [RNG.normal(size=shape) for shape in shapes]
    found = F.einsum(subscripts, *arrays)
    exact = np.einsum(subscripts.replace(" ", ""), *arrays)
    assert found.shape == exact.shape
    assert np.allclose(found, exact)
    check_gradient(lambda *leaves: F.einsum(subscripts, *leaves), *arrays, step=1e-4)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "error", "message"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], ea.ShapeError, "j is 3 and 4"),
        ("ij->ij", [(2,)], ea.ShapeError, "names 2 axes"),
        ("ij->ik", [(2, 2)], ea.InputError, "'k' of the result"),
        ("ij->ii", [(2, 2)], ea.InputError, "'i' of the result twice"),
        ("...j->j", [(2, 2)], ea.InputError, "letters"),
        ("ij,j->i", [(2, 2)], ea.InputError, "2 operands, got 1"),
    ],
)
def test_wrong_einsum(subscripts, shapes, error, message):
    with pytest.raises(error, match=r"\[einsum\].*" + message):
        F.einsum(subscripts, *map(np.ones, shapes))


@pytest.mark.parametrize("first", [5, None, np.ones((2, 2))])
def test_the_subscripts_come_first(first):
    with pytest.raises(
        ea.InputError, match=r"\[einsum\] the first argument is a \w+, "
    ):
        F.einsum(first, "ij->ji")

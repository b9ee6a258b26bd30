"""Einstein summation, built from transposes and matrix products."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TypeAlias

import numpy as np

from evolving_attention import _core
from evolving_attention._core import Tensor
from evolving_attention.array_types import TensorLike
from evolving_attention.errors import InputError, ShapeError
from evolving_attention.functional.naming import names_itself

#: A tensor and the letters of its axes.
_Term: TypeAlias = tuple[str, Tensor]


@names_itself
def einsum(subscripts: str, *operands: TensorLike) -> Tensor:
    """Multiplies tensors and sums over the letters that are not in the result.

        y[result] = sum over the other letters of x1[letters] x2[letters] ...

    Operands are multiplied two at a time from the left, each pair as one batched matrix
    product. A letter that occurs twice in an operand selects its diagonal.

    Args:
        subscripts: a letter for each axis, as in "bhqd,bhkd->bhqk"; without "->" the
            result has the letters that occur once, in alphabetical order.
        *operands: tensors of one floating type, one for each group of letters.

    Returns:
        Tensor with an axis for each letter of the result.

    Raises:
        InputError: the subscripts are invalid, or do not match the operands.
        ShapeError: an operand has another number of axes, or a letter two sizes.
        DTypeError: types differ, or are not floating types.

    Example:
        >>> from evolving_attention import functional as F
        >>> F.einsum("ij,jk->ik", [[1.0, 2.0]], [[3.0], [4.0]]).tolist()
        [[11.0]]
        >>> F.einsum("ij->j", [[1.0, 2.0], [3.0, 4.0]]).tolist()
        [4.0, 6.0]
    """
    groups, result = _parsed(subscripts)
    if len(groups) != len(operands):
        raise InputError(
            f"[einsum] {subscripts!r} names {len(groups)} operands, got {len(operands)}"
        )
    terms = [
        (letters, _core.operand(x)) for letters, x in zip(groups, operands, strict=True)
    ]
    _check_sizes(terms)
    terms = [_diagonal(term) for term in terms]
    done, *others = terms
    for place, other in enumerate(others):
        later = {letter for letters, _ in others[place + 1 :] for letter in letters}
        done = _product(done, other, later | set(result))
    return _arranged(_summed(done, result), result)


def _parsed(subscripts: str) -> tuple[list[str], str]:
    """Returns the letters of each operand and of the result."""
    if not isinstance(subscripts, str):
        raise InputError(
            f"[einsum] the first argument is a {type(subscripts).__name__}, expected "
            "the subscripts, then the operands: einsum('ij,jk->ik', x, y)"
        )
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    groups = left.split(",")
    for letters in (*groups, result):
        if letters and not (letters.isascii() and letters.isalpha()):
            raise InputError(
                f"[einsum] {letters!r} in {subscripts!r}: expected only letters, one "
                "for each axis"
            )
    if not arrow:
        result = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    for letter in result:
        if letter not in left:
            raise InputError(
                f"[einsum] {letter!r} of the result is in no operand of {subscripts!r}"
            )
        if result.count(letter) > 1:
            raise InputError(
                f"[einsum] {subscripts!r} has {letter!r} of the result twice, expected "
                "each letter once"
            )
    return groups, result


def _check_sizes(terms: list[_Term]) -> None:
    sizes: dict[str, int] = {}
    for letters, x in terms:
        if x.ndim != len(letters):
            raise ShapeError(
                f"[einsum] {letters!r} names {len(letters)} axes, the operand has "
                f"shape {x.shape}"
            )
        for letter, size in zip(letters, x.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(
                    f"[einsum] {letter} is {sizes[letter]} and {size}; expected one "
                    "size for each letter"
                )


def _diagonal(term: _Term) -> _Term:
    """Returns the operand with each of its letters once."""
    letters, x = term
    for letter in letters:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            before = [slice(None)] * first
            between = [slice(None)] * (second - first - 1)
            steps = np.arange(x.shape[first])
            # NumPy puts the axis of two index arrays first, unless they are adjacent.
            key = (*before, steps, *between, steps)
            x = x[key]
            rest = letters[:first] + letters[first + 1 : second] + letters[second + 1 :]
            place = 0 if between else first
            letters = rest[:place] + letter + rest[place:]
    return letters, x


def _summed(term: _Term, wanted: Collection[str]) -> _Term:
    """Sums over the axes that are no longer needed."""
    letters, x = term
    for letter in letters:
        if letter not in wanted:
            x = x.sum(letters.index(letter))
            letters = letters.replace(letter, "")
    return letters, x


def _arranged(term: _Term, order: str) -> Tensor:
    """Transposes the axes to another order."""
    letters, x = list(term[0]), term[1]
    for place, letter in enumerate(order):
        found = letters.index(letter)
        if found != place:
            x = x.transpose(place, found)
            letters[place], letters[found] = letters[found], letters[place]
    return x


def _product(a: _Term, b: _Term, wanted: set[str]) -> _Term:
    """Multiplies two operands in one matrix product, keeping the wanted letters."""
    a, b = _summed(a, wanted | set(b[0])), _summed(b, wanted | set(a[0]))
    common = [letter for letter in a[0] if letter in b[0]]
    batch = "".join(letter for letter in common if letter in wanted)
    inner = "".join(letter for letter in common if letter not in wanted)
    rows = "".join(letter for letter in a[0] if letter not in common)
    columns = "".join(letter for letter in b[0] if letter not in common)
    sizes = dict(zip(a[0] + b[0], a[1].shape + b[1].shape, strict=True))

    def count(letters: str) -> int:
        return math.prod(sizes[letter] for letter in letters)

    shape = (count(batch), count(rows), count(inner))
    left = _arranged(a, batch + rows + inner).reshape(shape)
    shape = (count(batch), count(inner), count(columns))
    right = _arranged(b, batch + inner + columns).reshape(shape)
    letters = batch + rows + columns
    return letters, (left @ right).reshape([sizes[letter] for letter in letters])

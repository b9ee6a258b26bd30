"""Fused attention equals the ops it replaces, and models use it where they can."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import (
    NO_DROPOUT,
    assert_same_bits,
    copy_parameters,
    draw,
    labels_for,
    run,
    tiny,
)
from support.cases import as_float64, round_to
from support.fused_cases import FORMS, inputs, split
from support.map_cases import Lengths
from support.processor import INFO, MULTIPLIES_BFLOAT16

import evolving_attention as ea
from evolving_attention import _core

PACKED = Lengths(3, (1, 2, 17, 128, 200))
SPARSE = Lengths(
    3, (1, 2, 17, 128, 200), (3, 1, 17, 150, 200), causal=True, masked=True
)
WIDTH = 16
TAKES_TILES = MULTIPLIES_BFLOAT16 and INFO["amx_bf16"]
# This processor's ways to multiply bfloat16.
WAYS = ["widened", *["pairs"] * MULTIPLIES_BFLOAT16, *["tiles"] * TAKES_TILES]
SCALE, SOFTMAX_SCALE = 0.25, 0.7


def multiply_by(way: str) -> None:
    ea.set_fast_path("bfloat16_pairs", way != "widened")
    ea.set_fast_path("bfloat16_tiles", way == "tiles")


def fused(q, k, v, previous, weight, bias, c, dropout, n=PACKED, **options):
    return _core.ops.fused_attention(
        q, k, v, previous, weight, bias, c, n.packing,
        SCALE, SOFTMAX_SCALE, dropout, **options,
    )  # fmt: skip


def composite(
    q, k, v, previous, weight, bias, c, dropout, n=PACKED, shift=(0, 0), score_bias=None
):
    ops, packing = _core.ops, n.packing
    scores = ops.attention_scores(q, k, packing, SCALE)
    if score_bias is not None:
        cells = _core.Tensor(n.cells, dtype=scores.dtype)
        scores = scores + score_bias * cells
    carry = ops.evolve(previous, scores, weight, bias, c, packing, shift)
    p = ops.dropout(ops.map_softmax(carry, packing, SOFTMAX_SCALE), dropout)
    return ops.attention_context(p, v, packing), carry


def results(
    form, arrays, c, dtype: str, dropout: float, biased: bool = False, **options
) -> list[np.ndarray]:
    """Returns context, carry and all inputs' gradients through both outputs.

    With ``biased``, the last input is the map that is added to the scores.
    """
    ops = _core.ops
    tensors = [
        _core.Tensor(round_to(a, dtype), dtype=dtype, requires_grad=True)
        for a in arrays
    ]
    q, k, v, *rest = tensors
    if biased:
        options["score_bias"] = rest.pop()
    _core.manual_seed(3)
    outputs = form(q, k, v, *split(c, tuple(rest)), c, dropout, **options)
    rng = np.random.default_rng(2)
    total = None
    for out in outputs:
        seed = round_to(rng.standard_normal(out.shape), dtype)
        part = ops.sum(out * _core.Tensor(seed, dtype=dtype))
        total = part if total is None else total + part
    total.backward()
    return [as_float64(x) for x in (*outputs, *(t.grad for t in tensors))]


@pytest.mark.parametrize(
    ("dtype", "way"), [("float32", "widened"), *[("bfloat16", way) for way in WAYS]]
)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (kind, size)
        for kind, c in FORMS.items()
        for size in (1, 3, 5)[: 3 if c[4] else 1]
    ],
)
def test_fused_equals_composite(
    kind: str, size: int, dropout: float, dtype: str, way: str
):
    multiply_by(way)
    c = FORMS[kind]
    rng = np.random.default_rng(1)
    shapes = inputs(PACKED, c, WIDTH, size)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    if c[4]:
        arrays[-2] *= 0.2
    got = results(fused, arrays, c, dtype, dropout)
    want = results(composite, arrays, c, dtype, dropout)
    assert len(got) == 2 + len(shapes)
    if dtype == "float32":
        for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
            bound = 2e-6 * np.abs(theirs).max()
            assert np.abs(ours - theirs).max() <= bound, i
        return
    # The composite rounds each of its maps to bfloat16, which flips some units of the
    # ReLU. The fused op rounds fewer maps, so its error must not be larger.
    rounded = [as_float64(round_to(a, dtype)) for a in arrays]
    truth = results(composite, rounded, c, "float64", dropout)
    for i, (ours, theirs, exact) in enumerate(zip(got, want, truth, strict=True)):
        norm = np.linalg.norm(exact)
        error = np.linalg.norm(ours - exact) / norm
        assert error <= 1.1 * np.linalg.norm(theirs - exact) / norm + 2e-3, i


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("dropout", "values"), [(0.0, WIDTH), (0.1, 6), (0.1, 37)])
@pytest.mark.parametrize("kind", FORMS)
def test_fused_equals_composite_where_cells_are_missing(
    kind: str, dropout: float, values: int, dtype: str
):
    """With a causal limit, a mask, a shifted convolution and a score bias.

    Values are as wide as keys, narrower or wider.
    """
    c = FORMS[kind]
    rng = np.random.default_rng(1)
    shapes = (*inputs(SPARSE, c, WIDTH, 3, values), (SPARSE.elements,))
    arrays = [rng.standard_normal(shape) for shape in shapes]
    options = {"n": SPARSE, "biased": True, "shift": (1, 2)}
    got = results(fused, arrays, c, dtype, dropout, **options)
    want = results(composite, arrays, c, dtype, dropout, **options)
    rounded = [as_float64(round_to(a, dtype)) for a in arrays]
    truth = results(composite, rounded, c, "float64", dropout, **options)
    assert len(got) == 2 + len(shapes)
    for i, (ours, theirs, exact) in enumerate(zip(got, want, truth, strict=True)):
        if dtype == "float32":
            assert np.abs(ours - theirs).max() <= 2e-6 * np.abs(theirs).max(), i
        norm = np.linalg.norm(exact)
        error = np.linalg.norm(ours - exact) / norm
        assert error <= 1.1 * np.linalg.norm(theirs - exact) / norm + 2e-3, i
    for maps in (got[1], got[-1]):
        assert not maps[SPARSE.cells == 0].any()


@pytest.mark.parametrize("form", [fused, composite])
@pytest.mark.parametrize("kind", FORMS)
def test_what_comes_later_moves_nothing_before(form, kind: str):
    """Chained layers whose convolution only reaches back, as in a decoder."""
    c, n = FORMS[kind], Lengths(2, (37,), causal=True)
    rng = np.random.default_rng(6)
    weight, bias = rng.standard_normal((2, 2, 3, 3)), rng.standard_normal(2)
    tokens = rng.standard_normal((3, 37, 2 * WIDTH))

    def contexts() -> np.ndarray:
        previous, found = None, []
        for layer in range(3):
            q, k, v = (
                _core.Tensor(np.roll(tokens, layer + i, 0)[0], dtype="float32")
                for i in range(3)
            )
            form_of = c if previous is not None else FORMS["vanilla"]
            parameters = [
                _core.Tensor(x, dtype="float32") if form_of[4] else None
                for x in (weight, bias)
            ]
            y, previous = form(
                q, k, v, previous, *parameters, form_of, 0.0, n=n, shift=(1, 1)
            )  # fmt: skip
            found.append(np.asarray(y))
        return np.stack(found)

    before = contexts()
    tokens[:, 20:] = rng.standard_normal(tokens[:, 20:].shape)
    after = contexts()
    np.testing.assert_array_equal(before[:, :20], after[:, :20])
    assert (before[:, 20:] != after[:, 20:]).any(axis=(0, 2)).all()


@pytest.mark.parametrize("form", [fused, composite])
def test_without_evolution_causal_bits_are_vanilla(form):
    rng = np.random.default_rng(8)
    arrays = [
        rng.standard_normal(s) for s in inputs(SPARSE, FORMS["vanilla"], WIDTH, 3)
    ]
    q, k, v = (_core.Tensor(a, dtype="float32") for a in arrays)
    previous = _core.Tensor(rng.standard_normal(SPARSE.elements), dtype="float32")
    plain = form(q, k, v, None, None, None, FORMS["vanilla"], 0.0, n=SPARSE)
    same = form(q, k, v, previous, None, None, FORMS["vanilla"], 0.0, n=SPARSE)
    for ours, theirs in zip(same, plain, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("width", [6, WIDTH, 37, 64])
@pytest.mark.parametrize("way", ["pairs", "tiles"])
@pytest.mark.parametrize("kind", FORMS)
def test_products_of_bfloat16_change_only_rounding(kind: str, way: str, width: int):
    """Results stay within one bfloat16 step for any threads; the way is used."""
    c = FORMS[kind]
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(s) for s in inputs(PACKED, c, width, 3)]
    threads = ea.get_num_threads()
    passes = []
    try:
        for one, count in ((way, 1), (way, 3), ("widened", 3), ("pairs", 3)):
            multiply_by(one)
            ea.set_num_threads(count)
            passes.append(results(fused, arrays, c, "bfloat16", 0.1))
    finally:
        ea.set_num_threads(threads)
    alone, several, plain, pairs = passes
    for i, (ours, theirs) in enumerate(zip(alone, plain, strict=True)):
        np.testing.assert_array_equal(ours, several[i])
        assert np.linalg.norm(ours - theirs) <= 2.0**-7 * np.linalg.norm(theirs), i
    other = pairs if way == "tiles" else plain
    taken = any((a != b).any() for a, b in zip(alone, other, strict=True))
    if width > 6:  # sums of few terms may be equal in any order
        assert taken == (way in WAYS)


@pytest.mark.parametrize("way", ["pairs", "tiles"])
@pytest.mark.parametrize("shift", [(0, 0), (1, 2)])
@pytest.mark.parametrize(("heads", "size"), [(1, 3), (2, 7), (17, 3), (33, 1)])
def test_convolution_of_any_heads_in_bfloat16(
    heads: int, size: int, shift: tuple[int, int], way: str
):
    """Odd heads, several groups of output heads, and more taps than registers."""
    n = Lengths(heads, (1, 16, 23), (3, 17, 40))
    c = FORMS["evolving"]
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(s) for s in inputs(n, c, WIDTH, size)]
    passes = []
    for one in (way, "widened"):
        multiply_by(one)
        passes.append(results(fused, arrays, c, "bfloat16", 0.0, n=n, shift=shift))
    for i, (ours, theirs) in enumerate(zip(*passes, strict=True)):
        assert np.linalg.norm(ours - theirs) <= 2.0**-7 * np.linalg.norm(theirs), i


@pytest.mark.parametrize("which", [0, 1])
def test_gradient_through_one_output(which: int):
    c = FORMS["evolving"]
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s) for s in inputs(PACKED, c, WIDTH, 3)]
    gradients = []
    for form in (fused, composite):
        tensors = [_core.Tensor(a, dtype="float32", requires_grad=True) for a in arrays]
        out = form(*tensors[:3], *split(c, tuple(tensors[3:])), c, 0.0)[which]
        seed = np.random.default_rng(5).standard_normal(out.shape)
        out.backward(_core.Tensor(seed, dtype="float32"))
        # where nothing depends on v, the composite leaves it without a gradient
        gradients.append(
            [0.0 if t.grad is None else as_float64(t.grad) for t in tensors]
        )
    for ours, theirs in zip(*gradients, strict=True):
        bound = 2e-6 * np.abs(theirs).max()
        assert np.abs(ours - theirs).max() <= bound


def test_same_cells_are_dropped():
    """With the identity as V, the context is the probabilities after dropout."""
    n = Lengths(1, (37,))
    x = _core.Tensor(np.zeros((37, 37)), dtype="float32")
    v = _core.Tensor(np.eye(37), dtype="float32")
    _core.manual_seed(9)
    y, _ = _core.ops.fused_attention(
        x, x, v, None, None, None, FORMS["vanilla"], n.packing, 1.0, 1.0, 0.4
    )
    _core.manual_seed(9)
    want = _core.ops.dropout(_core.Tensor(np.ones(37 * 37), dtype="float32"), 0.4)
    zero = np.asarray(want).reshape(37, 37) == 0
    assert 0.3 < zero.mean() < 0.5
    np.testing.assert_array_equal(np.asarray(y) == 0, zero)


def forward_calls() -> int:
    return sum(
        calls
        for kernel, _, calls in _core.kernel_entries()
        if kernel == "fused_attention_forward"
    )


@pytest.mark.parametrize(
    "attention",
    [
        ea.attention.Vanilla(),
        ea.attention.Evolving(0.3, 0.4),
        ea.attention.Spec(bias=ea.attention.RelativePositions(3)),
        ea.attention.Spec(
            bias=ea.attention.BucketedPositions(),
            evolve=ea.attention.Evolving(0.3, 0.4),
        ),
    ],
    ids=["vanilla", "evolving", "relative", "evolving-buckets"],
)
def test_models_agree_with_the_switch_off(attention):
    model = tiny(attention=attention, hidden_dropout_prob=0.0)
    batch = draw()
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}
    passes, counts = [], []
    for on in (True, False):
        _core.set_fast_path("fused_attention", on)
        before = forward_calls()
        ea.manual_seed(4)
        passes.append(run(model, **inputs))
        counts.append(forward_calls() - before)
    assert counts == [model.config.num_hidden_layers, 0]
    for ours, theirs in zip(*passes, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            bound = 1e-4 * max(1.0, np.abs(value).max())
            np.testing.assert_allclose(ours[name], value, rtol=0, atol=bound)


def test_probabilities_and_carry_are_there_when_asked_for():
    model = tiny(attention=ea.attention.Evolving(0.3, 0.4)).eval()
    outputs = []
    for on in (True, False):
        _core.set_fast_path("fused_attention", on)
        outputs.append(
            model(**draw().packed(), output_attentions=[1], output_attention_logits=[2])
        )
    ours, theirs = outputs
    for name, layer in (("attentions", 1), ("attention_logits", 2)):
        assert [i for i, x in enumerate(ours[name]) if x is not None] == [layer]
        np.testing.assert_allclose(
            np.asarray(ours[name][layer]), np.asarray(theirs[name][layer]), atol=1e-5
        )


def test_without_evolution_bits_are_vanilla():
    ea.set_fast_path("fused_attention", True)
    plain = tiny(attention=ea.attention.Vanilla(), **NO_DROPOUT)
    same = tiny(attention=ea.attention.Evolving(0.0, 0.0), **NO_DROPOUT)
    copy_parameters(plain, same)
    batch = draw((5, 33, 1))
    inputs = {**batch.packed(), "labels": labels_for(plain, batch)}
    before = forward_calls()
    for ours, theirs in zip(run(same, **inputs), run(plain, **inputs), strict=True):
        assert_same_bits(ours, theirs)
    assert forward_calls() > before

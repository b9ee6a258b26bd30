"""Regressions: edges at which the core crashed, raced or gave wrong values."""

from __future__ import annotations

import operator
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from helpers_models import tiny
from helpers_transformer import SIZES

import evolving_attention as ea
from evolving_attention import Tensor, errors, optim
from evolving_attention import functional as F


def run_apart(program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that would kill the process if it failed."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def run_together(tasks: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_more_memory_than_the_machine_has_is_refused():
    rows, columns = Tensor(np.ones((10**5, 1))), Tensor(np.ones((1, 10**8)))
    with pytest.raises(errors.OutOfMemory, match="the memory of this machine"):
        rows + columns


def test_powers_of_two_types_are_refused():
    """Regression: the exponent's gradient had the type of the base."""
    x, p = Tensor(np.full(4, 2.0, np.float32)), Tensor(np.full(4, 3.0, np.float64))
    with pytest.raises(errors.DTypeError, match="got float32 and float64"):
        x**p
    with pytest.raises(errors.DTypeError, match="got int64 and float32"):
        Tensor([2, 3]) ** Tensor([0.5, 0.5])


@pytest.mark.parametrize("p", [65, 66, -65, 1e9, 2.0**60])
def test_whole_powers_of_negative_numbers(p: float):
    x = Tensor([-1.0, -1.25, 1.25, 0.5], requires_grad=True)
    values = np.array([-1.0, -1.25, 1.25, 0.5])
    with np.errstate(all="ignore"):
        y = x**p
        np.testing.assert_allclose(y.numpy(), (values**p).astype("f"), 1e-6)
        y.sum().backward()
        slope = (p * values ** (p - 1)).astype("f")
    np.testing.assert_allclose(x.grad.numpy(), slope, 2e-6)


def test_multiple_choice_of_no_questions():
    model = tiny("BertForMultipleChoice")
    assert model(np.zeros((0, 2, 4), np.int64)).logits.shape == (0, 2)


def test_many_tensors_are_joined():
    """Regression: joining two at a time recursed once for each tensor."""
    xs = [Tensor([float(i)], requires_grad=True) for i in range(20_000)]
    y = F.concat(xs)
    (y * y).sum().backward()
    np.testing.assert_array_equal(y.numpy(), np.arange(20_000, dtype="f"))
    assert [x.grad.item() for x in xs[::5000]] == [0.0, 10_000.0, 20_000.0, 30_000.0]


def test_a_model_without_memory():
    """Regression: its parameters were read all the same, and the process died."""
    program = """
from evolving_attention import _core, errors
sizes = dict(vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
rest = dict(intermediate_size=8, max_position_embeddings=8, type_vocab_size=2)
model = _core.create_model("bert", sizes | rest)
try:
    model.forward({"input_ids": [[1, 2]]})
except errors.InputError as error:
    print(error)
"""
    done = run_apart(program)
    assert done.returncode == 0, done.stderr
    assert "(10, 8) has no memory yet; call allocate()" in done.stdout


def test_no_offsets():
    with pytest.raises(errors.InputError, match="offsets are None"):
        F.Packing(1, None)


def test_lists_that_hold_themselves():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(errors.ShapeError, match="hold themselves"):
        Tensor([1.0]) + loop


def test_offsets_are_checked_before_memory_is_taken():
    model = tiny()
    before = ea.memory.peak()
    with pytest.raises(errors.InputError, match="sequence 1 has no token"):
        model(np.array([1, 2]), sequence_offsets=[0, 10**7, 2])
    assert ea.memory.peak() - before < 10**7


def test_no_more_threads():
    program = """
import resource, numpy as np, evolving_attention as ea
x = ea.Tensor(np.ones((2000, 300), np.float32))
ea.set_num_threads(1000)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 10**8, used + 10**8))
print(float(ea.functional.softmax(x, axis=-1).sum()))
"""
    done = run_apart(program)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(2000)


def test_threads_add_to_one_gradient():
    w = Tensor(np.ones((), np.float32), requires_grad=True)
    table = Tensor(np.ones((50, 4), np.float32), requires_grad=True)

    def passes() -> None:
        for _ in range(200):
            (w * 1.0).sum().backward()
            F.gather_rows(table, np.array([3])).sum().backward()

    run_together([passes] * 4)
    assert w.grad.item() == 800
    assert table.grad.numpy()[3].tolist() == [800.0] * 4


def test_threads_share_a_transformer():
    """Regression: a longer text replaced the positions that another thread read."""
    config = ea.TransformerConfig(**{**SIZES, "max_position_embeddings": 700})
    model = ea.TransformerModel(config).eval()
    failures: list[BaseException] = []

    def run(first: int) -> None:
        try:
            for n in range(first, 700, 40):
                ids = np.full((1, n), 5)
                with ea.no_grad():
                    model(ids, decoder_input_ids=ids[:, :2])
        except BaseException as error:
            failures.append(error)

    run_together([partial(run, 4 + 7 * i) for i in range(6)])
    assert not failures


def test_written_weights_survive_the_next_step():
    """Regression: a bfloat16 weight went back to its float32 master."""
    w = Tensor(np.ones(2), dtype="bfloat16", requires_grad=True)
    optimizer = optim.AdamW([w], lr=1e-3, weight_decay=0.0)
    for _ in range(2):
        w.copy_(Tensor([5.0, w.numpy()[1]], dtype="bfloat16"))
        for _ in range(3):
            w.grad = Tensor([1.0, 1.0], dtype="bfloat16")
            optimizer.step()
    # An element that was written as it was keeps the bits below bfloat16.
    assert optimizer.state_dict()["master.0"].tolist() == pytest.approx(
        [5 - 6e-3, 1 - 6e-3], abs=1e-5
    )
    assert w.numpy()[0] == 5.0


def test_gradients_as_weights_are_read_anew():
    """Regression: a product kept the panels of a gradient that had grown since."""
    x = Tensor(np.ones((64, 64), np.float32), requires_grad=True)
    eye = Tensor(np.eye(64, dtype=np.float32))
    for factor, clipped in ((2.0, False), (3.0, False), (1.0, True)):
        (x * factor).sum().backward()
        if clipped:
            optim.clip_grad_norm_([x], 0.5)
        with ea.no_grad():
            np.testing.assert_array_equal(
                F.linear(eye, x.grad).numpy(), x.grad.numpy().T
            )


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weight", [None, [1.0, 2.0]])
def test_a_logit_of_minus_infinity(reduction: str, weight: list[float] | None):
    logits = Tensor([[0.0, -np.inf], [1.0, 1.0]], requires_grad=True)
    labels = np.array([0, 1])
    loss = F.cross_entropy(logits, labels, weight=weight, reduction=reduction)
    total = loss.sum()
    assert np.isfinite(total.item())
    total.backward()
    assert np.isfinite(logits.grad.numpy()).all()


def test_fractions_beside_integers_are_refused():
    x, mask = Tensor([1, 5]), Tensor([0, 1])
    for use in (
        lambda: F.where(mask, x, 0.5),
        lambda: x.masked_fill(mask, float("-inf")),
        lambda: x.clip(0.5, 3),
    ):
        with pytest.raises(errors.DTypeError, match=r"use .to\('float32'\)"):
            use()
    assert F.where(mask, x, 2.0).tolist() == [2, 5]


def test_smallest_integer():
    x = Tensor(np.array([5, np.iinfo(np.int64).min, 7]))
    assert x.argmin().item() == 1
    assert x.min().item() == np.iinfo(np.int64).min


def test_an_index_beyond_int64():
    with pytest.raises(errors.ConfigError, match="64 bits"):
        Tensor([1.0])[2**70]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_of_integers_are_exact(axis: int | None):
    values = np.array([[2**53, 1, 1], [-(2**62), 3, 2**62]])
    assert np.array_equal(Tensor(values).sum(axis), values.sum(axis))
    assert Tensor(values[:0]).sum().item() == 0


def test_whole_numbers_that_an_integer_type_lacks_are_refused():
    """Regression: 300 was 44 in uint8, and 2 ** 40 was 0 in int32."""
    bytes_, mask = Tensor(np.array([10, 50, 200], np.uint8)), Tensor([0, 1, 1])
    ints = Tensor(np.array([1, 2, 3], np.int32))
    for use in (
        lambda: F.where(mask, bytes_, 300),
        lambda: F.where(mask, bytes_, np.array([1, 2, 256])),
        lambda: bytes_.masked_fill(mask, -5),
        lambda: ints.masked_fill(mask, 2**40),
    ):
        with pytest.raises(errors.DTypeError, match=r"use .to\('int64'\)"):
            use()
    assert F.where(mask, bytes_, np.array([255, 0, 0])).tolist() == [255, 50, 200]


def test_clip_of_integers_by_bounds_beyond_their_type():
    bytes_ = Tensor(np.array([10, 50, 200], np.uint8))
    assert bytes_.clip(-5, 300).tolist() == [10, 50, 200]
    assert bytes_.clip(20, 1e12).tolist() == [20, 50, 200]
    assert Tensor([-1, 2**62]).clip(0, 2.0**70).tolist() == [0, 2**62]
    for bounds in ((300, None), (None, -1)):
        with pytest.raises(errors.DTypeError, match="uint8 holds no number beyond"):
            bytes_.clip(*bounds)


def test_parameters_change_in_place_as_in_torch():
    p = Tensor([1.0, 2.0], requires_grad=True)
    p.grad = Tensor([1.0, 1.0])
    same, grad = p, p.grad
    with ea.no_grad():
        p -= 0.5 * p.grad
        p *= 2
        p += [1.0, 0.0]
        p /= 2
    assert p is same
    assert p.requires_grad
    assert p.tolist() == [1.0, 1.5]
    for name in ("iadd", "isub", "imul", "itruediv"):
        with pytest.raises(errors.InputError, match=r"only within ea.no_grad\(\)"):
            getattr(operator, name)(p, 1)
    with ea.no_grad(), pytest.raises(errors.ShapeError, match="does not fit"):
        p += np.ones((2, 2))
    p.grad *= 3
    assert p.grad.tolist() == grad.tolist() == [3.0, 3.0]


def test_other_leaves_change_in_place_as_in_torch():
    """Regression: averages of weights never moved, since `e *= 0.9` made a copy."""
    weights = [Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0])]
    average = [Tensor(w) for w in weights]
    with ea.no_grad():
        for e, w in zip(average, weights, strict=True):
            e *= 0.5
            e += 0.25 * w
    assert [e.tolist() for e in average] == [[0.75, 1.5], [2.25]]
    shared = np.ones(2, np.float32)
    view = whole = ea.from_numpy(shared)
    view -= 3.0
    view //= 2.0
    view %= 3.0
    assert whole.tolist() == shared.tolist() == [2.0, 2.0]
    # A result that is recorded, or has another shape or type, is a new tensor.
    total = start = Tensor(0.0)
    total += (weights[0] * 2.0).sum()
    assert total.requires_grad
    counts = numbers = Tensor([1, 3])
    counts /= 2
    numbers += Tensor([[1], [2]])
    assert (start.item(), counts.tolist()) == (0.0, [0.5, 1.5])
    assert numbers.shape == (2, 2)
    # What backward needs is not overwritten unnoticed.
    mask = Tensor([1.0, 0.0])
    y = (weights[0] * mask).sum()
    mask *= 2.0
    with pytest.raises(errors.InputError, match="was written after the forward pass"):
        y.backward()


def test_results_of_functions_do_not_lie_in_arrays_of_the_caller():
    given = np.ones(4, np.float32)
    for make in (
        lambda: F.reshape(given, (2, 2)),
        lambda: F.cast(x=given, dtype="float32"),
        lambda: F.dropout(given, 0.5, training=False),
        lambda: F.einsum("i->i", given),
    ):
        result = make()
        result += 1.0
        assert given.tolist() == [1.0] * 4


def test_a_tensor_in_place_of_a_number_keeps_its_gradient_or_is_refused():
    """Regression: it was read as a float, and what it was made of never learned."""
    x, t = Tensor([-1.0, 2.0], requires_grad=True), Tensor([0.5], requires_grad=True)
    packing, maps = F.Packing(1, [0, 2]), Tensor(np.ones(4, np.float32))
    wrong = [
        lambda: F.axpby(1.0, x, t, x),
        lambda: F.leaky_relu(x, slope=t),
        lambda: x.clip(t, None),
        lambda: x.clamp(max=t),
        lambda: F.map_softmax(maps, packing, t),
        lambda: F.evolve(maps, maps, None, None, (0, 0, t, 1 - t, 0), packing),
        lambda: F.cross_entropy(x.reshape(1, 2), [0], label_smoothing=t),
    ]
    for call in wrong:
        with pytest.raises(errors.InputError, match="would lose its gradient"):
            call()
    assert F.scale(x, t.detach()).tolist() == [-0.5, 1.0]
    with ea.no_grad():
        assert F.scale(x, t).tolist() == [-0.5, 1.0]
    assert float(t) == 0.5


def test_nested_lists_of_tensors_are_refused_by_all_functions():
    """Regression: three functions of Python read them as numbers."""
    c, s = Tensor(0.6, requires_grad=True), Tensor(0.8, requires_grad=True)
    rows = [[c, s], [s, c]]
    for call in (
        lambda: F.stack(rows),
        lambda: F.einsum("ij,j->i", rows, [1.0, 2.0]),
        lambda: F.evolving_attention(*[[rows, rows]] * 3),
    ):
        with pytest.raises(errors.InputError, match="lose their gradients"):
            call()
    F.stack([F.stack([c, s]), F.stack([s, c])]).sum().backward()
    assert (c.grad.item(), s.grad.item()) == (2.0, 2.0)


def test_numbers_that_do_not_fit_into_an_integer_type():
    """Regression: 300 as uint8 was 44, and NaN as int64 the smallest number."""
    for values, dtype in (
        ([300], "uint8"),
        ([-1.0], "uint8"),
        ([2**40], "int32"),
        ([float("nan")], "int64"),
        (1e20, "int64"),
    ):
        with pytest.raises(errors.DTypeError, match=f"does not fit into {dtype}"):
            Tensor(values, dtype=dtype)
        with pytest.raises(errors.DTypeError, match=f"does not fit into {dtype}"):
            Tensor(0, dtype=dtype).copy_(np.float64(1e20).item())
    assert Tensor([255.9, 0.5], dtype="uint8").tolist() == [255, 0]
    assert Tensor(2**63 - 1, dtype="int64").item() == 2**63 - 1
    assert Tensor(np.array([300]), dtype="uint8").tolist() == [44]  # as in NumPy


def test_a_tensor_without_axes_as_a_size():
    """Regression: SystemError."""
    x = Tensor(np.ones(4, np.float32))
    for size in (Tensor(4), np.array(4), np.int64(4)):
        assert x.view(size).shape == x.reshape(size).shape == (4,)
    assert x.view(Tensor([2, 2])).shape == x.view(Tensor(2), 2).shape == (2, 2)


def test_arguments_of_the_core_beyond_their_range():
    """Regression: read out of bounds, or failed with C++ signatures."""
    spec = {"evolve": {"kind": "evolving", "alpha": [0.1, 0.2], "beta": 0.1}}
    for layer in (-1, 2):
        with pytest.raises(errors.ConfigError, match="expected 0 to 1"):
            ea._core.Attention(spec, 8, 2, layer=layer, num_layers=2)
    with pytest.raises(errors.DTypeError, match="expected an array of NumPy"):
        ea.from_numpy([1.0, 2.0])

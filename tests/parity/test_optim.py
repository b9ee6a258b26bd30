"""Adam, AdamW, RAdam, SGD and gradient clipping against torch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import evolving_attention as ea

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")
pytestmark = pytest.mark.parity
SHAPES = [(7, 5), (33,), (), (3, 3, 5, 5), (1000,), (64, 48)]


def draw(seed):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape), np.float32) for shape in SHAPES]


def pairs(dtype="float32"):
    """Returns the same parameters as our tensors and as torch tensors."""
    mine, others = [], []
    for array in draw(0):
        mine.append(ea.Tensor(array.copy(), dtype=dtype, requires_grad=True))
        held = np.asarray(mine[-1]).astype(np.float64)
        others.append(torch.tensor(held, requires_grad=True))
        if dtype == "float32":
            others[-1] = others[-1].detach().float().requires_grad_()
    return mine, others


def set_gradients(mine, others, step):
    for ours, theirs, array in zip(mine, others, draw(100 + step), strict=True):
        array = array * 10.0 ** -(step % 5)  # magnitudes vary by step
        ours.grad = ea.Tensor(np.asarray(array, np.float32), dtype=ours.dtype)
        rounded = np.asarray(ours.grad).astype(np.float64)
        theirs.grad = torch.tensor(rounded).to(theirs.dtype)


def distance(tensors, truth):
    """Returns each tensor's largest difference, in ulps of its largest value."""
    return np.array(
        [
            np.abs(np.asarray(t, np.float64) - np.asarray(x, np.float64)).max()
            / np.spacing(np.float32(np.abs(np.asarray(x)).max()))
            for t, x in zip(tensors, truth, strict=True)
        ]
    )


def compare(
    make_groups,
    change=lambda optimizer, step: None,
    steps=20,
    name="AdamW",
    **options,
):
    """Runs ours, torch's float32 and torch's float64; asserts ours errs no more.

    Returns our tensors and optimizer, and those of torch.
    """
    mine, others = pairs()
    exact = [t.detach().double().requires_grad_() for t in others]
    runs = [(mine, getattr(ea.optim, name)(make_groups(mine), **options))]
    for tensors in (others, exact):
        make = getattr(torch.optim, name)
        runs.append((tensors, make(make_groups(tensors), **options, foreach=False)))
    for step in range(steps):
        set_gradients(mine, others, step)
        for theirs, truth in zip(others, exact, strict=True):
            truth.grad = theirs.grad.double()
        for _, optimizer in runs:
            change(optimizer, step)
            optimizer.step()
    truth = [t.detach() for t in exact]
    ours = distance(mine, truth)
    theirs = distance([t.detach() for t in others], truth)
    assert (ours <= np.maximum(2 * theirs, 2)).all(), (ours, theirs)
    return runs[0], runs[1]


SETTINGS = {
    "defaults": {},
    "no decay": {"weight_decay": 0.0},
    "large decay": {"weight_decay": 0.3, "lr": 0.05},
    "betas and eps": {"betas": (0.8, 0.95), "eps": 1e-6, "lr": 3e-4},
    "beta of zero": {"betas": (0.0, 0.99)},
}


@pytest.mark.parametrize("case", SETTINGS)
def test_adamw_over_twenty_steps(case):
    (_, ours), (others, theirs) = compare(list, **SETTINGS[case])
    state = ours.state_dict()
    assert state["step"] == 20
    for i, other in enumerate(others):
        for name in ("exp_avg", "exp_avg_sq"):
            moment = theirs.state[other][name].numpy()
            assert np.allclose(state[f"{name}.{i}"], moment, rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("case", SETTINGS)
def test_adam_over_twenty_steps(case):
    options = {"weight_decay": 0.1, **SETTINGS[case]}
    (_, ours), (others, theirs) = compare(list, name="Adam", **options)
    state = ours.state_dict()
    assert state["step"] == 20
    for i, other in enumerate(others):
        for name in ("exp_avg", "exp_avg_sq"):
            moment = theirs.state[other][name].numpy()
            assert distance([state[f"{name}.{i}"]], [moment]) <= 8, name


# With beta_2 = 0.999 rectification begins at step 6; with beta_2 <= 2/3 never.
RECTIFIED = {
    "defaults": {},
    "the paper's": {"betas": (0.9, 0.99), "lr": 3e-3},
    "never rectified": {"betas": (0.9, 0.6)},
    "first steps": {"steps": 5},
    "decay in the gradient": {"weight_decay": 0.3, "lr": 0.05},
    "decoupled decay": {"weight_decay": 0.3, "decoupled_weight_decay": True},
    "large eps": {"eps": 1e-2, "lr": 3e-3},
}


@pytest.mark.parametrize("case", RECTIFIED)
def test_radam(case):
    (_, ours), (others, theirs) = compare(list, name="RAdam", **RECTIFIED[case])
    state = ours.state_dict()
    assert state["step"] == RECTIFIED[case].get("steps", 20)
    for i, other in enumerate(others):
        for name in ("exp_avg", "exp_avg_sq"):
            moment = theirs.state[other][name].numpy()
            assert distance([state[f"{name}.{i}"]], [moment]) <= 8, name


def test_radam_of_groups_in_bfloat16():
    mine, others = pairs("bfloat16")
    runs = []
    for tensors, module in ((mine, ea.optim), (others, torch.optim)):
        groups = [
            {"params": tensors[:2], "weight_decay": 0.2},
            {"params": tensors[2:], "lr": 5e-3},
        ]
        options = {} if module is ea.optim else {"foreach": False}
        runs.append(module.RAdam(groups, lr=1e-2, **options))
    for step in range(20):
        set_gradients(mine, others, step)
        for optimizer in runs:
            for group in optimizer.param_groups:
                group["lr"] *= 0.97
            optimizer.step()
    for i, other in enumerate(others):
        master = np.asarray(runs[0].state_dict()[f"master.{i}"])
        assert np.allclose(master, other.detach(), rtol=1e-5, atol=1e-6)


DESCENTS = {
    "plain": {"lr": 0.1},
    "decay": {"lr": 0.1, "weight_decay": 0.3},
    "momentum": {"lr": 0.05, "momentum": 0.9},
    "momentum and decay": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.3},
    "nesterov": {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
}


@pytest.mark.parametrize("case", DESCENTS)
def test_sgd(case):
    (_, ours), (others, theirs) = compare(list, name="SGD", **DESCENTS[case])
    state = ours.state_dict()
    assert state["step"] == 20
    buffers = [name for name in state if name.startswith("momentum_buffer")]
    assert len(buffers) == (len(others) if "momentum" in DESCENTS[case] else 0)
    for i in range(len(buffers)):
        buffer = theirs.state[others[i]]["momentum_buffer"].numpy()
        assert distance([state[f"momentum_buffer.{i}"]], [buffer]) <= 8


def test_sgd_in_bfloat16():
    mine, others = pairs("bfloat16")
    options = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}
    runs = ea.optim.SGD(mine, **options), torch.optim.SGD(others, **options)
    for step in range(20):
        set_gradients(mine, others, step)
        for optimizer in runs:
            optimizer.step()
    for i, (tensor, other) in enumerate(zip(mine, others, strict=True)):
        master = np.asarray(runs[0].state_dict()[f"master.{i}"])
        assert np.allclose(master, other.detach(), rtol=1e-5, atol=1e-6)
        assert (np.asarray(tensor) == master.astype(np.asarray(tensor).dtype)).all()


def test_decoupled_sgd_is_sgd_of_shrunken_weights():
    mine, others = pairs()
    rate, decay = 0.05, 0.3
    ours = ea.optim.SGD(
        mine, rate, momentum=0.9, weight_decay=decay, decoupled_weight_decay=True
    )
    theirs = torch.optim.SGD(others, rate, momentum=0.9)
    for step in range(20):
        set_gradients(mine, others, step)
        with torch.no_grad():
            for other in others:
                other *= 1 - rate * decay
        ours.step()
        theirs.step()
    for tensor, other in zip(mine, others, strict=True):
        assert np.allclose(tensor, other.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["AdamW", "RAdam", "SGD"])
def test_groups_and_changing_rates(name):
    def groups(tensors):
        return [
            {"params": tensors[:2], "weight_decay": 0.2},
            {"params": tensors[2:], "lr": 5e-3, "weight_decay": 0.0},
        ]

    def change(optimizer, step):
        for group in optimizer.param_groups:
            group["lr"] *= 1 + 0.1 * math.sin(step)

    compare(groups, change, name=name, lr=1e-2)


def test_a_parameter_without_gradient_stays():
    mine, others = pairs()
    ours = ea.optim.AdamW(mine, lr=0.1)
    theirs = torch.optim.AdamW(others, lr=0.1, foreach=False)
    for step in range(3):
        set_gradients(mine, others, step)
        mine[0].grad = others[0].grad = None
        ours.step()
        theirs.step()
    assert np.array_equal(np.asarray(mine[0]), draw(0)[0])
    for tensor, other in zip(mine, others, strict=True):
        assert np.allclose(tensor, other.detach(), rtol=1e-6, atol=1e-6)


def test_bfloat16_updates_a_float32_master():
    mine, others = pairs("bfloat16")
    ours = ea.optim.AdamW(mine, lr=1e-3)
    theirs = torch.optim.AdamW(others, lr=1e-3, foreach=False)  # on float64 tensors
    for step in range(20):
        set_gradients(mine, others, step)
        ours.step()
        theirs.step()
    state = ours.state_dict()
    for i, (tensor, other) in enumerate(zip(mine, others, strict=True)):
        master = np.asarray(state[f"master.{i}"])
        assert np.allclose(master, other.detach(), rtol=1e-5, atol=1e-6)
        assert np.array_equal(
            np.asarray(tensor), master.astype(np.asarray(tensor).dtype)
        )


@pytest.mark.parametrize("limit", [0.1, 1.0, 5.0, 1e6])
def test_clipping(limit):
    mine, others = pairs()
    set_gradients(mine, others, 0)
    mine[2].grad = others[2].grad = None
    norm = ea.optim.clip_grad_norm_(mine, limit)
    expected = torch.nn.utils.clip_grad_norm_(others, limit).item()
    assert norm == pytest.approx(expected, rel=1e-6)
    for tensor, other in zip(mine, others, strict=True):
        if other.grad is not None:
            assert np.allclose(tensor.grad, other.grad, rtol=1e-6, atol=0)
    assert mine[2].grad is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_clipping_leaves_gradients_that_are_not_finite(value):
    mine, _ = pairs()
    set_gradients(mine, pairs()[1], 0)
    np.asarray(mine[1].grad)[3] = value
    before = [np.array(tensor.grad) for tensor in mine]
    norm = ea.optim.clip_grad_norm_(mine, 1.0)
    assert not math.isfinite(norm)
    for tensor, array in zip(mine, before, strict=True):
        assert np.array_equal(np.asarray(tensor.grad), array, equal_nan=True)

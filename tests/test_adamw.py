"""AdamW, RAdam and clipping on the core: restorable, clear about mistakes."""

from __future__ import annotations

import copy
import math
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from evolving_attention import _core as core
from evolving_attention import optim
from evolving_attention.errors import (
    CheckpointError,
    ConfigError,
    DTypeError,
    InputError,
    ShapeError,
)
from evolving_attention.modeling.base import MODELS

SHAPES = [(3, 5), (7,), (1,), (2, 3, 4), (130, 33)]


def tensors(dtype: str = "float32") -> list[Any]:
    random = np.random.default_rng(0)
    return [
        core.Tensor(
            random.standard_normal(s).astype(np.float32), dtype, requires_grad=True
        )
        for s in SHAPES
    ]


def give_gradients(
    parameters: list[Any], step: int, dtype: str = "float32"
) -> list[Any]:
    random = np.random.default_rng(100 + step)
    shapes = SHAPES[: len(parameters)]
    values = [random.standard_normal(s).astype(np.float32) for s in shapes]
    for parameter, value in zip(parameters, values, strict=True):
        parameter.grad = core.Tensor(value, dtype)
    return values


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RAdam"])
def test_steps_of_a_parameter_are_those_that_updated_it(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours = tensors()[:3]  # updated from step 0, from 12 (no gradient), from 9 (frozen)
    theirs = [torch.nn.Parameter(torch.from_numpy(np.array(p.numpy()))) for p in ours]
    optimizer = getattr(optim, name)(ours, lr=0.01)
    reference = getattr(torch.optim, name)(theirs, lr=0.01)
    ours[2].requires_grad = False
    for step in range(20):
        if step == 9:
            ours[2].requires_grad = True
        values = give_gradients(ours, step)
        if step < 12:
            ours[1].grad = None
        for mine, his, value in zip(ours, theirs, values, strict=True):
            skipped = mine.grad is None or not mine.requires_grad
            his.grad = None if skipped else torch.from_numpy(value.copy())
        if step == 15:  # the state includes the step counts
            state = optimizer.state_dict()
            assert state["missed"].tolist() == [0, 12, 9]
            optimizer = getattr(optim, name)(ours, lr=0.01)
            optimizer.load_state_dict(state)
        optimizer.step()
        reference.step()
    for mine, his in zip(ours, theirs, strict=True):
        assert np.allclose(mine.numpy(), his.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("max_norm", [math.inf, 1.0])
def test_equal_to_torch(weight_decay: float, max_norm: float) -> None:
    torch = pytest.importorskip("torch")
    ours = tensors()
    theirs = [torch.nn.Parameter(torch.from_numpy(np.array(p.numpy()))) for p in ours]
    groups = [
        {"params": ours[:2], "weight_decay": weight_decay},
        {"params": ours[2:], "weight_decay": 0.0},
    ]
    their_groups = [
        {"params": theirs[:2], "weight_decay": weight_decay},
        {"params": theirs[2:], "weight_decay": 0.0},
    ]
    optimizer = optim.AdamW(groups, lr=0.01, betas=(0.8, 0.99), eps=1e-6)
    reference = torch.optim.AdamW(their_groups, lr=0.01, betas=(0.8, 0.99), eps=1e-6)
    for step in range(20):
        rate = 0.01 * (20 - step) / 20
        for group in [*optimizer.param_groups, *reference.param_groups]:
            group["lr"] = rate
        values = give_gradients(ours, step)
        for parameter, value in zip(theirs, values, strict=True):
            parameter.grad = torch.from_numpy(value.copy())
        if max_norm < math.inf:
            expected = float(torch.nn.utils.clip_grad_norm_(theirs, max_norm))
            norm = optim.global_grad_norm(ours)
            assert norm == pytest.approx(expected, rel=1e-5)
            optimizer.step(optim.clip_scale(norm, max_norm))
        else:
            optimizer.step()
        reference.step()
    for mine, his in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), his.detach().numpy(), atol=2e-6)


def test_clipping_in_place_equals_torch() -> None:
    torch = pytest.importorskip("torch")
    ours = tensors()
    theirs = [torch.nn.Parameter(torch.from_numpy(np.array(p.numpy()))) for p in ours]
    for parameter, value in zip(theirs, give_gradients(ours, 0), strict=True):
        parameter.grad = torch.from_numpy(value.copy())
    expected = float(torch.nn.utils.clip_grad_norm_(theirs, 0.5))
    assert optim.clip_grad_norm_(ours, 0.5) == pytest.approx(expected, rel=1e-5)
    for mine, his in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), his.grad.numpy(), rtol=1e-5)


def test_gradients_that_are_not_finite_stay_as_they_are() -> None:
    parameters = tensors()
    give_gradients(parameters, 0)
    spoiled = np.array(parameters[0].grad.numpy())
    spoiled[0, 0] = np.inf
    parameters[0].grad = core.Tensor(spoiled)
    before = np.array(parameters[1].grad.numpy())
    assert not math.isfinite(optim.clip_grad_norm_(parameters, 1.0))
    np.testing.assert_array_equal(parameters[1].grad.numpy(), before)


OPTIMIZERS = {
    "Adam": optim.Adam,
    "AdamW": optim.AdamW,
    "RAdam": optim.RAdam,
    "RAdam, decoupled": partial(optim.RAdam, decoupled_weight_decay=True),
    "SGD": optim.SGD,
    "SGD, nesterov": partial(optim.SGD, momentum=0.9, nesterov=True),
}


@pytest.mark.parametrize("stop", [3, 7])  # before and after RAdam rectifies
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_restored_optimizer_goes_on_bit_for_bit(
    dtype: str, name: str, stop: int
) -> None:
    whole, stopped = tensors(dtype), tensors(dtype)
    make = partial(OPTIMIZERS[name], lr=0.01, weight_decay=0.1)
    one, two = make(whole), make(stopped)
    for step in range(stop):
        give_gradients(whole, step, dtype)
        one.step()
        give_gradients(stopped, step, dtype)
        two.step()
    saved = {
        name: value if name == "step" else np.array(np.asarray(value))
        for name, value in two.state_dict().items()
    }
    assert ("master.0" in saved) == (dtype == "bfloat16")
    fresh = [core.Tensor(p.numpy(), dtype, requires_grad=True) for p in stopped]
    three = make(fresh)
    three.load_state_dict(saved)
    for step in range(stop, stop + 4):
        give_gradients(whole, step, dtype)
        one.step()
        give_gradients(fresh, step, dtype)
        three.step()
    for a, b in zip(whole, fresh, strict=True):
        np.testing.assert_array_equal(np.asarray(a.numpy()), np.asarray(b.numpy()))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_factor_beside_the_parameters(dtype: str, name: str) -> None:
    def factor(value: float) -> Any:
        return core.Tensor(np.array(value), dtype="float64")

    numbers, given = tensors(dtype), tensors(dtype)
    one, two = (
        OPTIMIZERS[name](p, lr=0.01, weight_decay=0.1) for p in (numbers, given)
    )

    def held(parameters: list[Any], optimizer: Any) -> list[bytes]:
        state = [v for k, v in optimizer.state_dict().items() if k != "step"]
        return [np.asarray(t).tobytes() for t in [*parameters, *state]]

    for step in range(7):
        give_gradients(numbers, step, dtype)
        give_gradients(given, step, dtype)
        one.step(0.5 * 0.3)
        two.step(0.5, scale=factor(0.3))
    assert held(given, two) == held(numbers, one)
    before = held(given, two)
    for value in (math.nan, math.inf, -math.inf):
        give_gradients(given, 7, dtype)
        two.step(scale=factor(value))
        assert held(given, two) == before
    two.step(scale=factor(0.0))
    assert held(given, two) != before
    for wrong in (core.Tensor(np.float32(1.0)), core.Tensor(np.ones(2), "float64")):
        with pytest.raises(DTypeError, match="expected one float64 number"):
            two.step(scale=wrong)


def test_parameters_without_gradient_rest() -> None:
    parameters = tensors()
    before = np.array(parameters[1].numpy())
    optimizer = optim.AdamW(parameters, lr=0.1, weight_decay=0.5)
    parameters[0].grad = core.Tensor(np.ones(SHAPES[0], np.float32))
    optimizer.step()
    optimizer.zero_grad()
    np.testing.assert_array_equal(parameters[1].numpy(), before)
    assert parameters[0].grad is None


def test_groups_for_weight_decay() -> None:
    named = [
        ("encoder.layer.0.attention.self.query.weight", 1),
        ("encoder.layer.0.attention.self.query.bias", 2),
        ("encoder.layer.0.output.LayerNorm.weight", 3),
        ("encoder.layer.1.attention.self.evolving_conv.weight", 4),
    ]
    decayed, free = optim.decay_groups(named, 0.01)
    assert (decayed["params"], decayed["weight_decay"]) == ([1, 4], 0.01)
    assert (free["params"], free["weight_decay"]) == ([2, 3], 0.0)
    assert len(optim.decay_groups(named[:1], 0.01)) == 1
    tensors = [tensor for _, tensor in named]
    with pytest.raises(ConfigError, match=r"pass model\.named_parameters\(\)"):
        optim.decay_groups(tensors, 0.01)


NEEDED = {
    "gat": {"num_features": 5},
    "ea_dc_transformer": {"channels": 3, "max_length": 10},
    "transformer": {"vocab_size": 30},
}
EVERY = {cls.__name__: cls for task in MODELS.values() for cls in task.values()}


@pytest.mark.parametrize("name", EVERY)
def test_no_model_decays_its_norms(name: str) -> None:
    kind = EVERY[name]
    model = kind.__new__(kind)  # its parameters get no memory
    options = NEEDED.get(kind.config_class.model_type, {})
    model._build(kind.config_class(**options), "float32")
    decayed = optim.decay_groups(model.named_parameters(), 0.1)[0]["names"]
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert decayed
    assert [n for n in decayed if len(shapes[n]) == 1] == []  # norms have vectors


def test_optimizers_by_name() -> None:
    named = [("word.weight", tensors()[0]), ("word.bias", tensors()[1])]
    for name, kind in optim.OPTIMIZERS.items():
        made = optim.create(name, named, lr=0.1, weight_decay=0.2, betas=(0.5, 0.6))
        assert type(made) is kind
        assert [group["weight_decay"] for group in made.param_groups] == [0.2, 0.0]
        assert getattr(made, "betas", (0.5, 0.6)) == (0.5, 0.6)
    options = {"momentum": 0.9, "nesterov": True, "decoupled_weight_decay": True}
    made = optim.create("sgd", named, lr=0.1, options=options)
    assert {name: getattr(made, name) for name in options} == options
    with pytest.raises(ConfigError, match="'lion', expected one of adamw_torch_fused"):
        optim.create("lion", named, lr=0.1)
    with pytest.raises(ConfigError, match=r"'sgd' has no option 'eps', .* momentum, "):
        optim.create("sgd", named, lr=0.1, options={"eps": 1e-8})


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"lr": -1.0}, "lr=-1.0, expected >= 0"),
        ({"lr": math.nan}, "lr=nan"),
        ({"eps": 0.0}, "eps=0.0, expected > 0"),
        ({"betas": (0.9, 1.0)}, "betas=(0.9, 1.0)"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
    ],
)
def test_settings_out_of_range(options: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        optim.AdamW(tensors(), **options)
    assert part in str(caught.value)


def test_other_mistakes() -> None:
    with pytest.raises(ConfigError, match="params is empty"):
        optim.AdamW([])
    for limit in (0, "1", None):
        with pytest.raises(ConfigError, match=f"max_norm={limit!r}, expected a number"):
            optim.clip_grad_norm_(tensors(), limit)
    for group, says in (
        (3, "group 1 is a int, expected 'params' among its keys"),
        ({"lr": 0.1}, r"group 1 has \['lr'\], expected 'params'"),
        ({"params": tensors()[0]}, "params is a Tensor, expected tensors or groups"),
    ):
        with pytest.raises(ConfigError, match=says):
            optim.AdamW(tensors()).add_param_group(group)
    state = optim.AdamW(tensors()).state_dict()
    with pytest.raises(CheckpointError, match="does not fit the 2 parameters"):
        optim.AdamW(tensors()[:2]).load_state_dict(state)
    for odd, says in (
        ({"exp_avg.0": None}, "exp_avg.0 is a NoneType"),
        ({"step": -1}, "step=-1, expected a whole number"),
        ({"step": "a"}, "step='a', expected a whole number"),
        ({"missed": np.array([2, 0, 0, 0, 0])}, r"missed=\[2.*from 0 to 0"),
        ({"missed": np.zeros(2, int)}, r"missed has shape \(2,\)"),
    ):
        with pytest.raises(CheckpointError, match=says):
            optim.AdamW(tensors()).load_state_dict({**state, **odd})
    with pytest.raises(ConfigError, match="group 0 has 'betas', expected only lr"):
        optim.AdamW([{"params": tensors(), "betas": (0.1, 0.2)}])
    state["exp_avg.0"] = np.zeros(3, np.float32)
    with pytest.raises(CheckpointError, match=r"exp_avg.0 has shape \(3,\)"):
        optim.AdamW(tensors()).load_state_dict(state)


@pytest.mark.parametrize("how", ["numpy", "held", "state_dict", "dlpack"])
def test_writes_from_outside_reach_the_master_weights(how: str) -> None:
    """Regression: the next step brought the old bfloat16 weight back."""
    (p,) = tensors("bfloat16")[:1]
    optimizer = optim.SGD([p], lr=0.1)
    p.grad = core.Tensor(np.ones(SHAPES[0]), "bfloat16")
    view = p.numpy()
    optimizer.step()
    if how == "numpy":
        del view
        p.numpy()[:] = 5
    elif how == "held":
        view[:] = 5
    elif how == "state_dict":
        np.asarray({"w": p}["w"].detach())[:] = 5
    else:
        np.from_dlpack(p.detach().view(-1).to("float32"))  # a copy changes nothing
        core.from_dlpack(p.detach()).copy_(np.full(SHAPES[0], 5.0))
    optimizer.step()
    np.testing.assert_array_equal(p.to("float32"), np.float32(4.90625))


def test_one_tensor_alone_is_clipped() -> None:
    """Regression: its rows were taken for parameters, which have no gradients."""
    (p,) = tensors()[:1]
    p.grad = core.Tensor(np.ones(SHAPES[0], np.float32))
    assert optim.global_grad_norm(p) == pytest.approx(math.sqrt(15))
    assert optim.clip_grad_norm_(p, 1.0) == pytest.approx(math.sqrt(15))
    assert optim.global_grad_norm(p) == pytest.approx(1.0)
    for wrong in ([1.0, p], {"weight": p}, [("weight", p)], None):
        with pytest.raises(InputError, match=r"expected tensors; pass model.param"):
            optim.clip_grad_norm_(wrong, 1.0)


@pytest.mark.parametrize(
    "make", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))]
)
@pytest.mark.parametrize("kind", ["AdamW", "RAdam", "SGD"])
def test_copies_go_on_alike(make: Any, kind: str) -> None:
    options = {"momentum": 0.9} if kind == "SGD" else {}
    first = getattr(optim, kind)(tensors(), lr=0.1, **options)
    for step in range(2):
        give_gradients(first.param_groups[0]["params"], step)
        first.step()
    other = make(first)
    for optimizer in (first, other):
        give_gradients(optimizer.param_groups[0]["params"], 2)
        optimizer.step()
    pairs = zip(*(o.param_groups[0]["params"] for o in (first, other)), strict=True)
    for ours, theirs in pairs:
        assert ours is not theirs
        np.testing.assert_array_equal(ours, theirs)


def test_a_group_added_later_starts_at_step_one() -> None:
    early, late = tensors()[:2], tensors()[2:]
    grown = optim.AdamW(early, lr=0.1)
    for step in range(3):
        give_gradients(early, step)
        grown.step()
    grown.add_param_group({"params": late, "lr": 0.5})
    alone_late = tensors()[2:]
    alone = optim.AdamW(alone_late, lr=0.5)
    for step in range(2):
        for held in (early + late, early + alone_late):
            give_gradients(held, step)
        grown.step()
        alone.step()
    for ours, theirs in zip(late, alone_late, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ConfigError, match="once more"):
        grown.add_param_group({"params": late[:1]})
    with pytest.raises(ConfigError, match=r"group 2 has 'betas'"):
        grown.add_param_group({"params": tensors()[:1], "betas": (0.0, 0.0)})


@pytest.mark.parametrize("how", ["copy", "add_param_group"])
def test_frozen_parameters_keep_their_state(how: str) -> None:
    """Regression: a copy, or a new group, began them again with moments of 0."""
    states = []
    for change in (False, True):
        held = tensors("bfloat16")
        optimizer = optim.AdamW(held[:3], lr=0.1)
        for step in range(2):
            give_gradients(held, step, "bfloat16")
            optimizer.step()
        held[1].requires_grad = False
        if change and how == "copy":
            optimizer = copy.deepcopy(optimizer)
        elif change:
            optimizer.add_param_group({"params": held[3:]})
        second = optimizer.param_groups[0]["params"][1]
        assert not second.requires_grad
        second.requires_grad = True
        states.append(optimizer.state_dict())
    for name in ("exp_avg.1", "exp_avg_sq.1", "master.1"):
        np.testing.assert_array_equal(states[0][name], states[1][name])


def test_a_group_that_is_refused_is_not_kept() -> None:
    held = tensors()
    optimizer = optim.AdamW(held[:2], lr=0.1)
    whole = core.Tensor([1])
    for group in ({"params": [whole]}, {"params": held[2:], "lr": -1}):
        with pytest.raises((ConfigError, InputError)):
            optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1
    give_gradients(held[:2], 0)
    optimizer.step()


def test_changes_of_groups_are_not_ignored() -> None:
    """Regression: such parameters never learned, and such settings had no effect."""
    held = tensors()
    optimizer = optim.SGD(held[:2], lr=0.1, momentum=0.9)
    give_gradients(held, 0)
    optimizer.param_groups[0]["params"].append(held[2])
    with pytest.raises(ConfigError, match=r"3 parameters .* the 2 .*add_param_group"):
        optimizer.step()
    optimizer.param_groups[0]["params"][1:] = [held[2]]
    with pytest.raises(ConfigError, match="add_param_group"):
        optimizer.step()
    optimizer.param_groups[0]["params"][1:] = [held[1]]
    optimizer.param_groups[0]["momentum"] = 0.0
    with pytest.raises(ConfigError, match="group 0 has 'momentum'"):
        optimizer.step()


def test_a_parameter_moved_to_the_next_group_takes_its_rate() -> None:
    """Regression: it kept the rate of the group it was made in."""
    held = tensors()[:3]
    groups = [{"params": held[:2], "lr": 0.1}, {"params": held[2:], "lr": 0.0}]
    optimizer = optim.SGD(groups)
    first, second = (group["params"] for group in optimizer.param_groups)
    second.insert(0, first.pop())
    before = [np.array(parameter) for parameter in held]
    give_gradients(held, 0)
    optimizer.step()
    moved = [not np.array_equal(*pair) for pair in zip(before, held, strict=True)]
    assert moved == [True, False, False]


def test_the_core_refuses_rates_of_parameters_it_lacks() -> None:
    made = core.AdamW(tensors()[:2], 0.9, 0.999, 1e-8)
    for begin, end in ((0, 3), (2, 1)):
        with pytest.raises(ShapeError, match=f"parameters {begin} up to {end}, .* 2"):
            made.set_rates(begin, end, 0.1, 0.0)


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (optim.AdamW, r"exp_avg, exp_avg_sq, expected momentum_buffer; .* momentum"),
        (optim.SGD, r"no moments, expected momentum_buffer"),
    ],
)
def test_the_state_of_another_optimizer_is_named(before: Any, says: str) -> None:
    state = before(tensors(), lr=0.1).state_dict()
    with pytest.raises(CheckpointError, match=f"another optimizer, with {says}"):
        optim.SGD(tensors(), lr=0.1, momentum=0.9).load_state_dict(state)

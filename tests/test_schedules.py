"""Learning-rate schedules: equal to transformers to 1e-12, clear errors."""

from __future__ import annotations

import math
from typing import Any

import pytest

import evolving_attention as ea
from evolving_attention.errors import ConfigError
from evolving_attention.training.schedules import NAMES, get_scheduler, multiplier

LENGTHS = [(0, 10), (3, 20), (1, 1), (5, 5), (10, 7), (0, 1), (100, 1000)]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("linear", {}),
    ("constant", {}),
    ("constant_with_warmup", {}),
    ("cosine", {}),
    ("cosine", {"num_cycles": 2.25}),
    ("cosine_with_min_lr", {"min_lr": 1e-6}),
    ("cosine_with_min_lr", {"min_lr_rate": 0.1, "num_cycles": 1.5}),
    ("cosine_with_restarts", {}),
    ("cosine_with_restarts", {"num_cycles": 3}),
    ("polynomial", {}),
    ("polynomial", {"power": 2.0, "lr_end": 1e-5}),
    ("inverse_sqrt", {}),
    ("inverse_sqrt", {"timescale": 50}),
]


class PlainOptimizer:
    """Optimizer with parameter groups only."""

    def __init__(self, *rates: float) -> None:
        self.param_groups = [{"lr": rate} for rate in rates]


@pytest.mark.parametrize(("warmup", "total"), LENGTHS)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_equal_to_transformers(
    name: str, options: dict[str, Any], warmup: int, total: int
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    parameter = torch.nn.Parameter(torch.zeros(1))
    theirs_optimizer = torch.optim.SGD([parameter], lr=0.003)
    try:
        theirs = transformers.get_scheduler(
            name, theirs_optimizer, warmup, total, scheduler_specific_kwargs=options
        )
    except TypeError:
        pytest.skip(f"this transformers takes no options for {name}")
    ours = get_scheduler(name, PlainOptimizer(0.003), warmup, total, options)
    for step in range(total + 20):
        try:
            expected = theirs.get_last_lr()[0]
            theirs_optimizer.step()
            theirs.step()
        except ZeroDivisionError:  # transformers: no steps left to decay over
            assert name == "polynomial"
            break
        assert abs(ours.get_last_lr()[0] - expected) <= 1e-12, (step, expected)
        ours.step()


def test_warm_up_rises_to_the_base_rate_in_every_group() -> None:
    optimizer = PlainOptimizer(1.0, 0.1)
    schedule = get_scheduler("linear", optimizer, 4, 8)
    seen = []
    for _ in range(9):
        seen.append(schedule.get_last_lr())
        schedule.step()
    assert [pair[0] for pair in seen] == [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0]
    assert [pair[1] for pair in seen] == pytest.approx([0.1 * p[0] for p in seen])


def test_a_schedule_refuses_groups_that_were_added_after_it() -> None:
    optimizer = PlainOptimizer(0.5)
    schedule = get_scheduler("linear", optimizer, 0, 8)
    optimizer.param_groups.append({"lr": 0.1})
    with pytest.raises(ConfigError, match=r"1 parameter groups.*2 now.*get_scheduler"):
        schedule.step()
    again = get_scheduler("linear", optimizer, 0, 8)
    again.step()
    assert again.get_last_lr() == [0.5 * 7 / 8, 0.1 * 7 / 8]


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_restored_schedules_go_on_alike(name: str) -> None:
    whole = get_scheduler(name, PlainOptimizer(0.5), 3, 12)
    for _ in range(5):
        whole.step()
    resumed = get_scheduler(name, PlainOptimizer(0.5), 3, 12)
    resumed.load_state_dict(whole.state_dict())
    for _ in range(5):
        assert resumed.get_last_lr() == whole.get_last_lr()
        resumed.step()
        whole.step()


@pytest.mark.parametrize("steps", [0, 3, 8])
def test_a_second_schedule_begins_at_the_rate_before_the_first(steps: int) -> None:
    optimizer, other = PlainOptimizer(0.5, 0.1), PlainOptimizer(0.5, 0.1)
    first = get_scheduler("linear", optimizer, 2, 8)
    for _ in range(steps):
        first.step()
    second = get_scheduler("polynomial", optimizer, 2, 8)
    alone = get_scheduler("polynomial", other, 2, 8)
    for _ in range(9):
        assert second.get_last_lr() == alone.get_last_lr()
        second.step()
        alone.step()
    optimizer.param_groups[1]["lr"] = 0.3  # by hand: a new rate
    assert get_scheduler("constant", optimizer).get_last_lr() == [0.5, 0.3]


def test_groups_with_a_schedule_make_another_optimizer() -> None:
    groups = [{"params": [ea.Tensor([1.0], requires_grad=True)]}]
    first = ea.optim.SGD(groups, lr=0.5)
    get_scheduler("linear", first, 2, 8)
    second = ea.optim.SGD(first.param_groups)
    assert get_scheduler("constant", second).get_last_lr() == [0.5]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((None, 0, 8), "optimizer is a NoneType, expected one with param_groups"),
        ((PlainOptimizer(1), "0", 8), "num_warmup_steps='0', expected >= 0"),
        ((PlainOptimizer(1), 0, None), "num_training_steps=None, expected >= 0"),
    ],
)
def test_what_makes_no_schedule_is_named(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=f"get_scheduler: {says}"):
        get_scheduler("linear", *given)


@pytest.mark.parametrize(
    ("name", "warmup", "rate"), [("constant", None, 0.5), ("inverse_sqrt", 2, 0.25)]
)
def test_schedules_without_an_end_need_no_number_of_steps(
    name: str, warmup: int | None, rate: float
) -> None:
    schedule = get_scheduler(name, PlainOptimizer(0.5), warmup, None)
    schedule.step()
    assert schedule.get_last_lr() == [rate]


def test_restoring_into_other_groups_is_refused() -> None:
    state = get_scheduler("linear", PlainOptimizer(0.5), 0, 4).state_dict()
    with pytest.raises(ConfigError, match="1 parameter groups, this optimizer has 2"):
        get_scheduler("linear", PlainOptimizer(1, 2), 0, 4).load_state_dict(state)


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("cosin", {}, ["'cosin'", "did you mean 'cosine'"]),
        ("linear", {"power": 2}, ["'power'", "linear", "no options"]),
        ("cosine", {"cycles": 2}, ["'cycles'", "num_cycles"]),
        ("polynomial", {"lr_end": 2.0}, ["lr_end=2.0", "learning_rate=1.0"]),
    ],
)
def test_mistakes_are_named(
    name: str, options: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        multiplier(name, 0, 10, 1.0, **options)
    for part in parts:
        assert part in str(caught.value)


def test_all_multipliers_are_finite_and_not_negative() -> None:
    for name in NAMES:
        value = multiplier(name, 3, 10)
        for step in range(30):
            assert math.isfinite(value(step))
            assert value(step) >= 0


@pytest.mark.parametrize(
    ("first", "growth", "cycles"),
    [(4, 2, 3), (5, 3, 2), (3, 1, 4), (10, 2, 6), (20, 2, 5)],
)
def test_growing_cycles_are_torchs(first: int, growth: int, cycles: int) -> None:
    """The last two are for CIFAR-10 and CIFAR-100: 630 and 620 epochs."""
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.05)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        optimizer, first, growth, eta_min=1e-4
    )
    total = sum(first * growth**k for k in range(cycles))
    options = {"num_cycles": cycles, "cycle_growth": growth, "lr_end": 1e-4}
    ours = get_scheduler(
        "cosine_with_restarts", PlainOptimizer(0.05), 0, total, options
    )
    for step in range(total):
        assert ours.get_last_lr()[0] == pytest.approx(theirs.get_last_lr()[0]), step
        optimizer.step()
        theirs.step()
        ours.step()
    assert ours.get_last_lr() == [1e-4]  # torch would begin another cycle here


def test_steps_are_torchs_and_the_papers() -> None:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.128)
    theirs = torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 60, 80, 90])
    ours = get_scheduler("multistep", PlainOptimizer(0.128), 5, 100)
    for step in range(105):
        expected = theirs.get_last_lr()[0] * min(1.0, step / 5)
        assert ours.get_last_lr()[0] == pytest.approx(expected), step
        optimizer.step()
        theirs.step()
        ours.step()
    twice = multiplier("multistep", 0, 10, milestones=[0.5], gamma=0.25)
    assert [twice(step) for step in (4, 5, 9)] == [1.0, 0.25, 0.25]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "cosine_with_restarts",
            {"cycle_growth": 0.5},
            r"cycle_growth=0\.5, expected 1",
        ),
        ("cosine_with_restarts", {"lr_end": 2.0}, r"lr_end=2\.0 is not from 0"),
        (
            "multistep",
            {"milestones": [30, 60]},
            r"milestones=\[30, 60\], expected shares",
        ),
        ("multistep", {"milestones": 0.5}, r"milestones=0\.5, expected shares"),
        (
            "cosine_with_min_lr",
            {"min_lr": 0.1, "min_lr_rate": 0.1},
            r"min_lr=0\.1 and min_lr_rate=0\.1, expected the last rate or",
        ),
        ("cosine_with_min_lr", {"min_lr": 2.0}, r"is 2 times learning_rate=1\.0"),
    ],
)
def test_options_of_schedules_are_checked(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        multiplier(name, 0, 10, **options)


@pytest.mark.parametrize(
    ("name", "option", "value", "expected"),
    [
        ("cosine", "num_cycles", "2", "a finite number from 0"),
        ("cosine", "num_cycles", math.inf, "a finite number from 0"),
        ("cosine", "num_cycles", True, "a finite number from 0"),
        ("cosine_with_restarts", "num_cycles", None, "a finite number from 0"),
        ("cosine_with_restarts", "cycle_growth", "2", "a finite number from 0"),
        ("cosine_with_restarts", "lr_end", [], "a finite number from 0"),
        ("cosine_with_restarts", "lr_end", None, "a finite number from 0"),
        ("cosine_with_min_lr", "min_lr", "0", "a finite number from 0"),
        ("cosine_with_min_lr", "min_lr_rate", math.nan, "a finite number from 0"),
        ("polynomial", "power", None, "a finite number from 0"),
        ("polynomial", "power", -1.0, "a finite number from 0"),
        ("polynomial", "lr_end", None, "a finite number from 0"),
        ("inverse_sqrt", "timescale", 0, "a finite number above 0"),
        ("inverse_sqrt", "timescale", "9", "a finite number above 0"),
        ("multistep", "gamma", "a", "a finite number from 0"),
        ("multistep", "milestones", ["a"], "shares of the run between 0 and 1"),
        ("multistep", "milestones", None, "shares of the run between 0 and 1"),
    ],
)
def test_an_option_of_the_wrong_type_or_range_is_named(
    name: str, option: str, value: Any, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        multiplier(name, 2, 10, **{option: value})
    says = f"lr_scheduler_type {name!r}: {option}={value!r}, expected {expected}"
    assert says in str(caught.value)
    assert "lr_scheduler_kwargs" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("cosine_with_min_lr", "min_lr"),
        ("cosine_with_min_lr", "min_lr_rate"),
        ("inverse_sqrt", "timescale"),
    ],
)
def test_an_option_may_be_left_open(name: str, option: str) -> None:
    assert multiplier(name, 2, 10, **{option: None})(5) == multiplier(name, 2, 10)(5)


def test_cycles_that_grow_beyond_all_runs_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"num_cycles=2000 with cycle_growth=2,"):
        multiplier("cosine_with_restarts", 0, 10, num_cycles=2000, cycle_growth=2)

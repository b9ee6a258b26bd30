"""Time-series models on a device the host cannot read: the bits of the CPU."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pytest
from helpers_models import arrays_of, assert_same_bits, gradients
from helpers_series import SERIES, VARIANTS, draw, pad_masked, targets_for, tiny
from support.cases import forced

import evolving_attention as ea

if not any("fake device" in what for what in ea.devices().values()):
    pytest.skip(
        "no fake device in this build (tools/run_fake_device.sh makes one)",
        allow_module_level=True,
    )

ASKED = {"output_hidden_states": True}


def passes(device: str, name: str, padded: bool, **options: Any) -> dict[str, Any]:
    """Returns outputs, gradients and weights of two steps, and later outputs."""
    model = tiny(name, **options).to(device)
    assert model.device == device
    optimizer = ea.optim.RAdam(model.parameters(), lr=1e-2)
    batch = draw()
    targets = targets_for(model, batch)
    inputs = {**batch.packed(), **targets}
    if padded:
        inputs = {**batch.padded(2), **pad_masked(targets, batch.valid(2))}
    ea.manual_seed(5)
    found: dict[str, Any] = {}
    for step in range(2):
        out = model.train()(**inputs, **ASKED)
        last = out.last_hidden_state
        loss = (last * last).sum() if out.loss is None else out.loss
        loss.backward()
        found |= {f"{step} {key}": value for key, value in arrays_of(out).items()}
        found |= {f"{step} d {key}": value for key, value in gradients(model).items()}
        optimizer.step()
        optimizer.zero_grad()
    out = model.eval()(**inputs, **ASKED)
    return {**found, **arrays_of(out), **model.state_dict()}


# Every class with and without evolution, and every variant with at least one class.
CLASSES = [(name, variant) for name in SERIES for variant in ("EA-DC", "DC")]
TURNS = list(zip(cycle(SERIES), VARIANTS, strict=False))


@pytest.mark.parametrize(("name", "variant"), list(dict.fromkeys(CLASSES + TURNS)))
def test_every_class_and_variant(name: str, variant: str) -> None:
    for padded in (False, True):
        with forced(("*", "ref")):
            want = passes("cpu", name, padded, **VARIANTS[variant])
        assert_same_bits(passes("cuda:1", name, padded, **VARIANTS[variant]), want)


def test_values_may_lie_on_the_device() -> None:
    model = tiny("EADCTransformerModel").eval().to("cuda:1")
    values = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    there = ea.Tensor(values, device="cuda:1", requires_grad=True)
    out = model(there).last_hidden_state
    want = np.asarray(model(values).last_hidden_state.to("cpu"))
    assert np.array_equal(np.asarray(out.to("cpu")), want)
    out.sum().backward()
    assert there.grad.device == "cuda:1"

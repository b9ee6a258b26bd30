"""Image models on a device the host cannot read: the bits of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_images import VARIANTS, VITS, draw, inputs_for, tiny
from helpers_models import arrays_of, assert_same_bits, gradients
from support.cases import forced

import evolving_attention as ea

if not any("fake device" in what for what in ea.devices().values()):
    pytest.skip(
        "no fake device in this build (tools/run_fake_device.sh makes one)",
        allow_module_level=True,
    )

ASKED = {"output_hidden_states": [1], "output_attentions": [0]}


def passes(device: str, name: str, **options: Any) -> dict[str, Any]:
    """Returns outputs, gradients and weights of two steps, and later outputs."""
    model = tiny(name, **options).to(device)
    assert model.device == device
    optimizer = ea.optim.RAdam(model.parameters(), lr=1e-2)
    inputs = inputs_for(model)
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


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", VITS)
def test_every_task_and_variant_of_vit(name: str, variant: str) -> None:
    with forced(("*", "ref")):
        want = passes("cpu", name, **VARIANTS[variant])
    assert_same_bits(passes("cuda:1", name, **VARIANTS[variant]), want)


def test_pixels_may_lie_on_the_device() -> None:
    model = tiny("ViTModel").eval().to("cuda:1")
    there = ea.Tensor(draw(2), device="cuda:1", requires_grad=True)
    out = model(there).last_hidden_state
    want = np.asarray(model(draw(2)).last_hidden_state.to("cpu"))
    assert np.array_equal(np.asarray(out.to("cpu")), want)
    out.sum().backward()
    assert there.grad.device == "cuda:1"
    assert model.interpolate_positions(16).device == "cuda:1"

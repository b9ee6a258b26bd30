"""Text nets on a device the host cannot read: the bits of the reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_models import assert_same_bits, run
from helpers_text_nets import VARIANTS, draw, tiny
from support.cases import forced

import evolving_attention as ea
from evolving_attention import optim

if not any("fake device" in what for what in ea.devices().values()):
    pytest.skip(
        "no fake device in this build (tools/run_fake_device.sh makes one)",
        allow_module_level=True,
    )

WORDS = np.random.default_rng(0).normal(size=(30, 10)).astype(np.float32)


def results(device: str, variant: str, recompute: bool) -> dict[str, Any]:
    """Returns the results of two training steps on padded texts."""
    model = tiny(variant, fixed_words=True).to(device).set_word_vectors(WORDS)
    if recompute:
        model.gradient_checkpointing_enable()
    trained = [t for t in model.parameters() if t.requires_grad]
    optimizer = optim.AdamW(trained, lr=1e-2)
    inputs, found = draw(model).padded(2), {}
    ea.manual_seed(5)
    for step in range(2):
        out, gradients = run(model, **inputs, output_hidden_states=True)
        optimizer.step()
        found |= {f"{step} {key}": value for key, value in out.items()}
        found |= {f"{step} gradient of {key}": g for key, g in gradients.items()}
    return {**found, **model.state_dict()}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
def test_as_on_the_cpu(variant: str, recompute: bool):
    with forced(("*", "ref")):
        want = results("cpu", variant, recompute)
    assert_same_bits(results("cuda:1", variant, recompute), want)

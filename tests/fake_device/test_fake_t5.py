"""T5 on a device the host cannot read: the bits of the CPU's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_generation import padded, sources
from helpers_models import assert_same_bits, run
from helpers_t5 import tiny
from helpers_transformer import draw
from support.cases import forced

import evolving_attention as ea
from evolving_attention import optim

if not any("fake device" in what for what in ea.devices().values()):
    pytest.skip(
        "no fake device in this build (tools/run_fake_device.sh makes one)",
        allow_module_level=True,
    )


def results(device: str, variant: str, recompute: bool) -> dict[str, Any]:
    """Returns results of two training steps, then weights and beam search targets."""
    model = tiny(variant, dropout_rate=0.1).to(device)
    if recompute:
        model.gradient_checkpointing_enable()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    given, found = draw((5, 14, 1), (12, 3, 2)).packed(), {}
    ea.manual_seed(5)
    for step in range(2):
        out, gradients = run(model.train(), **given, output_attention_scores=True)
        optimizer.step()
        found |= {f"{step} {key}": value for key, value in out.items()}
        found |= {f"{step} gradient of {key}": g for key, g in gradients.items()}
    targets = model.eval().generate(
        **padded(sources((9, 3))), max_new_tokens=13, num_beams=2
    )
    return {**found, **model.state_dict(), "targets": np.asarray(targets)}


@pytest.mark.parametrize("variant", ["v1.0", "evolving v1.1"])
@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
def test_as_on_the_cpu(variant: str, recompute: bool):
    with forced(("*", "ref")):
        want = results("cpu", variant, recompute)
    assert_same_bits(results("cuda:1", variant, recompute), want)

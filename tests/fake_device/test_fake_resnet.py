"""Residual networks on a device the host cannot read: the bits of the CPU."""

from __future__ import annotations

from typing import Any

import pytest
from helpers_cifar import TINY
from helpers_models import arrays_of, assert_same_bits, gradients
from helpers_resnet import AUGMENTED, EVOLVING, SIZES, draw, tiny
from support.cases import forced

import evolving_attention as ea

if not any("fake device" in what for what in ea.devices().values()):
    pytest.skip(
        "no fake device in this build (tools/run_fake_device.sh makes one)",
        allow_module_level=True,
    )

CASES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "plain": (ea.ResNetForImageClassification, SIZES["bottleneck"], {}),
    "features": (ea.ResNetModel, SIZES["basic"], {}),
    "augmented": (ea.AAResNetModel, AUGMENTED["bottleneck"], {}),
    "evolving": (
        ea.AAResNetForImageClassification,
        AUGMENTED["basic"],
        {"attention": EVOLVING},
    ),
    "small images": (
        ea.CifarNetForImageClassification,
        TINY,
        {"attention": ea.attention.Predictive(0.3)},
    ),
}

# These have no attention, so there are no maps to ask for.
PLAIN = (ea.ResNetModel, ea.ResNetForImageClassification)


def passes(device: str, case: str) -> dict[str, Any]:
    """Returns outputs, gradients and weights of one step, and later outputs."""
    cls, sizes, options = CASES[case]
    model = tiny(cls, sizes, "float32", **options).to(device)
    optimizer = ea.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sides = model.config.side("image_size") if "image_size" in sizes else (32, 32)
    inputs: dict[str, Any] = {"pixel_values": draw(2, sides).astype("float32")}
    if cls.head != "base":
        inputs["labels"] = [1, 4]
    asked = {"output_attention_logits": cls not in PLAIN}
    out = model(**inputs, output_hidden_states=True, **asked)
    (out.pooler_output.sum() if out.loss is None else out.loss).backward()
    found = {**arrays_of(out), **{f"d {k}": v for k, v in gradients(model).items()}}
    optimizer.step()
    after = arrays_of(model.eval()(**inputs))
    return {
        **found,
        **{f"after {k}": v for k, v in after.items()},
        **model.state_dict(),
    }


@pytest.mark.parametrize("case", CASES)
def test_every_network(case: str) -> None:
    with forced(("*", "ref")):
        want = passes("cpu", case)
    assert_same_bits(passes("cuda:1", case), want)

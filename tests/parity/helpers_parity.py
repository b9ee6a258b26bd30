"""Pairs of models (transformers' and ours) with equal weights; and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_models import NO_DROPOUT, SIZES

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")
transformers = pytest.importorskip(
    "transformers", reason="needs transformers (extra: parity)"
)

import evolving_attention as ea  # noqa: E402

torch.set_num_threads(1)  # avoids contention with our threads

# Largest allowed difference, relative to the largest value if that is above 1.
BOUNDS = {"float64": 1e-10, "float32": 2e-5}
PREFIX = {"Bert": "bert", "Roberta": "roberta"}


def theirs(name: str, seed: int = 0, **options: Any) -> Any:
    """Returns a tiny random transformers model in float64 with non-zero biases."""
    family = "Roberta" if name.startswith("Roberta") else "Bert"
    config = getattr(transformers, f"{family}Config")(
        **{**SIZES, **NO_DROPOUT, **options}, attn_implementation="eager"
    )
    torch.manual_seed(seed)
    model = getattr(transformers, name)(config).double().eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias") or "LayerNorm" in parameter_name:
                parameter += torch.randn_like(parameter) * 0.1
    return model


def ours(model: Any, folder: Any, dtype: str = "float64", **options: Any) -> Any:
    """Loads our model of the same name from the files that transformers wrote."""
    model.save_pretrained(folder)
    cls = getattr(ea, type(model).__name__)
    return cls.from_pretrained(folder, dtype=dtype, **options)


def as_torch(inputs: dict[str, Any]) -> dict[str, Any]:
    """Converts arrays to torch tensors, real numbers to float64."""
    tensors = {name: torch.as_tensor(value) for name, value in inputs.items()}
    return {n: t.double() if t.is_floating_point() else t for n, t in tensors.items()}


def close(found: Any, expected: Any, dtype: str, what: str = "") -> None:
    """Asserts equality within the bound of the element type."""
    expected = np.asarray(expected, np.float64)
    found = np.asarray(found, np.float64)
    assert found.shape == expected.shape, what
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    error = np.abs(found - expected).max(initial=0.0)
    assert error <= BOUNDS[dtype] * scale, f"{what}: {error:.3g} of {scale:.3g}"


def compare_gradients(model: Any, their_model: Any, dtype: str) -> None:
    """Asserts that all gradients of ``model`` exist and equal those of ``their_model``.

    transformers lists tied tensors under one name, which is also ours.
    """
    expected = {
        name: parameter.grad
        for name, parameter in their_model.named_parameters()
        if parameter.grad is not None
    }
    found = {n: t.grad for n, t in model.named_parameters() if t.grad is not None}
    aliases = ("cls.predictions.decoder.", "lm_head.decoder.")
    left = {n for n in expected if n not in found and not n.startswith(aliases)}
    assert not left, left
    for name, gradient in found.items():
        close(gradient, expected[name], dtype, name)

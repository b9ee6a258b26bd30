"""Every fast path has a switch, and its fallback gives the same results."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from helpers_models import BODIES, NO_DROPOUT, arrays_of, draw, labels_for, run, tiny

import evolving_attention as ea
from evolving_attention import _core

LENGTHS = (5, 9, 1, 17)
KINDS = {
    "vanilla": ea.attention.Vanilla(),
    "evolving": ea.attention.Evolving(0.3, 0.4),
    "residual": ea.attention.Residual(),
    "predictive": ea.attention.Predictive(0.3),
}


def results(name: str, kind: str, **wanted: object) -> dict[str, np.ndarray]:
    """Returns outputs and gradients of a training pass, outputs of an evaluation."""
    model = tiny(name, KINDS[kind], **NO_DROPOUT)
    batch = draw(LENGTHS, model.config.model_type, seed=3)
    inputs = {**batch.packed(), **wanted}
    labels = labels_for(model, batch)
    given = {} if labels is None else {"labels": labels}
    trained, gradients = run(model, **inputs, **given)
    with ea.no_grad():
        evaluated = arrays_of(model.eval()(**inputs))
    parts = {"train": trained, "gradient": gradients, "eval": evaluated}
    return {
        f"{part} {key}": np.array(value)
        for part, values in parts.items()
        for key, value in values.items()
    }


@functools.cache
def fast_results(name: str, kind: str) -> dict[str, np.ndarray]:
    """Returns ``results`` with all fast paths, the reference for each switch."""
    ea.set_fast_path("all", True)
    return results(name, kind)


def assert_close(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    """Asserts equality within float32 rounding of sums, key by key."""
    assert got.keys() == want.keys()
    # The gradient of a key bias is zero in exact arithmetic (softmax is invariant to a
    # shift of its row), so its rounding error is measured relative to the others.
    floor = 1e-2 * max(
        float(np.max(np.abs(value), initial=0.0)) for value in want.values()
    )
    for key, value in want.items():
        scale = float(np.max(np.abs(value), initial=floor))
        worst = float(np.max(np.abs(got[key] - value), initial=0.0))
        assert worst <= 2e-5 * scale, (key, worst, scale)


@pytest.mark.parametrize("path", [*ea.fast_paths(), "all"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BODIES)
def test_switch_changes_nothing_but_rounding(name: str, kind: str, path: str) -> None:
    fast = fast_results(name, kind)
    ea.set_fast_path("all", True)
    ea.set_fast_path(path, False)
    assert_close(fast, results(name, kind))


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_outputs_asked_for_are_whole_and_change_only_rounding(
    name: str, on: bool
) -> None:
    ea.set_fast_path("all", on)
    wanted = ("hidden_states", "attentions", "attention_logits")
    asked = results(name, "evolving", **{f"output_{one}": True for one in wanted})
    plain = results(name, "evolving")
    assert asked["eval hidden_states.3"].shape[0] == sum(LENGTHS)
    assert asked["eval attentions.2"].shape == (len(LENGTHS), 3, 17, 17)
    assert_close({key: asked[key] for key in plain}, plain)


def test_first_tokens_spares_the_products_of_the_other_rows() -> None:
    """Without a fast path a classifier computes rows that nobody reads."""
    _core.set_profiling(True)
    try:
        calls = {}
        for on in (True, False):
            ea.set_fast_path("first_tokens", on)
            model = tiny("BertForSequenceClassification", None, num_hidden_layers=1)
            model.eval()
            batch = draw((20,) * 8, "bert", seed=0)
            _core.reset_profile()
            with ea.no_grad():
                model(**batch.packed())
            calls[on] = {kernel: count for kernel, count, _ in _core.profile()}
    finally:
        _core.set_profiling(False)
    assert calls[True]["gather_rows"] > calls[False]["gather_rows"]


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ea.ConfigError, match=r"'gelu'.*expected one of all, fused_"):
        ea.set_fast_path("gelu", False)

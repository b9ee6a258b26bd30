"""Cells above a causal map's diagonal are 0 in every map that a layer hands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import attention as A
from evolving_attention import functional as F


@A.register("row_sums")
@dataclass(frozen=True)
class RowSums(A.CustomEvolve):
    """Reads whole rows, also the cells that do not exist."""

    def step(self, scores: Any, previous: Any, context: Any) -> Any:
        maps = F.unpack_maps(scores, context.packing)
        sums = maps.sum(-1, keepdims=True)
        return F.pack_maps(maps - 0.05 * sums * maps, context.packing)


def model(attention: Any) -> Any:
    """Returns a small BERT with large weights."""
    ea.manual_seed(1)
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 36}
    config = ea.BertConfig(
        attention=attention,
        vocab_size=40,
        num_hidden_layers=2,
        max_position_embeddings=40,
        initializer_range=0.3,
        **sizes,
    )
    return ea.BertModel(config).eval()


IDS = np.random.default_rng(0).integers(3, 40, (1, 7))
CAUSAL = A.Dense(causal=True)
SLOTS = {
    "dot": {},
    "additive": {"score": A.Additive()},
    "concatenative": {"score": A.Concatenative()},
    "synthesizer": {"score": A.RandomSynthesizer(16)},
    "relative": {"bias": A.RelativePositions(3)},
    "buckets": {"bias": A.BucketedPositions(8, 16, bidirectional=False)},
}


@pytest.mark.parametrize("slots", SLOTS)
def test_a_custom_step_sees_no_later_token(slots):
    net = model(A.Spec(scope=CAUSAL, evolve=RowSums(), **SLOTS[slots]))
    other = IDS.copy()
    other[:, 6] = (IDS[:, 6] + 5) % 37 + 3
    with ea.no_grad():
        first, second = (net(i).last_hidden_state.numpy()[:, :6] for i in (IDS, other))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("slots", SLOTS)
def test_scores_are_0_where_no_cell_is(slots):
    spec = A.Spec(scope=CAUSAL, evolve=A.Evolving(0.5, 0.3, 1), **SLOTS[slots])
    with ea.no_grad():
        out = model(spec)(IDS, output_attention_scores=True, output_attentions=True)
    for maps in (*out.attention_scores, *out.attentions):
        assert not np.any(np.triu(maps.numpy(), 1))


def test_a_dense_layer_goes_on_from_a_causal_one_in_both_ways():
    slots = {"bias": A.RelativePositions(3), "evolve": A.Evolving(0.5, 0.0)}
    net = model([A.Spec(scope=CAUSAL, **slots), A.Spec(**slots)])
    with ea.no_grad():
        fused = net(IDS).last_hidden_state.numpy()
        ea.set_fast_path("fused_attention", False)
        try:
            apart = net(IDS).last_hidden_state.numpy()
        finally:
            ea.set_fast_path("fused_attention", True)
    np.testing.assert_allclose(apart, fused, rtol=1e-5, atol=1e-5)

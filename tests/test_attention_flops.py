"""Operations of each kind of attention layer, counted by hand in every family."""

from __future__ import annotations

from typing import Any

import pytest

import evolving_attention as ea
from evolving_attention import profiling
from evolving_attention.attention import Spec

T, D, H = 6, 8, 2  # tokens, width, heads
N = T * T
W = D // H


def relative(values: bool, distance: int = 2) -> Spec:
    return Spec(bias=ea.attention.RelativePositions(distance, values=values))


COUNTS: dict[str, tuple[Any, int, int]] = {  # attention, its products, of its maps
    "dot": (Spec(), 2 * N * D, 0),
    "multiplicative": (Spec(score="multiplicative"), 2 * N * D + T * D * W, 0),
    "additive": (Spec(score="additive"), 2 * N * D, 0),
    "concatenative": (Spec(score="concatenative"), N * D + 2 * T * D, 0),
    "dense synthesizer": (Spec(score="dense_synthesizer"), 2 * N * D, 0),
    "dense synthesizer and dot": (
        Spec(score={"kind": "dense_synthesizer", "dot": True}),
        3 * N * D,
        0,
    ),
    "random synthesizer": (Spec(score="random_synthesizer"), N * D, 0),
    "relative": (relative(False), 2 * N * D + T * 5 * D, 0),
    "far relative": (relative(False, 99), 2 * N * D + T * (2 * T - 1) * D, 0),
    "relative values": (relative(True), 2 * N * D + 2 * T * 5 * D, 0),
    "pixels": (
        Spec(bias=ea.attention.RelativePositions2d(2, 3)),
        2 * N * D + T * (3 + 5) * D,
        0,
    ),
    "window": (Spec(scope=ea.attention.Window(3)), 2 * T * 3 * D, 0),
    "wide window": (
        Spec(
            scope=ea.attention.Window(99, heads=1),
            evolve=ea.attention.Evolving(kernel_size=1),
        ),
        2 * T * (2 * T - 1) * D,
        T * (2 * T - 1) * H * H,
    ),
    "evolving": (ea.attention.Evolving(kernel_size=5), 2 * N * D, N * H * H * 25),
    "no convolution": (ea.attention.Evolving(0.5, 0.0), 2 * N * D, 0),
    "deep predictive": (ea.attention.Predictive(0.5, 2), 2 * N * D, 2 * N * H * H * 9),
}


def of_vit(attention: Any) -> dict[str, float]:
    config = ea.ViTConfig(
        image_size=[2, 3],
        patch_size=1,
        hidden_size=D,
        num_hidden_layers=2,
        num_attention_heads=H,
        use_class_token=False,
        attention=attention,
    )
    return profiling.vit_flops(config)


def of_series(attention: Any) -> dict[str, float]:
    sizes = {"hidden_size": D, "num_blocks": 1, "num_attention_heads": H}
    config = ea.EADCTransformerConfig(
        channels=3,
        max_length=T,
        attention_ratio=1.0,
        attention=attention,
        **sizes,
    )
    return profiling.series_flops(config)


def of_encoder(attention: Any) -> dict[str, float]:
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": H}
    config = ea.TransformerConfig(
        vocab_size=9, d_model=D, decoder_attention_heads=H, attention=attention, **sizes
    )
    found = profiling.encoder_decoder_flops(config, T, 1)
    decoder = 2 * (1 + T) * 2 * D  # with one target token
    return {**found, "attention": found["attention"] - decoder}


@pytest.mark.parametrize("family", [of_vit, of_series, of_encoder])
@pytest.mark.parametrize("name", COUNTS)
def test_operations_of_two_layers(name, family):
    attention, products, of_maps = COUNTS[name]
    found = family(attention)
    assert found["attention"] == 2 * 2 * products
    assert found["map_conv"] == 2 * of_maps  # the first layer has no map before it


def test_layers_of_several_kinds_have_their_own_operations():
    window = Spec(scope=ea.attention.Window(3))
    found = of_vit([window, Spec(score="concatenative")])
    assert found["attention"] == 2 * (2 * T * 3 * D + N * D + 2 * T * D)


def test_the_stacks_of_an_encoder_decoder_have_their_own_kinds():
    target = 3
    config = ea.TransformerConfig(
        vocab_size=9,
        d_model=D,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=H,
        decoder_attention_heads=H,
        attention="vanilla",
        decoder_attention=Spec(
            scope=ea.attention.Dense(causal=True), score="multiplicative"
        ),
        cross_attention=Spec(score="concatenative"),
    )
    encoder = 2 * N * D
    decoder = 2 * target**2 * D + target * D * W
    cross = target * T * D + (target + T) * D
    found = profiling.encoder_decoder_flops(config, T, target)
    assert found["attention"] == 2 * (encoder + decoder + cross)

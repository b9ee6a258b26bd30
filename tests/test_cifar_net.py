"""Networks for small images: parameters, attention sites, training, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_cifar import EVOLVING, TINY, tiny
from helpers_resnet import draw

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention.profiling import cifar_net_flops

CLASSIFIER = ea.CifarNetForImageClassification
SMALL = {
    "image_size": 8,
    "hidden_sizes": [4, 6],
    "depths": [1, 2],
    "attention_side": 4,
    "num_attention_heads": 2,
    "num_feed_forwards": 1,
    "feed_forward_ratio": 0.5,
    "num_labels": 5,
}


def counted(config: Any) -> int:
    """Returns the number of parameters, from the config alone."""
    found = (
        9 * config.num_channels * config.hidden_sizes[0] + 2 * config.hidden_sizes[0]
    )
    heads, earlier = config.num_attention_heads, 0
    for stage, (w, depth) in enumerate(
        zip(config.hidden_sizes, config.depths, strict=True)
    ):
        if stage:
            found += earlier * w + 2 * w
        side = config.image_size >> stage
        for i in range(depth):
            if i:
                found += (i + 1) * w * w + 2 * w  # reads all earlier blocks
            inner = int(config.feed_forward_ratio * w)
            found += 2 * (2 * w * inner + 2 * inner + 2 * w)
            half = w // 2
            if side > config.attention_side:
                found += 9 * w * w + 2 * w
                continue
            found += 9 * w * half + 2 * w
            found += 3 * (w * half + half) + half * half + half
            found += 2 * (2 * side - 1) * (half // heads)
        earlier = (depth + 1) * w
    return (
        found
        + earlier // (config.depths[-1] + 1) * config.num_labels
        + (config.num_labels)
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention_side": 0, "feed_forward_ratio": 2.0},
        {"attention_side": 4, "depths": [2, 1, 3]},
    ],
)
def test_a_net_has_the_numbers_of_its_description(options: dict[str, Any]) -> None:
    model = tiny(**options)
    assert model.num_parameters() == counted(model.config)
    both = sum(
        n - 1
        for i, n in enumerate(model.config.depths)
        if 16 >> i <= model.config.attention_side
    )
    if both:  # the first layer of a chain has no convolution
        for kind in (EVOLVING, ea.attention.Predictive(0.1)):
            found = tiny(**options, attention=kind).num_parameters()
            assert found == counted(model.config) + both * (9 * 2 * 2 + 2)


def test_the_papers_sizes_are_the_defaults() -> None:
    config = ea.CifarNetConfig(num_labels=10)
    assert counted(config) == 10_213_322  # test_model_names.py counts the model's
    assert config.num_hidden_layers == 6
    assert counted(ea.CifarNetConfig(num_labels=10, attention_side=0)) == 12_906_506


def test_chains_begin_anew_where_maps_become_smaller() -> None:
    model = tiny(attention=EVOLVING)
    out = model(draw(3, (16, 16)), output_attentions=True, output_hidden_states=True)
    assert [m.shape[1:] for m in out.attentions] == [(2, 64, 64)] * 2 + [
        (2, 16, 16)
    ] * 2
    assert [s.shape[1:] for s in out.hidden_states] == [
        (6, 16, 16),
        (6, 16, 16),
        (8, 8, 8),
        (12, 4, 4),
    ]
    names = [n for n, _ in model.named_parameters() if "evolving_conv.weight" in n]
    assert [name.split("stages.")[1].split(".mixing")[0] for name in names] == [
        "1.layers.1",
        "2.layers.1",
    ]
    out.logits.sum().backward()
    assert np.abs(out.attentions[0].grad).max() > 0  # through the carried map


def test_the_first_layer_of_a_chain_hands_on_its_maps() -> None:
    model = tiny(attention=EVOLVING).eval()
    images = draw(3, (16, 16))
    asked = model(images, output_attention_logits=True)  # kept by every layer
    assert np.array_equal(model(images).logits, asked.logits)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_threads_change_no_bit_of_a_net(dtype: str) -> None:
    images = draw(5, (16, 16)).astype(np.float32)
    before, found = _core.get_num_threads(), []
    try:
        for threads in (1, 3):
            _core.set_num_threads(threads)
            model = tiny(CLASSIFIER, dtype, attention=EVOLVING, hidden_dropout_prob=0.3)
            ea.manual_seed(1)
            out = model(images, labels=np.arange(5))
            out.loss.backward()
            grads = [t.grad for t in model.parameters()]
            found.append([np.asarray(x).tobytes() for x in (out.logits, *grads)])
    finally:
        _core.set_num_threads(before)
    assert found[0] == found[1]


def test_training_lowers_the_loss_and_a_folder_keeps_the_net(tmp_path: Any) -> None:
    model = tiny(CLASSIFIER, "float32", attention=ea.attention.Predictive(0.2))
    images = draw(4, (16, 16)).astype(np.float32)
    # At 0.02 and above the rounding of one CPU or another decides where training ends.
    optimizer = ea.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    losses = []
    for _ in range(30):
        loss = model(images, labels=[0, 1, 2, 3]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    model.eval().save_pretrained(tmp_path)
    again = ea.AutoModelForImageClassification.from_pretrained(tmp_path)
    assert type(again) is CLASSIFIER
    assert again.config.core_options() == model.config.core_options()
    np.testing.assert_array_equal(again(images).logits, model(images).logits)
    features = ea.CifarNetModel.from_pretrained(tmp_path)
    pooled = features.eval()(images).pooler_output
    np.testing.assert_array_equal(pooled.shape, (4, 12, 1, 1))


def test_norms_and_biases_of_networks_of_images_have_no_decay() -> None:
    decayed, spared = ea.optim.decay_groups(tiny().named_parameters(), 0.1)
    ends = {".".join(name.split(".")[-2:]) for name in spared["names"]}
    assert {"normalization.weight", "normalization.bias", "key.bias"} <= ends
    assert not any("normalization" in name for name in decayed["names"])
    assert any(name.endswith("convolution.weight") for name in decayed["names"])


@pytest.mark.parametrize(
    "place",
    ["conv_dropout_prob", "attention_probs_dropout_prob", "hidden_dropout_prob"],
)
def test_each_dropout_acts_in_training_alone(place: str) -> None:
    images = draw(2, (16, 16))
    plain, dropped = tiny(), tiny(**{place: 0.5})
    assert not np.array_equal(plain(images).logits, dropped(images).logits)
    plain, dropped = tiny(), tiny(**{place: 0.5})
    np.testing.assert_array_equal(
        plain.eval()(images).logits, dropped.eval()(images).logits
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": 18}, r"18 x 18.*expected multiples of 4, for each of 2 stages"),
        ({"depths": [1, 2]}, r"hidden_sizes has 3 numbers, depths 2"),
        ({"attention_side": 0, "attention": EVOLVING}, r"no block attends; raise"),
        ({"value_ratio": 0.1}, r"value_ratio 0\.1 of 8 channels"),
        ({"feed_forward_ratio": -1.0}, r"feed_forward_ratio is -1\.0"),
        (
            {"attention": ea.attention.Spec(bias=ea.attention.RelativePositions(3))},
            r"attention has a bias; expected none",
        ),
    ],
)
def test_nets_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ea.ConfigError, match=message):
        tiny(**options)


def test_other_sizes_of_images_are_refused_by_nets() -> None:
    assert TINY["image_size"] == 16
    with pytest.raises(ea.InputError, match=r"8 x 16.*this model takes 16 x 16"):
        tiny()(draw(1, (8, 16)))


# --- operations -----------------------------------------------------------------------


def test_operations_by_hand() -> None:
    """Two blocks of 16 pixels, with two heads of key and value width 1."""
    config = ea.CifarNetConfig(**SMALL, attention=EVOLVING)
    wide = 3 * 4 * 9 * 64 + 4 * 4 * 9 * 64 + 2 * 4 * 2 * 64  # stem; block of 64 pixels
    widened, gathered = 8 * 6 * 16, 12 * 6 * 16
    block = 6 * (6 - 2) * 9 * 16 + 2 * 6 * 3 * 16
    projections, output = 16 * 6 * (2 + 2 + 2), 16 * 2 * 2
    maps, positions = 16 * 16 * (2 + 2), 16 * 2 * (7 + 7)
    convolutions = 2.0 * (wide + widened + gathered + 2 * block + 6 * 5)
    attention = 2.0 * 2 * (projections + output + maps + positions)
    map_conv = 2.0 * 16 * 16 * 2 * 2 * 9  # only the second map of the chain
    assert cifar_net_flops(config) == {
        "convolutions": convolutions,
        "attention": attention,
        "map_conv": map_conv,
        "total": convolutions + attention + map_conv,
    }


def test_operations_of_other_nets() -> None:
    found = cifar_net_flops(ea.CifarNetConfig(**SMALL, attention=EVOLVING))
    plain = cifar_net_flops(ea.CifarNetConfig(**{**SMALL, "attention_side": 0}))
    assert plain["total"] == plain["convolutions"]
    assert plain["total"] - found["convolutions"] == 2 * 2 * (6 * 2 * 9 * 16)
    sparse = cifar_net_flops(ea.CifarNetConfig(**SMALL, dense_connections=False))
    assert sparse["map_conv"] == 0
    fewer = 4 * 6 * 16 + 12 * 6 * 16
    assert found["convolutions"] - sparse["convolutions"] == 2 * fewer
    mixed = ea.CifarNetConfig(**SMALL, attention=[ea.attention.Vanilla(), EVOLVING])
    assert cifar_net_flops(mixed) == found
    for beta in ([0.1, 0], 0):  # no convolution, or in the first layer, which has none
        kind = ea.attention.Evolving(0.5, beta)
        without = cifar_net_flops(ea.CifarNetConfig(**SMALL, attention=kind))
        assert without == {**found, "map_conv": 0, "total": without["total"]}

"""Residual networks: names, counts, operations, and attention-augmented blocks."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch_files
from helpers_distributed import python
from helpers_resnet import AUGMENTED, EVOLVING, SIZES, draw, tiny

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention.profiling import resnet_flops

PLAIN = ea.ResNetForImageClassification
AUGMENTING = ea.AAResNetForImageClassification
IMAGE = {"basic": (64, 64), "bottleneck": (64, 32)}
# 2 x multiply-adds of one 224 x 224 image, in 10^9, counted as it reproduces the
# papers' tables.
GIGAFLOPS = {
    "resnet34": 7.33,
    "resnet50": 8.18,
    "resnet101": 15.60,
    "resnet152": 23.03,
    "aa_resnet34": 7.08,
    "aa_resnet50": 8.43,
    "aa_resnet101": 16.38,
    "aa_resnet152": 24.27,
    "ea_aa_resnet34": 7.93,
    "ea_aa_resnet50": 8.83,
    "ea_aa_resnet101": 17.53,
    "ea_aa_resnet152": 26.18,
}
MAP_CONVOLUTIONS = {34: 0.855, 50: 0.404, 101: 1.156, 152: 1.909}


def config_of(name, monkeypatch, **options):
    """Returns the config of a model name without allocating the model."""
    kept = []

    def config_alone(model, config, dtype="float32", *, device="cpu"):
        kept.append(config)

    monkeypatch.setattr(ea.PreTrainedModel, "__init__", config_alone)
    ea.create_model(name, **options)
    return kept[0]


@pytest.mark.parametrize("name", GIGAFLOPS)
def test_operations_are_the_tables(name, monkeypatch):
    found = resnet_flops(config_of(name, monkeypatch))
    assert found["total"] / 1e9 == pytest.approx(GIGAFLOPS[name], abs=0.0051)


def test_operations_of_the_released_ratios(monkeypatch):
    released = {"key_ratio": 0.25, "value_ratio": 0.125, "min_head_key_width": 0}
    found = resnet_flops(config_of("aa_resnet50", monkeypatch, **released))
    assert found["total"] / 1e9 == pytest.approx(8.04, abs=0.0051)


def test_operations_at_another_image_size():
    small = ea.AAResNetConfig(image_size=64)
    assert resnet_flops(ea.AAResNetConfig(), 64) == resnet_flops(small)


def test_no_convolution_over_maps_with_beta_0():
    kind = ea.attention.Evolving(0.5, 0.0)
    found = resnet_flops(ea.AAResNetConfig(image_size=64, attention=kind))
    assert found == resnet_flops(ea.AAResNetConfig(image_size=64))


@pytest.mark.parametrize("layers", MAP_CONVOLUTIONS)
def test_operations_of_the_convolutions_over_maps(layers, monkeypatch):
    found = resnet_flops(config_of(f"ea_aa_resnet{layers}", monkeypatch))
    sites = {34: 24, 50: 11, 101: 28, 152: 45}[layers]
    second_and_third = {34: 19, 50: 9, 101: 26, 152: 43}[layers]
    cells = second_and_third * 196**2 + (sites - second_and_third) * 49**2
    assert found["map_conv"] == 2.0 * cells * 64 * 9
    expected = MAP_CONVOLUTIONS[layers]
    assert found["map_conv"] / 1e9 == pytest.approx(expected, rel=2e-3)


def torchvision_names(depths, bottleneck):
    """Returns torchvision's checkpoint names, without the norms' batch counters."""
    parts = ("weight", "bias", "running_mean", "running_var")
    names = ["conv1.weight", *(f"bn1.{part}" for part in parts)]
    for stage, depth in enumerate(depths, 1):
        for block in range(depth):
            at = f"layer{stage}.{block}"
            for layer in range(1, 4 if bottleneck else 3):
                names.append(f"{at}.conv{layer}.weight")
                names += [f"{at}.bn{layer}.{part}" for part in parts]
            if block == 0 and (stage > 1 or bottleneck):
                names.append(f"{at}.downsample.0.weight")
                names += [f"{at}.downsample.1.{part}" for part in parts]
    return [*names, "fc.weight", "fc.bias"]


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_torchvision_names_are_read(kind, tmp_path):
    depths = [1, 2]
    sizes = {"layer_type": kind, "embedding_size": 16, "hidden_sizes": [16, 32]}
    model = tiny(PLAIN, {**sizes, "depths": depths}, "float32")
    if kind == "bottleneck":
        first = "resnet.encoder.stages.0.layers.0.shortcut.convolution.weight"
        assert first not in model.state_dict()  # the input already has 16 channels
        model = tiny(PLAIN, {**sizes, "embedding_size": 8, "depths": depths}, "float32")
    names = torchvision_names(depths, kind == "bottleneck")
    held = model.state_dict()
    assert len(names) == len(held)
    rng = np.random.default_rng(0)
    canonical = {name: model.table.canonical(name) for name in names}
    state = {
        name: rng.uniform(0.5, 1.5, held[canonical[name]].shape).astype(np.float32)
        for name in names
    }
    state["bn1.num_batches_tracked"] = np.array(3)
    report = model.load_state_dict(state)
    assert not report.missing
    for name in names:
        np.testing.assert_array_equal(model.state_dict()[canonical[name]], state[name])
    model.config.save_pretrained(tmp_path)
    data = torch_files.write_model(state, legacy=False)
    (tmp_path / "pytorch_model.bin").write_bytes(data)
    again = PLAIN.from_pretrained(tmp_path).state_dict()
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(again[name], value)


def test_what_torchvision_has_for_the_parts_of_a_block():
    table = PLAIN.table
    block = "resnet.encoder.stages.2.layers.4"
    assert (
        table.canonical("layer3.4.conv2.weight")
        == f"{block}.layer.1.convolution.weight"
    )
    assert table.canonical("layer3.4.bn3.bias") == f"{block}.layer.2.normalization.bias"
    shortcut = "layer3.4.downsample.1.running_var"
    assert table.canonical(shortcut) == f"{block}.shortcut.normalization.running_var"
    assert table.canonical("layer1.0.bn1.num_batches_tracked") is None


@pytest.mark.parametrize("sizes", AUGMENTED)
@pytest.mark.parametrize("attention", [None, EVOLVING, ea.attention.Predictive(0.3)])
def test_an_augmented_network_equals_its_parts(sizes, attention):
    """Compares with the same network spelled out in NumPy."""
    from reference.resnet import AugmentedResNet

    model = tiny(AUGMENTING, AUGMENTED[sizes], attention=attention).eval()
    images = draw(2, IMAGE[sizes])
    out = model(images, output_attention_logits=True)
    expected, maps = AugmentedResNet(model.config, model.state_dict())(images)
    assert len(maps) == len(out.attention_logits)
    for found, map_ in zip(out.attention_logits, maps, strict=True):
        np.testing.assert_allclose(found, map_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(out.logits, expected, rtol=1e-9, atol=1e-9)


def test_the_chain_goes_on_from_the_second_to_the_third_stage():
    model = tiny(AUGMENTING, AUGMENTED["basic"], attention=EVOLVING)
    convolved = [
        name
        for name, _ in model.named_parameters()
        if "evolving_conv" in name
        and "attention.self" in name
        and name.endswith("weight")
    ]
    at = sorted({name.split(".attention")[0] for name in convolved})
    block = "resnet.encoder.stages"
    assert at == [
        f"{block}.1.layers.0.layer.1",
        f"{block}.2.layers.0.layer.0",
        f"{block}.2.layers.0.layer.1",
        f"{block}.3.layers.0.layer.1",
    ]


@pytest.mark.parametrize("specs", [EVOLVING, [None, EVOLVING, None, EVOLVING]])
def test_a_layer_that_takes_no_maps_hands_on_its_own(specs):
    model = tiny(AUGMENTING, AUGMENTED["bottleneck"], attention=specs).eval()
    images = draw(2, IMAGE["bottleneck"])
    plain = model(images).logits.numpy()
    # When maps are requested, every layer keeps its own.
    asked = model(images, output_attention_logits=True).logits.numpy()
    assert np.array_equal(plain, asked)


def test_maps_and_states_of_every_layer():
    model = tiny(AUGMENTING, AUGMENTED["bottleneck"], attention=EVOLVING)
    out = model(draw(3, (64, 32)), output_attentions=True, output_hidden_states=True)
    assert [m.shape for m in out.attentions] == [(3, 2, 8, 8)] * 4
    assert [s.shape[1:] for s in out.hidden_states] == [
        (8, 16, 8),
        (16, 16, 8),
        (32, 8, 4),
        (64, 4, 2),
    ]
    out.logits.sum().backward()
    assert np.abs(out.attentions[1].grad).max() > 0


def test_in_evaluation_a_sum_takes_the_place_of_its_shortcut():
    """One tensor of the block's size, unless the shortcut is a requested state."""
    wide = {"embedding_size": 8, "hidden_sizes": [512], "depths": [2]}
    model = tiny(PLAIN, wide, "float32").eval()
    images = draw(16, (64, 64)).astype(np.float32)
    state = 16 * 512 * 16 * 16 * 4  # bytes
    with ea.no_grad():
        model(images)  # fills the caches of the weights
        before = ea.memory.current()
        ea.memory.reset_peak()
        alone = model(images).logits.numpy()
        assert ea.memory.peak() - before < 2 * state
        kept = model(images, output_hidden_states=True)
    np.testing.assert_array_equal(kept.logits, alone)
    again = model(images, output_hidden_states=True)  # apart from the norm op
    for ours, theirs in zip(kept.hidden_states, again.hidden_states, strict=True):
        np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_threads_change_no_bit(dtype):
    images = draw(5, (64, 32)).astype(np.float32)
    before, found = _core.get_num_threads(), []
    try:
        for threads in (1, 3):
            _core.set_num_threads(threads)
            model = tiny(AUGMENTING, AUGMENTED["bottleneck"], dtype, attention=EVOLVING)
            out = model(images, labels=np.arange(5))
            out.loss.backward()
            grads = [t.grad for t in model.parameters()]
            found.append([np.asarray(x).tobytes() for x in (out.logits, *grads)])
    finally:
        _core.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("cls", [PLAIN, AUGMENTING])
def test_training_lowers_the_loss_and_a_folder_keeps_it(cls, tmp_path):
    sizes = AUGMENTED["basic"] if cls is AUGMENTING else SIZES["basic"]
    model = tiny(
        cls, sizes, "float32", **({"attention": EVOLVING} if cls is AUGMENTING else {})
    )
    images = draw(4, (64, 64)).astype(np.float32)
    optimizer = ea.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(8):
        loss = model(images, labels=[0, 1, 2, 3]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    model.eval().save_pretrained(tmp_path)
    again = ea.AutoModelForImageClassification.from_pretrained(tmp_path)
    assert type(again) is cls
    assert again.config.core_options() == model.config.core_options()
    np.testing.assert_array_equal(again(images).logits, model(images).logits)


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (
            ea.ResNetConfig,
            {"depths": [3, 0]},
            r"depths is \[3, 0\].*one for each stage",
        ),
        (ea.ResNetConfig, {"hidden_sizes": 64}, r"hidden_sizes is 64, expected a list"),
        (ea.ResNetConfig, {"attention": "evolving"}, r"use AAResNetConfig"),
        (ea.AAResNetConfig, {"key_ratio": 2.0}, r"key_ratio is 2\.0"),
        (
            ea.AAResNetConfig,
            {"image_size": 32},
            r"image_size = 32 x 32: stage 3 has 2 x 2 pixels, expected 3 x 3 or more; "
            r"take sides of 48 or larger",
        ),
        (
            ea.AAResNetConfig,
            {"image_size": [96, 64], "downsample_in_first_stage": True},
            r"stage 3 has 3 x 2 pixels, expected 3 x 3 .* sides of 96 or larger",
        ),
        (
            ea.AAResNetConfig,
            {"image_size": 16, "hidden_sizes": [256, 512], "depths": [3, 4]},
            r"stage 2 has 2 x 2 pixels, expected 3 x 3 .* sides of 32 or larger",
        ),
    ],
)
def test_configs_that_cannot_be(cls, options, message):
    with pytest.raises(ea.ConfigError, match=message):
        cls(**options)


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (PLAIN, {"depths": [1]}, r"hidden_sizes has 2 numbers, depths 1"),
        (PLAIN, {"layer_type": "wide"}, r"layer_type = 'wide'; expected bottleneck"),
        (AUGMENTING, {"image_size": 40}, r"second stage has 5 x 5.*multiple of 16"),
        (AUGMENTING, {"value_ratio": 0.05}, r"value_ratio 0\.05 of 16 channels"),
        (
            AUGMENTING,
            {"attention": ea.attention.Spec(bias=ea.attention.RelativePositions(3))},
            r"attention has a bias; expected none",
        ),
    ],
)
def test_models_that_cannot_be(cls, options, message):
    sizes = AUGMENTED["basic"] if cls is AUGMENTING else SIZES["basic"]
    with pytest.raises(ea.ConfigError, match=message):
        tiny(cls, sizes, **options)


def test_images_of_another_size_are_refused_where_positions_are_learned():
    model = tiny(AUGMENTING, AUGMENTED["basic"])
    with pytest.raises(ea.InputError, match=r"32 x 64.*this model takes 64 x 64"):
        model(draw(1, (32, 64)))
    assert tiny(PLAIN).eval()(draw(1, (1, 1))).logits.shape == (1, 5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_the_first_pixel_that_is_not_finite_is_named(dtype):
    images = np.zeros((2, 3, 200, 200), np.float32)  # read by several threads
    images[1, 2, 3, 4], images[0, 1, 150, 7] = np.nan, -np.inf
    images[0, 2] = np.finfo(np.float32).max / 2
    model = tiny(PLAIN, SIZES["basic"], "float32")
    with pytest.raises(ea.InputError, match=r"\[0, 1, 150, 7\] is -inf"):
        model(ea.Tensor(images, dtype=dtype))


def test_dropout_in_front_of_the_classifier():
    images = draw(2)
    model, plain = tiny(PLAIN, classifier_dropout=0.9), tiny(PLAIN)
    assert not np.array_equal(model(images).logits, plain(images).logits)
    np.testing.assert_array_equal(
        tiny(PLAIN, classifier_dropout=0.9).eval()(images).logits,
        tiny(PLAIN).eval()(images).logits,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("act", ["relu", "gelu"])
@pytest.mark.parametrize("sizes", SIZES)
def test_passes_without_gradients_join_what_others_take_apart(sizes, act, dtype):
    model = tiny(PLAIN, SIZES[sizes], dtype, hidden_act=act).eval()
    images = draw(3)
    expected = np.asarray(model(images).logits.numpy(), np.float32)
    with ea.no_grad():
        found = np.asarray(model(images).logits.numpy(), np.float32)
        bound = 1e-5 if dtype == "float32" else 0.05
        np.testing.assert_allclose(
            found, expected, atol=bound * np.abs(expected).max(), rtol=0
        )
        alone = np.asarray(model(images[1:2]).logits.numpy(), np.float32)
    np.testing.assert_array_equal(alone[0], found[1])


LAYERS = "resnet.encoder.stages.0.layers.0.layer"
NORM = r"channel 3 is not finite.*weight\[3\], bias\[3\], running_mean\[3\]"
# Name of a parameter or buffer, index of its NaN, expected error text.
BROKEN = [
    (
        "resnet.embedder.embedder.convolution.weight",
        (3, 1, 2, 5),
        r"weight of shape \(64, 3, 7, 7\) is not finite at \[3, 1, 2, 5\]",
    ),
    (  # its transformed weight is cached
        f"{LAYERS}.1.convolution.weight",
        (63, 2, 0, 1),
        r"weight of shape \(64, 64, 3, 3\) is not finite at \[63, 2, 0, 1\]",
    ),
    (f"{LAYERS}.0.normalization.weight", 3, NORM),
    (f"{LAYERS}.2.normalization.running_var", 3, NORM),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("name", "where", "message"), BROKEN)
def test_numbers_that_a_relu_would_hide_are_refused(name, where, message, dtype):
    sizes = {"embedding_size": 64, "hidden_sizes": [256], "depths": [1]}
    model = tiny(PLAIN, sizes, dtype).eval()
    images = draw(2)
    broken = dict([*model.named_parameters(), *model.named_buffers()])[name]
    sound = np.array(broken.numpy())
    with_nan = sound.copy()
    with_nan[where] = np.nan
    with ea.no_grad():
        expected = model(images).logits.numpy()
        broken.copy_(with_nan)
        for _ in range(2):
            with pytest.raises(ea.InputError, match=message):
                model(images)
        broken.copy_(sound)
        np.testing.assert_array_equal(model(images).logits.numpy(), expected)
    broken.copy_(with_nan)
    assert np.isnan(np.asarray(model(images).logits.numpy(), np.float32)).all()


@pytest.mark.parametrize("recorded", [True, False])
def test_statistics_that_move_change_passes_without_gradients(recorded):
    model = tiny(PLAIN, SIZES["bottleneck"], "float32")
    images = draw(2)

    def logits():
        with ea.no_grad():
            return model.eval()(images).logits.numpy()

    before = logits()
    with nullcontext() if recorded else ea.no_grad():
        model.train()(images)
    after = logits()
    assert not np.array_equal(before, after)
    expected = model(images).logits.numpy()  # with gradients recorded
    np.testing.assert_allclose(after, expected, atol=1e-5 * np.abs(expected).max())


KEPT = """
import numpy as np
import evolving_attention as ea

sizes = {"embedding_size": 32, "hidden_sizes": [128], "depths": [4]}
model = ea.ResNetForImageClassification(ea.ResNetConfig(**sizes))
images = np.ones((4, 3, 64, 64), np.float32)
model(images)  # what is made once
before = ea.memory.current()
out = model(images, labels=np.zeros(4, np.int64))
print(ea.memory.current() - before)
"""


KEPT_MAPS = """
import numpy as np
import evolving_attention as ea

sizes = {"embedding_size": 8, "hidden_sizes": [16, 32, 64], "depths": [1, 1, DEPTH],
         "image_size": 256, "num_attention_heads": 2, "min_head_key_width": 0,
         "key_ratio": 0.6, "value_ratio": 0.3}
config = ea.AAResNetConfig(**sizes, attention=ATTENTION)
model = ea.AAResNetForImageClassification(config)
images = np.ones((2, 3, 256, 256), np.float32)
model(images)
before = ea.memory.current()
out = model(images, labels=np.zeros(2, np.int64))
print(ea.memory.current() - before)
"""


def test_plain_attention_keeps_one_map_for_backward():
    """Plain: the term added to its scores. Evolving: its carry as well."""

    def added(attention: str) -> float:
        kept = [
            int(python(KEPT_MAPS.replace("ATTENTION", attention).replace("DEPTH", d)))
            for d in "26"
        ]
        return (kept[1] - kept[0]) / 4 / (2 * 2 * 256**2 * 4)  # maps per layer

    plain, evolving = added("None"), added("ea.attention.Evolving(0.4, 0.7)")
    assert 1 < plain < 1.5  # the convolutions keep some too
    assert plain + 0.9 < evolving < plain + 1.2


def test_backward_does_not_keep_what_a_norm_can_make_again():
    kept = int(python(KEPT))  # own process: cached blocks may be larger
    pixels = 4 * 16 * 16 * 4  # bytes per channel of the stage
    stem = 32 * 4 * 32 * 32 * 4
    # per block: outputs of three convolutions and its own; once the shortcut's
    blocks = 4 * (32 + 32 + 128 + 128) + 128 + 32
    assert kept < 1.1 * (2 * stem + blocks * pixels)


@pytest.mark.parametrize("name", ["attentions", "attention_logits"])
def test_maps_of_a_plain_network_are_refused(name: str) -> None:
    model = ea.ResNetModel(ea.ResNetConfig(hidden_sizes=[8, 16], depths=[1, 1]))
    pixels = np.zeros((1, 3, 32, 32), np.float32)
    with pytest.raises(ea.InputError, match=f"output_{name}=True.*no such layers"):
        model(pixels, **{f"output_{name}": True})

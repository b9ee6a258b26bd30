"""Contract of ViT, for every task class of the package."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_images import (
    EVOLVING,
    HEADS,
    LAYERS,
    NO_DROPOUT,
    PATCHES,
    SIZES,
    VARIANTS,
    VITS,
    WIDTH,
    draw,
    inputs_for,
    tiny,
)
from helpers_models import (
    arrays_of,
    assert_gradients_are_slopes,
    assert_same_bits,
    run,
)

import evolving_attention as ea
from evolving_attention.profiling import vit_flops

every_model = pytest.mark.parametrize("name", VITS)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def test_the_tasks_of_vit():
    heads = {"base", "image_classification"}
    assert {cls.head for cls in VITS.values()} == heads


# --- outputs --------------------------------------------------------------------------


@every_model
@every_variant
def test_shapes(name, variant):
    model = tiny(name, **VARIANTS[variant]).eval()
    asked = {
        "output_hidden_states": True,
        "output_attentions": True,
        "output_attention_logits": True,
    }
    out = model(draw(), **asked)
    tokens = PATCHES + (variant != "no token")
    assert tokens == model.config.tokens
    if name == "ViTModel":
        assert out.last_hidden_state.shape == (4, tokens, WIDTH)
        assert out.pooler_output.shape == (4, WIDTH)
    else:
        assert out.logits.shape == (4, 3)
        assert isinstance(out, ea.ImageClassifierOutput)
    assert [s.shape for s in out.hidden_states] == [(4, tokens, WIDTH)] * (LAYERS + 1)
    for maps in (out.attentions, out.attention_logits):
        assert [m.shape for m in maps] == [(4, HEADS, tokens, tokens)] * LAYERS
    sums = np.asarray(out.attentions[1]).sum(-1)
    assert np.allclose(sums, 1.0, atol=1e-6)


def test_patches_by_hand():
    """A patch embedding is pixels times weight plus bias and position."""
    model = tiny("ViTModel", "float64", attention=None, **NO_DROPOUT).eval()
    images = draw().astype(np.float64)
    state = {name: np.array(value) for name, value in model.state_dict().items()}
    weight = state["embeddings.patch_embeddings.projection.weight"]
    bias = state["embeddings.patch_embeddings.projection.bias"]
    positions = state["embeddings.position_embeddings"][0]
    found = np.asarray(model(images, output_hidden_states=[0]).hidden_states[0])
    for b, image in enumerate(images):
        token = state["embeddings.cls_token"][0, 0] + positions[0]
        assert np.allclose(found[b, 0], token, atol=1e-12)
        for i in range(PATCHES):
            row, column = divmod(i, 4)
            patch = image[:, 4 * row : 4 * row + 4, 3 * column : 3 * column + 3]
            expected = (weight * patch).sum((1, 2, 3)) + bias + positions[i + 1]
            assert np.allclose(found[b, i + 1], expected, atol=1e-12)


def test_pixels_beyond_the_last_whole_patch_are_not_read():
    model = tiny(image_size=[11, 14]).eval()
    assert model.config.grid == (2, 4)
    images = draw(size=(11, 14))
    first = np.asarray(model(images).logits)
    images[:, :, 8:] = 7.0
    images[:, :, :, 12:] = -3.0
    assert np.array_equal(np.asarray(model(images).logits), first)


def test_an_image_is_evaluated_as_if_alone():
    model = tiny().eval()
    together = np.asarray(model(draw()).logits)
    for i, image in enumerate(draw()):
        alone = np.asarray(model(image[None]).logits)
        assert np.abs(alone[0] - together[i]).max() < 2e-6 * np.abs(together).max()


@every_model
def test_asking_for_outputs_changes_nothing_else(name):
    model = tiny(name).eval()
    inputs = inputs_for(model)
    plain, grads = run(model, **inputs)
    asked, asked_grads = run(
        model, **inputs, output_hidden_states=[0, 2], output_attentions=[-1]
    )
    assert_same_bits(plain, {k: v for k, v in asked.items() if k in plain})
    assert_same_bits(grads, asked_grads)


def pixels(height, width):
    return ea.attention.Spec(bias=ea.attention.RelativePositions2d(height, width))


@pytest.mark.parametrize(
    ("token", "attention", "message"),
    [
        (True, pixels(2, 4), "with a class token.*set use_class_token=False"),
        (False, pixels(2, 3), r"width is 3, but images of \[8, 12\] have 4 columns"),
        (False, ("vanilla", pixels(4, 2)), r"expected .*\(\*config\.grid\): height 2"),
    ],
    ids=["class token", "other width", "swapped"],
)
def test_positions_that_do_not_count_the_patches_are_refused(token, attention, message):
    sizes = {"image_size": [8, 12], "patch_size": [4, 3]}
    with pytest.raises(ea.ConfigError, match=message):
        ea.ViTConfig(**sizes, use_class_token=token, attention=attention)


def test_positions_that_count_the_patches_follow_the_size_of_images(tmp_path):
    plain = tiny("ViTModel", use_class_token=False, attention=None)
    assert plain.config.grid == (2, 4)
    plain.save_pretrained(tmp_path)
    model = ea.ViTModel.from_pretrained(
        tmp_path, image_size=[8, 15], attention=pixels(2, 5)
    )
    assert sum("relative_width" in name for name in model.load_report.new) == LAYERS
    assert model.interpolate_positions([16, 15]).config.grid == (4, 5)
    with pytest.raises(ea.ConfigError, match=r"width is 5.* have 4 columns"):
        model.interpolate_positions([8, 12])


def test_integers_are_pixels_as_they_are():
    model = tiny().eval()
    whole = np.random.default_rng(0).integers(0, 256, (2, 2, 8, 12))
    first = np.asarray(model(whole.astype(np.uint8)).logits)
    assert np.array_equal(first, np.asarray(model(whole.astype("f4")).logits))


# --- training -------------------------------------------------------------------------


@every_variant
def test_gradients_follow_central_differences(variant):
    model = tiny(dtype="float64", **{**NO_DROPOUT, **VARIANTS[variant]})
    assert_gradients_are_slopes(model, inputs_for(model, 3), rel=1e-5, abs=2e-7)


def test_pixels_get_a_gradient():
    model = tiny(dtype="float64", **NO_DROPOUT).eval()
    images = ea.Tensor(draw(2).astype(np.float64), requires_grad=True)
    model(images, [0, 1]).loss.backward()
    assert (np.asarray(images.grad) != 0).all()


@every_model
@every_variant
def test_every_parameter_gets_a_gradient(name, variant):
    model = tiny(name, **VARIANTS[variant])
    _, grads = run(model, **inputs_for(model))
    assert [n for n, _ in model.named_parameters() if n not in grads] == []
    # keys' biases shift all scores of a softmax row equally
    zero = [n for n, g in grads.items() if not g.any() and not n.endswith("key.bias")]
    assert zero == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_training_lowers_the_loss(dtype):
    model = tiny(dtype=dtype, **NO_DROPOUT)
    inputs = inputs_for(model, 6)
    losses = []
    optimizer = ea.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(25):
        loss = model(**inputs).loss
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("variant", ["EA", "mean", "layer scale"])
def test_any_number_of_threads_gives_the_same_bits(variant):
    count, found = ea.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            ea.set_num_threads(threads)
            model = tiny(**VARIANTS[variant])
            ea.manual_seed(3)
            found.append(run(model, **inputs_for(model, 9)))
    finally:
        ea.set_num_threads(count)
    for other in found[1:]:
        for first, second in zip(found[0], other, strict=True):
            assert_same_bits(first, second)


@pytest.mark.parametrize("variant", ["EA", "layer scale"])
def test_gradient_checkpointing_keeps_every_bit(variant):
    found = []
    for on in (False, True):
        model = tiny(**VARIANTS[variant])
        if on:
            model.gradient_checkpointing_enable()
        ea.manual_seed(4)
        found.append(run(model, **inputs_for(model)))
    for first, second in zip(*found, strict=True):
        assert_same_bits(first, second)


@pytest.mark.parametrize("path", [*ea.fast_paths(), "all"])
def test_what_stands_behind_a_fast_path_gives_the_same(path):
    found = []
    for on in (True, False):
        ea.set_fast_path(path, on)
        model = tiny(layer_scale=0.5, **NO_DROPOUT)
        found.append(run(model, **inputs_for(model)))
    for fast, plain in zip(*found, strict=True):
        floor = 1e-2 * max(np.abs(value).max() for value in plain.values())
        for key, value in plain.items():
            scale = max(np.abs(value).max(), floor)
            assert np.abs(fast[key] - value).max() <= 3e-5 * scale, key


def test_labels_of_other_kinds():
    several = tiny(problem_type="multi_label_classification").eval()
    assert several(draw(2), [[1, 0, 1], [0, 0, 1]]).loss.item() > 0
    value = tiny(num_labels=1).eval()
    out = value(draw(2), [0.5, -1.0])
    error = np.asarray(out.logits)[:, 0] - [0.5, -1.0]
    assert out.loss.item() == pytest.approx((error**2).mean(), rel=1e-6)


# --- files ----------------------------------------------------------------------------


@every_model
@every_variant
def test_save_and_load_keep_every_bit(name, variant, tmp_path):
    model = tiny(name, **VARIANTS[variant]).eval()
    model.save_pretrained(tmp_path)
    marked = (tmp_path / "evolving_model.safetensors").exists()
    assert marked == (variant != "vanilla")
    again = VITS[name].from_pretrained(tmp_path)
    assert again.load_report.new == []
    assert again.config.attention == model.config.attention
    assert_same_bits(again.state_dict(), model.state_dict())
    inputs = {"pixel_values": draw()}
    assert_same_bits(arrays_of(again(**inputs)), arrays_of(model(**inputs)))


def test_settings_that_other_libraries_lack_are_marked(tmp_path):
    for i, options in enumerate(
        ({"layer_scale": 1.0}, {"use_class_token": False}, {"pooling": "mean"})
    ):
        model = tiny(attention=None, **options).eval()
        model.save_pretrained(tmp_path / str(i))
        assert (tmp_path / str(i) / "evolving_model.safetensors").exists()
        again = ea.AutoModelForImageClassification.from_pretrained(tmp_path / str(i))
        assert_same_bits(arrays_of(again(draw())), arrays_of(model(draw())))


def test_a_body_gets_a_new_head(tmp_path):
    base = tiny("ViTModel", attention=None).eval()
    base.save_pretrained(tmp_path)
    model = ea.ViTForImageClassification.from_pretrained(
        tmp_path, num_labels=5, attention=EVOLVING
    )
    convs = [name for name in model.load_report.new if "evolving_conv" in name]
    assert len(convs) == 2 * (LAYERS - 1)
    head = set(model.load_report.new) - set(convs)
    assert head == {"classifier.weight", "classifier.bias"}
    assert model(draw()).logits.shape == (4, 5)


def test_parameters_without_embeddings():
    model = tiny("ViTModel", add_pooling_layer=False)
    table = (PATCHES + 1) * WIDTH
    apart = model.num_parameters() - model.num_parameters(exclude_embeddings=True)
    assert apart == table


# --- config ---------------------------------------------------------------------------


def test_sizes_are_one_number_or_two():
    config = ea.ViTConfig(image_size=(32, 48), patch_size=np.int64(8))
    assert (config.image_size, config.patch_size) == ([32, 48], 8)
    assert (config.grid, config.tokens) == ((4, 6), 25)
    assert ea.ViTConfig.from_dict(config.to_dict()) == config
    assert ea.ViTConfig(image_size=[32, 32]).side("image_size") == (32, 32)
    assert len(SIZES["image_size"]) == 2


MISTAKES = {
    "no number": ({"image_size": "224"}, "image_size is '224', expected pixels"),
    "three": ({"patch_size": [1, 2, 3]}, r"patch_size is \[1, 2, 3\], expected"),
    "a flag": ({"image_size": True}, "image_size is True, expected pixels"),
    "zero": ({"image_size": [0, 8]}, r"image_size is \[0, 8\], expected"),
    "large patch": ({"patch_size": 300}, "patch_size = 300 is larger than image_size"),
    "pooling": ({"pooling": "max"}, "pooling = 'max'; expected token or mean"),
    "token": (
        {"pooling": "token", "use_class_token": False},
        "pooling = 'token' without a class token",
    ),
    "scale": ({"layer_scale": -1.0}, "layer_scale is -1.0, expected a number from 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_configs(mistake):
    options, text = MISTAKES[mistake]
    with pytest.raises(ea.ConfigError, match=text):
        ea.ViTModel(ea.ViTConfig(**{**SIZES, "image_size": 24, **options}))


# --- the published models -------------------------------------------------------------

# Wang et al., TPAMI 2023, Table 10: multiply-adds in 10^9
PUBLISHED = {
    "vit_b32": 13.04,
    "vit_b16": 55.48,
    "vit_l32": 45.28,
    "vit_l16": 191.07,
    "ea_vit_b32": 13.34,
    "ea_vit_b16": 60.23,
    "ea_vit_l32": 46.39,
    "ea_vit_l16": 208.71,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_work_of_the_published_models(name, monkeypatch):
    configs = []

    def config_alone(model, config, dtype="float32", *, device="cpu"):
        configs.append(config)

    monkeypatch.setattr(ea.PreTrainedModel, "__init__", config_alone)
    ea.create_model(name)
    found = vit_flops(configs[0])
    assert found["total"] / 2e9 == pytest.approx(PUBLISHED[name], rel=1e-3)
    assert (found["map_conv"] > 0) == name.startswith("ea_")
    trained = vit_flops(configs[0], 4, training=True)
    assert trained == {part: 12 * value for part, value in found.items()}


def test_names_make_classifiers():
    small = {"hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2}
    sizes = {**small, "intermediate_size": 8, "image_size": 64}
    model = ea.create_model("ea_vit_b32", **sizes)
    assert isinstance(model, ea.ViTForImageClassification)
    assert model.config.attention == ea.attention.Evolving(alpha=0.1, beta=0.3)
    assert model.config.num_labels == 1000
    assert model.config.layer_norm_eps == 1e-6
    assert isinstance(ea.create_model("vit_l16", task="base", **sizes), ea.ViTModel)

"""ViT and DINOv2 against transformers: logits, gradients, states, and files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers_images import SIZES, draw, tiny
from helpers_models import arrays_of, assert_same_bits
from helpers_parity import as_torch, close, torch, transformers
from safetensors.numpy import load_file, save_file

import evolving_attention as ea
from evolving_attention.interop.positions import resized_positions
from evolving_attention.interop.vit import VIT
from evolving_attention.interop.vit_folders import from_timm, to_timm

pytestmark = pytest.mark.parity
SHAPES = {
    "square": {"image_size": 12, "patch_size": 4},
    "rectangular": {},
    "a rest of pixels": {"image_size": [11, 14]},
    "no qkv bias": {"qkv_bias": False},
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def theirs(shape, name="ViTForImageClassification", seed=0, **options):
    """Returns a tiny float64 transformers model; its norms and biases are perturbed."""
    torch.manual_seed(seed)
    family = "Dinov2" if name.startswith("Dinov2") else "ViT"
    sizes = {k: v for k, v in SIZES.items() if k != "intermediate_size"}
    if family == "ViT":
        sizes["intermediate_size"] = SIZES["intermediate_size"]
    config = getattr(transformers, f"{family}Config")(
        **{**sizes, "attn_implementation": "sdpa", **SHAPES[shape], **options}
    )
    model = getattr(transformers, name)(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += torch.randn_like(parameter) * 0.1
    return model


def ours(model, folder, dtype="float64", cls=None, **options):
    model.save_pretrained(folder)
    cls = cls or getattr(ea, type(model).__name__)
    return cls.from_pretrained(folder, dtype=dtype, **options)


def images(shape):
    size = {**SIZES, **SHAPES[shape]}["image_size"]
    return draw(3, size=tuple(size) if isinstance(size, list) else (size, size))


def same_gradients(mine, model, dtype):
    """Compares all gradients; transformers' names follow its modules."""
    expected = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            expected[VIT.canonical(name)] = parameter.grad.numpy()
    found = {n: t.grad for n, t in mine.named_parameters() if t.grad is not None}
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        close(gradient, expected[name], dtype, name)


@every_shape
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_logits_loss_and_gradients(shape, dtype, tmp_path):
    model = theirs(shape, num_labels=5)
    mine = ours(model, tmp_path, dtype)
    assert mine.load_report.unexpected == mine.load_report.new == []
    given = {"pixel_values": images(shape), "labels": np.array([4, 0, 2])}
    expected = model(**as_torch(given))
    expected.loss.backward()
    out = mine(**given)
    out.loss.backward()
    close(out.logits, expected.logits.detach().numpy(), dtype)
    close(out.loss, expected.loss.detach().numpy(), dtype)
    same_gradients(mine, model, dtype)


def test_states_maps_and_pooler(tmp_path):
    # transformers' maps (always float32) come from the "eager" implementation
    model = theirs("rectangular", "ViTModel", attn_implementation="eager").float()
    mine = ours(model, tmp_path, "float32")
    wanted = {"output_attentions": True, "output_hidden_states": True}
    given = images("rectangular")
    expected = model(torch.from_numpy(given), **wanted)
    found = mine(given, **wanted)
    for name in ("last_hidden_state", "pooler_output"):
        close(found[name], expected[name].detach().numpy(), "float32", name)
    # our last state is the one after the final norm
    states = zip(found.hidden_states[:-1], expected.hidden_states[:-1], strict=True)
    for i, (state, other) in enumerate(states):
        close(state, other.detach().numpy(), "float32", f"state {i}")
    close(
        found.hidden_states[-1], expected.last_hidden_state.detach().numpy(), "float32"
    )
    for i, (maps, other) in enumerate(
        zip(found.attentions, expected.attentions, strict=True)
    ):
        close(maps, other.detach().numpy(), "float32", f"map {i}")


def test_transformers_reads_what_we_write(tmp_path):
    mine = tiny(attention=None, dtype="float64").eval()
    mine.save_pretrained(tmp_path)
    model = transformers.ViTForImageClassification.from_pretrained(
        tmp_path, dtype=torch.float64
    )
    expected = model.eval()(torch.from_numpy(draw()).double()).logits
    close(mine(draw()).logits, expected.detach().numpy(), "float64")


def test_module_names_of_later_versions_are_taken(tmp_path):
    model = theirs("square")
    mine = ours(model, tmp_path)
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    assert not set(state) <= set(dict(mine.named_parameters()))
    again = ea.ViTForImageClassification(mine.config, "float64").eval()
    assert again.load_state_dict(state).missing == []
    assert_same_bits(again.state_dict(), mine.state_dict())


def test_dinov2(tmp_path):
    """A backbone with layer scale and its own parameter names."""
    shape = "square"  # transformers supports only square
    model = theirs(shape, "Dinov2Model", mlp_ratio=2)
    mine = ours(model, tmp_path, cls=ea.ViTModel)
    assert mine.load_report.unexpected == mine.load_report.new == []
    assert mine.config.intermediate_size == 32
    out = mine(images(shape))
    expected = model(torch.from_numpy(images(shape)).double())
    (expected.last_hidden_state**2).sum().backward()
    (out.last_hidden_state * out.last_hidden_state).sum().backward()
    close(out.last_hidden_state, expected.last_hidden_state.detach().numpy(), "float64")
    scale = dict(mine.named_parameters())["encoder.layer.1.layer_scale2.lambda1"]
    other = model.encoder.layer[1].layer_scale2.lambda1
    close(scale.grad, other.grad.numpy(), "float64")
    assert mine.config.layer_scale == 1.0


def test_pixels_of_imagenet(tmp_path):
    """The classifier's features equal transformers' of ImageNet-normalised pixels."""
    model = theirs("square", "Dinov2Model", num_channels=3).float()
    model.save_pretrained(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 12, 12, 3), np.uint8)
    classifier = ea.ImageClassifier(
        pretrained=tmp_path,
        attention="vanilla",
        normalize="imagenet",
        learning_rate=1e-12,
        n_epochs=1,
        validation_fraction=0.0,
        random_state=0,
    ).fit(pixels, np.arange(6) % 2)
    mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    given = ((pixels / 255 - mean) / deviation).transpose(0, 3, 1, 2)
    expected = model(torch.from_numpy(given).float()).pooler_output.detach().numpy()
    assert np.abs(classifier.embed(pixels) - expected).max() < 1e-5


@pytest.mark.parametrize("kind", ["timm", "dinov2", "dinov2_with_registers"])
def test_which_class_reads_a_folder(kind, tmp_path):
    if kind == "timm":
        write_timm(tmp_path, timm_tensors())
        text = r"folder of timm \(vit_tiny_patch4_12\), .*load it with ea\.ViTModel"
    else:
        theirs("square", "Dinov2Model").save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        config["model_type"] = kind
        (tmp_path / "config.json").write_text(json.dumps(config))
        text = r"model_type 'dinov2' .* \(ea\.ViTModel reads dinov2\)"
    if kind == "dinov2_with_registers":
        with pytest.raises(ea.CheckpointError, match="no class here loads it"):
            ea.ViTModel.from_pretrained(tmp_path)
        return
    with pytest.raises(ea.CheckpointError, match=text):
        ea.AutoModelForImageClassification.from_pretrained(tmp_path)


def test_settings_of_dinov2_that_vit_lacks(tmp_path):
    theirs("square", "Dinov2Model", use_swiglu_ffn=True).save_pretrained(tmp_path)
    with pytest.raises(ea.ConfigError, match="use_swiglu_ffn is True, expected none"):
        ea.ViTModel.from_pretrained(tmp_path)


# --- names of timm --------------------------------------------------------------------

# Names of timm.models.vision_transformer.VisionTransformer, depth=1, init_values=1.0.
TIMM = {
    "cls_token": (1, 1, 16),
    "pos_embed": (1, 10, 16),
    "patch_embed.proj.weight": (16, 2, 4, 4),
    "patch_embed.proj.bias": (16,),
    "blocks.0.norm1.weight": (16,),
    "blocks.0.norm1.bias": (16,),
    "blocks.0.attn.qkv.weight": (48, 16),
    "blocks.0.attn.qkv.bias": (48,),
    "blocks.0.attn.proj.weight": (16, 16),
    "blocks.0.attn.proj.bias": (16,),
    "blocks.0.ls1.gamma": (16,),
    "blocks.0.norm2.weight": (16,),
    "blocks.0.norm2.bias": (16,),
    "blocks.0.mlp.fc1.weight": (20, 16),
    "blocks.0.mlp.fc1.bias": (20,),
    "blocks.0.mlp.fc2.weight": (16, 20),
    "blocks.0.mlp.fc2.bias": (16,),
    "blocks.0.ls2.gamma": (16,),
    "norm.weight": (16,),
    "norm.bias": (16,),
    "head.weight": (3, 16),
    "head.bias": (3,),
}


def timm_tensors(seed=0):
    rng = np.random.default_rng(seed)
    return {n: rng.normal(0, 0.3, shape) for n, shape in TIMM.items()}


def timm_logits(w, x, heads=2, eps=1e-6):
    """Computes the forward pass of timm's ViT in torch."""
    f = torch.nn.functional
    w = {name: torch.from_numpy(value) for name, value in w.items()}
    x = f.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=4)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([w["cls_token"].expand(len(x), -1, -1), x], dim=1) + w["pos_embed"]

    def norm(x, name):
        return f.layer_norm(x, (16,), w[f"{name}.weight"], w[f"{name}.bias"], eps)

    def affine(x, name):
        return f.linear(x, w[f"blocks.0.{name}.weight"], w[f"blocks.0.{name}.bias"])

    b, n, _ = x.shape
    qkv = affine(norm(x, "blocks.0.norm1"), "attn.qkv")
    q, k, v = qkv.reshape(b, n, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    y = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, -1)
    x = x + affine(y, "attn.proj") * w["blocks.0.ls1.gamma"]
    y = f.gelu(affine(norm(x, "blocks.0.norm2"), "mlp.fc1"))
    x = x + affine(y, "mlp.fc2") * w["blocks.0.ls2.gamma"]
    return f.linear(norm(x, "norm")[:, 0], w["head.weight"], w["head.bias"])


def write_timm(folder, tensors, **config):
    save_file(tensors, folder / "model.safetensors")
    values = {
        "architecture": "vit_tiny_patch4_12",
        "num_classes": 3,
        "num_features": 16,
        "global_pool": "token",
        "pretrained_cfg": {"input_size": [2, 12, 12]},
        **config,
    }
    (folder / "config.json").write_text(json.dumps(values))


def test_a_folder_of_timm(tmp_path):
    tensors = timm_tensors()
    write_timm(tmp_path, tensors)
    mine = ea.ViTForImageClassification.from_pretrained(
        tmp_path, dtype="float64", num_attention_heads=2
    )
    assert mine.load_report.unexpected == mine.load_report.new == []
    x = draw(3, size=(12, 12)).astype(np.float64)
    close(mine(x).logits, timm_logits(tensors, torch.from_numpy(x)).numpy(), "float64")
    mine.save_timm(tmp_path / "again")
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["model_args"]["num_heads"] == 2
    assert config["num_classes"] == 3
    again = ea.ViTForImageClassification.from_pretrained(
        tmp_path / "again", dtype="float64"
    )
    assert_same_bits(arrays_of(again(x)), arrays_of(mine(x)))
    written = load_file(tmp_path / "again" / "model.safetensors")
    assert_same_bits(written, tensors)


def test_names_go_both_ways():
    tensors = timm_tensors()
    assert_same_bits(to_timm(from_timm(tensors)), tensors)
    with pytest.raises(ea.ConfigError, match="timm's ViT has nothing like pooler"):
        to_timm({"pooler.dense.weight": np.zeros((2, 2))})


def test_the_mean_of_patches_in_timm(tmp_path):
    tensors = timm_tensors()
    del tensors["cls_token"]
    tensors["pos_embed"] = tensors["pos_embed"][:, 1:].copy()
    write_timm(tmp_path, tensors, global_pool="avg", model_args={"num_heads": 4})
    mine = ea.ViTForImageClassification.from_pretrained(tmp_path)
    assert mine.config.reads_mean
    assert not mine.config.use_class_token
    assert mine.config.num_attention_heads == 4
    assert mine(draw(1, size=(12, 12))).logits.shape == (1, 3)


def test_heads_that_nothing_tells(tmp_path):
    write_timm(tmp_path, timm_tensors(), architecture="vit_own")
    with pytest.raises(ea.ConfigError, match="pass num_attention_heads="):
        ea.ViTModel.from_pretrained(tmp_path)


def test_other_architectures_of_timm_are_refused(tmp_path):
    write_timm(tmp_path, {"stem.weight": np.zeros((2, 2))}, architecture="resnet18")
    with pytest.raises(ea.CheckpointError, match="'resnet18' is not timm's plain ViT"):
        ea.ViTModel.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"model_args": [1]}, "model_args is .1., expected an object"),
        ({"pretrained_cfg": {"input_size": "many"}}, None),
        ({"model_args": {"img_size": [12]}}, None),
        ({"model_args": {"num_heads": "two"}, "architecture": "vit_own"}, "heads"),
        ({"model_args": {"init_values": [1]}}, r"init_values is \[1\], expected a num"),
    ],
    ids=["arguments", "size", "one side", "heads", "scale"],
)
def test_configs_of_timm_with_odd_values(change, text, tmp_path):
    tensors = timm_tensors()
    write_timm(tmp_path, tensors, **change)
    given = {} if text else {"num_attention_heads": 2}
    if text is None:  # the position table gives the size
        mine = ea.ViTForImageClassification.from_pretrained(tmp_path, **given)
        assert mine.config.image_size == [12, 12]
        return
    with pytest.raises(ea.ConfigError, match=text):
        ea.ViTForImageClassification.from_pretrained(tmp_path, **given)


def test_a_patch_of_no_pixels(tmp_path):
    tensors = timm_tensors()
    tensors["patch_embed.proj.weight"] = np.zeros((16, 2, 0, 4))
    write_timm(tmp_path, tensors)
    with pytest.raises(ea.CheckpointError, match="is not timm's plain ViT"):
        ea.ViTModel.from_pretrained(tmp_path)


def test_what_timm_does_not_compute_is_not_written(tmp_path):
    with pytest.raises(ea.ConfigError, match="timm's ViT has no its attention"):
        tiny().save_timm(tmp_path)
    with pytest.raises(ea.ConfigError, match=r"layer_norm_eps=0.001, expected about"):
        tiny(attention=None, layer_norm_eps=1e-3).save_timm(tmp_path)
    with pytest.raises(ea.ConfigError, match=r"no hidden_act='tanh', expected .*relu"):
        tiny(attention=None, hidden_act="tanh").save_timm(tmp_path)


@pytest.mark.parametrize("eps", [1e-12, 1e-6])
def test_the_epsilon_of_norms_is_kept_in_a_folder_of_timm(eps, tmp_path):
    mine = tiny(attention=None, layer_norm_eps=eps).eval()
    mine.save_timm(tmp_path)
    again = ea.ViTForImageClassification.from_pretrained(tmp_path)
    assert again.config.layer_norm_eps == eps
    assert_same_bits(arrays_of(again(draw())), arrays_of(mine(draw())))


def test_the_folder_names_an_architecture_that_timm_has(tmp_path):
    tiny(attention=None, image_size=32, patch_size=8).save_timm(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architecture"] == "vit_base_patch16_224"
    sizes = config["model_args"]
    assert (sizes["img_size"], sizes["patch_size"]) == ([32, 32], [8, 8])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("global_pool", "max"),
        ("global_pool", "avgmax"),
        ("global_pool", ""),
        ("act_layer", "quick_gelu"),
        ("norm_layer", "groupnorm1"),
        ("pool_include_prefix", True),
    ],
)
def test_settings_of_timm_that_vit_lacks(name, value, tmp_path):
    write_timm(tmp_path, timm_tensors(), model_args={"num_heads": 2, name: value})
    with pytest.raises(ea.ConfigError, match=f"{name} is {value!r}, expected"):
        ea.ViTForImageClassification.from_pretrained(tmp_path)


def test_pooling_of_timm_without_arguments(tmp_path):
    write_timm(tmp_path, timm_tensors(), global_pool="avgmax")
    with pytest.raises(ea.ConfigError, match="global_pool is 'avgmax'"):
        ea.ViTForImageClassification.from_pretrained(tmp_path, num_attention_heads=2)


@pytest.mark.parametrize(
    ("layer", "act"), [("gelu", "gelu"), ("gelu_tanh", "gelu_new"), ("relu", "relu")]
)
def test_activations_of_timm(layer, act, tmp_path):
    arguments = {"num_heads": 2, "act_layer": layer}
    write_timm(tmp_path, timm_tensors(), model_args=arguments)
    model = ea.ViTForImageClassification.from_pretrained(tmp_path)
    assert model.config.hidden_act == act
    model.save_timm(tmp_path / "again")
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["model_args"].get("act_layer", "gelu") == layer
    again = ea.ViTForImageClassification.from_pretrained(tmp_path / "again")
    assert again.config.hidden_act == act


@pytest.mark.parametrize(
    ("name", "heads", "act"),
    [
        ("vit_base_patch16_gap_224", 16, "gelu"),
        ("vit_base_patch16_224", 12, "gelu"),
        ("vit_base_patch32_plus_256", 14, "gelu"),
        ("vit_base_patch16_siglip_gap_256", 12, "gelu"),
        ("vit_base_patch32_siglip_gap_256", 12, "gelu_new"),
        ("vit_large_patch16_siglip_gap_384", 16, "gelu"),
        ("vit_large_patch16_siglip_gap_512", 16, "gelu_new"),
    ],
)
def test_what_timm_tells_by_the_name_of_the_architecture(name, heads, act, tmp_path):
    model = tiny(attention=None, hidden_size=4 * heads, num_attention_heads=heads)
    model.save_timm(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    given = config["model_args"]
    config.update(architecture=name, model_args={})
    (tmp_path / "config.json").write_text(json.dumps(config))
    read = ea.ViTForImageClassification.from_pretrained(tmp_path).config
    assert (read.num_attention_heads, read.hidden_act) == (heads, act)
    given.update(num_heads=heads // 2, act_layer="relu")  # these win
    config["model_args"] = given
    (tmp_path / "config.json").write_text(json.dumps(config))
    read = ea.ViTForImageClassification.from_pretrained(tmp_path).config
    assert (read.num_attention_heads, read.hidden_act) == (heads // 2, "relu")


def test_blocks_that_timm_tells_by_the_name_alone(tmp_path):
    write_timm(tmp_path, timm_tensors(), architecture="vit_base_patch16_rpn_224")
    with pytest.raises(ea.ConfigError, match="block_fn is 'ResPostBlock', expected"):
        ea.ViTForImageClassification.from_pretrained(tmp_path)


# --- positions ------------------------------------------------------------------------


@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize(
    ("grid", "target"), [((14, 14), (24, 24)), ((3, 5), (7, 2)), ((4, 4), (1, 9))]
)
def test_positions_are_resized_as_by_scipy(grid, target, token):
    zoom = pytest.importorskip("scipy.ndimage").zoom
    table = np.random.default_rng(0).normal(size=(1, grid[0] * grid[1] + token, 8))
    square = table[0, int(token) :].reshape(*grid, 8)
    factors = (target[0] / grid[0], target[1] / grid[1], 1)
    expected = zoom(square, factors, order=1).reshape(-1, 8)
    found = resized_positions(table, grid, target)
    assert found.shape == (1, target[0] * target[1] + token, 8)
    assert np.abs(found[0, int(token) :] - expected).max() < 1e-12
    assert np.array_equal(found[:, : int(token)], table[:, : int(token)])


def test_images_of_another_size(tmp_path):
    model = tiny(dtype="float64").eval()
    model.save_pretrained(tmp_path)
    loaded = ea.ViTForImageClassification.from_pretrained(
        tmp_path, dtype="float64", image_size=[16, 15]
    )
    x = draw(2, size=(16, 15))
    table = model.state_dict()["vit.embeddings.position_embeddings"].copy()
    moved = model.interpolate_positions([16, 15])
    assert moved is model
    assert model.config.image_size == [16, 15]
    assert_same_bits(arrays_of(loaded(x)), arrays_of(model(x)))
    expected = resized_positions(table, (2, 4), (4, 5))
    held = model.state_dict()["vit.embeddings.position_embeddings"]
    assert np.array_equal(held, expected)
    assert not model.training

"""Image classifiers: default patches, scales of pixels, features and attention maps."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_data import TINY, stripes

import evolving_attention as ea
from evolving_attention.data.images import read_pictures
from evolving_attention.estimators.image_models import _patch

pytest.importorskip("sklearn", reason="needs scikit-learn (extra: image)")
X, Y = stripes()
ONCE: dict[str, Any] = {**TINY, "n_epochs": 1}

# --- patches --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "patch"),
    [
        ((8, 8), 1),
        ((32, 32), 4),
        ((96, 96), 12),
        ((224, 224), 16),
        ((32, 64), 4),
        # an eighth does not divide these
        ((28, 28), 4),
        ((50, 50), 5),
        ((100, 100), 10),
        ((150, 300), 15),
    ],
)
def test_the_default_patch_divides_the_sides(size: tuple[int, int], patch: int) -> None:
    assert _patch(size) == patch
    assert [side % patch for side in size] == [0, 0]


def test_patches_that_divided_the_sides_are_as_before() -> None:
    for height in range(1, 300):
        for width in {height, height + 1, 2 * height, 40, 224}:
            side = min(height, width)
            before = 16 if side >= 128 else max(1, side // 8)
            if math.gcd(height, width) % before == 0:
                assert _patch((height, width)) == before


@pytest.mark.parametrize(("side", "size"), [(28, 28), (31, 30)])
def test_the_model_sees_every_pixel(side: int, size: int) -> None:
    """No patch divides 31: the pictures are resized. Borders reach the classes."""
    pytest.importorskip("PIL", reason="needs Pillow (extra: image)")
    x, y = stripes(side=side)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ea.ImageClassifier(**ONCE).fit(x, y)
    config = model.model_.config
    assert model.size_ == (size, size)
    assert [n * config.patch_size for n in config.grid] == [size, size]
    odds = model.predict_proba(x)
    for border in (np.s_[:, -1], np.s_[:, :, -1]):
        changed = x.copy()
        changed[border] = 255 - changed[border]
        assert not np.array_equal(model.predict_proba(changed), odds)


def test_pixels_beyond_the_last_patch_are_told() -> None:
    said = r"last 2 rows and 2 columns of pictures of 8 x 8 .*image_size=\[9, 9\]"
    with pytest.warns(UserWarning, match=said) as told:
        model = ea.ImageClassifier(**ONCE, patch_size=3).fit(X, Y)
    assert told[0].filename == __file__
    assert model.model_.config.grid == (2, 2)
    with pytest.warns(UserWarning, match=r"last 0 rows and 1 columns .* 12 x 13"):
        ea.ImageClassifier(**ONCE, image_size=[12, 13], patch_size=[4, 6]).fit(X, Y)


# --- scales ---------------------------------------------------------------------------

SIXTEENTHS = (X // 16).astype(np.float32)  # 0 to 15, as scikit-learn's digits


@pytest.fixture(scope="module")
def sixteenths() -> Any:
    return ea.ImageClassifier(**ONCE).fit(SIXTEENTHS, Y)


def test_floats_of_any_scale_keep_it(sixteenths: Any, tmp_path: Path) -> None:
    sixteenths.save(tmp_path)
    for model in (sixteenths, ea.ImageClassifier.load(tmp_path)):
        assert model.in_bytes_ is None
        least, lowest, highest = model.scale_
        peaks = SIXTEENTHS.max(axis=(1, 2))
        assert (least, lowest, highest) == (0, peaks.min(), peaks.max())
        centred = SIXTEENTHS - SIXTEENTHS.mean()
        for other in (SIXTEENTHS / 16, centred, X // 16 * np.uint8(16)):
            with pytest.raises(ea.DataError, match=r"X\[0\]: pixels from .*scale them"):
                model.predict(other)
    odds = sixteenths.predict_proba(SIXTEENTHS)
    assert np.array_equal(sixteenths.predict_proba(X // 16), odds)  # the same numbers
    sixteenths.predict(SIXTEENTHS / 4)  # darker
    sixteenths.predict(SIXTEENTHS[:1] * 0)  # black


def test_dark_pictures_of_bytes_are_on_their_scale() -> None:
    model = ea.ImageClassifier(**ONCE).fit(X, Y)
    assert model.in_bytes_ is True
    for dark in (X // 50, X // 200, X * 0):
        model.predict(dark)
    with pytest.raises(ea.DataError, match="scale them alike"):
        model.predict((X // 50).astype(np.float32))


def test_masks_have_a_scale() -> None:
    masks = (X > 99).view(np.uint8)
    model = ea.ImageClassifier(**ONCE).fit(masks, Y)
    model.predict(masks.astype(float))
    with pytest.raises(ea.DataError, match="scale them alike"):
        model.predict(masks.astype(bool))  # becomes 0 and 255


def test_negative_pixels_of_training_allow_positive_ones() -> None:
    scaled = (X - X.mean()) / X.std()
    model = ea.ImageClassifier(**ONCE).fit(scaled, Y)
    for values in (scaled, np.abs(scaled)):
        model.predict(values)


# --- inside ---------------------------------------------------------------------------

NETWORKS: dict[str, dict[str, Any]] = {
    "token": ONCE,
    "mean": {**ONCE, "pooling": "mean"},
    "resnet": {
        "architecture": "resnet",
        "model_options": {
            "embedding_size": 8,
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "layer_type": "basic",
        },
        "n_epochs": 1,
    },
    "pa_cifar_net": {
        "architecture": "pa_cifar_net",
        "model_options": {"hidden_sizes": [8, 8, 16], "depths": [1, 1, 2]},
        "n_epochs": 1,
    },
}


@pytest.mark.parametrize("network", NETWORKS)
def test_features_are_what_the_last_layer_reads(network: str) -> None:
    x, y = stripes(8, 32)
    model = ea.ImageClassifier(**NETWORKS[network]).fit(x, y)
    found = model.embed(x)
    assert (found.dtype, found.shape[0]) == (np.float32, 8)
    state = {k: np.asarray(v) for k, v in model.model_.state_dict().items()}
    (weight,) = [k for k in state if k.startswith("classifier") and "weight" in k]
    logits = found @ state[weight].T + state[weight.replace("weight", "bias")]
    odds = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(odds, model.predict_proba(x), atol=1e-6)
    np.testing.assert_allclose(model.embed(model.read(x[:3])), found[:3], atol=1e-6)


def test_attention_maps_are_those_of_the_model() -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib (extra: plots)")
    x, y = stripes(8, 32)
    model = ea.ImageClassifier(**{**ONCE, "num_hidden_layers": 3}).fit(x, y)
    maps = model.attention_maps(x)
    assert len(maps) == 8
    assert (maps[0].dtype, maps[0].shape) == (np.float32, (3, 2, 65, 65))
    pixels = (x[:, None] - np.array(model.mean_)) / np.array(model.deviation_)
    out = model.model_(pixels.astype(np.float32), output_attentions=True)
    expected = np.stack([one.numpy() for one in out.attentions], axis=1)
    np.testing.assert_allclose(np.stack(maps), expected, atol=1e-5)
    for one, every in zip(model.attention_maps(x, [2, 0]), maps, strict=True):
        np.testing.assert_allclose(one, every[[2, 0]], atol=1e-6)
    figure = ea.plots.picture_attention(x[0], maps[0], grid=model.model_.config.grid)
    assert len(figure.axes) >= 4  # the picture, and a panel for each layer
    for layers in (3, -1, [], "first"):
        with pytest.raises(
            ea.ConfigError, match="with 3 layers of attention, expected"
        ):
            model.attention_maps(x, layers)
    with pytest.raises(ea.DataError, match="pixels are floats up to 1"):
        model.attention_maps(x / 255)


def test_attention_maps_of_other_networks() -> None:
    x, y = stripes(8, 32)
    plain = ea.ImageClassifier(**NETWORKS["resnet"]).fit(x, y)
    with pytest.raises(ea.ConfigError, match=r"0 layers of attention.*network with"):
        plain.attention_maps(x)
    net = ea.ImageClassifier(**NETWORKS["pa_cifar_net"]).fit(x, y)
    maps = net.attention_maps(x)
    assert (len(maps), maps[0].shape) == (8, (2, 4, 64, 64))
    stages = {"hidden_sizes": [8, 32, 32, 32], "depths": [1, 1, 1, 1]}
    deep = ea.ImageClassifier(
        architecture="aa_resnet34",
        model_options={**stages, "embedding_size": 8, "num_attention_heads": 2},
        n_epochs=1,
    ).fit(*stripes(8, 64))
    with pytest.raises(ea.ConfigError, match=r"maps of \[4, 16\] rows.*choose some by"):
        deep.attention_maps(stripes(8, 64)[0])
    assert deep.attention_maps(stripes(8, 64)[0], 0)[0].shape == (1, 2, 16, 16)


@pytest.mark.parametrize("name", ["half", "imagenet"])
def test_floats_up_to_one_are_refused_where_bytes_are_expected(name: str) -> None:
    model = ea.ImageClassifier(**ONCE, normalize=name)
    x = np.repeat(X[..., None], 3, axis=3)
    said = f"X.0.: pixels are floats up to 1 .*, expected 0 to 255 for .*'{name}'; pass"
    for wrong in (x / 255, x / 127.5 - 1):
        with pytest.raises(ea.DataError, match=said):
            model.fit(wrong, Y)
    model.fit(x.astype(np.float32), Y)


@pytest.mark.parametrize("share", [None, 0.5])
def test_options_of_the_next_fit_change_no_prediction(
    share: Any, tmp_path: Path
) -> None:
    model = ea.ImageClassifier(**ONCE, image_size=4, resized_crop=share).fit(X, Y)
    odds = model.predict_proba(X)
    model.set_params(resized_crop=None if share else 0.5)
    assert np.array_equal(model.predict_proba(X), odds)
    model.save(tmp_path)
    loaded = ea.ImageClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(X), odds)
    assert loaded.score(X, Y) == model.score(X, Y)
    file = tmp_path / "estimator.json"
    record = json.loads(file.read_text())
    del record["centred"]  # as earlier versions saved it
    record["options"]["resized_crop"] = share
    file.write_text(json.dumps(record))
    assert np.array_equal(ea.ImageClassifier.load(tmp_path).predict_proba(X), odds)


# --- folders --------------------------------------------------------------------------


def test_pictures_of_one_class_are_predicted_but_not_learnt(tmp_path: Path) -> None:
    image_module = pytest.importorskip(
        "PIL.Image", reason="needs Pillow (extra: image)"
    )
    colours = np.repeat(X[..., None], 3, axis=3).astype(np.uint8)
    (tmp_path / "a").mkdir()
    for i, picture in enumerate(colours[:3]):
        image_module.fromarray(picture).save(tmp_path / "a" / f"{i}.png")
    model = ea.ImageClassifier(**ONCE).fit(colours, Y)
    assert np.array_equal(model.predict(tmp_path), model.predict(colours[:3]))
    with pytest.raises(ea.InputError, match=r"3 pictures .* of one class, \['a'\]"):
        ea.ImageClassifier(**ONCE).fit(tmp_path)


# --- checkpoints ----------------------------------------------------------------------


def test_a_checkpoint_keeps_its_attention(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {name: TINY[name] for name in list(TINY)[:3]}
    sizes |= {"image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 2}
    still = {**ONCE, "learning_rate": 0.0, "pretrained": tmp_path}
    kinds = ea.attention
    for held in (kinds.Predictive(0.9), kinds.Evolving(0.9, 0.9)):
        config = ea.ViTConfig(attention=held, **sizes)
        first = ea.ViTForImageClassification(config)
        first.save_pretrained(tmp_path)
        found = ea.ImageClassifier(**still).fit(X, Y).model_
        assert found.config.attention == held
        assert not found.load_report.new
        for name, value in found.state_dict().items():
            assert np.array_equal(value, first.state_dict()[name]), name
    given = kinds.Evolving(0.2, 0.2)
    found = ea.ImageClassifier(**still, attention=given).fit(X, Y).model_
    assert found.config.attention == given
    for plain in (kinds.Vanilla(), [kinds.Vanilla()] * sizes["num_hidden_layers"]):
        config = ea.ViTConfig(attention=plain, **sizes)
        ea.ViTForImageClassification(config).save_pretrained(tmp_path)
        found = ea.ImageClassifier(**still).fit(X, Y).model_
        assert found.config.attention == kinds.Evolving(0.1, 0.3)


def test_a_checkpoint_of_another_network_or_size(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"hidden_sizes": [8, 8, 16], "depths": [1, 1, 2]}
    net = ea.create_model("pa_cifar_net", image_size=32, num_labels=2, **sizes)
    net.save_pretrained(tmp_path / "net")
    text = ea.BertConfig(vocab_size=9, hidden_size=24, num_hidden_layers=1)
    ea.BertModel(text).save_pretrained(tmp_path / "text")
    x, y = stripes(8, 64)
    cifar = {"architecture": "cifar_net", "n_epochs": 1}
    for held, options, says in (
        ("net", ONCE, "'cifar_net', expected 'vit'; pass architecture='cifar_net'$"),
        ("text", ONCE, "is 'bert', expected 'vit'; give an image model's folder$"),
        ("net", cifar, r"image_size=\[64, 64\] .*; pass image_size=32$"),
    ):
        model = ea.ImageClassifier(**options, pretrained=tmp_path / held)
        with pytest.raises(ea.ConfigError, match=says):
            model.fit(x, y)


def test_pictures_that_another_classifier_read() -> None:
    """Those read in another way are refused; predict does not see the difference."""
    x, y = stripes()
    plain = ea.ImageClassifier(**ONCE).fit(x, y)
    same = ea.ImageClassifier(**{**ONCE, "random_state": 1}).fit(x, y)
    centre = ea.ImageClassifier(**ONCE, resized_crop=0.5).fit(x, y)
    sizes = {"hidden_sizes": [8] * 4, "depths": [1] * 4, "embedding_size": 8}
    net = {"architecture": "resnet", "model_options": sizes, "n_epochs": 1}
    small, large = (
        ea.ImageClassifier(**net, image_size=side).fit(x, y) for side in (24, 40)
    )
    given, odds = plain.read(x), same.predict_proba(x)
    assert np.array_equal(same.predict_proba(given), odds)
    assert np.array_equal(same.predict_proba(read_pictures(x)), odds)
    height, width = plain.size_
    read = f"{height} x {width} pixels .height x width. of "
    for model, other, told in (
        (plain, centre, read + "the centre, expected"),
        (centre, plain, read + "the whole picture, expected"),
        (
            small,
            large,
            "at 40 x 40 .*expected 24 x 24 of the whole picture, as",
        ),
    ):
        theirs = read_pictures(other.read(x))  # read again, they are the same
        for use in (model.predict, model.embed, model.read):
            with pytest.raises(ea.InputError, match=told):
                use(theirs)
        for score in (model.score, model.evaluate):
            with pytest.raises(ea.InputError, match=told):
                score(theirs, y)


def test_weights_of_a_score() -> None:
    given = np.stack([X, X], axis=3) / 255.0
    model = ea.ImageClassifier(**ONCE, on_error="skip").fit(given, Y)
    hits = model.predict(given) == Y
    weight = np.where(hits, 3.0, 1.0) * np.linspace(0.1, 1, len(Y))
    expected = np.average(hits, weights=weight)
    assert model.score(given, Y, sample_weight=weight) == pytest.approx(expected)
    for bad, says in (
        (
            np.where(weight == weight[4], np.nan, 1),
            r"sample_weight\[4\] = nan, expected",
        ),
        (
            np.where(weight == weight[4], -5, 1),
            r"\[4\] = -5.0, expected .* a picture of",
        ),
        (np.zeros(len(Y)), "0 of 24 weights are non-zero, expected at least 1"),
        ([1, 2], r"shape \(2,\) for 24 pictures, expected \[24\]"),
        (["much"] * len(Y), "expected one number for each picture"),
    ):
        with pytest.raises((ea.InputError, ea.ShapeError), match=says):
            model.score(given, Y, sample_weight=bad)
    given[5, 2, 3, 1] = np.inf  # skipped, as its weight is
    kept = np.arange(len(Y)) != 5
    with pytest.warns(UserWarning, match="1 of 24 pictures cannot be used"):
        found = model.score(given, Y, sample_weight=weight)
    expected = np.average(hits[kept], weights=weight[kept])
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"architecture": "aa_resnet", "image_size": 20}, "stage 3 has 2 x 2 pixels"),
        ({"architecture": "cifar_net", "image_size": 33}, "expected multiples of 8"),
        ({"image_size": 3, "patch_size": 4}, "patch_size = 4 is larger"),
        ({"image_size": 4, "cutout": 4}, "cutout=4 for pictures of 4 x 4 pixels"),
    ],
)
def test_an_impossible_size_is_refused_before_pictures_are_read(options, says):
    with pytest.raises(ea.ConfigError, match=says):
        ea.ImageClassifier(**options).fit("no such folder")


def test_model_options_name_the_labels_beside_an_image_size():
    named = {"model_options": {"id2label": dict(enumerate("abc"))}}
    made = ea.ImageClassifier(**ONCE, image_size=8, **named).fit(
        X, np.arange(len(X)) % 3
    )
    assert made.model_.config.num_labels == 3

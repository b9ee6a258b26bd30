"""ImageClassifier: scikit-learn's conventions, pictures of every form, files."""

from __future__ import annotations

import copy
import errno
import itertools
import json
import pickle
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_data import TINY, folder_of, stripes
from series_data import signal_sender

import evolving_attention as ea
from evolving_attention import durable
from evolving_attention.data.image_transforms import Normalize, centred, resized
from evolving_attention.estimators import image_models
from evolving_attention.estimators import images as image_estimator
from evolving_attention.metrics import confusion_matrix, top_k

pytest.importorskip("sklearn", reason="needs scikit-learn (extra: image)")
X, Y = stripes()


def fitted(**options: Any) -> Any:
    return ea.ImageClassifier(**{**TINY, **options}).fit(X, Y)


@pytest.fixture(scope="module")
def model() -> Any:
    return fitted(n_epochs=30, learning_rate=1e-2, patch_size=4)


def test_it_learns(model: Any) -> None:
    assert model.score(*stripes(40, seed=9)) == 1.0
    assert model.classes_.tolist() == ["a", "b"]
    config = model.model_.config
    assert (config.image_size, config.patch_size, config.num_channels) == ([8, 8], 4, 1)
    assert config.attention == ea.attention.Evolving(alpha=0.1, beta=0.3)
    assert len(model.history_) == 30
    losses = [row["loss"] for row in model.history_]
    assert losses[-1] < 0.5 * losses[0]
    assert {"validation_loss", "validation_accuracy"} <= model.history_[0].keys()


def test_predictions_fit_together(model: Any) -> None:
    odds = model.predict_proba(X)
    assert odds.shape == (24, 2)
    assert np.allclose(odds.sum(axis=1), 1.0)
    assert model.predict(X).tolist() == np.array(["a", "b"])[odds.argmax(1)].tolist()
    found = model.evaluate(X, Y)
    assert found["top1"] == model.score(X, Y)
    assert found["top5"] == 1.0
    assert found["pictures"] == found["confusion"].sum() == 24
    hits = np.trace(found["confusion"]) / 24
    assert hits == pytest.approx(found["top1"])
    own = odds[np.arange(24), (Y == "b").astype(int)]
    assert found["loss"] == pytest.approx(-np.log(own).mean())
    assert np.array_equal(model.predict_proba(X[:, :, :, None]), odds)
    assert np.array_equal(model.predict_proba(model.read(X)), odds)


def test_conventions_of_scikit_learn(model: Any) -> None:
    from sklearn.base import clone, is_classifier
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GridSearchCV

    assert is_classifier(model)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "model_")
    views = ("embed", "attention_maps")
    for method in ("predict", "predict_proba", "read", "score", "evaluate", *views):
        with pytest.raises(NotFittedError):
            getattr(copied, method)(X)
    again = copied.set_params(n_epochs=1, hidden_size=8)
    assert again.fit(X, Y) is again
    assert again.model_.config.hidden_size == 8
    search = GridSearchCV(
        ea.ImageClassifier(**{**TINY, "n_epochs": 1}), {"hidden_size": [8, 16]}, cv=2
    )
    assert search.fit(X, Y).best_params_["hidden_size"] in (8, 16)


def test_the_same_seed_gives_the_same_bits() -> None:
    state = np.random.get_state()[1].tolist()
    options = {"flip": True, "crop": 1, "cutout": 2}
    first, second = fitted(**options), fitted(**options)
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    other = fitted(**options, random_state=1)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))
    plain = fitted()
    assert not np.array_equal(first.predict_proba(X), plain.predict_proba(X))
    assert np.random.get_state()[1].tolist() == state


def test_files_keep_everything(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path)
    loaded = ea.ImageClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for name in ("classes_", "history_", "best_epoch_", "mean_", "deviation_"):
        assert np.array_equal(getattr(loaded, name), getattr(model, name)), name
    assert loaded.get_params()["hidden_size"] == 16
    assert not list(tmp_path.glob("*.pkl"))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
    record = json.loads((tmp_path / "estimator.json").read_text())
    without = {name: value for name, value in record.items() if name != "size"}
    (tmp_path / "estimator.json").write_text(json.dumps(without))  # as for ViT alone
    assert ea.ImageClassifier.load(tmp_path).size_ == model.size_
    for change in ({"format": 9}, {"classes": ["a"]}, {"mean": None}):
        (tmp_path / "estimator.json").write_text(json.dumps({**record, **change}))
        with pytest.raises(ea.CheckpointError, match=r"estimator\.json"):
            ea.ImageClassifier.load(tmp_path)


def test_an_interrupted_save_is_refused(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save(tmp_path)
    other = ea.ImageClassifier(**{**TINY, "n_epochs": 1}).fit(X, np.flip(Y))
    write = durable.write_json

    def full(path: Any, value: Any) -> None:
        if Path(path).name == "estimator.json":
            raise OSError(errno.ENOSPC, "no space left on device")
        write(path, value)

    with monkeypatch.context() as disk:
        disk.setattr(durable, "write_json", full)
        with pytest.raises(ea.CheckpointError, match="free disk space"):
            other.save(tmp_path)
    with pytest.raises(ea.CheckpointError, match=r"config\.json: is not .*save the es"):
        ea.ImageClassifier.load(tmp_path)
    other.save(tmp_path)
    odds = ea.ImageClassifier.load(tmp_path).predict_proba(X)
    assert np.array_equal(odds, other.predict_proba(X))
    file = tmp_path / "estimator.json"
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, "files": [1]}))
    with pytest.raises(ea.CheckpointError, match=r"estimator\.json: files is \[1\]"):
        ea.ImageClassifier.load(tmp_path)
    file.write_text(json.dumps({**record, "files": {"../x": "0"}}))
    with pytest.raises(ea.CheckpointError, match="cannot read"):
        ea.ImageClassifier.load(tmp_path)
    del record["files"]  # as earlier versions saved
    file.write_text(json.dumps(record))
    assert np.array_equal(ea.ImageClassifier.load(tmp_path).predict_proba(X), odds)


def test_labels_of_other_kinds() -> None:
    numbers = np.where(Y == "a", 3, 7)
    found = fitted(n_epochs=1)
    assert found.predict(X).dtype.kind == "U"
    other = ea.ImageClassifier(**{**TINY, "n_epochs": 1}).fit(X, numbers)
    assert other.classes_.tolist() == [3, 7]
    assert set(other.predict(X)) <= {3, 7}
    with pytest.raises(ea.InputError, match="label unseen in training"):
        other.score(X[:2], [3, 4])


def test_values_and_sizes() -> None:
    model = ea.ImageClassifier(
        **{**TINY, "n_epochs": 1}, image_size=[6, 10], patch_size=[3, 5], pooling="mean"
    )
    model.fit(list(X / 255.0), Y)
    assert model.model_.config.grid == (2, 2)
    assert model.predict([X[0] / 255.0, X[1][:7] / 255.0]).shape == (2,)
    half = fitted(n_epochs=1, normalize="half")
    assert half.mean_ == [127.5]


def test_a_checkpoint_to_start_from(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = ea.ViTConfig(
        image_size=4, patch_size=2, num_channels=1, intermediate_size=8, **sizes
    )
    body = ea.ViTModel(config)
    body.save_pretrained(tmp_path)
    options = {"n_epochs": 1, "learning_rate": 0.0, "weight_decay": 0.0}
    model = ea.ImageClassifier(**{**TINY, **options}, pretrained=tmp_path).fit(X, Y)
    assert model.model_.config.grid == (4, 4)
    name = "embeddings.patch_embeddings.projection.weight"
    held = body.state_dict()[name]
    assert np.array_equal(model.model_.state_dict()[f"vit.{name}"], held)
    with pytest.raises(ea.InputError, match="3 channels, expected 1 as in"):
        ea.ImageClassifier(**TINY, pretrained=tmp_path).fit(np.stack([X] * 3, 3), Y)


def checkpoint(folder: Path, **options: Any) -> Any:
    """Saves a classifier of grey pictures into three classes; returns it."""
    sizes = {name: TINY[name] for name in list(TINY)[:3]}
    config = ea.ViTConfig(
        image_size=8,
        patch_size=2,
        num_channels=1,
        intermediate_size=8,
        **{**sizes, "num_labels": 3, **options},
    )
    model = ea.ViTForImageClassification(config)
    model.save_pretrained(folder)
    return model


STILL = {**TINY, "n_epochs": 1, "learning_rate": 0.0}


def test_a_checkpoint_of_other_classes_gets_a_new_head(tmp_path: Path) -> None:
    first = checkpoint(tmp_path).state_dict()
    model = ea.ImageClassifier(**STILL, attention="vanilla", pretrained=tmp_path)
    found = model.fit(X, Y).model_
    report = found.load_report
    assert sorted(item.name for item in report.mismatched) == [
        *("classifier.bias", "classifier.weight")
    ]
    for name, value in found.state_dict().items():
        if not name.startswith("classifier."):
            assert np.array_equal(value, first[name]), name
    assert (found.config.num_labels, found.config.id2label) == (2, {0: "a", 1: "b"})
    model.set_params(model_options={"strict": False})  # as earlier pages advised
    assert model.fit(X, Y).model_.config.num_labels == 2
    model.set_params(model_options={"qkv_bias": False})  # the head alone may differ
    with pytest.raises(ea.CheckpointError, match=r"not used .*query\.bias"):
        model.fit(X, Y)
    own = checkpoint(tmp_path, num_labels=2).state_dict()["classifier.weight"]
    found = model.set_params(model_options=None).fit(X, Y).model_
    assert np.array_equal(found.state_dict()["classifier.weight"], own)


def test_a_checkpoint_takes_dropout_and_pooling_but_no_sizes(tmp_path: Path) -> None:
    checkpoint(tmp_path, hidden_dropout_prob=0.2, pooling="mean")
    own = ea.ImageClassifier(**STILL, pretrained=tmp_path).fit(X, Y).model_.config
    assert (own.hidden_dropout_prob, own.pooling) == (0.2, "mean")  # its own
    checkpoint(tmp_path)
    options: dict[str, Any] = {**STILL, "pretrained": tmp_path}
    model = ea.ImageClassifier(**options, dropout=0.5, pooling="mean").fit(X, Y)
    config = model.model_.config
    assert (config.hidden_dropout_prob, config.pooling) == (0.5, "mean")
    ea.ImageClassifier(**options, patch_size=2, intermediate_size=8).fit(X, Y)
    for name, value, held in (
        ("hidden_size", 32, 16),
        ("num_hidden_layers", 3, 2),
        ("num_attention_heads", 8, 2),
        ("intermediate_size", 16, 8),
        ("patch_size", 4, 2),
    ):
        with pytest.raises(
            ea.ConfigError, match=rf"{name}={value}, expected {held} as in .*leave"
        ):
            ea.ImageClassifier(**{**options, name: value}).fit(X, Y)


def test_the_name_evolving_means_the_default_attention() -> None:
    default = fitted(n_epochs=1)
    named = fitted(n_epochs=1, attention="evolving")
    assert named.model_.config.attention == default.model_.config.attention
    assert named.get_params()["attention"] == "evolving"
    given = fitted(n_epochs=1, attention=ea.attention.Evolving())
    assert given.model_.config.attention == ea.attention.Evolving(0.1, 0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", 8),
        ("hidden_dropout_prob", 0.5),
        ("pooling", "mean"),
        ("image_size", 4),
        ("attention", "vanilla"),
    ],
)
def test_an_option_in_model_options_too_is_refused(name: str, value: Any) -> None:
    own = "dropout" if name == "hidden_dropout_prob" else name
    with pytest.raises(
        ea.ConfigError, match=rf"model_options has '{name}'.*give {own}="
    ):
        fitted(model_options={name: value})


NARROW: dict[str, dict[str, Any]] = {
    "resnet": {
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "layer_type": "basic",
    },
    "ea_aa_resnet34": {
        "embedding_size": 8,
        "hidden_sizes": [8, 32, 32],
        "depths": [1, 1, 1],
        "num_attention_heads": 2,
    },
    "pa_cifar_net": {"hidden_sizes": [8, 8, 16], "depths": [1, 1, 2]},
}
RECIPE: dict[str, Any] = {
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "weight_decay": 1e-4,
    "lr_schedule": "cosine_with_restarts",
    "lr_schedule_options": {"num_cycles": 2, "cycle_growth": 2, "lr_end": 1e-3},
    "label_smoothing": 0.1,
    "flip": True,
    "crop": 1,
    "cutout": 3,
    "n_epochs": 6,
    "batch_size": 8,
    "random_state": 0,
}


def test_the_crops_of_imagenet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training sees random parts of the pictures themselves, later ones the centre."""
    pytest.importorskip("PIL", reason="needs Pillow (extra: image)")
    rng = np.random.default_rng(0)
    sizes = [(32, 44), (40, 32), (36, 36), (30, 50)] * 4
    pictures = [rng.integers(0, 256, (*size, 1)).astype(np.uint8) for size in sizes]
    seen: list[Any] = []
    shapes: list[Any] = []
    train = image_estimator.fitting.train

    def watched(model: Any, rows: Any, validation: Any, *args: Any, **kw: Any) -> Any:
        shapes.append({one.shape[:2] for one in rows.pixels})
        seen.extend((rows.bare([0]), rows.gather([0]), rows.gather([0]), validation))
        return train(model, rows, validation, *args, **kw)

    monkeypatch.setattr(image_estimator.fitting, "train", watched)
    options = {"image_size": 14, "normalize": "none", "n_epochs": 1, "flip": True}
    model = ea.ImageClassifier(**{**TINY, **options, "resized_crop": 0.05})
    model.fit(pictures, ["a", "b"] * 8)
    assert shapes == [set(sizes)]
    first, same, other = (one["pixel_values"][0, 0] for one in seen[:3])
    assert first.shape == (14, 14)
    assert np.array_equal(first, same)  # a view does not count as a reading
    assert not np.array_equal(same, other)
    centres = [centred(one, (14, 14)) for one in pictures]
    for row in seen[3].pixels:
        assert any(np.array_equal(row, one) for one in centres)
    given = model.read(pictures)
    assert np.array_equal(given.pixels, centres)
    odds = model.predict_proba(pictures)
    assert np.array_equal(model.predict_proba(given), odds)
    assert model.evaluate(given, ["a", "b"] * 8)["loss"] == pytest.approx(
        -np.log(odds[np.arange(16), [0, 1] * 8]).mean()
    )
    plain = ea.ImageClassifier(**{**TINY, **options}).fit(pictures, ["a", "b"] * 8)
    assert np.array_equal(
        plain.read(pictures).pixels[0], resized(pictures[0], (14, 14))
    )


def test_parts_of_a_picture_have_at_least_the_share_asked_for() -> None:
    """Pixels are the numbers of their rows: their range is the height of the part."""
    pytest.importorskip("PIL", reason="needs Pillow (extra: image)")
    estimator = ea.ImageClassifier(resized_crop=1.0)
    ramp = np.arange(32, dtype=np.float32)[:, None, None].repeat(32, axis=1)
    whole = image_models.augmentation(estimator, (8, 8), Normalize([0.0], [1.0]))
    estimator.set_params(resized_crop=0.05, flip=False)
    parts = image_models.augmentation(estimator, (8, 8), Normalize([0.0], [2.0]))
    rng = np.random.default_rng(0)
    spans = [np.ptp(parts(ramp, rng)) * 2 for _ in range(200)]
    assert np.ptp(whole(ramp, rng)) > 24
    assert min(spans) < 9 < 20 < max(spans)


@pytest.mark.parametrize("architecture", NARROW)
def test_architectures_train_by_the_recipe_of_cifar(
    architecture: str, tmp_path: Path
) -> None:
    side = 32
    x, y = stripes(24, side)
    model = ea.ImageClassifier(
        architecture=architecture, model_options=NARROW[architecture], **RECIPE
    ).fit(x, y)
    config = model.model_.config
    assert model.size_ == (side, side)
    assert config.hidden_sizes == NARROW[architecture]["hidden_sizes"]
    kinds = {
        "resnet": ea.attention.Vanilla(),
        "ea_aa_resnet34": ea.attention.Evolving(0.5, 1.0),
        "pa_cifar_net": ea.attention.Predictive(0.01),
    }
    assert config.attention == kinds[architecture]  # given by the name
    rates = [row["learning_rate"] for row in model.history_]
    # cycles of two and of four epochs: the rate rises once, where the second begins
    assert [b > a for a, b in itertools.pairwise(rates)] == [
        *(False, True, False, False, False)
    ]
    small = model.predict_proba(list(x[:, :-2]))  # of another size
    assert small.shape == (24, 2)
    model.save(tmp_path)
    loaded = ea.ImageClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(x), model.predict_proba(x))
    assert loaded.get_params()["architecture"] == architecture


def test_the_recipe_reaches_the_training() -> None:
    """Each option changes the weights; repeating a run does not."""
    x, y = stripes(16, 16)
    options = {"resnet": NARROW["resnet"]}

    def weights(**more: Any) -> bytes:
        given = {**RECIPE, "n_epochs": 2, **more}
        model = ea.ImageClassifier(
            architecture="resnet", model_options=options["resnet"], **given
        ).fit(x, y)
        return b"".join(v.tobytes() for v in model.model_.state_dict().values())

    base = weights()
    assert weights() == base
    assert weights(optimizer_options={"momentum": 0.9, "nesterov": True}) == base
    for name, value in {
        "optimizer": "adamw",
        "optimizer_options": {"momentum": 0.5},
        "weight_decay": 0.1,
        "lr_schedule_options": {"num_cycles": 1},
        "label_smoothing": 0.0,
        "cutout": 0,
    }.items():
        assert weights(**{name: value}) != base, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "cifar"}, r"architecture='cifar'.*did you mean 'cifar_net'"),
        ({"architecture": "bert_base"}, r"expected one of vit, resnet, aa_resnet"),
        (
            {"architecture": "resnet", "hidden_size": 8},
            r"hidden_size=8 .*model_options",
        ),
        ({"architecture": "resnet", "attention": "evolving"}, r"use AAResNetConfig"),
        ({"optimizer": "lamb"}, r"optimizer='lamb', expected one of radam, adamw, sgd"),
        ({"optimizer_options": {"momentum": 0.9}}, r"'radam' has no option 'momentum'"),
        ({"lr_schedule_options": {"num_cycle": 1}}, r"lr_schedule.*num_cycle"),
        ({"lr_schedule_options": 3}, r"lr_schedule_options is a int"),
        ({"resized_crop": 0.0}, r"resized_crop=0\.0, expected a number from 0\.001"),
        (
            {"resized_crop": 0.1, "crop": 2},
            r"crop=2 with resized_crop=0\.1.*leave crop",
        ),
        ({"label_smoothing": 2.0}, r"label_smoothing=2\.0"),
        ({"label_smoothing": 1.0}, r"ImageClassifier: label_smoothing=1\.0.*below 1"),
    ],
)
def test_options_of_networks_and_training_that_cannot_be(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ea.ConfigError, match=message):
        ea.ImageClassifier(**{"n_epochs": 1, **options}).fit(X, Y)


# --- folders and files ----------------------------------------------------------------


def test_folders_of_classes(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow (extra: image)")
    root = folder_of(tmp_path / "train", 24)
    model = ea.ImageClassifier(**TINY).fit(root)
    assert model.classes_.tolist() == ["a", "b"]
    assert model.model_.config.num_channels == 3
    assert model.score(root) == model.evaluate(root)["top1"]
    (root / "c").mkdir()
    (root / "c" / "1.png").write_bytes((root / "a" / "00.png").read_bytes())
    with pytest.raises(ea.DataError, match="c: a class unseen in training"):
        model.score(root)
    np.savez(tmp_path / "some.npz", X=X, y=Y)
    grey = ea.ImageClassifier(**{**TINY, "n_epochs": 1}).fit(tmp_path / "some.npz")
    assert grey.score(tmp_path / "some.npz") == grey.score(X, Y)


@pytest.mark.parametrize("kind", ["damaged", "small"])
def test_a_class_of_unusable_pictures_alone_is_left_out(
    tmp_path: Path, kind: str
) -> None:
    pytest.importorskip("PIL", reason="needs Pillow (extra: image)")
    root = folder_of(tmp_path, 24)
    (root / "c").mkdir()
    (root / "c" / "1.png").write_bytes(b"")
    if kind == "small":
        from PIL import Image

        Image.new("RGB", (1, 1)).save(root / "c" / "1.png")
    options = {**TINY, "n_epochs": 1, "patch_size": 2, "image_size": 8}
    model = ea.ImageClassifier(**options, on_error="skip")
    with pytest.warns(UserWarning, match="1 of 25 pictures cannot be used"):
        model.fit(root)
    assert model.classes_.tolist() == ["a", "b"]
    assert model.model_.config.num_labels == 2
    with pytest.raises(ea.InputError, match=r"00\.png: y is None, expected a label"):
        model.fit(root / "a")


def test_bad_pictures_are_skipped_if_asked(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow (extra: image)")
    root = folder_of(tmp_path, 24)
    (root / "a" / "02.png").write_bytes(b"")
    from PIL import Image

    Image.new("RGB", (1, 1)).save(root / "b" / "99.png")
    options = {**TINY, "n_epochs": 1, "patch_size": 2}
    with pytest.raises(ea.DataError, match=r"02\.png"):
        ea.ImageClassifier(**options).fit(root)
    model = ea.ImageClassifier(**options, image_size=8, on_error="skip")
    with pytest.warns(UserWarning, match="2 of 25 pictures cannot be used") as caught:
        model.fit(root)
    assert caught[0].filename == __file__
    assert [Path(name).name for name, _ in model.skipped_] == ["02.png", "99.png"]
    with pytest.warns(UserWarning, match="2 of 25 pictures"):
        found = model.evaluate(root)
    assert (found["pictures"], found["skipped"]) == (23, 2)
    with pytest.raises(ea.DataError, match=r"02\.png"):
        model.predict(root)
    broken = np.stack([X, X], axis=3) / 255.0
    broken[5, 2, 3, 1] = np.inf
    skipping = ea.ImageClassifier(**{**TINY, "n_epochs": 1}, on_error="skip")
    with pytest.warns(UserWarning, match=r"X\[5\]: pixel \[2, 3, 1\] is inf"):
        skipping.fit(broken, Y)


def test_the_scale_of_the_pixels_is_kept(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path)
    loaded = ea.ImageClassifier.load(tmp_path)
    assert loaded.in_bytes_ is model.in_bytes_ is True
    same = X.astype(np.float32)  # floats up to 255 are the same scale
    assert np.array_equal(loaded.predict_proba(same), model.predict_proba(X))
    with pytest.raises(ea.DataError, match="pixels are floats up to 1"):
        loaded.predict(X / 255)
    record = json.loads((tmp_path / "estimator.json").read_text())
    del record["scale"]  # as earlier versions saved
    (tmp_path / "estimator.json").write_text(json.dumps(record))
    with pytest.raises(ea.DataError, match="pixels are floats up to 1"):
        ea.ImageClassifier.load(tmp_path).predict(X / 255)
    del record["in_bytes"]
    (tmp_path / "estimator.json").write_text(json.dumps(record))
    assert ea.ImageClassifier.load(tmp_path).predict(X / 255).shape == (24,)
    masks = ea.ImageClassifier(**{**TINY, "n_epochs": 1}).fit((X > 99).view("u1"), Y)
    assert masks.in_bytes_ is None  # 0 and 1 as integers
    assert masks.predict((X > 99).astype(float)).shape == (24,)


def test_an_interruption_promises_no_warm_start(monkeypatch: Any) -> None:
    signal_sender(monkeypatch)(signal.SIGINT, epoch=2)
    with pytest.warns(
        UserWarning, match="SIGINT after 1 of 3 .* starts from scratch"
    ) as told:
        found = fitted()
    assert found.interrupted_ == "SIGINT"
    assert "warm_start" not in str(told[0].message)


# --- scores ---------------------------------------------------------------------------


def test_top_k_by_hand() -> None:
    scores = [[0.1, 0.5, 0.4], [0.3, 0.3, 0.4], [0.2, 0.2, 0.6]]
    labels = [2, 1, 0]
    assert top_k(scores, labels, 1) == 0.0
    assert top_k(scores, labels, 2) == pytest.approx(2 / 3)  # ties: the first wins
    assert top_k(scores, labels) == 1.0
    with pytest.raises(ea.ShapeError, match="top_k: scores of shape"):
        top_k(scores, [0, 1])


def test_confusions_by_hand() -> None:
    found = confusion_matrix([0, 1, 1, 2], [0, 0, 1, 1], classes=3)
    assert found.tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]
    with pytest.raises(ea.ShapeError, match="confusion_matrix: predictions of shape"):
        confusion_matrix([0], [0, 1], classes=2)


# --- real data ------------------------------------------------------------------------


def test_digits(data_dir: Path) -> None:
    """8 x 8 digits with a small model: far above chance after seconds."""
    table = np.loadtxt(data_dir / "image" / "sklearn" / "digits.csv.gz", delimiter=",")
    pictures = (table[:, :64].reshape(-1, 8, 8) / 16).astype(np.float32)
    digits = table[:, 64].astype(int)
    model = ea.ImageClassifier(
        hidden_size=32,
        num_hidden_layers=2,
        patch_size=2,
        n_epochs=15,
        batch_size=32,
        learning_rate=1e-2,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(pictures[:1200], digits[:1200])
    found = model.evaluate(pictures[1200:], digits[1200:])
    assert found["top1"] > 0.8
    assert found["top5"] > 0.97

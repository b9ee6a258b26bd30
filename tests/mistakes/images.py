"""Mistakes with models and files of pictures."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_data import TINY, bomb, folder_of, png, stripes

import evolving_attention as ea
from evolving_attention.data import image_transforms
from mistakes.row import Row

Image = pytest.importorskip("PIL.Image", reason="needs Pillow (extra: image)")
RNG = np.random.default_rng(0)

SIZES = {
    "image_size": 8,
    "patch_size": 4,
    "num_channels": 1,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}
PIXELS = np.zeros((2, 1, 8, 8), np.float32)
X, Y = stripes(8)


def model(name: str = "ViTForImageClassification", **options: Any) -> Any:
    """A tiny random model of images."""
    cls = getattr(ea, name)
    return cls(ea.ViTConfig(**{**SIZES, **options}))


def fit(x: Any = X, y: Any = Y, **options: Any) -> Any:
    """Fits a tiny classifier for one epoch."""
    return ea.ImageClassifier(**{**TINY, "n_epochs": 1, **options}).fit(x, y)


def fit_file(folder: Path, data: bytes, **options: Any) -> Any:
    """Fits on a folder with one additional file of these bytes."""
    folder_of(folder)
    (folder / "a" / "bad.png").write_bytes(data)
    return fit(folder, None, **options)


def changed(values: Any, place: tuple[int, ...], value: float) -> Any:
    """Returns a copy of an array with one value changed."""
    found = np.array(values, dtype=np.float32)
    found[place] = value
    return found


def empty_class(folder: Path) -> Any:
    (folder_of(folder) / "c").mkdir()
    return fit(folder, None)


def unseen(folder: Path) -> Any:
    """Fits a classifier on a folder, then adds a class to the folder."""
    found = fit(folder_of(folder), None)
    (folder / "c").mkdir()
    (folder / "c" / "1.png").write_bytes(png())
    return found


def with_stray(folder: Path) -> Path:
    """Returns a folder of classes, with a picture outside the class folders."""
    (folder_of(folder) / "stray.png").write_bytes(png())
    return folder


def a_file(folder: Path) -> Path:
    (folder / "afile").write_text("")
    return folder / "afile"


def tiff(kind: Any) -> bytes:
    """Returns a TIFF of this sample type, with values from 0 to 255."""
    file = io.BytesIO()
    Image.fromarray(X[0].astype(kind)).save(file, "TIFF")
    return file.getvalue()


def animated() -> bytes:
    frames = [Image.new("L", (8, 8), shade) for shade in (0, 100, 200)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()


def floats() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("F", (8, 8)).save(file, "TIFF")
    return file.getvalue()


ROWS = {
    # --- models
    "channels behind": Row(
        lambda _: model(num_channels=3)(np.zeros((2, 8, 8, 3), np.float32)),
        ea.ShapeError,
        r"8 channels in axis 1",
        r"pixel_values has shape \(2, 8, 8, 3\)",
        r"pass x\.transpose\(0, 3, 1, 2\)",
    ),
    "one image": Row(
        lambda _: model()(PIXELS[0]),
        ea.ShapeError,
        r"shape \(1, 8, 8\)",
        r"pixel_values",
        r"one image is x\[None\]",
    ),
    "no image": Row(
        lambda _: model()(PIXELS[:0]),
        ea.InputError,
        r"no image",
        r"pixel_values",
        r"expected at least one",
    ),
    "another size": Row(
        lambda _: model()(np.zeros((2, 1, 8, 9), np.float32)),
        ea.InputError,
        r"8 x 9 pixels",
        r"pixel_values",
        r"takes 8 x 8 \(image_size\); resize",
    ),
    "NaN": Row(
        lambda _: model()(changed(PIXELS, (1, 0, 2, 3), np.nan)),
        ea.InputError,
        r"is nan",
        r"pixel_values\[1, 0, 2, 3\]",
        r"leave the image out, or mend it",
    ),
    "a pixel that the model's type does not hold": Row(
        lambda _: model()(np.full(PIXELS.shape, 1e300)),
        ea.InputError,
        r"is inf",
        r"pixel_values\[0, 0, 0, 0\]",
        r"expected finite numbers",
    ),
    "images of two sizes": Row(
        lambda _: model()([np.zeros((1, 8, 8)), np.zeros((1, 8, 9))]),
        ea.DTypeError,
        r"rectangular",
        r"pixel_values",
        r"resize images of different sizes",
    ),
    "no pixels": Row(
        lambda _: model()(labels=[0]),
        ea.InputError,
        r"pixel_values is missing",
        r"ViTForImageClassification",
        r"pass an array \(images, channels, height, width\)",
    ),
    "labels without a task": Row(
        lambda _: model("ViTModel")(PIXELS, [0, 1]),
        ea.InputError,
        r"labels are given",
        r"ViTModel",
        r"AutoModelForImageClassification",
    ),
    "a label too many": Row(
        lambda _: model()(PIXELS, [0, 1, 0]),
        ea.ShapeError,
        r"shape \(3,\)",
        r"labels",
        r"one for each of 2 images",
    ),
    "several labels an image": Row(
        lambda _: model()(PIXELS, [[0, 1], [1, 0]]),
        ea.InputError,
        r"shape \(2, 2\)",
        r"labels",
        r"problem_type='multi_label_classification'",
    ),
    "a patch above the image": Row(
        lambda _: model(patch_size=9),
        ea.ConfigError,
        r"patch_size = 9 is larger",
        r"ViTConfig",
        r"take smaller patches",
    ),
    # --- files
    "no picture": Row(
        lambda folder: fit_file(folder, b"GIF, surely"),
        ea.DataError,
        r"is no picture",
        r"a/bad\.png",
        r"leave the file out or get it again",
    ),
    "an empty file": Row(
        lambda folder: fit_file(folder, b""),
        ea.DataError,
        r"is no picture that Pillow knows \(0 bytes\)",
        r"a/bad\.png",
        r"get it again",
    ),
    "a file cut off": Row(
        lambda folder: fit_file(folder, noise()[:-400]),
        ea.DataError,
        r"cannot be decoded",
        r"a/bad\.png",
        r"cut off or damaged",
    ),
    "damaged bytes": Row(
        lambda folder: fit_file(folder, noise()[:200] + b"\0" * 50 + noise()[250:]),
        ea.DataError,
        r"cannot be decoded",
        r"a/bad\.png",
        r"get the file again",
    ),
    "an animation": Row(
        lambda folder: fit_file(folder, animated()),
        ea.DataError,
        r"3 pictures in one file \(animated\)",
        r"a/bad\.png",
        r"save one of them",
    ),
    "samples of 32 bits": Row(
        lambda folder: fit_file(folder, floats()),
        ea.DataError,
        r"samples of 32 bits",
        r"a/bad\.png",
        r"pass an array instead",
    ),
    "a decompression bomb": Row(
        lambda folder: fit_file(folder, bomb()),
        ea.DataError,
        r"900000000 pixels",
        r"a/bad\.png",
        r"shrink the picture or leave it out",
    ),
    "one pixel": Row(
        lambda folder: fit_file(folder, png(size=(1, 1)), image_size=8, patch_size=2),
        ea.InputError,
        r"1 x 1 pixels",
        r"a/bad\.png",
        r"at least 2 x 2, a patch",
    ),
    "a missing file": Row(
        lambda folder: fit([str(folder / "no.png")] * 2, ["a", "b"]),
        ea.DataError,
        r"no such file",
        r"no\.png",
        r"check the path",
    ),
    "a missing folder": Row(
        lambda folder: fit(str(folder / "photos"), None),
        ea.DataError,
        r"is no folder",
        r"photos",
        r"a folder of pictures for each class",
    ),
    "a class without pictures": Row(
        empty_class,
        ea.DataError,
        r"has no picture",
        r"/c: ",
        r"fill the folder of this class or remove it",
    ),
    "other channels than in training": Row(
        lambda folder: fit().score(folder_of(folder), None),
        ea.ShapeError,
        r"3 channels, expected 1",
        r"00\.png",
        r"convert the pictures",
    ),
    "one picture in colour alone": Row(
        lambda _: fit(np.stack([X] * 3, axis=-1)).predict(np.stack([X[0]] * 3, -1)),
        ea.ShapeError,
        r"1 channels, expected 3",
        r"X\[0\]",
        r"one picture alone is X\[None\]",
    ),
    "a class unseen in training": Row(
        lambda folder: unseen(folder).evaluate(folder),
        ea.DataError,
        r"a class unseen in training",
        r"/c: ",
        r"expected one of a, b; leave the folder out",
    ),
    "an npz without pictures": Row(
        lambda folder: [np.savez(folder / "f.npz", Z=X), fit(folder / "f.npz", None)],
        ea.DataError,
        r"has the arrays Z",
        r"f\.npz",
        r"expected X \(or images\)",
    ),
    "an npz that is none": Row(
        lambda folder: [
            (folder / "f.npz").write_bytes(b"PK"),
            fit(folder / "f.npz", None),
        ],
        ea.DataError,
        r"cannot be read",
        r"f\.npz",
        r"numpy\.savez",
    ),
    "an npz that is a pipe": Row(
        lambda folder: [os.mkfifo(folder / "f.npz"), fit(folder / "f.npz", None)],
        ea.DataError,
        r"is not a regular file",
        r"f\.npz",
        r"regular file",
    ),
    # --- arrays
    "NaN in an array": Row(
        lambda _: fit(changed(X, (3, 4, 5), np.nan)),
        ea.InputError,
        r"is nan",
        r"X\[3\]: pixel \[4, 5, 0\]",
        r"mend it",
    ),
    "large integers": Row(
        lambda _: fit(X.astype(np.int64) * 300),
        ea.InputError,
        r"integers from \d+ to \d+",
        r"X\[0\]",
        r"0 to 255; scale them and pass floats",
    ),
    "one flat picture": Row(
        lambda _: fit(X[0]),
        ea.ShapeError,
        r"shape \(8, 8\)",
        r"X: ",
        r"one picture is X\[None\]",
    ),
    "a table with a picture in each row": Row(
        lambda _: fit(X.reshape(8, -1)),
        ea.ShapeError,
        r"shape \(8, 64\)",
        r"^X:",
        r"in each row np\.reshape\(X, \(-1, height, width\)\)",
    ),
    "a cutout of the whole picture": Row(
        lambda _: fit(cutout=8),
        ea.ConfigError,
        r"cutout=8 for pictures of 8 x 8",
        r"ImageClassifier",
        r"expected less than 8.*take a smaller number",
    ),
    "a shift by the whole picture": Row(
        lambda _: fit(crop=20),
        ea.ConfigError,
        r"crop=20 for pictures of 8 x 8",
        r"ImageClassifier",
        r"expected less than 8.*take a smaller number",
    ),
    "text for pictures": Row(
        lambda _: fit([["a", "b"], ["c", "d"]], [0, 1]),
        ea.ShapeError,
        r"shape \(2,\)",
        r"X\[0\]",
        r"\[height, width\]",
    ),
    "pictures of two kinds": Row(
        lambda _: fit([X[0], np.zeros((8, 8, 3), np.uint8)], [0, 1]),
        ea.ShapeError,
        r"3 channels, expected 1",
        r"X\[1\]",
        r"as in X\[0\]",
    ),
    "channels first in an array": Row(
        lambda _: fit(np.zeros((4, 3, 80, 80), np.uint8), [0, 1, 0, 1]),
        ea.ShapeError,
        r"shape \(3, 80, 80\) has the channels first",
        r"X\[0\]",
        r"X\.transpose\(0, 2, 3, 1\)",
    ),
    "channels first in a wide array": Row(
        lambda _: fit(np.zeros((4, 3, 48, 64), np.uint8), [0, 1, 0, 1]),
        ea.ShapeError,
        r"shape \(3, 48, 64\) has the channels first",
        r"X\[0\]",
        r"X\.transpose\(0, 2, 3, 1\)",
    ),
    "channels first in a small array": Row(
        lambda _: fit(np.zeros((4, 1, 8, 8), np.uint8), [0, 1, 0, 1]),
        ea.ShapeError,
        r"shape \(1, 8, 8\) has the channels first",
        r"X\[0\]",
        r"X\.transpose\(0, 2, 3, 1\)",
    ),
    "floats up to 1 for pixels up to 255": Row(
        lambda _: fit().predict(X / 255),
        ea.DataError,
        r"pixels are floats up to 1",
        r"X\[0\]",
        r"expected integers from 0 to 255 as in training; scale them alike: 255 \* X",
    ),
    "pixels up to 255 for floats up to 1": Row(
        lambda _: fit(X / 255).evaluate(X, Y),
        ea.DataError,
        r"pixels are integers from 0 to 255",
        r"X\[0\]",
        r"as in training; scale them alike: X / 255",
    ),
    "integers of 32 bits in a file": Row(
        lambda folder: fit_file(folder, tiff(np.int32)),
        ea.DataError,
        r"samples of 32 bits",
        r"bad\.png",
        r"pass an array instead",
    ),
    "integers of 32 bits in an image": Row(
        lambda _: fit([Image.fromarray(one.astype(np.int32)) for one in X]),
        ea.DataError,
        r"samples of 32 bits",
        r"X\[0\]",
        r"pass an array instead",
    ),
    "a picture with the folders of classes": Row(
        lambda folder: fit(with_stray(folder), None),
        ea.DataError,
        r"a picture next to folders of pictures",
        r"stray\.png",
        r"move it into the folder of its class, or out",
    ),
    "folders with the pictures to predict": Row(
        lambda folder: fit().predict(with_stray(folder)),
        ea.DataError,
        r"a picture next to folders of pictures",
        r"stray\.png",
        r"expected pictures or folders alone",
    ),
    "weights that are all 0": Row(
        lambda _: fit().score(X, Y, np.zeros(len(X))),
        ea.InputError,
        r"sample_weight: 0 of 8 weights are non-zero",
        r"expected at least 1",
        r"raise some",
    ),
    "a file as the folder of a classifier": Row(
        lambda folder: fit().save(a_file(folder)),
        ea.CheckpointError,
        r"cannot write",
        r"afile",
        r"the estimator is not saved",
    ),
    "a grey picture without channels": Row(
        lambda _: image_transforms.Resize([4, 4])(X[0], RNG),
        ea.ShapeError,
        r"shape \(8, 8\)",
        r"Resize",
        r"picture\[:, :, None\]",
    ),
    "an image of Pillow to resize": Row(
        lambda _: image_transforms.Resize([4, 4])(Image.fromarray(X[0]), RNG),
        ea.DTypeError,
        r"a picture of type Image",
        r"Resize",
        r"convert it by np\.asarray",
    ),
    "means of other channels": Row(
        lambda _: image_transforms.Normalize([1.0] * 3, [1.0] * 3)(
            X[0][..., None], RNG
        ),
        ea.ShapeError,
        r"a picture of 1 channels",
        r"Normalize",
        r"expected 3, one for each mean",
    ),
    "no labels": Row(
        lambda _: fit(X, None),
        ea.InputError,
        r"y is None",
        r"a label for each picture",
        r"fit\(X, y\)",
    ),
    "labels of one class": Row(
        lambda _: fit(X, ["a"] * 8),
        ea.InputError,
        r"8 pictures .* of one class",
        r"y: ",
        r"at least 2 classes",
    ),
    "labels for other pictures": Row(
        lambda _: fit(X, Y[:5]),
        ea.ShapeError,
        r"5 targets for 8 pictures",
        r"y: ",
        r"one each",
    ),
    "a label unseen in training": Row(
        lambda _: fit().score(X, ["a", "b"] * 3 + ["a", "z"]),
        ea.InputError,
        r"= z: a label unseen",
        r"y\[7\]",
        r"leave the picture out",
    ),
    # --- options
    "an unknown way to normalise": Row(
        lambda _: fit(normalize="imagnet"),
        ea.ConfigError,
        r"normalize='imagnet'",
        r"ImageClassifier",
        r"one of dataset, half, imagenet, none",
    ),
    "ImageNet's mean for grey pictures": Row(
        lambda _: fit(normalize="imagenet"),
        ea.ConfigError,
        r"pictures with 1 channel",
        r"normalize='imagenet'",
        r"take 'dataset'",
    ),
    "an unknown way with errors": Row(
        lambda _: fit(on_error="ignore"),
        ea.ConfigError,
        r"on_error='ignore'",
        r"ImageClassifier",
        r"one of raise, skip",
    ),
    "patience without validation": Row(
        lambda _: fit(patience=2, validation_fraction=0),
        ea.ConfigError,
        r"patience=2 with validation_fraction=0",
        r"ImageClassifier",
        r"raise validation_fraction",
    ),
    "options of the model as text": Row(
        lambda _: fit(model_options="layer_scale=1"),
        ea.ConfigError,
        r"model_options is a str",
        r"ImageClassifier",
        r"a dict of options of ea\.ViTConfig",
    ),
    "a typing mistake in an option of the classifier": Row(
        lambda _: fit(n_epoch=2),
        ea.ConfigError,
        r"unknown option 'n_epoch'",
        r"ImageClassifier",
        r"did you mean 'n_epochs'",
    ),
    "an architecture by another name": Row(
        lambda _: fit(architecture="aa_resnet5"),
        ea.ConfigError,
        r"architecture='aa_resnet5'",
        r"ImageClassifier",
        r"did you mean 'aa_resnet50'",
    ),
    "an option of ViT for another network": Row(
        lambda _: fit(architecture="resnet"),
        ea.ConfigError,
        r"hidden_size=16 with architecture='resnet', expected 64",
        r"ImageClassifier",
        r"model_options",
    ),
    "heads that do not fit": Row(
        lambda _: fit(num_attention_heads=3),
        ea.ConfigError,
        r"hidden_size is 16",
        r"ViTConfig",
        r"a multiple of num_attention_heads, 3",
    ),
    "a random state of words": Row(
        lambda _: fit(random_state="today"),
        ea.ConfigError,
        r"random_state='today'",
        r"ImageClassifier",
        r"random_state=0 makes runs repeatable",
    ),
    "no folder of a classifier": Row(
        lambda folder: ea.ImageClassifier.load(folder),
        ea.CheckpointError,
        r"has no estimator\.json",
        r"",
        r"fit and save",
    ),
}


def noise() -> bytes:
    """Returns an incompressible PNG."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()

"""Picture files of every kind become the RGB that is meant; transforms are exact."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_data import folder_of, png, stripes

import evolving_attention as ea
from evolving_attention.data.image_transforms import (
    CenterCrop,
    Compose,
    Cutout,
    HorizontalFlip,
    Normalize,
    RandomCrop,
    RandomResizedCrop,
    Resize,
    centred,
    resized,
)
from evolving_attention.data.images import ImageRows, labels_of_npz, read_pictures

Image = pytest.importorskip("PIL.Image", reason="needs Pillow (extra: image)")

from evolving_attention.data.image_files import decode  # noqa: E402


def encoded(image: Any, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


GREY = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5


def test_grey_palettes_and_bits() -> None:
    expected = np.repeat(GREY[:, :, None], 3, axis=2)
    grey = Image.fromarray(GREY)
    assert np.array_equal(decode(encoded(grey), "x"), expected)
    palette = encoded(grey.convert("RGB").quantize(48))
    assert Image.open(io.BytesIO(palette)).mode == "P"
    assert np.array_equal(decode(palette, "x"), expected)
    wide = Image.fromarray(GREY.astype(np.uint16) * 257)
    for kind in ("PNG", "TIFF", "PPM"):
        assert np.array_equal(decode(encoded(wide, kind), "x"), expected), kind
    one = Image.fromarray(GREY > 100)
    assert np.array_equal(decode(encoded(one), "x"), 255 * (expected > 100))
    assert np.array_equal(decode(grey, "x"), expected)


@pytest.mark.parametrize("mode", ["F", "I"])
def test_samples_of_32_bits_are_not_called_damaged(mode: str) -> None:
    picture = encoded(Image.new(mode, (4, 3)), "TIFF")
    with pytest.raises(ea.DataError, match=f"^x: samples of 32 bits.*'{mode}'") as told:
        decode(picture, "x")
    assert "damaged" not in str(told.value)


def test_suffixes_of_pictures(tmp_path: Path) -> None:
    """Other files are counted in a warning; those next to the folders are not."""
    folder_of(tmp_path, 4)
    (tmp_path / "a" / "00.png").rename(tmp_path / "a" / "0.JFIF")
    (tmp_path / "a" / "02.png").rename(tmp_path / "a" / "2.jpe")
    for name in ("README", "a/notes.txt", "a/1.heic", "b/1.heic", "b/.hidden"):
        (tmp_path / name).write_bytes(b"x")
    text = r"3 file\(s\) are left out by their suffix \(\.heic: 2, \.txt: 1\); pic"
    with pytest.warns(UserWarning, match=text) as told:
        assert len(read_pictures(tmp_path).pixels) == 4
    assert len(told) == 1
    with pytest.warns(UserWarning, match=r"2 file\(s\) are left out"):
        assert len(read_pictures(tmp_path / "a").pixels) == 2


@pytest.mark.parametrize("kind", ["AVIF", "TIFF", "two frames", "PNG"])
def test_damaged_bytes_are_told_of(kind: str) -> None:
    if kind == "AVIF" and ".avif" not in Image.registered_extensions():
        pytest.skip("this Pillow does not read AVIF")
    picture = Image.fromarray(GREY).convert("RGB")
    more = {"save_all": True, "append_images": [picture]}
    if kind == "two frames":
        data = encoded(picture, "TIFF", **more)
    else:
        data = encoded(picture, kind)
    refused = 0
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        try:
            decode(bytes(damaged), "x")
        except ea.DataError:
            refused += 1
    assert refused > 20


def test_avif_where_pillow_reads_it(tmp_path: Path, monkeypatch: Any) -> None:
    if ".avif" not in Image.registered_extensions():
        pytest.skip("this Pillow does not read AVIF")
    Image.new("RGB", (8, 8)).save(tmp_path / "1.avif")
    Image.new("RGB", (8, 8)).save(tmp_path / "2.png")
    assert len(read_pictures(tmp_path).pixels) == 2
    monkeypatch.setattr(Image, "registered_extensions", lambda: {".png": "PNG"})
    with pytest.warns(UserWarning, match=r"1 file\(s\) .*\(\.avif: 1\)"):
        assert len(read_pictures(tmp_path).pixels) == 1


def test_cmyk_becomes_rgb() -> None:
    black = Image.new("CMYK", (4, 4), (0, 0, 0, 255))
    cyan = Image.new("CMYK", (4, 4), (255, 0, 0, 0))
    assert decode(encoded(black, "TIFF"), "x").tolist() == [[[0, 0, 0]] * 4] * 4
    assert decode(encoded(cyan, "TIFF"), "x").tolist() == [[[0, 255, 255]] * 4] * 4


def test_what_is_transparent_becomes_white() -> None:
    found = decode(png("RGBA", (1, 2), color=(9, 9, 9, 0)), "x")
    assert found.tolist() == [[[255] * 3]] * 2
    half = decode(png("LA", (1, 1), color=(0, 128)), "x")
    assert half.tolist() == [[[127] * 3]]


def test_the_rotation_of_a_camera_is_applied() -> None:
    from PIL.Image import Exif

    exif = Exif()
    exif[0x0112] = 6  # turn by 90 degrees, clockwise
    found = decode(encoded(Image.fromarray(GREY), "PNG", exif=exif), "x")
    assert np.array_equal(found[:, :, 0], np.rot90(GREY, -1))


class Foreign:
    """An array of another library; like torch's it has a method ``mode``."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values

    def mode(self) -> None:
        """The most frequent value; Pillow's images have an attribute of this name."""


def test_all_forms_of_a_collection(tmp_path: Path) -> None:
    pictures, labels = stripes(12)
    root = folder_of(tmp_path / "classes")
    found = read_pictures(root)
    order = np.argsort(labels, kind="stable")
    assert found.labels == labels[order].tolist()
    for one, i in zip(found.pixels, order, strict=True):
        assert np.array_equal(one, np.repeat(pictures[i][:, :, None], 3, axis=2))
    flat = read_pictures(root / "a")
    assert flat.labels is None
    assert len(flat.pixels) == 6
    files = [str(root / "a" / "00.png"), root / "b" / "01.png"]
    assert [one.shape for one in read_pictures(files).pixels] == [(8, 8, 3)] * 2
    assert read_pictures(pictures).pixels[3].shape == (8, 8, 1)
    opened = [Image.fromarray(one) for one in pictures[:2]]
    assert read_pictures(opened).names == ["X[0]", "X[1]"]
    foreign = read_pictures(Foreign(pictures)).pixels
    assert np.array_equal(foreign, pictures[..., None])
    np.savez(tmp_path / "all.npz", X=pictures, y=labels)
    assert len(read_pictures(tmp_path / "all.npz").pixels) == 12
    assert labels_of_npz(tmp_path / "all.npz").tolist() == labels.tolist()
    # Labels are read without the pictures, which may be many.
    np.savez(tmp_path / "none.npz", X=np.array([None]), y=labels)
    assert labels_of_npz(tmp_path / "none.npz").tolist() == labels.tolist()
    flags = read_pictures(pictures > 100).pixels[0]
    assert np.array_equal(flags[:, :, 0], 255 * (pictures[0] > 100))
    numbers = read_pictures(pictures.astype(np.int32)).pixels[0]
    assert numbers.dtype == np.uint8
    values = read_pictures(pictures / 255.0).pixels[0]
    assert values.dtype == np.float32


def test_pictures_of_a_class_may_lie_in_folders_of_it(tmp_path: Path) -> None:
    flat = read_pictures(folder_of(tmp_path / "flat"))
    root = folder_of(tmp_path / "deep")
    for letter in "ab":
        (root / letter / "more" / ".hidden").mkdir(parents=True)
        for file in sorted((root / letter).glob("*.png"))[3:]:
            file.rename(root / letter / "more" / file.name)
        (root / letter / "more" / ".hidden" / "x.png").write_bytes(b"not read")
    found = read_pictures(root)
    assert found.labels == flat.labels
    names = [[Path(name).name for name in one.names] for one in (found, flat)]
    assert names[0] == names[1]
    with pytest.raises(
        ea.DataError, match=r"03\.png|00\.png: a picture next to folders"
    ):
        read_pictures(root / "a")


def test_links_to_folders_of_pictures_are_followed(tmp_path: Path) -> None:
    root, store = folder_of(tmp_path / "root"), folder_of(tmp_path / "store")
    own = read_pictures(root).labels
    for letter in "ab":
        (root / letter / "more").symlink_to(store / letter)
        (root / letter / "nowhere").symlink_to(tmp_path / "nowhere")
        (root / letter / "loop").symlink_to(root / letter)
        (store / letter / "back").symlink_to(root / letter)
        (root / letter / "all").symlink_to(root)  # other classes too
        (root / letter / "again").symlink_to(store / letter)
    assert read_pictures(root).labels == sorted([*own, *own])


def test_masked_pixels_are_refused() -> None:
    given = np.ma.masked_array(np.full((2, 4, 4), 9, np.uint8))
    assert read_pictures(given).pixels[0].max() == 9
    given[1, 2, 2] = np.ma.masked
    with pytest.raises(ea.InputError, match=r"X\[1\]: has masked pixels, expected"):
        read_pictures(given)


def test_bad_pictures_are_skipped_and_named(tmp_path: Path) -> None:
    root = folder_of(tmp_path)
    (root / "a" / "02.png").write_bytes(b"no picture")
    with pytest.raises(ea.DataError, match=r"02\.png: is no picture"):
        read_pictures(root)
    found = read_pictures(root, skip=True)
    assert len(found.pixels) == len(found.numbers) == 11
    assert found.numbers == [0, *range(2, 12)]
    assert found.labels == ["a"] * 5 + ["b"] * 6
    (name, reason), *rest = found.skipped
    assert rest == []
    assert name.endswith("02.png")
    assert "is no picture" in reason
    broken = stripes()[0][:2] / 255.0
    broken[1, 0, 0] = np.nan
    assert read_pictures(broken, skip=True).numbers == [0]


def test_files_that_are_no_pictures_are_not_read(tmp_path: Path) -> None:
    """Neither a pipe, which has no end, nor a file of many gigabytes."""
    root = folder_of(tmp_path)
    places = [root / "a" / f"{name}.png" for name in ("pipe", "device", "sparse")]
    os.mkfifo(places[0])
    places[1].symlink_to("/dev/zero")
    with places[2].open("wb") as file:
        file.truncate(1 << 36)
    reasons = ["is not a regular file"] * 2 + ["has 68,719,476,736 bytes, expected at"]
    for place, reason in zip(places, reasons, strict=True):
        with pytest.raises(ea.DataError, match=rf"{place.name}: {reason}"):
            decode(place, str(place))
    with pytest.raises(ea.DataError, match=r"cannot be read \(embedded null byte"):
        read_pictures([f"{places[0]}\0.png"])
    assert len(read_pictures(root, skip=True).skipped) == 3


def test_pictures_are_read_the_same_by_any_number_of_threads(monkeypatch: Any) -> None:
    from evolving_attention.data import images

    found = []
    for threads in (1, 3):
        monkeypatch.setattr(images, "_THREADS", threads)
        found.append(read_pictures(stripes()[0], size=(5, 7)).pixels)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


# --- transforms -----------------------------------------------------------------------

PICTURE = np.arange(6 * 8 * 2, dtype=np.uint8).reshape(6, 8, 2)


def test_resize() -> None:
    assert resized(PICTURE, (6, 8)) is PICTURE
    half = Resize([3, 4])(PICTURE.astype(np.float32), rng())
    assert half.shape == (3, 4, 2)
    # away from the border: a triangle filter of twice the width, (1 3 3 1) / 8, on both
    # axes
    weights = np.array([1, 3, 3, 1]) / 8
    middle = np.einsum("i,j,ijc->c", weights, weights, PICTURE[1:5, 1:5].astype("f8"))
    assert np.allclose(half[1, 1], middle, atol=1e-3)
    covered = Resize([3, 3], keep_shape=True)(PICTURE, rng())
    assert covered.shape == (3, 4, 2)
    assert covered.dtype == np.uint8


def test_crops() -> None:
    centre = CenterCrop([2, 4])(PICTURE, rng())
    assert np.array_equal(centre, PICTURE[2:4, 2:6])
    found = {
        RandomCrop([5, 7])(PICTURE, np.random.default_rng(i)).tobytes()
        for i in range(40)
    }
    places = {PICTURE[r : r + 5, c : c + 7].tobytes() for r in (0, 1) for c in (0, 1)}
    assert found == places
    moved = RandomCrop([6, 8], padding=2)(PICTURE + 1, rng())
    assert moved.shape == PICTURE.shape
    wide = RandomResizedCrop([4, 4])(PICTURE, rng())
    assert wide.shape == (4, 4, 2)
    whole = RandomResizedCrop([6, 8], scale=[1.0, 1.0], ratio=[4.0, 4.0])
    assert np.array_equal(whole(PICTURE, rng()), PICTURE)


def test_the_centre_of_imagenet() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (40, 56, 3)).astype(np.uint8)
    found = centred(picture, (14, 14))
    # 40 x 56 with a shorter side of 16 = 8/7 of 14 is 16 x 22; the middle of it is cut
    assert np.array_equal(found, resized(picture, (16, 22))[1:15, 4:18])
    assert centred(picture, (224, 224)).shape == (224, 224, 3)
    assert not np.array_equal(found, resized(picture, (14, 14)))
    tall = picture.transpose(1, 0, 2)
    turned = centred(tall, (14, 14)).transpose(1, 0, 2)
    assert np.allclose(turned, found.astype(float), atol=1)  # rounded in each direction


def test_pictures_are_centred_once() -> None:
    given = [np.full((20, 30, 1), i, np.uint8) + np.arange(30)[:, None] for i in (0, 9)]
    pictures = [one.astype(np.uint8) for one in given]
    once = read_pictures(pictures, size=(7, 7), centre=True)
    for one, picture in zip(once.pixels, pictures, strict=True):
        assert np.array_equal(one, centred(picture, (7, 7)))
    again = read_pictures(once, size=(7, 7), centre=True)
    assert np.array_equal(again.pixels, once.pixels)
    whole = read_pictures(read_pictures(pictures), size=(7, 7))
    assert np.array_equal(whole.pixels[1], resized(pictures[1], (7, 7)))


def test_flips() -> None:
    assert np.array_equal(HorizontalFlip(1.0)(PICTURE, rng()), PICTURE[:, ::-1])
    assert np.array_equal(HorizontalFlip(0.0)(PICTURE, rng()), PICTURE)
    flips = [
        HorizontalFlip()(PICTURE, np.random.default_rng(i))[0, 0, 0] for i in range(200)
    ]
    assert 60 < np.count_nonzero(flips) < 140


def test_cutout() -> None:
    ones = np.ones((8, 8, 1), np.float32)
    areas = []
    for seed in range(60):
        found = Cutout(4)(ones, np.random.default_rng(seed))
        rows, columns = np.nonzero(found[:, :, 0] == 0)
        assert np.ptp(rows) < 4
        assert np.ptp(columns) < 4
        areas.append(len(rows))
    assert max(areas) == 16
    assert min(areas) >= 4  # at a corner: the centre is inside the picture
    assert ones.all()


def test_normalise_and_compose() -> None:
    change = Compose([Normalize([1.0, 2.0], [2.0, 4.0]), HorizontalFlip(1.0)])
    found = change(PICTURE, rng())
    expected = (PICTURE - np.array([1.0, 2.0])) / np.array([2.0, 4.0])
    assert found.dtype == np.float32
    assert np.allclose(found, expected[:, ::-1])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Resize([0, 3]), r"Resize: size=\[0, 3\], expected \[height, width\]"),
        (lambda: RandomCrop([3, 3], padding=-1), "padding=-1, expected 0 or more"),
        (lambda: HorizontalFlip(1.5), "p=1.5, expected a number from 0 to 1"),
        (lambda: Cutout(0), "side=0, expected 1 or more"),
        (lambda: Normalize([0.0], [0.0]), "above 0, as many as means"),
        (lambda: RandomResizedCrop([3, 3], scale=[0.5, 2.0]), "least <= most <= 1"),
        (lambda: RandomResizedCrop([3, 3], ratio=[2.0, 1.0]), "0 < least <= most"),
    ],
    ids=["size", "padding", "p", "side", "deviation", "scale", "ratio"],
)
def test_options_of_transforms(make: Any, text: str) -> None:
    with pytest.raises(ea.ConfigError, match=text):
        make()


def test_a_crop_larger_than_the_picture() -> None:
    with pytest.raises(ea.ShapeError, match="6 x 8 pixels, expected at least 7 x 7"):
        CenterCrop([7, 7])(PICTURE, rng())


# --- batches --------------------------------------------------------------------------


def test_rows_are_changed_anew_at_every_reading_in_any_order() -> None:
    pixels = stripes(6)[0][:, :, :, None].astype(np.float32)
    change = RandomCrop([8, 8], padding=3)

    def rows() -> ImageRows:
        return ImageRows(pixels, change, tokens=65, labels=np.arange(6), seed=4)

    first, second = rows(), rows()
    batch = first.gather(np.arange(6))
    assert batch["pixel_values"].shape == (6, 1, 8, 8)
    assert batch["labels"].tolist() == list(range(6))
    one_by_one = [second.gather([i])["pixel_values"][0] for i in (3, 0, 5, 1, 2, 4)]
    order = [one_by_one[i] for i in (1, 3, 4, 0, 5, 2)]
    assert np.array_equal(np.stack(order), batch["pixel_values"])
    again = first.gather(np.arange(6))["pixel_values"]
    assert not np.array_equal(again, batch["pixel_values"])
    bare = second.bare(np.arange(6))["pixel_values"]
    assert np.array_equal(bare, again)
    assert np.array_equal(second.gather(np.arange(6))["pixel_values"], again)
    assert first.fingerprint() == rows().fingerprint()
    assert first.fingerprint() != first.take([0, 1]).fingerprint()
    assert first.lengths.tolist() == [65] * 6

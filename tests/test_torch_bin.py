"""pytorch_model.bin: reads both formats, rejects damage, never executes code."""

from __future__ import annotations

import codecs
import io
import os
import random
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch_files as tf
from audit_watch import watching

from evolving_attention.errors import CheckpointError
from evolving_attention.interop.torch_bin import load_torch_bin, read_torch_bin

FORMATS = ("zip", "legacy")
BF16 = np.dtype(ml_dtypes.bfloat16)


def small() -> dict[str, np.ndarray]:
    return {
        "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5,
        "a.bias": np.array([1.5, -2], BF16),
        "ids": np.array([3, 1 << 40]),
    }


def read(data: bytes) -> dict[str, np.ndarray]:
    with tf.in_memory(data) as file:
        return read_torch_bin(file)


def reference(form: str) -> bytes:
    return tf.storage(tf.text("0"), tf.whole(6), more=b"N" if form == "legacy" else b"")


# --- reading ----------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", sorted(tf.KINDS))
def test_every_element_type(form: str, dtype: str) -> None:
    kind = BF16 if dtype == "bfloat16" else np.dtype(dtype)
    arrays = {"w": np.array([[0, 1, 1], [1, 0, 1]]).astype(kind)}
    found = read(tf.write_model(arrays, legacy=form == "legacy"))
    assert tf.same(found, arrays)
    assert found["w"].flags.writeable
    assert found["w"].flags.aligned


@pytest.mark.parametrize("form", FORMATS)
def test_views_share_their_storage(form: str) -> None:
    whole = tf.tensor(reference(form), (2, 3))
    turned = tf.tensor(reference(form), (3, 2), (1, 3))
    tail = tf.tensor(reference(form), (2,), (1,), offset=4)
    empty = tf.tensor(reference(form), (0, 4), (4, 1), offset=6)
    scalar = tf.tensor(reference(form), (), (), offset=5)
    items = {"w": whole, "t": turned, "tail": tail, "e": empty, "s": scalar}
    raw = np.arange(6, dtype=np.float32)
    if form == "zip":
        data = tf.zip_file(tf.state_dict(items), {"0": raw.tobytes()})
    else:
        data = tf.legacy_file(tf.state_dict(items), {"0": (6, raw.tobytes())})
    found = read(data)
    np.testing.assert_array_equal(found["w"], raw.reshape(2, 3))
    np.testing.assert_array_equal(found["t"], raw.reshape(2, 3).T)
    np.testing.assert_array_equal(found["tail"], [4, 5])
    assert found["s"] == 5
    assert found["e"].shape == (0, 4)
    assert np.shares_memory(found["w"], found["tail"])


def test_a_plain_dict_and_parameters_are_read() -> None:
    item = tf.tensor(reference("zip"), (6,))
    parameter = b"ctorch._utils\n_rebuild_parameter\n"
    parameter += tf.tuple_of(item, b"\x88", tf.ORDERED + b")R") + tf.REDUCE
    body = tf.PROTO + tf.dict_of(w=parameter) + tf.STOP
    assert read(tf.zip_file(body, {"0": bytes(24)}))["w"].shape == (6,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("form", FORMATS)
def test_equals_torch(form: str, protocol: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="parity with torch needs torch")
    block = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.BatchNorm1d(5))
    state = block.state_dict()
    state["half"] = torch.randn(3, 4).half()
    state["bf16"] = torch.randn(3, 4).bfloat16()
    state["turned"] = state["0.weight"].T
    state["part"] = state["0.weight"][1:3, ::2]
    state["parameter"] = torch.nn.Parameter(torch.randn(2))
    state["truth"] = torch.tensor([True, False])
    state["empty"] = torch.ones(0, 3)
    state["ids"] = torch.arange(10).expand((1, -1))
    path = tmp_path / "model.bin"
    torch.save(
        state,
        path,
        pickle_protocol=protocol,
        _use_new_zipfile_serialization=form == "zip",
    )
    found = load_torch_bin(path)
    assert list(found) == list(state)
    for name, value in state.items():
        value = value.detach()
        if value.dtype == torch.bfloat16:
            assert found[name].dtype == BF16
            np.testing.assert_array_equal(
                found[name].view(np.int16), value.view(torch.int16).numpy()
            )
        else:
            np.testing.assert_array_equal(found[name], value.numpy())


def test_the_real_rxnfp_file(rxnfp: Path) -> None:
    found = load_torch_bin(rxnfp / "pytorch_model.bin")
    assert len(found) == 207
    words = found["bert.embeddings.word_embeddings.weight"]
    assert words.shape == (591, 256)
    np.testing.assert_array_equal(words, found["cls.predictions.decoder.weight"])
    assert all(np.isfinite(array).all() for array in found.values())
    torch = pytest.importorskip("torch", reason="the last part needs torch")
    path = rxnfp / "pytorch_model.bin"
    expected = torch.load(path, weights_only=True, map_location="cpu")
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value.numpy())


# --- the zip container ---------------------------------------------------------------


def rezipped(data: bytes, change: Any = None, **more: bytes) -> bytes:
    """Rewrites the archive with its members changed by ``change(info, data)``."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(stream, "w") as new,
    ):
        for info in old.infolist():
            raw = old.read(info)
            if change is not None:
                info, raw = change(info, raw)
            if info is not None:
                new.writestr(info, raw)
        for name, raw in more.items():
            new.writestr(name, raw)
    return stream.getvalue()


def compressed(info: zipfile.ZipInfo, raw: bytes) -> Any:
    info.compress_type = zipfile.ZIP_DEFLATED
    return info, raw


def without(suffix: str) -> Any:
    return lambda info, raw: (None if info.filename.endswith(suffix) else info, raw)


def encrypted(data: bytes) -> bytes:
    """Sets the encryption flag of every member in the directory."""
    changed = bytearray(data)
    place = 0
    while (place := changed.find(b"PK\x01\x02", place)) >= 0:
        changed[place + 8] |= 1
        place += 4
    return bytes(changed)


def overlapping(data: bytes) -> bytes:
    """Makes the last directory entry point at the first member's data."""
    changed = bytearray(data)
    place = changed.rfind(b"PK\x01\x02")
    changed[place + 42 : place + 46] = bytes(4)
    return bytes(changed)


VALID_ZIP = tf.write_model(small(), legacy=False)
CONTAINERS = {
    "compressed": lambda: rezipped(VALID_ZIP, compressed),
    "encrypted": lambda: encrypted(VALID_ZIP),
    "overlapping": lambda: overlapping(VALID_ZIP),
    "no pickle": lambda: rezipped(VALID_ZIP, without("data.pkl")),
    "no storage": lambda: rezipped(VALID_ZIP, without("data/1")),
    "two pickles": lambda: rezipped(VALID_ZIP, **{"other/data.pkl": b"}."}),
    "leads up": lambda: rezipped(VALID_ZIP, **{"archive/../x": b""}),
    "absolute": lambda: rezipped(VALID_ZIP, **{"/etc/passwd": b""}),
    "backslash": lambda: rezipped(VALID_ZIP, **{"archive\\..\\x": b""}),
    "program": lambda: rezipped(VALID_ZIP, **{"archive/constants.pkl": b""}),
    "big-endian": lambda: rezipped(
        VALID_ZIP,
        lambda info, raw: (info, b"big" if info.filename.endswith("order") else raw),
    ),
    "member twice": lambda: rezipped(
        rezipped(VALID_ZIP, **{"archive/data/x": b"1"}).replace(b"data/x", b"data/0")
    ),
    "empty": lambda: b"",
    "not torch": lambda: b"hello, this is text" * 40,
    "tar": lambda: bytes(257) + b"ustar" + bytes(300),
    "two archives": lambda: VALID_ZIP + VALID_ZIP[:-1],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_wrong_containers_are_errors(make: Any) -> None:
    data = make()
    with (
        watching() as events,
        pytest.raises(CheckpointError, match=r"model\.bin: "),
    ):
        read(data)
    assert events == []


def test_members_may_not_overlap() -> None:
    """A member extends over the next one; sizes and checksum agree."""
    with zipfile.ZipFile(io.BytesIO(VALID_ZIP)) as archive:
        first, second = archive.infolist()[2:4]
    size = second.header_offset + 8 - first.header_offset - 30 - len(first.filename)
    start = first.header_offset + 30 + len(first.filename)
    checksum = zlib.crc32(VALID_ZIP[start : start + size])
    changed = bytearray(VALID_ZIP)
    name = changed.rfind(first.filename.encode())  # its entry in the directory
    struct.pack_into("<III", changed, name - 30, checksum, size, size)
    with pytest.raises(CheckpointError, match="overlap"):
        read(bytes(changed))


def test_a_legacy_file_ends_where_it_should() -> None:
    with pytest.raises(CheckpointError, match="1 bytes after its end"):
        read(tf.write_model(small(), legacy=True) + b"x")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be opened"):
        load_torch_bin(tmp_path / "none.bin")
    with pytest.raises(CheckpointError, match="regular file"):
        load_torch_bin(tmp_path)


# --- damage --------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def imported() -> None:
    """Imports codecs early that the standard library would import late."""
    codecs.lookup("raw_unicode_escape")
    codecs.lookup("unicode_escape")


def outcome(data: bytes) -> dict[str, np.ndarray] | None:
    """Returns the tensors of a file, or None if it raises CheckpointError."""
    try:
        return read(data)
    except CheckpointError:
        return None


def flips(data: bytes) -> Iterator[bytes]:
    """Yields all bit flips and three random changes of each byte.

    EVOLVING_ATTENTION_FUZZ=full tries all 255 changes of each byte.
    """
    rng = random.Random(3)
    full = os.environ.get("EVOLVING_ATTENTION_FUZZ") == "full"
    for place in range(len(data)):
        changes = [1 << bit for bit in range(8)]
        changes += [rng.randrange(1, 256) for _ in range(3)]
        for change in range(1, 256) if full else changes:
            changed = bytearray(data)
            changed[place] ^= change
            yield bytes(changed)


@pytest.mark.parametrize("form", FORMATS)
def test_every_truncation_is_an_error(form: str) -> None:
    data = tf.write_model(small(), legacy=form == "legacy")
    assert tf.same(read(data), small())
    for size in range(len(data)):
        assert outcome(data[:size]) is None, size


@pytest.mark.filterwarnings("ignore:invalid escape")
def test_flips_of_a_zip_file_are_found_or_harmless() -> None:
    """Every member has a checksum, so no other values can be read."""
    expected = small()
    tried = refused = 0
    with watching() as events:
        for data in flips(VALID_ZIP):
            found = outcome(data)
            tried += 1
            refused += found is None
            assert found is None or tf.same(found, expected)
    assert events == []
    assert tried > 7000
    assert refused > tried / 2


@pytest.mark.filterwarnings("ignore:invalid escape")
def test_flips_of_a_legacy_file_are_found_or_read_as_torch_does() -> None:
    """Without checksums, a flip in a value or name gives another value or name."""
    expected = small()
    valid = tf.write_model(expected, legacy=True)
    others = []
    tried = 0
    with watching() as events:
        for data in flips(valid):
            found = outcome(data)
            tried += 1
            if found is not None and not tf.same(found, expected):
                assert sum(array.nbytes for array in found.values()) <= len(data)
                others.append((data, found))
    assert events == []
    assert tried > 7000
    torch = pytest.importorskip("torch", reason="the comparison needs torch")
    for data, found in others:
        state = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
        assert found.keys() == state.keys()
        for name, value in state.items():
            raw = bytes(value.contiguous().flatten().view(torch.uint8).tolist())
            assert found[name].tobytes() == raw

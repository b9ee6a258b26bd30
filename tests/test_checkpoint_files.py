"""Model folders: formats, shards, configs, file names and tensor names."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch_files as tf
from audit_watch import watching
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.interop import paths
from evolving_attention.interop.hf import load_config, load_folder
from evolving_attention.interop.safetensors_io import (
    load_safetensors,
    read_safetensors,
    save_safetensors,
)

BF16 = np.dtype(ml_dtypes.bfloat16)


def small() -> dict[str, np.ndarray]:
    return {
        "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5,
        "a.bias": np.array([1.5, -2], BF16),
        "b.ids": np.array([3, 1 << 40]),
        "b.truth": np.array([True, False]),
        "c.empty": np.zeros((0, 4), np.float16),
        "c.scalar": np.array(2.5),
    }


def folder(path: Path, config: Any = None, **files: bytes) -> Path:
    """A model folder; ``__`` in a file's name stands for a dot."""
    path.mkdir(exist_ok=True, parents=True)
    text = json.dumps({"model_type": "bert"} if config is None else config)
    (path / "config.json").write_text(text)
    for name, data in files.items():
        (path / name.replace("__", ".")).write_bytes(data)
    return path


def safetensors_bytes(header: Any, data: bytes = bytes(8)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# --- safetensors ---------------------------------------------------------------------


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    assert save_safetensors(tmp_path, small()) == ["model.safetensors"]
    found = load_safetensors(tmp_path / "model.safetensors")
    assert tf.same(found, small())
    assert all(
        array.flags.writeable and array.flags.aligned for array in found.values()
    )


def test_transposed_arrays_are_saved_right(tmp_path: Path) -> None:
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    save_safetensors(tmp_path, {"w": turned})
    np.testing.assert_array_equal(
        load_safetensors(tmp_path / "model.safetensors")["w"], turned
    )


def test_shards_and_back(tmp_path: Path) -> None:
    folder(tmp_path)
    save_safetensors(tmp_path, {"old": np.zeros(3)})
    arrays = {f"layer.{i}": np.full((10, 10), i, np.float32) for i in range(7)}
    files = save_safetensors(tmp_path, arrays, max_shard_bytes=1000)
    assert files[0] == "model-00001-of-00004.safetensors"
    assert files[-1] == "model.safetensors.index.json"
    found = load_folder(tmp_path)  # the old single file must not win
    assert tf.same(found.tensors, arrays)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 2800
    save_safetensors(tmp_path, {"new": np.zeros(3, np.float32)})
    assert list(load_folder(tmp_path).tensors) == ["new"]


@pytest.mark.parametrize("dtype", ["complex64", "U3", "object", "float128"])
def test_types_safetensors_has_not_are_refused(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(CheckpointError, match="element type"):
        save_safetensors(tmp_path, {"w": np.zeros(2, dtype)})


def test_transformers_reads_the_metadata(tmp_path: Path) -> None:
    safe_open = pytest.importorskip("safetensors").safe_open
    save_safetensors(tmp_path, small())
    with safe_open(tmp_path / "model.safetensors", "np", backend="pread") as file:
        assert file.metadata() == {"format": "pt"}


def tensor(dtype: str = "F32", shape: Any = (2,), end: int = 8) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}


WRONG_FILES: dict[str, bytes] = {
    "empty": b"",
    "seven bytes": bytes(7),
    "header longer than the file": struct.pack("<Q", 100) + b"{}",
    "header of 2^63": struct.pack("<Q", 1 << 63) + b"{}",
    "header is no JSON": safetensors_bytes(b"{]"),
    "header is a list": safetensors_bytes([]),
    "header is deep": safetensors_bytes(b"[" * 200_000),
    "header is not UTF-8": safetensors_bytes(b'{"\xff": 1}'),
    "a name twice": safetensors_bytes(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
        b'"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    ),
    "nine axes": safetensors_bytes({"a": tensor(shape=[1] * 8 + [2])}),
    "NaN in the header": safetensors_bytes(b'{"a": NaN}'),
    "an entry is no object": safetensors_bytes({"a": 3}),
    "no dtype": safetensors_bytes({"a": {"shape": [2], "data_offsets": [0, 8]}}),
    "unknown dtype": safetensors_bytes({"a": tensor("F3")}),
    "8-bit float": safetensors_bytes({"a": tensor("F8_E4M3", [8])}),
    "dtype is a list": safetensors_bytes({"a": tensor(["F32"])}),  # type: ignore[arg-type]
    "negative size": safetensors_bytes({"a": tensor(shape=[-2])}),
    "size is a float": safetensors_bytes({"a": tensor(shape=[2.0])}),
    "size is a truth value": safetensors_bytes({"a": tensor(shape=[True, 2])}),
    "size overflows": safetensors_bytes({"a": tensor(shape=[1 << 62, 4])}),
    "larger than the file": safetensors_bytes({"a": tensor(shape=[1 << 30])}),
    "offsets differ from the shape": safetensors_bytes({"a": tensor(shape=[1])}),
    "offsets behind the end": safetensors_bytes({"a": tensor(end=9)}),
    "a hole": safetensors_bytes({"a": tensor()}, bytes(12)),
    "overlap": safetensors_bytes({"a": tensor(), "b": tensor()}),
    "odd truth values": safetensors_bytes({"a": tensor("BOOL", [8])}, b"\2" * 8),
    "a name with NUL": safetensors_bytes({"a\0b": tensor()}),
    "an empty name": safetensors_bytes({"": tensor()}),
    "a long name": safetensors_bytes({"a" * 513: tensor()}),
    "metadata of numbers": safetensors_bytes({"a": tensor(), "__metadata__": {"x": 1}}),
}


@pytest.mark.parametrize("data", WRONG_FILES.values(), ids=WRONG_FILES)
def test_wrong_safetensors_are_errors(data: bytes) -> None:
    with (
        tf.in_memory(data) as file,
        pytest.raises(CheckpointError, match=r"model\.bin"),
    ):
        read_safetensors(file)


def test_truncations_and_flips_of_safetensors(tmp_path: Path) -> None:
    """Flipped bits give an error, or what safetensors reads from the same bytes."""
    reference = pytest.importorskip("safetensors.numpy")
    arrays = {"a": np.arange(4, dtype=np.float32), "b": np.array([[1, 2]], np.int64)}
    save_safetensors(tmp_path, arrays)
    data = (tmp_path / "model.safetensors").read_bytes()
    found: dict[str, np.ndarray] | None
    changed = [(data[:size], None) for size in range(len(data))]
    full = os.environ.get("EVOLVING_ATTENTION_FUZZ") == "full"
    for place in range(len(data)):
        for change in range(1, 256) if full else (1, 2, 4, 8, 16, 32, 64, 128, 255, 91):
            flipped = bytearray(data)
            flipped[place] ^= change
            changed.append((bytes(flipped), place))
    with watching() as events:
        for raw, place in changed:
            try:
                with tf.in_memory(raw) as file:
                    found = read_safetensors(file)
            except CheckpointError:
                continue
            assert place is not None  # no truncated file is accepted
            if not tf.same(found, arrays):
                expected = reference.load(raw)
                assert tf.same(dict(sorted(expected.items())), found)
    assert events == []


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_safetensors(tmp_path, {"w": np.zeros(100_000)})
    with paths.open_given(path) as file:
        os.truncate(path, 5000)
        with pytest.raises(CheckpointError):
            read_safetensors(file)
    with paths.open_given(path) as file:
        os.truncate(path, 100)
        with pytest.raises(CheckpointError, match="while being read"):
            file.read(0, 5000)


def test_the_real_minilm(minilm: Path) -> None:
    found = load_folder(minilm)
    assert found.files == ("model.safetensors",)
    assert found.model_type == "bert"
    assert found.tensors["embeddings.word_embeddings.weight"].shape == (30522, 384)
    reference = pytest.importorskip("safetensors.numpy")
    expected = reference.load((minilm / "model.safetensors").read_bytes())
    assert tf.same(dict(sorted(expected.items())), found.tensors)


def test_the_real_rxnfp_folder(rxnfp: Path) -> None:
    found = load_folder(rxnfp)
    assert found.files == ("pytorch_model.bin",)
    assert "model_type" not in found.config  # the file is older than this key
    assert found.model_type == "bert"
    assert load_folder(rxnfp.parent / "bert_ft_10k_25s").model_type == "bert"


# --- folders -------------------------------------------------------------------------


def test_formats_are_preferred_in_order(tmp_path: Path) -> None:
    first, second = {"w": np.zeros(2, np.float32)}, {"w": np.ones(2, np.float32)}
    root = folder(tmp_path, pytorch_model__bin=tf.write_model(second, legacy=True))
    assert tf.same(load_folder(root).tensors, second)
    save_safetensors(root, first)
    assert tf.same(load_folder(root).tensors, first)


def test_shards_of_bin_files(tmp_path: Path) -> None:
    one, two = {"a": np.zeros(2, np.float32)}, {"b": np.ones(3, np.float32)}
    index = {"weight_map": {"a": "one.bin", "b": "two.bin"}}
    root = folder(
        tmp_path,
        one__bin=tf.write_model(one, legacy=False),
        two__bin=tf.write_model(two, legacy=True),
        pytorch_model__bin__index__json=json.dumps(index).encode(),
    )
    assert tf.same(load_folder(root).tensors, {**one, **two})


def test_a_folder_without_weights_or_config(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_folder(tmp_path)
    folder(tmp_path)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin"):
        load_folder(tmp_path)
    with pytest.raises(CheckpointError, match="not a folder"):
        load_folder(tmp_path / "none")


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


CONFIGS: dict[str, tuple[str, str]] = {
    "empty": ("", "JSON"),
    "text": ("hello", "JSON"),
    "list": ("[1]", "object"),
    "null": ("null", "object"),
    "number": ("3", "object"),
    "not UTF-8": ("\udcff", "JSON"),
    "cut": ('{"vocab_size": 3', "JSON"),
    "half": (r'{"hidden_act": "gelu\ud800"}', r"hidden_act is 'gelu\\ud800', exp"),
    "half byte": (r'{"hidden_act": "\udc83"}', r"hidden_act is '\\udc83', exp"),
    "key twice": ('{"hidden_size": 4, "hidden_size": 8}', "hidden_size"),
    "NaN": ('{"layer_norm_eps": NaN}', "NaN"),
    "Infinity": ('{"x": -Infinity}', "Infinity"),
    "deep": (deep(100_000), "nested"),
    "deep brackets": ("[" * 100_000, "nested"),
    "huge integer": ('{"vocab_size": ' + "9" * 5000 + "}", "JSON"),
    "large integer": ('{"vocab_size": ' + "9" * 4000 + "}", "vocab_size"),
    "zero words": ('{"vocab_size": 0}', "vocab_size"),
    "negative layers": ('{"num_hidden_layers": -1}', "num_hidden_layers"),
    "many layers": ('{"num_hidden_layers": 1000000}', "num_hidden_layers"),
    "float size": ('{"hidden_size": 8.0}', "hidden_size"),
    "true size": ('{"hidden_size": true}', "hidden_size"),
    "string size": ('{"hidden_size": "8"}', "hidden_size"),
    "list size": ('{"hidden_size": [8]}', "hidden_size"),
    "deep size": ('{"hidden_size": ' + "[" * 900 + "]" * 900 + "}", "hidden_size"),
    "dropout": ('{"hidden_dropout_prob": 1.5}', "hidden_dropout_prob"),
    "dropout text": ('{"hidden_dropout_prob": "0.1"}', "hidden_dropout_prob"),
    "overflow": ('{"layer_norm_eps": 1e999}', "layer_norm_eps"),
    "model type": ('{"model_type": 3}', "model_type"),
    "architectures": ('{"architectures": "Bert"}', "architectures"),
    "architectures of numbers": ('{"architectures": [1]}', "architectures"),
    "padding": ('{"pad_token_id": 9, "vocab_size": 9}', "pad_token_id"),
    "padding negative": ('{"pad_token_id": -1}', "pad_token_id"),
    "heads": ('{"hidden_size": 10, "num_attention_heads": 3}', "hidden_size"),
    "labels": ('{"id2label": []}', "id2label"),
}


@pytest.mark.parametrize(("text", "named"), CONFIGS.values(), ids=CONFIGS)
def test_wrong_configs_are_errors(tmp_path: Path, text: str, named: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(ConfigError, match=named) as caught:
        load_config(tmp_path)
    assert str(tmp_path / "config.json") in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hidden_act": "silu"}, r"\[hidden_act\] unknown activation 'silu'"),
        ({"attention": ["vanilla", *["evolving"] * 3]}, r"\[attention\] 4 specs for"),
    ],
)
def test_settings_that_the_core_refuses_name_the_file(
    change: dict[str, Any], told: str, tmp_path: Path
) -> None:
    model = tiny()
    model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    with pytest.raises(ConfigError, match=rf"^{told}"):
        type(model).from_pretrained(tmp_path, **change)
    with pytest.raises(ConfigError, match=r"^\w+: dtype='float8'; expected"):
        type(model).from_pretrained(tmp_path, dtype="float8")
    values = {**json.loads(file.read_text()), **change}
    file.write_text(json.dumps(values))
    with pytest.raises(ConfigError, match=rf"^{file}: {told}"):
        type(model).from_pretrained(tmp_path)
    right = {"hidden_act": "relu", "attention": "vanilla"}
    type(model).from_pretrained(tmp_path, **right)


@pytest.mark.parametrize("code", [0xD83D, 0xDC83])
def test_half_of_a_surrogate_pair_in_a_setting_is_refused(code: int) -> None:
    half = chr(code)
    for make in (
        lambda: ea.BertConfig(hidden_act=half),
        lambda: ea.T5Config(feed_forward_proj=half),
        lambda: ea.ResNetConfig(layer_type=half),
        lambda: ea.EADCTransformerConfig(channels=1, max_length=5, norm=half),
        lambda: ea.attention.Evolving(conv_init=half),
        lambda: ea.BertConfig(attention={"kind": "evolving", "conv_init": half}),
    ):
        with pytest.raises(ConfigError, match=r"'\\ud.*, expected a string of valid"):
            make()


def test_class_names_with_halves_of_surrogate_pairs_are_read(tmp_path: Path) -> None:
    names = {0: os.fsdecode(b"caf\xe9"), 1: "\U0001f600", 2: "\ud83d"}
    tiny(id2label=names).save_pretrained(tmp_path)
    assert load_config(tmp_path)["id2label"] == {str(i): n for i, n in names.items()}


def test_a_large_config_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    os.truncate(tmp_path / "config.json", 1 << 40)
    with pytest.raises(CheckpointError, match="at most"):
        load_config(tmp_path)


def test_mutated_json_is_read_or_refused(tmp_path: Path) -> None:
    """Bytes and pieces of a config and an index are changed at random."""
    config = (
        b'{"model_type": "bert", "hidden_size": 8, "architectures": ["BertModel"], '
    )
    config += b'"layer_norm_eps": 1e-12, "num_attention_heads": 2, "x": null}'
    index = b'{"metadata": {"total_size": 16}, "weight_map": {"a": "one.safetensors"}}'
    save_safetensors(tmp_path, {"a": np.zeros(2)})
    (tmp_path / "model.safetensors").rename(tmp_path / "one.safetensors")
    rng = random.Random(5)
    pieces = [b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"-1", b"1e999", b"\0"]
    pieces += [b"\xff", b"NaN", b"../", b"9" * 30, b"\\u0000", b"\\ud800", b"true", b""]
    read = refused = 0
    draws = 4000 if os.environ.get("EA_TEST_EXHAUSTIVE") else 1000
    for _ in range(draws):
        texts = [bytearray(config), bytearray(index)]
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(len(text) + 1)
            text[start : start + rng.randint(0, 4)] = rng.choice(pieces)
        (tmp_path / "config.json").write_bytes(texts[0])
        (tmp_path / "model.safetensors.index.json").write_bytes(texts[1])
        try:
            found = load_folder(tmp_path)
        except (ConfigError, CheckpointError):
            refused += 1
        else:
            read += 1
            assert list(found.tensors) == ["a"]
    assert min(read, refused) > draws // 40


INDEXES: dict[str, Any] = {
    "no map": {},
    "map is a list": {"weight_map": ["a"]},
    "map is empty": {"weight_map": {}},
    "a missing file": {"weight_map": {"a": "none.safetensors"}},
    "a tensor that is not there": {"weight_map": {"zz": "one.safetensors"}},
    "an odd name": {"weight_map": {"a\n": "one.safetensors"}},
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_wrong_indexes_are_errors(tmp_path: Path, index: Any) -> None:
    save_safetensors(tmp_path, {"a": np.zeros(2)})
    (tmp_path / "model.safetensors").rename(tmp_path / "one.safetensors")
    root = folder(tmp_path, model__safetensors__index__json=json.dumps(index).encode())
    with pytest.raises(CheckpointError, match=r"get|cannot be opened|damaged"):
        load_folder(root)


# --- names of files: rule B5 ---------------------------------------------------------

TRAVERSALS: tuple[Any, ...] = (
    "",
    ".",
    "..",
    "../x",
    "../../etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "./x",
    "a/b",
    "a/../x",
    "sub/",
    "..\\x",
    "a\\b",
    "C:\\x",
    "C:x",
    "\\\\host\\share",
    "~",
    "~/x",
    "~root",
    "$HOME",
    "%2e%2e%2fx",
    "..%2fx",
    "x\0",
    "x\0.safetensors",
    "x\n",
    "\nx",
    " x",
    "x ",
    "x\t",
    "\u2025/x",
    "\uff0e\uff0e\uff0fx",
    "x\u2044y",
    "mo\u0308del",
    "м.safetensors",
    "\u202ex",
    "\ufeffx",
    "file:///etc/passwd",
    "https://host/x",
    "x:y",
    "*",
    "|x",
    "-" * 256,
    "a" * 256,
    3,
    None,
    ["x"],
    {"x": 1},
    b"x",
)


@pytest.mark.parametrize("name", TRAVERSALS, ids=ascii)
def test_odd_names_are_refused(tmp_path: Path, name: Any) -> None:
    with watching() as events, pytest.raises(CheckpointError, match="plain name"):
        paths.open_inside(tmp_path, name)
    assert events == []


@pytest.mark.parametrize("name", [n for n in TRAVERSALS if isinstance(n, (str, list))])
def test_an_index_cannot_lead_outside(tmp_path: Path, name: Any) -> None:
    index = json.dumps({"weight_map": {"a": name}}).encode()
    root = folder(tmp_path, model__safetensors__index__json=index)
    with pytest.raises(CheckpointError, match="plain name"):
        load_folder(root)


def make_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def make_relative_link(path: Path, secret: Path) -> None:
    path.symlink_to(Path("..") / secret.name)


def make_inner_link(path: Path, secret: Path) -> None:
    (path.parent / "real").write_bytes(secret.read_bytes())
    path.symlink_to("real")


def make_dangling_link(path: Path, secret: Path) -> None:
    path.symlink_to("nothing")


def make_loop(path: Path, secret: Path) -> None:
    path.symlink_to(path.name)


def make_link_to_zero(path: Path, secret: Path) -> None:
    path.symlink_to("/dev/zero")


def make_fifo(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path, secret: Path) -> None:
    path.mkdir()


def make_socket(path: Path, secret: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


KINDS = (
    make_link,
    make_relative_link,
    make_inner_link,
    make_dangling_link,
    make_loop,
    make_link_to_zero,
    make_fifo,
    make_folder,
    make_socket,
)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "shard.bin"])
def test_only_regular_files_are_opened(
    tmp_path: Path,
    name: str,
    make: Callable[[Path, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(safetensors_bytes({"a": tensor()}))
    index = json.dumps({"weight_map": {"a": "shard.bin"}}).encode()
    extra = {"pytorch_model__bin__index__json": index} if name == "shard.bin" else {}
    root = folder(tmp_path / "model", **extra)
    (root / name).unlink(missing_ok=True)
    monkeypatch.chdir(root)  # socket paths are limited in length
    make(Path(name), secret)
    with pytest.raises(CheckpointError, match=r"link|regular|cannot be opened"):
        load_folder(root)


def test_a_device_is_refused() -> None:
    with pytest.raises(CheckpointError, match="regular"):
        paths.open_inside(Path("/dev"), "zero")
    with pytest.raises(CheckpointError, match="regular"):
        paths.open_given(Path("/dev/zero"))


def snapshot(root: Path) -> tuple[Path, Path]:
    """A model in the layout of the Hub's cache: entries are links into blobs."""
    model = root / "models--org--name"
    blobs, revision = model / "blobs", model / "snapshots" / ("a" * 40)
    blobs.mkdir(parents=True)
    folder(revision)
    os.rename(revision / "config.json", blobs / "c0ffee")
    (revision / "config.json").symlink_to("../../blobs/c0ffee")
    return revision, blobs


def test_links_of_the_hub_cache_are_followed(tmp_path: Path) -> None:
    revision, _ = snapshot(tmp_path)
    assert load_config(revision) == {"model_type": "bert"}
    (tmp_path / "short").symlink_to(revision)
    assert load_config(tmp_path / "short") == {"model_type": "bert"}


@pytest.mark.parametrize(
    "target", ["../../../secret", "/etc/passwd", "../../blobs/link"]
)
def test_other_links_in_the_hub_cache_are_not(tmp_path: Path, target: str) -> None:
    revision, blobs = snapshot(tmp_path)
    (tmp_path / "secret").write_text("{}")
    (blobs / "link").symlink_to(tmp_path / "secret")
    (revision / "config.json").unlink()
    (revision / "config.json").symlink_to(target)
    with pytest.raises(CheckpointError, match="outside of the cache"):
        load_config(revision)

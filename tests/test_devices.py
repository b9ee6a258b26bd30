"""Devices of a CPU build: their names, where tensors are, and what is refused.

tests/fake_device/ tests the same for a build with a device besides the CPU.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest
from mistakes.row import IDS, config

import evolving_attention as ea
from evolving_attention import _core, device_names

cpu_only = pytest.mark.skipif(len(ea.devices()) > 1, reason="there is a device here")
# Builds with the CUDA kernels import everywhere, and find that there is no driver.
has_kernels = bool(_core.kernel_entries("cuda"))
WHY = "no NVIDIA driver: looked for libcuda" if has_kernels else "no CUDA kernels"


def test_the_cpu_is_a_device():
    name, description = next(iter(ea.devices().items()))
    assert name == "cpu"
    assert description == _core.build_info()["cpu_name"]
    assert _core.resolve_device("cpu") == "cpu"
    _core.synchronize("cpu")
    assert _core.current_memory("cpu") == _core.current_memory()


@cpu_only
def test_why_there_is_no_gpu_is_said():
    assert list(_core.unusable_devices()) == ["cuda"]
    with pytest.raises(ea.BackendUnavailable, match=WHY):
        _core.resolve_device("cuda:7")
    report = ea.doctor(run_self_test=False)
    assert report["devices"]["usable"] == ea.devices()
    assert report["devices"]["unusable"]["cuda"] == report["cuda"]["reason"]


@pytest.mark.parametrize(
    "name",
    ["", "gpu", "CPU", "cpu:1", "cuda:", "cuda:-1", "cuda:x", "cuda:1 ", "cuda1"],
)
def test_names_that_are_none(name: str):
    with pytest.raises(ea.ConfigError, match="cpu, cuda, cuda:N"):
        _core.resolve_device(name)


@cpu_only
@pytest.mark.parametrize("has_gpu", [True, False])
def test_auto_is_the_cpu_and_says_why_once(caplog, monkeypatch, tmp_path, has_gpu):
    file = tmp_path if has_gpu else tmp_path / "none"
    monkeypatch.setattr(device_names, "GPU_FILES", (str(file),))
    device_names._say_why_cpu.cache_clear()
    with caplog.at_level(logging.INFO, "evolving_attention"):
        assert device_names.resolve_device("auto") == "cpu"
        assert device_names.resolve_device("auto") == "cpu"
    lines = [r.getMessage() for r in caplog.records]
    assert len(lines) == has_gpu  # without a GPU, CUDA is not mentioned
    assert all("device auto" in line and WHY in line for line in lines)


def test_tensors_say_where_they_are():
    t = ea.Tensor([1.0, 2.0], device="cpu")
    assert t.device == "cpu"
    assert t.to("cpu").device == "cpu"
    assert (t.to("cpu", "float64").dtype, t.to("float64", "cpu").dtype) == (
        "float64",
        "float64",
    )
    assert t.to(dtype="int64", device="cpu").dtype == "int64"
    assert "device" not in repr(t)


def test_a_move_to_the_same_place_copies_nothing():
    t = ea.Tensor([1.0, 2.0], requires_grad=True)
    (3.0 * t.to("cpu")).sum().backward()
    assert t.grad is not None
    assert np.asarray(t.grad).tolist() == [3, 3]
    assert np.shares_memory(t.to("cpu").numpy(), t.numpy())


def test_models_say_where_they_are(tmp_path):
    model = ea.BertForSequenceClassification(config(), device="cpu")
    assert model.device == "cpu"
    tensors = [id(t) for t in model.parameters()]
    assert [id(t) for t in model.to("cpu").parameters()] == tensors
    both = model.to(device="cpu", dtype="bfloat16")
    assert (both.device, both.dtype) == ("cpu", "bfloat16")
    model.save_pretrained(tmp_path)
    again = ea.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, device="auto", dtype="bfloat16"
    )
    assert again.device in ea.devices()
    assert again(IDS).logits.device == again.device


def test_models_take_the_types_of_numpy_and_torch():
    torch = pytest.importorskip("torch")
    model = ea.BertForSequenceClassification(config())
    for target, name in {
        np.float64: "float64",
        torch.bfloat16: "bfloat16",
        np.dtype("float32"): "float32",
    }.items():
        assert model.to(target).dtype == name
        assert model.copy(target).dtype == name
        assert type(model)(config(), target).dtype == name
    other = model.to(torch.device("cpu"), torch.float64)
    assert (other.dtype, other.device) == ("float64", "cpu")
    with pytest.raises(ea.ConfigError, match="dtype='float16'; expected one of"):
        model.to(torch.float16)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_cleared_as_in_torch(dtype):
    model = ea.BertForSequenceClassification(config(), dtype)
    optimizer = ea.optim.SGD(model.parameters(), lr=0.1)
    for holder in (model, optimizer):
        model(IDS, labels=np.zeros(len(IDS), int)).loss.backward()
        holder.zero_grad(set_to_none=False)
        assert not any(p.grad.numpy().any() for p in model.parameters())
        holder.zero_grad(set_to_none=True)
        assert all(p.grad is None for p in model.parameters())
        with pytest.raises(ea.ConfigError, match="set_to_none=None, expected True or"):
            holder.zero_grad(None)


def test_the_registry_names_the_kernels_of_a_device():
    assert {"ref"} <= {one for _, one, _ in _core.kernel_entries("cpu")}
    assert _core.kernel_entries("cpu") == _core.kernel_entries()
    with pytest.raises(ea.KernelNotFound, match=r"ref.* on cpu; .* on cuda"):
        _core.force_kernel("binary", "none")
    if not has_kernels:
        assert list(ea.devices()) == ["cpu"]

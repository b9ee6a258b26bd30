"""``evolving-attention bench``: measures training and inference speed of BERT.

Times steps of a small BERT and of one with BERT-Base's sizes, vanilla and evolving, and
the machine's matrix product, which bounds them. PyTorch and transformers, if installed,
run the vanilla model alternately. The scripts in the repository's ``benchmarks/``
measure more thoroughly.
"""

from __future__ import annotations

import importlib
import itertools
import os
import statistics
import time
from pathlib import Path
from typing import Any

from evolving_attention.cli.bench_steps import (
    DTYPES,
    KINDS,
    SIZES,
    WORKS,
    gemm,
    has_torch,
    our_runs,
    torch_runs,
    turns,
)
from evolving_attention.cli.common import console, guarded, print_json
from evolving_attention.errors import ConfigError
from evolving_attention.notices import note

ROUNDS = 5


@guarded
def run(
    *,
    sizes: list[str],
    dtypes: list[str],
    seconds: float,
    num_threads: int | None,
    with_profile: bool,
    compare: bool,
    json_file: Path | None,
) -> None:
    """Measure what fits into the time, print a table, and write JSON if requested."""
    from evolving_attention import _core

    wanted = _checked(sizes, dtypes, seconds, json_file)
    if num_threads is not None:
        _core.set_num_threads(num_threads)
    if compare:
        _join_torch(_core.get_num_threads())
    _tell_load()
    end = time.perf_counter() + seconds
    result: dict[str, Any] = {
        "machine": {k: v for k, v in _core.build_info().items() if k != "kernels"},
        "threads": _core.get_num_threads(),
        "gemm_gflops": {dtype: gemm(dtype, compare) for dtype in wanted},
        "steps": [],
        "profiles": {},
    }
    models = list(itertools.product(sizes, wanted, KINDS))
    for done, model in enumerate(models):
        share = (end - time.perf_counter()) / (len(models) - done)
        _one_model(*model, share, compare, result)
    if with_profile:
        result["profiles"] = {k: _profile(sizes[-1], wanted[0], k) for k in KINDS}
    if json_file is not None:
        _write(json_file, result)
    if json_file is None or str(json_file) != "-":
        _print(result)


def _checked(
    sizes: list[str], dtypes: list[str], seconds: float, json_file: Path | None
) -> list[str]:
    """Returns the element types to measure, after checking all options."""
    for what, given, known in (("size", sizes, SIZES), ("dtype", dtypes, DTYPES)):
        for name in given:
            if name not in known:
                raise ConfigError(
                    f"bench: --{what} {name!r} is unknown; expected one of "
                    f"{', '.join(known)}"
                )
    if not seconds > 0:
        raise ConfigError(f"bench: --seconds {seconds:g}; expected a number above 0")
    if json_file is not None and str(json_file) != "-" and json_file.is_dir():
        raise ConfigError(f"bench: --json {json_file} is a folder; name a file")
    if json_file is not None and not json_file.parent.is_dir():
        raise ConfigError(
            f"bench: --json {json_file}: its folder does not exist; make it first"
        )
    if dtypes:
        return list(dict.fromkeys(dtypes))
    from evolving_attention import _core

    info = _core.build_info()
    if info.get("avx512_bf16") or info.get("amx_bf16"):
        return list(DTYPES)
    note("bfloat16 is left out: this processor has no instructions for it")
    return ["float32"]


def _tell_load() -> None:
    """Warn that measurements on a busy machine are useless."""
    load = os.getloadavg()[0]
    if load > 0.5:
        note(
            f"the machine is busy (load {load:.1f}): the times will be too long, most "
            "of all PyTorch's; measure again when it is idle"
        )


def _join_torch(threads: int) -> None:
    """Load PyTorch, if installed, with the same thread count; else print a note."""
    if has_torch():  # imported by name: the package itself never depends on it
        importlib.import_module("torch").set_num_threads(threads)
    else:
        note("torch or transformers is not installed: nothing to compare with")


def _one_model(
    size: str,
    dtype: str,
    kind: str,
    share: float,
    compare: bool,
    result: dict[str, Any],
) -> None:
    """Measure training and inference of one model, or note that the time is used up."""
    from evolving_attention.profiling import matrix_flops

    what = {"size": size, "dtype": dtype, "attention": kind}
    if share <= 0:
        skipped = "the time was over (--seconds)"
        result["steps"] += [{**what, "work": w, "skipped": skipped} for w in WORKS]
        return
    layers, width, heads, inner, _, batch, length = SIZES[size]
    sides = {"ours": our_runs(size, dtype, kind)}
    if compare and kind == "vanilla" and has_torch():
        sides["torch"] = torch_runs(size, dtype)
    best = max(result["gemm_gflops"][dtype].values())
    for work in WORKS:
        runs = {side: found[work] for side, found in sides.items()}
        times = turns(runs, ROUNDS, share / 3)
        flops = matrix_flops(
            [length] * batch,
            layers=layers,
            width=width,
            heads=heads,
            inner=inner,
            kernel_size=3 if kind == "evolving" else 0,
            training=work == WORKS[0],
        )["total"]
        one: dict[str, Any] = {**what, "work": work, "batch": batch, "length": length}
        one |= {f"{side}_s": statistics.median(t) for side, t in times.items()}
        one |= {"rounds": len(times["ours"]), "flops": flops}
        one["share_of_gemm"] = flops / (best * 1e9) / one["ours_s"]
        if "torch_s" in one:
            one["speedup"] = one["torch_s"] / one["ours_s"]
        result["steps"].append(one)


def _profile(size: str, dtype: str, kind: str) -> dict[str, Any]:
    """Returns the share of each kernel in three training steps."""
    from evolving_attention.profiling import profile

    step = our_runs(size, dtype, kind)[WORKS[0]]
    step()
    with profile() as found:
        for _ in range(3):
            step()
    return {**found.as_dict(), "text": str(found), "what": f"{kind} {size}, {dtype}"}


def _write(path: Path, result: dict[str, Any]) -> None:
    """Write the result as JSON, to a file or ("-") to stdout."""
    import json

    from evolving_attention import durable
    from evolving_attention.durable import plain

    if str(path) == "-":
        print_json(result)
    else:
        text = json.dumps(plain(result), indent=2) + "\n"
        durable.write_bytes(path, text.encode("utf-8"))


def _print(result: dict[str, Any]) -> None:
    """Print the results as tables."""
    from rich.table import Table

    out = console()
    machine = result["machine"]
    out.print(
        f"{machine['cpu_name']}, {machine['isa_used']}, {result['threads']} threads"
    )
    for dtype, rates in result["gemm_gflops"].items():
        told = ", ".join(f"{side} {rate:.0f}" for side, rate in rates.items())
        out.print(f"matrix product, {dtype}: {told} GFLOP/s")
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in ("ms", "seq/s", "of GEMM", "torch ms", "speed-up"):
        table.add_column(name, justify="right", no_wrap=True)
    over = [one for one in result["steps"] if "skipped" in one]
    for one in result["steps"]:
        if one in over:
            continue
        theirs = ("-", "-")
        if "torch_s" in one:
            theirs = (f"{one['torch_s'] * 1e3:.1f}", f"{one['speedup']:.2f}×")
        table.add_row(
            _name(one),
            f"{one['ours_s'] * 1e3:.1f}",
            f"{one['batch'] / one['ours_s']:.1f}",
            f"{one['share_of_gemm']:.0%}",
            *theirs,
        )
    out.print(table)
    for one in over:
        out.print(f"{_name(one)}: not measured, {one['skipped']}")
    for found in result["profiles"].values():
        out.print(f"\n{found['what']}, three training steps:\n{found['text']}")


def _name(one: dict[str, Any]) -> str:
    """Returns model, attention, element type and work of one row."""
    return " ".join(one[key] for key in ("size", "attention", "dtype", "work"))

"""A BERT training step on an NVIDIA GPU: ours, PyTorch eager and torch.compile.

All sides start from the same weights, use the same batch and the same dropout rate, and
take turns. Before the timing their losses without dropout are compared. PyTorch's
vanilla attention is scaled_dot_product_attention; its bfloat16 is autocast over float32
weights. Each turn runs several steps and then synchronises with the device once.

    python -m benchmarks.gpu [--shapes 32x128 16x512 64x128] [--dtype bfloat16]

Where there is no GPU, or this build cannot use it, it prints "not measured" with the
reason and exits with code 77: nothing failed, and nothing was measured.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.gpu_sides import (
    Ours,
    Torch,
    loss_of,
    timed,
    torch_loss_of,
    torch_peer,
)
from benchmarks.models import batch_of, flops, our_model, shape_of, weights

NOT_MEASURED = 77
SIDES = ("ours", "torch eager", "torch.compile")
# Relative difference allowed between two losses before training, without dropout.
TOLERANCE = {"float32": 1e-3, "bfloat16": 2e-2}


def why_not() -> str:
    """Returns why nothing can be measured here; empty if it can."""
    import evolving_attention as ea
    from evolving_attention import _core

    if any(name.startswith("cuda") for name in ea.devices()):
        return ""
    reasons = _core.unusable_devices()
    return "no GPU: " + ("; ".join(reasons.values()) or "none was found")


def shape_named(text: str) -> tuple[int, int]:
    """Parses the batch and length of a word such as 32x128."""
    try:
        batch, length = (int(part) for part in text.split("x"))
        if batch < 1 or length < 1:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected BATCHxLENGTH, such as 32x128"
        ) from None
    return batch, length


def build(
    kind: str, batch: int, length: int, options: argparse.Namespace
) -> tuple[dict[str, Ours | Torch], dict[str, float]]:
    """Builds the contenders of one kind and shape; returns them and their start losses.

    Each PyTorch side has its own model, so that neither trains the other's.
    """
    shape = shape_of(options.size, kind)
    ids, labels = batch_of(shape, batch, length)
    bf16 = options.dtype == "bfloat16"
    state = weights(our_model(shape, "float32"))
    sides: dict[str, Ours | Torch] = {}
    start: dict[str, float] = {}
    if "ours" in options.sides:
        model = our_model(shape, options.dtype)
        for name, parameter in model.named_parameters():
            parameter.copy_(state[name])
        model.to("cuda")
        start["ours"] = loss_of(model, ids, labels)
        sides["ours"] = Ours(model, ids, labels)
    for name in options.sides:
        peer = None if name == "ours" else torch_peer(state, shape)
        if peer is None:
            continue
        start[name] = torch_loss_of(peer, ids, labels, bf16)
        sides[name] = Torch(peer, ids, labels, bf16, name == "torch.compile")
    spread = max(start.values()) - min(start.values())
    if spread > TOLERANCE[options.dtype]:
        raise SystemExit(f"{kind}: the sides differ before training: {start}")
    return sides, start


def gemm_rates(dtype: str) -> dict[str, float]:
    """Returns PyTorch's TFLOP/s on this GPU: a large product and one of BERT's size."""
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    rates = {}
    for m, k, n in ((8192, 8192, 8192), (8192, 768, 3072)):
        a = torch.randn(m, k, device="cuda", dtype=getattr(torch, dtype))
        b = torch.randn(k, n, device="cuda", dtype=getattr(torch, dtype))

        def ten(a: Any = a, b: Any = b) -> None:
            for _ in range(10):
                torch.mm(a, b)
            torch.cuda.synchronize()

        gflops = harness.gemm_rate(lambda a, b, ten=ten: ten(), a, b, 20.0 * m * k * n)
        rates[f"{m}x{k}x{n}"] = gflops / 1e3
    return rates


def gpu_machine(threads: int, dtype: str) -> dict[str, Any]:
    """Returns the machine's record with what determines the speed on the GPU."""
    import evolving_attention as ea

    record = harness.measured_machine(threads)
    record["gpu"] = next(w for name, w in ea.devices().items() if name != "cpu")
    record["gpu_gemm_tflops"] = {dtype: gemm_rates(dtype)}
    try:
        import torch

        record["versions"]["cuda of torch"] = str(torch.version.cuda)
    except ImportError:
        pass
    return record


def measure(
    kind: str, batch: int, length: int, options: argparse.Namespace, best: float
) -> dict[str, Any]:
    """Measures times and peak memory of all sides on one kind and shape."""
    sides, start = build(kind, batch, length, options)
    runs = {name: timed(side, options.steps) for name, side in sides.items()}
    times = harness.interleave(runs, options.rounds, warmup=2)
    result: dict[str, Any] = {n: harness.summarize(s) for n, s in times.items()}
    for name, side in sides.items():
        side.reset_peak()
        side.step()
        side.wait()
        result[name]["peak_bytes"] = side.peak()
    work = flops(shape_of(options.size, kind), [length] * batch, training=True)
    result["start_loss"] = start
    result["work"] = {"flops": work}
    if best:
        result["work"]["gemm_limit_s"] = work["total"] / (best * 1e12)
    return result


def show(what: str, result: dict[str, Any]) -> None:
    """Prints every side, and its time over ours."""
    ours = result.get("ours", {}).get("median_s")
    limit = result["work"].get("gemm_limit_s")
    for name in SIDES:
        if name not in result:
            continue
        one = result[name]
        line = (
            f"{what:18s} {name:13s} {harness.shown(one, 2)}  "
            f"{one['peak_bytes'] / 2**30:.2f} GiB"
        )
        if limit:
            line += f"  {limit / one['median_s']:.0%} of GEMM"
        if ours and name != "ours":
            line += f"  ours is {one['median_s'] / ours:.2f} x as fast"
        print(line, flush=True)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = spelled.parser(
        __doc__, "size", "kinds", "threads", "dry", dtype="bfloat16", rounds=7
    )
    made.add_argument(
        "--shapes",
        nargs="+",
        type=shape_named,
        default=[(32, 128), (16, 512), (64, 128)],
        metavar="BATCHxLENGTH",
    )
    made.add_argument("--steps", type=int, default=5, help="steps between two waits")
    made.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    options = parser().parse_args(arguments)
    reason = why_not()
    if reason:
        print(f"not measured: {reason}")
        return NOT_MEASURED
    machine = gpu_machine(options.threads, options.dtype)
    rates = machine["gpu_gemm_tflops"][options.dtype]
    print(harness.machine_line(machine))
    best = max(rates.values(), default=0.0)
    for batch, length in options.shapes:
        results: dict[str, Any] = {}
        for kind in options.kinds:
            one = results[kind] = measure(kind, batch, length, options, best)
            show(f"{kind} {batch}x{length}", one)
        if not options.dry:
            settings = spelled.settings(options, "shapes") | {
                "batch": batch,
                "length": length,
            }
            name = f"gpu-{options.size}-{batch}x{length}-{options.dtype}"
            name += harness.only(options.kinds)
            print(harness.write(name, machine, results, settings=settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())

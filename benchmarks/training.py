"""One BERT training step (forward, backward, clipping, AdamW): ours and PyTorch's.

Both sides start from the same weights and use the same batch, number of threads and
dropout rate; before the timing their losses without dropout are compared. PyTorch runs
eager, compiled by torch.compile, and in float32 also eager with oneDNN's forward
products, each with its own model. If one of these fails, the record has the reason.

    python -m benchmarks.training [--size base] [--batch 8] [--length 128] [--rounds 7]

With --isa avx2 (benchmarks/isa.py) torch.compile is left out: it compiles for the full
instruction set of the machine.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import harness, isa
from benchmarks import options as spelled
from benchmarks.models import batch_of, flops, our_model, our_step, shape_of, weights
from benchmarks.peers.torch_bert import BertClassifier, adamw
from benchmarks.peers.torch_linear import with_onednn
from benchmarks.race import ratios

ONEDNN = "torch, oneDNN's products"
SIDES = ("ours", "torch", ONEDNN, "torch.compile")


def torch_step(
    model: BertClassifier,
    ids: np.ndarray,
    labels: np.ndarray,
    bf16: bool,
    device: str = "cpu",
    optimizer: Any = None,
) -> Callable[[], None]:
    """Returns the peer's training step; bfloat16 is autocast over float32 weights."""
    optimizer = optimizer or adamw(model)
    x, y = (torch.from_numpy(a).to(device) for a in (ids, labels))
    model.train()

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def same_start(model: Any, peer: BertClassifier) -> None:
    """Copies our initial weights to the peer; every name must match."""
    state = {name: torch.from_numpy(value) for name, value in weights(model).items()}
    peer.load_state_dict(state, strict=True)


def losses(
    model: Any, peer: BertClassifier, ids: np.ndarray, labels: np.ndarray
) -> dict:
    """Returns the loss of both sides on the batch, without dropout."""
    model.eval()
    peer.eval()
    with torch.no_grad():
        theirs = peer(torch.from_numpy(ids), torch.from_numpy(labels)).item()
    ours = float(np.asarray(model(input_ids=ids, labels=labels).loss))
    return {"ours": ours, "torch": theirs}


def compiled(
    peer: BertClassifier, ids: np.ndarray, labels: np.ndarray, bf16: bool
) -> Callable[[], None]:
    """Returns the training step of a compiled copy of the peer, after a first step.

    Raises:
        RuntimeError: it cannot be compiled; with the first line of the reason.
    """
    step = torch_step(torch.compile(copy.deepcopy(peer)), ids, labels, bf16)
    try:
        step()
    except Exception as error:
        lines = str(error).strip().splitlines() or ["it failed"]
        raise RuntimeError(f"{type(error).__name__}: {lines[0]}") from error
    return step


def build(kind: str, options: argparse.Namespace) -> tuple[dict, dict, dict | None]:
    """Returns one kind's contenders, the skipped ones with reasons, first losses."""
    shape = shape_of(options.size, kind)
    ids, labels = batch_of(shape, options.batch, options.length)
    torch.manual_seed(0)
    peer = BertClassifier(shape)
    bf16 = options.dtype == "bfloat16"
    contenders: dict[str, Callable[[], None]] = {}
    skipped: dict[str, str] = {}
    start = None
    if options.side != "torch":
        model = our_model(shape, options.dtype)
        same_start(model, peer)
        start = losses(model, peer, ids, labels)
        tolerance = 2e-2 if bf16 else 1e-4
        if abs(start["ours"] - start["torch"]) > tolerance:
            raise SystemExit(f"{kind}: the two sides differ before training: {start}")
        contenders["ours"] = our_step(model, ids, labels)
    if options.side != "ours":
        contenders["torch"] = torch_step(peer, ids, labels, bf16)
        if bf16:
            skipped[ONEDNN] = "autocast's products are oneDNN's"
        else:
            contenders[ONEDNN] = torch_step(with_onednn(peer), ids, labels, bf16)
        try:
            if options.isa:
                raise RuntimeError("its code is not held to an instruction set")
            contenders["torch.compile"] = compiled(peer, ids, labels, bf16)
        except RuntimeError as error:
            skipped["torch.compile"] = str(error)
    return contenders, skipped, start


def show(kind: str, result: dict[str, Any], batch: int, limit_s: float) -> None:
    """Prints the sides, their share of the GEMM limit, and the best peer's ratio."""
    timed = {name: result[name] for name in SIDES if name in result}
    for name, one in timed.items():
        if "skipped" in one:
            print(f"{kind:9s} {name:24s} not measured: {one['skipped']}")
            continue
        print(
            f"{kind:9s} {name:24s} {harness.shown(one)}  "
            f"{batch / one['median_s']:6.2f} sequences/s  "
            f"{limit_s / one['median_s']:.0%} of GEMM"
        )
    peers = ratios(timed)
    if peers:
        best = min(peers, key=lambda name: peers[name])
        result["speedup"] = peers[best]
        print(f"{kind:9s} ours is {peers[best]:.2f} x {best}")


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    common = ("size", "kinds", "batch", "length", "dtype", "isa", "threads", "side")
    parser = spelled.parser(__doc__, *common, "dry", rounds=7)
    options = parser.parse_args(arguments)
    isa.hold("training", options.isa, arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    isa.tell(machine, options.isa)
    results: dict[str, Any] = {}
    for kind in options.kinds:
        contenders, skipped, start = build(kind, options)
        times = harness.interleave(contenders, options.rounds, warmup=2)
        result = results[kind] = {n: harness.summarize(s) for n, s in times.items()}
        result["start_loss"] = start
        result |= {name: {"skipped": why} for name, why in skipped.items()}
        lengths = [options.length] * options.batch
        work = flops(shape_of(options.size, kind), lengths, training=True)
        harness.measure_gemm_again(machine, options.dtype)
        limit = harness.gemm_limit(work["total"], machine, options.dtype)
        result["work"] = {"flops": work, "gemm_limit_s": limit}
        show(kind, result, options.batch, limit)
    if not options.dry:
        settings = spelled.settings(options, "side")
        name = f"training-{options.size}-{options.batch}x{options.length}"
        name += f"-{options.dtype}" + (f"-{options.isa}" if options.isa else "")
        name += harness.only(options.kinds)
        print(harness.write(name, machine, results, settings=settings))


if __name__ == "__main__":
    main()

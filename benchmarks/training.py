"""One BERT training step (forward, backward, clipping, AdamW): ours and eager PyTorch.

Both sides start from the same weights, see the same batch, use as many threads and drop
out at the same rate; before the timing their losses without dropout are compared.

    python -m benchmarks.training [--size base] [--batch 8] [--length 128] [--rounds 7]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import harness
from benchmarks.models import (
    DTYPES,
    KINDS,
    SIZES,
    batch_of,
    our_model,
    our_step,
    shape_of,
    weights,
)
from benchmarks.peers.torch_bert import BertClassifier, adamw


def torch_step(
    model: BertClassifier, ids: np.ndarray, labels: np.ndarray, bf16: bool
) -> Callable[[], None]:
    """The training step of the peer; bfloat16 by autocast over float32 weights."""
    optimizer = adamw(model)
    x, y = torch.from_numpy(ids), torch.from_numpy(labels)
    model.train()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def same_start(model: Any, peer: BertClassifier) -> None:
    """Copy our initial weights into the peer; every name must match."""
    state = {name: torch.from_numpy(value) for name, value in weights(model).items()}
    peer.load_state_dict(state, strict=True)


def losses(
    model: Any, peer: BertClassifier, ids: np.ndarray, labels: np.ndarray
) -> dict:
    """Loss of both sides on the batch, without dropout."""
    model.eval()
    peer.eval()
    with torch.no_grad():
        theirs = peer(torch.from_numpy(ids), torch.from_numpy(labels)).item()
    ours = float(np.asarray(model(input_ids=ids, labels=labels).loss))
    return {"ours": ours, "torch": theirs}


def build(kind: str, options: argparse.Namespace) -> tuple[dict, dict | None]:
    """The contenders of one attention kind, and the losses they start from."""
    shape = shape_of(options.size, kind)
    ids, labels = batch_of(shape, options.batch, options.length)
    torch.manual_seed(0)
    peer = BertClassifier(shape)
    bf16 = options.dtype == "bfloat16"
    contenders: dict[str, Callable[[], None]] = {}
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
    return contenders, start


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--side", choices=("both", "ours", "torch"), default="both")
    parser.add_argument("--dry", action="store_true", help="write no JSON")
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    machine = harness.machine(options.threads)
    print(harness.machine_line(machine))
    results: dict[str, Any] = {}
    for kind in options.kinds:
        contenders, start = build(kind, options)
        times = harness.interleave(contenders, options.rounds, warmup=2)
        results[kind] = {n: harness.summarize(s) for n, s in times.items()}
        results[kind]["start_loss"] = start
        for name in contenders:
            one = results[kind][name]
            print(
                f"{kind:9s} {name:6s} {one['median_s'] * 1e3:8.1f} ms  "
                f"{options.batch / one['median_s']:6.2f} sequences/s  "
                f"spread {one['spread']:.1%}"
            )
        if len(contenders) == 2:
            both = results[kind]
            both["speedup"] = both["torch"]["median_s"] / both["ours"]["median_s"]
            print(f"{kind:9s} ours is {both['speedup']:.2f} x torch")
    if not options.dry:
        settings = {k: v for k, v in vars(options).items() if k not in ("dry", "side")}
        name = f"training-{options.size}-{options.batch}x{options.length}"
        name += f"-{options.dtype}"
        print(harness.write(name, machine, results, settings=settings))


if __name__ == "__main__":
    main()

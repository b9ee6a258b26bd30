"""Peak memory of one training process of each side.

Reports the high-water mark of resident memory (VmHWM) after some steps, and the memory
of the interpreter and the library before the model is built. Needs Linux.

    python -m benchmarks.step_memory [--size base] [--batch 8] [--length 128]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import batch_of, shape_of
from benchmarks.worker import environment


def resident(what: str) -> int:
    """Returns VmHWM or VmRSS of this process in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {what}: this needs Linux")


def child(text: str) -> None:
    """Trains some steps in this process and prints its memory."""
    told = json.loads(text)
    shape = shape_of(told["size"], told["kind"])
    ids, labels = batch_of(shape, told["batch"], told["length"])
    if told["side"] == "torch":
        import torch

        from benchmarks.peers.torch_bert import BertClassifier
        from benchmarks.training import torch_step

        torch.set_num_threads(told["threads"])
        before = resident("VmRSS")
        bf16 = told["dtype"] == "bfloat16"
        step = torch_step(BertClassifier(shape), ids, labels, bf16)
    else:
        import evolving_attention as ea
        from benchmarks.models import our_model, our_step

        ea.set_num_threads(told["threads"])
        before = resident("VmRSS")
        step = our_step(our_model(shape, told["dtype"]), ids, labels)
    for _ in range(told["steps"]):
        step()
    print(json.dumps({"peak_bytes": resident("VmHWM"), "before_bytes": before}))


def measure(side: str, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the memory of one side, or why it cannot be measured."""
    told = {
        key: getattr(options, key)
        for key in ("size", "batch", "length", "dtype", "threads", "steps")
    }
    text = json.dumps(told | {"side": side, "kind": kind})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.step_memory", "--child", text],
        env=environment(options.threads),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["its process failed"]
        return {"skipped": lines[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    common = ("size", "kinds", "batch", "length", "dtype", "threads", "dry")
    parser = spelled.parser(__doc__, *common)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child)
        return
    results: dict[str, Any] = {}
    for kind in options.kinds:
        result = results[kind] = {
            side: measure(side, kind, options) for side in ("ours", "torch")
        }
        for side, one in result.items():
            if "skipped" in one:
                print(f"{kind:9s} {side:6s} not measured: {one['skipped']}")
            else:
                gib = (one[k] / 2**30 for k in ("peak_bytes", "before_bytes"))
                print("{:9s} {:6s} {:.2f} GiB, {:.2f} before".format(kind, side, *gib))
        if not any("skipped" in one for one in result.values()):
            ours, torch = (result[s]["peak_bytes"] for s in ("ours", "torch"))
            print(f"{kind:9s} ours takes {ours / torch:.2f} of torch's")
            result["ratio"] = ours / torch
    if not options.dry:
        name = f"memory-{options.size}-{options.batch}x{options.length}"
        machine = harness.machine(options.threads)
        name += f"-{options.dtype}"
        print(harness.write(name, machine, results, settings=spelled.settings(options)))


if __name__ == "__main__":
    main()

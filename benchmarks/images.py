"""Image networks: training and inference against other libraries, and their input.

``training``: AA-ResNet-50 (SGD with momentum) and ViT-B/16 (clipping, AdamW) at 224²,
each vanilla and with evolving attention, against eager PyTorch in channels-last layout;
also the peak memory of each process. ``inference``: ResNet-50 and ViT-B/16 against
OpenVINO and PyTorch. Every side runs in its own process with the same weights, the same
pictures and no dropout; the first losses, or the logits, are compared before the
timing. All sides and both kinds of attention take turns. ``input``: JPEG files of 224²
decoded, cropped, mirrored and normalised, their number per second compared with the
training step's, and the cost of training on files over training on arrays.

    python -m benchmarks.images [--measure training inference input] [--dtype bfloat16]
        [--models aa_resnet50 vit_b16 resnet50] [--batches 1 16] [--rounds 5]
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.image_input import race_input
from benchmarks.peers.image_engines import our_model
from benchmarks.race import TOLERANCE, difference, ratios
from benchmarks.worker import Worker

MEASURES = ("training", "inference", "input")
# Networks of each measure, with their batch sizes.
TRAINED = {"aa_resnet50": [16], "vit_b16": [8]}
INFERRED = {"resnet50": [1, 16], "vit_b16": [1, 16]}
MODELS = tuple(TRAINED | INFERRED)
SIDES = ("ours", "torch", "openvino")
_RESNET: dict[str, Any] = {
    "embedding_size": 64,
    "hidden_sizes": [256, 512, 1024, 2048],
    "depths": [3, 4, 6, 3],
    "image_size": 224,
    "num_attention_heads": 8,
    "key_ratio": 0.2,
    "value_ratio": 0.1,
    "min_head_key_width": 20,
    "num_labels": 1000,
}
_VIT: dict[str, Any] = {
    "image_size": 224,
    "patch_size": 16,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "num_labels": 1000,
}
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "full": {"resnet": _RESNET, "vit": _VIT},
    "tiny": {
        "resnet": {
            **_RESNET,
            "embedding_size": 8,
            "hidden_sizes": [16, 32, 64],
            "depths": [1, 2, 1],
            "image_size": 64,
            "num_attention_heads": 2,
            "value_ratio": 0.3,
            "num_labels": 5,
        },
        "vit": {
            **_VIT,
            "image_size": 16,
            "patch_size": 4,
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "num_labels": 5,
        },
    },
}
# α and β of evolving attention: the papers' values for these networks.
MIXES = {"resnet": (0.5, 1.0), "vit": (0.1, 0.3)}


def sizes_of(model: str, kind: str, size: str) -> dict[str, Any]:
    """Returns the sizes of a network for both sides."""
    family = "vit" if model.startswith("vit") else "resnet"
    found = dict(SIZES[size][family])
    if family == "resnet":
        found["augmented"] = model.startswith("aa_")
    mixes = MIXES[family] if kind == "evolving" else (None, None)
    return {**found, "alpha": mixes[0], "beta": mixes[1]}


def pictures(sizes: dict[str, Any], batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns random pictures [batch, 3, side, side] and their classes."""
    rng, side = np.random.default_rng(0), sizes["image_size"]
    pixels = rng.standard_normal((batch, 3, side, side), np.float32)
    return pixels, rng.integers(0, sizes["num_labels"], batch)


def flops(model: str, sizes: dict[str, Any], batch: int, training: bool) -> float:
    """Returns the operations in the products and convolutions of one step or pass."""
    from evolving_attention.profiling import resnet_flops, vit_flops

    config = our_model(model, sizes, "float32").config
    if model.startswith("vit"):
        return vit_flops(config, batch, training=training)["total"]
    once = resnet_flops(config, sizes["image_size"])["total"]
    return once * batch * (3 if training else 1)


def common_weights(model: str, sizes: dict[str, Any], folder: Path) -> str:
    """Writes the weights that every side starts from; returns their path."""
    path = folder / f"{model}.npz"
    state = our_model(model, sizes, "float32").state_dict()
    np.savez(path, **{name: np.asarray(value) for name, value in state.items()})
    return str(path)


def start(
    stack: contextlib.ExitStack,
    request: dict[str, Any],
    sides: Sequence[str],
    result: dict[str, Any],
) -> dict[str, Worker]:
    """Starts the sides that agree; writes the others' reasons into ``result``."""
    batch = pictures(request["sizes"], request["batch"])
    workers: dict[str, Worker] = {}
    expected: np.ndarray | None = None
    if request["task"] == "inference":
        with Worker("torch", request | {"dtype": "float32"}) as worker:
            worker.load("", [batch])
            expected = worker.outputs("")
    for side in sides:
        try:
            worker = Worker(side, request)
            stack.callback(worker.close)
            worker.load("", [batch])
            found = worker.outputs("")
            expected = found if expected is None else expected
            error = difference(found, expected)
            if error > TOLERANCE[request["dtype"]]:
                raise RuntimeError(f"it differs by {error:.1e}")
            result[side] = {"difference": error, **worker.built}
            workers[side] = worker
        except RuntimeError as error:
            result[side] = {"skipped": str(error)}
            print(f"  {side:9s} not measured: {error}", flush=True)
    return workers


def race(
    task: str, model: str, batch: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Times all sides of one network and batch in turns, by kind of attention."""
    kinds = options.kinds if task == "training" else ["vanilla"]
    results: dict[str, Any] = {kind: {} for kind in kinds}
    with contextlib.ExitStack() as stack:
        workers: dict[tuple[str, str], Worker] = {}
        for kind in kinds:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="ea-bench-")
            )
            sizes = sizes_of(model, kind, options.size)
            request = {
                "module": "image_engines",
                "task": task,
                "model": model,
                "sizes": sizes,
                "batch": batch,
                "dtype": options.dtype,
                "threads": options.threads,
                "weights": common_weights(model, sizes, Path(folder)),
            }
            sides = [s for s in options.sides if task != "training" or s != "openvino"]
            found = start(stack, request, sides, results[kind])
            workers |= {(kind, side): worker for side, worker in found.items()}
        runs = {key: (lambda w=worker: w.run("")) for key, worker in workers.items()}
        times = harness.interleave(runs, options.rounds, warmup=1)
        for (kind, side), seconds in times.items():
            results[kind][side] |= harness.summarize(seconds)
            peak = workers[kind, side].ask(memory=True)
            results[kind][side]["peak_bytes"] = peak
    return results


def compare(results: dict[str, Any]) -> None:
    """Adds the ratios of memory and time."""
    for result in results.values():
        ours, torch = (result.get(side, {}) for side in ("ours", "torch"))
        if "peak_bytes" in ours and "peak_bytes" in torch:
            result["memory_ratio"] = ours["peak_bytes"] / torch["peak_bytes"]
    both = [results.get(kind, {}).get("ours", {}) for kind in ("vanilla", "evolving")]
    if all("median_s" in one for one in both):
        ratio = both[1]["median_s"] / both[0]["median_s"]
        results["evolving"]["over_vanilla"] = ratio


def show(what: str, kind: str, result: dict[str, Any], batch: int) -> None:
    """Prints the sides of one measurement and the ratios."""
    sides = {side: result[side] for side in SIDES if side in result}
    over, limit = ratios(sides), result["work"]["gemm_limit_s"]
    for side in SIDES:
        one = result.get(side, {})
        if "median_s" not in one:
            continue
        print(
            f"{what} {kind:9s} {side:9s} {harness.shown(one)}  "
            f"{batch / one['median_s']:7.2f} images/s  "
            f"{limit / one['median_s']:.0%} of GEMM  "
            f"{one['peak_bytes'] / 2**30:.2f} GiB"
            + (f"  ours is {over[side]:.2f} x" if side in over else "")
        )
    for key, text in (
        ("memory_ratio", "ours takes {:.2f} of torch's memory"),
        ("over_vanilla", "evolving over vanilla: {:.3f}"),
    ):
        if key in result:
            print(f"{what} {kind:9s} {text.format(result[key])}", flush=True)


def measure(
    task: str, model: str, batch: int, options: argparse.Namespace, machine: Any
) -> dict[str, Any]:
    """Measures one network and batch; adds the operations of its products."""
    results = race(task, model, batch, options)
    compare(results)
    harness.measure_gemm_again(machine, options.dtype)
    for kind, result in results.items():
        sizes = sizes_of(model, kind, options.size)
        work = flops(model, sizes, batch, task == "training")
        limit = harness.gemm_limit(work, machine, options.dtype)
        result["work"] = {"flops": work, "gemm_limit_s": limit}
        show(f"{task} {model} {batch}", kind, result, batch)
    return results


def fed(
    task: str, model: str, batch: int, options: argparse.Namespace, machine: Any
) -> dict[str, Any]:
    """Measures the input of one network's training."""
    sizes = sizes_of(model, options.kinds[-1], options.size)
    network = our_model(model, sizes, options.dtype)
    result = race_input(network, sizes["image_size"], batch, options.rounds)
    for side in ("input", "arrays", "files"):
        print(
            f"{task} {model} {batch} {side:7s} {harness.shown(result[side])}  "
            f"{result['images'] / result[side]['median_s']:7.1f} images/s"
        )
    print(
        f"{task} {model} {batch} input is {result['input_over_step']:.1f} x as fast as "
        f"the step; a step on files takes {result['files_over_arrays']:.3f} x",
        flush=True,
    )
    return {options.kinds[-1]: result}


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    common = ("kinds", "dtype", "threads", "rounds", "dry")
    parser = spelled.parser(__doc__, *common)
    parser.add_argument("--measure", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--batches", nargs="+", type=int, help="None: of the measure")
    parser.add_argument("--size", choices=SIZES, default="full")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    for task in options.measure:
        take: Callable[..., dict[str, Any]] = fed if task == "input" else measure
        models = INFERRED if task == "inference" else TRAINED
        for model in (name for name in models if name in options.models):
            for batch in options.batches or models[model]:
                results = take(task, model, batch, options, machine)
                if options.dry:
                    continue
                settings = spelled.settings(options, "measure", "models", "batches")
                settings |= {"measure": task, "model": model, "batch": batch}
                side = sizes_of(model, "vanilla", options.size)["image_size"]
                name = f"images-{task}-{model}-{batch}x{side}-{options.dtype}"
                kinds = options.kinds if task == "training" else []
                name += harness.only(kinds)
                print(harness.write(name, machine, results, settings=settings))


if __name__ == "__main__":
    main()

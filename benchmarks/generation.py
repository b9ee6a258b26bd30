"""Greedy and beam search: tokens a second of ours, transformers and CTranslate2.

A Transformer-Base with random weights in which the end token never scores best, so that
all sides generate the same number of tokens for each source. Sources have the lengths
of Multi30k's sentences, one at a time and 32 together. Each side runs in its own
process. Ours with evolving attention takes turns in the same rounds; no other library
has that model. First all targets are compared with transformers': the record has the
share of equal tokens. Last, the cost of a target's 64th token over its 8th is measured.

    python -m benchmarks.generation [--beams 1 5] [--batches 1 32] [--new_tokens 48]
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.translation import VOCABULARY, our_model
from benchmarks.worker import Batch, Worker

SIDES = ("ours", "transformers", "ctranslate2")
EVOLVING = "ours, evolving"
EARLY, LATE, AROUND = 7, 63, 3  # positions compared, each with its neighbours
SENTENCES = {1: 8, 32: 32}  # sentences per round, by batch size


def sources(size: int) -> list[Batch]:
    """Returns batches of random ids, as long as short sentences: 9 to 21 tokens."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(max(SENTENCES.get(size, size) // size, 1)):
        lengths = rng.integers(9, 22, size)
        ids = rng.integers(3, VOCABULARY, (size, int(lengths.max())))
        ids[np.arange(ids.shape[1]) >= lengths[:, None]] = 0
        found.append((ids, lengths))
    return found


def prepare(folder: Path, size: str, kinds: Sequence[str]) -> None:
    """Writes the models in every side's format."""
    import evolving_attention as ea
    from benchmarks.peers.generators import ctranslate2_folder, marian

    ea.manual_seed(0)
    for kind in kinds:
        model = our_model(kind, size, "float32")
        words = "transformer.embeddings.word_embeddings.weight"
        state = {name: np.asarray(x) for name, x in model.state_dict().items()}
        state[words] = state[words].copy()
        state[words][model.config.eos_token_id] = 0.0  # its logit is 0: never the best
        model.load_state_dict(state)
        model.save_pretrained(folder / kind)
        if kind == "vanilla":
            marian(model).save_pretrained(folder / "marian")
            ctranslate2_folder(model, folder / "ctranslate2")


def operations(config: Any, batches: Sequence[Batch], beams: int, new: int) -> float:
    """Counts the operations of the products with weights in a search with caches.

    The encoder reads each source once, the decoder one start token and then ``beams``
    tokens a step. Scores and context, which grow from step to step, are left out.
    """
    from evolving_attention.profiling import encoder_decoder_flops

    sources = int(sum(lengths.sum() for _, lengths in batches))
    targets = sum(len(ids) for ids, _ in batches) * (1 + (new - 1) * beams)
    found = encoder_decoder_flops(config, sources, targets)
    return float(found["dense"] + found["logits"])


def race(folder: Path, beams: int, size: int, options: argparse.Namespace) -> Any:
    """Returns each side's seconds and how many of its tokens equal transformers'."""
    batches = sources(size)
    results: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        workers: dict[str, Worker] = {}
        found: dict[str, Any] = {}
        for side in (*SIDES, EVOLVING):
            kind = "evolving" if side == EVOLVING else "vanilla"
            if kind not in options.kinds:
                continue
            try:
                worker = Worker(
                    side.split(",")[0],
                    {
                        "module": "generators",
                        "folder": str(folder),
                        "model": kind,
                        "beams": beams,
                        "new_tokens": options.new_tokens,
                        "dtype": options.dtype,
                        "threads": options.threads,
                    },
                )
                stack.callback(worker.close)
                worker.load("", batches)
                found[side] = worker.outputs("")
            except RuntimeError as error:
                results[side] = {"skipped": str(error)}
                print(f"  {side:14s} not measured: {error}", flush=True)
                continue
            workers[side] = worker
        runs = {s: (lambda w=w: w.run("")) for s, w in workers.items()}
        times = harness.interleave(runs, options.rounds)
    tokens = options.new_tokens * sum(len(ids) for ids, _ in batches)
    expected = found.get("transformers")
    for side, seconds in times.items():
        one = results[side] = harness.summarize(seconds)
        one["tokens_per_s"] = tokens / one["median_s"]
        if expected is not None and side != EVOLVING:
            one["equal_tokens"] = float((found[side] == expected).mean())
    return results


def later(folder: Path, kind: str, size: int, rounds: int) -> dict[str, Any]:
    """Returns the seconds per token around the 8th and the 64th, and their ratio."""
    import evolving_attention as ea
    from evolving_attention import _core

    model = ea.TransformerForConditionalGeneration.from_pretrained(folder / kind).eval()
    (ids, lengths), *_ = sources(size)
    mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
    core = model._core
    first = np.full(size, model.config.decoder_start_token_id)
    spent = np.empty((rounds + 1, LATE + AROUND + 1))
    for one in spent:
        inputs = {"input_ids": ids, "attention_mask": mask}
        target = _core.start_target(core, inputs, True)
        target.expect(size * len(one))  # as generate does
        for i in range(len(one)):
            began = time.perf_counter()
            target.next(first.tolist())
            one[i] = time.perf_counter() - began
    early, late = (
        spent[1:, at - AROUND : at + AROUND + 1].mean(1) for at in (EARLY, LATE)
    )
    return {
        "token_8": harness.summarize(early.tolist()),
        "token_64": harness.summarize(late.tolist()),
        "ratio": float(np.median(late / early)),
    }


def show(name: str, results: dict[str, Any]) -> None:
    """Prints the sides of one setting and their ratios to ours."""
    ours = results.get("ours", {}).get("median_s")
    limit = results["work"]["gemm_limit_s"]
    print(name)
    for side, one in results.items():
        if "median_s" not in one:
            continue
        over = one["median_s"] / ours if ours else float("nan")
        one["over_ours"] = over
        equal = one.get("equal_tokens")
        told = "" if equal is None else f"  {equal:.1%} equal tokens"
        print(
            f"  {side:14s} {one['tokens_per_s']:7.0f} tokens/s  {harness.shown(one)}  "
            f"{over:.2f} x our time  {limit / one['median_s']:.0%} of GEMM{told}",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    import evolving_attention as ea

    parser = spelled.parser(__doc__, "kinds", "dtype", "threads", "dry", rounds=5)
    parser.add_argument("--size", choices=("lite", "base"), default="base")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--new_tokens", type=int, default=48)
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
        prepare(Path(folder), options.size, options.kinds)
        config = ea.AutoConfig.from_pretrained(Path(folder) / options.kinds[0])
        for beams in options.beams:
            for size in options.batches:
                name = f"beams {beams}, batch {size}"
                results[name] = race(Path(folder), beams, size, options)
                harness.measure_gemm_again(machine, options.dtype)
                flops = operations(config, sources(size), beams, options.new_tokens)
                limit = harness.gemm_limit(flops, machine, options.dtype)
                results[name]["work"] = {"flops": flops, "gemm_limit_s": limit}
                show(name, results[name])
        for kind in options.kinds:
            name = f"later tokens, {kind}"
            one = later(Path(folder), kind, max(options.batches), options.rounds)
            results[name] = one
            print(f"{name}: the 64th costs {one['ratio']:.2f} x the 8th", flush=True)
    if not options.dry:
        name = f"generation-{options.size}-{options.dtype}"
        name += harness.only(options.kinds)
        kept = spelled.settings(options)
        print(harness.write(name, machine, results, settings=kept))


if __name__ == "__main__":
    main()

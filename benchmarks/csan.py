"""Windowed attention (CSAN) against dense attention, forward and backward.

``attention``: scores, softmax and context, against the fused dense kernels. ``layer``:
one BERT encoder layer. 8 heads of width 64; windows of 11 positions, within one head
and across three. Both sides are ours and take turns.

    python -m benchmarks.csan [--dtype bfloat16] [--length 256]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled

HEADS, WIDTH = 8, 64
WINDOWS = {"11": (11, 1), "11 x 3": (11, 3)}
Runs = dict[str, Callable[[], None]]


def attention(options: argparse.Namespace) -> Runs:
    """Times scores, softmax and context, given queries, keys and values."""
    import evolving_attention as ea
    from evolving_attention import functional as F

    rng = np.random.default_rng(0)
    shape = (options.batch * options.length, HEADS * WIDTH)
    leaves = [
        ea.Tensor(rng.standard_normal(shape), dtype=options.dtype, requires_grad=True)
        for _ in range(3)
    ]
    dy = ea.Tensor(rng.standard_normal(shape), dtype=options.dtype)
    offsets = np.arange(options.batch + 1) * options.length
    scale = WIDTH**-0.5

    def run(mixed: Callable[..., Any]) -> Callable[[], None]:
        def step() -> None:
            mixed(*leaves).backward(dy)
            for leaf in leaves:
                leaf.grad = None

        return step

    dense, vanilla = F.Packing(HEADS, offsets), (0.0, 0.0, 0.0, 1.0, 0.0)

    def fused(q: Any, k: Any, v: Any) -> Any:
        return F.fused_attention(
            q, k, v, None, None, None, vanilla, dense, scale, carry=False
        )[0]

    def windowed(size: int, heads: int) -> Callable[..., Any]:
        packing = F.Packing(HEADS, offsets, window=size, window_heads=heads)

        def mixed(q: Any, k: Any, v: Any) -> Any:
            scores = F.attention_scores(q, k, packing, scale)
            return F.attention_context(F.map_softmax(scores, packing), v, packing)

        return mixed

    runs = {"dense": run(fused)}
    for name, window in WINDOWS.items():
        runs[name] = run(windowed(*window))
    return runs


def layer(options: argparse.Namespace) -> Runs:
    """Times one encoder layer; its embeddings cost next to nothing."""
    import evolving_attention as ea

    scopes = {"dense": ea.attention.Dense()}
    for name, (size, heads) in WINDOWS.items():
        scopes[name] = ea.attention.Window(size, heads)
    tokens = options.batch * options.length
    inputs = {
        "input_ids": np.random.default_rng(0).integers(0, 20, tokens),
        "sequence_offsets": np.arange(options.batch + 1) * options.length,
    }

    def run(scope: Any) -> Callable[[], None]:
        config = ea.BertConfig(
            vocab_size=20,
            hidden_size=HEADS * WIDTH,
            num_hidden_layers=1,
            num_attention_heads=HEADS,
            intermediate_size=4 * HEADS * WIDTH,
            max_position_embeddings=options.length,
            attention=ea.attention.Spec(scope=scope),
        )
        ea.manual_seed(0)
        model = ea.BertModel(config, options.dtype).train()

        def step() -> None:
            model(**inputs).last_hidden_state.sum().backward()
            for parameter in model.parameters():
                parameter.grad = None

        return step

    return {name: run(scope) for name, scope in scopes.items()}


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(
        __doc__, "dtype", "threads", "dry", rounds=15, batch=16, length=256
    )
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    results: dict[str, Any] = {}
    for part, make in (("attention", attention), ("layer", layer)):
        times = harness.interleave(make(options), options.rounds, warmup=2)
        found = {side: harness.summarize(t) for side, t in times.items()}
        results[part] = found
        dense = found["dense"]
        print(f"{part}: dense {harness.shown(dense)}")
        for name in WINDOWS:
            share = found[name]["median_s"] / dense["median_s"]
            print(
                f"  window {name}: {harness.shown(found[name])}, {share:.2f} of dense"
            )
    if not options.dry:
        settings = spelled.settings(options)
        name = f"csan-{options.dtype}"
        print(harness.write(name, machine, results, settings=settings))


if __name__ == "__main__":
    main()

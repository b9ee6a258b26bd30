"""Training and inference of EA-DC-Transformer: ours against the peer in PyTorch.

An epoch of series as in JapaneseVowels (270 of 7 to 29 steps, 12 channels, 9 classes,
batches of 64), width 128, 3 blocks, RAdam, dropout 0.1, clipped at 4: forward, backward
and the optimizer's step. The values are random, the lengths uniform; PyTorch gets the
batches padded. Outputs in evaluation mode are compared before the timing.

    python -m benchmarks.series [--kind evolving] [--rounds 9]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled

CHANNELS, CLASSES, BATCH, CLIP = 12, 9, 64, 4.0
KINDS = ("evolving", "vanilla", "convolution")
TOLERANCE = 1e-3


def draw(count: int, longest: int) -> list[tuple[np.ndarray, ...]]:
    """Returns batches of padded values, lengths and labels."""
    rng = np.random.default_rng(0)
    batches = []
    for begin in range(0, count, BATCH):
        n = min(BATCH, count - begin)
        lengths = rng.integers(min(7, longest), longest + 1, n)
        values = rng.standard_normal((n, int(lengths.max()), CHANNELS), np.float32)
        values[np.arange(values.shape[1]) >= lengths[:, None]] = 0
        batches.append((values, lengths, rng.integers(0, CLASSES, n)))
    return batches


def settings(kind: str) -> dict[str, Any]:
    """Returns alpha, beta and the ratio of a kind."""
    chosen: dict[str, Any] = {"alpha": None, "beta": None, "ratio": 0.25}
    if kind == "evolving":
        chosen |= {"alpha": 0.3, "beta": 0.5}
    elif kind == "convolution":
        chosen["ratio"] = 0.0
    return chosen


def our_side(kind: str, longest: int, blocks: int) -> Any:
    """Returns the model and its optimizer."""
    import evolving_attention as ea

    chosen = settings(kind)
    attention = None
    if chosen["alpha"] is not None:
        attention = ea.attention.Evolving(chosen["alpha"], chosen["beta"])
    ea.manual_seed(0)
    config = ea.EADCTransformerConfig(
        channels=CHANNELS,
        max_length=longest,
        num_labels=CLASSES,
        num_blocks=blocks,
        attention=attention,
        attention_ratio=chosen["ratio"],
    )
    model = ea.EADCTransformerForClassification(config)
    return model, ea.optim.RAdam(model.parameters(), lr=1e-3, betas=(0.9, 0.99))


def our_epoch(model: Any, optimizer: Any, batches: list[Any]) -> None:
    """Trains one epoch: forward, backward, clipping, the optimizer's step."""
    import evolving_attention as ea

    model.train()
    for values, lengths, labels in batches:
        model(values, lengths, labels).loss.backward()
        norm = ea.optim.global_grad_norm(list(model.parameters()))
        optimizer.step(ea.optim.clip_scale(norm, CLIP))
        optimizer.zero_grad()


def their_side(kind: str, longest: int, blocks: int, state: Any) -> Any:
    """Returns the peer with the same weights, and its optimizer."""
    import torch

    from benchmarks.peers.torch_series import SeriesClassifier, SeriesShape

    shape = SeriesShape(CHANNELS, longest, CLASSES, blocks=blocks, **settings(kind))
    model = SeriesClassifier(shape)
    model.load_state_dict(
        {k: torch.tensor(v.copy()) for k, v in state.items()}, strict=False
    )
    return model, torch.optim.RAdam(model.parameters(), lr=1e-3, betas=(0.9, 0.99))


def contenders(kind: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Returns both sides' epochs of training and inference, after comparing them."""
    import torch

    import evolving_attention as ea
    from benchmarks.peers.torch_series import Steps

    count, longest, blocks = (9, 8, 1) if options.tiny else (270, 29, 3)
    batches = draw(count, longest)
    mine, optimizer = our_side(kind, longest, blocks)
    theirs, their_optimizer = their_side(kind, longest, blocks, mine.state_dict())
    tensors = [
        (torch.from_numpy(v), torch.from_numpy(n), torch.from_numpy(y))
        for v, n, y in batches
    ]

    def torchs() -> None:
        theirs.train()
        for values, lengths, labels in tensors:
            steps = Steps(lengths, values.shape[1], values.dtype)
            logits = theirs(values, steps)
            torch.nn.functional.cross_entropy(logits, labels).backward()
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), CLIP)
            their_optimizer.step()
            their_optimizer.zero_grad()

    def our_inference() -> list[np.ndarray]:
        mine.eval()
        with ea.no_grad():
            return [np.asarray(mine(v, n).logits) for v, n, _ in batches]

    def their_inference() -> list[np.ndarray]:
        theirs.eval()
        with torch.inference_mode():
            return [
                theirs(v, Steps(n, v.shape[1], v.dtype)).numpy() for v, n, _ in tensors
            ]

    for found, expected in zip(our_inference(), their_inference(), strict=True):
        error = np.abs(found - expected).max() / np.abs(expected).max()
        if not error <= TOLERANCE:
            raise SystemExit(f"{kind}: the sides differ by {error:.1e}")
    return {
        "training": {
            "ours": lambda: our_epoch(mine, optimizer, batches),
            "torch": torchs,
        },
        "inference": {"ours": our_inference, "torch": their_inference},
    }


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "threads", "dry", rounds=9)
    parser.add_argument("--kind", choices=KINDS, help="this one alone")
    parser.add_argument("--tiny", action="store_true", help="a small model")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads)
    print(harness.machine_line(machine))
    results: dict[str, Any] = {}
    for kind in [options.kind] if options.kind else KINDS:
        results[kind] = {}
        for part, sides in contenders(kind, options).items():
            times = harness.interleave(sides, options.rounds, warmup=2)
            found = {side: harness.summarize(s) for side, s in times.items()}
            results[kind][part] = found
            ours, theirs = (found[side]["median_s"] for side in ("ours", "torch"))
            print(
                f"{kind:12s} {part:10s} an epoch: ours {harness.shown(found['ours'])}, "
                f"torch {harness.shown(found['torch'])}: {theirs / ours:.2f} x",
                flush=True,
            )
    if not options.dry:
        given = spelled.settings(options, "tiny")
        print(harness.write("series", machine, results, settings=given))


if __name__ == "__main__":
    main()

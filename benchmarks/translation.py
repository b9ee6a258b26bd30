"""Training a Transformer on Multi30k's pairs: tokens a second, ours and eager PyTorch.

Both sides start from the same weights and use the same batches, formed by the number of
source and target tokens from pairs sorted by length. Ours packs them, PyTorch pads each
batch to its longest source and target. Before the timing their losses without dropout
are compared. A step is forward, backward and Adam, with label smoothing.

    python -m benchmarks.translation [--size base] [--tokens 4096] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import harness, isa
from benchmarks import options as spelled
from benchmarks.models import weights
from benchmarks.peers.torch_transformer import Sizes, Translation, adam
from benchmarks.race import ratios

FOLDER = Path(os.environ.get("EVOLVING_ATTENTION_DATA", "../shared/data"))
DATA = FOLDER / "nmt" / "multi30k"
VOCABULARY = 8000
SMOOTHING = 0.1
SIZES = {
    "lite": Sizes(layers=6, width=160, heads=4, inner=160, vocabulary=VOCABULARY),
    "base": Sizes(layers=6, width=512, heads=8, inner=2048, vocabulary=VOCABULARY),
}
ALPHAS = {"lite": 0.1, "base": 0.5}  # Wang et al., 2021, Section 4.3

Sides = dict[tuple[str, str], Callable[[], None]]  # by kind and side


@dataclass
class Pair:
    """One batch: packed for us, padded for PyTorch."""

    packed: dict[str, Any]
    padded: tuple[torch.Tensor, ...]  # source, its tokens, decoder input, labels
    tokens: int


def pairs_of(data: Path, size: int) -> tuple[Any, Any, Any]:
    """Returns the tokenizer, and Multi30k's training and validation pairs as ids."""
    from evolving_attention import translation

    parts = [
        translation.read_parallel(data / f"{part}.en.gz", data / f"{part}.de.gz")
        for part in ("train", "val")
    ]
    tokenizer = translation.train_bpe([*parts[0].source, *parts[0].target], size)
    rows = [translation.ParallelDataset.from_text(p, tokenizer, 1024) for p in parts]
    return tokenizer, *rows


def batches(rows: Any, tokens: int, count: int, start: int) -> list[Pair]:
    """Returns ``count`` batches of ``tokens``, spread over the pairs' lengths.

    Args:
        start: the decoder's first token.
    """
    order = np.argsort(rows.lengths, kind="stable")
    bins: list[list[int]] = [[]]
    filled = 0
    for index in order:
        length = int(rows.lengths[index])
        if bins[-1] and filled + length > tokens:
            bins.append([])
            filled = 0
        bins[-1].append(int(index))
        filled += length
    chosen = np.linspace(0, len(bins) - 1, count + 2).round().astype(int)[1:-1]
    return [batch(rows, bins[i], start) for i in chosen]


def batch(rows: Any, indices: Sequence[int], start: int) -> Pair:
    """Returns the batch of the pairs with these indices."""
    packed = dict(rows.gather(np.array(indices)))
    del packed["row_ids"]
    sides = []
    for name, ends in (
        ("input_ids", "sequence_offsets"),
        ("labels", "decoder_sequence_offsets"),
    ):
        rows_of = np.split(packed[name], packed[ends][1:-1])
        longest = max(map(len, rows_of))
        padded = np.full((len(rows_of), longest), -100, np.int64)
        for row, ids in zip(padded, rows_of, strict=True):
            row[: len(ids)] = ids
        sides.append(padded)
    source, labels = sides
    shifted = np.roll(np.where(labels == -100, 0, labels), 1, axis=1)
    shifted[:, 0] = start
    arrays = (np.where(source == -100, 0, source), source != -100, shifted, labels)
    tokens = len(packed["input_ids"]) + len(packed["labels"])
    return Pair(packed, tuple(map(torch.from_numpy, arrays)), tokens)


def our_model(
    kind: str,
    size: str,
    dtype: str = "float32",
    dropout: float = 0.1,
    vocabulary: int = VOCABULARY,
) -> Any:
    """Builds our Transformer with random weights."""
    import evolving_attention as ea

    name = {"evolving": "ea_", "predictive": "pa_"}.get(kind, "")
    own = {}
    if kind == "windows":  # Yang et al., 2019: 2-D in the three lowest layers
        spec = ea.attention.Spec(scope=ea.attention.Window(size=11, heads=3))
        own["attention"] = [spec] * 3 + ["vanilla"] * 3
    return ea.create_model(
        f"{name}transformer_{size}",
        task="seq2seq_lm",
        vocab_size=vocabulary,
        dropout=dropout,
        dtype=dtype,
        **own,
    )


def our_steps(
    model: Any, some: Sequence[Pair], optimizer: Any, **inputs: Any
) -> Callable[[], None]:
    """Returns our step on each batch; ``inputs`` are passed with every batch."""
    model.train()

    def steps() -> None:
        for each in some:
            model(**each.packed, **inputs).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return steps


def torch_steps(
    peer: torch.nn.Module,
    loss_of: Callable[[Pair], torch.Tensor],
    some: Sequence[Pair],
    optimizer: torch.optim.Optimizer,
    dtype: str,
) -> Callable[[], None]:
    """Returns the peer's step on each batch; bfloat16 by autocast."""
    peer.train()

    def steps() -> None:
        for each in some:
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
                loss = loss_of(each)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return steps


def start_losses(model: Any, peer: Translation, one: Pair) -> dict[str, float]:
    """Returns the loss of both sides without dropout; copies our weights first."""
    state = {k: torch.from_numpy(v) for k, v in weights(model).items()}
    peer.load_state_dict(state, strict=True)
    model.eval()
    peer.eval()
    with torch.no_grad():
        theirs = peer(*one.padded, SMOOTHING).item()
    ours = float(model(**one.packed, label_smoothing=SMOOTHING).loss.item())
    return {"ours": ours, "torch": theirs}


def build(
    kind: str, options: argparse.Namespace, some: Sequence[Pair]
) -> tuple[Sides, dict[str, float]]:
    """Returns both sides of one kind, and their first losses."""
    import evolving_attention as ea

    alpha = ALPHAS[options.size] if kind == "evolving" else None
    torch.manual_seed(0)
    ea.manual_seed(0)
    peer = Translation(replace(SIZES[options.size], alpha=alpha))
    model = our_model(kind, options.size, options.dtype)
    start = start_losses(model, peer, some[0])
    if abs(start["ours"] - start["torch"]) > (
        2e-2 if options.dtype == "bfloat16" else 1e-4
    ):
        raise SystemExit(f"{kind}: the two sides differ before training: {start}")
    own = ea.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0
    )

    def loss_of(each: Pair) -> torch.Tensor:
        return peer(*each.padded, SMOOTHING)

    sides = {
        (kind, "ours"): our_steps(model, some, own, label_smoothing=SMOOTHING),
        (kind, "torch"): torch_steps(peer, loss_of, some, adam(peer), options.dtype),
    }
    return sides, start


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Returns a parser of the options of benchmarks on Multi30k's pairs."""
    made = spelled.parser(doc, "kinds", "dtype", "isa", "threads", "dry", rounds=5)
    made.add_argument("--data", type=Path, default=DATA, help="folder of Multi30k")
    made.add_argument("--tokens", type=int, default=4096, help="of a batch")
    made.add_argument("--batches", type=int, default=4, help="in a round")
    return made


def race(
    contenders: Sides, results: dict[str, Any], tokens: int, rounds: int
) -> dict[str, Any]:
    """Times all sides in turns; stores the results by kind and prints them."""
    times = harness.interleave(contenders, rounds)
    for (kind, side), seconds in times.items():
        results[kind][side] = harness.summarize(seconds)
    for kind, result in results.items():
        show(kind, result, tokens)
    if {"evolving", "vanilla"} <= results.keys():
        medians = [results[k]["ours"]["median_s"] for k in ("evolving", "vanilla")]
        results["evolving"]["over_vanilla"] = medians[0] / medians[1]
        print(f"ours, evolving over vanilla: {medians[0] / medians[1]:.3f}")
    return results


def show(kind: str, result: dict[str, Any], tokens: int) -> None:
    """Prints the sides' tokens per second, and their ratio."""
    sides = {side: result[side] for side in ("ours", "torch") if side in result}
    for side, one in sides.items():
        rate = one["tokens_per_s"] = tokens / one["median_s"]
        print(f"{kind:9s} {side:6s} {rate:8.0f} tokens/s  {harness.shown(one)}")
    if "torch" in sides:
        result["speedup"] = ratios(sides)["torch"]
        print(f"{kind:9s} ours is {result['speedup']:.2f} x torch", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    made = parser(__doc__)
    made.add_argument("--size", choices=SIZES, default="base")
    options = made.parse_args(arguments)
    isa.hold("translation", options.isa, arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    isa.tell(machine, options.isa)
    tokenizer, train, _ = pairs_of(options.data, VOCABULARY)
    some = batches(train, options.tokens, options.batches, tokenizer.bos_token_id)
    tokens = sum(each.tokens for each in some)
    padded = sum(each.padded[0].numel() + each.padded[3].numel() for each in some)
    print(f"{tokens} tokens in {len(some)} batches, {padded / tokens - 1:.0%} padding")
    contenders: Sides = {}
    results: dict[str, Any] = {}
    for kind in options.kinds:
        sides, start = build(kind, options, some)
        contenders |= sides
        results[kind] = {"start_loss": start}
    race(contenders, results, tokens, options.rounds)
    if not options.dry:
        name = f"translation-{options.size}-{options.tokens}-{options.dtype}"
        name += f"-{options.isa}" if options.isa else ""
        name += harness.only(options.kinds)
        kept = spelled.settings(options)
        print(harness.write(name, machine, results, settings=kept))


if __name__ == "__main__":
    main()

"""Fine-tuning a T5-Small-sized model on Multi30k's pairs: ours and transformers.

Both sides start from the same random weights and see the same batches, made by tokens
of source and target together from pairs sorted by length; ours packs them, transformers
pads each batch to its longest source and target. Before the timing their losses without
dropout are compared. A step is forward, backward and AdamW. EA-T5 takes turns in the
same rounds; nobody else has that model.

    python -m benchmarks.t5 [--tokens 4096] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.peers.torch_bert import adamw
from benchmarks.translation import DATA, VOCABULARY, Pair, batches, pairs_of, show

RATE = 1e-4


def our_model(kind: str, dtype: str) -> Any:
    """Our T5 with random weights."""
    import evolving_attention as ea

    name = {"vanilla": "", "evolving": "ea_"}[kind]
    ea.manual_seed(0)
    return ea.create_model(
        f"{name}t5_small", task="seq2seq_lm", vocab_size=VOCABULARY, dtype=dtype
    )


def our_steps(model: Any, some: Sequence[Pair]) -> Callable[[], None]:
    """One step of ours on each batch."""
    import evolving_attention as ea

    optimizer = ea.optim.AdamW(model.parameters(), lr=RATE)
    model.train()

    def steps() -> None:
        for each in some:
            model(**each.packed).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return steps


def loss_of(peer: Any, one: Pair) -> Any:
    """The loss of transformers' model on a padded batch."""
    source, tokens, _, labels = one.padded
    return peer(input_ids=source, attention_mask=tokens.long(), labels=labels).loss


def torch_steps(peer: Any, some: Sequence[Pair], bf16: bool) -> Callable[[], None]:
    """One step of transformers' on each batch; bfloat16 by autocast."""
    optimizer = adamw(peer, RATE)
    peer.train()

    def steps() -> None:
        for each in some:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = loss_of(peer, each)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return steps


def peer_of(model: Any) -> Any:
    """transformers' model with the weights of ours, by way of a folder."""
    from transformers import T5ForConditionalGeneration

    with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
        model.save_pretrained(folder)
        return T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)


def build(
    options: argparse.Namespace, some: Sequence[Pair]
) -> tuple[dict[tuple[str, str], Callable[[], None]], dict[str, float]]:
    """The sides by kind, and the first losses of the vanilla ones."""
    bf16 = options.dtype == "bfloat16"
    contenders, start = {}, {}
    for kind in options.kinds:
        model = our_model(kind, options.dtype)
        if kind == "vanilla":
            peer = peer_of(model).eval()
            model.eval()
            with torch.no_grad():
                start["torch"] = loss_of(peer, some[0]).item()
            start["ours"] = float(model(**some[0].packed).loss.item())
            if abs(start["ours"] - start["torch"]) > (5e-2 if bf16 else 1e-3):
                raise SystemExit(f"the two sides differ before training: {start}")
            contenders[kind, "torch"] = torch_steps(peer, some, bf16)
        contenders[kind, "ours"] = our_steps(model, some)
    return contenders, start


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = spelled.parser(__doc__, "kinds", "dtype", "threads", "dry", rounds=5)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of Multi30k")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch")
    parser.add_argument("--batches", type=int, default=4, help="in a round")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    _, train, _ = pairs_of(options.data, VOCABULARY)
    some = batches(train, options.tokens, options.batches, 0)
    tokens = sum(each.tokens for each in some)
    contenders, start = build(options, some)
    times = harness.interleave(contenders, options.rounds)
    results: dict[str, Any] = {kind: {} for kind in options.kinds}
    for (kind, side), seconds in times.items():
        results[kind][side] = harness.summarize(seconds)
    for kind, result in results.items():
        show(kind, result, tokens)
    if len(results) == 2:
        medians = [results[k]["ours"]["median_s"] for k in ("evolving", "vanilla")]
        results["evolving"]["over_vanilla"] = medians[0] / medians[1]
        print(f"ours, evolving over vanilla: {medians[0] / medians[1]:.3f}")
    if not options.dry:
        kept = {**spelled.settings(options), "start_loss": start}
        name = f"t5-small-{options.tokens}-{options.dtype}"
        name += harness.only(options.kinds)
        print(harness.write(name, machine, results, settings=kept))


if __name__ == "__main__":
    main()

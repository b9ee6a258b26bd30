"""Fine-tuning a T5-Small-sized model on Multi30k's pairs: ours and transformers.

Both sides start from the same random weights and use the same batches, formed by the
number of source and target tokens from pairs sorted by length. Ours packs them,
transformers pads each batch to its longest source and target. Before the timing their
losses without dropout are compared. A step is forward, backward and AdamW. EA-T5 takes
turns in the same rounds; no other library has that model.

    python -m benchmarks.t5 [--tokens 4096] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from benchmarks import harness, isa
from benchmarks import options as spelled
from benchmarks.peers.torch_bert import adamw
from benchmarks.translation import (
    VOCABULARY,
    Pair,
    Sides,
    batches,
    our_steps,
    pairs_of,
    parser,
    race,
    torch_steps,
)

RATE = 1e-4


def our_model(kind: str, dtype: str) -> Any:
    """Builds our T5 with random weights."""
    import evolving_attention as ea

    name = {"vanilla": "", "evolving": "ea_"}[kind]
    ea.manual_seed(0)
    return ea.create_model(
        f"{name}t5_small", task="seq2seq_lm", vocab_size=VOCABULARY, dtype=dtype
    )


def loss_of(peer: Any, one: Pair) -> Any:
    """Returns the loss of transformers' model on a padded batch."""
    source, tokens, _, labels = one.padded
    return peer(input_ids=source, attention_mask=tokens.long(), labels=labels).loss


def peer_of(model: Any) -> Any:
    """Returns transformers' model with our weights, passed through a folder."""
    from transformers import T5ForConditionalGeneration

    with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
        model.save_pretrained(folder)
        return T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)


def build(
    options: argparse.Namespace, some: Sequence[Pair]
) -> tuple[Sides, dict[str, float]]:
    """Returns the sides by kind, and the first losses of the vanilla ones."""
    import evolving_attention as ea

    contenders: Sides = {}
    start = {}
    for kind in options.kinds:
        model = our_model(kind, options.dtype)
        if kind == "vanilla":
            peer = peer_of(model).eval()
            model.eval()
            with torch.no_grad():
                start["torch"] = loss_of(peer, some[0]).item()
            start["ours"] = float(model(**some[0].packed).loss.item())
            if abs(start["ours"] - start["torch"]) > (
                5e-2 if options.dtype == "bfloat16" else 1e-3
            ):
                raise SystemExit(f"the two sides differ before training: {start}")
            contenders[kind, "torch"] = torch_steps(
                peer, partial(loss_of, peer), some, adamw(peer, RATE), options.dtype
            )
        own = ea.optim.AdamW(model.parameters(), lr=RATE)
        contenders[kind, "ours"] = our_steps(model, some, own)
    return contenders, start


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    options = parser(__doc__).parse_args(arguments)
    isa.hold("t5", options.isa, arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    isa.tell(machine, options.isa)
    _, train, _ = pairs_of(options.data, VOCABULARY)
    some = batches(train, options.tokens, options.batches, 0)
    contenders, start = build(options, some)
    tokens = sum(each.tokens for each in some)
    kinds: dict[str, Any] = {kind: {} for kind in options.kinds}
    results = race(contenders, kinds, tokens, options.rounds)
    if not options.dry:
        kept = {**spelled.settings(options), "start_loss": start}
        name = f"t5-small-{options.tokens}-{options.dtype}"
        name += f"-{options.isa}" if options.isa else ""
        name += harness.only(options.kinds)
        print(harness.write(name, machine, results, settings=kept))


if __name__ == "__main__":
    main()

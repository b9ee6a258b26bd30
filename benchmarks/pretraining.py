"""Pre-training BERT on full rows of text: ours and transformers, tokens a second.

Masked language modelling of 15 % of the tokens, on WikiText-2's valid part in
WordPiece. Both sides start from the same random weights and see the same full rows, so
nothing is padded. Each masks its rows within its step: ours in the data set,
transformers in its collator. transformers computes vocabulary scores of all tokens,
ours only those of masked tokens. A step is masking, forward, backward, clipping and
AdamW, as in the Trainers. Before the timing their losses on one masked batch are
compared. Evolving attention takes turns in the same rounds; no other library has it.

    python -m benchmarks.pretraining [--size small] [--dtype bfloat16]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.peers.torch_bert import adamw
from benchmarks.pretraining_curves import DATA
from benchmarks.translation import Sides, race

VOCABULARY = 30522  # of the model; the tokenizer has as many as the text yields
RATE = 1e-4


def our_model(kind: str, size: str, dtype: str) -> Any:
    """Builds our BERT for masked language modelling with random weights."""
    import evolving_attention as ea

    name = {"vanilla": "", "evolving": "ea_"}[kind]
    ea.manual_seed(0)
    return ea.create_model(
        f"{name}bert_{size}", task="masked_lm", vocab_size=VOCABULARY, dtype=dtype
    )


def rows_of(data: Path, length: int, cache: Path) -> tuple[Any, Any]:
    """Returns the data set and its tokenizer."""
    from evolving_attention import pretraining

    files = pretraining.corpus_files(data)
    tokenizer = pretraining.train_wordpiece(pretraining.corpus_texts(files), VOCABULARY)
    rows = pretraining.PretrainingDataset.from_files(
        files, tokenizer, max_seq_length=length, cache_dir=cache
    )
    return rows, tokenizer


def groups(rows: Any, batch: int, count: int) -> list[np.ndarray[Any, Any]]:
    """Returns ``count`` batches of full rows, spread over the corpus."""
    full = np.flatnonzero(rows.lengths == rows.max_seq_length)
    chosen = np.linspace(0, len(full) - 1, batch * count).astype(int)
    return list(np.random.default_rng(0).permutation(full[chosen]).reshape(-1, batch))


def our_steps(
    model: Any, rows: Any, some: list[np.ndarray[Any, Any]]
) -> Callable[[], None]:
    """Returns a function that takes one step of ours on each group of rows."""
    import evolving_attention as ea
    from evolving_attention.optim import clip_grad_norm_

    optimizer = ea.optim.AdamW(model.parameters(), lr=RATE)
    model.train()
    epoch = iter(range(10**9))

    def steps() -> None:
        view = rows.of_epoch(next(epoch))
        for indices in some:
            batch = dict(view.gather(indices))
            del batch["row_ids"]
            model(**model.at_labels(batch)).loss.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return steps


def torch_steps(
    peer: Any,
    collator: Any,
    some: list[list[dict[str, list[int]]]],
    dtype: str,
) -> Callable[[], None]:
    """Returns a function that takes one step of transformers' model on each group."""
    optimizer = adamw(peer, RATE)
    peer.train()

    def steps() -> None:
        for group in some:
            batch = collator(group)
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
                loss = peer(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return steps


def start_losses(model: Any, peer: Any, batch: dict[str, Any]) -> dict[str, float]:
    """Returns the losses of both sides on one masked batch, without dropout."""
    model.eval()
    peer.eval()
    count = len(batch["sequence_offsets"]) - 1
    square = {
        name: torch.from_numpy(batch[name].reshape(count, -1))
        for name in ("input_ids", "labels")
    }
    with torch.no_grad():
        theirs = peer(**square).loss.item()
    return {"ours": float(model(**model.at_labels(batch)).loss.item()), "torch": theirs}


def peer_of(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Returns transformers' model with our weights, and its masking collator."""
    from transformers import (
        BertForMaskedLM,
        DataCollatorForLanguageModeling,
        PreTrainedTokenizerFast,
    )

    with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        peer = BertForMaskedLM.from_pretrained(folder, dtype=torch.float32)
        words = PreTrainedTokenizerFast(
            tokenizer_file=f"{folder}/tokenizer.json", **tokenizer.special_tokens_map
        )
    return peer, DataCollatorForLanguageModeling(words)


def build(
    options: Any, rows: Any, tokenizer: Any
) -> tuple[Sides, dict[str, float], int]:
    """Returns sides by kind, first losses of the vanilla ones, and tokens per round."""
    contenders: Sides = {}
    start: dict[str, float] = {}
    some = groups(rows, options.batch, options.batches)
    for kind in options.kinds:
        model = our_model(kind, options.size, options.dtype)
        if kind == "vanilla":
            peer, collator = peer_of(model, tokenizer)
            batch = dict(rows.gather(some[0]))
            del batch["row_ids"]
            start = start_losses(model, peer, batch)
            bound = 5e-2 if options.dtype == "bfloat16" else 1e-3
            if abs(start["ours"] - start["torch"]) > bound:
                raise SystemExit(f"the two sides differ before training: {start}")
            plain = [[plain_row(rows, int(i)) for i in group] for group in some]
            contenders[kind, "torch"] = torch_steps(
                peer, collator, plain, options.dtype
            )
        contenders[kind, "ours"] = our_steps(model, rows, some)
    tokens = options.batches * options.batch * rows.max_seq_length
    return contenders, start, tokens


def plain_row(rows: Any, index: int) -> dict[str, list[int]]:
    """Returns a row as the tokenizer produced it."""
    row = rows[index]
    labels = row["labels"]
    hidden = labels != -100
    # the label of a replaced token is the original token
    return {"input_ids": np.where(hidden, labels, row["input_ids"]).tolist()}


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(
        __doc__, "kinds", "dtype", "threads", "dry", "length", rounds=5, batch=32
    )
    parser.add_argument("--data", type=Path, default=DATA, help="text files")
    parser.add_argument("--size", choices=("small", "base"), default="small")
    parser.add_argument("--batches", type=int, default=2, help="in a round")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    with tempfile.TemporaryDirectory(prefix="ea-bench-") as cache:
        rows, tokenizer = rows_of(options.data, options.length, Path(cache))
        contenders, start, tokens = build(options, rows, tokenizer)
        kinds: dict[str, Any] = {kind: {} for kind in options.kinds}
        results = race(contenders, kinds, tokens, options.rounds)
    if {"vanilla", "evolving"} <= results.keys():
        theirs, ours = results["vanilla"]["torch"], results["evolving"]["ours"]
        ratio = results["evolving"]["over_torch"] = (
            theirs["median_s"] / ours["median_s"]
        )
        print(f"evolving, ours, is {ratio:.2f} x vanilla torch")
    if not options.dry:
        name = f"pretraining-{options.size}-{options.batch}x{options.length}"
        name += f"-{options.dtype}{harness.only(options.kinds)}"
        kept = {**spelled.settings(options), "start_loss": start}
        print(harness.write(name, machine, results, settings=kept))


if __name__ == "__main__":
    main()

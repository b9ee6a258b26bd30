"""Sentences per second of training text nets from scratch: ours and PyTorch eager.

Transformer, Conv-Transformer and CNN over word vectors, with the sizes and dropouts of
the predictive attention paper, and the evolving and predictive nets, on sentences of
SST-2 or pairs of SNLI. Both sides start from the same weights; a step is forward,
backward and Adam on a batch of 64. Ours packs each batch; PyTorch pads it to its
longest row. "torch" gets our batches in a loader's order; "torch, grouped by length"
gets the same rows sorted by length first. Before the timing the logits of all rows are
compared, without dropout.

    python -m benchmarks.text_nets [--task snli] [--words trained] [--arms text_cnn]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import weights
from benchmarks.peers.torch_text import TextNet, adam
from benchmarks.race import TOLERANCE, ratios
from evolving_attention.data.features import Features, tokenize_dataset
from evolving_attention.training.batches import inputs_of

ARMS = (
    "text_transformer",
    "ea_text_transformer",
    "pa_text_transformer",
    "text_conv_transformer",
    "pa_text_conv_transformer",
    "text_cnn",
)
TASKS = ("sst2", "snli")
LONGEST, RATE, DECAY = 64, 4e-4, 2e-6
GROUPED = "torch, grouped by length"


class Batch(NamedTuple):
    """A batch in the form of each side."""

    packed: dict[str, np.ndarray]
    padded: tuple[torch.Tensor, ...]  # ids, types, lengths
    labels: torch.Tensor


def rows_of(task: str, data: Path, count: int) -> tuple[Features, int]:
    """Returns the first training rows, and the training vocabulary's size."""
    import evolving_attention as ea
    from evolving_attention.data.text_sets import load_text_set
    from evolving_attention.text import train_word_level

    if task == "sst2":
        train = ea.glue.load("sst2", data)[0]
    else:
        train = load_text_set("snli", data / "SNLI").train
    texts = [text for name in train.text_columns for text in train.column(name)]
    split = "space" if task == "sst2" else "punctuation"
    tokenizer = train_word_level(texts, split=split, model_max_length=LONGEST)
    rows = tokenize_dataset(train[:count], tokenizer, max_length=LONGEST)
    if task == "sst2":
        rows.token_type_ids = None
    return rows, len(tokenizer)


def batches(rows: Features, size: int, order: np.ndarray) -> list[Batch]:
    """Splits the rows, in this order, into batches."""
    made = []
    for begin in range(0, len(order), size):
        packed = inputs_of(rows.gather(order[begin : begin + size]))
        lengths = np.diff(packed["sequence_offsets"])
        valid = np.arange(lengths.max()) < lengths[:, None]
        padded = np.zeros((2, *valid.shape), np.int64)
        for place, name in enumerate(("input_ids", "token_type_ids")):
            padded[place, valid] = packed.get(name, 0)
        parts = (torch.from_numpy(part) for part in (*padded, lengths))
        made.append(Batch(packed, tuple(parts), torch.from_numpy(packed["labels"])))
    return made


def padding(some: Sequence[Batch]) -> float:
    """Returns the share of padding among all positions."""
    places = sum(each.padded[0].numel() for each in some)
    return 1.0 - sum(int(each.padded[2].sum()) for each in some) / places


def our_model(
    arm: str, rows: Features, vocabulary: int, options: argparse.Namespace
) -> Any:
    """Builds a new net of ours."""
    import evolving_attention as ea

    ea.manual_seed(0)
    return ea.create_model(
        arm,
        vocab_size=vocabulary,
        type_vocab_size=1 if rows.token_type_ids is None else 2,
        num_labels=1 + int(rows.labels.max()),
        max_position_embeddings=LONGEST,
        fixed_words=options.words == "fixed",
        dtype=options.dtype,
        **({"hidden_size": 32, "intermediate_size": 64} if options.tiny else {}),
    )


def check(arm: str, model: Any, peer: TextNet, some: Sequence[Batch]) -> float:
    """Returns the largest difference of logits over the largest logit, without dropout.

    Raises:
        SystemExit: the difference is too large.
    """
    model.eval()
    peer.eval()
    error = largest = 0.0
    for each in some:
        with torch.no_grad():
            theirs = peer(*each.padded).numpy()
        ours = np.asarray(model(**each.packed).logits, np.float32)
        error = max(error, float(np.abs(ours - theirs).max()))
        largest = max(largest, float(np.abs(theirs).max()))
    if not error <= TOLERANCE[model.dtype] * largest:
        raise SystemExit(f"{arm}: the sides differ by {error / largest:.1e}")
    return error / largest


def our_steps(model: Any, some: Sequence[Batch]) -> Callable[[], None]:
    """Returns a function that takes one step of ours on each batch."""
    import evolving_attention as ea

    trained = [t for t in model.parameters() if t.requires_grad]
    optimizer = ea.optim.Adam(trained, lr=RATE, weight_decay=DECAY)

    def steps() -> None:
        model.train()
        for each in some:
            model(**each.packed).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return steps


def torch_steps(peer: TextNet, some: Sequence[Batch], dtype: str) -> Callable[[], None]:
    """Returns a function that takes one peer step per batch; bfloat16: autocast."""
    optimizer = adam(peer, RATE, DECAY)

    def steps() -> None:
        peer.train()
        for each in some:
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
                logits = peer(*each.padded)
                loss = torch.nn.functional.cross_entropy(logits.float(), each.labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return steps


def build(
    arm: str, rows: Features, vocabulary: int, options: argparse.Namespace
) -> tuple[dict[str, Callable[[], None]], dict[str, float]]:
    """Returns the sides of an arm, and their comparison before the timing."""
    drawn = batches(rows, options.batch, np.arange(len(rows)))
    by_length = np.argsort(rows.lengths, kind="stable")
    grouped = batches(rows, options.batch, by_length)
    model = our_model(arm, rows, vocabulary, options)
    state = {k: torch.from_numpy(v) for k, v in weights(model).items()}
    peers = [TextNet(model.config) for _ in range(2)]
    for peer in peers:
        peer.load_state_dict(state, strict=True)
    seen = {
        "difference": check(arm, model, peers[0], drawn),
        "padding": padding(drawn),
        "padding_grouped": padding(grouped),
    }
    return {
        "ours": our_steps(model, drawn),
        "torch": torch_steps(peers[0], drawn, options.dtype),
        GROUPED: torch_steps(peers[1], grouped, options.dtype),
    }, seen


def show(arm: str, result: dict[str, Any], count: int) -> None:
    """Adds the sentences per second of each side, and prints the arm."""
    timed = {side: one for side, one in result.items() if isinstance(one, dict)}
    for side, one in timed.items():
        one["sentences_per_s"] = count / one["median_s"]
        print(
            f"{arm:25s} {side:25s} {one['sentences_per_s']:7.0f} sentences/s  "
            f"{harness.shown(one)}"
        )
    found = ratios(timed)
    best = min(found, key=lambda side: found[side])
    result["speedup"] = found[best]
    print(f"{arm:25s} ours is {found[best]:.2f} x {best}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(
        __doc__, "dtype", "threads", "dry", rounds=5, batch=64, data=spelled.DATA
    )
    parser.add_argument("--task", choices=TASKS, default="sst2")
    parser.add_argument("--words", choices=("fixed", "trained"), default="fixed")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--sentences", type=int, default=1280, help="in a round")
    parser.add_argument("--tiny", action="store_true", help="small nets")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    rows, vocabulary = rows_of(options.task, options.data, options.sentences)
    print(f"{rows.lengths.mean():.1f} words a row, {vocabulary} in the vocabulary")
    results: dict[str, Any] = {}
    for arm in options.arms:
        sides, seen = build(arm, rows, vocabulary, options)
        times = harness.interleave(sides, options.rounds)
        results[arm] = {side: harness.summarize(s) for side, s in times.items()}
        results[arm] |= seen
        show(arm, results[arm], len(rows))
    if not options.dry:
        name = f"textnets-{options.task}-{options.words}-{options.dtype}"
        kept = spelled.settings(options, "tiny")
        print(harness.write(name, machine, results, settings=kept))


if __name__ == "__main__":
    main()

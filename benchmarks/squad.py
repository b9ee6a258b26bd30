"""Fine-tuning MiniLM on SQuAD: windows per second of our Trainer and transformers'.

Both train on the same windows of at most 384 tokens, which overlap by 128, with the
same batch size, learning rate, element type and threads. Loading and tokenising are not
timed. transformers pads each batch to its longest row, in random order and, as a second
contender, grouped by length; ours packs.

    python -m benchmarks.squad [--windows 192] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness, trainers
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT
from benchmarks.squad_seeds import FILE, MAX_LENGTH, STRIDE


def windows(file: Path, count: int) -> Any:
    """Returns ``count`` windows spread over the file, by our tokenizer."""
    import evolving_attention as ea
    from evolving_attention import squad

    found = squad.WindowDataset.from_questions(
        squad.load(file),
        ea.AutoTokenizer.from_pretrained(CHECKPOINT),
        max_length=MAX_LENGTH,
        stride=STRIDE,
    )
    chosen = np.linspace(0, len(found) - 1, min(count, len(found)))
    return found.take(chosen.astype(int))


def peer(rows: Any, options: argparse.Namespace, grouped: bool) -> Callable[[], float]:
    """Prepares one run of transformers' Trainer on the same windows."""
    import transformers as hf

    folder = trainers.checkpoint_folder()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    return trainers.transformers(
        lambda: hf.AutoModelForQuestionAnswering.from_pretrained(folder),
        [rows[i] for i in range(len(rows))],
        hf.DataCollatorWithPadding(tokenizer),
        options,
        grouped,
    )


def ours(rows: Any, options: argparse.Namespace, attention: Any) -> Callable[[], float]:
    """Prepares one run of our Trainer."""
    import evolving_attention as ea

    return trainers.ours(
        lambda: ea.AutoModelForQuestionAnswering.from_pretrained(
            CHECKPOINT, attention=attention, dtype=options.dtype
        ),
        rows,
        options,
    )


def contenders(rows: Any, options: argparse.Namespace) -> dict[str, Callable]:
    """Returns every requested side by name."""
    return trainers.contenders(
        lambda attention: ours(rows, options, attention),
        lambda grouped: peer(rows, options, grouped),
        options.side,
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    own = {"batch": 16, "rounds": 5}
    parser = spelled.parser(__doc__, "dtype", "threads", "side", "dry", **own)
    parser.add_argument("--data", type=Path, default=FILE, help="a file of SQuAD")
    parser.add_argument("--windows", type=int, default=192)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args(arguments)
    options.device = "cpu"
    rows = windows(options.data, options.windows)
    runs = contenders(rows, options)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    times = harness.interleave(runs, options.rounds, warmup=1)
    results = {name: harness.summarize(seconds) for name, seconds in times.items()}
    for name, one in results.items():
        one["windows_per_s"] = len(rows) * options.epochs / one["median_s"]
        print(
            f"{name:20s} {one['windows_per_s']:8.1f} windows/s  {harness.shown(one, 0)}"
        )
    if not options.dry:
        name = "squad" + ("" if options.dtype == "float32" else f"-{options.dtype}")
        settings = spelled.settings(options, "device")
        print(harness.write(name, machine, results, settings=settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())

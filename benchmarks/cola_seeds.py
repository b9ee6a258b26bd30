"""CoLA in full: MiniLM fine-tuned for three epochs, vanilla and evolving, five seeds.

Reports Matthews correlation on the whole dev set and on its in-domain and
out-of-domain halves, each run, with mean and spread; writes JSON and the table of
docs/glue.md between its markers. Runs that are already in the JSON are not repeated.

    python -m benchmarks.cola_seeds --data ../shared/data/glue/CoLA [--threads 2]
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT

RESULT = harness.RESULTS / "cola-seeds.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "glue.md"
BEGIN, END = "<!-- cola-seeds:begin -->", "<!-- cola-seeds:end -->"
SETTINGS = {
    "learning_rate": 5e-5,
    "per_device_train_batch_size": 16,
    "num_train_epochs": 3,
    "max_seq_length": 128,
    "alpha": 0.1,
    "beta": 0.1,
}
SCORES = ("in domain", "out of domain", "whole dev set")


def run(data: Path, kind: str, seed: int) -> dict[str, Any]:
    """Train once; scores in percent, and training sentences per second."""
    import evolving_attention as ea
    from evolving_attention.data.features import tokenize_dataset

    train, dev = ea.glue.load("cola", data)
    tokenizer = ea.AutoTokenizer.from_pretrained(CHECKPOINT)
    attention = {
        "vanilla": ea.attention.Vanilla(),
        "evolving": ea.attention.Evolving(SETTINGS["alpha"], SETTINGS["beta"]),
    }[kind]
    ea.manual_seed(seed)
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        CHECKPOINT, num_labels=2, attention=attention
    )
    with tempfile.TemporaryDirectory(prefix="ea-cola-") as folder:
        trainer = ea.Trainer(
            model,
            ea.TrainingArguments(
                folder,
                learning_rate=SETTINGS["learning_rate"],
                per_device_train_batch_size=SETTINGS["per_device_train_batch_size"],
                num_train_epochs=SETTINGS["num_train_epochs"],
                save_strategy="no",
                seed=seed,
                disable_tqdm=True,
            ),
            train_dataset=tokenize_dataset(train, tokenizer),
        )
        begin = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - begin
        found = trainer.predict(tokenize_dataset(dev, tokenizer)).predictions
    choice, truth = np.argmax(found, axis=1), np.array(dev.column("label"))
    inside = ea.glue.in_domain(dev)
    metric = ea.glue.metrics("cola")
    scores = {
        name: 100 * metric((found[rows], truth[rows]))["matthews_correlation"]
        for name, rows in zip(SCORES, (inside, ~inside, inside | True), strict=True)
    }
    rate = len(train) * SETTINGS["num_train_epochs"] / seconds
    return {
        "kind": kind,
        "seed": seed,
        "scores": scores,
        "accuracy": float(np.mean(choice == truth)),
        "sentences_per_s": rate,
    }


def table(runs: list[dict[str, Any]]) -> str:
    """Markdown: mean, standard deviation and single runs, and the paired difference."""
    lines = ["| MCC × 100 | attention | mean ± sd | seeds |", "|---|---|---|---|"]
    for score in SCORES:
        by_kind = {
            kind: {r["seed"]: r["scores"][score] for r in runs if r["kind"] == kind}
            for kind in ("vanilla", "evolving")
        }
        for kind, values in by_kind.items():
            every = " ".join(f"{values[seed]:.1f}" for seed in sorted(values))
            mean, sd = _mean_sd(list(values.values()))
            lines.append(f"| {score} | {kind} | {mean:.1f} ± {sd:.1f} | {every} |")
        both = sorted(set(by_kind["vanilla"]) & set(by_kind["evolving"]))
        gains = [by_kind["evolving"][s] - by_kind["vanilla"][s] for s in both]
        mean, sd = _mean_sd(gains)
        every = " ".join(f"{gain:+.1f}" for gain in gains)
        lines.append(f"| | evolving − vanilla | {mean:+.1f} ± {sd:.1f} | {every} |")
    return "\n".join(lines)


def _mean_sd(values: list[float]) -> tuple[float, float]:
    if not values:
        return float("nan"), float("nan")
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.mean(values), spread


def write_page(text: str) -> None:
    """Put the table between the markers of docs/glue.md."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = spelled.parser(__doc__, "threads", data=spelled.DATA / "CoLA")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    record: dict[str, Any] = {"name": "cola-seeds", "settings": SETTINGS, "runs": []}
    if options.result.exists():
        record = json.loads(options.result.read_text(encoding="utf-8"))
    record["machine"] = harness.machine(options.threads)
    done = {(r["kind"], r["seed"]) for r in record["runs"]}
    for seed in range(1, options.seeds + 1):
        for kind in ("vanilla", "evolving"):
            if (kind, seed) in done:
                continue
            record["runs"].append(run(options.data, kind, seed))
            options.result.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(record, indent=1) + "\n"
            options.result.write_text(text, encoding="utf-8")
            print(record["runs"][-1], flush=True)
    print(table(record["runs"]))
    if PAGE.exists():
        write_page(table(record["runs"]))


if __name__ == "__main__":
    main()

"""GLUE over seeds: MiniLM fine-tuned for three epochs, vanilla and evolving, paired.

α and β are the paper's for BERT-Base (ICML 2021, Table 9); CoLA keeps 0.1 and 0.1.
The dev set is scored once, after training; it is not used to choose anything. Writes
each run to a JSON file and the table to docs/glue.md, between its markers. Runs already
in the JSON are not repeated, so that a long series can be resumed on another day.

    python -m benchmarks.glue_seeds --task mrpc --dtype bfloat16 [--seeds 10]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness, rules, seeds
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT

PAGE = seeds.DOCS / "glue.md"
TRAINING: dict[str, Any] = {
    "learning_rate": 5e-5,
    "per_device_train_batch_size": 16,
    "num_train_epochs": 3,
}
MAX_LENGTH = 128
COEFFICIENTS = {  # α, β
    "cola": (0.1, 0.1),
    "mrpc": (0.1, 0.2),
    "rte": (0.2, 0.1),
    "stsb": (0.2, 0.2),
}
ARMS = ("vanilla", "evolving")
MCC = "matthews_correlation"
NAMES = {
    MCC: "MCC, whole dev set",
    "accuracy": "accuracy",
    "f1": "F1",
    "pearson": "Pearson",
    "spearmanr": "Spearman",
}


def run(task: str, data: Path, dtype: str, arm: str, seed: int) -> dict[str, Any]:
    """Trains once; returns dev scores times 100, and training rows per second."""
    import evolving_attention as ea
    from evolving_attention.data.features import tokenize_dataset

    train, dev = ea.glue.load(task, data)
    tokenizer = ea.AutoTokenizer.from_pretrained(CHECKPOINT)
    attention = {
        "vanilla": ea.attention.Vanilla(),
        "evolving": ea.attention.Evolving(*COEFFICIENTS[task]),
    }[arm]
    ea.manual_seed(seed)
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        CHECKPOINT, num_labels=1 if task == "stsb" else 2, attention=attention
    )
    with tempfile.TemporaryDirectory(prefix="ea-glue-seeds-") as folder:
        trainer = ea.Trainer(
            model,
            ea.TrainingArguments(
                folder,
                save_strategy="no",
                seed=seed,
                disable_tqdm=True,
                bf16=dtype == "bfloat16",
                **TRAINING,
            ),
            train_dataset=tokenize_dataset(train, tokenizer, max_length=MAX_LENGTH),
        )
        begin = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - begin
        found = trainer.predict(tokenize_dataset(dev, tokenizer, max_length=MAX_LENGTH))
    return {
        "scores": scores(task, dev, np.asarray(found.predictions)),
        "rows_per_s": len(train) * TRAINING["num_train_epochs"] / seconds,
        "commit": rules.commit()[0],
    }


def scores(task: str, dev: Any, predictions: np.ndarray[Any, Any]) -> dict[str, float]:
    """Returns the task's metrics times 100; for CoLA also per half of its dev set."""
    import evolving_attention as ea

    metric, truth = ea.glue.metrics(task), np.array(dev.column("label"))
    found = {}
    if task == "cola":
        inside = ea.glue.in_domain(dev)
        for name, rows in (("MCC, in domain", inside), ("MCC, out of domain", ~inside)):
            found[name] = 100 * metric((predictions[rows], truth[rows]))[MCC]
    for key, value in metric((predictions, truth)).items():
        if key in NAMES:
            found[NAMES[key]] = 100 * value
    return found


def table(runs: list[dict[str, Any]]) -> str:
    """Returns Markdown: mean, spread and single runs, and the paired difference."""
    lines = ["| score × 100 | attention | mean ± sd | by seed |", "|---|---|---|---|"]
    for score in runs[0]["scores"]:
        by_arm = {
            arm: {r["seed"]: r["scores"][score] for r in runs if r["arm"] == arm}
            for arm in ARMS
        }
        for arm, values in by_arm.items():
            every = " ".join(f"{values[seed]:.1f}" for seed in sorted(values))
            shown = seeds.mean_and_sd(list(values.values()), 1)
            lines.append(f"| {score} | {arm} | {shown} | {every} |")
        both = sorted(set(by_arm["vanilla"]) & set(by_arm["evolving"]))
        gains = [by_arm["evolving"][s] - by_arm["vanilla"][s] for s in both]
        every = " ".join(f"{gain:+.1f}" for gain in gains)
        lines.append(f"| | evolving − vanilla | {seeds.interval(gains)} | {every} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "dtype", "threads", data=spelled.DATA)
    parser.add_argument("--task", choices=COEFFICIENTS, required=True)
    parser.add_argument("--seeds", type=int, default=10, help="0: the table alone")
    parser.add_argument("--result", type=Path, help="the JSON file")
    options = parser.parse_args(arguments)
    task = options.task
    result = options.result or harness.RESULTS / f"{task}-seeds.json"
    harness.set_threads(options.threads)
    alpha, beta = COEFFICIENTS[task]
    settings = {
        **TRAINING,
        "max_seq_length": MAX_LENGTH,
        "alpha": alpha,
        "beta": beta,
        "dtype": options.dtype,
    }
    record = {"name": f"{task}-seeds", "settings": settings, "runs": []}
    runs = seeds.series(
        result,
        record,
        [{"arm": a, "seed": s} for s in range(1, options.seeds + 1) for a in ARMS],
        lambda names: run(task, options.data, options.dtype, **names),
        lambda: harness.machine(options.threads),
    )
    found = table(runs)
    print(found)
    if options.result is None:
        seeds.write_table(PAGE, f"{task}-seeds", found)


if __name__ == "__main__":
    main()

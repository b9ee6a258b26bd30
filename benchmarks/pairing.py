"""Correlation of two arms of an experiment that share their seeds.

Trains a small BERT from scratch on 2,000 sentences of SST-2, vanilla and evolving,
once for each seed, and prints how the arms' dev losses and accuracies correlate over
the seeds. Arms that share all random numbers except those of the convolutions rise and
fall together, so that fewer seeds are needed to see their difference.

    python -m benchmarks.pairing --data GLUE/SST-2 [--seeds 10]

With ``PYTHONPATH`` of another checkout and another ``--name`` it measures that one.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT

SETTINGS: dict[str, Any] = {
    "sentences": 2000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "learning_rate": 5e-4,
    "num_train_epochs": 3,
    "batch": 32,
    "alpha": 0.1,
    "beta": 0.1,
}
ARMS = ("vanilla", "evolving")
SCORES = ("dev loss", "dev accuracy")


def run(train: Any, dev: Any, tokenizer: Any, arm: str, seed: int) -> dict[str, Any]:
    """Trains one arm with one seed; returns the scores of its last epoch."""
    import evolving_attention as ea

    kinds = {
        "vanilla": ea.attention.Vanilla(),
        "evolving": ea.attention.Evolving(SETTINGS["alpha"], SETTINGS["beta"]),
    }
    sizes = {
        k: v for k, v in SETTINGS.items() if k.endswith(("size", "layers", "heads"))
    }
    config = ea.BertConfig(
        vocab_size=tokenizer.vocab_size, attention=kinds[arm], num_labels=2, **sizes
    )
    ea.manual_seed(seed)
    model = ea.BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory(prefix="ea-pairing-") as folder:
        trainer = ea.Trainer(
            model,
            ea.TrainingArguments(
                folder,
                learning_rate=SETTINGS["learning_rate"],
                per_device_train_batch_size=SETTINGS["batch"],
                num_train_epochs=SETTINGS["num_train_epochs"],
                save_strategy="no",
                seed=seed,
                disable_tqdm=True,
            ),
            train_dataset=train,
        )
        trainer.train()
        found = trainer.predict(dev)
    logits = np.asarray(found.predictions, np.float64)
    truth = np.asarray(found.label_ids)
    top = logits.max(axis=1, keepdims=True)
    log_sums = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
    loss = float(np.mean(log_sums - logits[np.arange(len(truth)), truth]))
    accuracy = float(np.mean(logits.argmax(axis=1) == truth))
    return {"arm": arm, "seed": seed, "dev loss": loss, "dev accuracy": accuracy}


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns per score the arms' correlation, and how pairing affects the spread."""
    found = {}
    for score in SCORES:
        by_arm = [[r[score] for r in runs if r["arm"] == arm] for arm in ARMS]
        vanilla, evolving = (np.array(values) for values in by_arm)
        found[score] = {
            "correlation": float(np.corrcoef(vanilla, evolving)[0, 1]),
            "sd of vanilla": float(np.std(vanilla, ddof=1)),
            "mean difference": float(np.mean(evolving - vanilla)),
            "sd of difference": float(np.std(evolving - vanilla, ddof=1)),
        }
    return found


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "threads", "dry", data=spelled.DATA / "SST-2")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--name", default="pairing", help="of the record")
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    import evolving_attention as ea
    from evolving_attention.data.features import tokenize_dataset

    tokenizer = ea.AutoTokenizer.from_pretrained(CHECKPOINT)
    train, dev = ea.glue.load("sst2", options.data)
    train = tokenize_dataset(train.select(range(SETTINGS["sentences"])), tokenizer)
    dev = tokenize_dataset(dev, tokenizer)
    runs = []
    for seed in range(1, options.seeds + 1):
        for arm in ARMS:
            runs.append(run(train, dev, tokenizer, arm, seed))
            print(runs[-1], flush=True)
    results = {"runs": runs, "summary": summary(runs)}
    for score, numbers in results["summary"].items():
        print(score, {name: round(value, 4) for name, value in numbers.items()})
    if not options.dry:
        machine = harness.machine(options.threads)
        harness.write(options.name, machine, results, settings=SETTINGS)


if __name__ == "__main__":
    main()

"""Masked language models on WikiText-2's valid part: which net learns at which rate.

RealFormer's Figure 3 is about stability: at 24 layers and a higher learning rate the
post-norm net diverges and the residual one does not. Here thin nets of 12 and 24 layers
(width 64, 4 heads) are pre-trained with vanilla, residual, evolving and pre-norm
vanilla attention at three rates over seeds. Rows and masks are equal, and so are the
initial values and dropout masks they have in common (the named random streams). Rows of
32 tokens from a vocabulary of 1,000 let such nets learn more than frequencies; with 128
tokens, 8,000 words and 400 updates no net ended clearly below the loss of frequencies.
The last 10 % of the rows are held out. A run counts as failed if its loss became
infinite or NaN, or if its last held-out loss is not below that of the token
frequencies, which a model that has learnt only these reaches.

Writes each run to a JSON file, the table to docs/pretraining.md, between its markers,
and the curves into docs/figures. Runs that are already in the JSON are not repeated.

    python -m benchmarks.pretraining_curves [--arms vanilla evolving] [--seeds 3]
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import figures, harness, rules, seeds
from benchmarks import options as spelled

FOLDER = Path(os.environ.get("EVOLVING_ATTENTION_DATA", "../shared/data"))
DATA = FOLDER / "text" / "wikitext-2" / "valid.txt"
PAGE = seeds.DOCS / "pretraining.md"
MARKER = "wikitext2-curves"
VOCABULARY = 1000
LENGTH = 32
HELD_OUT = 0.1
ARMS: dict[str, dict[str, Any]] = {
    "vanilla": {},
    "residual": {"attention": "residual"},
    "evolving": {"attention": {"kind": "evolving", "alpha": 0.1, "beta": 0.1}},
    "pre-norm": {"norm_first": True},
}
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": LENGTH,
}
TRAINING: dict[str, Any] = {
    "per_device_train_batch_size": 16,
    "per_device_eval_batch_size": 32,
    "train_sampling_strategy": "random",
    "weight_decay": 0.01,
    "adam_epsilon": 1e-6,
    "warmup_steps": 0.1,
    "lr_scheduler_type": "linear",
}
LAYERS = (12, 24)
RATES = (5e-4, 2e-3, 8e-3)


class Data:
    """Training rows, held-out rows, and the loss of token frequencies."""

    def __init__(self, file: Path, cache: Path, length: int = LENGTH) -> None:
        from evolving_attention import pretraining

        files = pretraining.corpus_files(file)
        self.tokenizer = pretraining.train_wordpiece(
            pretraining.corpus_texts(files), VOCABULARY
        )
        rows = pretraining.PretrainingDataset.from_files(
            files, self.tokenizer, max_seq_length=length, cache_dir=cache
        )
        self.train, self.held_out = rows.split(HELD_OUT)
        self.frequencies = unigram_loss(self.train, self.held_out, len(self.tokenizer))


def unigram_loss(train: Any, held_out: Any, size: int) -> float:
    """Returns the mean of -log p over the held-out labels, with p from training rows.

    Each token's count is increased by one.
    """
    counts = np.ones(size)
    batch = train.gather(np.arange(len(train)))
    shown = np.where(batch["labels"] != -100, batch["labels"], batch["input_ids"])
    special = train.masker.special
    np.add.at(counts, shown[~special[shown]], 1)
    labels = held_out.gather(np.arange(len(held_out)))["labels"]
    return float(-np.log(counts / counts.sum())[labels[labels != -100]].mean())


def run(
    data: Data, arm: str, layers: int, rate: float, seed: int, updates: int, every: int
) -> dict[str, Any]:
    """Trains once; returns the curve of held-out losses and accuracies, and its end."""
    import evolving_attention as ea

    ea.manual_seed(seed)
    model = ea.create_model(
        "bert_base",
        task="masked_lm",
        vocab_size=len(data.tokenizer),
        num_hidden_layers=layers,
        **{**SIZES, **ARMS[arm]},
    )
    data.train.seed = seed
    with tempfile.TemporaryDirectory(prefix="ea-curves-") as folder:
        trainer = ea.pretraining.PretrainingTrainer(
            model,
            ea.TrainingArguments(
                folder,
                save_strategy="no",
                eval_strategy="steps",
                eval_steps=every,
                learning_rate=rate,
                seed=seed,
                max_steps=updates,
                disable_tqdm=True,
                **TRAINING,
            ),
            train_dataset=data.train,
            eval_dataset=data.held_out,
        )
        ended = "finite"
        try:
            trainer.train()
        except ea.NonFiniteError:
            ended = "not finite"
    curve = [
        {"update": log["step"], "loss": log["eval_loss"]}
        | {"accuracy": log["eval_masked_accuracy"]}
        for log in trainer.state.log_history
        if "eval_loss" in log
    ]
    return {
        "curve": curve,
        "ended": ended,
        "frequencies": data.frequencies,
        "commit": rules.commit()[0],
    }


def failed(one: dict[str, Any]) -> bool:
    """Returns whether a run ended without having learnt more than frequencies."""
    if one["ended"] != "finite" or not one["curve"]:
        return True
    return bool(one["curve"][-1]["loss"] >= one["frequencies"])


def table(runs: list[dict[str, Any]]) -> str:
    """Returns Markdown: per net the losses of runs that learn, and how many fail."""
    rates = sorted({one["rate"] for one in runs})
    heads = " | ".join(f"rate {rate:g}: loss, accuracy, failed" for rate in rates)
    lines = [f"| layers | net | {heads} |", f"|{'---|' * (len(rates) + 2)}"]
    found: dict[tuple[int, str], dict[float, list[dict[str, Any]]]] = {}
    for one in runs:
        cell = found.setdefault((one["layers"], one["arm"]), {})
        cell.setdefault(one["rate"], []).append(one)
    for layers, arm in sorted(found, key=lambda key: key[0]):
        cells = [_cell(found[layers, arm].get(rate, [])) for rate in rates]
        lines.append(f"| {layers} | {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(runs: list[dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    good = [one for one in runs if not failed(one)]
    count = f"{len(runs) - len(good)} of {len(runs)}"
    if not good:
        return f"–, {count}"
    ends = [one["curve"][-1] for one in good]
    loss = seeds.mean_and_sd([end["loss"] for end in ends], 3)
    right = seeds.mean_sd([100 * end["accuracy"] for end in ends])[0]
    return f"{loss}, {right:.1f} %, {count}"


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "threads")
    parser.add_argument("--data", type=Path, default=DATA, help="text files")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--layers", nargs="+", type=int, default=list(LAYERS))
    parser.add_argument("--rates", nargs="+", type=float, default=list(RATES))
    parser.add_argument("--seeds", type=int, default=3, help="of each arm")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--every", type=int, default=200, help="updates between scores")
    parser.add_argument("--result", type=Path, help="the JSON file")
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    settings = {
        **TRAINING,
        **SIZES,
        "vocabulary": VOCABULARY,
        "held_out": HELD_OUT,
        "updates": options.updates,
        "every": options.every,
        "threads": options.threads,
    }
    with tempfile.TemporaryDirectory(prefix="ea-curves-") as cache:
        data = Data(options.data, Path(cache))
        runs = seeds.series(
            options.result or harness.RESULTS / f"{MARKER}.json",
            {"name": MARKER, "settings": settings, "runs": []},
            [
                {"layers": layers, "arm": arm, "rate": rate, "seed": seed}
                for seed in range(1, options.seeds + 1)
                for layers in options.layers
                for rate in options.rates
                for arm in options.arms
            ],
            lambda names: run(
                data, **names, updates=options.updates, every=options.every
            ),
            lambda: harness.machine(options.threads),
        )
    found = table(runs)
    print(found)
    if options.result is None:
        seeds.write_table(PAGE, MARKER, found)
        figures.held_out_losses(runs, seeds.DOCS / "figures" / f"{MARKER}.svg")


if __name__ == "__main__":
    main()

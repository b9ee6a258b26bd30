"""Text nets from scratch over seeds: Transformer, evolving and predictive.

SST-5 (8,544 sentences, five classes), 9,000 pairs of SNLI (three classes), and the
generated acceptability data (6,400 sentences of minimal pairs). Each dev set is split
once into halves: one chooses an update, the other is the test set; the generated data
has its own parts. The nets have the sizes of the predictive attention paper and its
recipe for SST (Adam with an L2 penalty of 2e-6, batches of 64, rates from 4e-4 to 1e-6
by cosine) in fewer epochs: 5, 4 and 10, at most about three minutes a run on one core.
Word vectors are fixed: those of MiniLM's table instead of GloVe's. Arms share the order
of the rows, all initial values they have in common, and the named random streams. α and
β are the papers' values: 0.1, and on SNLI 0.5 for predictive attention; they were not
tuned. ``pa_text_transformer`` has one predicting convolution; ``0``, ``2`` or ``3`` in
an arm's name is another number (Table 5 of the paper).

Seconds are CPU time of the process, so that other work on the machine does not count:
with one thread, the default, they equal those of an idle machine.

Writes each run to a JSON file and the tables to docs/text_nets.md, between their
markers. Runs that are already in the JSON are not repeated.

    python -m benchmarks.text_seeds [--tasks sst5] [--seeds 5]
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import curves, harness, seeds
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT
from evolving_attention.data.features import Features, tokenize_dataset

MARKER = "text-seeds"
PAGE = seeds.DOCS / "text_nets.md"
DATA = Path(os.environ.get("EVOLVING_ATTENTION_DATA", "../shared/data"))
BASE = "text_transformer"
CONVOLUTIONS = {  # number per predictive arm
    "pa0_text_transformer": 0,
    "pa_text_transformer": 1,
    "pa2_text_transformer": 2,
    "pa3_text_transformer": 3,
}
ARMS = (BASE, "ea_text_transformer", *CONVOLUTIONS)
TASKS = {"sst5": "text/SST-5", "snli": "glue/SNLI", "acceptability": ""}
EPOCHS = {"sst5": 5, "snli": 4, "acceptability": 10}
ALPHA, BETA, ALPHA_OF_SNLI = 0.1, 0.1, 0.5
RECIPE = {"lr": 4e-4, "weight_decay": 2e-6}
LAST_RATE, BATCH, LONGEST = 1e-6, 64, 64


class Texts(NamedTuple):
    """A data set as rows of ids, with the vectors of its vocabulary."""

    train: Features
    tuning: Features
    test: Features
    vectors: Any  # [words, width]
    labels: int
    types: int


@functools.cache
def texts(task: str, data: Path, rows: int | None) -> Texts:
    """Returns a task's three parts; of the training part the first ``rows``, if set."""
    from evolving_attention.data.text_sets import load_text_set
    from evolving_attention.demo.acceptability import parts as generated
    from evolving_attention.text import checkpoint_word_vectors, train_word_level

    folder = TASKS[task]
    parts = tuple(load_text_set(task, data / folder) if folder else generated())
    columns = [parts[0].column(name) for name in parts[0].text_columns]
    tokenizer = train_word_level(
        [text for column in columns for text in column],
        split="space" if task == "sst5" else "punctuation",
        model_max_length=LONGEST,
    )
    special = set(tokenizer.special_tokens_map.values())
    words = [word for word in tokenizer.get_vocab() if word not in special]
    vectors = checkpoint_word_vectors(CHECKPOINT, words)
    pairs = len(columns) == 2
    made = []
    for part in (parts[0][:rows], *parts[1:]):
        made.append(tokenize_dataset(part, tokenizer, max_length=LONGEST))
        if not pairs:
            made[-1].token_type_ids = None
    labels = len(parts[0].label_names)
    return Texts(*made, vectors.table(tokenizer).values, labels, 1 + pairs)


def model_of(arm: str, task: str, found: Texts, **sizes: Any) -> Any:
    """Builds a new net of an arm."""
    import evolving_attention as ea

    kind: Any = None
    if arm in CONVOLUTIONS:
        alpha = ALPHA_OF_SNLI if task == "snli" else ALPHA
        kind = ea.attention.Predictive(alpha, num_layers=CONVOLUTIONS[arm])
    elif arm != BASE:
        kind = ea.attention.Evolving(ALPHA, BETA)
    words, width = found.vectors.shape
    config = ea.TextNetConfig(
        vocab_size=words,
        embedding_size=width,
        fixed_words=True,
        num_labels=found.labels,
        type_vocab_size=found.types,
        max_position_embeddings=LONGEST,
        attention=kind,
        **sizes,
    )
    net = ea.TextNetForSequenceClassification(config)
    return net.set_word_vectors(found.vectors)


def run(task: str, arm: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Trains once."""
    import evolving_attention as ea
    from evolving_attention.training.schedules import multiplier

    found = texts(task, options.data, options.rows)
    ea.manual_seed(seed)
    small = {"hidden_size": 32, "intermediate_size": 64} if options.tiny else {}
    model = model_of(arm, task, found, **small)
    trained = [t for t in model.parameters() if t.requires_grad]
    passes = len(found.train) // BATCH
    updates = (options.epochs or EPOCHS[task]) * passes
    return curves.train(
        model,
        ea.optim.Adam(trained, **RECIPE),
        (found.train, found.tuning, found.test),
        updates=updates,
        batch=BATCH,
        every=passes,
        seed=seed,
        factor=multiplier(
            "cosine_with_min_lr", 0, updates, RECIPE["lr"], min_lr=LAST_RATE
        ),
        clock=time.process_time,
    )


def table(runs: list[dict[str, Any]]) -> list[str]:
    """Returns a Markdown table per task; its fastest run sets "equal seconds"."""
    pairs = [(arm, BASE) for arm in ARMS if arm != BASE]
    lines = []
    for task in TASKS:
        if own := [one for one in runs if one["task"] == task]:
            lines += [*curves.table(task, own, pairs), ""]
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, threads=1)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="has text/SST-5 and glue/SNLI"
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=5, help="0: the tables alone")
    parser.add_argument("--epochs", type=int, help="of every task")
    parser.add_argument("--rows", type=int, help="the first to train on; all")
    parser.add_argument("--tiny", action="store_true", help="small nets")
    parser.add_argument("--result", type=Path, help="the JSON file")
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    own = ("tasks", "arms", "seeds", "result")
    settings = {
        **spelled.settings(options, *own),
        **RECIPE,
        "lr_end": LAST_RATE,
        "batch": BATCH,
        "epochs_of_tasks": EPOCHS,
        "alpha": ALPHA,
        "alpha_of_snli": ALPHA_OF_SNLI,
        "beta": BETA,
    }
    runs = seeds.series(
        options.result or harness.RESULTS / f"{MARKER}.json",
        {"name": MARKER, "settings": settings, "runs": []},
        [
            {"task": task, "arm": arm, "seed": seed}
            for task in options.tasks
            for seed in range(2, options.seeds + 2)  # 1 was for trial runs
            for arm in options.arms
        ],
        lambda names: run(**names, options=options),
        lambda: harness.machine(options.threads),
    )
    found = "\n".join(table(runs)).rstrip()
    print(found)
    if options.result is None:
        seeds.write_table(PAGE, MARKER, found)


if __name__ == "__main__":
    main()

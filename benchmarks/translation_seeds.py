"""Multi30k en→de over seeds: four kinds of attention, and PyTorch.

Transformer-Lite from scratch. Every arm has the same sizes, batches, recipe and number
of updates; ours share all initial values and dropout masks they have in common, through
the named random streams. α, β and the learning rate are the paper's for Lite (ICML
2021, Section 4.3 and Table 10); no arm was tuned. Twice and four times this rate were
tried before, with vanilla attention and seed 0, which is not in the table.
The validation pairs are scored every few updates, by the mean of -log p of a token
without label smoothing; test_2016 is translated once, with the last weights. The clock
of "equal seconds" is the CPU time of this process, summed over its threads, so that it
does not count other work; it stops while anything is scored.

The PyTorch arm draws its batches from its own stream; our model translates with
its last weights.
Writes each run to a JSON file and the table to docs/translation.md, between its
markers. Runs that are already in the JSON are not repeated.

    python -m benchmarks.translation_seeds --threads 1 [--arms vanilla evolving]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness, rules, seeds
from benchmarks import options as spelled
from benchmarks.translation import (
    DATA,
    SIZES,
    SMOOTHING,
    VOCABULARY,
    batch,
    our_model,
    pairs_of,
)

PAGE = seeds.DOCS / "translation.md"
MARKER = "multi30k-seeds"
TRAINING: dict[str, Any] = {
    "learning_rate": 1e-3,
    "lr_scheduler_type": "inverse_sqrt",
    "warmup_steps": 400,
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "weight_decay": 0.0,
    "max_grad_norm": 0.0,
    "label_smoothing_factor": SMOOTHING,
    "per_device_train_batch_tokens": 2048,
}
DROPOUT = 0.1
ARMS = ("vanilla", "evolving", "predictive", "windows", "torch")
BEAM = 5
Curve = list[dict[str, float]]


class Clock:
    """The CPU seconds of training, without scoring, and the curve of losses."""

    def __init__(self, score: Callable[[], float], every: int, updates: int) -> None:
        self.score, self.every, self.updates = score, every, updates
        self.curve: Curve = []
        self.seconds, self.began = 0.0, 0.0

    def start(self) -> None:
        """Starts or resumes the clock."""
        self.began = time.process_time()

    def step(self, done: int) -> None:
        """Scores after an update, if it is due."""
        if done % self.every and done != self.updates:
            return
        self.seconds += time.process_time() - self.began
        loss = self.score()
        self.curve.append({"update": done, "seconds": self.seconds, "loss": loss})
        self.start()


class Data:
    """Multi30k: token ids of the training pairs, texts of the other parts."""

    def __init__(self, folder: Path) -> None:
        from evolving_attention import translation

        self.tokenizer, self.train, self.dev_rows = pairs_of(folder, VOCABULARY)
        names = ("val", "test_2016_flickr")
        self.dev, self.test = (
            translation.read_parallel(folder / f"{n}.en.gz", folder / f"{n}.de.gz")
            for n in names
        )


def train_ours(data: Data, arm: str, seed: int, updates: int, every: int) -> Any:
    """Trains our model; returns it and its clock."""
    import evolving_attention as ea

    ea.manual_seed(seed)
    words = len(data.tokenizer)
    model = our_model(arm, "lite", dropout=DROPOUT, vocabulary=words)
    translator = ea.Translator(model, data.tokenizer)
    clock = Clock(
        lambda: translator.score(data.dev.source, data.dev.target).loss, every, updates
    )

    class Watch(ea.TrainerCallback):  # type: ignore[misc,name-defined]
        """Drives the clock."""

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            clock.start()

        def on_step_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
            clock.step(state.global_step)

    with tempfile.TemporaryDirectory(prefix="ea-multi30k-") as folder:
        ea.Trainer(
            model,
            ea.TrainingArguments(
                folder,
                save_strategy="no",
                seed=seed,
                max_steps=updates,
                disable_tqdm=True,
                **TRAINING,
            ),
            train_dataset=data.train,
            processing_class=data.tokenizer,
            callbacks=[Watch()],
        ).train()
    return model, clock


def train_torch(data: Data, seed: int, updates: int, every: int) -> Any:
    """Trains PyTorch's model; returns ours with its weights, and the clock."""
    import torch

    from benchmarks.peers.torch_transformer import Translation, adam

    torch.manual_seed(seed)
    size = len(data.tokenizer)
    ours = our_model("vanilla", "lite", dropout=DROPOUT, vocabulary=size)
    peer = Translation(replace(SIZES["lite"], dropout=DROPOUT, vocabulary=size))
    for parameter in peer.parameters():
        if parameter.dim() > 1:
            torch.nn.init.xavier_uniform_(parameter)
    words = peer.transformer.embeddings.word_embeddings.weight
    torch.nn.init.normal_(words, std=words.shape[1] ** -0.5)
    for name, parameter in peer.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    optimizer = adam(peer)
    start = data.tokenizer.bos_token_id
    rng = np.random.default_rng(seed)

    def score() -> float:
        peer.eval()
        total = tokens = 0.0
        with torch.no_grad():
            for first in range(0, len(data.dev_rows), 64):
                last = min(first + 64, len(data.dev_rows))
                one = batch(data.dev_rows, range(first, last), start)
                count = int((one.padded[3] != -100).sum())
                total += peer(*one.padded, 0.0).item() * count
                tokens += count
        peer.train()
        return total / tokens

    clock = Clock(score, every, updates)
    peer.train()
    clock.start()
    done = 0
    while done < updates:
        for indices in epoch(data.train.lengths, rng):
            for group in optimizer.param_groups:
                group["lr"] = rate_of(done)
            done += 1
            peer(*batch(data.train, indices, start).padded, SMOOTHING).backward()
            optimizer.step()
            optimizer.zero_grad()
            clock.step(done)
            if done == updates:
                break
    ours.load_state_dict({k: v.numpy() for k, v in peer.state_dict().items()})
    return ours, clock


def rate_of(done: int) -> float:
    """Returns the learning rate after ``done`` updates, as in the Trainer."""
    warm = TRAINING["warmup_steps"]
    share = done / warm if done < warm else (warm / done) ** 0.5
    return float(TRAINING["learning_rate"] * share)


def epoch(lengths: np.ndarray[Any, Any], rng: np.random.Generator) -> list[list[int]]:
    """Returns a pass: rows sorted by length, ties random; shuffled token batches."""
    order = np.lexsort((rng.random(len(lengths)), lengths))
    bins: list[list[int]] = [[]]
    filled = 0
    for index in order:
        if (
            bins[-1]
            and filled + lengths[index] > TRAINING["per_device_train_batch_tokens"]
        ):
            bins.append([])
            filled = 0
        bins[-1].append(int(index))
        filled += int(lengths[index])
    return [bins[i] for i in rng.permutation(len(bins))]


def run(data: Data, arm: str, seed: int, updates: int, every: int) -> dict[str, Any]:
    """Trains once; returns the curve of validation losses, test BLEU and chrF."""
    import evolving_attention as ea
    from evolving_attention.metrics.translation import translation_scores

    if arm == "torch":
        model, clock = train_torch(data, seed, updates, every)
    else:
        model, clock = train_ours(data, arm, seed, updates, every)
    model.eval()
    found = ea.Translator(model, data.tokenizer).translate(data.test.source, beam=BEAM)
    scores = translation_scores(found, data.test.target)
    return {
        "curve": clock.curve,
        "test": {name: list(value) for name, value in scores.items()},
        "commit": rules.commit()[0],
    }


def at_seconds(curve: Curve, seconds: float) -> float:
    """Returns the loss at this time, interpolated linearly between scores."""
    times = [point["seconds"] for point in curve]
    return float(np.interp(seconds, times, [point["loss"] for point in curve]))


def table(runs: list[dict[str, Any]]) -> str:
    """Returns Markdown: arms' losses and BLEU, and paired differences from vanilla."""
    by_arm: dict[str, dict[int, dict[str, Any]]] = {}
    for one in runs:
        by_arm.setdefault(one["arm"], {})[one["seed"]] = one
    # Equal seconds: vanilla's duration, or less if an arm finished earlier.
    last = min(one["curve"][-1]["seconds"] for one in runs)
    values: dict[str, seeds.Value] = {
        "loss at equal updates": (3, lambda one: float(one["curve"][-1]["loss"])),
        f"loss after {last:.0f} s": (3, lambda one: at_seconds(one["curve"], last)),
        "BLEU, test_2016": (1, lambda one: float(one["test"]["bleu"][0])),
    }
    pairs = [(arm, "vanilla") for arm in by_arm if arm != "vanilla"]
    return "\n".join(seeds.rows("attention", by_arm, values, pairs))


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "threads")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of Multi30k")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=5, help="of each arm")
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--every", type=int, default=200, help="updates between scores")
    parser.add_argument("--result", type=Path, help="the JSON file")
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    settings = {
        **TRAINING,
        "dropout": DROPOUT,
        "vocabulary": VOCABULARY,
        "updates": options.updates,
        "every": options.every,
        "threads": options.threads,
        "beam": BEAM,
    }
    data = Data(options.data)
    runs = seeds.series(
        options.result or harness.RESULTS / f"{MARKER}.json",
        {"name": MARKER, "settings": settings, "runs": []},
        [
            {"arm": arm, "seed": seed}
            for seed in range(1, options.seeds + 1)
            for arm in options.arms
        ],
        lambda names: run(data, **names, updates=options.updates, every=options.every),
        lambda: harness.machine(options.threads),
    )
    found = table(runs)
    print(found)
    if options.result is None:
        seeds.write_table(PAGE, MARKER, found)


if __name__ == "__main__":
    main()

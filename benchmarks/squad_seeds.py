"""SQuAD over seeds: MiniLM on 12 of 16 articles, tested on the other 4, paired.

The file is the half of SQuAD 2.0's dev set that CS224n gives its students: 16 articles,
of which only the answerable questions are used. In a first try with the unanswerable
ones, both arms learnt in 600 updates to answer none: all questions of the evaluation
tied, and the settings were changed. Every fourth article is for the evaluation, the
others for training. α and β were not tuned; with these settings the evaluation is read
once, after training. Each question has an exact match and an F1. The difference of the
arms is taken per question, after the mean over seeds, and its interval is drawn over
questions (10,000 resamples).

Writes each run to a JSON file and the table to docs/question_answering.md, between its
markers. Runs that are already in the JSON are not repeated.

    python -m benchmarks.squad_seeds [--seeds 3] [--dtype bfloat16] [--threads 1]
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness, rules, seeds
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT

DATA = Path(os.environ.get("EVOLVING_ATTENTION_DATA", "../shared/data"))
FILE = DATA / "squad" / "cs224n-dev-v2.0.json"
PAGE = seeds.DOCS / "question_answering.md"
MARKER = "squad-seeds"
TRAINING: dict[str, Any] = {
    "learning_rate": 2e-4,
    "per_device_train_batch_size": 8,
    "num_train_epochs": 2,
}
MAX_LENGTH, STRIDE = 384, 128
ALPHA, BETA = 0.1, 0.1
ARMS = ("vanilla", "evolving")
SCORES = ("exact match", "F1")
RESAMPLES = 10_000
Array = np.ndarray[Any, Any]


def parts(file: Path, folder: Path) -> tuple[Any, Any]:
    """Returns answerable questions of 3 in 4 articles, and of every fourth article."""
    from evolving_attention import squad

    whole = json.loads(file.read_text(encoding="utf-8"))
    articles = [answerable(article) for article in whole["data"]]
    found = []
    for name, kept in (
        ("train", [a for i, a in enumerate(articles) if i % 4 != 3]),
        ("dev", articles[3::4]),
    ):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({**whole, "data": kept}), encoding="utf-8")
        found.append(squad.load(path))
    return found[0], found[1]


def answerable(article: dict[str, Any]) -> dict[str, Any]:
    """Returns the article with only its answerable questions."""
    kept = []
    for one in article["paragraphs"]:
        some = [question for question in one["qas"] if question["answers"]]
        if some:
            kept.append({**one, "qas": some})
    return {**article, "paragraphs": kept}


def run(file: Path, arm: str, seed: int, dtype: str) -> dict[str, Any]:
    """Trains once; returns scores per question times 100, and windows per second."""
    import evolving_attention as ea
    from evolving_attention import squad

    tokenizer = ea.AutoTokenizer.from_pretrained(CHECKPOINT)
    attention = {
        "vanilla": ea.attention.Vanilla(),
        "evolving": ea.attention.Evolving(ALPHA, BETA),
    }[arm]
    with tempfile.TemporaryDirectory(prefix="ea-squad-seeds-") as folder:
        windows = [
            squad.WindowDataset.from_questions(
                part, tokenizer, max_length=MAX_LENGTH, stride=STRIDE
            )
            for part in parts(file, Path(folder))
        ]
        ea.manual_seed(seed)
        model = ea.AutoModelForQuestionAnswering.from_pretrained(
            CHECKPOINT, attention=attention
        )
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
            train_dataset=windows[0],
        )
        begin = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - begin
        logits = trainer.predict(windows[1]).predictions
    answers = squad.best_answers(windows[1], logits)
    rows = len(windows[0]) * TRAINING["num_train_epochs"]
    return {
        "scores": by_question(answers.texts, windows[1].questions),
        "windows_per_s": rows / seconds,
        "commit": rules.commit()[0],
    }


def by_question(texts: dict[str, str], questions: Any) -> dict[str, list[float]]:
    """Returns per question the best exact match and F1 times 100 over its answers."""
    from evolving_attention import squad

    found: dict[str, list[float]] = {name: [] for name in SCORES}
    for one in questions:
        right = [answer.text for answer in one.answers] or [""]
        for name, score in zip(
            SCORES, (squad.exact_match, squad.answer_f1), strict=True
        ):
            best = max(score(texts[one.id], text) for text in right)
            found[name].append(round(100 * best, 3))
    return found


def over_questions(gains: Array) -> str:
    """Returns the mean difference, and its 95 % interval by resampling questions."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(gains), size=(RESAMPLES, len(gains)))
    low, high = np.percentile(gains[drawn].mean(1), [2.5, 97.5])
    return f"{gains.mean():+.1f} ({low:+.1f} to {high:+.1f})"


def table(runs: list[dict[str, Any]]) -> str:
    """Returns Markdown: mean and spread over seeds, the difference over questions."""
    lines = ["| score × 100 | attention | mean ± sd | by seed |", "|---|---|---|---|"]
    for score in SCORES:
        by_arm = {
            arm: {
                r["seed"]: np.array(r["scores"][score]) for r in runs if r["arm"] == arm
            }
            for arm in ARMS
        }
        for arm, values in by_arm.items():
            means = [float(values[seed].mean()) for seed in sorted(values)]
            shown = seeds.mean_and_sd(means, 1)
            every = " ".join(f"{one:.1f}" for one in means)
            lines.append(f"| {score} | {arm} | {shown} | {every} |")
        both = sorted(set(by_arm["vanilla"]) & set(by_arm["evolving"]))
        if both:
            gains = np.stack(
                [by_arm["evolving"][s] - by_arm["vanilla"][s] for s in both]
            )
            every = " ".join(f"{one:+.1f}" for one in gains.mean(1))
            told = over_questions(gains.mean(0))
            lines.append(f"| | evolving − vanilla | {told} | {every} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "dtype", "threads")
    parser.add_argument("--data", type=Path, default=FILE, help="the file of SQuAD 2.0")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=3, help="0: the table alone")
    parser.add_argument("--result", type=Path, help="the JSON file")
    options = parser.parse_args(arguments)
    result = options.result or harness.RESULTS / "squad-seeds.json"
    harness.set_threads(options.threads)
    settings = {
        **TRAINING,
        "max_seq_length": MAX_LENGTH,
        "doc_stride": STRIDE,
        "alpha": ALPHA,
        "beta": BETA,
        "dtype": options.dtype,
    }
    runs = seeds.series(
        result,
        {"name": "squad-seeds", "settings": settings, "runs": []},
        [
            {"arm": arm, "seed": seed}
            for seed in range(1, options.seeds + 1)
            for arm in options.arms
        ],
        lambda names: run(options.data, **names, dtype=options.dtype),
        lambda: harness.machine(options.threads),
    )
    found = table(runs)
    print(found)
    if options.result is None:
        seeds.write_table(PAGE, MARKER, found)


if __name__ == "__main__":
    main()

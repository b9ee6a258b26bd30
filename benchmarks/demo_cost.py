"""Seconds and peak memory of ``evolving-attention demo``, from start to end.

Each round is a separate process that writes into an empty folder; its time includes
process start, data generation, both fine-tunings and the picture.

    python -m benchmarks.demo_cost [--rounds 5] [--train_size 200]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.worker import environment

SCRIPT = """
import runpy, sys
try:
    runpy.run_module("evolving_attention", run_name="__main__", alter_sys=True)
finally:
    status = open("/proc/self/status").read()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    sys.stderr.write(f"\\n{peak}\\n")
"""


def once(words: list[str], threads: int, peaks: list[int]) -> float:
    """Returns the seconds of one demo run; appends its peak memory to ``peaks``."""
    with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, "demo", *words, "--output_dir", folder],
            env=environment(threads),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - begin
    *told, peak = done.stderr.strip().splitlines() or ["it failed"]
    if done.returncode:
        raise SystemExit(f"evolving-attention demo: {' '.join(told[-3:])}")
    peaks.append(int(peak))
    return seconds


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "threads", "rounds", "dry")
    parser.add_argument("--train_size", type=int, help="of the demo; its own default")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads)
    print(harness.machine_line(machine))
    words = ["--num_threads", str(options.threads)]
    if options.train_size is not None:
        words += ["--train_size", str(options.train_size)]
    peaks: list[int] = []
    runs = {"demo": lambda: once(words, options.threads, peaks)}
    times = harness.interleave(runs, options.rounds, warmup=0)
    one = harness.summarize(times["demo"])
    peak = max(peaks)
    print(f"demo {harness.shown(one, 0)}  {peak / 2**20:.0f} MiB")
    if not options.dry:
        results = {"demo": one | {"peak_bytes": peak}}
        settings = spelled.settings(options)
        print(harness.write("demo", machine, results, settings=settings))


if __name__ == "__main__":
    main()

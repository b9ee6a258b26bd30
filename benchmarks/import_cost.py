"""The cost of an import: seconds and resident memory in fresh interpreters.

python -m benchmarks.import_cost [--rounds 7]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.worker import environment

STATEMENTS = {
    "nothing": "pass",
    "ours": "import evolving_attention",
    "ours, BERT class": (
        "import evolving_attention as ea; ea.BertForSequenceClassification"
    ),
    "torch": "import torch",
    "transformers, BERT class": (
        "import torch; from transformers import BertForSequenceClassification"
    ),
}
SCRIPT = """
import json, time
begin = time.perf_counter()
{statement}
seconds = time.perf_counter() - begin
status = open("/proc/self/status").read()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps([seconds, peak]))
"""


def once(statement: str, peaks: list[int]) -> float:
    """Returns a statement's seconds in a new interpreter; notes its peak memory."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(statement=statement)],
        env=environment(2),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    seconds, peak = json.loads(done.stdout)
    peaks.append(peak)
    return float(seconds)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    options = spelled.parser(__doc__, "dry", rounds=7).parse_args(arguments)
    runs: dict[str, Callable[[], float]] = {}
    peaks: dict[str, list[int]] = {}
    results: dict[str, dict[str, Any]] = {}
    for name, statement in STATEMENTS.items():
        try:
            once(statement, [])
        except RuntimeError as error:
            print(f"{name:26s} not measured: {error}")
            results[name] = {"skipped": str(error)}
            continue
        own = peaks[name] = []
        runs[name] = lambda statement=statement, own=own: once(statement, own)
    for name, seconds in harness.interleave(runs, options.rounds, warmup=0).items():
        results[name] = harness.summarize(seconds) | {"peak_bytes": max(peaks[name])}
        one = results[name]
        print(f"{name:26s} {harness.shown(one)}  {one['peak_bytes'] / 2**20:7.1f} MiB")
    if not options.dry:
        machine = harness.machine(2)
        print(
            harness.write(
                "import", machine, results, settings=spelled.settings(options)
            )
        )


if __name__ == "__main__":
    main()

"""One contender in its own process, driven by pipes with one line of JSON a message.

with Worker("openvino", request) as worker:
    worker.load("name", batches)
    logits = worker.outputs("name")
    seconds = worker.run("name")
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

# (ids [B, T], lengths [B]) of one batch
Batch = tuple[np.ndarray, np.ndarray]
REPOSITORY = Path(__file__).resolve().parent.parent
QUIET_S = 0.3  # threads of other runtimes spin for a while after their work


def environment(threads: int, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns a child's variables: equal thread counts for all runtimes, and paths."""
    paths = [str(REPOSITORY), *filter(None, sys.path)]
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(paths),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        **(more or {}),
    }


class Worker:
    """The parent's end of a contender."""

    def __init__(
        self,
        side: str,
        request: dict[str, Any],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.side = side
        self.folder = tempfile.TemporaryDirectory(prefix="ea-bench-")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if request.get("quiet", True) else None,
            text=True,
            env=environment(request["threads"], variables),
        )
        self.built = self.ask(side=side, **request)

    def ask(self, **message: Any) -> Any:
        """Sends a message and returns the answer; RuntimeError if the child failed."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer = json.loads(line) if line else {"error": "its process ended"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def load(self, name: str, batches: Sequence[Batch]) -> None:
        """Passes the batches of one measurement under a name."""
        path = str(Path(self.folder.name) / "batches.npz")
        arrays = {}
        for i, (ids, lengths) in enumerate(batches):
            arrays |= {f"{i}.ids": ids, f"{i}.lengths": lengths}
        np.savez(path, **arrays)  # type: ignore[arg-type]
        self.ask(load=name, path=path, count=len(batches))

    def outputs(self, name: str) -> np.ndarray:
        """Returns the logits of all batches, one row per sequence."""
        return np.array(self.ask(outputs=name), np.float32)

    def run(self, name: str) -> float:
        """Returns the seconds of all batches, measured after QUIET_S of idling."""
        time.sleep(QUIET_S)
        return float(self.ask(run=name))

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()


class Child:
    """The side inside the process; it answers messages."""

    def __init__(self) -> None:
        self.engine: Any = None
        self.batches: dict[str, list[Any]] = {}

    def answer(self, message: dict[str, Any]) -> Any:
        """Returns the answer to a message."""
        if "side" in message:
            room = message.get("module", "engines")
            engines = importlib.import_module(f"benchmarks.peers.{room}")
            begin = time.perf_counter()
            self.engine = engines.ENGINES[message["side"]](message)
            return {"build_s": time.perf_counter() - begin}
        if "load" in message:
            with np.load(message["path"]) as found:
                self.batches[message["load"]] = [
                    self.engine.prepare(found[f"{i}.ids"], found[f"{i}.lengths"])
                    for i in range(message["count"])
                ]
            return None
        if "outputs" in message:
            parts = [self.engine.run(b) for b in self.batches[message["outputs"]]]
            return np.concatenate(parts).astype(float).tolist()
        if "memory" in message:
            from benchmarks.step_memory import resident

            return resident("VmHWM")
        begin = time.perf_counter()
        for batch in self.batches[message["run"]]:
            self.engine.run(batch)
        return time.perf_counter() - begin


def main() -> None:
    """Answers lines of stdin on the real stdout; sends library output to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if os.environ.get("EA_BENCH_EXPORT"):
        from benchmarks.peers import engines

        engines.export(json.loads(os.environ["EA_BENCH_EXPORT"]))
        return
    child = Child()
    for line in sys.stdin:
        try:
            answer = {"value": child.answer(json.loads(line))}
        except Exception as error:
            kind = type(error).__name__
            text = str(error) if kind == "Unavailable" else f"{kind}: {error}"
            answer = {"error": text[:400]}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()

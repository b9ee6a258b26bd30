"""Storms of signals over products, training steps and inference, in this process.

The handler has no alternate stack: a signal that finds the stack pointer elsewhere
overwrites what lies there. A process that survives prints how many signals each case
took on the thread's own stack and elsewhere.

    python tests/signal_storm.py LIBRARY [--seconds S] [--every US] [--torch] [--wide]

LIBRARY is support/signal_storm.c, compiled: cc -shared -fPIC -o LIBRARY. --wide runs
widths 64 to 1024 in place of 128 and 384.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

WIDE = (64, 128, 256, 384, 512, 1024)
SHORT = (128, 384)
Work = Callable[[], object]


def products(width: int, dtype: str) -> Iterator[tuple[str, Work]]:
    """Square products and thin ones, each operand as it lies and transposed."""
    import evolving_attention as ea
    from evolving_attention import _core

    rng = np.random.default_rng(width)

    def drawn(*shape: int) -> ea.Tensor:
        return ea.Tensor(rng.standard_normal(shape).astype("f4"), dtype=dtype)

    for rows in (8, width):
        for a_turned in (False, True):
            for b_turned in (False, True):
                a = drawn(*((width, rows) if a_turned else (rows, width)))
                b = drawn(width, width)
                yield (
                    f"product {rows} {'T' if a_turned else 'N'}"
                    f"{'T' if b_turned else 'N'}",
                    lambda a=a, b=b, s=a_turned, t=b_turned: _core.ops.matmul(
                        a, b, transpose_a=s, transpose_b=t
                    ),
                )


def steps(width: int, dtype: str) -> Iterator[tuple[str, Work]]:
    """A training step and inference of a BERT of two layers, evolving and vanilla."""
    import evolving_attention as ea

    for attention in (None, ea.attention.Evolving(0.3, 0.4)):
        config = ea.BertConfig(
            vocab_size=50,
            hidden_size=width,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=4 * width,
            max_position_embeddings=64,
            attention=attention,
        )
        model = ea.BertForSequenceClassification(config, dtype)
        ids = np.random.default_rng(1).integers(5, 50, (4, 48))
        labels = np.zeros(4, np.int64)
        optimizer = ea.optim.AdamW(model.parameters(), lr=1e-4)

        def train(model=model, optimizer=optimizer, ids=ids, labels=labels) -> None:
            model.train()
            model(input_ids=ids, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        def infer(model=model, ids=ids) -> None:
            model.eval()
            with ea.no_grad():
                model(input_ids=ids)

        name = "evolving" if attention else "vanilla"
        yield f"training {name}", train
        yield f"inference {name}", infer


def storm(library: ctypes.CDLL, work: Work, seconds: float, every: int) -> list[int]:
    """Signals that found this thread's stack pointer on its stack, and elsewhere."""
    work()
    on, off = ctypes.c_long(), ctypes.c_long()
    if library.storm_begin(int(signal.SIGALRM), every, 0) != 0:
        raise OSError("no timer for this thread")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        work()
    library.storm_end(ctypes.byref(on), ctypes.byref(off))
    return [on.value, off.value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--every", type=int, default=200, help="microseconds")
    parser.add_argument("--torch", action="store_true", help="load PyTorch first")
    parser.add_argument("--wide", action="store_true")
    given = parser.parse_args()
    if given.torch:
        import torch  # noqa: F401 (its libraries and threads are what matters)
    library = ctypes.CDLL(given.library)
    found: dict[str, list[int]] = {}

    def run(thread: str) -> None:
        for width in WIDE if given.wide else SHORT:
            for dtype in ("float32", "bfloat16"):
                for cases in (products, steps):
                    for name, work in cases(width, dtype):
                        counts = storm(library, work, given.seconds, given.every)
                        found[f"{thread} {width} {dtype} {name}"] = counts

    run("main")
    worker = threading.Thread(target=run, args=("other",))
    worker.start()
    worker.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main()

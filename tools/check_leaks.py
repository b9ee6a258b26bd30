"""Uses most of the core once and runs LeakSanitizer to find leaked memory.

    python tools/check_leaks.py

tools/run_sanitizers.sh runs it on the extension with ASan. The check runs while Python
is alive, so everything Python holds is still reachable. Of the leaked blocks only those
that our code allocated count, since other libraries leak too. At the end the tensor of
a DLPack capsule is leaked on purpose: if it is not found, the check does not work.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import evolving_attention as ea

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "max_position_embeddings": 40,
}
KINDS = [
    ea.attention.Vanilla(),
    ea.attention.Evolving(0.1, 0.2, kernel_size=3),
    ea.attention.Residual(running_mean=True),
    ea.attention.Predictive(alpha=0.1, num_layers=1),
]
IDS = np.arange(1, 25).reshape(4, 6)
MASK = np.array([[1] * 6, [1] * 4 + [0] * 2, [1] * 5 + [0], [1] + [0] * 5])


def train() -> None:
    """Runs training steps of every kind, with maps, recomputation and a folder."""
    for kind in KINDS:
        config = ea.BertConfig(**SIZES, num_labels=2, attention=kind)
        model = ea.BertForSequenceClassification(config).train()
        optimizer = ea.optim.AdamW(model.parameters(), lr=1e-3)
        for recomputed in (False, True):
            if recomputed:
                model.gradient_checkpointing_enable()
            out = model(
                IDS, attention_mask=MASK, labels=[0, 1, 0, 1], output_attentions=True
            )
            out.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            ea.BertForSequenceClassification.from_pretrained(folder)


def generate() -> None:
    """Runs beam search with caches."""
    model = ea.create_model("ea_transformer_lite", task="seq2seq_lm", vocab_size=40)
    model.generate([[5, 9, 2], [7, 2, 1]], max_new_tokens=4, num_beams=3)


def share() -> None:
    """Shares arrays between NumPy and tensors, both ways."""
    array = np.ones((4, 5), np.float32)
    x = ea.from_numpy(array)
    y = np.asarray(ea.Tensor(array)) + np.from_dlpack(ea.Tensor(array))
    assert (x[1:, ::2].sum() + float(y.sum())).item() > 0


def fail() -> None:
    """Raises errors in the middle of a call; builds a graph that nobody uses."""
    x = ea.Tensor(np.ones((3, 4), np.float32), requires_grad=True)
    for call in (
        lambda: x @ x,
        lambda: x.reshape((5, 5)),
        lambda: x.sum(axis=7),
        lambda: ea.Tensor("text"),
    ):
        try:
            call()
        except ea.Error:
            continue
        raise AssertionError("expected an error")
    _ = (x * x).sum()


def lose() -> None:
    """Leaks a capsule: nothing refers to it and it is never freed."""
    capsule = ea.Tensor([1.0]).__dlpack__()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(capsule))


def lost_blocks() -> list[str]:
    """Returns the leaks of our code that LeakSanitizer reports."""
    gc.collect()
    check = ctypes.CDLL(None).__lsan_do_recoverable_leak_check
    with tempfile.TemporaryFile() as file:
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        check()
        os.dup2(stderr, 2)
        os.close(stderr)
        file.seek(0)
        report = file.read().decode("utf-8", "replace")
    blocks = report.split("\n\n")
    return [one for one in blocks if "leak of" in one and "ea::" in one]


def main() -> int:
    """Returns 0 if nothing but the last capsule leaked."""
    for use in (train, generate, share, fail):
        for _ in range(2):
            use()
    found = lost_blocks()
    if found:
        print(*found, sep="\n\n")
        print(f"{Path(__file__).name}: {len(found)} places of our code lose memory")
        return 1
    lose()
    if not lost_blocks():
        print(f"{Path(__file__).name}: what was lost on purpose was not found")
        return 1
    print(f"{Path(__file__).name}: nothing is lost")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # LeakSanitizer would report all of Python's memory at exit

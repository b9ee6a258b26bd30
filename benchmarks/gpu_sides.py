"""The contenders on a GPU: step, synchronisation, peak memory and loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.models import Shape

MAX_NORM = 1.0


class Ours:
    """This package on the GPU, as its Trainer trains: steps do not synchronise."""

    def __init__(self, model: Any, ids: np.ndarray, labels: np.ndarray) -> None:
        import evolving_attention as ea
        from evolving_attention import _core

        self.core, self.model = _core, model.train()
        self.inputs = {"input_ids": ids, "labels": labels}
        self.optimizer = ea.optim.AdamW(model.parameters(), lr=2e-5)
        self.log = _core.StepLog()

    def step(self) -> None:
        """Runs forward, backward, clipping and AdamW."""
        loss = self.model(**self.inputs).loss
        self.log.add_loss(loss, 1.0)
        loss.backward()
        scale = self.log.finish(list(self.model.parameters()), MAX_NORM)
        self.optimizer.step(scale=scale)
        self.optimizer.zero_grad()

    def wait(self) -> None:
        """Synchronises with the device and checks that all steps were applied."""
        if not all(applied for *_, applied in self.log.look()):
            raise SystemExit("a loss or gradient of ours was not finite")
        self.core.synchronize("cuda")

    def reset_peak(self) -> None:
        """Resets the peak memory."""
        self.core.reset_peak_memory("cuda")

    def peak(self) -> int:
        """Returns the peak of bytes held by tensors since reset_peak()."""
        return int(self.core.peak_memory("cuda"))


class Torch:
    """PyTorch on the GPU, by torch.compile if ``compiled``."""

    def __init__(
        self, peer: Any, ids: np.ndarray, labels: np.ndarray, bf16: bool, compiled: bool
    ) -> None:
        import torch

        from benchmarks.training import torch_step

        self.torch = torch
        model = torch.compile(peer) if compiled else peer
        self.step = torch_step(model, ids, labels, bf16, "cuda")

    def wait(self) -> None:
        """Synchronises with the device."""
        self.torch.cuda.synchronize()

    def reset_peak(self) -> None:
        """Resets the peak memory."""
        self.torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        """Returns the peak of bytes that its allocator gave out since reset_peak()."""
        return int(self.torch.cuda.max_memory_allocated())


def timed(side: Ours | Torch, steps: int) -> Callable[[], float]:
    """Returns a timer: mean seconds of ``steps`` steps between synchronisations."""

    def run() -> float:
        side.wait()
        begin = time.perf_counter()
        for _ in range(steps):
            side.step()
        side.wait()
        return (time.perf_counter() - begin) / steps

    return run


def loss_of(model: Any, ids: np.ndarray, labels: np.ndarray) -> float:
    """Returns our loss without dropout."""
    import evolving_attention as ea

    model.eval()
    with ea.no_grad():
        loss = model(input_ids=ids, labels=labels).loss
    return float(np.asarray(loss.to("cpu"), np.float32))


def torch_loss_of(peer: Any, ids: np.ndarray, labels: np.ndarray, bf16: bool) -> float:
    """Returns PyTorch's loss without dropout."""
    import torch

    x, y = (torch.from_numpy(a).to("cuda") for a in (ids, labels))
    peer.eval()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=bf16):
        return peer(x, y).float().item()


def torch_peer(state: dict[str, np.ndarray], shape: Shape) -> Any:
    """Returns PyTorch's model with these weights on the GPU; None without one."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    from benchmarks.peers.torch_bert import BertClassifier

    peer = BertClassifier(shape)
    tensors = {name: torch.from_numpy(value) for name, value in state.items()}
    peer.load_state_dict(tensors, strict=True)
    return peer.to("cuda")

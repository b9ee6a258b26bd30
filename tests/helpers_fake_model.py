"""A tiny model, optimizer and core in NumPy with the interface the Trainer relies on.

The model averages word vectors, drops some features out and classifies: enough for
every part of the training loop to matter (dropout, biases, accumulation, resume), and
free of the compiled core, for which ``FAKE`` stands in.
"""

from __future__ import annotations

import hashlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from evolving_attention import durable


class FakeCore(types.ModuleType):
    """Randomness, threads, gradient switch, memory and clipping of ``_core``."""

    def __init__(self) -> None:
        super().__init__("evolving_attention._core")
        self.state, self.threads, self.grad_enabled = (0, 0), 1, True

    def manual_seed(self, seed: int) -> None:
        self.state = (seed, 0)

    def get_rng_state(self) -> tuple[int, int]:
        return self.state

    def set_rng_state(self, state: tuple[int, int]) -> None:
        self.state = (int(state[0]), int(state[1]))

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers of [0, 1) that depend on (seed, offset) alone; moves the offset."""
        seed, offset = self.state
        self.state = (seed, offset + int(np.prod(shape)))
        return np.random.default_rng([seed, offset]).random(shape, dtype=np.float32)

    def set_num_threads(self, count: int) -> None:
        self.threads = count

    def get_num_threads(self) -> int:
        return self.threads

    def set_grad_enabled(self, enabled: bool) -> bool:
        before, self.grad_enabled = self.grad_enabled, enabled
        return before

    def resolve_device(self, name: str) -> str:
        assert name in ("auto", "cpu")
        return "cpu"

    def devices(self) -> list[tuple[str, str]]:
        return [("cpu", "a fake")]

    def unusable_devices(self) -> dict[str, str]:
        return {"cuda": "a fake has none"}

    def current_memory(self, device: str) -> int:
        return 1000

    def peak_memory(self, device: str) -> int:
        return 2000

    def reset_peak_memory(self, device: str = "cpu") -> None:
        pass

    def global_grad_norm(self, params: list[Any]) -> float:
        return self.clip_grad_norm(params, float("inf"))

    def clip_grad_norm(self, params: list[Any], max_norm: float) -> float:
        grads = [p.grad.array for p in params if p.grad is not None]
        total = float(
            np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads))
        )
        if np.isfinite(total) and total > max_norm:
            for grad in grads:
                grad *= np.float32(max_norm / (total + 1e-6))
        return total


FAKE = FakeCore()


def install_fake_core(monkeypatch: Any = None) -> FakeCore:
    """Make ``from evolving_attention import _core`` give the fake one.

    With pytest's ``monkeypatch`` for one test, without it for good (child processes).
    """
    import evolving_attention

    FAKE.AdamW, FAKE.Tensor = FakeCoreAdamW, FakeTensor
    if monkeypatch is None:
        sys.modules["evolving_attention._core"] = FAKE
        evolving_attention._core = FAKE
    else:
        monkeypatch.setitem(sys.modules, "evolving_attention._core", FAKE)
        monkeypatch.setattr(evolving_attention, "_core", FAKE, raising=False)
    return FAKE


class FakeTensor:
    """An array with a gradient; ``backward`` runs a stored function."""

    is_leaf = requires_grad = True

    def __init__(self, array: Any, backward: Any = None) -> None:
        self.array = np.array(array, dtype=np.float32)
        self.grad: FakeTensor | None = None
        self._backward = backward

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array if dtype is None else self.array.astype(dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def item(self) -> float:
        return float(self.array)

    def __mul__(self, factor: float) -> FakeTensor:
        return FakeTensor(
            self.array * np.float32(factor),
            lambda scale: self._backward(scale * np.float32(factor)),
        )

    def backward(self) -> None:
        self._backward(np.float32(1))

    def copy_(self, values: Any) -> None:
        self.array[...] = np.asarray(values)

    def add_grad(self, values: np.ndarray) -> None:
        if self.grad is None:
            self.grad = FakeTensor(np.zeros_like(self.array))
        self.grad.array += values


class FakeModel:
    """logits = dropout(mean of word vectors) · W + b; cross entropy, or squared error.

    Attributes:
        calls: number of forward passes, for tests.
        memory_limit: rows a batch may have before OutOfMemory, for tests.
    """

    dtype = "float32"

    def __init__(
        self,
        vocab: int = 30,
        width: int = 6,
        num_labels: int = 2,
        dropout: float = 0.2,
        seed: int = 0,
    ) -> None:
        random = np.random.default_rng(seed)
        shapes = {
            "embeddings.word_embeddings.weight": (vocab, width),
            "classifier.weight": (width, num_labels),
            "classifier.bias": (num_labels,),
        }
        self.params = {
            name: FakeTensor(0.3 * random.standard_normal(shape))
            for name, shape in shapes.items()
        }
        self.num_labels, self.dropout = num_labels, dropout
        self.training, self.calls, self.memory_limit = True, 0, 10**9
        self.smoothing_seen = 0.0

    def named_parameters(self) -> list[tuple[str, FakeTensor]]:
        return list(self.params.items())

    def parameters(self) -> list[FakeTensor]:
        return list(self.params.values())

    def train(self, mode: bool = True) -> FakeModel:
        self.training = mode
        return self

    def eval(self) -> FakeModel:
        return self.train(False)

    def state_dict(self) -> dict[str, FakeTensor]:
        return dict(self.params)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert set(state) == set(self.params)
        for name, value in state.items():
            self.params[name].array[...] = np.asarray(value)

    def save_pretrained(self, folder: str | Path) -> None:
        arrays = {name: p.array for name, p in self.params.items()}
        durable.write_bytes(Path(folder) / "model.safetensors", save(arrays))
        durable.write_bytes(
            Path(folder) / "config.json", json.dumps({"fake": True}).encode()
        )

    def __call__(
        self,
        input_ids: Any,
        sequence_offsets: Any,
        labels: Any = None,
        token_type_ids: Any = None,
        label_smoothing: float = 0.0,
        output_hidden_states: Any = None,
    ) -> types.SimpleNamespace:
        from evolving_attention.errors import OutOfMemory

        self.calls += 1
        self.smoothing_seen = label_smoothing
        starts, rows = np.asarray(sequence_offsets), len(sequence_offsets) - 1
        if self.training and rows > self.memory_limit:
            raise OutOfMemory(f"need memory for {rows} rows, have {self.memory_limit}")
        words, weight, bias = self.params.values()
        spread = np.zeros((rows, words.array.shape[0]), dtype=np.float32)
        for row in range(rows):
            ids = np.asarray(input_ids)[starts[row] : starts[row + 1]]
            np.add.at(spread[row], ids, np.float32(1 / len(ids)))
        hidden = spread @ words.array
        mask = np.ones_like(hidden)
        if self.training and self.dropout:
            kept = FAKE.uniform(hidden.shape) >= self.dropout
            mask = kept.astype(np.float32) / np.float32(1 - self.dropout)
        dropped = hidden * mask
        logits = dropped @ weight.array + bias.array
        loss = None
        if labels is not None:
            loss, slope = self._loss(logits, np.asarray(labels), label_smoothing)

            def backward(scale: float) -> None:
                change = slope * scale
                weight.add_grad(dropped.T @ change)
                bias.add_grad(change.sum(0))
                words.add_grad(spread.T @ ((change @ weight.array.T) * mask))

            loss = FakeTensor(loss, backward)
        states = {0: FakeTensor(hidden)} if output_hidden_states else None
        return types.SimpleNamespace(
            loss=loss, logits=FakeTensor(logits), hidden_states=states
        )

    def _loss(
        self, logits: np.ndarray, labels: np.ndarray, smoothing: float
    ) -> tuple[np.float32, np.ndarray]:
        """(mean loss, its slope by the logits)."""
        rows = len(logits)
        if self.num_labels == 1:
            error = logits[:, 0] - labels.astype(np.float32)
            return np.float32((error**2).mean()), (2 * error / rows)[:, None]
        top = logits.max(1, keepdims=True)
        exp = np.exp(logits - top)
        log_p = logits - top - np.log(exp.sum(1, keepdims=True))
        target = np.full_like(logits, smoothing / self.num_labels)
        target[np.arange(rows), labels] += 1 - smoothing
        loss = -(target * log_p).sum(1).mean()
        return np.float32(loss), (np.exp(log_p) - target).astype(np.float32) / rows


class FakeCoreAdamW:
    """AdamW in NumPy behind the interface of ``_core.AdamW``."""

    def __init__(
        self,
        params: list[FakeTensor],
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        groups: list[int],
    ) -> None:
        self.params, self.betas, self.eps, self.groups = params, betas, eps, groups
        self.settings = {group: (lr, weight_decay) for group in groups}
        self.count = 0
        self.m = [FakeTensor(np.zeros_like(p.array)) for p in params]
        self.v = [FakeTensor(np.zeros_like(p.array)) for p in params]

    def set_group(self, group: int, lr: float, weight_decay: float) -> None:
        self.settings[group] = (lr, weight_decay)

    def step(self, grad_scale: float = 1.0, scale: Any = None) -> None:
        assert scale is None, "on a CPU the host knows the factor"
        self.count += 1
        one, two = self.betas
        for i, p in enumerate(self.params):
            if p.grad is None:
                continue
            lr, decay = self.settings[self.groups[i]]
            g = p.grad.array * np.float32(grad_scale)
            p.array *= np.float32(1 - lr * decay)
            self.m[i].array += np.float32(1 - one) * (g - self.m[i].array)
            self.v[i].array += np.float32(1 - two) * (g * g - self.v[i].array)
            m = self.m[i].array / np.float32(1 - one**self.count)
            v = self.v[i].array / np.float32(1 - two**self.count)
            p.array -= np.float32(lr) * m / (np.sqrt(v) + np.float32(self.eps))

    def zero_grad(self) -> None:
        for p in self.params:
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"step": self.count}
        for i in range(len(self.params)):
            state[f"exp_avg.{i}"], state[f"exp_avg_sq.{i}"] = self.m[i], self.v[i]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = int(state["step"])
        for i in range(len(self.params)):
            self.m[i].copy_(state[f"exp_avg.{i}"])
            self.v[i].copy_(state[f"exp_avg_sq.{i}"])


def make_rows(
    count: int = 40, vocab: int = 30, seed: int = 1, regression: bool = False
) -> list[dict[str, Any]]:
    """Rows of 2 to 9 ids whose label says whether low ids prevail."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        ids = random.integers(0, vocab, size=random.integers(2, 10))
        share = float((ids < vocab // 2).mean())
        label = share if regression else int(share > 0.5)
        rows.append({"input_ids": ids.tolist(), "label": label})
    return rows


def accuracy(pair: Any) -> dict[str, float]:
    """compute_metrics: share of rows whose largest logit is the label's."""
    return {"accuracy": float((pair.predictions.argmax(1) == pair.label_ids).mean())}


def digest(model: FakeModel) -> str:
    """sha256 of all weights."""
    joined = b"".join(p.array.tobytes() for p in model.parameters())
    return hashlib.sha256(joined).hexdigest()


def make_trainer(folder: Path, model: FakeModel | None = None, **options: Any) -> Any:
    """A Trainer on 40 rows; keywords of Trainer and of TrainingArguments, mixed."""
    from evolving_attention.training import Trainer, TrainingArguments

    names = ("callbacks", "compute_metrics", "data_collator", "processing_class")
    parts = {name: options.pop(name) for name in names if name in options}
    parts.setdefault("train_dataset", options.pop("train_dataset", make_rows(40)))
    parts.setdefault("eval_dataset", options.pop("eval_dataset", make_rows(20, seed=2)))
    options = {
        "learning_rate": 0.05,
        "num_train_epochs": 2,
        "logging_steps": 2,
        "save_strategy": "no",
        "disable_tqdm": True,
        **options,
    }
    args = TrainingArguments(str(folder / "out"), **options)
    return Trainer(model or FakeModel(), args, **parts)

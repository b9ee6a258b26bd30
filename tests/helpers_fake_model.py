"""A model of three tensors on the core, with the interface the Trainer relies on.

The model averages word vectors, applies dropout to the features and classifies: enough
for every part of the training loop to matter (dropout, biases, accumulation, resume),
and far faster than a transformer.
"""

from __future__ import annotations

import hashlib
import json
import types
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from evolving_attention import _core, durable
from evolving_attention import functional as F
from evolving_attention.errors import OutOfMemory


class FakeModel:
    """logits = dropout(mean of word vectors) · W + b; cross entropy, or squared error.

    Attributes:
        calls: number of forward passes, for tests.
        memory_limit: largest number of rows in a batch before OutOfMemory, for tests.
        bad_gradient: value forced into the gradient of W, for tests; None: no change.
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
            name: _core.Tensor(
                0.3 * random.standard_normal(shape), dtype="float32", requires_grad=True
            )
            for name, shape in shapes.items()
        }
        self.num_labels, self.dropout = num_labels, dropout
        self.training, self.calls, self.memory_limit = True, 0, 10**9
        self.smoothing_seen = 0.0
        self.bad_gradient: float | None = None

    def named_parameters(self) -> list[tuple[str, _core.Tensor]]:
        return list(self.params.items())

    def parameters(self) -> list[_core.Tensor]:
        return list(self.params.values())

    def train(self, mode: bool = True) -> FakeModel:
        self.training = mode
        return self

    def eval(self) -> FakeModel:
        return self.train(False)

    def state_dict(self) -> dict[str, _core.Tensor]:
        return dict(self.params)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert set(state) == set(self.params)
        for name, value in state.items():
            self.params[name].copy_(np.asarray(value))

    def save_pretrained(self, folder: str | Path) -> None:
        arrays = {name: np.asarray(p) for name, p in self.params.items()}
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
        self.calls += 1
        self.smoothing_seen = label_smoothing
        starts, rows = np.asarray(sequence_offsets), len(sequence_offsets) - 1
        if self.training and rows > self.memory_limit:
            raise OutOfMemory(f"need memory for {rows} rows, have {self.memory_limit}")
        words, weight, bias = self.params.values()
        spread = np.zeros((rows, words.shape[0]), dtype=np.float32)
        for row in range(rows):
            ids = np.asarray(input_ids)[starts[row] : starts[row + 1]]
            np.add.at(spread[row], ids, np.float32(1 / len(ids)))
        hidden = F.matmul(_core.Tensor(spread), words)
        dropped = F.dropout(hidden, self.dropout) if self.training else hidden
        logits = F.matmul(dropped, weight) + bias
        loss = None
        if labels is not None:
            loss = self._loss(logits, np.asarray(labels), label_smoothing)
            if self.bad_gradient is not None:
                loss = loss + self._nothing(weight, self.bad_gradient)
        states = {0: hidden} if output_hidden_states else None
        return types.SimpleNamespace(loss=loss, logits=logits, hidden_states=states)

    def _loss(
        self, logits: _core.Tensor, labels: np.ndarray, smoothing: float
    ) -> _core.Tensor:
        if self.num_labels == 1:
            values = _core.Tensor(labels.reshape(-1, 1).astype(np.float32))
            return F.mse_loss(logits, values)
        return F.cross_entropy(logits, labels, smoothing)

    def _nothing(self, weight: _core.Tensor, gradient: float) -> _core.Tensor:
        """Returns 0 with an infinite gradient; NaN if ``gradient`` is NaN."""
        zeros = weight - np.asarray(weight)
        signs = (1, -1) if np.isnan(gradient) else (np.sign(gradient),)
        huge = [zeros * 3e38 * (float(sign) * 3e38) for sign in signs]
        return sum((F.sum(part) for part in huge), start=F.sum(zeros))


def make_rows(
    count: int = 40, vocab: int = 30, seed: int = 1, regression: bool = False
) -> list[dict[str, Any]]:
    """Returns rows of 2 to 9 ids; the label says whether low ids are the majority."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        ids = random.integers(0, vocab, size=random.integers(2, 10))
        share = float((ids < vocab // 2).mean())
        label = share if regression else int(share > 0.5)
        rows.append({"input_ids": ids.tolist(), "label": label})
    return rows


def accuracy(pair: Any) -> dict[str, float]:
    """compute_metrics: share of rows whose largest logit is that of the label."""
    return {"accuracy": float((pair.predictions.argmax(1) == pair.label_ids).mean())}


def digest(model: FakeModel) -> str:
    """Returns the SHA-256 of all weights."""
    joined = b"".join(np.asarray(p).tobytes() for p in model.parameters())
    return hashlib.sha256(joined).hexdigest()


def make_trainer(folder: Path, model: FakeModel | None = None, **options: Any) -> Any:
    """Returns a Trainer on 40 rows; takes options of Trainer and TrainingArguments."""
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

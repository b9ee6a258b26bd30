"""The sides of images, in training and inference: ours, PyTorch and OpenVINO.

``prepare(pixels, labels)`` converts a batch to the side's form and is not timed;
``run(batch)`` takes one training step and returns its loss, or returns logits. Each
side runs in its own process (worker.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.engines import Unavailable

MOMENTUM, PENALTY, RATE = 0.9, 1e-4, 1e-3  # for residual networks
ADAM_RATE = 2e-5  # for ViT, whose gradients are clipped to norm 1


class Side:
    """Common parts: the request and the weights."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request, self.sizes = request, request["sizes"]
        self.trains = request["task"] == "training"
        self.transformer = "patch_size" in self.sizes
        self.bf16, self.threads = request["dtype"] == "bfloat16", request["threads"]
        self.build()

    def build(self) -> None:
        """Builds the model."""

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the common weights, float32."""
        with np.load(self.request["weights"]) as found:
            return dict(found)

    def prepare(self, pixels: np.ndarray, labels: np.ndarray) -> Any:
        """Returns the batch in this side's form."""
        return pixels, labels

    def run(self, batch: Any) -> np.ndarray:
        """Returns a loss [1], or logits [B, labels]."""
        raise NotImplementedError


def our_model(name: str, sizes: dict[str, Any], dtype: str) -> Any:
    """Builds our network with random weights."""
    import evolving_attention as ea

    options = {k: v for k, v in sizes.items() if k not in ("alpha", "beta")}
    if not options.pop("augmented", True):
        for key in ("image_size", "num_attention_heads", "min_head_key_width"):
            options.pop(key)
        del options["key_ratio"], options["value_ratio"]
    if "patch_size" in sizes:
        options["hidden_dropout_prob"] = 0.0
    if sizes["alpha"] is not None:
        options["attention"] = ea.attention.Evolving(sizes["alpha"], sizes["beta"])
    ea.manual_seed(0)
    return ea.create_model(name, dtype=dtype, **options)


class Ours(Side):
    """This package."""

    def build(self) -> None:
        import evolving_attention as ea

        ea.set_num_threads(self.threads)
        self.no_grad = ea.no_grad
        name = self.request["model"]
        self.model = our_model(name, self.sizes, self.request["dtype"])
        self.model.load_state_dict(self.weights())
        self.model.train(self.trains)
        if not self.trains:
            return
        parameters = self.model.parameters()
        self.optimizer: Any = (
            ea.optim.AdamW(parameters, lr=ADAM_RATE)
            if self.transformer
            else ea.optim.SGD(
                parameters, lr=RATE, momentum=MOMENTUM, weight_decay=PENALTY
            )
        )

    def prepare(self, pixels: np.ndarray, labels: np.ndarray) -> Any:
        return (pixels, labels) if self.trains else (pixels,)

    def run(self, batch: Any) -> np.ndarray:
        if not self.trains:
            with self.no_grad():
                return np.asarray(self.model(*batch).logits.numpy(), np.float32)
        from evolving_attention import optim

        loss = self.model(*batch).loss
        loss.backward()
        if self.transformer:
            norm = optim.global_grad_norm(self.model.parameters())
            self.optimizer.step(optim.clip_scale(norm, 1.0))  # also clips
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return np.array([loss.item()])


class Eager(Side):
    """Eager PyTorch, channels last; bfloat16 by autocast in training."""

    def build(self) -> None:
        try:
            import torch
        except ImportError:
            raise Unavailable("torch is not installed") from None
        from benchmarks.peers.torch_bert import adamw
        from benchmarks.peers.torch_images import peer_of

        torch.set_num_threads(self.threads)
        self.torch = torch
        model = peer_of(self.sizes, self.weights()).train(self.trains)
        if self.bf16 and not self.trains:
            model = model.bfloat16()
        self.model = model.to(memory_format=torch.channels_last)
        if not self.trains:
            return
        self.optimizer: Any = (
            adamw(model, ADAM_RATE)
            if self.transformer
            else torch.optim.SGD(
                model.parameters(), RATE, MOMENTUM, weight_decay=PENALTY, fused=True
            )
        )

    def prepare(self, pixels: np.ndarray, labels: np.ndarray) -> Any:
        x = self.torch.from_numpy(pixels)
        if self.bf16 and not self.trains:
            x = x.bfloat16()
        x = x.contiguous(memory_format=self.torch.channels_last)
        return x, self.torch.from_numpy(labels)

    def run(self, batch: Any) -> np.ndarray:
        torch, (x, labels) = self.torch, batch
        if not self.trains:
            with torch.no_grad():
                return self.model(x).float().numpy()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            logits = self.model(x)
            loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        if self.transformer:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return np.array([loss.item()])


class OpenVino(Side):
    """OpenVINO's CPU plugin on the peer's network, with a precision hint."""

    def build(self) -> None:
        try:
            import openvino
            import torch
        except ImportError as error:
            raise Unavailable(f"it needs another package: {error}") from None
        from benchmarks.peers.torch_images import peer_of

        if self.trains:
            raise Unavailable("OpenVINO does not train")
        peer = peer_of(self.sizes, self.weights()).eval()
        side = self.sizes["image_size"]
        shape = [self.request["batch"], 3, side, side]
        model = openvino.convert_model(
            peer, example_input=torch.zeros(shape), input=[shape]
        )
        hints = {
            "INFERENCE_PRECISION_HINT": "bf16" if self.bf16 else "f32",
            "INFERENCE_NUM_THREADS": self.threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        compiled = openvino.Core().compile_model(model, "CPU", hints)
        self.infer = compiled.create_infer_request()

    def run(self, batch: Any) -> np.ndarray:
        found = self.infer.infer([batch[0]], share_inputs=True)
        return np.array(next(iter(found.values())), np.float32)


ENGINES: dict[str, type[Side]] = {"ours": Ours, "torch": Eager, "openvino": OpenVino}

"""The contenders of inference: one class each, from the same weights and batches.

``prepare(ids, lengths)`` converts a batch to the side's form and is not timed;
``run(batch)`` returns the logits. Each side runs in its own process (worker.py), since
the OpenMP and TBB runtimes of several libraries in one process disturb each other.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import Shape


class Unavailable(Exception):
    """This side cannot take part; the message says why."""


class Engine:
    """Common parts: the request, and batches with or without padding."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.shape = Shape(**request["shape"])
        self.bf16 = request["dtype"] == "bfloat16"
        self.threads, self.padded = request["threads"], request["padded"]
        self.request = request
        self.build()

    def build(self) -> None:
        """Builds the model."""

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the common weights, float32."""
        with np.load(self.request["weights"]) as found:
            return dict(found)

    def mask(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Returns the mask [B, T]: 1 at tokens."""
        return (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)

    def prepare(self, ids: np.ndarray, lengths: np.ndarray) -> Any:
        """Returns the batch in this side's form."""
        return [ids, self.mask(ids, lengths)] if self.padded else [ids]

    def run(self, batch: Any) -> np.ndarray:
        """Returns the logits [B, labels]."""
        raise NotImplementedError


class Ours(Engine):
    """This package; sequences of different lengths are packed without padding."""

    def build(self) -> None:
        import evolving_attention as ea
        from benchmarks.models import our_model

        ea.set_num_threads(self.threads)
        self.no_grad = ea.no_grad
        self.model = our_model(self.shape, self.request["dtype"])
        weights = self.weights()
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])
        self.model.eval()

    def prepare(self, ids: np.ndarray, lengths: np.ndarray) -> Any:
        if not self.padded:
            return {"input_ids": ids}
        flat = np.concatenate([row[:n] for row, n in zip(ids, lengths, strict=True)])
        offsets = np.cumsum([0, *lengths])
        return {"input_ids": flat, "sequence_offsets": offsets}

    def run(self, batch: Any) -> np.ndarray:
        with self.no_grad():
            return np.asarray(self.model(**batch).logits.numpy(), np.float32)


class Eager(Engine):
    """Eager PyTorch; bfloat16 weights for bfloat16."""

    def build(self) -> None:
        try:
            import torch
        except ImportError:
            raise Unavailable("torch is not installed") from None
        from benchmarks.peers.torch_bert import BertClassifier, Logits

        torch.set_num_threads(self.threads)
        self.torch = torch
        model = BertClassifier(self.shape)
        state = {k: torch.from_numpy(v) for k, v in self.weights().items()}
        model.load_state_dict(state, strict=True)
        self.model: Any = Logits(model.bfloat16() if self.bf16 else model)

    def prepare(self, ids: np.ndarray, lengths: np.ndarray) -> Any:
        return [self.torch.from_numpy(a) for a in super().prepare(ids, lengths)]

    def run(self, batch: Any) -> np.ndarray:
        with self.torch.no_grad():
            return self.model(*batch).float().numpy()


class Compiled(Eager):
    """torch.compile with weights frozen into the graph; dynamic shapes if they vary."""

    def build(self) -> None:
        super().build()
        import torch._inductor.config as inductor

        inductor.freezing = True
        self.model = self.torch.compile(self.model, dynamic=self.padded)


class OnnxRuntime(Engine):
    """ONNX Runtime's CPU provider on the exported graph, all optimizations enabled."""

    def build(self) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise Unavailable("onnxruntime is not installed") from None
        if self.bf16:
            raise Unavailable("ONNX Runtime's x86 CPU provider has no bfloat16 model")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.log_severity_level = 3
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.graph_optimization_level = level
        path, providers = graph(self.request), ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(path, options, providers=providers)
        self.names = [i.name for i in self.session.get_inputs()]

    def run(self, batch: Any) -> np.ndarray:
        return self.session.run(None, dict(zip(self.names, batch, strict=True)))[0]


class OpenVino(Engine):
    """OpenVINO's CPU plugin on the exported graph, with a precision hint."""

    def build(self) -> None:
        try:
            import openvino
        except ImportError:
            raise Unavailable("openvino is not installed") from None
        hints = {
            "INFERENCE_PRECISION_HINT": "bf16" if self.bf16 else "f32",
            "INFERENCE_NUM_THREADS": self.threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        core = openvino.Core()
        model = core.compile_model(core.read_model(graph(self.request)), "CPU", hints)
        self.infer = model.create_infer_request()

    def run(self, batch: Any) -> np.ndarray:
        found = self.infer.infer(batch, share_inputs=True)
        return np.array(next(iter(found.values())), np.float32)


class CTranslate2(Engine):
    """CTranslate2's BERT encoder and pooler; the classifier's product in NumPy."""

    def build(self) -> None:
        try:
            import ctranslate2
        except ImportError:
            raise Unavailable("ctranslate2 is not installed") from None
        if self.shape.alpha is not None:
            raise Unavailable("CTranslate2 has no evolving attention")
        if self.bf16 and "bfloat16" not in ctranslate2.get_supported_compute_types(
            "cpu"
        ):
            raise Unavailable("CTranslate2 has no bfloat16 on this CPU")
        self.library, weights = ctranslate2, self.weights()
        self.head = weights["classifier.weight"], weights["classifier.bias"]
        with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
            translated(self.shape, weights, folder)
            self.encoder = ctranslate2.Encoder(
                folder,
                compute_type="bfloat16" if self.bf16 else "float32",
                inter_threads=1,
                intra_threads=self.threads,
            )

    def prepare(self, ids: np.ndarray, lengths: np.ndarray) -> Any:
        view = self.library.StorageView.from_array
        # CTranslate2 takes the segments as lists; all are 0 here, as for every side.
        return (
            view(ids.astype(np.int32)),
            view(lengths.astype(np.int32)),
            np.zeros_like(ids).tolist(),
        )

    def run(self, batch: Any) -> np.ndarray:
        pooled = self.encoder.forward_batch(*batch).pooler_output
        return np.array(pooled) @ self.head[0].T + self.head[1]


ENGINES: dict[str, type[Engine]] = {
    "ours": Ours,
    "torch eager": Eager,
    "torch.compile": Compiled,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "ctranslate2": CTranslate2,
}


def graph(request: dict[str, Any]) -> str:
    """Returns the path of the exported graph; raises Unavailable if there is none."""
    if not Path(request["onnx"]).exists():
        raise Unavailable("the model could not be exported to ONNX (torch and onnx)")
    return request["onnx"]


def export(request: dict[str, Any]) -> None:
    """Writes the peer's model as ONNX; with a mask and free sizes if padded."""
    import torch

    engine = Eager(request | {"dtype": "float32"})
    length = min(16, engine.shape.positions)
    ids = torch.ones(request.get("example", [2, length]), dtype=torch.int64)
    free = {"ids": {0: "batch", 1: "length"}, "tokens": {0: "batch", 1: "length"}}
    torch.onnx.export(
        engine.model,
        (ids, torch.ones_like(ids)) if engine.padded else (ids,),
        request["onnx"],
        input_names=["ids", "tokens"] if engine.padded else ["ids"],
        output_names=["logits"],
        dynamic_axes=free if engine.padded else None,
        opset_version=17,
        dynamo=False,
    )


def translated(shape: Shape, weights: dict[str, np.ndarray], folder: str) -> None:
    """Writes the weights as a CTranslate2 model."""
    try:
        import torch
        import transformers
        from ctranslate2.converters.transformers import BertLoader
    except ImportError as error:
        raise Unavailable(f"CTranslate2's converter needs it: {error}") from None
    config = transformers.BertConfig(**shape.config())
    config.position_embedding_type = "absolute"
    model = transformers.BertModel(config).eval()
    inside = {k.removeprefix("bert."): v for k, v in weights.items() if "bert." in k}
    model.load_state_dict({k: torch.from_numpy(v) for k, v in inside.items()})
    with torch.no_grad():
        spec = BertLoader().get_model_spec(model)
    spec.register_vocabulary([f"<{i}>" for i in range(shape.vocabulary)])
    spec.config.unk_token = "<0>"
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    spec.validate()
    spec.optimize()
    spec.save(folder)

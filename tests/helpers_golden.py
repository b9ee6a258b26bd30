"""Golden outputs of saved models: their results must not change.

``tests/golden`` holds folders written by ``save_pretrained``, with bfloat16 weights,
which every element type represents exactly. Next to the weights is ``expected.json``:
the model's results in float64 without dropout.

    python tests/helpers_golden.py bits FILE    hash the bits of all outputs
    python tests/helpers_golden.py write        draw and record cases without a folder

The hashes differ between machines: compare two versions on the same machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import helpers_models
import helpers_series
import numpy as np

import evolving_attention as ea
from evolving_attention import functional as F
from evolving_attention import modeling

GOLDEN = Path(__file__).parent / "golden"
DTYPES = ("float32", "bfloat16", "float64")
EVOLVING = {"kind": "evolving", "alpha": 0.3, "beta": 0.4}
TEXT_SIZES = {
    "hidden_size": 16,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 14,
    **helpers_models.NO_DROPOUT,
}
SERIES_SIZES = {
    "num_attention_heads": 4,
    "attention_ratio": 0.5,
    "intermediate_size": 12,
    "max_length": 9,
    **helpers_models.NO_DROPOUT,
}


@ea.attention.register("golden_gate")
@dataclass(frozen=True)
class GoldenGate(ea.attention.CustomEvolve):
    """A kind written in Python: I = M + gate S; the softmax reads ReLU(I) + S."""

    start: float = 0.5

    def parameters(self, layer: int, num_heads: int) -> dict[str, np.ndarray]:
        weight = np.eye(num_heads) * self.start + layer / 8
        return {"gate": weight.reshape(num_heads, num_heads, 1, 1)}

    def step(self, scores: Any, previous: Any, context: Any) -> Any:
        bias = ea.Tensor(np.zeros(context.num_heads).astype(scores.dtype))
        gated = F.map_conv(scores, context.parameters["gate"], bias, context.packing)
        if previous is not None:
            gated = F.axpby(1.0, previous, 1.0, gated)
        return F.axpby(1.0, F.relu(gated), 1.0, scores), gated


def text(attention: Any, head: str = "ForSequenceClassification", **options: Any):
    return "Bert" + head, {"attention": attention, **options}


def roberta(attention: Any, head: str = "ForSequenceClassification", **options: Any):
    return "Roberta" + head, {"attention": attention, **options}


def series(head: str = "ForClassification", **options: Any):
    return "EADCTransformer" + head, options


CASES = {
    "bert-vanilla": text(None, num_labels=3),
    "bert-evolving": text(EVOLVING),
    "bert-evolving-beta-0": text({**EVOLVING, "beta": 0.0}),
    "bert-evolving-alpha-0": text({**EVOLVING, "alpha": 0.0}),
    "bert-evolving-kernel-1": text({**EVOLVING, "kernel_size": 1}),
    "bert-evolving-kernel-5": text({**EVOLVING, "kernel_size": 5}, num_labels=1),
    "bert-residual": text("residual", "Model"),
    "bert-predictive": text({"kind": "predictive", "alpha": 0.3}),
    "bert-python-kind": text("golden_gate"),
    "bert-pretraining": text(EVOLVING, "ForPreTraining", hidden_act="gelu_new"),
    "roberta-vanilla": roberta(None),
    "roberta-evolving": roberta(EVOLVING, "ForMaskedLM"),
    "roberta-residual": roberta({"kind": "residual", "running_mean": True}),
    "roberta-predictive": roberta(
        {"kind": "predictive", "alpha": 0.6, "num_layers": 2}, hidden_act="relu"
    ),
    "series-vanilla": series(attention=None),
    "series-evolving": series(relative="learned", norm="layer"),
    "series-released": series(released_behaviour=True, pooling="mean"),
    "series-attention": series("ForRegression", attention_ratio=1.0, norm="layer"),
    "series-residual": series("Model", attention="residual", causal=False),
    "series-predictive": series(
        "ForPretraining", attention={"kind": "predictive", "alpha": 0.3}
    ),
}
"""Folder: the class that it holds, and its options."""
ASKED = {
    "output_hidden_states": True,
    "output_attentions": True,
    "output_attention_logits": True,
}


def class_of(case: str) -> Any:
    return getattr(modeling, CASES[case][0])


def load(case: str, dtype: str) -> Any:
    return class_of(case).from_pretrained(GOLDEN / case, dtype=dtype)


def inputs_of(case: str, model: Any) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Returns a labelled batch, packed and padded, and the mask of the padded one."""
    extra = 0 if case.startswith("series") else 2
    if case.startswith("series"):
        batch = helpers_series.draw()
        packed = {**batch.packed(), **helpers_series.targets_for(model, batch)}
        valid = batch.valid(extra)
        padded = helpers_series.pad_masked({**packed, **batch.padded(extra)}, valid)
    else:
        batch = helpers_models.draw(architecture=model.config.model_type)
        packed = batch.packed()
        labels = helpers_models.labels_for(model, batch)
        if labels is not None:
            packed["labels"] = labels
        if model.head == "pretraining":
            packed["next_sentence_label"] = np.arange(len(batch.ids)) % 2
        valid = batch.valid(extra)
        padded = {**packed, **batch.padded(extra)}
        if labels is not None and len(labels) == valid.sum():
            padded["labels"] = helpers_models.pad_labels(labels, valid)
    del padded["sequence_offsets"]
    return packed, padded, valid


def passes(case: str, model: Any) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yields (name of the call, arrays by name) of every recorded call.

    All calls give the same numbers: padding rows are removed from their results.
    """
    packed, padded, valid = inputs_of(case, model)
    start = {name: value.copy() for name, value in model.state_dict().items()}
    calls = {"packed": packed, "padded": padded}
    for name, inputs in calls.items():
        yield name, _trained(model, start, {**inputs, **ASKED}, valid)
    yield "plain", _trained(model, start, packed, valid)
    model.load_state_dict(start)
    with ea.no_grad():
        evaluated = helpers_models.arrays_of(model.eval()(**packed))
    yield "eval", {f"eval.{key}": value for key, value in evaluated.items()}


def _trained(
    model: Any, start: dict[str, Any], inputs: dict[str, Any], valid: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns outputs, gradients and running statistics of one training step."""
    model.load_state_dict(start)
    out, gradients = helpers_models.run(model.train(), **inputs)
    longest = int(valid.sum(1).max())
    for key, value in out.items():
        if key.startswith("attention"):
            out[key] = value[..., :longest, :longest]
        elif value.shape[:2] == valid.shape:
            out[key] = value[valid]
    found = {**out, **{f"gradient.{key}": g for key, g in gradients.items()}}
    buffers = model.named_buffers()
    return found | {f"buffer.{key}": np.array(value) for key, value in buffers}


def recorded(name: str, value: np.ndarray) -> np.ndarray:
    """Returns the content of expected.json: small outputs whole, else a digest."""
    wide = value.astype(np.float64)
    return wide if _is_whole(name, value) else digest(wide)


def scale_of(name: str, value: np.ndarray) -> float:
    """Returns the scale for errors of :func:`recorded`."""
    wide = value.astype(np.float64)
    return float(np.abs(wide).max() if _is_whole(name, value) else np.linalg.norm(wide))


def _is_whole(name: str, value: np.ndarray) -> bool:
    return name.endswith(("loss", "logits")) and value.size < 50


def digest(array: np.ndarray) -> np.ndarray:
    """Returns the norm and two projections; they (nearly) identify the array.

    The directions are drawn from raw bits, so they do not depend on NumPy's version.
    """
    flat = array.ravel()
    bits = np.random.PCG64(flat.size).random_raw(2 * flat.size)
    directions = (bits.reshape(2, -1) >> np.uint64(11)) / 2.0**52 - 1
    return np.array([np.linalg.norm(flat), *(directions @ flat)])


def expected(case: str) -> dict[str, Any]:
    return json.loads((GOLDEN / case / "expected.json").read_text(encoding="utf-8"))


def write() -> None:
    """Draws and records the cases that have no folder."""
    for case, (name, options) in CASES.items():
        if (GOLDEN / case).exists():
            continue
        of_series = case.startswith("series")
        tiny = helpers_series.tiny if of_series else helpers_models.tiny
        sizes = SERIES_SIZES if of_series else TEXT_SIZES
        model = tiny(name, dtype="bfloat16", **{**sizes, **options})
        if of_series:
            _stir(model)
        model.save_pretrained(GOLDEN / case)
        found: dict[str, Any] = {}
        for _, arrays in passes(case, load(case, "float64")):
            for key, value in arrays.items():
                found.setdefault(key, recorded(key, value).tolist())
        lines = (f"{json.dumps(key)}: {json.dumps(v)}" for key, v in found.items())
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (GOLDEN / case / "expected.json").write_text(text, encoding="utf-8")


def _stir(model: Any) -> None:
    """Draws weights that no batch norm enlarges, and running statistics to read."""
    rng = np.random.default_rng(3)
    for _, tensor in model.named_parameters():
        if tensor.ndim > 1:
            shift = rng.normal(0.0, 0.15, tensor.shape)
            tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
    model(**helpers_series.draw(seed=7).packed())


def bits() -> dict[str, str]:
    """Returns a hash of every output of every case, element type and call."""
    return {
        f"{case} {dtype} {call} {name}": hashlib.sha256(
            f"{value.dtype} {value.shape}".encode() + value.tobytes()
        ).hexdigest()[:16]
        for case in CASES
        for dtype in DTYPES
        for call, arrays in passes(case, load(case, dtype))
        for name, value in sorted(arrays.items())
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["bits", "write"])
    parser.add_argument("file", nargs="?", type=Path)
    given = parser.parse_args()
    if given.what == "write":
        write()
    elif given.file is None:
        parser.error("bits: name the file to write")
    else:
        given.file.write_text(json.dumps(bits(), indent=0) + "\n", encoding="utf-8")

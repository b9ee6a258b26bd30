"""``ea.export_onnx``: a text model as an ONNX file."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.device_names import host_array
from evolving_attention.durable import write_bytes
from evolving_attention.errors import ConfigError
from evolving_attention.export.graph import OPSET, Graph
from evolving_attention.export.text import TextGraph

_IR_VERSION = 8  # IR version of ONNX 1.10 to 1.12; runtimes since 2022 can read it
_LARGEST = 2**31 - 2**20  # maximum bytes of one protobuf message
_TEXT = ("bert", "roberta")


def export_onnx(model: Any, path: str | os.PathLike[str]) -> Path:
    """Exports a BERT or RoBERTa model to ONNX, vanilla or evolving, in float32.

    The graph takes padded batches of any size and length, int64 [batch, length]:
    ``input_ids``, ``attention_mask`` and, if the model has more than one segment,
    ``token_type_ids``. Its outputs are those of the model's call in evaluation mode
    (``logits``; ``last_hidden_state`` and ``pooler_output``), equal within float32
    rounding: 1e-5 of the largest value. The tokens of a row must be contiguous, with
    padding on the left or the right. For a multiple-choice model the rows are the
    choices of one question.

    Args:
        model: a model with dot products, dense attention and a kind of the core in each
            layer.
        path: path of the new file, such as ``model.onnx``.

    Returns:
        The path.

    Raises:
        ConfigError: the model, or a slot of its attention, has no ONNX form; the model
            is too large for one file; or ``onnx`` is not installed.

    Example::

        >>> ea.export_onnx(model, "model.onnx")
        >>> session = onnxruntime.InferenceSession("model.onnx")
        >>> batch = tokenizer(texts, padding=True, return_tensors="np")
        >>> logits, = session.run(["logits"], dict(batch))
    """
    onnx = _onnx()
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if kind not in _TEXT:
        raise ConfigError(
            f"export_onnx: a {type(model).__name__} has no ONNX form; expected a model "
            f"of text: {', '.join(_TEXT)}"
        )
    arrays = {
        name: np.asarray(host_array(tensor), np.float32)
        for name, tensor in model.named_parameters()
    }
    if sum(array.nbytes for array in arrays.values()) > _LARGEST:
        raise ConfigError(
            "export_onnx: the model has more than 2 GiB, the most one ONNX file holds"
        )
    graph = Graph(onnx.helper, onnx.numpy_helper, arrays)
    text = TextGraph(graph, model)
    text.build()
    made = _model(onnx, graph, text)
    onnx.checker.check_model(made)
    target = Path(path)
    write_bytes(target, made.SerializeToString())
    return target


def _onnx() -> Any:
    try:
        onnx = importlib.import_module("onnx")
        for name in ("checker", "helper", "numpy_helper"):
            importlib.import_module(f"onnx.{name}")
    except ImportError as error:
        raise ConfigError(
            "export_onnx needs onnx, which is not installed; "
            "pip install 'evolving-attention[onnx]'"
        ) from error
    return onnx


def _model(onnx: Any, graph: Graph, text: TextGraph) -> Any:
    helper, types = onnx.helper, onnx.TensorProto
    made = helper.make_graph(
        graph.nodes,
        "evolving_attention",
        [
            helper.make_tensor_value_info(name, types.INT64, ["batch", "length"])
            for name in text.inputs
        ],
        [
            helper.make_tensor_value_info(name, types.FLOAT, axes)
            for name, axes in text.outputs.items()
        ],
        list(graph.constants.values()),
    )
    return helper.make_model(
        made,
        producer_name="evolving-attention",
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )

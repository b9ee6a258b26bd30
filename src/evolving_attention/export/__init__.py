"""Exports models to files for other runtimes: ONNX."""

from evolving_attention.export.onnx import export_onnx

__all__ = ["export_onnx"]
